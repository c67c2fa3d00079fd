"""Two editions of one book: each page links to its counterpart, and Chinese can be searched.

English is built to the root of the site and Chinese to ``zh/`` (``tools/book.py``), with the same
pages, headings and order. All links are relative, so that they also work from disk.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
from html import escape
from pathlib import Path
from typing import Any

import jieba
from dnnl_rewrite import fresh_pages, replace, stop
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.search.en import SearchEnglish
from sphinx.search.zh import SearchChinese
from sphinx.transforms.post_transforms import SphinxPostTransform

ROOT = Path(__file__).resolve().parent.parent
ASSETS = Path(__file__).parent / "assets"
SCRIPT, NUMBERS = "language.js", "numbers.js"
TERMS = ROOT / "chapters" / "terms.json"

# For each edition: its language tag in HTML, its name, and the offer to readers of the other one.
EDITIONS = {
    "en": {
        "tag": "en",
        "name": "English",
        "offer": "This chapter is also available in English.",
        "take": "Read it in English",
        "close": "Close",
    },
    "zh": {
        "tag": "zh-CN",
        "name": "中文",
        "offer": "本章有中文版。",
        "take": "阅读中文版",
        "close": "关闭",
    },
}

# A line must not break inside 14 × 14 or 16.7 %.
TOGETHER = re.compile(r"(?<=\d) (?=[×%])|(?<=×) (?=\d)")
HEADING = re.compile(r"<h[1-3]>")
# A Chinese line may break anywhere; a title in two parts should break between the parts.
PARTS_OF_TITLE = re.compile(r"<h1>([^<]*：)([^<]+)")
PHRASES = r'<h1><span class="dnnl-phrase">\1</span><span class="dnnl-phrase">\2</span>'

# Texts of the theme and its extensions that they do not translate themselves.
CHINESE = {
    "Close": "关闭",
    "Colab logo": "Colab 标志",
    "Color mode": "颜色模式",
    "Launch interactive content": "运行本页",
    "Launch on Colab": "在 Colab 中运行",
    "Main": "主导航",
    "Open issue": "提出问题",
    "Page": "本页目录",
    "Repository": "源码仓库",
    "Search this book...": "搜索本书……",
    "Source repositories": "源码仓库",
    "Suggest edit": "修改本页",
    "System Settings": "跟随系统",
    "Toggle primary sidebar": "展开或收起目录",
    "Toggle secondary sidebar": "展开或收起本页目录",
    "列印成 PDF": "打印为 PDF",
}
# The same for texts inside the article, for parts of a text, and for scripts of the theme.
PARTS = {
    'title="Link to this heading"': 'title="本节的链接"',
    'title="Link to this definition"': 'title="本条的链接"',
    "© Copyright ": "版权所有 © ",
}
SCRIPTS = {"togglebutton.js": {"Toggle hidden content": "展开或收起"}}
# The parts of a page that hold the notebook: its text is in the article, its data in scripts.
NOTEBOOK = re.compile(r"<article\b.*?</article>|<script\b.*?</script>", re.DOTALL)
WORDS = re.compile(
    r'(>\s*|\b(?:title|aria-label|placeholder|alt)=")('
    + "|".join(map(re.escape, sorted(CHINESE, key=len, reverse=True)))
    + r')(?=\s*<|")'
)


def other(edition: str) -> str:
    """Return the other edition."""
    return "zh" if edition == "en" else "en"


def path(page: str, edition: str) -> str:
    """Return the path in the site of a page of the book, or of its counterpart."""
    name = re.sub(r"^chapters/\w+/", f"chapters/{edition}/", page)
    return f"{name}.html" if edition == "en" else f"zh/{name}.html"


def address(app: Sphinx) -> str:
    """Return the URL of the book on GitHub Pages, for tags that must hold absolute URLs."""
    url = app.config.html_theme_options["repository_url"]
    owner, name = url.removeprefix("https://github.com/").split("/")
    return f"https://{owner.lower()}.github.io/{name}"


def configure(app: Sphinx, config: Config) -> None:
    """Add the language switch to the header of every page."""
    config.templates_path = [*config.templates_path, str(Path(__file__).parent / "templates")]
    header = ["language.html", "article-header-buttons.html"]
    config.html_theme_options["article_header_end"] = header


def link(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Add links to the counterpart of a page, for readers and for search engines."""
    edition = app.config.dnnl_edition
    if not edition:
        return
    target = other(edition)
    up = "../" * path(page, edition).count("/")
    context["dnnl_other"] = {**EDITIONS[target], "url": up + path(page, target)}
    site = address(app)
    alternates = {"en": "en", "zh-CN": "zh", "x-default": "en"}
    tags = [
        f'<link rel="alternate" hreflang="{tag}" href="{escape(f"{site}/{path(page, one)}")}">'
        for tag, one in alternates.items()
    ]
    context["metatags"] = "\n".join([context.get("metatags") or "", *tags])
    body = PARTS_OF_TITLE.sub(PHRASES, context.get("body") or "")
    if doctree is not None:
        body = number_headings(body, where=page)
    context["body"] = body


