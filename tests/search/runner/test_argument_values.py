"""What is made up for arguments that decide where a program reads and writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import search as ms
from search.arg_info import ArgInfo
from search.errors import TuningError
from search.runner.argument_values import Values, argument_values
from search.runner.arguments import ProgramFacts, random_arrays
from search.runner.reference_program import with_checked_indices
from tensorir import parse
from tensorir.function import IRModule, PrimFunc

GATHER = """
@T.prim_func
def main(A: T.Buffer((3, 5), "float32"), I: T.Buffer((16,), "int64"), C: T.Buffer((16, 5), "float32")):
    for i, j in T.grid(16, 5):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[{index}, vj]
"""
SCATTER = """
@T.prim_func
def main(A: T.Buffer((7, 5), "float32"), I: T.Buffer((7, 5), "int32"), C: T.Buffer((8, 5), "float32")):
    for i, j in T.grid(7, 5):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[I[vi, vj], vj] = A[vi, vj]
"""


def function(text: str) -> PrimFunc:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize(
    ("index", "low", "high"),
    [
        ("I[vi]", 0, 2),
        ("I[vi] - T.int64(4)", 4, 6),
        ("I[vi] // T.int64(4)", 0, 11),
        ("I[vi] * T.int64(2)", 0, 1),
        ("T.int64(2) - I[vi]", 0, 2),
        ("T.min(I[vi], T.int64(2))", None, None),
        ("T.max(I[vi] - T.int64(1), T.int64(0))", 0, 3),
        ("I[vi] % T.int64(3)", None, None),
        ("I[vi] + T.Select(I[vi] < T.int64(0), T.int64(3), T.int64(0))", 0, 2),
        ("T.if_then_else(I[vi] < T.int64(0), I[vi] + T.int64(3), I[vi])", 0, 2),
        ("I[vi] + T.Cast('int64', vj % 2)", 0, 1),
        ("T.Let(x + T.int64(1), where={x: I[vi] % T.int64(2)})", None, None),
    ],
)
def test_an_index_lies_inside_of_what_it_indexes(
    index: str, low: int | None, high: int | None
) -> None:
    text = GATHER.format(index=index)
    if "Let" in index:
        text = text.replace("            C[vi", "            x = T.int64()\n            C[vi")
    expected = {} if low is None or high is None else {1: Values(low, high)}
    assert argument_values(function(text)) == expected


def test_copies_of_an_index_are_followed() -> None:
    text = GATHER.format(index="J[vi]").replace(
        "    for i, j in",
        """    J = T.alloc_buffer((16,), "int64")
    for i in range(16):
        with T.block("J"):
            vi = T.axis.spatial(16, i)
            J[vi] = I[vi] - T.int64(1)
    for i, j in""",
    )
    assert argument_values(function(text)) == {1: Values(1, 3)}


def test_places_in_rows_and_columns_share_the_number_of_places() -> None:
    text = GATHER.replace("(3, 5)", "(12, 5)").format(index="I[vi] * T.int64(4) + I[15 - vi]")
    assert argument_values(function(text)) == {1: Values(0, 2)}


def test_counts_and_divisors() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((9,), "float32"), N: T.Buffer((2,), "int32"), C: T.Buffer((2,), "int32")):
    for i in range(2):
        with T.block("C"):
            vi = T.axis.spatial(2, i)
            C[vi] = 10 // N[vi]
            for k in range(N[vi]):
                A[k] = T.float32(1)
"""
    assert argument_values(function(text)) == {1: Values(1, 9)}


def test_places_that_parallel_iterations_write_are_distinct() -> None:
    func = function(SCATTER)
    assert argument_values(func) == {1: Values(0, 7, (0,))}
    (_, places, _) = random_arrays(
        ArgInfo.from_prim_func(func), 0, ProgramFacts.of(IRModule({"main": func}))
    )
    assert places.min() >= 0
    assert places.max() < 8
    assert all(len(set(column)) == 7 for column in places.T)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            SCATTER.replace("(8, 5)", "(4, 5)"),
            "the numbers in I cannot be generated: its 7 numbers select the elements that parallel "
            "iterations write, so they have to differ, but there are only 4 elements; give an array with "
            'input_data={"I": ...}',
        ),
        (
            GATHER.format(index="I[vi] * I[vi] - T.int64(64)"),
            "A is read out of bounds along axis 0 of extent 3",
        ),
    ],
)
def test_what_cannot_be_made_up_is_asked_for_by_name(
    tmp_path: Path, text: str, said: str, measured: dict[str, object]
) -> None:
    config = ms.TuneConfig(1, num_confirmed=0)
    parts = {"cost_model": "random", **measured}
    with pytest.raises(TuningError) as refused:
        ms.tune_tir(function(text), "llvm -num-cores=1", config, tmp_path, **parts)
    assert said in str(refused.value)
    assert 'input_data={"I": ...}' in str(refused.value)


def test_buffers_without_axes_are_filled() -> None:
    info = ms.arg_info.TensorInfo("float32", [])
    for signed in (False, True):
        (array,) = random_arrays([info], 0, signed=signed)
        assert array.shape == ()
        assert np.isfinite(array)


def test_only_indices_that_are_data_are_checked_and_only_where_they_are_used() -> None:
    text = GATHER.replace(
        "A[{index}, vj]", "T.if_then_else(I[vi] >= T.int64(0), A[I[vi], vj], T.float32(0))"
    )
    checked = with_checked_indices(function(text))
    assert checked is not None
    (line,) = [x for x in checked.script().splitlines() if "assert" in x]
    assert line.strip().startswith(
        "assert T.if_then_else(I_1[vi] >= T.int64(0), T.int64(0) <= I_1[vi] and "
        "I_1[vi] < T.int64(3), T.bool(True)), "
    )
    assert with_checked_indices(function(GATHER.format(index="vi % 3"))) is None
