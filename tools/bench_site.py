"""Measure how the built pages load on a slow connection, and compare them with the budgets.

    python tools/bench_site.py [--stock FOLDER] [PAGE ...]        (make bench-site)

Every page is opened in Chromium with an empty cache, at 8 Mbit/s and 50 ms of latency, with this
machine's processor and with one four times slower; then once more after another page, whose files
are in the cache. Measured are bytes over the wire (gzip, as static hosts send), requests, layout
shift, and the time from the click until every explorer can be used.

`--stock` names a build of the English notebooks by Jupyter Book without the book's extension;
ratios to it are printed, too. Its MathJax, RequireJS and widget manager come from a CDN; see
`make bench-site`. The tests keep the budgets of bytes and requests (tests/test_site_budget.py).
"""

from __future__ import annotations

import argparse
import functools
import gzip
import statistics
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import browser as chromium
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "_build" / "html"
LINE = {"latency": 50, "downloadThroughput": 1_000_000, "uploadThroughput": 1_000_000}  # bytes/s
REPEAT = 3


@dataclass(frozen=True)
class Budget:
    """What a page may cost: with an empty cache, and as the second page that a reader opens."""

    kilobytes: int
    milliseconds: int  # until the page can be used, on this machine
    second_kilobytes: int = 120
    requests: int = 15
    shift: float = 0.02


SECTION = Budget(350, 350)
LIVE = Budget(450, 600)  # with the trained model, whose weights are fetched when they are needed

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
}
PACKED = {".html", ".css", ".js", ".json", ".svg"}


@functools.cache
def packed(path: Path) -> bytes:
    """Return a file as a static host sends it."""
    content = path.read_bytes()
    return gzip.compress(content, 6, mtime=0) if path.suffix in PACKED else content


class Host(BaseHTTPRequestHandler):
    """Serves a folder, with gzip and keep-alive."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *args: Any, folder: Path) -> None:
        self.folder = folder
        super().__init__(*args)

    def do_GET(self) -> None:
        path = (self.folder / unquote(urlsplit(self.path).path).lstrip("/")).resolve()
        if self.folder not in path.parents or not path.is_file():
            self.send_error(404)
            return
        content = packed(path)
        self.send_response(200)
        self.send_header("Content-Type", TYPES.get(path.suffix, "application/octet-stream"))
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "max-age=600")  # as GitHub Pages does
        if path.suffix in PACKED:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    handler = functools.partial(Host, folder=folder.resolve())
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@dataclass(frozen=True)
class Visit:
    """One visit: kB, requests, ms to text, ms to explorers, layout shift."""

    kilobytes: float
    requests: int
    text: float
    ready: float | None
    shift: float


# The book's loader sets a performance mark when it is done. A stock page does not; there, the time
# when the last explorer appears is taken.
WATCH = """
window.shift = 0;
new PerformanceObserver(list => { for (const e of list.getEntries()) window.shift += e.value; })
  .observe({ type: 'layout-shift', buffered: true });
window.wanted = () => document.querySelectorAll('script[type*="widget-view+json"]').length;
window.there = () => document.querySelectorAll('.dnnl-explorer, .widget-inline-hbox').length;
const look = () => {
  const all = document.readyState !== 'loading' && wanted() && there() >= wanted();
  if (all) window.appeared ??= performance.now();
  else requestAnimationFrame(look);
};
look();
"""
DONE = "!wanted() || window.appeared || performance.getEntriesByName('anywidgets-ready').length"
READ = """() => {
  const mark = performance.getEntriesByName('anywidgets-ready')[0]?.startTime;
  const text = performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0;
  const drawn = mark ?? window.appeared ?? null;  // ready: drawn, and the page is in sight
  return {
    wanted: wanted(), ready: drawn && Math.max(drawn, text), text, shift: window.shift,
  };
}"""


def visit(browser: Browser, url: str, slower: int, after: str | None = None) -> Visit:
    """Open a page with an empty cache, or ``after`` another one."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    if after is not None:
        page.goto(after, wait_until="networkidle")
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Network.setCacheDisabled", {"cacheDisabled": after is None})
    session.send("Network.emulateNetworkConditions", {"offline": False, **LINE})
    session.send("Emulation.setCPUThrottlingRate", {"rate": slower})
    got = {"bytes": 0, "requests": 0}

    def finished(event: dict[str, Any]) -> None:
        got["bytes"] += event["encodedDataLength"]
        got["requests"] += event["encodedDataLength"] > 0  # not from the cache

    session.on("Network.loadingFinished", finished)
    page.add_init_script(WATCH)
    response = page.goto(url, wait_until="load", timeout=120_000)
    if response is None or not response.ok:
        raise SystemExit(f"{url} cannot be read")
    page.wait_for_function(DONE, timeout=120_000)
    before = -1
    while before != got["requests"]:  # until no more requests come
        before = got["requests"]
        page.wait_for_timeout(1000 * slower)
    found = page.evaluate(READ)
    context.close()
    return Visit(
        got["bytes"] / 1000,
        got["requests"],
        found["text"],
        found["ready"] if found["wanted"] else None,
        found["shift"],
    )


