"""What is installed: one version, every file that the packages need, extras that exist."""

from __future__ import annotations

import importlib
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ["tensorir", "schedule", "codegen", "search"]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_packages_have_the_version_of_the_distribution() -> None:
    versions = {importlib.import_module(name).__version__ for name in PACKAGES}
    assert len(versions) == 1
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.?\w+)?", versions.pop())
    assert SETTINGS["tool"]["setuptools"]["dynamic"]["version"] == {
        "attr": "tensorir.version.__version__"
    }


def test_the_licence_is_there() -> None:
    project = SETTINGS["project"]
    assert project["license"] == "Apache-2.0 AND MIT"
    own, *of_others = project["license-files"]
    assert "Apache License" in (ROOT / own).read_text()
    for name in of_others:
        assert "The MIT License" in (ROOT / name).read_text()


@pytest.mark.parametrize("package", PACKAGES)
def test_files_beside_the_code_are_installed(package: str) -> None:
    patterns = SETTINGS["tool"]["setuptools"]["package-data"][package]
    for path in (ROOT / package).rglob("*"):
        name = path.relative_to(ROOT / package).as_posix()
        if path.is_file() and path.suffix not in (".py", ".pyc") and path.name != "README.md":
            assert any(fnmatch(name, pattern) for pattern in patterns), name


def test_extras_that_errors_and_pages_name_exist() -> None:
    extras = set(SETTINGS["project"]["optional-dependencies"])
    places = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    places += [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    for path in places:
        for names in re.findall(r"tensorir\[([\w,]+)\]", path.read_text()):
            assert set(names.split(",")) <= extras, f"{path}: {names}"
