"""Small matrices that statements read or write column by column are loaded and stored by rows."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from codegen.lower import lower
from codegen.lower.transpose import columns_of, interleave, rows_of
from schedule import Schedule
from tensorir import parse
from tensorir.function import IRModule
from tensorir.interp import interpret
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import PrimExpr, Shuffle, Var

AVX2, AVX512 = "llvm -mcpu=znver3 -num-cores=1", "llvm -mcpu=znver4 -num-cores=1"


# ------------------------------------------------------------------------------------ before, after


# ----------------------------------------------------------------------------------------- networks


class Values:
    """Values of vectors whose lanes are given."""

    def __init__(self) -> None:
        self.lanes: dict[Var, list[object]] = {}
        self.bound = 0

    def new(self, dtype: str, lanes: list[object]) -> Var:
        var = Var("v", DataType(dtype).with_lanes(len(lanes)))
        self.lanes[var] = lanes
        return var

    def bind(self, value: PrimExpr) -> Var:
        self.bound += 1
        return self.new(str(value.dtype.element), self.of(value))

    def of(self, value: PrimExpr) -> list[object]:
        if isinstance(value, Var):
            return self.lanes[value]
        assert isinstance(value, Shuffle)
        every = [lane for vector in value.vectors for lane in self.of(vector)]
        return [every[int(k)] for k in value.indices]  # type: ignore[call-overload]


SIZES = [(n, m) for n in (2, 4, 8, 16, 32) for m in (2, 4, 8, 16, 32) if m <= n]


@pytest.mark.parametrize("dtype", ["int8", "float32", "float64"])
@pytest.mark.parametrize(("n", "m"), SIZES)
def test_rows_and_columns_of_every_size(dtype: str, n: int, m: int) -> None:
    values = Values()
    rows: list[PrimExpr] = [values.new(dtype, [(i, j) for j in range(m)]) for i in range(n)]
    columns: list[PrimExpr] = [values.new(dtype, [(i, j) for i in range(n)]) for j in range(m)]
    made = columns_of(rows, values.bind)
    assert [values.of(v) for v in made] == [values.of(v) for v in columns]
    assert [values.of(v) for v in rows_of(columns, values.bind)] == [values.of(v) for v in rows]
    in_memory = [lane for v in interleave(columns, values.bind) for lane in values.of(v)]
    assert in_memory == [(i, j) for i in range(n) for j in range(m)]


@pytest.mark.parametrize(("n", "m", "shuffles"), [(4, 4, 8), (8, 8, 24), (8, 4, 12), (16, 16, 64)])
def test_as_many_shuffles_as_halvings(n: int, m: int, shuffles: int) -> None:
    values = Values()
    columns_of([values.new("float32", list(range(m))) for _ in range(n)], values.bind)
    assert values.bound == shuffles


# ------------------------------------------------------------------------------------ the whole way


def transposition(n: int, m: int, tile: int, lanes: int, by: str, dtype: str) -> IRModule:
    """Return a transposing copy whose vectors run along its source's rows or its result's."""
    sch = Schedule(
        parse(
            f"""
@T.prim_func
def main(A: T.Buffer(({n}, {m}), "{dtype}"), B: T.Buffer(({m}, {n}), "{dtype}")):
    T.func_attr({{"tir.noalias": True}})
    for i, j in T.grid({m}, {n}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi]
"""
        )
    )
    i, j = sch.get_loops(sch.get_block("B"))
    unrolled, vector = (i, j) if by == "result" else (j, i)
    outer, inner = sch.split(unrolled, [None, tile])
    around, along = sch.split(vector, [None, lanes])
    sch.reorder(outer, around, inner, along)
    sch.unroll(inner)
    sch.vectorize(along)
    return sch.mod


@pytest.mark.parametrize("by", ["source", "result"])
@pytest.mark.parametrize(
    ("n", "m", "tile", "lanes", "dtype"),
    [
        (16, 16, 8, 8, "float32"),
        (32, 32, 16, 16, "float32"),
        (24, 18, 6, 8, "float32"),
        (16, 12, 4, 16, "int8"),
        (16, 12, 12, 4, "float64"),
        (32, 32, 8, 32, "int32"),
        (13, 17, 8, 8, "float32"),
        (8, 3, 3, 8, "uint8"),
    ],
)
def test_transposing_copies(n: int, m: int, tile: int, lanes: int, dtype: str, by: str) -> None:
    module = transposition(n, m, tile, lanes, by, dtype)
    a = np.random.default_rng(0).integers(0, 100, (n, m)).astype(dtype)
    built = codegen.build(module, guard_pages=True)
    b = np.zeros((m, n), dtype)
    built["main"](a, b)
    assert np.array_equal(b, a.T)
    for target in (AVX2, AVX512, "llvm -mcpu=x86-64-v2"):
        c = np.zeros((m, n), dtype)
        interpret(lower(module["main"], target), a, c)  # type: ignore[arg-type]
        assert np.array_equal(c, a.T)


@pytest.mark.parametrize("by", ["source", "result"])
def test_a_tile_takes_a_load_and_a_store_for_each_row(by: str) -> None:
    text = codegen.build(transposition(64, 64, 8, 8, by, "float32"), AVX2).inspect_llvm()
    body = text[text.index("@tensorir.kernel.main(") :].split("\n}")[0]
    assert body.count("load <8 x float>") == body.count("store <8 x float>") == 8
    assert body.count("shufflevector") == 24
    assert "extractelement" not in body
    assert "insertelement" not in body


def test_a_product_with_a_transposed_operand_loads_it_by_rows() -> None:
    # B[j, k] in vectors along j, with k unrolled: each eight columns k are eight rows j.
    sch = Schedule(
        parse(
            """
@T.prim_func
def main(A: T.Buffer((4, 32)), B: T.Buffer((16, 32)), C: T.Buffer((4, 16))):
    T.func_attr({"tir.noalias": True})
    for i, j, k in T.grid(4, 16, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += A[vi, vk] * B[vj, vk]
"""
        )
    )
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 8])
    k0, k1 = sch.split(k, [None, 8])
    sch.reorder(j0, k0, k1, i, j1)
    for loop in (k1, i):
        sch.unroll(loop)
    sch.vectorize(j1)
    sch.decompose_reduction(block, k0)
    text = codegen.build(sch.mod, AVX2).inspect_llvm()
    assert "insertelement <8 x float> %" not in text
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, 32)).astype("float32") for n in (4, 16))
    c = np.zeros((4, 16), "float32")
    codegen.build(sch.mod, guard_pages=True)["main"](a, b, c)
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-4, atol=1e-5)
