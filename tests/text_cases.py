"""Cases in text files: a program, a call, and what the call makes of the program.

    The lines above the first case describe the file.

    == an output is allocated and passed
    def main(x): ...
    -- CallTIRRewrite()
    def main(x): ...

A line that starts with `== ` is the title of a case, a line that starts with `-- ` the call.
In a table, such a title is followed by rows, whose cells stand on both sides of ` -> `:

    == quotients rounded down
    x // 2 // 3 -> x // 6

`pytest --update` rewrites the part after the call, and the last cell of a row; review the
difference.
"""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest


@dataclass(frozen=True)
class TextCase:
    """A case of a text file."""

    path: Path
    title: str
    before: str
    call: str
    after: str

    def __str__(self) -> str:
        return f"== {self.title}\n{self.before}\n-- {self.call}\n{self.after}\n"

    def check(self, found: str, config: pytest.Config) -> None:
        """Compare the expected text with `found`; with `--update`, write it to the file."""
        if config.getoption("--update"):
            text = self.path.read_text()
            self.path.write_text(text.replace(str(self), str(replace(self, after=found))))
        else:
            assert found == self.after


def cases_of(path: Path) -> list[TextCase]:
    """Return the cases of a file, or of all text files of a folder."""
    if path.is_dir():
        return [case for file in sorted(path.glob("*.txt")) for case in cases_of(file)]
    found = []
    for part in ("\n" + path.read_text()).split("\n== ")[1:]:
        title, _, rest = part.partition("\n")
        before, _, rest = rest.partition("\n-- ")
        call, _, after = rest.partition("\n")
        found.append(TextCase(path, title, before, call, after.removesuffix("\n")))
    return found


def each_case(path: Path) -> pytest.MarkDecorator:
    """Return the decorator of a test that gets the cases of a file or folder as `case`."""
    cases = cases_of(path)
    return pytest.mark.parametrize(
        "case", cases, ids=[f"{case.path.stem}: {case.title}" for case in cases]
    )


@dataclass(frozen=True)
class Row:
    """A row of a table in a text file, and the title above it."""

    path: Path
    title: str
    cells: tuple[str, ...]

    def __str__(self) -> str:
        return " -> ".join(self.cells)

    def check(self, found: str, config: pytest.Config) -> None:
        """Compare the last cell with `found`; with `--update`, write it to the file."""
        if config.getoption("--update"):
            row = replace(self, cells=(*self.cells[:-1], found))
            self.path.write_text(self.path.read_text().replace(f"\n{self}\n", f"\n{row}\n"))
        else:
            assert found == self.cells[-1]


def rows_of(path: Path, *titles: str) -> list[Row]:
    """Return the rows under some titles of a file, or under all."""
    found = []
    for part in path.read_text().split("\n== ")[1:]:
        title, *lines = part.splitlines()
        if not titles or title in titles:
            found += [Row(path, title, tuple(line.split(" -> "))) for line in lines if line]
    return found


def each_row(path: Path, *titles: str) -> pytest.MarkDecorator:
    """Return the decorator of a test that gets the rows of a table as `row`."""
    rows = rows_of(path, *titles)
    return pytest.mark.parametrize("row", rows, ids=[f"{row.title}: {row}" for row in rows])


def check_lines(path: Path, prompt: str, say: Callable[[str], str], config: pytest.Config) -> None:
    """Compare what each input of a file says with the line below it.

    An input is the rest of a line that starts with `prompt`; `...` stands for any text. With
    `--update`, lines that differ are rewritten.
    """
    text = path.read_text()
    wrong = []
    for case in re.finditer(rf"^{re.escape(prompt)}(.*)\n(.*)\n", text, re.M):
        found = say(case[1])
        if not doctest.OutputChecker().check_output(case[2], found, doctest.ELLIPSIS):
            wrong.append(f"{prompt}{case[1]}\n{found}\n")
            text = text.replace(case[0], wrong[-1])
    if config.getoption("--update"):
        path.write_text(text)
    else:
        assert not wrong, "\n".join(wrong)
