"""Quiz: the questions of a section, answered in the page."""

import functools
import json
from importlib.resources import files
from typing import Any

import matplotlib.pyplot as plt
import traitlets

from dnnl import figures
from dnnl.explorers.base import Choice, Explorer, Setting, bundle, png, stylesheet

QUIZZES = files("dnnl") / "quizzes"


@functools.cache
def editions() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return the questions by language and section, of every edition there is.

    An edition is a file ``dnnl/quizzes/LANGUAGE.json``; ``schema.json`` says what stands in it.
    """
    found = {}
    for file in sorted(QUIZZES.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".json") and file.name != "schema.json":
            found[file.name[:-5]] = json.loads(file.read_text(encoding="utf-8"))["sections"]
    return found


class Quiz(Explorer):
    """Two to four questions of a section, with an explanation for every choice.

    Args:
        section: the number of the section's page, ``"01"`` and so on, or ``"index"``.
        answers: what the reader chose: a question's ``id`` → the number of the choice, from 0.

    Raises:
        traitlets.TraitError: for an unknown section, question or choice, here and later.
    """

    _esm = bundle("quiz.js")
    _css = stylesheet("quiz")

    section = Choice("index", *(name for name in editions()["en"] if name != "index"))
    answers = Setting().tag(sync=True)
    _content = traitlets.Dict().tag(sync=True)

    def __init__(self, section: str = "index", **traits: Any) -> None:
        given, answers = "answers" in traits, traits.pop("answers", None)
        super().__init__(section=section, **traits)
        if given:  # after the section, which clears them
            self.answers = answers

    @traitlets.default("_content")
    def _questions_of_section(self) -> dict[str, list[dict[str, Any]]]:
        return {
            lang: sections[self.section]
            for lang, sections in editions().items()
            if self.section in sections
        }

    @traitlets.default("answers")
    def _no_answers(self) -> dict[str, int]:
        return {}

    @traitlets.default("_room")
    def _room_for_questions(self) -> list[int]:
        return [self._height_at(chars) for chars in (36, 78)]

    def _height_at(self, chars: int) -> int:
        """Return about how many pixels the questions take in lines of so many characters."""

        def lines(text: str) -> int:
            return -(-len(text) // chars)

        height = 70
        for question in self.questions:
            height += 37 + 23 * lines(question["ask"])
            for option in question["choices"]:
                height += 6 + max(40, 12 + 23 * lines(option["text"] + 6 * " "))
        return height

    @property
    def questions(self) -> list[dict[str, Any]]:
        """The questions of the section in English, as ``schema.json`` describes them."""
        questions: list[dict[str, Any]] = self._content["en"]
        return questions

    @traitlets.observe("section")
    def _turn_to(self, _: Any) -> None:
        self._content = self._questions_of_section()
        self.answers = {}

    @traitlets.validate("answers")
    def _valid_answers(self, proposal: Any) -> dict[str, int]:
        answers: dict[str, int] = proposal["value"]
        if not isinstance(answers, dict):
            raise traitlets.TraitError(
                f"Expected answers to be a dict from questions to choices, but got {answers!r}."
            )
        choices = {q["id"]: len(q["choices"]) for q in editions()["en"][self.section]}
        for name, picked in answers.items():
            if name not in choices:
                raise traitlets.TraitError(
                    f"Expected answers to the questions {', '.join(choices)} of section "
                    f"{self.section}, but got one to {name!r}."
                )
            if type(picked) is not int or not 0 <= picked < choices[name]:
                raise traitlets.TraitError(
                    f"Expected the answer to {name} to be an integer from 0 to "
                    f"{choices[name] - 1}, but got {picked!r}."
                )
        return answers

    def still(self) -> bytes:
        """Return a PNG of the form to fill in: it has no words, so it serves every edition."""
        rows = len(self.questions)
        figure, axes = plt.subplots(figsize=(4.4, 0.55 * rows), layout="constrained")
        for row, question in enumerate(self.questions):
            axes.text(0, row, f"{row + 1}", ha="center", va="center", color=figures.INK, size=13)
            for i in range(len(question["choices"])):
                axes.plot(1 + i, row, "o", ms=17, mfc="none", mec=figures.PATCH, mew=1.6)
                letter = "ABCD"[i]
                axes.text(1 + i, row, letter, ha="center", va="center", color=figures.INK, size=9)
        axes.set(xlim=(-0.5, 6.5), ylim=(rows - 0.5, -0.5))
        axes.axis("off")
        return png(figure, colors=32)
