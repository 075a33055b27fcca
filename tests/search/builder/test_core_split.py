"""The core that measures is one that nothing else of a search runs on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codegen import Target
from codegen.target import host
from search.builder import core_split as core_split_module
from search.builder.core_split import core_split
from search.runner import LocalRunner

several = pytest.mark.skipif(
    sys.platform != "linux" or len(host.core_groups()) < 2,
    reason="there is one core, or this is not Linux",
)
linux = pytest.mark.skipif(sys.platform != "linux", reason="this is not Linux")
BIND = """
import os
from codegen import Target
from search.builder.core_split import core_split
everywhere = os.sched_getaffinity(0)
split = core_split()
if split is None:
    print("another search measures on each core")
else:
    split.bind_measuring(Target("llvm -num-cores=1"))
    assert os.sched_getaffinity(0) == split.measuring and len(split.measuring) == 1
    split.bind_building(Target("llvm -num-cores=1"))
    assert os.sched_getaffinity(0) == split.building
    assert not split.building & split.measuring
    split.release()
    assert os.sched_getaffinity(0) == everywhere
    split.bind_measuring(Target("llvm -num-cores=2"))
    assert os.sched_getaffinity(0) == everywhere
    print(split)
"""


def output(script: str) -> str:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@several
def test_processes_are_bound_for_one_core_and_released_for_several() -> None:
    """Two searches measure on different cores."""
    ours, theirs = core_split(), output(BIND)
    assert theirs.startswith(("CoreSplit(", "another search measures on each core"))
    assert ours is None or f"measuring={ours.measuring}" not in theirs


def test_builds_may_go_on_beside_a_core_of_its_own() -> None:
    runner = LocalRunner()
    assert runner.may_overlap(Target("llvm -num-cores=1")) == (core_split() is not None)
    assert not runner.may_overlap(Target("llvm -num-cores=2"))


@several
def test_each_logical_core_is_of_one_core() -> None:
    cores = host.core_groups()
    assert len(cores) >= host.physical_cores()
    assert sorted(cpu for core in cores for cpu in core) == sorted(os.sched_getaffinity(0))


CLAIM = """
import pathlib
from search.builder import core_split
core_split._PARENT = pathlib.Path({folder!r})
print(sorted(core_split._claim([frozenset([0]), frozenset([1])])))
"""


def lock_file(parent: Path, core: int) -> Path:
    return parent / f"tensorir-{os.geteuid()}" / f"tune_measures_on_core_{core}.lock"


@linux
def test_a_core_is_claimed_for_all_processes_of_a_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(core_split_module, "_PARENT", tmp_path)
    assert core_split_module._claim([frozenset([0])]) == frozenset([0])
    assert core_split_module._claim([frozenset([0])]) is None
    assert output(CLAIM.format(folder=str(tmp_path))) == "[1]"
    path = lock_file(tmp_path, 0)
    assert (path.parent.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)


@linux
def test_a_core_remains_for_builds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(core_split_module, "_PARENT", tmp_path)
    monkeypatch.setattr(host, "core_groups", lambda: [frozenset([k, k + 3]) for k in range(3)])
    monkeypatch.setattr(host, "physical_cores", lambda: 3)
    splits = core_split_module.core_splits(9)
    assert [sorted(split.measuring) for split in splits] == [[2], [1]]
    assert [sorted(split.building) for split in splits] == [[0, 3], [0, 3]]


@linux
@pytest.mark.parametrize("squats", ["nothing can be made", "a link", "open to all", "another's"])
def test_a_folder_of_another_user_is_not_used(
    squats: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(core_split_module, "_PARENT", tmp_path)
    folder, target = lock_file(tmp_path, 0).parent, tmp_path / "target"
    target.mkdir(mode=0o700)
    if squats == "nothing can be made":
        folder.write_text("a file")
    elif squats == "a link":
        folder.symlink_to(target)
    else:
        folder.mkdir()
        folder.chmod(0o777 if squats == "open to all" else 0o700)
        if squats == "another's":
            user = os.geteuid()
            folder.rename(tmp_path / f"tensorir-{user + 1}")
            monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert core_split_module._claim([frozenset([0])]) == frozenset([0])
    assert "Another search may measure on the same core" in caplog.text
    assert not list(tmp_path.rglob("*.lock"))


@linux
def test_a_lock_that_is_a_link_is_not_followed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(core_split_module, "_PARENT", tmp_path)
    path, elsewhere = lock_file(tmp_path, 0), tmp_path / "elsewhere"
    path.parent.mkdir(mode=0o700)
    path.symlink_to(elsewhere)
    assert core_split_module._claim([frozenset([0])]) == frozenset([0])
    assert "symbolic links" in caplog.text
    assert not elsewhere.exists()
