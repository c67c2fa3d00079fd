"""Build the notebooks with stock Jupyter Book, for the comparison of `make bench-site`.

    python tools/stock_site.py FOLDER

The settings are those of the book without its extension. Files that a stock page loads from CDNs
are put beside it, so that it can be measured without a network; from a CDN they would come more
slowly. MathJax comes from the package sphinx-mathjax-offline, the rest from npm's registry.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
REQUIRE = "https://cdnjs.cloudflare.com/ajax/libs/require.js/2.3.4/require.min.js"
NPM = "https://cdn.jsdelivr.net/npm/"
MATHJAX = f"{NPM}mathjax@3/es5/tex-mml-chtml.js"
PACKAGES = ("requirejs@2.3.4", "@jupyter-widgets/html-manager@1.0.6")


def build(folder: Path) -> Path:
    """Build the site below ``folder`` and return the folder of its pages."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    config["sphinx"].pop("local_extensions")
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "stock.yml"
    settings.write_text(yaml.safe_dump(config), encoding="utf-8")
    command = ["jupyter-book", "build", str(ROOT), "--all", "-q", "--config", str(settings)]
    subprocess.run([*command, "--path-output", str(folder)], check=True, stdout=subprocess.DEVNULL)
    return folder / "_build" / "html"


def installed(package: str, ending: str) -> Path:
    """Return the path of an installed package's file, by the end of its name."""
    for file in importlib.metadata.files(package) or []:
        if file.as_posix().endswith(ending):
            return Path(str(file.locate()))
    raise FileNotFoundError(f"The package {package} does not contain a file *{ending}.")


def fetch(package: str, folder: Path) -> Path:
    """Download and unpack a package from npm's registry; return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    packed = subprocess.run(
        ["npm", "pack", package], cwd=folder, check=True, capture_output=True, text=True
    )
    target = folder / package.replace("/", "-")
    with tarfile.open(folder / packed.stdout.split()[-1]) as archive:
        archive.extractall(target, filter="data")
    return target / "package"


def complete(site: Path, folder: Path) -> None:
    """Copy the files that come from CDNs beside the pages, and change the pages' links to them."""
    cdn = site / "cdn"
    mathjax = installed("sphinx-mathjax-offline", "/tex-mml-chtml.js").parent
    shutil.copytree(mathjax, cdn / "mathjax@3" / "es5", dirs_exist_ok=True)
    require, manager = (fetch(package, folder / "npm") for package in PACKAGES)
    shutil.copyfile(require / "require.js", cdn / "require.js")
    shutil.copytree(manager / "dist", cdn / PACKAGES[1] / "dist", dirs_exist_ok=True)
    version = importlib.metadata.version("anywidget")
    wanted = cdn / f"anywidget@~{version.rsplit('.', 1)[0]}.*" / "dist"
    wanted.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(installed("anywidget", "nbextension/index.js"), wanted / "index.js")
    changed = 0
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        changed += REQUIRE in text and f"{NPM}{PACKAGES[1]}" in text
        text = text.replace(REQUIRE, "/cdn/require.js").replace(NPM, "/cdn/")
        text = text.replace('integrity="sha256-Ae2Vz/4ePdIu6ZyI/5ZGsYnb+m0JlOmKPjt6XZ9JJkA="', "")
        page.write_text(text, encoding="utf-8")
    if not changed:
        raise SystemExit(f"No page loads {REQUIRE} and {PACKAGES[1]}: myst-nb has others now.")


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    site = build(folder)
    try:
        complete(site, folder)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"No comparison with stock Jupyter Book: npm's registry cannot be read ({error}).")
        shutil.rmtree(site)
        return 1
    print(site)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
