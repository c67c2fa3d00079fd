"""The quizzes: their content, and the widget that asks them."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ipywidgets import Widget
from traitlets import TraitError

from dnnl.explorers import Quiz
from dnnl.explorers.quiz import QUIZZES, editions

ROOT = Path(__file__).resolve().parent.parent
book = pytest.mark.book
LANGUAGES = list(editions())
SECTIONS = list(editions()["en"])
SCHEMA = json.loads((QUIZZES / "schema.json").read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Forget the widgets of a test, which the pages of the next would carry."""
    yield
    Widget.close_all()


# ---- the content --------------------------------------------------------------------------------


def read(lang: str) -> dict[str, Any]:
    return json.loads((QUIZZES / f"{lang}.json").read_text(encoding="utf-8"))


def headings(lang: str) -> dict[str, set[str]]:
    """The headings of every page of an edition, by the page's number."""
    found = {}
    for path in (ROOT / "chapters" / lang).glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
        found[path.stem.split("_")[0]] = {title.replace("`", "").strip() for title in titles}
    return found


def skeleton(edition: dict[str, Any]) -> dict[str, list[Any]]:
    """What all editions have in common."""
    return {
        section: [(q["id"], [c.get("right", False) for c in q["choices"]]) for q in questions]
        for section, questions in edition["sections"].items()
    }


@pytest.mark.parametrize("lang", LANGUAGES)
def test_an_edition_fits_the_schema(lang) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(read(lang), SCHEMA)


def spoil(change) -> dict[str, Any]:
    edition = copy.deepcopy(read("en"))
    change(edition["sections"], edition["sections"]["01"][0])
    return edition


@pytest.mark.parametrize(
    "change",
    [
        lambda sections, question: sections.update({"10": sections["01"]}),
        lambda sections, question: sections["01"].extend(2 * sections["01"]),
        lambda sections, question: question.pop("see"),
        lambda sections, question: question.update(ask=" "),
        lambda sections, question: question.update(choices=question["choices"][:2]),
        lambda sections, question: [choice.update(right=True) for choice in question["choices"]],
        lambda sections, question: [choice.pop("right", 0) for choice in question["choices"]],
        lambda sections, question: question["choices"][0].update(right=False),
        lambda sections, question: question["choices"][0].pop("why"),
        lambda sections, question: question["choices"][0].update(whence="misspelt"),
    ],
)
def test_the_schema_refuses_what_the_widget_could_not_show(change) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(spoil(change), SCHEMA)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_page_has_a_quiz_that_points_to_its_own_experiments(lang) -> None:
    pages = headings(lang)
    assert set(pages) == set(read(lang)["sections"])
    for section, questions in read(lang)["sections"].items():
        assert len({q["id"] for q in questions}) == len(questions), section
        for q in questions:
            assert q["see"] in pages[section], f"{section}, {q['id']}: no heading {q['see']!r}"
            texts = [q["ask"], *(c[key] for c in q["choices"] for key in ("text", "why"))]
            assert all(text.count("`") % 2 == 0 for text in texts), f"{section}, {q['id']}"
            assert len({c["text"] for c in q["choices"]}) == len(q["choices"])


@pytest.mark.parametrize("lang", LANGUAGES)
def test_numbers_in_a_quiz_are_those_of_its_page(lang) -> None:
    """So that a page whose experiment changes is not contradicted by its own quiz."""
    pages = {}
    for path in (ROOT / "chapters" / lang).glob("*.ipynb"):
        pages[path.stem.split("_")[0]] = path.read_text(encoding="utf-8")
    checked = 0
    for section, questions in read(lang)["sections"].items():
        for q in questions:
            texts = [q["ask"], *(c[key] for c in q["choices"] for key in ("text", "why"))]
            for number in re.findall(r"(?<![\d.])\d+\.\d+(?!\.?\d)", " ".join(texts)):
                assert number in pages[section], f"{section}, {q['id']}: {number}"
                checked += 1
    assert checked > 20


@pytest.mark.parametrize("lang", LANGUAGES)
def test_editions_ask_the_same_questions(lang) -> None:
    assert skeleton(read(lang)) == skeleton(read("en"))


def test_the_right_answer_stands_in_every_place() -> None:
    """So that nobody learns the place instead of the answer."""
    places = [rights.index(True) for qs in skeleton(read("en")).values() for _, rights in qs]
    assert set(places) >= {0, 1, 2}
    assert max(places.count(place) for place in set(places)) <= len(places) / 2


# ---- in Python ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("section", "10", "Expected section to be one of .* got '10'"),
        ("section", 1, "Expected section .* got 1"),
        ("lang", "fr", "Expected lang .* got 'fr'"),
        ("answers", [1], r"Expected answers to be a dict .* got \[1\]"),
        ("answers", None, "Expected answers to be a dict .* got None"),
        ("answers", {"nothing": 0}, "Expected answers to the questions .* got one to 'nothing'"),
        ("answers", {"ribbons": 4}, "Expected the answer to ribbons .* from 0 to 3, but got 4"),
        ("answers", {"ribbons": True}, "Expected the answer to ribbons .* got True"),
        ("answers", {"ribbons": "A"}, "Expected the answer to ribbons .* got 'A'"),
    ],
)
def test_wrong_values_are_refused_and_change_nothing(name, value, message) -> None:
    quiz = Quiz("01", answers={"ribbons": 1})
    before = {key: getattr(quiz, key) for key in ("section", "lang", "answers", "_content")}
    with pytest.raises(TraitError, match=message):
        setattr(quiz, name, value)
    assert {key: getattr(quiz, key) for key in before} == before
    with pytest.raises(TraitError, match=message):
        Quiz(**{"section": "01", name: value})


