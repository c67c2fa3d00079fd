"""What a page asks for when it is opened: its bytes as static hosts send them, and its requests.

`make bench-site` measures the same in time, on a slow connection; the budgets are its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.book

sys.path.insert(0, str(ROOT / "tools"))

import bench_site  # noqa: E402
import book  # noqa: E402

PAGES = [f"{'' if e == 'en' else 'zh/'}{page}" for e in book.EDITIONS for page in book.pages(e)]


@pytest.fixture(scope="module")
def files(browser: Browser, site: Path) -> Iterator:
    """Return the files that a page asks for: ``files("chapters/en/06_order")``."""
    with bench_site.serve(site) as root:

        @cache
        def visit(name: str) -> list[Path]:
            asked: list[str] = []
            context = browser.new_context(viewport={"width": 1280, "height": 800})
            page = context.new_page()
            page.add_init_script(bench_site.WATCH)
            page.on("request", lambda request: asked.append(request.url))
            page.goto(f"{root}/{name}.html", wait_until="load")
            page.wait_for_function(bench_site.DONE)
            page.wait_for_load_state("networkidle")
            context.close()
            urls = [url for url in asked if not url.startswith(("data:", "blob:"))]
            assert all(url.startswith(root) for url in urls)
            return [site / unquote(urlsplit(url).path).lstrip("/") for url in urls]

        yield visit


def kilobytes(files: list[Path]) -> float:
    return sum(len(bench_site.packed(file)) for file in files) / 1000


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_within_its_budget(files, site: Path, name: str) -> None:
    own, first = files(name), files(bench_site.second_page(name))
    budget = bench_site.budget(site / f"{name}.html")
    assert len(own) <= budget.requests
    assert kilobytes(own) <= budget.kilobytes
    new = [file for file in own if file not in first]
    assert kilobytes(new) <= budget.second_kilobytes
