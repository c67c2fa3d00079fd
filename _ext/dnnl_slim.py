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
from urllib.parse import unquote

from fontTools import subset
from fontTools.ttLib import TTFont
from PIL import Image

STYLE = re.compile(r'\s*<link\b[^>]*\bhref="([^"]*_static/[^"]*\.css)[^"]*"[^>]*/?>')
SCRIPT = re.compile(r'\s*<script\b[^>]*?\bsrc="([^"]*\.js)[^"]*"[^>]*></script>')
PRELOAD = re.compile(r'\s*<link\b[^>]*\brel="preload"[^>]*/?>')
IMAGE = re.compile(r'<img\b[^>]*\bsrc="([^"]+)"[^>]*?(/?)>')

# Joined into one script, in this order.
JOINED = (
    "doctools.js",
    "translations.js",  # for the texts of these scripts, in the Chinese edition
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

EXPLORERS = "window.dnnlExplorers"
LATER = re.compile(
    r'(\s*)<script\b[^>]*\bsrc="([^"]*/book-\w+\.js[^"]*)"[^>]*></script>'
)
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

FACE = re.compile(r"@font-face\{[^}]*?/(fa-[\w-]+)\.woff2[^}]*\}")


def slim(site: Path) -> None:
    """Rewrite every page of a built site, and remove the files that are then unused."""
    static = site / "_static"
    pages = {
        page: page.read_text(encoding="utf-8")
        for page in sorted(site.rglob("*.html"))
        if static not in page.parents
    }
    texts = [*pages.values(), *(f.read_text(encoding="utf-8") for f in static.rglob("*.js"))]
    if not any(re.search(r'class="[^"]*\bsd-', text) for text in pages.values()):
        for name in DESIGN:
            (static / name).unlink(missing_ok=True)
    sheets: dict[tuple[str, ...], str] = {}
    for page, text in pages.items():
        if "_static/" not in text or "_static/book-" in text:
            continue  # the first page, which only redirects; or a page that is already rewritten
        root = "../" * len(page.relative_to(site).parent.parts)
        text = _scripts(text, page, root, static)
        text = _styles(text, root, static, texts, sheets)
        text = _images(text, page)
        page.write_text(text, encoding="utf-8")
    for name in {name for names in sheets for name in names}:
        (static / name).unlink()
    for name in (*JOINED, SETTINGS):
        (static / name).unlink(missing_ok=True)
    for font in static.rglob("fa-*.*"):
        font.unlink()


def _named(content: str, stem: str, ending: str) -> str:
    """Return a file name with a hash of the content, so that caches do not serve an old file."""
    return f"{stem}-{hashlib.sha256(content.encode()).hexdigest()[:10]}{ending}"


def _styles(
    text: str, root: str, static: Path, texts: list[str], sheets: dict[tuple[str, ...], str]
) -> str:
    """Join the style sheets of a page."""
    names = tuple(
        name
        for name in (url.split("_static/", 1)[1] for url in STYLE.findall(text))
        if (static / name).is_file()
    )
    if names not in sheets:
        joined = "\n".join(_sheet(static, name) for name in names)
        words = {word for text in texts for word in re.findall(r"[\w-]+", text)}
        joined = _icons(prune(joined, words), static)
        sheets[names] = _named(joined, "book", ".css")
        (static / sheets[names]).write_text(joined, encoding="utf-8")
    # At the end of the head: scripts that follow a style sheet wait for it and block the text.
    link = f'<link rel="stylesheet" href="{root}_static/{sheets[names]}" />'
    return STYLE.sub("", text).replace("</head>", f"  {UNSEEN}\n  {link}\n  </head>", 1)


def _sheet(static: Path, name: str) -> str:
    """Return a style sheet with its imports inlined and its URLs relative to ``_static``."""
    folder = Path(name).parent
    css = (static / name).read_text(encoding="utf-8")
    css = re.sub(r'@charset "[^"]*";', "", css)

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
    return re.sub(r'@import "([^"]+)";', lambda m: _sheet(static, below_static(m[1])), css)


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


def _icons(css: str, static: Path) -> str:
    """Embed the glyphs of the remaining icons in the style sheet."""
    codes = {int(code, 16) for code in re.findall(r'"\\([ef][0-9a-f]{3})"', css)}

    def draw(match: re.Match[str]) -> str:
        font = _subset(next(static.rglob(f"{match[1]}.ttf")), codes)
        source = f'src:url(data:font/woff;base64,{font}) format("woff")'
        return re.sub(r"src:[^;}]*", source, match[0])

    return FACE.sub(draw, css)


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


def _scripts(text: str, page: Path, root: str, static: Path) -> str:
    """Join the scripts of a page into one deferred script."""
    files = [name for name in JOINED if (static / name).is_file()]
    # A separator on its own line, in case a file ends with a comment.
    joined = "\n;\n".join((static / name).read_text(encoding="utf-8") for name in files)
    name = _named(joined, "book", ".js")
    (static / name).write_text(joined, encoding="utf-8")
    settings = (static / SETTINGS).read_text(encoding="utf-8").strip()

    bundle = f'\n    <script defer src="{root}_static/{name}"></script>'
    first = True

    def replace(match: re.Match[str]) -> str:
        nonlocal first
        file = match[1].split("_static/", 1)[-1].removeprefix(root)
        if file == SETTINGS:
            return f"\n    <script>{settings}</script>"
        if file in JOINED:
            was_first, first = first, False
            return bundle if was_first else ""
        if file in SEARCH:  # deferred, because they use what is in the bundle
            search = page.name == "search.html"
            return match[0].replace("<script", "<script defer", 1) if search else ""
        return "" if file in DESIGN else match[0]

    text = SCRIPT.sub(replace, PRELOAD.sub("", text).replace(AUTOMATIC, AT_ONCE))
    if EXPLORERS in text:
        # The loader of the explorers starts the theme's scripts and MathJax when it is done. They
        # are not preloaded, because parsing them would delay the explorers.
        text = LATER.sub(r'\1<script data-later="\2"></script>', text)
    return text


def _images(text: str, page: Path) -> str:
    """Add the dimensions of every image, and load the images of the article lazily.

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
        attributes = [a for a in attributes if f" {a.split('=')[0]}=" not in tag]
        return f"<img {' '.join(attributes)}{tag.removeprefix('<img')}" if attributes else tag

    return IMAGE.sub(size, text)


def _dimensions(path: Path) -> tuple[int, int] | None:
    if path.suffix == ".svg":
        box = re.search(r'viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)"', path.read_text("utf-8"))
        return (round(float(box[1])), round(float(box[2]))) if box else None
    with Image.open(path) as image:
        return image.size
