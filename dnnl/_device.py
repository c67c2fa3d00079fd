"""The choice of a device, in one place, so that a page runs unchanged on any machine."""

import os
from collections.abc import Callable

import torch

_AVAILABLE: dict[str, Callable[[], bool]] = {
    "cpu": lambda: True,
    "cuda": torch.cuda.is_available,
    "mps": torch.backends.mps.is_available,
    "xpu": torch.xpu.is_available,
}


def device(name: str | torch.device | None = None) -> torch.device:
    """Return the device to compute on.

    On a GPU this also asks cuDNN for full float32 convolutions in place of TF32, whose 10-bit
    mantissa would show in the digits that the pages print.

    Args:
        name: ``"cpu"``, ``"cuda"``, ``"mps"``, ``"xpu"`` or ``"auto"`` (the first accelerator that
            is present, else the CPU); or a ``torch.device``, which may have an index. By default
            the environment variable ``DNNL_DEVICE``, or ``"auto"`` where it is unset or empty.

    Returns:
        torch.device: a device on which a tensor can be made now.

    Raises:
        ValueError: for another name or kind of device.
        RuntimeError: if that device is absent from this machine or from this build of torch.
    """
    asked = name if name is not None else os.environ.get("DNNL_DEVICE") or "auto"
    source = "" if name is not None else " (from the environment variable DNNL_DEVICE)"
    kind = asked.type if isinstance(asked, torch.device) else str(asked).strip().lower()
    if kind == "auto":
        kind = next((k for k in ("cuda", "mps", "xpu") if _AVAILABLE[k]()), "cpu")
    if kind not in _AVAILABLE:
        choices = ", ".join([*_AVAILABLE, "auto"])
        raise ValueError(f"Expected one of {choices} as a device, but got {str(asked)!r}{source}.")
    chosen = asked if isinstance(asked, torch.device) else torch.device(kind)
    count = getattr(torch, kind).device_count()
    if not _AVAILABLE[kind]() or (chosen.index is not None and 0 < count <= chosen.index):
        raise RuntimeError(
            f"The device {str(chosen)!r}{source} is absent here: torch {torch.__version__} sees no "
            "such hardware. Choose 'cpu' or 'auto'."
        )
    if kind == "cuda":
        torch.backends.cudnn.allow_tf32 = False
    return chosen