def test_turning_to_another_section_brings_its_questions_and_clears_the_answers() -> None:
    quiz = Quiz("01", answers={"ribbons": 1})
    assert quiz.answers == {"ribbons": 1}
    quiz.section = "02"
    assert quiz.answers == {}
    assert quiz._content == {lang: editions()[lang]["02"] for lang in LANGUAGES}
    assert repr(quiz) == "Quiz()"


@pytest.mark.parametrize("section", SECTIONS)
def test_the_still_is_small_and_has_no_words(section) -> None:
    still = Quiz(section).still()
    assert still[:4] == b"\x89PNG" and len(still) < 10_000
    assert still == Quiz(section, lang="zh").still()


# ---- in the page --------------------------------------------------------------------------------


def spoken(text: str) -> str:
    return text.replace("`", "")


def question(page, n: int):
    return page.locator(".dnnl-question").nth(n)


@book
@pytest.mark.parametrize("section", SECTIONS)
def test_every_choice_gets_its_verdict_and_its_explanation(show, section) -> None:
    shown = show(Quiz(section))
    assert shown.page.locator(".dnnl-verdict").all_inner_texts() == [""] * len(
        editions()["en"][section]
    )
    for n, item in enumerate(editions()["en"][section]):
        group = question(shown.page, n)
        assert group.locator(".dnnl-ask").inner_text() == f"{n + 1}. {spoken(item['ask'])}"
        for choice in item["choices"]:
            button = group.get_by_role("button", name=spoken(choice["text"]), exact=True)
            button.click()
            verdict = "Right." if choice.get("right") else "Not so."
            expected = f"{verdict} {spoken(choice['why'])} The experiment: {item['see']}"
            assert group.locator(".dnnl-verdict").inner_text() == expected
            assert button.get_attribute("aria-pressed") == "true"
            assert group.locator("[aria-pressed=true]").count() == 1


@book
def test_the_explanation_links_to_its_heading(show) -> None:
    """As Sphinx writes headings: a permalink behind the title, curly quotes, an id outside."""
    page = show(Quiz("03")).page
    page.evaluate(
        """() => document.querySelector("main").insertAdjacentHTML("beforeend",
        `<section id="ways"><h2><code>expand</code> makes a view, <code>repeat</code> makes copies
         <a class="headerlink" href="#ways">#</a></h2></section>
         <section id="cut"><h2>Initialisation: what “truncated” means here<a href="#cut">#</a></h2>
         </section>`)"""
    )
    for n, target in ((1, "#ways"), (2, "#cut")):
        question(page, n).locator("button").first.click()
        assert question(page, n).locator("a").get_attribute("href") == target
    question(page, 0).locator("button").first.click()  # its heading is not on this page
    assert question(page, 0).locator("a").count() == 0


@book
def test_a_quiz_is_answered_by_keyboard(show) -> None:
    page = show(Quiz("01")).page
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert question(page, 0).locator(".dnnl-verdict").inner_text() == ""  # walking answers nothing
    page.keyboard.press("Enter")
    assert question(page, 0).locator(".dnnl-verdict").inner_text().startswith("Right. ")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert question(page, 0).locator(".dnnl-verdict").inner_text().startswith("Not so. ")
    assert question(page, 0).locator(".dnnl-verdict").get_attribute("aria-live") == "polite"


@book
def test_answers_from_python_are_shown_and_other_quizzes_keep_theirs(show) -> None:
    page = show(Quiz("06", answers={"slice": 1, "two-names": 1}), Quiz("06")).page
    first, second = (page.locator(".dnnl-explorer").nth(i) for i in (0, 1))
    assert first.locator(".dnnl-verdict.right").count() == 1
    assert first.locator(".dnnl-verdict.wrong").count() == 1
    assert second.locator(".dnnl-verdict.right, .dnnl-verdict.wrong").count() == 0
    second.locator(".dnnl-choice").nth(2).click()
    assert second.locator(".dnnl-verdict.right").count() == 1
    assert first.locator(".dnnl-verdict.right").count() == 1


@book
@pytest.mark.parametrize(("lang", "theme"), [("zh-CN", "light"), ("zh-CN", "dark")])
def test_a_chinese_page_speaks_chinese(show, lang, theme) -> None:
    page = show(Quiz("05"), lang=lang, theme=theme).page
    content = editions().get("zh", editions()["en"])["05"]
    page.locator(".dnnl-choice").first.click()
    right = content[0]["choices"][0].get("right")
    verdict = question(page, 0).locator(".dnnl-verdict").inner_text()
    assert verdict.startswith("对。" if right else "不对。") and "实验见：" in verdict
    assert page.locator(".dnnl-explorer").get_attribute("aria-label") == "自测"
