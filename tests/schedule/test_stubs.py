"""What is generated from the registry of primitives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from schedule import InstructionKind
from schedule.stubs import readme_text, table_text

ROOT = Path(__file__).parents[2]


def run(*options):
    command = [sys.executable, "-m", "schedule.stubs", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_generated_files_are_current():
    done = run("--check")
    assert done.returncode == 0, done.stderr


def test_every_primitive_has_a_row_with_its_effect():
    rows = table_text().splitlines()[2:]
    assert len(rows) == len(InstructionKind.all())
    assert "| `fuse` | Fuse | Replace perfectly nested loops by one over their product. |" in rows
    assert run("--table").stdout.startswith("| method | instruction | effect |\n")


def test_only_what_lies_between_the_marks_is_replaced():
    text = (ROOT / "schedule" / "README.md").read_text()
    stale = text.replace("| `fuse` | Fuse |", "| `fuse` | Confuse |")
    before, after = "<!-- primitives", "<!-- end of primitives -->"
    renewed = readme_text(stale)
    assert renewed.split(before)[0] == text.split(before)[0]
    assert renewed.split(after)[1] == text.split(after)[1]
    assert "Confuse" not in renewed


def test_readme_without_marks():
    with pytest.raises(ValueError, match="has no table"):
        readme_text("# title\n")
