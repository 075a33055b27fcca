"""BLAS in float32: 24 routines as programs, and their schedules by the library of schedules.

`python -m benchmarks.blas --table` times each next to the OpenBLAS that NumPy ships, on one core.
Matrices are row-major: a product of column-major matrices is the one of the operands in the other
order, and a column-major matrix of levels 1 and 2 is the transpose of a row-major one. alpha is 1
and beta is 0 where a routine has no parameter for them.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import codegen
from schedule import BlockRV, Schedule, composite
from schedule.library import add_rows, microkernel, split_k, stage_operands, stream_rows
from schedule.library import tile_for_cache as tiles
from schedule.queries import blocks, is_reduction
from tensorir import parse
from tensorir.function import IRModule

TARGET: Final = "llvm -num-cores=1"
ROW, N, T, LOWER, NONUNIT, LEFT = 101, 111, 112, 122, 131, 141
"""Enumerators of CBLAS."""
ROWS: Final = 8
"""Rows of a matrix that a routine of level 2 reads at a time."""
SOLVED: Final = 24
"""Rows that `trsm` solves at a time."""
SCALARS: Final = {"a": -1.0, "b": 0.5, "c": 0.6, "s": 0.8}
"""Values of the scalar parameters."""

Text = Callable[[int], str]
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Routine:
    """A routine: its program for a size, its schedule, and its equivalents in NumPy and CBLAS."""

    name: str
    level: int
    parameters: str
    """Scalars are among `SCALARS`, r and q hold one result, capitals are matrices (L: lower)."""
    body: Text
    schedule: Callable[[Schedule], object]
    reference: Callable[..., Any]
    """Returns the last array among the parameters; a tuple of all that change."""
    call: Callable[..., tuple[Any, ...]]
    """Returns the arguments of the function of CBLAS."""

    def module(self, n: int) -> IRModule:
        """Return the program for vectors of n elements and matrices of n times n."""
        header = ", ".join(_declaration(name, n) for name in self.parameters.split())
        lines = [f"def main({header}):", '    T.func_attr({"tir.noalias": True})']
        lines += ["    " + line for line in self.body(n).splitlines()]
        return parse("@T.prim_func\n" + "\n".join(lines) + "\n")

    def scheduled(self, n: int) -> Schedule:
        """Return the program with its schedule."""
        sch = Schedule(self.module(n))
        self.schedule(sch)
        return sch

    def arguments(self, n: int) -> list[Any]:
        """Return random arguments; solving with L, or a product with it, changes x little."""
        rng = np.random.default_rng(0)
        values: list[Any] = []
        for name in self.parameters.split():
            shape = _shape(name, n)
            value = rng.standard_normal(shape).astype("float32")
            if name == "L":
                value = (value / n**2 + np.eye(n)).astype("float32")
            if name == "h":
                value = np.array([-1, 0.6, -0.8, 0.8, 0.6], "float32")
            kind = "int32" if name == "q" else "float32"
            values.append(SCALARS.get(name, value.astype(kind)))
        return values


def _shape(name: str, n: int) -> tuple[int, ...]:
    return (n, n) if name.isupper() else {"r": (1,), "q": (1,), "h": (5,)}.get(name, (n,))


def _declaration(name: str, n: int) -> str:
    if name in SCALARS:
        return f"{name}: T.float32"
    kind = "int32" if name == "q" else "float32"
    return f'{name}: T.Buffer({_shape(name, n)}, "{kind}")'


def nest(
    name: str,
    axes: str,
    sizes: object,
    store: str,
    init: str = "",
    where: str = "",
    kinds: str = "",
) -> str:
    """Return the text of loops around a block with an axis for each loop, k and l reduction axes.

    An axis `i=b*8+i` is bound to that value. `sizes` are the extents of the loops, or one for all;
    an axis has the extent of its loop, or the one after a colon.
    """
    loops = [axis.split("=")[0] for axis in axes.split()]
    extents = sizes if isinstance(sizes, tuple) else (sizes,) * len(loops)
    body = []
    for loop, axis, size, kind in zip(loops, axes.split(), extents, kinds or loops, strict=True):
        value, _, extent = axis.split("=")[-1].partition(":")
        word = "reduce" if kind in "kl" else "scan" if kind == "o" else "spatial"
        body.append(f"v{loop} = T.axis.{word}({extent or size}, {value})")
    body += [f"T.where({where})"] if where else []
    body += ["with T.init():", f"    {init}"] if init else []
    body += store.split("; ")
    grid = f"for {', '.join(loops)} in T.grid({', '.join(map(str, extents))}):"
    lines = [grid, f'    with T.block("{name}"):', *["        " + line for line in body]]
    return "\n".join(lines) + "\n"


def within(header: str, *parts: str) -> str:
    """Return loops with statements in them."""
    return header + "\n" + "".join(f"    {line}\n" for part in parts for line in part.splitlines())


def new(name: str, *shape: int, kind: str = "float32") -> str:
    """Return the allocation of a buffer."""
    return f'{name} = T.alloc_buffer({shape}, "{kind}")\n'


def where(condition: str, value: str) -> str:
    """Return a value where a condition holds, else zero."""
    return f"T.if_then_else({condition}, {value}, T.float32(0))"


# ------------------------------------------------------------------------------------------ level 1


def each(store: str) -> Text:
    """Return a program that does something at each element."""
    return lambda n: nest("out", "i", n, store)


def total(value: str) -> Text:
    """Return a program that adds up values."""
    return lambda n: nest("sum", "k", n, f"r[0] = r[0] + {value}", "r[0] = T.float32(0)")


def nrm2(n: int) -> str:
    wide, root = 'T.Cast("float64", x[vk])', 'r[vi] = T.Cast("float32", T.sqrt(m[vi]))'
    total = nest("sum", "k", n, f"m[0] = m[0] + {wide} * {wide}", "m[0] = T.float64(0)")
    return new("m", 1, kind="float64") + total + nest("out", "i", 1, root)


def iamax(n: int) -> str:
    least, most = 'T.min_value("float32")', 'T.max_value("int32")'
    at = f"q[0] = T.min(q[0], T.Select(T.abs(x[vk]) >= m[0], vk, {most}))"
    largest = nest("max", "k", n, "m[0] = T.max(m[0], T.abs(x[vk]))", f"m[0] = {least}")
    return new("m", 1) + largest + nest("at", "k", n, at, f"q[0] = {most}")


def stream(sch: Schedule) -> None:
    for block in blocks(sch):
        stream_rows(sch, block)


def sums(sch: Schedule) -> None:
    for block in blocks(sch):
        if is_reduction(sch, block):
            split_k(sch, block, parts=8)


# ------------------------------------------------------------------------------------------ level 2

LAST: Final = f"// {ROWS} * {ROWS} + {ROWS - 1}"


def rows(matrix: str, x: str, y: str, condition: str = "") -> Text:
    """Return y = A x, the sums of rows of a matrix."""
    value = where(condition, matrix) if condition else matrix
    init, store = f"{y}[vi] = T.float32(0)", f"{y}[vi] = {y}[vi] + {value} * {x}[vk]"
    tile = f"k // 16 * 16 <= i {LAST}" if condition else ""
    return lambda n: nest("rows", "i k", n, store, init, tile)


def columns(matrix: str, x: str, y: str, condition: str = "") -> Text:
    """Return y = A^T x, the sum of the rows of a matrix."""
    value = where(condition, matrix) if condition else matrix
    zero = each(f"{y}[vi] = T.float32(0)")
    tile = f"j // 16 * 16 <= k {LAST}" if condition else ""
    store = f"{y}[vj] = {y}[vj] + {value} * {x}[vk]"
    return lambda n: zero(n) + nest("columns", "j k", n, store, where=tile)


def triangle(store: str) -> Text:
    """Return an update of the lower triangle of a matrix."""
    return lambda n: nest("out", "i j", n, store, where="j <= i")


def in_place(step: Text) -> Text:
    """Return a program that replaces x by z, which a step computes from a copy y of x."""
    start, end = each("y[vi] = x[vi]"), each("x[vi] = z[vi]")
    return lambda n: new("y", n) + new("z", n) + start(n) + step(n) + end(n)


def symv(n: int) -> str:
    """Return a program that reads the triangle once, for the dot products and for the updates."""
    many, at = -(-n // 16), "vj * 16 + vl"
    element = f"A[vi, {at}]"
    down = f"w[{at}] = w[{at}] + {where(f'{at} < vi', element)} * x[vi]"
    across = f"z[vi, vl] = z[vi, vl] + {where(f'{at} <= vi', f'{element} * x[{at}]')}"
    return (
        new("w", many * 16)
        + new("z", n, 16)
        + nest("zero", "i", many * 16, "w[vi] = T.float32(0)")
        + nest("zeros", "i j", (n, 16), "z[vi, vj] = T.float32(0)")
        + nest(
            "both", "i j l", (n, many, 16), f"{down}; {across}", "", f"j * 16 <= i {LAST}", "kki"
        )
        + nest("out", "i l", (n, 16), "y[vi] = y[vi] + z[vi, vl]", "y[vi] = w[vi]")
    )


def trsv(n: int) -> str:
    """Return a program that solves for `ROWS` elements at a time, after products with all before."""
    return f"""
