"""The pages of the example book, over http and from disk, without a network."""

from __future__ import annotations

from playwright.sync_api import expect

READY = "performance.getEntriesByName('anywidgets-ready').length === 1"


def test_a_widget_runs_its_own_module(visit) -> None:
    page = visit("index")
    button = page.get_by_role("button", name="count is 41")
    button.click()
    expect(page.get_by_role("button", name="count is 42")).to_be_visible()


def test_a_widgets_style_sheet_applies(visit) -> None:
    page = visit("index")
    page.wait_for_function(READY)
    sheets = page.evaluate("[...document.styleSheets].map(s => s.href).filter(Boolean)")
    assert [one for one in sheets if "widget-" in one]


def test_a_large_value_is_fetched_when_the_reader_comes_near(visit, root: str) -> None:
    page = visit("index", viewport={"width": 800, "height": 200})  # it is 1000 pixels down
    page.wait_for_function(READY)
    page.wait_for_load_state("load")

    def values() -> int:
        return len({name for name in visit.fetched if name.startswith("value-")})

    assert page.locator("canvas").count() == 0 and values() == 1  # the counter's module
    page.evaluate("document.querySelectorAll('.anywidget-slot')[1].scrollIntoView()")
    expect(page.locator("canvas")).to_be_visible()
    assert values() == 3
    pixel = page.locator("canvas").evaluate(
        "c => [...c.getContext('2d').getImageData(5, 3, 1, 1).data]"
    )
    assert pixel == [3 ^ 5, 3 ^ 5, 3 ^ 5, 255]


def test_all_widgets_can_be_asked_for(visit) -> None:
    page = visit("index", viewport={"width": 800, "height": 200})
    page.evaluate("sphinxAnywidget.then((widgets) => widgets.showAll())")
    expect(page.locator("canvas")).to_have_count(1)


def test_a_stock_control_is_linked_to_a_widget(visit) -> None:
    page = visit("linked")
    expect(page.locator("output")).to_have_text("3 squared is 9")
    handle = page.get_by_role("slider")
    expect(handle).to_have_attribute("aria-label", "value")
    handle.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("output")).to_have_text("4 squared is 16")


def test_a_page_without_stock_controls_does_not_fetch_them(visit) -> None:
    page = visit("index")
    page.wait_for_function(READY)
    page.wait_for_load_state("load")
    assert not [name for name in visit.fetched if "ipywidgets" in name or "controls" in name]
