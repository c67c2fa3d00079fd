"""Make the built pages small: few requests, no unused icons, images with their dimensions.

Every page of the theme loads eight style sheets, ten scripts, the search index, three icon fonts
and the definitions of two thousand icons. This module joins the style sheets into one, with only
the rules that can apply, and the scripts into one deferred script, and keeps only the icons that
occur.
"""

from __future__ import annotations

import base64
import hashlib
import io
import logging
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from dnnl_rewrite import replace, stop
from fontTools import subset
from fontTools.ttLib import TTFont
from PIL import Image

STYLE = re.compile(r'\s*<link\b[^>]*\brel="stylesheet"[^>]*/?>')
SCRIPT = re.compile(r'\s*<script\b[^>]*?\bsrc="([^"]*)"[^>]*></script>')
# The theme would load two of its scripts early.
PRELOAD = re.compile(r'\s*<link\b[^>]*\brel="preload"[^>]*/?>')
PRELOADS = 2
IMAGE = re.compile(r'<img\b[^>]*\bsrc="([^"]+)"[^>]*?(/?)>')

# Joined into one script, in this order.
JOINED = (
    "doctools.js",
    "translations.js",  # the texts of these scripts, where they are not English
    "sphinx_highlight.js",
    "clipboard.min.js",
    "copybutton.js",
    "scripts/sphinx-book-theme.js",
    "togglebutton.js",
    "scripts/bootstrap.js",
    "scripts/pydata-sphinx-theme.js",
    "formulas.js",
    "language.js",
    "paper.js",
)
# The settings of these scripts, which are small and put into the page.
SETTINGS = "documentation_options.js"
# The theme loads these for its search-as-you-type, which is off; only the search page needs them.
SEARCH = ("searchtools.js", "language_data.js", "searchindex.js")
# sphinx-design's tabs and cards, which Jupyter Book loads and this book does not use.
DESIGN = ("design-tabs.js", "sphinx-design.min.css")
# Folders of scripts that stay as they are.
OWN = ("anywidget/",)

# The theme's script finds out after the first paint whether the reader's system is light or dark;
# the replacement does so before it.
AUTOMATIC = 'dataset.theme = localStorage.getItem("theme") || "auto";'
AT_ONCE = AUTOMATIC.replace(
    '"auto"', '(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")'
)

# While a page loads, browsers lay out sections only when they come near the viewport. Afterwards,
# and before a jump to a section, the page is laid out as a whole: guessed heights would lead to
# wrong places, and captures of the whole page would be empty. Rule and script are in the page,
# because browsers lay out a page once before the style sheet and the scripts are loaded.
UNSEEN = (
    "<style>@media screen { html:not(.dnnl-laid-out) article.bd-article > section > section"
    " { content-visibility: auto; contain-intrinsic-size: auto 1200px } }</style>\n  "
    "<script>(() => {"
    ' const all = () => document.documentElement.classList.add("dnnl-laid-out");'
    ' addEventListener("load", () => (window.requestIdleCallback ?? setTimeout)(all));'
    ' addEventListener("click", (e) => { if (e.target.closest?.(\'a[href*="#"]\')) all(); }, true);'
    " })();</script>"
)

# A token of a style sheet, as far as needed to find its rules.
TOKEN = re.compile(
    r"""/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[(){};]|[^(){};"'/]+|/""", re.DOTALL
)

IMPORT = re.compile(r'@import "([^"]+)";')
FACE = re.compile(r"@font-face\{[^}]*?/(fa-[\w-]+)\.woff2[^}]*\}")
FACES = 3  # solid, regular and brands


def slim(site: Path, pages: list[Path]) -> None:
    """Rewrite pages of a built site, and remove the files that are then unused."""
    static = site / "_static"
    written = [page for page in site.rglob("*.html") if static not in page.parents]
    texts = [page.read_text(encoding="utf-8") for page in written]
    if any(re.search(r'class="[^"]*\bsd-', text) for text in texts):
        raise stop("the site", "a page uses sphinx-design, whose files are left out")
    texts += [file.read_text(encoding="utf-8") for file in static.rglob("*.js")]
    sheets: dict[tuple[str, ...], str] = {}
    for page in pages:
        name = page.relative_to(site).as_posix()
        root = "../" * name.count("/")
        text = page.read_text(encoding="utf-8")
        text = scripts(text, name, root, static)
        text = _styles(text, name, root, static, texts, sheets)
        text = _images(text, page)
        page.write_text(text, encoding="utf-8")
    for name in {name for names in sheets for name in names}:
        (static / name).unlink()
    for name in (*_joined(static), SETTINGS, *DESIGN):
        (static / name).unlink()
    for font in static.rglob("fa-*.*"):
        font.unlink()
    for figure in (site / "_images").glob("*.webp"):
        figure.with_suffix(".png").unlink(missing_ok=True)


