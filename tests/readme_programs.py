"""The programs of the READMEs, shortened so that they take seconds; read without the packages."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("", "tensorir", "schedule", "codegen", "search", "benchmarks")
READMES = {folder: (ROOT / folder / "README.md").read_text() for folder in FOLDERS}


def _shortened(program: str) -> str:
    program = re.sub(r"max_trials_global=\d+", "max_trials_global=2", program)
    return re.sub(r"max_seconds=\d+", "max_seconds=1", program)


PROGRAMS = {
    f"{folder or 'top'} {number}": _shortened(program)
    for folder, text in READMES.items()
    for number, program in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
}
TOUR = PROGRAMS["top 0"]
