"""Optional dependencies: an import that fails says which extra of the package to install."""

from collections.abc import Iterator
from contextlib import contextmanager

# Where the name on the package index is not the name of the module.
_DISTRIBUTIONS = {"PIL": "pillow", "skimage": "scikit-image", "sklearn": "scikit-learn"}


@contextmanager
def needs_extra(extra: str, user: str) -> Iterator[None]:
    """Import optional packages inside this context; if one is absent, name the extra to install.

    Contexts nest: the outermost one is what a reader asked for, and its message is raised.

    Args:
        extra: an extra of this package that brings what the context imports, such as ``"book"``.
        user: what needs those packages, such as ``"dnnl.figures"``.

    Raises:
        ModuleNotFoundError: if a package that is not part of dnnl is absent.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "dnnl"):
            raise
        package = _DISTRIBUTIONS.get(package, package)
        raise ModuleNotFoundError(
            f'{user} needs {package}: pip install "dnnl[{extra}]"', name=error.name
        ) from error