def _named(content: str, stem: str, ending: str) -> str:
    """Return a file name with a hash of the content, so that caches do not serve an old file."""
    return f"{stem}-{hashlib.sha256(content.encode()).hexdigest()[:10]}{ending}"


def _styles(
    text: str,
    page: str,
    root: str,
    static: Path,
    texts: list[str],
    sheets: dict[tuple[str, ...], str],
) -> str:
    """Join the style sheets of a page."""
    names = []
    for link in STYLE.findall(text):
        url = re.search(rf'\bhref="{re.escape(root)}_static/([^"?]+)', link)
        if not url or not (static / url[1]).is_file():
            raise stop(page, f"a style sheet is not a file of _static: {link.strip()}")
        names += [url[1]] if url[1] not in DESIGN else []
    key = tuple(names)
    if key not in sheets:
        joined = "\n".join(_sheet(static, name) for name in names)
        words = {word for text in texts for word in re.findall(r"[\w-]+", text)}
        joined = icons(prune(joined, words), static)
        sheets[key] = _named(joined, "book", ".css")
        (static / sheets[key]).write_text(joined, encoding="utf-8")
    # At the end of the head: scripts that follow a style sheet wait for it and block the text.
    link = f'  {UNSEEN}\n  <link rel="stylesheet" href="{root}_static/{sheets[key]}" />\n  </head>'
    return replace(STYLE.sub("", text), "</head>", link, expect=1, where=page)


def _sheet(static: Path, name: str) -> str:
    """Return a style sheet with its imports inlined and its URLs relative to ``_static``."""
    folder = Path(name).parent
    css = (static / name).read_text(encoding="utf-8")
    css = re.sub(r'@charset "[^"]*";', "", css)
    imports = css.count("@import")

    def below_static(url: str) -> str:
        parts: list[str] = []
        for part in (*folder.parts, *url.split("/")):
            parts = parts[:-1] if part == ".." else [*parts, part]
        return "/".join(parts)

    def move(match: re.Match[str]) -> str:
        url = match[1].strip("'\"")
        kept = url.startswith(("data:", "#", "http:", "https:", "/"))
        return match[0] if kept else f'url("{below_static(url)}")'

    css = re.sub(r"url\(((?:\"[^\"]*\"|'[^']*'|[^)'\"]*))\)", move, css)

    def read(match: re.Match[str]) -> str:
        return _sheet(static, below_static(match[1]))

    return replace(css, IMPORT, read, expect=imports, where=name)


def prune(css: str, words: set[str]) -> str:
    """Remove the rules for classes that do not occur in any page or script."""
    tokens = (m[0] for m in TOKEN.finditer(css) if not m[0].startswith("/*"))

    def wanted(selector: str) -> bool:
        plain = re.sub(r"\([^()]*\)|\[[^]]*\]", "", re.sub(r"\([^()]*\)", "", selector))
        return all(name in words for name in re.findall(r"\.((?:[\w-]|\\.)+)", plain))

    def block() -> str:
        done, open_, depth = [], "", 0
        for token in tokens:
            depth += (token == "(") - (token == ")")
            if depth or token not in "{};":
                open_ += token
            elif token == ";":
                done.append(f"{open_};")
                open_ = ""
            elif token == "}":
                break
            else:
                inside, head = block(), open_.strip()
                open_ = ""
                if not head.startswith("@"):
                    head = ",".join(s for s in _selectors(head) if wanted(s))
                if head and inside.strip():
                    done.append(f"{head}{{{inside}}}")
        return "".join([*done, open_])

    return block()


def _selectors(head: str) -> list[str]:
    """Split a list of selectors at the commas outside of brackets."""
    parts, depth = [""], 0
    for piece in re.split(r"([(),])", head):
        depth += (piece == "(") - (piece == ")")
        if piece == "," and not depth:
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts]


def icons(css: str, static: Path) -> str:
    """Embed the glyphs of the remaining icons in the style sheet."""
    codes = {int(code, 16) for code in re.findall(r'"\\([ef][0-9a-f]{3})"', css)}

    def draw(match: re.Match[str]) -> str:
        font = _subset(next(static.rglob(f"{match[1]}.ttf")), codes)
        source = f'src:url(data:font/woff;base64,{font}) format("woff")'
        return re.sub(r"src:[^;}]*", source, match[0])

    return replace(css, FACE, draw, expect=FACES, where="the joined style sheet")


