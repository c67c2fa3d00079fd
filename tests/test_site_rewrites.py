"""What the theme has written is rewritten, and a change of the theme's stops the build.

A small site with one of everything stands in for the theme; each test changes one thing in it.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from PIL import Image
from sphinx.errors import ExtensionError

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "_ext"))

import dnnl_book  # noqa: E402
import dnnl_editions  # noqa: E402
import dnnl_math  # noqa: E402
import dnnl_rewrite  # noqa: E402
import dnnl_slim  # noqa: E402

SCRIPTS = [
    "documentation_options.js",
    "doctools.js",
    "sphinx_highlight.js",
    "clipboard.min.js",
    "copybutton.js",
    "scripts/sphinx-book-theme.js",
    "formulas.js",
    "paper.js",
    "language.js",
    "togglebutton.js",
    "design-tabs.js",
    "searchtools.js",
    "language_data.js",
    "scripts/bootstrap.js",
    "scripts/pydata-sphinx-theme.js",
]
PAGE = """<html><head>
<script>document.documentElement.dataset.theme = localStorage.getItem("theme") || "auto";</script>
<link href="../_static/styles/theme.css?digest=1" rel="stylesheet" />
<link rel="stylesheet" type="text/css" href="../_static/sphinx-design.min.css?v=1" />
<link rel="preload" as="script" href="../_static/scripts/bootstrap.js?digest=1" />
<link rel="preload" as="script" href="../_static/scripts/pydata-sphinx-theme.js?digest=1" />
<script src="../_static/scripts/fontawesome.js?digest=1"></script>
SCRIPTS
<script src="../searchindex.js"></script>
</head><body>
<div class="sidebar-primary-items__start sidebar-primary__section"></div>
<button title="Suggest edit"></button>
<article><h1>A title</h1>
<details class="admonition hide above-input">
<summary aria-label="Toggle hidden content">
</summary></details>
    <script type="text/x-thebe-config">{}</script>
    <script>kernelName = 'python3'</script>
</article></body></html>
""".replace(
    "SCRIPTS", "\n".join(f'<script src="../_static/{name}?v=1"></script>' for name in SCRIPTS)
)
FACE = '@font-face{{font-family:"{0}";src:url(../webfonts/{0}.woff2) format("woff2")}}\n'
FONTS = ("fa-solid-900", "fa-regular-400", "fa-brands-400")
STYLE = (
    '@charset "utf-8";@import "more.css";\n'
    + "".join(map(FACE.format, FONTS))
    + '.sidebar-primary__section{color:red}.nowhere{color:red}.fa-bars:before{content:"\\f0c9"}'
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site as Sphinx and the theme leave it: one page, `chapters/a.html`, and the search."""
    site = tmp_path / "site"
    static = site / "_static"
    files = {
        "chapters/a.html": PAGE,
        "search.html": "console.log(1)",
        "index.html": '<meta http-equiv="Refresh" content="0; url=chapters/a.html">',
        "_static/styles/theme.css": STYLE,
        "_static/styles/more.css": ".bd-article{color:blue}",
        "_static/sphinx-design.min.css": ".sd-card{color:red}",
        "_static/webpack-macros.html": "",
        "_static/sphinx-thebe.js": "",
        "_static/scripts/fontawesome.js": "",
        "_static/scripts/bootstrap.js.map": "",
        "_static/locales/de/x.mo": "",
        **{f"_static/{name}": f"/* {name} */\n" for name in SCRIPTS},
    }
    for name, calls in dnnl_book.LOGGING.items():
        files[name] = "console.log(1);\n" * calls
    for name, text in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text, encoding="utf-8")
    for font in FONTS:  # any font will do
        target = static / "webfonts" / f"{font}.ttf"
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(Path(matplotlib.get_data_path(), "fonts/ttf/DejaVuSans.ttf"), target)
    return site


def build(site: Path) -> str:
    dnnl_book.rewrite_site(site, {"chapters/a"}, "The & book")
    return (site / "chapters/a.html").read_text(encoding="utf-8")


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_a_page_of_the_theme_is_rewritten(site: Path) -> None:
    page = build(site)
    for gone in (
        "fontawesome",
        "thebe",
        "kernelName",
        "preload",
        'aria-label="Toggle',
        '|| "auto"',
    ):
        assert gone not in page
    assert '<div role="region" aria-label="The &amp; book" class="sidebar-primary' in page
    scripts = re.findall(r'<script[^>]* src="([^"]*)"', page)
    assert [re.sub("-.*", "", name) for name in scripts] == ["../_static/book"]
    bundle = (site / "chapters" / scripts[0]).read_text(encoding="utf-8")
    joined = [name for name in dnnl_slim.JOINED if name != "translations.js"]
    assert re.findall(r"/\* (.*) \*/", bundle) == [
        name for name in joined if f"_static/{name}" not in dnnl_book.LOGGING
    ]
    assert "console.log" not in bundle and bundle.count("void(1)") == 13
    (style,) = re.findall(r'<link rel="stylesheet" href="([^"]*)"', page)
    rules = (site / "chapters" / style).read_text(encoding="utf-8")
    assert "sidebar-primary__section" in rules and "nowhere" not in rules and "@import" not in rules
    assert rules.count("data:font/woff") == 3


