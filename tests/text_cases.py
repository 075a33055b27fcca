"""Cases in text files: a program, a call, and what the call makes of the program.

    The lines above the first case describe the file.

    == an output is allocated and passed
    def main(x): ...
    -- CallTIRRewrite()
    def main(x): ...

A line that starts with `== ` is the title of a case, a line that starts with `-- ` the call.
`pytest --update` rewrites the part after the call; review the difference.
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