Z = T.alloc_buffer(({n}, 16))
z = T.alloc_buffer(({n},))
for b in range({-(-n // ROWS)}):
    for i, k, l in T.grid({ROWS}, {-(-n // 16)}, 16):
        with T.block("rows"):
            vi = T.axis.spatial({n}, b * {ROWS} + i)
            vk, vl = T.axis.remap("RS", [k, l])
            T.where(b * {ROWS} + i < {n} and k * 16 < T.max(b * {ROWS}, 1))
            with T.init():
                Z[vi, vl] = T.float32(0)
            Z[vi, vl] = Z[vi, vl] + {
        where(f"vk * 16 + vl < vi // {ROWS} * {ROWS}", "L[vi, vk * 16 + vl] * x[vk * 16 + vl]")
    }
    for i, l in T.grid({ROWS}, 16):
        with T.block("sums"):
            vi, vl = T.axis.spatial({n}, b * {ROWS} + i), T.axis.reduce(16, l)
            T.where(b * {ROWS} + i < {n})
            with T.init():
                z[vi] = T.float32(0)
            z[vi] = z[vi] + Z[vi, vl]
    for i in range({ROWS}):
        for k in range({ROWS}):
            with T.block("before"):
                vi, vk = T.axis.scan({n}, b * {ROWS} + i), T.axis.scan({n}, b * {ROWS} + k)
                T.where(b * {ROWS} + i < {n} and k < i)
                z[vi] = z[vi] + L[vi, vk] * x[vk]
        with T.block("x"):
            vi = T.axis.scan({n}, b * {ROWS} + i)
            T.where(b * {ROWS} + i < {n})
            x[vi] = (x[vi] - z[vi]) / L[vi, vi]
"""


def dots(sch: Schedule) -> None:
    split_k(sch, sch.get_block("rows"), parts=1, rows=ROWS)


def updates(sch: Schedule) -> None:
    add_rows(sch, sch.get_block("columns"), ROWS)


@composite
def lanes_of_rows(sch: Schedule, block: BlockRV) -> None:
    """Unroll `ROWS` rows of a block over rows, steps and lanes."""
    row, step, lane = sch.get_loops(block)[-3:]
    _, row = sch.split(row, [None, ROWS])
    sch.reorder(step, row, lane)
    sch.unroll(row)
    sch.vectorize(lane)


# ------------------------------------------------------------------------------------------ level 3


def product(left: str, right: str, result: str = "C", condition: str = "") -> Text:
    """Return a product of matrices."""
    at = f"{result}[vi, vj]"
    store, init = f"{at} = {at} + {left} * {right}", f"{at} = T.float32(0)"
    return lambda n: nest("C", "i j k", n, store, init, condition)


def packed(name: str, value: str, step: Text) -> Text:
    """Return a step after a matrix was made for it."""
    copy = f"{name}[vi, vj] = {value}"
    return lambda n: new(name, n, n) + nest("pack", "i j", n, copy) + step(n)


def to_triangle(step: Text, value: str) -> Text:
    """Return a step that computes Q, and the triangle of C from it."""
    copy = triangle(f"C[vi, vj] = {value}")
    return lambda n: new("Q", n, n) + step(n) + copy(n)


def trmm(n: int) -> str:
    step = product("P[vi, vk]", "X[vk, vj]", "B", "k // 64 * 64 <= i // 6 * 6 + 5")
    copy = new("X", n, n) + nest("copy", "i j", n, "X[vi, vj] = B[vi, vj]")
    return copy + packed("P", where("vj <= vi", "L[vi, vj]"), step)(n)


def trsm(n: int) -> str:
    """Return a program that solves panels of 64 columns, `SOLVED` rows at a time.

    P has the blocks below those of the diagonal, D what is below the diagonal in these.
    """
    m, count, panels = -(-n // SOLVED) * SOLVED, -(-n // SOLVED), -(-n // 64)
    first = f"vi // {SOLVED} * {SOLVED}"
    return f"""
P = T.alloc_buffer(({m}, {n}))
D = T.alloc_buffer(({m}, {SOLVED}))
R = T.alloc_buffer(({m},))
X = T.alloc_buffer(({panels}, {m}, 64))
Y = T.alloc_buffer(({panels}, {m}, 64))
Z = T.alloc_buffer(({panels}, {m}, 64))
for p, i, j in T.grid({panels}, {m}, 64):
    with T.block("zero"):
        vp, vi, vj = T.axis.remap("SSS", [p, i, j])
        X[vp, vi, vj] = T.float32(0)
for i, k in T.grid({m}, {n}):
    with T.block("below"):
        vi, vk = T.axis.remap("SS", [i, k])
        P[vi, vk] = {where(f"vi < {n} and vk < {first}", "L[vi, vk]")}
for i, k in T.grid({m}, {SOLVED}):
    with T.block("diagonal"):
        vi, vk = T.axis.remap("SS", [i, k])
        D[vi, vk] = {where(f"vi < {n} and {first} + vk < vi", f"L[vi, {first} + vk]")}
for i in range({m}):
    with T.block("reciprocals"):
        vi = T.axis.spatial({m}, i)
        R[vi] = {where(f"vi < {n}", "T.float32(1) / L[vi, vi]")}
for p, b in T.grid({panels}, {count}):
    for i, j, k in T.grid({SOLVED}, 64, {n}):
        with T.block("C"):
            vp, vi = T.axis.spatial({panels}, p), T.axis.spatial({m}, b * {SOLVED} + i)
            vj, vk = T.axis.remap("SR", [j, k])
            T.where(k // {SOLVED} < T.max(b, 1))
            with T.init():
                Z[vp, vi, vj] = T.float32(0)
            Z[vp, vi, vj] = Z[vp, vi, vj] + P[vi, vk] * X[vp, vk, vj]
    for i in range({SOLVED}):
        for k, j in T.grid({SOLVED}, 64):
            with T.block("before"):
                vp, vi = T.axis.spatial({panels}, p), T.axis.spatial({m}, b * {SOLVED} + i)
                vk, vj = T.axis.reduce({SOLVED}, k), T.axis.spatial(64, j)
                T.where(k < T.max(i, 1))
                with T.init():
                    Y[vp, vi, vj] = Z[vp, vi, vj]
                Y[vp, vi, vj] = Y[vp, vi, vj] + D[vi, vk] * X[vp, {first} + vk, vj]
        for j in range(64):
            with T.block("solve"):
                vp, vi = T.axis.spatial({panels}, p), T.axis.spatial({m}, b * {SOLVED} + i)
                vj = T.axis.spatial(64, j)
                X[vp, vi, vj] = ({
        where(f"vi < {n} and vp * 64 + vj < {n}", "B[vi, vp * 64 + vj]")
    } - Y[vp, vi, vj]) * R[vi]
for i, j in T.grid({n}, {n}):
    with T.block("out"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = X[vj // 64, vi, vj % 64]
"""


@composite
def multiply(sch: Schedule, steps: int = 256) -> None:
    """Schedule a product: packed panels, tiles in the cache, tiles in registers."""
    block = sch.get_block("C")
    stage_operands(sch, block, panel=64)
    tiles(sch, block, [96, 64, steps])
    microkernel(sch, block, rows=6, columns=64)


def transpose(sch: Schedule) -> None:
    """Copy by tiles of 16 times 16 elements, which are transposed in registers."""
    over, within = tiles(sch, sch.get_block("pack"), [16, 16])
    sch.unroll(within[0])
    sch.vectorize(within[1])


def multiply_packed(sch: Schedule) -> None:
    transpose(sch)
    multiply(sch)


def multiply_lower(sch: Schedule) -> None:
    multiply_packed(sch)
    stream_rows(sch, sch.get_block("out"))


def multiply_triangle(sch: Schedule) -> None:
    stream_rows(sch, sch.get_block("pack"))
    multiply(sch, steps=64)


def solve(sch: Schedule) -> None:
    lanes_of_rows(sch, sch.get_block("rows"))
    block = sch.get_block("rows")
    sch.decompose_reduction(block, sch.get_loops(block)[-3])


def solve_panels(sch: Schedule) -> None:
    for name in ("zero", "below", "diagonal", "out"):
        stream_rows(sch, sch.get_block(name), unroll=1 if name == "diagonal" else 4)
    block = sch.get_block("C")
    tiles(sch, block, [None, None, SOLVED])
    microkernel(sch, block, rows=6, columns=64)
    for name in ("before", "solve"):
        _, group, lane = sch.split(sch.get_loops(sch.get_block(name))[-1], [1, 4, 16])
        sch.unroll(group)
        sch.vectorize(lane)
    before = sch.get_block("before")
    sch.decompose_reduction(before, sch.get_loops(before)[3])


# -------------------------------------------------------------------------------------- the routines


def _lower(a: Array) -> Array:
    return np.tril(a)


ROUTINES: Final = {
    name: Routine(name, *rest)
    for name, *rest in (
        ("copy", 1, "x y", each("y[vi] = x[vi]"), stream, lambda x, y: x, lambda n, x, y: (n, x, 1, y, 1)),
        ("swap", 1, "x y", each("t: T.float32 = x[vi]; x[vi] = y[vi]; y[vi] = t"), stream,
         lambda x, y: (y, x), lambda n, x, y: (n, x, 1, y, 1)),
        ("scal", 1, "a x", each("x[vi] = a * x[vi]"), stream, lambda a, x: a * x, lambda n, a, x: (n, a, x, 1)),
        ("axpy", 1, "a x y", each("y[vi] = a * x[vi] + y[vi]"), stream,
         lambda a, x, y: a * x + y, lambda n, a, x, y: (n, a, x, 1, y, 1)),
        ("axpby", 1, "a x b y", each("y[vi] = a * x[vi] + b * y[vi]"), stream,
         lambda a, x, b, y: a * x + b * y, lambda n, a, x, b, y: (n, a, x, 1, b, y, 1)),
        ("rot", 1, "c s x y", each("t: T.float32 = x[vi]; x[vi] = c * t + s * y[vi]; y[vi] = c * y[vi] - s * t"),
         stream, lambda c, s, x, y: (c * x + s * y, c * y - s * x), lambda n, c, s, x, y: (n, x, 1, y, 1, c, s)),
        ("rotm", 1, "h x y", each("t: T.float32 = x[vi]; x[vi] = h[1] * t + h[3] * y[vi]; y[vi] = h[2] * t + h[4] * y[vi]"),
         stream, lambda h, x, y: (h[1] * x + h[3] * y, h[2] * x + h[4] * y), lambda n, h, x, y: (n, x, 1, y, 1, h)),
        ("dot", 1, "x y r", total("x[vk] * y[vk]"), sums, lambda x, y, r: x @ y, lambda n, x, y, r: (n, x, 1, y, 1)),
        ("nrm2", 1, "x r", nrm2, sums, lambda x, r: np.linalg.norm(x), lambda n, x, r: (n, x, 1)),
        ("asum", 1, "x r", total("T.abs(x[vk])"), sums, lambda x, r: abs(x).sum(), lambda n, x, r: (n, x, 1)),
        ("iamax", 1, "x q", iamax, sums, lambda x, q: abs(x).argmax(), lambda n, x, q: (n, x, 1)),
        ("gemv", 2, "A x y", rows("A[vi, vk]", "x", "y"), dots, lambda A, x, y: A @ x,
         lambda n, A, x, y: (ROW, N, n, n, 1.0, A, max(n, 1), x, 1, 0.0, y, 1)),
        ("gemv.T", 2, "A x y", columns("A[vk, vj]", "x", "y"), updates, lambda A, x, y: A.T @ x,
         lambda n, A, x, y: (ROW, T, n, n, 1.0, A, max(n, 1), x, 1, 0.0, y, 1)),
        ("ger", 2, "a x y A", lambda n: nest("out", "i j", n, "A[vi, vj] = A[vi, vj] + a * x[vi] * y[vj]"), stream,
         lambda a, x, y, A: A + a * np.outer(x, y), lambda n, a, x, y, A: (ROW, n, n, a, x, 1, y, 1, A, max(n, 1))),
        ("syr", 2, "a x A", triangle("A[vi, vj] = A[vi, vj] + a * x[vi] * x[vj]"), stream,
         lambda a, x, A: A + a * _lower(np.outer(x, x)), lambda n, a, x, A: (ROW, LOWER, n, a, x, 1, A, max(n, 1))),
        ("syr2", 2, "a x y A", triangle("A[vi, vj] = A[vi, vj] + a * x[vi] * y[vj] + a * y[vi] * x[vj]"), stream,
         lambda a, x, y, A: A + a * _lower(np.outer(x, y) + np.outer(y, x)),
         lambda n, a, x, y, A: (ROW, LOWER, n, a, x, 1, y, 1, A, max(n, 1))),
        ("symv", 2, "A x y", symv, lambda s: lanes_of_rows(s, s.get_block("both")),
         lambda A, x, y: (np.tril(A) + np.tril(A, -1).T) @ x,
         lambda n, A, x, y: (ROW, LOWER, n, 1.0, A, max(n, 1), x, 1, 0.0, y, 1)),
        ("trmv", 2, "L x", in_place(rows("L[vi, vk]", "y", "z", "vk <= vi")), dots, lambda L, x: _lower(L) @ x,
         lambda n, L, x: (ROW, LOWER, N, NONUNIT, n, L, max(n, 1), x, 1)),
        ("trmv.T", 2, "L x", in_place(columns("L[vk, vj]", "y", "z", "vj <= vk")), updates,
         lambda L, x: _lower(L).T @ x, lambda n, L, x: (ROW, LOWER, T, NONUNIT, n, L, max(n, 1), x, 1)),
        ("trsv", 2, "L x", trsv, solve, lambda L, x: np.linalg.solve(_lower(L), x),
         lambda n, L, x: (ROW, LOWER, N, NONUNIT, n, L, max(n, 1), x, 1)),
        ("gemm", 3, "A B C", product("A[vi, vk]", "B[vk, vj]"), multiply, lambda A, B, C: A @ B,
         lambda n, A, B, C: (ROW, N, N, n, n, n, 1.0, A, max(n, 1), B, max(n, 1), 0.0, C, max(n, 1))),
        ("gemm.TN", 3, "A B C", product("A[vk, vi]", "B[vk, vj]"), multiply, lambda A, B, C: A.T @ B,
         lambda n, A, B, C: (ROW, T, N, n, n, n, 1.0, A, max(n, 1), B, max(n, 1), 0.0, C, max(n, 1))),
        ("gemm.NT", 3, "A B C", packed("P", "B[vj, vi]", product("A[vi, vk]", "P[vk, vj]")), multiply_packed,
         lambda A, B, C: A @ B.T,
         lambda n, A, B, C: (ROW, N, T, n, n, n, 1.0, A, max(n, 1), B, max(n, 1), 0.0, C, max(n, 1))),
        ("symm", 3, "A B C", packed("P", "T.if_then_else(vj <= vi, A[vi, vj], A[vj, vi])", product("P[vi, vk]", "B[vk, vj]")),
         multiply_packed, lambda A, B, C: (np.tril(A) + np.tril(A, -1).T) @ B,
         lambda n, A, B, C: (ROW, LEFT, LOWER, n, n, 1.0, A, max(n, 1), B, max(n, 1), 0.0, C, max(n, 1))),
        ("syrk", 3, "A C", to_triangle(packed("P", "A[vj, vi]", product("A[vi, vk]", "P[vk, vj]", "Q", "j // 64 * 64 <= i // 6 * 6 + 5")), "Q[vi, vj]"),
         multiply_lower, lambda A, C: _lower(A @ A.T) + np.triu(C, 1),
         lambda n, A, C: (ROW, LOWER, N, n, n, 1.0, A, max(n, 1), 0.0, C, max(n, 1))),
        ("syr2k", 3, "A B C", to_triangle(packed("P", "B[vj, vi]", product("A[vi, vk]", "P[vk, vj]", "Q")), "Q[vi, vj] + Q[vj, vi]"),
         multiply_packed, lambda A, B, C: _lower(A @ B.T + B @ A.T) + np.triu(C, 1),
         lambda n, A, B, C: (ROW, LOWER, N, n, n, 1.0, A, max(n, 1), B, max(n, 1), 0.0, C, max(n, 1))),
        ("trmm", 3, "L B", trmm, multiply_triangle, lambda L, B: _lower(L) @ B,
         lambda n, L, B: (ROW, LEFT, LOWER, N, NONUNIT, n, n, 1.0, L, max(n, 1), B, max(n, 1))),
        ("trsm", 3, "L B", trsm, solve_panels, lambda L, B: np.linalg.solve(_lower(L), B),
         lambda n, L, B: (ROW, LEFT, LOWER, N, NONUNIT, n, n, 1.0, L, max(n, 1), B, max(n, 1))),
    )
}  # fmt: skip


# --------------------------------------------------------------------------------------- the timings


def _openblas() -> ctypes.CDLL:
    folder = Path(np.__file__).parent.parent / "numpy.libs"
    return ctypes.CDLL(str(next(folder.glob("libscipy_openblas64_*"))))


def _passed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_float(value) if isinstance(value, float) else ctypes.c_int64(value)


def compare(routine: Routine, n: int, turns: int = 40) -> tuple[float, float, float]:
    """Return ms to schedule, and microseconds of a call of ours and of OpenBLAS.

    Both are the least of interleaved turns; the time of a call of OpenBLAS with n = 0 is deducted.
    """
    start = time.process_time()
    sch = routine.scheduled(n)
    scheduled = time.process_time() - start
    library = codegen.build(sch.mod, TARGET)
    arguments = routine.arguments(n)
    arrays = [np.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    prefix = "i" if routine.name == "iamax" else "s"
    name = routine.name.split(".")[0].removeprefix("i")
    symbol = f"scipy_cblas_{'is' if prefix == 'i' else 's'}{name}64_"
    function = getattr(_openblas(), symbol)
    calls = [[_passed(x) for x in routine.call(size, *arrays)] for size in (n, 0)]

    def seconds(values: list[Any], number: int) -> float:
        start = time.perf_counter()
        for _ in range(number):
            function(*values)
        return (time.perf_counter() - start) / number

    number = max(1, int(0.002 / seconds(calls[0], 1)))
    ours, theirs, nothing = [], [], []
    for _ in range(turns):
        timer = library.time_evaluator("main", number=number, repeat=1)
        ours.append(timer(*arguments).min)
        theirs.append(seconds(calls[0], number))
        nothing.append(seconds(calls[1], number))
    return scheduled * 1e3, min(ours) * 1e6, (min(theirs) - min(nothing)) * 1e6


SIZES: Final = {1: (100_000, 100_003), 2: (1024, 1009), 3: (512, 509)}
"""The sizes of the table, for each level."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="routines, all by default")
    parser.add_argument("--table", action="store_true", help="time them next to OpenBLAS")
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    ratios = []
    print("| routine | n | us | OpenBLAS | ratio | ms to schedule |\n|---|---|---|---|---|---|")
    for name in options.names or ROUTINES:
        for n in SIZES[ROUTINES[name].level]:
            scheduled, ours, theirs = compare(ROUTINES[name], n)
            ratios.append(theirs / ours)
            cells = f"{ours:.1f} | {theirs:.1f} | {ratios[-1]:.2f} | {scheduled:.1f}"
            print(f"| {name} | {n} | {cells} |", flush=True)
    print(f"\ngeometric mean of the ratios: {np.exp(np.mean(np.log(ratios))):.2f}")


if __name__ == "__main__":
    main()
