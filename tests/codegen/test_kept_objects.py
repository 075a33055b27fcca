"""Objects on the disk, for other processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import codegen
from codegen import kept_objects
from codegen.compile import llvm_source
from codegen.kept_objects import KeptObjects
from codegen.kernel import Unit, _Objects
from codegen.target import Target
from tensorir import parse

UNIT = (
    llvm_source(
        parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in range(8):
        A[i] = A[i] * T.float32(5.125)
"""),  # type: ignore[arg-type]
        Target("llvm"),
    )
    .kernels[0]
    .code
)


@pytest.fixture(autouse=True)
def configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_objects, "_kept", None)
    monkeypatch.setattr(kept_objects, "_is_configured", False)


def never(unit: Unit) -> bytes:
    raise AssertionError("the object was made")


def test_nothing_is_kept_unless_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(kept_objects.VARIABLE, raising=False)
    _Objects(1 << 20).get(UNIT, Unit.made)
    assert not [*tmp_path.iterdir()]


def test_another_process_takes_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    codegen.keep_objects()
    made = _Objects(1 << 20).get(UNIT, Unit.made)
    (file,) = (tmp_path / "tensorir" / "objects").iterdir()
    assert _Objects(1 << 20).get(UNIT, never) == made
    for content in (b"", file.read_bytes()[:-1], file.read_bytes() + b"x"):
        file.write_bytes(content)
        assert _Objects(1 << 20).get(UNIT, lambda unit: b"new") == b"new"


def test_the_environment_switches_it_on(tmp_path: Path) -> None:
    build = (
        "import codegen, tensorir; codegen.build(tensorir.parse('''\n"
        "@T.prim_func\n"
        "def main(A: T.Buffer((8,), 'float32')):\n"
        "    for i in range(8):\n"
        "        A[i] = A[i] * T.float32(7.125)\n"
        "'''), 'llvm')"
    )
    times = []
    for _ in range(2):
        subprocess.run(
            [sys.executable, "-c", build],
            check=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, kept_objects.VARIABLE: str(tmp_path / "objects")},
        )
        times.append({f.name: f.stat().st_ctime_ns for f in (tmp_path / "objects").iterdir()})
    assert times[0].keys() == times[1].keys()
    assert len(times[0]) == 2  # the code and the entry


def test_the_folder_stays_small_and_what_was_used_last_stays(tmp_path: Path) -> None:
    kept = KeptObjects(tmp_path, limit_bytes=10_000)
    for k in range(40):
        kept.put(b"%d" % k, bytes(1000))
        file = kept._path(b"%d" % k)
        os.utime(file, (k, k))
        assert kept.get(b"0") is not None or k == 0  # which makes it the newest
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 11_250
    assert kept.get(b"0") == kept.get(b"39") == bytes(1000)
    assert kept.get(b"5") is None


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    kept = KeptObjects(folder, 1 << 20)
    kept.put(b"key", b"data")
    assert not [*folder.iterdir()]
    folder.chmod(0o700)
    kept.put(b"key", b"data")
    assert kept.get(b"key") == b"data"
    folder.chmod(0o777)
    assert kept.get(b"key") is None
