"""Images to flat patches and back: rearrangement alone, without parameters."""

from torch import Tensor

from dnnl.models.vit.errors import ShapeError, Size, check_dims, divide, pair, sizes, times


def patchify(x: Tensor, patch_size: Size) -> Tensor:
    """Cut images into flattened patches.

    Patches come row by row; inside a patch the order is channel, row, column, which is the order
    of ``torch.nn.functional.unfold`` and of a convolution's weight.

    Args:
        x: images ``(B, C, H, W)`` of any dtype.
        patch_size: ``P`` or ``(P_h, P_w)``, in pixels; it must divide ``(H, W)``.

    Returns:
        Tensor: patches ``(B, N, C * P_h * P_w)`` with ``N = (H / P_h) * (W / P_w)``.

    Raises:
        ShapeError: if ``x`` is not ``(B, C, H, W)`` or the patch does not divide the image.

    Source: arXiv:2010.11929, section 3.1.
    """
    check_dims(x, "(B, C, H, W)", "images")
    return cut(x, pair(patch_size, "patch_size")).flatten(3).flatten(1, 2)


def cut(x: Tensor, patch: tuple[int, int]) -> Tensor:
    """Return images ``(B, C, H, W)`` as a view ``(B, rows, columns, C, P_h, P_w)``, if they can."""
    (_, c, h, w), (ph, pw) = sizes(x), patch
    gh, gw = divide((h, w), patch, "an image size")
    return x.reshape(x.shape[0], c, gh, ph, gw, pw).permute(0, 2, 4, 1, 3, 5)


def unpatchify(p: Tensor, patch_size: Size, grid_size: Size) -> Tensor:
    """Put flattened patches back into images: the exact inverse of :func:`patchify`.

    Args:
        p: patches ``(B, N, C * P_h * P_w)`` of any dtype.
        patch_size: ``P`` or ``(P_h, P_w)``, in pixels.
        grid_size: the grid ``(rows, columns)`` that the ``N`` patches fill; an ``int`` is a square.

    Returns:
        Tensor: images ``(B, C, rows * P_h, columns * P_w)``.

    Raises:
        ShapeError: if the grid does not hold ``N`` patches, or a patch no whole number of channels.
    """
    check_dims(p, "(B, N, C*P*P)", "patches")
    b, (_, n, length) = p.shape[0], sizes(p)
    ph, pw = pair(patch_size, "patch_size")
    gh, gw = pair(grid_size, "grid_size")
    if n != gh * gw:
        raise ShapeError(
            f"Expected {gh * gw} patches for a grid of {times((gh, gw))}, but got {n}."
        )
    if length % (ph * pw):
        raise ShapeError(
            f"Expected patches whose length is divisible by {ph * pw} ({times((ph, pw))} pixels), "
            f"but got {length}."
        )
    c = length // (ph * pw)
    p = p.reshape(b, gh, gw, c, ph, pw).permute(0, 3, 1, 4, 2, 5)
    return p.reshape(b, c, gh * ph, gw * pw)
