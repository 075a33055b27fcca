"""The puzzles of notebook 07: solutions pass, and what is missing is said in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from notebooks import puzzles
from tests.notebooks.puzzle_solutions import ATTEMPTS, SOLUTIONS, Solve

NOTEBOOK = Path(puzzles.__file__).with_name("07-puzzles.ipynb")
NUMBERS = range(1, 13)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_solution_solves_its_puzzle(number: int) -> None:
    verdict = puzzles.check(number, SOLUTIONS[number - 1])
    assert repr(verdict) == f"Puzzle {number}, {puzzles.puzzle(number).title}: solved."


@pytest.mark.parametrize(("number", "attempt", "missing"), ATTEMPTS)
def test_a_wrong_attempt_hears_what_is_missing(number: int, attempt: Solve, missing: str) -> None:
    assert missing in str(puzzles.check(number, attempt).missing)


@pytest.mark.parametrize("number", NUMBERS)
def test_the_notebook_has_the_puzzle_and_says_why_it_is_unsolved(number: int) -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    (text,) = [
        "".join(output["data"]["text/plain"])
        for cell in cells
        if f"puzzles.check({number}, " in "".join(cell["source"])
        for output in cell["outputs"]
    ]
    assert text == repr(puzzles.check(number, lambda sch: None))
    assert "solved." not in text
    title = puzzles.puzzle(number).title
    headings = ["".join(cell["source"]).split("\n", 1)[0].lower() for cell in cells]
    assert f"## {number}. {title}".lower() in headings


def test_an_unknown_puzzle() -> None:
    with pytest.raises(ValueError, match="there is no puzzle 13; puzzles are 1 to 12"):
        puzzles.show(13)
