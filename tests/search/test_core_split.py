"""The core that measures is one that nothing else of a search runs on."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from codegen import Target
from codegen.target import host
from search.runner import LocalRunner
from search.workers import core_split as core_split_module
from search.workers.core_split import core_split

several = pytest.mark.skipif(
    sys.platform != "linux" or len(host.core_groups()) < 2,
    reason="there is one core, or this is not Linux",
)
BIND = """
import os
from codegen import Target
from search.workers.core_split import core_split
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
    print("bound")
"""


def output(script: str) -> str:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@several
def test_processes_are_bound_for_one_core_and_released_for_several() -> None:
    assert output(BIND) in ("bound", "another search measures on each core")


@several
def test_two_searches_measure_on_different_cores() -> None:
    script = "from search.workers.core_split import core_split; print(core_split())"
    ours = core_split()
    if ours is not None:
        assert f"measuring={ours.measuring}" not in output(script)


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
import fcntl, socket, pathlib
from search.workers import core_split
{namespace}
core_split._FOLDER = pathlib.Path({folder!r})
print(sorted(core_split._claimed([frozenset([{first}]), frozenset([{first} + 1])])))
"""
NO_CORES = itertools.count(1_000_000 + 100 * os.getpid(), 2)
"""Numbers that no core of this machine has and no other run of the tests takes."""
OTHER_NETWORK_NAMESPACE = "socket.socket.bind = lambda *_: None  # its names are free there"
OTHER_FILES = "fcntl.flock = lambda *_: None  # the file is another one there"


@pytest.mark.skipif(sys.platform != "linux", reason="this is not Linux")
@pytest.mark.parametrize("namespace", ["", OTHER_NETWORK_NAMESPACE, OTHER_FILES])
def test_a_core_is_claimed_across_namespaces(
    namespace: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(core_split_module, "_FOLDER", tmp_path)
    first = next(NO_CORES)
    assert core_split_module._claimed([frozenset([first])]) == frozenset([first])
    script = CLAIM.format(namespace=namespace, first=first, folder=str(tmp_path))
    assert output(script) == str([first + 1])


@pytest.mark.skipif(sys.platform != "linux", reason="this is not Linux")
def test_a_folder_without_locks_is_no_reason_to_share_a_core(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(core_split_module, "_FOLDER", tmp_path / "missing")
    first = next(NO_CORES)
    assert core_split_module._claimed([frozenset([first])]) == frozenset([first])
    assert core_split_module._claimed([frozenset([first])]) is None