def test_a_second_build_without_a_change_leaves_everything(site: Path) -> None:
    page = build(site)
    assert dnnl_rewrite.fresh_pages(site) == []
    assert build(site) == page


# Each is a thing that a release of the theme or of an extension might change on the page.
ON_THE_PAGE = {
    "scripts/fontawesome.js": ("fontawesome.js", "icons.js"),
    "the launcher": ("text/x-thebe-config", "text/x-launcher"),
    "the sidebar": ("sidebar-primary-items__start", "sidebar-start"),
    "two sidebars": ("<article>", '<div class="sidebar-primary-items__start"></div><article>'),
    "the label of a folded cell": ('aria-label="Toggle hidden content"', 'aria-label="Show"'),
    "folded cells": ("admonition hide", "folded"),
    "light or dark": ('|| "auto"', '?? "auto"'),
    "one preload": ('rel="preload"', 'rel="modulepreload"'),
    "the head": ("</head>", "</HEAD>"),
    "a new script": ("</body>", '<script src="../_static/scripts/new.js"></script></body>'),
    "a script from elsewhere": ("</body>", '<script src="https://a.example/b.js"></script></body>'),
    "a script of another name": ("scripts/bootstrap.js?v", "scripts/bootstrap5.js?v"),
    "no script for the search": ("language_data.js", "paper.js"),
    "no settings": ("documentation_options.js", "paper.js"),
    "a style from elsewhere": ("../_static/styles", "https://a.example/_static/styles"),
    "a style that is not there": ("styles/theme.css", "styles/base.css"),
    "cards of sphinx-design": ("<article>", '<article><div class="sd-card"></div>'),
}


@pytest.mark.parametrize("what", ON_THE_PAGE)
def test_a_changed_page_stops_the_build(site: Path, what: str) -> None:
    change(site / "chapters/a.html", *ON_THE_PAGE[what])
    with pytest.raises(ExtensionError, match=r"installed: sphinx-book-theme \d") as error:
        build(site)
    assert str(error.value).startswith(("chapters/a.html: ", "the site: "))


IN_FILES = {
    **{name: ("console.log", "console.info") for name in dnnl_book.LOGGING},
    "_static/styles/theme.css": ("fa-regular-400.woff2", "regular.woff2"),
}


@pytest.mark.parametrize("name", IN_FILES)
def test_a_changed_file_stops_the_build(site: Path, name: str) -> None:
    change(site / name, *IN_FILES[name])
    with pytest.raises(ExtensionError, match="places, not in"):
        build(site)


def test_an_import_that_is_not_read_stops_the_build(site: Path) -> None:
    change(site / "_static/styles/theme.css", '@import "more.css"', "@import url(more.css)")
    with pytest.raises(ExtensionError, match="styles/theme.css"):
        build(site)


@pytest.mark.parametrize(
    "name", ["webpack-macros.html", "sphinx-thebe.js", "scripts/bootstrap.js.map"]
)
def test_a_file_that_is_gone_stops_the_build(site: Path, name: str) -> None:
    (site / "_static" / name).unlink()
    with pytest.raises(ExtensionError, match="which would be removed"):
        build(site)


def test_the_error_names_what_was_looked_for_and_how_often_it_was_found() -> None:
    with pytest.raises(ExtensionError, match=r"a\.js: 'x' is in 2 places, not in 3 \(installed: "):
        dnnl_rewrite.replace("x x", "x", "y", expect=3, where="a.js")
    assert dnnl_rewrite.replace("x x", "x", r"\1", expect=2, where="a.js") == r"\1 \1"
    assert dnnl_rewrite.replace("ab", re.compile("(a)"), r"\1\1", expect=1, where="") == "aab"


# ---- figures -------------------------------------------------------------------------------------