def measure(browser: Browser, url: str, slower: int) -> Visit:
    """Visit a page several times and return the visit with the median time."""
    visits = [visit(browser, url, slower) for _ in range(REPEAT)]
    return sorted(visits, key=lambda v: v.ready if v.ready is not None else v.text)[REPEAT // 2]


def budget(page: Path) -> Budget:
    """Return the budget of a page; live pages have the trained model."""
    return LIVE if '"_weights"' in page.read_text(encoding="utf-8") else SECTION


def over(own: Visit, second: Visit, budget: Budget) -> list[str]:
    """Return what is over the budget."""
    costs = {
        f"{budget.kilobytes} kB": own.kilobytes > budget.kilobytes,
        f"{budget.milliseconds} ms": (own.ready or own.text) > budget.milliseconds,
        f"{budget.second_kilobytes} kB as the second page": (
            second.kilobytes > budget.second_kilobytes
        ),
        f"{budget.requests} requests": own.requests > budget.requests,
        f"shift {budget.shift}": own.shift > budget.shift,
    }
    return [cost for cost, exceeded in costs.items() if exceeded]


def second_page(page: str) -> str:
    """Return the page that a reader may have opened before: the first, or else the next."""
    folder, name = page.rsplit("/", 1)
    return f"{folder}/{'01_patch_tokens' if name == 'index' else 'index'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="such as chapters/en/06_order")
    parser.add_argument("--stock", type=Path, help="a stock build of the English notebooks")
    args = parser.parse_args()
    pages = args.pages or sorted(
        str(p.relative_to(SITE).with_suffix("")) for p in SITE.glob("**/chapters/*/*.html")
    )
    late = 0
    print(
        f"{'page':42}{'CPU':>5}{'kB':>6}{'second':>8}{'requests':>9}{'text ms':>9}{'ready ms':>9}"
        f"{'shift':>7}" + ("   / stock: kB, ready" if args.stock else "")
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.find(),
            args=["--no-sandbox", "--disable-background-networking"],
        )
        with serve(SITE) as root:  # the first visit after the start also loads the system's fonts
            visit(browser, f"{root}/{pages[0]}.html", 1)
        ratios: list[tuple[float, float]] = []
        for name in pages:
            for slower in (1, 4):
                with serve(SITE) as root:
                    url = f"{root}/{name}.html"
                    own = measure(browser, url, slower)
                    second = visit(browser, url, slower, f"{root}/{second_page(name)}.html")
                ready = "-" if own.ready is None else f"{own.ready:.0f}"
                line = f"{name:42}{'1/' + str(slower):>5}{own.kilobytes:6.0f}"
                line += f"{second.kilobytes:8.0f}{own.requests:9}"
                line += f"{own.text:9.0f}{ready:>9}{own.shift:7.3f}"
                # A stock build has the English pages alone.
                if args.stock and (args.stock / f"{name}.html").is_file():
                    with serve(args.stock) as root:
                        other = measure(browser, f"{root}/{name}.html", slower)
                    kilobytes = own.kilobytes / other.kilobytes
                    line += f"   {kilobytes:.2f}"
                    if own.ready is not None and other.ready is not None:
                        line += f" {own.ready / other.ready:.2f}"
                        if slower == 1:
                            ratios.append((kilobytes, own.ready / other.ready))
                exceeded = over(own, second, budget(SITE / f"{name}.html"))
                if slower == 1 and exceeded:
                    late += 1
                    line += f"   OVER {', '.join(exceeded)}"
                print(line, flush=True)
        browser.close()
    if ratios:
        kilobytes, times = (statistics.geometric_mean(r) for r in zip(*ratios, strict=True))
        print(f"against stock, on average: {kilobytes:.2f} of its bytes, {times:.2f} of its time")
    print(f"{late} pages are over budget" if late else "every page is within its budget")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