def number_headings(body: str, where: str) -> str:
    """Add an anchor to every heading that is the same in both editions."""
    count, headings = itertools.count(1), len(re.findall(r"<h[1-3]\b", body))
    return replace(
        body,
        HEADING,
        lambda m: f'<span id="part-{next(count)}"></span>{m[0]}',
        expect=max(headings, 1),
        where=where,
    )


class KeepTogether(SphinxPostTransform):
    """Keeps numbers together with their signs, except in code."""

    default_priority = 900

    def run(self, **_: Any) -> None:
        """Replace the spaces between them by no-break spaces."""
        for text in list(self.document.findall(nodes.Text)):
            code = isinstance(text.parent, (nodes.literal, nodes.literal_block, nodes.raw))
            if not code and TOGETHER.search(text):
                text.parent.replace(text, nodes.Text(TOGETHER.sub("\u00a0", text)))


def terms() -> list[dict[str, Any]]:
    """Return the terms of the glossary."""
    groups = json.loads(TERMS.read_text(encoding="utf-8"))["groups"]
    return [term for group in groups for term in group["terms"]]


def synonyms() -> dict[str, str]:
    """Return other names of the terms, in lower case, with the term that the book uses."""
    return {name.lower(): term["zh"] for term in terms() for name in (*term["not"], *term["also"])}


class English(SearchEnglish):
    """Sphinx's English search, which finds numbers too."""

    @property
    def js_splitter_code(self) -> str:  # type: ignore[override]
        """The JavaScript that is added to the search page."""
        return (ASSETS / NUMBERS).read_text(encoding="utf-8")


class Chinese(SearchChinese):
    """Sphinx's Chinese search, with the book's terms as words, and a splitter for queries."""

    @property
    def js_splitter_code(self) -> str:  # type: ignore[override]
        """The JavaScript that splits a query on the search page."""
        names = json.dumps(synonyms(), ensure_ascii=False, sort_keys=True)
        scripts = [(ASSETS / name).read_text(encoding="utf-8") for name in ("search.js", NUMBERS)]
        return "\n".join([f"const synonyms = {names};", *scripts])

    def init(self, options: dict[str, str]) -> None:
        """Add the terms to the dictionary of jieba, which would split them."""
        super().init(options)
        jieba.setLogLevel("WARNING")  # by default it logs to stderr that it loads its dictionary
        for term in terms():
            for word in re.findall(r"[\u4e00-\u9fff]{2,}", term["zh"]):
                jieba.add_word(word)


def translate(page: str, used: set[str]) -> str:
    """Translate the English texts of the theme in a page, and add them to ``used``."""
    for english, chinese in PARTS.items():
        if english in page:
            used.add(english)
            page = page.replace(english, chinese)

    def word(match: re.Match[str]) -> str:
        used.add(match[2])
        return match[1] + CHINESE[match[2]]

    done, at = [], 0
    for notebook in [*NOTEBOOK.finditer(page), None]:
        theme = page[at : notebook.start() if notebook else None]
        done.append(WORDS.sub(word, theme))
        if notebook:
            done.append(notebook[0])
            at = notebook.end()
    return "".join(done)


def translate_site(site: Path, documents: set[str]) -> None:
    """Translate the pages that have just been written, and the scripts of the theme.

    If these are all ``documents`` of the book, an English text that is on no page stops the build:
    it has another wording now, or is gone.
    """
    pages = fresh_pages(site)
    if not pages:  # nothing has changed since the last build
        return
    used: set[str] = set()
    for page in pages:
        text = translate(page.read_text(encoding="utf-8"), used)
        page.write_text(text, encoding="utf-8")
    unused = [text for text in (*CHINESE, *PARTS) if text not in used]
    if unused and documents <= {p.relative_to(site).with_suffix("").as_posix() for p in pages}:
        raise stop("the Chinese edition", f"these texts are on no page: {unused}")
    for name, words in SCRIPTS.items():
        script = site / "_static" / name
        text = script.read_text(encoding="utf-8")
        for english, chinese in words.items():
            text = replace(text, english, chinese, expect=1, where=name)
        script.write_text(text, encoding="utf-8")


def finish(app: Sphinx, error: Exception | None) -> None:
    """Copy the script, which ``dnnl_slim`` joins with others, and translate the theme's texts."""
    if error is not None or app.builder.format != "html":
        return
    site = Path(app.outdir)
    shutil.copyfile(ASSETS / SCRIPT, site / "_static" / SCRIPT)
    if app.config.dnnl_edition == "zh":
        translate_site(site, set(app.env.found_docs))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the steps above."""
    app.add_config_value("dnnl_edition", "", "env")
    app.add_search_language(English)
    app.add_search_language(Chinese)
    app.add_js_file(SCRIPT)
    app.add_post_transform(KeepTogether)
    app.connect("config-inited", configure)
    app.connect("html-page-context", link)
    app.connect("build-finished", finish, priority=890)  # before dnnl_book joins the scripts
    return {"parallel_read_safe": True, "parallel_write_safe": True}
