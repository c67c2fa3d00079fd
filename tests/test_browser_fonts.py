"""Chinese pages fit and stay in place, whether or not the machine has a Chinese font.

A browser takes its fonts from fontconfig when it starts; a configuration can hide them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from test_browser import CHAPTERS, SHIFT, WIDE, Reader

pytestmark = pytest.mark.book

HIDE = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <cachedir>{cache}</cachedir>
  <selectfont><rejectfont>{patterns}</rejectfont></selectfont>
</fontconfig>
"""
LANGUAGES = ("zh-cn", "zh-hk", "zh-tw", "ja", "ko")


def chinese_fonts(**environment: str) -> list[str]:
    """Return the Chinese fonts that a program sees in an environment."""
    done = subprocess.run(
        ["fc-list", ":lang=zh-cn", "file"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.fixture(scope="module", params=["hidden", "installed"])
def other_browser(request, browser: Browser, tmp_path_factory) -> Iterator[Browser]:
    """A browser that has no Chinese font, and one that has the machine's."""
    if shutil.which("fc-list") is None:
        pytest.skip("no fontconfig: pages were NOT tried with other fonts")
    if request.param == "installed":
        if not chinese_fonts():
            pytest.skip("no Chinese font (Debian: fonts-noto-cjk): pages were NOT tried with one")
        yield browser
        return
    from explorer_page import chromium_options

    folder: Path = tmp_path_factory.mktemp("fonts")
    patterns = "".join(
        f'<pattern><patelt name="lang"><string>{one}</string></patelt></pattern>'
        for one in LANGUAGES
    )
    config = folder / "fonts.conf"
    config.write_text(HIDE.format(cache=folder / "cache", patterns=patterns), encoding="utf-8")
    assert chinese_fonts(FONTCONFIG_FILE=str(config)) == []
    started = browser.browser_type.launch(
        **chromium_options(), env={**os.environ, "FONTCONFIG_FILE": str(config)}
    )
    yield started
    started.close()


@pytest.mark.parametrize("name", CHAPTERS["zh"])
def test_a_chinese_page_fits_and_stays_in_place(other_browser, site: Path, name: str) -> None:
    found = {}
    for width in (320, 1280):
        context = other_browser.new_context(
            viewport={"width": width, "height": 800}, locale="zh-CN", reduced_motion="reduce"
        )
        reader = Reader(context.new_page(), site.as_uri())
        reader.page.add_init_script(SHIFT)
        reader.open(name)
        found[width] = (max(0, reader.all(WIDE)), round(reader.all("window.shift"), 3))
        context.close()
    assert all(wide == 0 and shift <= 0.02 for wide, shift in found.values()), found
