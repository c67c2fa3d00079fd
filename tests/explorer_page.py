"""A page that shows explorers as the book does, without building the book.

``write_page`` writes what Jupyter Book would: the widgets' stored state, their views, our loader.
"""

from __future__ import annotations

import html
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ipywidgets import Widget
from ipywidgets.embed import dependency_state, embed_data
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
LOADER = ROOT / "_ext" / "sphinx-anywidget" / "sphinx_anywidget" / "assets" / "loader.js"
STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"

PAGE = """<!DOCTYPE html>
<html lang="{lang}" data-theme="{theme}">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Explorers</title>
<style>
body {{ margin: 0; padding: 8px; background: {paper}; color: {ink}; }}
main {{ max-width: 720px; margin: auto; }}
</style>
<style>
{styles}
</style>
<script defer src="loader.js"></script>
</head>
<body>
<main>
<h1>Explorers</h1>
{views}
</main>
<script type="{state_type}">{state}</script>
</body>
</html>
"""


def write_page(
    widgets: Sequence[Widget], folder: Path, lang: str = "en", theme: str = "light"
) -> Path:
    """Write a page with ``widgets`` and the loader into ``folder``; return its path."""
    # (only these widgets: by default, all that the tests ever made)
    state = dependency_state(list(widgets), drop_defaults=False)
    data = embed_data(views=list(widgets), state=state, drop_defaults=False)
    views = "\n".join(
        f'<div class="output"><script type="{VIEW}">{json.dumps(view)}</script></div>'
        for view in data["view_specs"]
    )
    paper, ink = {"light": ("#fff", "#1c1e21"), "dark": ("#121212", "#e8eaed")}[theme]
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(LOADER, folder / "loader.js")
    path = folder / f"page_{html.escape(lang)}_{theme}.html"
    # (as Sphinx does: a "</script>" inside the state would end it)
    stored = json.dumps(data["manager_state"]).replace("</", "<\\/")
    path.write_text(
        PAGE.format(
            lang=lang,
            theme=theme,
            paper=paper,
            ink=ink,
            views=views,
            styles="\n".join(dict.fromkeys(str(getattr(one, "_css", "")) for one in widgets)),
            state=stored,
            state_type=STATE,
        ),
        encoding="utf-8",
    )
    return path


def chromium_options() -> dict[str, Any]:
    """Return how the Chromium of the tests is started; it fetches nothing of its own accord."""
    sys.path.insert(0, str(ROOT / "tools"))
    import browser as chromium

    path = chromium.find()
    if path is None:
        raise RuntimeError("no Chromium found: run `python tools/browser.py --install`")
    # The sandbox cannot be set up by root, as in a container.
    return {"executable_path": path, "args": ["--no-sandbox", "--disable-background-networking"]}


@contextmanager
def start_browser() -> Iterator[Browser]:
    """Start the Chromium of the tests."""
    options = chromium_options()  # before Playwright runs, which it asks itself
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(**options)


class ExplorerPage:
    """A page with explorers, which may ask for nothing beyond its folder and must stay silent."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page, self.said = page, []
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        root = path.parent.as_uri()

        def only_here(route) -> None:
            if route.request.url.startswith((root, "data:", "blob:")):
                route.continue_()
            else:
                self.said.append(f"request: {route.request.url}")
                route.abort()

        page.route("**/*", only_here)
        page.goto(path.as_uri())
        self.wait()

    def wait(self) -> None:
        """Wait until every explorer has been rendered."""
        self.page.wait_for_function("performance.getEntriesByName('anywidgets-ready').length === 1")

    def overflow(self) -> int:
        """Return how many pixels the page is wider than the window."""
        return self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )

    def frames(self, n: int = 2) -> None:
        """Let the page draw ``n`` frames."""
        self.page.evaluate(
            "n => new Promise(done => { const next = () => n-- ? requestAnimationFrame(next)"
            " : done(); next(); })",
            n,
        )