def _subset(path: Path, codes: set[int]) -> str:
    """Return the glyphs of a font at some code points, as a WOFF file in base64."""
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # by default it logs every step
    font = TTFont(path, recalcTimestamp=False)  # reproducible bytes, as the file name is a hash
    options = subset.Options(hinting=False, layout_features=[], name_IDs=[], drop_tables=["FFTM"])
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=codes)
    cutter.subset(font)
    font.flavor = "woff"
    file = io.BytesIO()
    font.save(file)
    return base64.b64encode(file.getvalue()).decode()


def _joined(static: Path) -> list[str]:
    """Return the scripts to join. Only `translations.js` may be missing, in an English edition."""
    return [name for name in JOINED if name != "translations.js" or (static / name).is_file()]


def scripts(text: str, page: str, root: str, static: Path) -> str:
    """Join the scripts of a page into one deferred script."""
    names = _joined(static)
    joined = set(names)
    # A separator on its own line, in case a file ends with a comment.
    script = "\n;\n".join((static / name).read_text(encoding="utf-8") for name in names)
    bundle = _named(script, "book", ".js")
    (static / bundle).write_text(script, encoding="utf-8")
    settings = (static / SETTINGS).read_text(encoding="utf-8").strip()
    found: list[str] = []

    def place(match: re.Match[str]) -> str:
        file = match[1].split("?")[0].removeprefix(root).removeprefix("_static/")
        if file.startswith(OWN):
            return match[0]
        found.append(file)
        if file == SETTINGS:
            return f"\n    <script>{settings}</script>"
        if file in SEARCH:  # deferred, because they use what is in the bundle
            search = page == "search.html"
            return match[0].replace("<script", "<script defer", 1) if search else ""
        if file in joined and joined.isdisjoint(found[:-1]):
            return f'\n    <script defer src="{root}_static/{bundle}"></script>'
        return ""

    text = SCRIPT.sub(place, text)
    wanted = {*names, SETTINGS, *SEARCH, "design-tabs.js"}
    if unknown := sorted(set(found) - wanted):
        raise stop(page, f"the scripts {unknown} are not known: join them or leave them out")
    if missing := sorted(wanted - set(found)):
        raise stop(page, f"the scripts {missing} are not on the page")
    text = replace(text, PRELOAD, "", expect=PRELOADS, where=page)
    text = replace(text, AUTOMATIC, AT_ONCE, expect=1, where=page)
    return text


def _images(text: str, page: Path) -> str:
    """Add the dimensions of every image, make figures smaller, and load them lazily.

    Images in the viewport load once the page has its style, others when the reader comes near, so
    that the style sheet and the explorers load first.
    """
    start = text.find("<article")

    def size(match: re.Match[str]) -> str:
        path = page.parent / unquote(match[1].split("?")[0])
        if re.match(r"(data|https?):", match[1]) or not path.is_file():
            return match[0]
        tag = re.sub(r'\sstyle="width: [^"]*"', "", match[0])
        attributes = []
        if dimensions := _dimensions(path):
            attributes += [f'width="{dimensions[0]}"', f'height="{dimensions[1]}"']
        if match.start() > start >= 0 or path.suffix == ".png":
            attributes.append('loading="lazy"')
        if path.parent.name == "_images" and path.suffix == ".png":
            tag = tag.replace(match[1], match[1].removesuffix(".png") + _webp(path).suffix)
        attributes = [a for a in attributes if f" {a.split('=')[0]}=" not in tag]
        return f"<img {' '.join(attributes)}{tag.removeprefix('<img')}" if attributes else tag

    return IMAGE.sub(size, text)


def _webp(path: Path) -> Path:
    """Write a figure as WebP beside it, which takes half of the bytes, and return the new path.

    No pixel changes, except in photographs: what is much smaller with losses is one.
    """
    target = path.with_suffix(".webp")
    if target.is_file() and target.stat().st_mtime >= path.stat().st_mtime:
        return target

    def encode(**options: Any) -> bytes:
        file = io.BytesIO()
        image.save(file, "WEBP", **options)
        return file.getvalue()

    with Image.open(path) as opened:
        image = opened.convert("RGBA") if opened.has_transparency_data else opened.convert("RGB")
    exact = encode(lossless=True, quality=50, method=2)
    photograph = encode(quality=80, method=6, use_sharp_yuv=True)
    target.write_bytes(photograph if len(photograph) < 2 / 3 * len(exact) else exact)
    return target


def _dimensions(path: Path) -> tuple[int, int] | None:
    if path.suffix == ".svg":
        box = re.search(r'viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)"', path.read_text("utf-8"))
        return (round(float(box[1])), round(float(box[2]))) if box else None
    with Image.open(path) as image:
        return image.size
