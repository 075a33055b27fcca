"""A folder as somebody has it who works with the command: a program, a model, a search of each."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import search as ms
from schedule import Schedule
from search import tune as of_programs
from search.models import tune_model as of_models
from tensorir import frontend
from tensorir.function import IRModule
from tensorir.script.script_file import read_script_file
from tests.search.made_up_runs import ScriptFiles, TimesOfScripts
from tests.search.models.network_programs import X, dense_model

MATMUL = """\
import numpy as np
from tensorir import I, T

N = 16


@I.ir_module
class Matmul:
    @T.prim_func
    def main(
        A: T.Buffer((N, N), "float32"), B: T.Buffer((N, N), "float32"), C: T.Buffer((N, N), "float32")
    ):
        for i, j, k in T.grid(N, N, N):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


raise SystemExit("a script is read, and never run")
"""


def split_rows(sch: Schedule) -> None:
    """Schedule the program: a space of few points."""
    block = sch.get_block("C")
    i, *_ = sch.get_loops(block)
    sch.split(i, factors=sch.sample_perfect_tile(i, n=2))


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `matmul.py`, its search in `tuned`, and `trace.json`; nothing was measured."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "matmul.py").write_text(MATMUL)
    program = read_script_file(folder / "matmul.py")
    assert isinstance(program, IRModule)
    best = ms.tune_tir(
        program,
        "llvm -num-cores=1",
        ms.TuneConfig(4, 2, num_confirmed=0),
        folder / "tuned",
        builder=ScriptFiles(folder / "built"),
        runner=TimesOfScripts(),
        cost_model="random",
        space=split_rows,
        seed=1,
    )
    assert best is not None
    best.trace.save(folder / "trace.json")
    np.save(folder / "image.npy", X)
    (folder / "model.onnx").write_bytes(b"")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current directory, a copy of that folder; any `.onnx` is a model of two kernels."""
    copy = tmp_path / "folder"
    shutil.copytree(made, copy)
    monkeypatch.chdir(copy)
    monkeypatch.setattr(frontend, "from_onnx", lambda path, shapes: dense_model(), raising=False)
    return copy


@pytest.fixture
def quick(measured: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let searches of the command build and measure with the least effort."""
    parts = {**measured, "cost_model": "random"}
    model, program = of_models.tune_model, of_programs.tune_tir

    def tune_tir(mod: Any, target: Any, config: ms.TuneConfig, *args: Any, **told: Any) -> Any:
        return program(mod, target, replace(config, num_confirmed=0), *args, **{**told, **parts})

    def tune_model(*args: Any, **told: Any) -> Any:
        return model(*args, **{**told, **parts, "num_confirmed": 0, "check": False})

    monkeypatch.setattr("search.command_line.tune.tune_tir", tune_tir)
    monkeypatch.setattr("search.command_line.tune.tune_model", tune_model)
