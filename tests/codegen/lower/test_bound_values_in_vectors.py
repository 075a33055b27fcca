"""Values that an iteration of a vectorized loop loads before it stores: indices with values."""

from __future__ import annotations

import numpy as np

import codegen
from codegen.lower import lower
from tensorir import parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret
from tensorir.nodes import stmt as s
from tensorir.rewriting.visit import walk

TARGET = "llvm -mcpu=haswell"

ARGMAX = """
@T.prim_func
def main(A: T.Buffer((24,), "float32"), I: T.Buffer((24,), "int32"), V: T.Buffer((24,), "float32")):
    T.func_attr({{"tir.noalias": True}})
    for j in T.vectorized({lanes}):
        {guard}
            i: T.int32 = T.Select(V[j] >= A[j], I[j], j)
            v: T.float32 = T.max(V[j], A[j])
            I[j] = i
            V[j] = v
"""


def argmax(lanes: int, guard: str = "with T.block(''):") -> PrimFunc:
    func = parse(ARGMAX.format(lanes=lanes, guard=guard))
    assert isinstance(func, PrimFunc)
    return func


def stored_lanes(func: PrimFunc) -> list[tuple[str, int]]:
    """Return the buffer and the number of lanes of each store, in order."""
    found = [node for node in walk(func.body) if isinstance(node, s.BufferStore)]
    return [(store.buffer.name, store.value.dtype.lanes) for store in found]


def check(func: PrimFunc) -> None:
    """Compare the lowered and the compiled program with the interpreter."""
    rng = np.random.default_rng(0)

    def arguments() -> list[np.ndarray]:
        values = [rng.integers(-4, 4, 24).astype("float32") for _ in range(2)]
        return [values[0], np.full(24, -1, "int32"), values[1]]

    given = arguments()
    expected, compiled, lowered = ([a.copy() for a in given] for _ in range(3))
    interpret(func, *expected)
    codegen.build(func)["main"](*compiled)
    interpret(lower(func), *lowered)
    for got in (compiled, lowered):
        assert all(np.array_equal(a, b) for a, b in zip(got, expected, strict=True))


def test_an_index_and_a_value_become_vectors() -> None:
    func = argmax(8)
    assert stored_lanes(lower(func, codegen.Target(TARGET))) == [("I", 8), ("V", 8)]
    check(func)


def test_each_piece_loads_before_it_stores() -> None:
    func = argmax(24)
    pieces = [("I", 8), ("V", 8)] * 3
    assert stored_lanes(lower(func, codegen.Target(TARGET))) == pieces
    check(func)


def test_a_condition_masks_loads_and_stores() -> None:
    func = argmax(24, "if A[j] > T.float32(0):")
    assert all(lanes == 8 for _, lanes in stored_lanes(lower(func, codegen.Target(TARGET))))
    check(func)


def test_the_last_lanes_of_a_tail() -> None:
    func = argmax(24, "if j < 21:")
    check(func)


def test_values_of_other_widths_share_the_lanes() -> None:
    func = parse(ARGMAX.format(lanes=24, guard="with T.block(''):").replace("int32", "int64"))
    assert isinstance(func, PrimFunc)
    stored = stored_lanes(lower(func, codegen.Target(TARGET)))
    assert {lanes for _, lanes in stored} == {4}


def test_lanes_that_share_an_element_stay_in_order() -> None:
    func = parse(ARGMAX.format(lanes=8, guard="with T.block(''):").replace("V[j]", "V[0]"))
    assert isinstance(func, PrimFunc)
    assert {lanes for _, lanes in stored_lanes(lower(func, codegen.Target(TARGET)))} == {1}
