"""What holds for every explorer: of its traits in Python, and of its view in a page."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from explorer_page import ExplorerPage, write_page
from PIL import Image
from traitlets import TraitError

from dnnl import explorers
from dnnl.explorers.resize import MODES
from dnnl.explorers.stored import public

KINDS = [getattr(explorers, name) for name in explorers.__all__]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)

# ---- in Python -----------------------------------------------------------------------------------


def traits() -> Iterator[Any]:
    for kind in KINDS:
        for name in public(dict.fromkeys(kind().get_state())):
            yield pytest.param(kind, name, id=f"{kind.__name__}-{name}")


# No public trait of an explorer takes any of these.
WRONG = [object(), float("nan"), -7, 10**6, 0.123, "no such value", b"no such value", {"a": 1}]


@pytest.mark.parametrize(("kind", "name"), list(traits()))
def test_a_wrong_value_is_refused_and_changes_nothing(kind, name: str) -> None:
    explorer = kind()
    before = explorer.get_state()
    # (None is the mean of the heads; a flag takes both Booleans)
    wrong = [*WRONG, *([None] if name != "head" else [])]
    wrong += [True] if not isinstance(getattr(explorer, name), bool) else []
    if name == "scale" and isinstance(explorer.scale, float):
        wrong.remove(0.123)
    for value in wrong:
        with pytest.raises(TraitError, match=rf"\b{name}\b"):
            setattr(explorer, name, value)
        assert explorer.get_state() == before, value
    with pytest.raises(TraitError, match=rf"\b{name}\b"):
        kind(**{name: "no such value"})


@every_kind
def test_the_text_does_not_depend_on_the_state(kind) -> None:
    assert repr(kind()) == f"{kind.__name__}()"


@every_kind
def test_a_still_is_a_small_picture(kind) -> None:
    png = kind().still()
    with Image.open(io.BytesIO(png)) as image:
        assert image.format == "PNG" and min(image.size) >= 70
        assert len(image.convert("RGBA").getcolors(1 << 20)) > 10  # something is drawn
    assert len(png) <= 60_000
    data, _ = kind()._repr_mimebundle_()
    assert base64.b64decode(data["image/png"])[:4] == b"\x89PNG"


@every_kind
def test_making_one_draws_no_random_numbers(kind) -> None:
    state = torch.random.get_rng_state()
    kind().still()
    assert torch.equal(torch.random.get_rng_state(), state)


@every_kind
def test_its_data_are_small(kind) -> None:
    values = [v for v in kind().get_state().values() if isinstance(v, (bytes, memoryview))]
    assert sum(map(len, values)) < 220_000


# ---- in a page -----------------------------------------------------------------------------------

book = pytest.mark.book
PHONE = {"viewport": {"width": 320, "height": 640}, "has_touch": True, "reduced_motion": "reduce"}

SMALL = """() => [...document.querySelectorAll('.dnnl-explorer :is(input, select, button)')]
  .filter((e) => e.checkVisibility() && e.type !== 'file')
  .map((e) => [e, ['radio', 'checkbox'].includes(e.type) ? e.closest('label') ?? e : e])
  .map(([e, box]) => [e.outerHTML, box.getBoundingClientRect().height])
  .filter(([html, height]) => height < 40 && !html.includes('dnnl-att'))"""

# Every text of an explorer, those for screen readers too.
TEXTS = """() => {
  const box = document.querySelector('.dnnl-explorer'), out = [];
  const walk = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) out.push(walk.currentNode.data);
  for (const e of [box, ...box.querySelectorAll('[aria-label]')]) out.push(e.ariaLabel);
  return out;
}"""

# Names of the library, and of values.
API = {"align_corners", "antialias", "False", "True", "expand", "repeat", *MODES}


@book
@every_kind
@pytest.mark.parametrize("lang", ["en", "zh-CN"])
def test_it_fits_a_phone_in_its_language(show, kind, lang: str) -> None:
    shown = show(kind(), lang=lang, **PHONE)
    shown.frames(3)
    assert shown.overflow() <= 0
    assert shown.page.evaluate(SMALL) == []
    texts = [text for text in shown.page.evaluate(TEXTS) if text not in API]
    if lang == "en":
        assert not re.search("[\u4e00-\u9fff]", "".join(texts))
        return
    for text in texts:
        if re.search("[A-Za-z]{2}", text) and "ShapeError" not in text:
            assert re.search("[\u4e00-\u9fff]|dnnl|token|ViT|P\\(|\\(B|px$|^dropout$", text), text
        assert not re.search("[\u4e00-\u9fff][,:;?!]", text), f"half-width punctuation: {text}"


@book
@every_kind
def test_its_own_language_goes_before_that_of_the_page(show, kind) -> None:
    shown = show(kind(lang="en"), lang="zh-CN")
    shown.frames(3)
    assert not re.search("[\u4e00-\u9fff]", "".join(shown.page.evaluate(TEXTS)))


@book
@every_kind
def test_it_is_legible_in_the_dark(show, kind) -> None:
    shown = show(kind(), theme="dark")
    dark = shown.page.evaluate("""() => [...document.querySelectorAll('.dnnl-explorer *')]
      .filter((e) => [...e.childNodes].some((c) => c.nodeType === 3 && c.data.trim()))
      .filter((e) => e.checkVisibility() && !e.closest('.dnnl-hidden'))
      .map((e) => {
        const light = (color) => {
          const [r, g, b, a = 1] = color.match(/[\\d.]+/g).map(Number);
          return a && 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        let ground = e;
        while (ground && !light(getComputedStyle(ground).backgroundColor)) {
          ground = ground.parentElement;
        }
        const back = ground ? light(getComputedStyle(ground).backgroundColor) : 18;
        return [e.textContent.slice(0, 40), Math.abs(light(getComputedStyle(e).color) - back)];
      }).filter(([, gap]) => gap < 80)""")
    assert dark == []


def operate(page: Any, root: Any, kind: type) -> None:
    """Change something of an explorer as a reader does."""
    if kind is explorers.Quiz:
        root.get_by_role("button").first.click()
    elif kind is explorers.TokenGradient:
        root.get_by_role("checkbox").nth(5).click()
    elif kind is explorers.ClassAttention:
        root.get_by_role("radio").nth(2).check(force=True)
    else:
        root.get_by_role("slider").last.focus()
        page.keyboard.press("Home")


@book
@every_kind
def test_several_on_one_page_do_not_disturb_each_other(show, kind) -> None:
    tall = {"width": 900, "height": 6000}  # a model that is out of sight does not compute
    shown = show(kind(), kind(), kind(lang="zh"), viewport=tall)
    page, roots = shown.page, shown.page.locator(".dnnl-explorer")
    if kind is explorers.Resize:  # its model computes after a pause
        page.wait_for_function(
            """() => [...document.querySelectorAll(".dnnl-explorer")].every((e) => {
              const last = [...e.querySelectorAll(".dnnl-says")].at(-1);
              return /Squared error|平方误差/.test(last.textContent);
            })"""
        )
        page.wait_for_timeout(1000)  # what is said to a screen reader follows after a pause
    shown.frames(4)
    before = [roots.nth(i).inner_text() for i in range(3)]
    assert before[0] == before[1] != before[2]
    operate(page, roots.nth(0), kind)
    page.wait_for_function(
        "text => document.querySelector('.dnnl-explorer').innerText !== text", arg=before[0]
    )
    shown.frames(4)
    assert [roots.nth(i).inner_text() for i in (1, 2)] == before[1:]
    names = page.evaluate("Object.keys(window).filter((k) => /dnnl|explorer|widget/i.test(k))")
    assert sorted(names) == ["anywidgetModules", "anywidgetValues", "sphinxAnywidget"]  # the loader


@book
@every_kind
def test_a_view_that_is_taken_away_leaves_nothing(browser, kind) -> None:
    state = {
        name: {"bytes": base64.b64encode(bytes(value)).decode()}
        if isinstance(value, (bytes, memoryview))
        else value
        for name, value in kind().get_state().items()
        if name not in ("_css", "layout")
    }
    page = browser.new_page()
    left = page.evaluate(
        """async (json) => {
          const state = JSON.parse(json, (_, value) => value?.bytes === undefined ? value
            : new DataView(Uint8Array.from(atob(value.bytes), (c) => c.charCodeAt(0)).buffer));
          const listeners = new Set();
          const model = {
            get: (name) => state[name], set() {}, save_changes() {},
            on: (name, fn) => listeners.add(`${name} ${fn}`),
            off: (name, fn) => listeners.delete(`${name} ${fn}`),
          };
          const url = URL.createObjectURL(new Blob([state._esm], { type: "text/javascript" }));
          const { default: widget } = await import(url);
          const before = Object.keys(window).length, el = document.createElement("div");
          document.body.append(el);
          const stop = await widget.render({ model, el });
          const during = [listeners.size > 0, el.childElementCount];
          await new Promise((done) => setTimeout(done, 50));
          stop();
          await new Promise((done) => setTimeout(done, 200)); // timers that were left would run
          const leaked = Object.keys(window).length - before;
          return [...during, listeners.size, el.childElementCount, leaked];
        }""",
        json.dumps(state),
    )
    page.close()
    assert left == [True, 1, 0, 0, 0]


@book
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_of_them_are_open_to_everyone(browser, tmp_path, theme: str) -> None:
    """What axe finds against WCAG 2.2 A and AA."""
    from axe_playwright_python.base import AXE_FILE_PATH

    path = write_page([kind() for kind in KINDS], tmp_path, theme=theme)
    context = browser.new_context(color_scheme=theme, reduced_motion="reduce")
    shown = ExplorerPage(context.new_page(), path)
    shown.frames(4)
    shown.page.add_script_tag(path=str(AXE_FILE_PATH))
    found = shown.page.evaluate(
        "axe.run('.dnnl-explorer', { resultTypes: ['violations'] }).then((r) => r.violations.map("
        "(v) => [v.id, v.nodes.length, String(v.nodes[0].target), v.nodes[0].html.slice(0, 150)]))"
    )
    context.close()
    assert found == [] and shown.said == []
