"""A second device on a machine that has one: it holds no numbers, but mixing it up is an error.

Run as a program, this file passes modules of the package through the fake device and prints what
went wrong, as JSON: ``python tests/fakegpu.py``. It renames a device of torch for the whole
process, hence the process of its own.
"""

import json
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.backend_registration
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map_only

import dnnl.models.vit as vit


class _Backend:
    """What torch asks of a backend before it makes a tensor there."""

    is_initialized = staticmethod(lambda: False)
    is_available = staticmethod(lambda: True)
    current_device = staticmethod(lambda: 0)
    device_count = staticmethod(lambda: 1)


torch.utils.backend_registration._setup_privateuseone_for_python_backend(
    "fakegpu", backend_module=_Backend
)
DEVICE = torch.device("fakegpu:0")


def move(tensor: Tensor) -> Tensor:
    """Return a tensor of the same shape, strides and dtype on the fake device."""
    return torch.empty_strided(
        tensor.shape,
        tensor.stride(),
        dtype=tensor.dtype,
        device=DEVICE,
        requires_grad=tensor.requires_grad,
    )


def run(function: Callable[..., Any], *inputs: Any, module: nn.Module | None = None) -> Any:
    """Call ``function(*inputs)``, the inputs and the module's tensors being on the fake device.

    Raises:
        RuntimeError: as torch does, where it meets a tensor that was left on the CPU.
        AssertionError: if an output, or a parameter's gradient, is elsewhere.
    """
    # Outside of the mode a parameter is a real one; a constant made inside a module is a fake one
    # on the CPU, and torch refuses to mix the two devices.
    with FakeTensorMode(allow_non_fake_inputs=True):
        state = {}
        if module is not None:
            state = {n: move(t) for n, t in [*module.named_parameters(), *module.named_buffers()]}
        inputs = tree_map_only(Tensor, move, inputs)
        if module is None:
            out = function(*inputs)
        else:
            out = torch.func.functional_call(module, state, inputs)
        outputs = [t for t in tree_leaves(out) if isinstance(t, Tensor)]
        assert outputs, "no tensor came out"
        for t in outputs:
            assert t.device == DEVICE, f"an output was left on {t.device}"
        if any(t.requires_grad for t in outputs):
            sum(t.sum() for t in outputs).backward()
            for name, t in state.items():
                if t.requires_grad:
                    assert t.grad is not None, f"no gradient reached {name}"
                    assert t.grad.device == DEVICE, f"the gradient of {name} is on {t.grad.device}"
        return out


class LeftBehind(nn.Module):
    """A control: a class token that is no parameter stays where it was made."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([torch.zeros(x.shape[0], 1, 8), x * self.scale], dim=1)


class MadeThere(LeftBehind):
    """The control's control: made on the device of its input it is right."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.new_zeros(x.shape[0], 1, 8), x * self.scale], dim=1)


def _embedding(**options: Any) -> nn.Module:
    return vit.ViTEmbedding(16, 4, 3, 8, **options)


def _classifier(**options: Any) -> nn.Module:
    return vit.ViTForImageClassification(16, 4, 3, 5, 8, 2, 2, 16, **options)


def _hybrid() -> nn.Module:
    cnn = nn.Sequential(nn.Conv2d(3, 4, 2, stride=2), nn.BatchNorm2d(4))
    return vit.ViTHybridPatchEmbedding(cnn, 16, 2, 3, 8)


def cases() -> dict[str, Callable[[], Any]]:
    """Name everything that is to run on the fake device."""
    image, other, tokens = torch.randn(2, 3, 16, 16), torch.randn(2, 3, 8, 24), torch.randn(2, 9, 8)
    table = torch.randn(1, 17, 8, requires_grad=True)
    modules = {
        "control-left-behind": (LeftBehind(), tokens),
        "control-made-there": (MadeThere(), tokens),
        "linear": (vit.ViTLinearPatchEmbedding(16, 4, 3, 8), image),
        "conv": (vit.ViTConvPatchEmbedding(16, 4, 3, 8), image),
        "hybrid": (_hybrid(), image),
        "class-token": (vit.ViTAddClassToken(8, 3), tokens),
        "positions": (vit.ViTPositionalEmbedding(8, 8), tokens),
        "embedding": (_embedding(), image),
        "embedding-no-prefix": (_embedding(num_prefix_tokens=0), image),
        "embedding-dropout": (_embedding(dropout=0.5), image),
        "dynamic": (_embedding(dynamic_image_size=True), other),
        "fused": (vit.fuse(_classifier()), image),
        "encoder": (vit.ViTEncoder(8, 2, 2, 16, 0.5, 0.5), tokens),
        "mean": (_classifier(pool="mean"), image),
        "max": (_classifier(pool="max"), image),
        "distilled": (_classifier(distillation=True), image),
        "bfloat16": (_classifier().bfloat16(), image.bfloat16()),
    }
    functions = {
        "patchify": (vit.patchify, image, 4),
        "unpatchify": (vit.unpatchify, torch.randn(2, 16, 48), 4, 4),
        "interpolate": (vit.interpolate_pos_embedding, table, 4, (2, 6)),
        "interpolate-identity": (vit.interpolate_pos_embedding, table, 4, 4),
        "interpolate-half": (vit.interpolate_pos_embedding, table.half(), 4, (2, 6)),
    }
    named: dict[str, Callable[[], Any]] = {}
    for name, (module, x) in modules.items():
        named[name] = lambda module=module, x=x: run(module, x, module=module)
    for name, (function, *arguments) in functions.items():
        named[name] = lambda f=function, a=tuple(arguments): run(f, *a)
    return named


def main() -> None:
    """Print, for every case, what went wrong, or null."""
    result: dict[str, str | None] = {}
    for name, case in cases().items():
        try:
            case()
            result[name] = None
        except Exception as error:  # whatever it is, the test is to show it
            result[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(result))


if __name__ == "__main__":
    main()
