"""Programs that call library functions are measured where those are registered, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codegen
import search as ms
from search.errors import TuningError
from search.runner import LocalRunner
from tensorir import parse

PROGRAM = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    B = T.alloc_buffer((8, 8), "float32")
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    with T.block("call"):
        T.reads(B[0:8, 0:8])
        T.writes(C[0:8, 0:8])
        T.evaluate(T.call_packed("test.search.negate", B, C))
"""
CONFIG = ms.TuneConfig(max_trials_global=1, num_confirmed=0, cost_model="random")


def register() -> None:
    def negate(x: np.ndarray, out: np.ndarray) -> None:  # type: ignore[type-arg]
        np.negative(x, out=out)

    codegen.register_func("test.search.negate", negate, override=True)


def test_a_function_that_the_measuring_process_lacks_is_named(
    tmp_path: Path, measured: dict[str, Any]
) -> None:
    message = (
        r"cannot be measured: .*library function is not registered: 'test\.search\.negate'"
        r"(?s:.*)LocalRunner\(initializer=\.\.\.\)"
    )
    with pytest.raises(TuningError, match=message):
        ms.tune_tir(parse(PROGRAM), "llvm --num-cores=2", CONFIG, tmp_path, **measured)


def test_the_measuring_process_may_register_it(tmp_path: Path, measured: dict[str, Any]) -> None:
    runner = LocalRunner(initializer=register)
    best = ms.tune_tir(
        parse(PROGRAM),
        "llvm --num-cores=2",
        CONFIG,
        tmp_path,
        builder=measured["builder"],
        runner=runner,
    )
    runner.close()
    assert best is not None
    register()
    a, c = np.arange(64, dtype=np.float32).reshape(8, 8), np.zeros((8, 8), np.float32)
    codegen.build(best.mod, "llvm --num-cores=2")(a, c)
    codegen.remove_global_func("test.search.negate")
    assert np.array_equal(c, -2 * a)
