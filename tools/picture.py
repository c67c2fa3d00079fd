"""Copy the first figure of the opening page to the README's picture.

    python tools/picture.py [--check]

Part of ``make execute``: the picture is what the cell computed, not a drawing that could grow old.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "chapters" / "en" / "index.ipynb"
PICTURE = ROOT / "_static" / "pipeline.png"


def first_figure(page: Path) -> bytes:
    """Return the first PNG among the stored outputs of a notebook."""
    for cell in json.loads(page.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            if png := output.get("data", {}).get("image/png"):
                return base64.b64decode(png)
    raise SystemExit(f"{page.name} has no figure: run `make execute`")


def main(argv: list[str]) -> int:
    png = first_figure(PAGE)
    if argv == ["--check"]:
        return int(not PICTURE.is_file() or PICTURE.read_bytes() != png)
    PICTURE.write_bytes(png)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
