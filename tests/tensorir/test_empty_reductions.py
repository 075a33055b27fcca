"""An init runs for every spatial instance of its block, also where the reduction has no step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import codegen
from tensorir import parse
from tensorir.interp import interpret
from tensorir.memory.empty_reductions import initialise_empty_reductions
from tensorir.verify import verify_well_formed
from tests.text_cases import TextCase, each_case

Array = NDArray[Any]


def result(text: str, *inputs: Array, size: int = 4) -> list[float]:
    """Return what a program leaves in its last parameter, which holds -1 before.

    The interpreter and the machine code must agree.
    """
    func = parse(text)
    verify_well_formed(initialise_empty_reductions(func))
    interpreted, compiled = (np.full(size, -1, "float32") for _ in range(2))
    interpret(func, *inputs, interpreted)
    codegen.build(func, "llvm")(*inputs, compiled)
    assert interpreted.tolist() == compiled.tolist()
    found: list[float] = interpreted.tolist()
    return found


def ones(*shape: int) -> Array:
    return np.ones(shape, "float32")


ROWS = """
@T.prim_func
def main(a: T.handle, C: T.Buffer((4,), "float32")):
    n = T.int32()
    A = T.match_buffer(a, (4, n), "float32")
    for i, k in T.grid(4, n):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_symbolic_extent(n: int) -> None:
    assert result(ROWS, ones(4, n)) == [n] * 4


def test_the_init_comes_before_the_outermost_loop_of_the_reduction() -> None:
    after = """
@T.prim_func
def main(a: T.handle, C: T.Buffer((4,), "float32")):
    n = T.int32()
    A = T.match_buffer(a, (4, n), "float32")
    for i in range(4):
        with T.block("C_init"):
            vi = T.axis.spatial(4, i)
            T.where(n <= 0)
            T.reads()
            T.writes(C[vi])
            C[vi] = T.float32(0)
        for k in range(n):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi, vk])
                T.writes(C[vi])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]
"""
    assert initialise_empty_reductions(parse(ROWS)).script() == parse(after).script()


SUM = """
@T.prim_func
def main(a: T.handle, n: T.int32, C: T.Buffer((4,), "float32")):
    m = T.int32()
    A = T.match_buffer(a, (m,), "float32")
{nest}
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vk]
"""


def nest(text: str) -> str:
    """Return a program that sums `A[vk]` into `C[vi]` under these loops and lines of the block."""
    lines = [" " * 4 + line for line in text.strip().splitlines()]
    inner = len(lines[-1]) - len(lines[-1].lstrip()) - 12
    shifted = SUM.replace("\n            ", "\n" + " " * (12 + inner))
    return shifted.format(nest="\n".join(lines))


@each_case(Path(__file__).with_name("empty_reductions.txt"))
def test_instances_with_and_without_a_step(case: TextCase, pytestconfig: pytest.Config) -> None:
    text = nest(case.before)
    func = parse(text)
    assert (initialise_empty_reductions(func) is func) == (case.call == "sure")
    found = result(text, ones(20), 0)
    case.check(str([int(x) for x in found]), pytestconfig)


def test_rows_of_a_sparse_matrix_that_hold_nothing() -> None:
    program = """
@T.prim_func
def main(starts: T.Buffer((5,), "int32"), A: T.Buffer((8,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        for k in range(starts[i + 1] - starts[i]):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                vk = T.axis.reduce(8, k)
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[starts[vi] + vk]
"""
    starts = np.array([0, 2, 2, 7, 7], "int32")
    assert result(program, starts, ones(8)) == [2, 0, 5, 0]


def test_views_and_memory_of_the_block() -> None:
    program = """
@T.prim_func
def main(a: T.handle, C: T.Buffer((4,), "float32")):
    n = T.int32()
    A = T.match_buffer(a, (4, n), "float32")
    for i, k in T.grid(4, n):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            start = T.alloc_buffer((1,), "float32")
            source = T.match_buffer(A[vi, vk : vk + 1], (1,), "float32")
            out = T.match_buffer(C[vi : vi + 1], (1,), "float32", offset_factor=1)
            with T.init():
                with T.block("start"):
                    start[0] = T.float32(7)
                with T.block("copy"):
                    out[0] = start[0]
            out[0] = out[0] + source[0]
"""
    assert result(program, ones(4, 0)) == [7] * 4
    assert result(program, ones(4, 2)) == [9] * 4
