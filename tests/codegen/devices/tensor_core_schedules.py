"""Products of matrices, and their schedules for tensor cores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from schedule import LoopRV, Schedule
from tensorir.function import PrimFunc
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import PrimExpr
from tensorir.script import parse
from tensorir.semantics.conversions import stored

DTYPES = {"f16": "float16", "bf16": "bfloat16", "s8": "int8", "f32": "float32", "s32": "int32"}


def matmul(
    n: int, dtype: str, sums: str, right: str = "B[vk, vj]", left: str = "A[vi, vk]"
) -> PrimFunc:
    wide = DTYPES[sums]
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer(({n}, {n}), "{DTYPES[dtype]}"), B: T.Buffer(({n}, {n}), "{DTYPES[dtype]}"), C: T.Buffer(({n}, {n}), "{wide}")):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
    for i, j, k in T.grid({n}, {n}, {n}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.{wide}(0)
            C[vi, vj] = C[vi, vj] + T.Cast("{wide}", {left}) * T.Cast("{wide}", {right})
""")
    assert isinstance(func, PrimFunc)
    return func


def bind(sch: Schedule, loops: dict[str, LoopRV]) -> None:
    for axis, loop in loops.items():
        sch.bind(loop, axis)


def places(
    rows: int, columns: int, is_turned: bool, i: PrimExpr, j: PrimExpr
) -> tuple[PrimExpr, ...]:
    """Return where an element is in fragments of scope `warp`: the tile, thread and number."""
    run = 4 if rows * columns == 512 else 2
    outer, inner = (j % columns, i % rows) if is_turned else (i % rows, j % columns)
    near, far = outer // 8, inner // (4 * run)
    near, far = (far, near) if is_turned else (near, far)
    number = far * (2 * run) + near * run + inner % run
    return i // rows, j // columns, outer % 8 * 4 + inner % (4 * run) // run, number


def on_tensor_cores(
    func: PrimFunc,
    kind: str = "f16f16f32",
    *,
    family: str = "wmma",
    trans_a: str = "",
    trans: str = "",
    load_trans: str | None = None,
    place: str = "global",
    padding: int = 0,
    warps: int = 1,
    tiles: int = 1,
    lanes: int = 32,
    skip: str = "",
    layout: Callable[..., tuple[PrimExpr, ...]] = places,
) -> Schedule:
    """Return a schedule: `warps` x `warps` warps in a block, `tiles` x `tiles` tiles in a warp.

    Tiles of both factors are fetched into shared memory by all threads, with vectors. Fragments of
    the family "mma" get a layout.
    """
    dtype, sums = next((d, kind.removeprefix(d + d)) for d in DTYPES if kind.startswith(d + d))
    is_mma = family == "mma"
    step = 32 if is_mma and dtype == "s8" else 16
    scopes = ["warp"] * 3 if is_mma else ["wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator"]
    sch = Schedule(func)
    block = sch.get_block("C")
    sizes = zip(sch.get_loops(block), (16, 16, step), strict=True)
    (i, i2), (j, j2), (k, k2) = (sch.split(loop, [None, size]) for loop, size in sizes)
    sch.reorder(i, j, k, i2, j2, k2)
    tile = sch.blockize(i2)
    by, ty, i1 = sch.split(i, [None, warps, tiles])
    bx, tz, j1 = sch.split(j, [None, warps, tiles])
    k0, k1 = sch.split(k, [None, 32 // step])
    sch.reorder(by, bx, ty, tz, k0, k1, i1, j1)
    bind(sch, {"blockIdx.y": by, "blockIdx.x": bx, "threadIdx.y": ty, "threadIdx.z": tz})
    moves = []
    load_trans = trans if load_trans is None else load_trans
    for index, matrix in enumerate("ab"):
        shared = sch.cache_read(tile, index, "shared")
        fragment = sch.cache_read(tile, index, scopes[index])
        sch.compute_at(fragment, k1)
        sch.compute_at(shared, k0)
        if padding:
            sch.storage_align(shared, 0, 0, 16, padding)
        fused = sch.fuse(*sch.get_loops(shared)[-2:])
        _, y, z, x, vector = sch.split(fused, [None, warps, warps, lanes, 4])
        bind(sch, {"threadIdx.y": y, "threadIdx.z": z, "threadIdx.x": x})
        sch.vectorize(vector)
        order = load_trans if matrix == "b" else trans_a
        size = (16, step) if (matrix == "a") != bool(order) else (step, 16)
        name = f"wmma_load_16x16x16_{dtype}_{matrix}{order}_shared"
        if is_mma:
            name = f"mma_ldmatrix_{dtype.replace('s', 'i')}_{matrix}{order}"
        moves.append((fragment, name, size, size == (32, 16)))
    if place == "shared":
        staged = sch.cache_write(tile, 0, "shared")
    result = sch.cache_write(tile, 0, scopes[2])
    sch.reverse_compute_at(result, tz)
    if place == "shared":
        sch.reverse_compute_at(staged, bx)
        *_, x, y = sch.get_loops(staged)
        _, lane = sch.split(sch.fuse(x, y), [None, lanes])
        bind(sch, {"threadIdx.x": lane})
    init = sch.decompose_reduction(tile, k0)
    wide = sums.replace("s", "i") if is_mma else sums
    name = f"mma_store_16x16_{wide}_{place}_" if is_mma else f"wmma_store_16x16x16_{sums}_{place}"
    moves.append((result, name, (16, 16), False))
    for move, intrin, size, is_turned in moves:
        x, y = sch.get_loops(move)[-2:]
        (x, x1), (y, y1) = sch.split(x, [None, size[0]]), sch.split(y, [None, size[1]])
        sch.reorder(x, y, x1, y1)
        if is_mma:
            side = "read" if move is result else "write"
            sch.transform_layout(move, (side, 0), partial(layout, *size, is_turned))
        if not skip or skip not in intrin:
            sch.tensorize(x1, intrin)
    if is_mma:
        turned = "_trans_a" * bool(trans_a) + "_trans_b" * bool(trans)
        sch.tensorize(init, f"mma_fill_16x16_{wide}")
        sch.tensorize(tile, f"mma_{kind.replace('s', 'i')}{turned}")
    else:
        sch.tensorize(init, f"wmma_fill_16x16x16_{sums}")
        sch.tensorize(tile, f"wmma_sync_16x16x16_{kind}{trans}")
    return sch


def operands(n: int, dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    if dtype == "s8":
        return [rng.integers(-128, 128, (n, n), "int8") for _ in range(2)]
    return [stored(rng.uniform(-1, 1, (n, n)), DataType(DTYPES[dtype])) for _ in range(2)]
