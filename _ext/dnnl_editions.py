"""Two editions, one book: each page leads to its counterpart, and Chinese can be searched.

English is built to the root of the site and Chinese to ``zh/`` (``tools/book.py``), with the same
pages, headings and order. All links are relative, so that they work from disk as well.
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
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.search.zh import SearchChinese
from sphinx.transforms.post_transforms import SphinxPostTransform

ROOT = Path(__file__).resolve().parent.parent
ASSETS = Path(__file__).parent / "assets"
SCRIPT = "language.js"
TERMS = ROOT / "chapters" / "terms.json"

# An edition's tag, as HTML has it, its own name, and what it says to a reader of the other one.
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

# A line may not break inside 14 × 14 or 16.7 %.
TOGETHER = re.compile(r"(?<=\d) (?=[×%])|(?<=×) (?=\d)")
HEADING = re.compile(r"<h[1-3]>")
# A Chinese line may break anywhere; a title in two parts breaks between them, if it has to.
PARTS_OF_TITLE = re.compile(r"<h1>([^<]*：)([^<]+)")
PHRASES = r'<h1><span class="dnnl-phrase">\1</span><span class="dnnl-phrase">\2</span>'

# What the theme and its parts leave in English, for want of a translation of their own.
CHINESE = {
    "Close": "关闭",
    "Colab logo": "Colab 标志",
    "Color mode": "颜色模式",
    "Launch interactive content": "运行本页",
    "Launch on Colab": "在 Colab 中运行",
    "Light": "浅色",
    "Dark": "深色",
    "Main": "主导航",
    "Open issue": "提出问题",
    "Page": "本页目录",
    "Repository": "源码仓库",
    "Search this book...": "搜索本书……",
    "Source repositories": "源码仓库",
    "Suggest edit": "修改本页",
    "System Settings": "跟随系统",
    "Table of contents": "目录",
    "Toggle primary sidebar": "展开或收起目录",
    "Toggle secondary sidebar": "展开或收起本页目录",
    "Version warning": "版本提示",
    "Print to PDF": "打印为 PDF",
    "列印成 PDF": "打印为 PDF",
}
# The same inside the article, or as a part of a text, or in a script of the theme.
PARTS = {
    'title="Link to this heading"': 'title="本节的链接"',
    "© Copyright ": "版权所有 © ",
}
SCRIPTS = {"togglebutton.js": {"Toggle hidden content": "展开或收起"}}
# (the notebook's own text stands in the article, and its data in scripts)
OURS = re.compile(r"<article\b.*?</article>|<script\b.*?</script>", re.DOTALL)
WORDS = re.compile(
    r'(>\s*|\b(?:title|aria-label|placeholder|alt)=")('
    + "|".join(map(re.escape, sorted(CHINESE, key=len, reverse=True)))
    + r')(?=\s*<|")'
)


def other(edition: str) -> str:
    """Return the other edition."""
    return "zh" if edition == "en" else "en"


def path(page: str, edition: str) -> str:
    """Return where a page of the book, or its counterpart, lies in the site."""
    name = re.sub(r"^chapters/\w+/", f"chapters/{edition}/", page)
    return f"{name}.html" if edition == "en" else f"zh/{name}.html"


def address(app: Sphinx) -> str:
    """Return where GitHub Pages serves the book: what search engines read must be absolute."""
    url = app.config.html_theme_options["repository_url"]
    owner, name = url.removeprefix("https://github.com/").split("/")
    return f"https://{owner.lower()}.github.io/{name}"


def configure(app: Sphinx, config: Config) -> None:
    """Put the switch into the header of every page."""
    config.templates_path = [*config.templates_path, str(Path(__file__).parent / "templates")]
    header = ["language.html", "article-header-buttons.html"]
    config.html_theme_options["article_header_end"] = header


def link(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Tell a page, and search engines, where its counterpart is."""
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
    context["body"] = number_headings(PARTS_OF_TITLE.sub(PHRASES, context.get("body") or ""))


def number_headings(body: str) -> str:
    """Give every heading a name that is the same in both editions."""
    count = itertools.count(1)
    return HEADING.sub(lambda m: f'<span id="part-{next(count)}"></span>{m[0]}', body)


class KeepTogether(SphinxPostTransform):
    """Keep numbers together with their signs; code stays as it is."""

    default_priority = 900

    def run(self, **_: Any) -> None:
        """Put a space that does not break in place of one that does."""
        for text in list(self.document.findall(nodes.Text)):
            code = isinstance(text.parent, (nodes.literal, nodes.literal_block, nodes.raw))
            if not code and TOGETHER.search(text):
                text.parent.replace(text, nodes.Text(TOGETHER.sub("\u00a0", text)))


def terms() -> list[dict[str, Any]]:
    """Return the terms of the book, as the glossary has them."""
    groups = json.loads(TERMS.read_text(encoding="utf-8"))["groups"]
    return [term for group in groups for term in group["terms"]]


def synonyms() -> dict[str, str]:
    """Return what readers may type, in small letters, with the book's own term for it."""
    return {name.lower(): term["zh"] for term in terms() for name in (*term["not"], *term["also"])}


class Chinese(SearchChinese):
    """Sphinx's own Chinese search, with the book's terms as words, and a cutter of queries."""

    @property
    def js_splitter_code(self) -> str:  # type: ignore[override]
        """What the search page runs."""
        names = json.dumps(synonyms(), ensure_ascii=False, sort_keys=True)
        return f"const synonyms = {names};\n" + (ASSETS / "search.js").read_text(encoding="utf-8")

    def init(self, options: dict[str, str]) -> None:
        """Teach jieba the terms, which it would take apart."""
        super().init(options)
        jieba.setLogLevel("WARNING")  # it says, on stderr, that it loads its dictionary
        for term in terms():
            for word in re.findall(r"[\u4e00-\u9fff]{2,}", term["zh"]):
                jieba.add_word(word)


def translate(page: str) -> str:
    """Put Chinese in place of what the theme leaves in English."""
    for english, chinese in PARTS.items():
        page = page.replace(english, chinese)
    done, at = [], 0
    for ours in [*OURS.finditer(page), None]:
        theme = page[at : ours.start() if ours else None]
        done.append(WORDS.sub(lambda m: m[1] + CHINESE[m[2]], theme))
        if ours:
            done.append(ours[0])
            at = ours.end()
    return "".join(done)


def finish(app: Sphinx, error: Exception | None) -> None:
    """Bring along the script, which ``dnnl_slim`` joins with the others, and finish the Chinese."""
    if error is not None or app.builder.format != "html":
        return
    site = Path(app.outdir)
    shutil.copyfile(ASSETS / SCRIPT, site / "_static" / SCRIPT)
    if app.config.dnnl_edition == "zh":
        for page in site.rglob("*.html"):
            page.write_text(translate(page.read_text(encoding="utf-8")), encoding="utf-8")
        for name, words in SCRIPTS.items():
            script = site / "_static" / name
            text = script.read_text(encoding="utf-8")
            for english, chinese in words.items():
                text = text.replace(english, chinese)
            script.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the steps above."""
    app.add_config_value("dnnl_edition", "", "env")
    app.add_search_language(Chinese)
    app.add_js_file(SCRIPT)
    app.add_post_transform(KeepTogether)
    app.connect("config-inited", configure)
    app.connect("html-page-context", link)
    app.connect("build-finished", finish, priority=890)  # before dnnl_book joins the scripts
    return {"parallel_read_safe": True, "parallel_write_safe": True}
