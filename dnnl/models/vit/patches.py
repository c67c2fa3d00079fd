"""Images to flat patches and back: rearrangement alone, without parameters."""

from torch import Tensor

from dnnl.models.vit.checks import ShapeError, Size, as_pair, check_dims, format_size, grid_shape


def patchify(x: Tensor, patch_size: Size) -> Tensor:
    """Cut images into flattened patches.

    Patches come row by row; inside a patch the order is channel, row, column, which is the order
    of ``torch.nn.functional.unfold`` and of a convolution's weight.

    Args:
        x: images ``(B, C, H, W)`` of any dtype.
        patch_size: ``P`` or ``(P_h, P_w)``, in pixels; it must divide ``(H, W)``.

    Returns:
        Tensor: patches ``(B, N, C * P_h * P_w)`` with ``N = (H / P_h) * (W / P_w)``. Like the
        result of ``reshape`` it may share memory with ``x``: clone it before you write into it.

    Raises:
        ShapeError: if ``x`` is not ``(B, C, H, W)`` or the patch does not divide the image.

    Source: arXiv:2010.11929, section 3.1.
    """
    check_dims(x, "(B, C, H, W)", "images")
    b, c, h, w = x.shape
    ph, pw = as_pair(patch_size, "patch_size")
    gh, gw = grid_shape((h, w), (ph, pw))
    x = x.reshape(b, c, gh, ph, gw, pw).permute(0, 2, 4, 1, 3, 5)  # (B, gh, gw, C, ph, pw)
    return x.flatten(3).flatten(1, 2)


def unpatchify(p: Tensor, patch_size: Size, grid_size: Size) -> Tensor:
    """Put flattened patches back into images: the exact inverse of :func:`patchify`.

    Args:
        p: patches ``(B, N, C * P_h * P_w)`` of any dtype.
        patch_size: ``P`` or ``(P_h, P_w)``, in pixels.
        grid_size: the grid ``(rows, columns)`` that the ``N`` patches fill; an ``int`` is a square.

    Returns:
        Tensor: images ``(B, C, rows * P_h, columns * P_w)``. Like the result of ``reshape`` it may
        share memory with ``p``.

    Raises:
        ShapeError: if the grid does not hold ``N`` patches, or if the length of a patch is not a
            multiple of ``P_h * P_w``.
    """
    check_dims(p, "(B, N, C*P*P)", "patches")
    b, n, length = p.shape
    ph, pw = as_pair(patch_size, "patch_size")
    gh, gw = as_pair(grid_size, "grid_size")
    if n != gh * gw:
        raise ShapeError(
            f"Expected {gh * gw} patches for a grid of {format_size((gh, gw))}, but got {n}."
        )
    if length % (ph * pw):
        raise ShapeError(
            f"Expected patches whose length is divisible by {ph * pw} "
            f"({format_size((ph, pw))} pixels), but got {length}."
        )
    c = length // (ph * pw)
    p = p.reshape(b, gh, gw, c, ph, pw).permute(0, 3, 1, 4, 2, 5)
    return p.reshape(b, c, gh * ph, gw * pw)
