"""Products by the matrix tiles of AMX: results stay in tile registers, checked by an emulator.

Few machines have these registers, so the calls of an implementation are carried out here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import search as ms
from codegen.compile import llvm_source
from search.search_strategy.trace_application import TraceApplication
from tensorir import parse
from tensorir.arith import Analyzer
from tensorir.function import PrimFunc
from tensorir.nodes.expr import BufferLoad, Call, IntImm, PrimExpr, StringImm
from tensorir.nodes.stmt import BlockRealize, Evaluate, For, SeqStmt, Stmt
from tensorir.rewriting.visit import substitute
from tensorir.tensor_intrin import TensorIntrin

TARGET = "llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=1"
Array = np.ndarray[Any, Any]


class Emulator:
    """Carries out the tile instructions of an implementation on arrays in row-major order."""

    def __init__(self, func: PrimFunc, arrays: list[Array], multiply: Callable[..., Array]) -> None:
        self._arrays = {func.buffer_map[p]: a for p, a in zip(func.params, arrays, strict=True)}
        self._multiply = multiply
        self.tiles: dict[int, Array] = {}
        self.moves = 0
        assert isinstance(func.body, BlockRealize)
        self.run(func.body.block.body)

    def run(self, stmt: Stmt) -> None:
        if isinstance(stmt, SeqStmt):
            for part in stmt.seq:
                self.run(part)
        elif isinstance(stmt, For) and stmt.loop_var.name == "k":
            assert isinstance(stmt.extent, IntImm)
            for k in range(stmt.extent.value):
                self.run(substitute(stmt.body, {stmt.loop_var: IntImm("int32", k)}))
        elif isinstance(stmt, Evaluate) and isinstance(stmt.value, Call):
            self.call(stmt.value)

    def call(self, call: Call) -> None:
        name, _, *operands = call.args
        assert isinstance(name, StringImm)
        kind = name.value.removeprefix("llvm.x86.")
        if kind.startswith("tdp"):
            to, a, b = (self.number(tile) for tile in operands)
            self.tiles[to] = self._multiply(self.tiles[to], self.tiles[a], self.tiles[b])
        elif kind.startswith("tile") and operands:
            tile = self.number(operands[0])
            address = operands[1]
            assert isinstance(address, Call)
            place = address.args[0]
            assert isinstance(place, BufferLoad)
            rows = self.rows(self._arrays[place.buffer], [self.number(i) for i in place.indices])
            if kind == "tileloadd64":
                self.tiles[tile] = rows.copy()
            else:
                rows[...] = self.tiles[tile]
            self.moves += 1

    def rows(self, array: Array, start: list[int]) -> Array:
        """Return a view of 16 rows of 64 bytes from an element on."""
        flat = array.reshape(array.shape[0], -1)
        column = int(np.ravel_multi_index(tuple(start[1:]), array.shape[1:]))
        return flat[start[0] : start[0] + 16, column : column + 64 // array.itemsize]

    def number(self, node: PrimExpr) -> int:
        simple = Analyzer().simplify(node)
        assert isinstance(simple, IntImm)
        return simple.value


def of_bytes(total: Array, a: Array, b: Array) -> Array:
    quads = b.reshape(16, 16, 4).astype(np.int64)
    return total + np.einsum("ikq,kjq->ij", a.reshape(16, 16, 4).astype(np.int64), quads)


def of_bfloats(total: Array, a: Array, b: Array) -> Array:
    wide = [(x.astype(np.uint32) << 16).view(np.float32).reshape(16, 16, 2) for x in (a, b)]
    return total + np.einsum("ikq,kjq->ij", *wide)


@pytest.mark.parametrize(
    ("types", "depth", "a_type", "b_type"),
    [("u8i8i32", 128, np.uint8, np.int8), ("i8i8i32", 64, np.int8, np.int8)],
)
def test_four_tiles_of_a_result_are_kept_while_bytes_are_summed_up(
    types: str, depth: int, a_type: type, b_type: type
) -> None:
    intrin = TensorIntrin.get(f"amx_32x32x{depth}_{types}")
    assert intrin is not None
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(np.iinfo(t).min, np.iinfo(t).max, shape, endpoint=True).astype(t)
        for t, shape in ((a_type, (32, depth)), (b_type, (depth, 32)))
    )
    c = rng.integers(-100, 100, (32, 32)).astype(np.int64)
    wanted = c + a.astype(np.int64) @ b.astype(np.int64)
    result = c.astype(np.int32)
    packed = np.ascontiguousarray(b.reshape(depth // 4, 4, 32).transpose(0, 2, 1))
    done = Emulator(intrin.impl, [a, packed, result], of_bytes)
    np.testing.assert_array_equal(result, wanted)
    assert done.moves == 8 + 4 * (depth // 64), "results are loaded and stored once"


def test_four_tiles_of_a_result_are_kept_while_bfloats_are_summed_up() -> None:
    intrin = TensorIntrin.get("amx_32x32x64_bf16bf16f32")
    assert intrin is not None
    rng = np.random.default_rng(0)
    wide = [rng.integers(-8, 8, shape).astype(np.float32) for shape in ((32, 64), (64, 32))]
    a, b = ((x.view(np.uint32) >> 16).astype(np.uint16) for x in wide)
    result = np.zeros((32, 32), np.float32)
    packed = np.ascontiguousarray(b.reshape(32, 2, 32).transpose(0, 2, 1))
    Emulator(intrin.impl, [a, packed, result], of_bfloats)
    np.testing.assert_array_equal(result, wide[0] @ wide[1])


PRODUCT = """
@T.prim_func
def main(A: T.Buffer((64, 128), "{a}"), B: T.Buffer((128, 64), "{b}"), C: T.Buffer((64, 64), "{c}")):
    T.func_attr({{"tir.noalias": True}})
    for i, j, k in T.grid(64, 64, 128):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.{c}(0)
            C[vi, vj] = C[vi, vj] + T.Cast("{c}", A[vi, vk]) * T.Cast("{c}", B[vk, vj])
"""


@pytest.mark.parametrize(
    ("types", "product", "steps"),
    [
        (("uint8", "int8", "int32"), "tdpbusd", 2),
        (("int8", "int8", "int32"), "tdpbssd", 2),
        (("bfloat16", "bfloat16", "float32"), "tdpbf16ps", 4),
    ],
)
def test_a_target_with_tiles_gets_designs_with_the_longest_sum(
    types: tuple[str, str, str], product: str, steps: int
) -> None:
    func = parse(PRODUCT.format(**dict(zip("abc", types, strict=True))))
    assert isinstance(func, PrimFunc)
    context = ms.TuneContext(
        func,
        target=TARGET,
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        rand_state=1,
    )
    application = TraceApplication(context)
    spaces = context.generate_design_space()
    assert spaces
    for space in spaces:
        sch = application.apply(space.trace, resample=True)
        assert sch is not None
        text = sch.mod.script()
        assert f"llvm.x86.{product}" in text
        assert f"for k in range({steps})" in text
    assembly = llvm_source(sch.mod, TARGET).assembly()
    assert all(f"%tmm{number}" in assembly for number in range(8))
