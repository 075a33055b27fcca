"""Building: the failure of a program is its result, and artifacts are removed."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import codegen
from codegen import Target
from search.builder import BuilderInput, LocalBuilder
from search.builder import builder as builders
from search.builder.builder import ArtifactDirectory
from tensorir import parse
from tensorir.function import IRModule, PrimFunc
from tests.search import programs

TARGET = Target("llvm -num-cores=1")


@pytest.fixture(scope="module")
def builder() -> Iterator[LocalBuilder]:
    builder = LocalBuilder(max_workers=1, timeout_sec=30)
    yield builder
    builder.close()


def built(builder: LocalBuilder, func: PrimFunc) -> str:
    (result,) = builder.build([BuilderInput(IRModule({"main": func}), TARGET)])
    assert result.error_msg is None, result.error_msg
    assert result.artifact_path is not None
    return result.artifact_path


def slow_if_marked(mod: IRModule, target: Target, params: object) -> codegen.Module:
    time.sleep(120 if "slow" in mod["main"].attrs else 0)
    return codegen.build(mod, target)


def test_a_build_that_takes_far_longer_than_others_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(builders, "_LEAST_LIMIT", 1.0)
    builder = LocalBuilder(max_workers=1, timeout_sec=600, f_build=slow_if_marked)
    built(builder, programs.adds_one)
    slow = IRModule({"main": programs.adds_one.with_attr("slow", 1)})
    (result,) = builder.build([BuilderInput(slow, TARGET)])
    builder.close()
    assert result.error_msg is not None
    assert "Timeout" in result.error_msg
    builder.timeout_sec = 0.25
    assert builder._limit() == 0.25, "the limit of the user holds, however long builds take"


def test_what_cannot_be_compiled_is_an_error(builder: LocalBuilder) -> None:
    gpu = parse(
        """
@T.prim_func
def main(A: T.Buffer((4,), "float32")):
    for i in T.thread_binding(4, thread="threadIdx.x"):
        with T.block("A"):
            vi = T.axis.spatial(4, i)
            A[vi] = T.float32(0)
"""
    )
    bad, good = builder.build(
        [BuilderInput(IRModule({"main": f}), TARGET) for f in (gpu, programs.adds_one)]
    )
    assert bad.artifact_path is None
    assert "threadIdx.x" in str(bad.error_msg)
    assert good.error_msg is None


def test_artifacts_last_until_the_builder_cleans_up() -> None:
    builder = LocalBuilder(max_workers=1)
    path = Path(built(builder, programs.adds_one))
    builder.close()
    assert path.exists()
    builder.clean_up()
    assert not path.parent.exists()


def test_artifacts_go_with_their_owner() -> None:
    directory = ArtifactDirectory()
    path = directory.path
    (path / "artifact").touch()
    del directory
    assert not path.exists()


def test_the_artifacts_of_a_killed_builder_are_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed = "import os; from search.builder.builder import ArtifactDirectory as A; a = A(); os.kill(os.getpid(), 9)"
    subprocess.run(
        [sys.executable, "-c", killed],
        env={"TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    (left,) = tmp_path.iterdir()
    mine, other = ArtifactDirectory(), ArtifactDirectory()
    assert not left.exists()
    assert mine.path.exists(), "it is in use"
    mine.remove()
    other.remove()
    assert not list(tmp_path.iterdir())