def test_a_figure_keeps_its_pixels_and_a_photograph_its_look(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    cells = random.integers(0, 256, (8, 8, 4), dtype=np.uint8).repeat(20, 0).repeat(20, 1)
    light = np.linspace(0, 160, 200)[:, None, None] + 3 * random.normal(size=(200, 200, 3)) + 40
    for name, pixels in {"map": cells, "photo": light.astype(np.uint8)}.items():
        (tmp_path / "_images").mkdir(exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "_images" / f"{name}.png")
    page = '<article><img alt="" src="_images/map.png" /><img alt="" src="_images/photo.png" />'
    page = dnnl_slim._images(page, tmp_path / "a.html")
    assert page.count('loading="lazy"') == 2 and 'width="160" height="160"' in page
    for name in ("map", "photo"):
        assert f'src="_images/{name}.webp"' in page
        old, new = (tmp_path / "_images" / f"{name}{end}" for end in (".png", ".webp"))
        assert new.stat().st_size < old.stat().st_size / 1.2
        before, after = (np.asarray(Image.open(p).convert("RGBA")).astype(int) for p in (old, new))
        worst = np.abs(before - after)[before[..., 3] > 0].max()
        assert worst == 0 if name == "map" else worst < 20


# ---- the Chinese edition -------------------------------------------------------------------------


@pytest.fixture
def chinese(tmp_path: Path) -> Path:
    """A site with every English text of the theme."""
    page = "".join(f"<b>{text}</b>" for text in dnnl_editions.CHINESE)
    page += "".join(f"<a {text}></a>" for text in dnnl_editions.PARTS)
    (tmp_path / "_static").mkdir()
    for name, words in dnnl_editions.SCRIPTS.items():
        (tmp_path / "_static" / name).write_text("".join(words), encoding="utf-8")
    (tmp_path / "a.html").write_text(f'<i src="_static/">{page}</i>', encoding="utf-8")
    return tmp_path


def test_the_texts_of_the_theme_are_translated(chinese: Path) -> None:
    dnnl_editions.translate_site(chinese, {"a"})
    page = (chinese / "a.html").read_text(encoding="utf-8")
    for english, own in {**dnnl_editions.CHINESE, **dnnl_editions.PARTS}.items():
        assert f">{english}<" not in page and own in page
    assert "展开或收起" in (chinese / "_static/togglebutton.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", [*dnnl_editions.CHINESE, *dnnl_editions.PARTS])
def test_a_text_that_the_theme_no_longer_has_stops_the_build(chinese: Path, text: str) -> None:
    change(chinese / "a.html", text, "reworded")
    with pytest.raises(ExtensionError, match=re.escape(f"these texts are on no page: [{text!r}]")):
        dnnl_editions.translate_site(chinese, {"a"})


def test_a_text_may_be_missing_where_only_some_pages_are_built_again(chinese: Path) -> None:
    change(chinese / "a.html", "Suggest edit", "reworded")
    dnnl_editions.translate_site(chinese, {"a", "b"})


def test_a_text_of_a_script_that_is_gone_stops_the_build(chinese: Path) -> None:
    change(chinese / "_static/togglebutton.js", "Toggle hidden content", "Toggle")
    with pytest.raises(ExtensionError, match="togglebutton.js"):
        dnnl_editions.translate_site(chinese, {"a"})


@pytest.mark.parametrize("body", ["<p>no heading</p>", '<h1>One</h1><h2 class="new">Two</h2>'])
def test_a_heading_that_gets_no_number_stops_the_build(body: str) -> None:
    numbered = dnnl_editions.number_headings("<h1>One</h1><h2>Two</h2>", "a")
    assert numbered == '<span id="part-1"></span><h1>One</h1><span id="part-2"></span><h2>Two</h2>'
    with pytest.raises(ExtensionError, match="places, not in"):
        dnnl_editions.number_headings(body, "a")


# ---- formulas ------------------------------------------------------------------------------------


def test_a_formula_is_a_drawing_with_its_size_and_mathml() -> None:
    """In TeX's font an italic x is 0.572 em wide; MathJax takes 0.442 em for an ex."""
    html = dnnl_math.draw("x", False)
    assert f'width="{0.572 / 0.442:.3f}ex"' in html and "<math><mi>x</mi></math>" in html
    sub = dnnl_math.draw(r"\frac{a}{b_i}", True)
    fraction = "<mfrac><mi>a</mi><msub><mi>b</mi><mi>i</mi></msub></mfrac>"
    assert fraction in sub and 'display="true"' in sub
    page = dnnl_math.with_glyphs(f"<body>{html}{sub}{sub}</body>", "a")
    drawn = sorted(re.findall(r'<path id="([^"]*)"', page))
    assert drawn == sorted(set(re.findall(r'<use href="#([^"]*)"', page))) and len(drawn) == 4


@pytest.mark.parametrize("tex", [r"\frac{a", r"\nosuchmacro{a}", r"a_b_c", r"\left( a", "{"])
def test_a_wrong_formula_stops_the_build(tex: str) -> None:
    class Builder:
        current_docname = "chapters/en/06_order"

    class Translator:
        builder = Builder()

    with pytest.raises(ExtensionError, match="^chapters/en/06_order: the formula ") as error:
        dnnl_math._formula(Translator(), tex, False)
    assert repr(tex) in str(error.value)
    assert "<mi>x</mi>" in dnnl_math.draw("x", True), "and the next one is set"


def test_lines_of_a_displayed_formula_are_aligned_as_sphinx_does(monkeypatch) -> None:
    """Sphinx's own renderer for MathJax is the reference."""
    from docutils import nodes
    from sphinx.ext import mathjax

    class Translator:
        class builder:
            class config:
                mathjax_display = ("", "")

        encode = staticmethod(str)

        def __init__(self) -> None:
            self.body: list[str] = []

        def starttag(self, *_: object, **__: object) -> str:
            return ""

    for tex in ("a", r"a \\ b", "a\n\nb", "a\n\n\nb \\\\ c\n\n d"):
        node = nodes.math_block(tex, tex, nowrap=False, number=None)
        own = Translator()
        with pytest.raises(nodes.SkipNode):
            mathjax.html_visit_displaymath(own, node)
        wanted = "".join(own.body).removesuffix("</div>\n").strip()
        assert dnnl_math.aligned(tex) == wanted
