"""The pages of docs/ print what they say, and name files and names that exist."""

import ast
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

from tests import forked

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {
    path.relative_to(DOCS).as_posix()[:-3]: path.read_text() for path in sorted(DOCS.rglob("*.md"))
}


def of_docs(name: str) -> ModuleType:
    """Return a module of the folder with the pages, which may import others there."""
    sys.path.insert(0, str(DOCS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(DOCS))


pages = of_docs("pages")


@pytest.mark.parametrize("name", [name for name, text in PAGES.items() if "```python" in text])
def test_a_page_prints_what_it_says(
    name: str, tmp_path: Path, with_cache: Mapping[str, str]
) -> None:
    """In a separate process: pages register primitives and passes."""
    command = [sys.executable, DOCS / "pages.py", name, "--trials", "4"]
    done = forked.run(command, tmp_path, with_cache)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", PAGES)
def test_files_that_a_page_names_exist(name: str) -> None:
    """And so do the names that stand beside them: `file.py` (`Name`, `other`)."""
    for path, names in re.findall(
        r"`((?:tensorir|schedule|codegen|search|tests|docs|benchmarks)/[\w/.]*)`(?: \(([^)]*)\))?",
        PAGES[name],
    ):
        assert (ROOT / path).exists(), path
        for member in re.findall(r"`([\w.]+)`", names):
            word = re.escape(member.rsplit(".", 1)[-1])
            assert re.search(rf"\b{word}\b", (ROOT / path).read_text()), f"{path}: {member}"


def test_an_ellipsis_stands_for_anything() -> None:
    assert pages.agrees("a\n...\nz", "a\nb\nc\nz")
    assert pages.agrees("took ... seconds", "took 3 seconds")
    assert not pages.agrees("a\nb", "a\nc")
    assert not pages.agrees("a", "a\nb")


def test_a_page_that_prints_something_else_is_found() -> None:
    page = "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n"
    assert pages.run(page, "page") == page.replace("3", "2")


@pytest.mark.parametrize("lists", ["subpackages.py", "operators.py"])
def test_lists_are_up_to_date(lists: str) -> None:
    done = subprocess.run(
        [sys.executable, str(DOCS / lists), "--check"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("package", ["tensorir", "schedule", "codegen", "search"])
def test_the_docstring_of_a_package_says_its_rooms(package: str) -> None:
    docstring = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text())) or ""
    for name in sorted(path.parent.name for path in (ROOT / package).glob("*/__init__.py")):
        assert f"`{name}`" in docstring, name


def test_public_names_are_documented() -> None:
    """Those of the reference, and their methods and properties."""
    reference = of_docs("reference")
    assert reference.undocumented() == []


def test_links_of_the_site_lead_to_its_pages() -> None:
    site = of_docs("gather_site")
    places = {"a/README.md": "packages/a.md", "docs/b.md": "b.md"}
    kept = "[out](https://example.org)\n```\n[x](../docs/b.md)\n```\n"
    made = site.relinked(f"[b](../docs/b.md#top), [code](c.py), {kept}", "a/README.md", places)
    assert made == f"[b](../b.md#top), code, {kept}"
