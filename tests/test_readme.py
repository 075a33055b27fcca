"""The programs of the READMEs run as they stand there; links there and in docs/ lead somewhere."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from readme_programs import FOLDERS, PROGRAMS, ROOT

from tests import forked

PAGES = [
    *(f"{folder}/README.md" for folder in FOLDERS if folder),
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))),
    *(path.name for path in sorted(ROOT.glob("*.md"))),
]

OPTIONAL = {"torch"}
"""Packages that programs import and that not everyone has."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_the_readme_run(
    name: str, tmp_path: Path, with_cache: Mapping[str, str]
) -> None:
    program = PROGRAMS[name]
    for package in sorted(OPTIONAL & set(re.findall(r"^import (\w+)", program, re.MULTILINE))):
        pytest.importorskip(package, reason="the program is for those who have it")
    path = tmp_path / "program.py"
    path.write_text(program)
    done = forked.run([sys.executable, path], tmp_path, with_cache)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page: str) -> None:
    place = ROOT / page
    prose = re.sub(r"```.*?```", "", place.read_text(), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", prose):
        path = (place.parent / target).resolve() if target else place
        assert path.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
            assert anchor in map(_anchor, headings), f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES)
def test_paths_that_are_named_exist(page: str) -> None:
    """Those that begin with a package, such as `search/runs/trials.py`."""
    text = (ROOT / page).read_text()
    for path in re.findall(r"`((?:tensorir|schedule|codegen|search)/[\w/.]+)`", text):
        assert (ROOT / path).exists(), path


def _anchor(heading: str) -> str:
    """Return what a link calls a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
