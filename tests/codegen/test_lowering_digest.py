"""Two processes of the same sources have one digest; other sources have another one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import codegen
from codegen.kept_objects import lowering_digest


def test_another_lowering_has_another_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, copy = codegen.__path__[0], tmp_path / "codegen"
    shutil.copytree(here, copy, ignore=shutil.ignore_patterns("__pycache__"))
    ours = lowering_digest.__wrapped__()
    monkeypatch.setattr(codegen, "__path__", [str(copy)])
    assert lowering_digest.__wrapped__() == ours
    (copy / "lower" / "vectorize.py").write_text("# another one\n")
    assert lowering_digest.__wrapped__() != ours
