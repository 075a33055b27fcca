"""BLAS in float32: 24 routines as programs, and their schedules by the library of schedules.

`python -m benchmarks.blas --table` times each next to the OpenBLAS that NumPy ships, on one core.
Matrices are row-major: a product of column-major matrices is the one of the operands in the other
order, and a column-major operand of the other routines is the transpose of a row-major one. alpha
is 1 and beta is 0 where a routine has no parameter for them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from schedule import Schedule, library
from schedule.queries import blocks, is_reduction
from tensorir import parse

ROWS: Final = 8
"""Rows of a matrix that a routine of level 2 reads at a time."""
SOLVED: Final = 24
"""Rows that `trsm` solves at a time."""

Text = Callable[[int], str]


@dataclass(frozen=True)
class Routine:
    """A routine: its program as a function of the size, and its schedule."""

    level: int
    parameters: str
    """a, b, c and s are scalars, r and q have one element, capitals are matrices, L a triangle."""
    body: Text
    schedule: Callable[[Schedule], object]

    def scheduled(self, n: int) -> Schedule:
        """Return the program for vectors of n elements and matrices of n times n, scheduled."""
        header = ", ".join(_declaration(name, n) for name in self.parameters.split())
        lines = [f"def main({header}):", '    T.func_attr({"tir.noalias": True})']
        lines += ["    " + line for line in self.body(n).splitlines()]
        sch = Schedule(parse("@T.prim_func\n" + "\n".join(lines) + "\n"))
        self.schedule(sch)
        return sch


def shape_of(name: str, n: int) -> tuple[int, ...]:
    """Return the shape of a parameter of a routine of size n."""
    return (n, n) if name.isupper() else {"r": (1,), "q": (1,), "h": (5,)}.get(name, (n,))


def _declaration(name: str, n: int) -> str:
    kind = "int32" if name == "q" else "float32"
    buffer = f'T.Buffer({shape_of(name, n)}, "{kind}")'
    return f"{name}: {'T.float32' if name in 'abcs' else buffer}"


def nest(
    name: str,
    axes: str,
    sizes: int | tuple[int, ...],
    store: str,
    init: str = "",
    where: str = "",
    reduced: str = "kl",
) -> str:
    """Return the text of loops around a block with an axis for each, some of them reduction axes.

    `sizes` are the extents, or one extent for all.
    """
    letters = axes.split()
    extents = sizes if isinstance(sizes, tuple) else (sizes,) * len(letters)
    kinds = "".join("R" if x in reduced else "S" for x in letters)
    variables = ", ".join("v" + x for x in letters)
    lines = [
        f"for {', '.join(letters)} in T.grid({', '.join(map(str, extents))}):",
        f'    with T.block("{name}"):',
        f'        {variables} = T.axis.remap("{kinds}", [{", ".join(letters)}])',
    ]
    lines += [f"        T.where({where})"] if where else []
    lines += ["        with T.init():", f"            {init}"] if init else []
    return "\n".join([*lines, *["        " + part for part in store.split("; ")]]) + "\n"


def new(name: str, *shape: int, kind: str = "float32") -> str:
    """Return the allocation of a buffer."""
    return f'{name} = T.alloc_buffer({shape}, "{kind}")\n'


def where(condition: str, value: str) -> str:
    """Return a value where a condition holds, else zero."""
    return f"T.if_then_else({condition}, {value}, T.float32(0))"


# ------------------------------------------------------------------------------------------ level 1


def each(store: str, axes: str = "i", where: str = "") -> Text:
    """Return a program that does something at each element, of vectors or of matrices."""
    return lambda n: nest("out", axes, n, store, where=where)


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
        library.stream_rows(sch, block)


def sums(sch: Schedule) -> None:
    for block in blocks(sch):
        if is_reduction(sch, block):
            library.split_k(sch, block, parts=8)


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
        + nest("both", "i j l", (n, many, 16), f"{down}; {across}", "", f"j * 16 <= i {LAST}", "ij")
        + nest("out", "i l", (n, 16), "y[vi] = y[vi] + z[vi, vl]", "y[vi] = w[vi]")
    )


def trsv(n: int) -> str:
    """Return a program that solves for `ROWS` elements at a time."""
    at = "vk * 16 + vl"
    earlier = where(f"{at} < vi // {ROWS} * {ROWS}", f"L[vi, {at}] * x[{at}]")
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
            Z[vi, vl] = Z[vi, vl] + {earlier}
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


def on(name: str, step: Callable[..., object], *arguments: int) -> Callable[[Schedule], object]:
    """Return a schedule of one step at the block of a name."""
    return lambda sch: step(sch, sch.get_block(name), *arguments)


# ------------------------------------------------------------------------------------------ level 3


def product(left: str, right: str, result: str = "C", condition: str = "") -> Text:
    """Return a product of matrices."""
    at = f"{result}[vi, vj]"
    store, init = f"{at} = {at} + {left} * {right}", f"{at} = T.float32(0)"
    return lambda n: nest("C", "i j k", n, store, init, condition)


def packed(value: str, step: Text) -> Text:
    """Return a step after the making of a matrix P for it."""
    return lambda n: new("P", n, n) + nest("pack", "i j", n, f"P[vi, vj] = {value}") + step(n)


def lower(step: Text, value: str) -> Text:
    """Return a step that computes Q, and the triangle of C from it."""
    copy = each(f"C[vi, vj] = {value}", "i j", "j <= i")
    return lambda n: new("Q", n, n) + step(n) + copy(n)


def trmm(n: int) -> str:
    step = product("P[vi, vk]", "X[vk, vj]", "B", "k // 64 * 64 <= i // 6 * 6 + 5")
    copy = new("X", n, n) + nest("copy", "i j", n, "X[vi, vj] = B[vi, vj]")
    return copy + packed(where("vj <= vi", "L[vi, vj]"), step)(n)


def trsm(n: int) -> str:
    """Return a program that solves panels of 64 columns, `SOLVED` rows at a time.

    P has the blocks below those of the diagonal, D what is below the diagonal in these.
    """
    m, count, panels = -(-n // SOLVED) * SOLVED, -(-n // SOLVED), -(-n // 64)
    first = f"vi // {SOLVED} * {SOLVED}"
    below = where(f"vi < {n} and vj < {first}", "L[vi, vj]")
    diagonal = where(f"vi < {n} and {first} + vj < vi", f"L[vi, {first} + vj]")
    reciprocal = where(f"vi < {n}", "T.float32(1) / L[vi, vi]")
    result = where(f"vi < {n} and vp * 64 + vj < {n}", "B[vi, vp * 64 + vj]")
    buffers = [new(name, panels, m, 64) for name in "XYZ"]
    buffers += [new("P", m, n), new("D", m, SOLVED), new("R", m)]
    prepared = [
        nest("zero", "p i j", (panels, m, 64), "X[vp, vi, vj] = T.float32(0)"),
        nest("below", "i j", (m, n), f"P[vi, vj] = {below}"),
        nest("diagonal", "i j", (m, SOLVED), f"D[vi, vj] = {diagonal}"),
        nest("reciprocals", "i", m, f"R[vi] = {reciprocal}"),
    ]
    return (
        "".join(buffers + prepared)
        + f"""
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
                X[vp, vi, vj] = ({result} - Y[vp, vi, vj]) * R[vi]
"""
        + nest("out", "i j", n, "B[vi, vj] = X[vj // 64, vi, vj % 64]")
    )


def multiply(sch: Schedule, steps: int = 256) -> None:
    """Schedule a product: packed panels, tiles in the cache, tiles in registers."""
    block = sch.get_block("C")
    library.stage_operands(sch, block, panel=64)
    library.tile_for_cache(sch, block, [96, 64, steps])
    library.microkernel(sch, block, rows=6, columns=64)


def packing(sch: Schedule) -> None:
    """Make P by tiles of 16 times 16 elements, which are transposed in registers."""
    _, within = library.tile_for_cache(sch, sch.get_block("pack"), [16, 16])
    sch.unroll(within[0])
    sch.vectorize(within[1])
    multiply(sch)


def packing_lower(sch: Schedule) -> None:
    packing(sch)
    library.stream_rows(sch, sch.get_block("out"))


def multiply_triangle(sch: Schedule) -> None:
    library.stream_rows(sch, sch.get_block("pack"))
    multiply(sch, steps=64)


def solve(sch: Schedule) -> None:
    block = sch.get_block("rows")
    sch.decompose_reduction(block, library.unroll_rows(sch, block, ROWS))


def solve_panels(sch: Schedule) -> None:
    for name in ("zero", "below", "diagonal", "out"):
        library.stream_rows(sch, sch.get_block(name), unroll=1 if name == "diagonal" else 4)
    block = sch.get_block("C")
    library.tile_for_cache(sch, block, [None, None, SOLVED])
    library.microkernel(sch, block, rows=6, columns=64)
    for name in ("before", "solve"):
        _, group, lane = sch.split(sch.get_loops(sch.get_block(name))[-1], [1, 4, 16])
        sch.unroll(group)
        sch.vectorize(lane)
    before = sch.get_block("before")
    sch.decompose_reduction(before, sch.get_loops(before)[3])


# ----------------------------------------------------------------------------------------- routines

ROTATE: Final = "t: T.float32 = x[vi]; x[vi] = c * t + s * y[vi]; y[vi] = c * y[vi] - s * t"
MODIFIED: Final = (
    "t: T.float32 = x[vi]; x[vi] = h[1] * t + h[3] * y[vi]; y[vi] = h[2] * t + h[4] * y[vi]"
)
RANK_1: Final = "A[vi, vj] = A[vi, vj] + a * x[vi] * y[vj]"
SQUARE_1: Final = "A[vi, vj] = A[vi, vj] + a * x[vi] * x[vj]"
RANK_2: Final = "A[vi, vj] = A[vi, vj] + a * x[vi] * y[vj] + a * y[vi] * x[vj]"
EITHER: Final = "T.if_then_else(vj <= vi, A[vi, vj], A[vj, vi])"
SQUARE: Final = product("A[vi, vk]", "P[vk, vj]", "Q", "j // 64 * 64 <= i // 6 * 6 + 5")
AB: Final = product("A[vi, vk]", "P[vk, vj]", "Q")
THIN: Final = on("out", library.stream_rows, 16, 2)
DOTS: Final = on("rows", library.split_k, 1, 16, ROWS)
ADDED: Final = on("columns", library.add_rows, ROWS)

ROUTINES: Final = {
    "copy": Routine(1, "x y", each("y[vi] = x[vi]"), stream),
    "swap": Routine(1, "x y", each("t: T.float32 = x[vi]; x[vi] = y[vi]; y[vi] = t"), stream),
    "scal": Routine(1, "a x", each("x[vi] = a * x[vi]"), stream),
    "axpy": Routine(1, "a x y", each("y[vi] = a * x[vi] + y[vi]"), stream),
    "axpby": Routine(1, "a x b y", each("y[vi] = a * x[vi] + b * y[vi]"), stream),
    "rot": Routine(1, "c s x y", each(ROTATE), stream),
    "rotm": Routine(1, "h x y", each(MODIFIED), stream),
    "dot": Routine(1, "x y r", total("x[vk] * y[vk]"), sums),
    "nrm2": Routine(1, "x r", nrm2, sums),
    "asum": Routine(1, "x r", total("T.abs(x[vk])"), sums),
    "iamax": Routine(1, "x q", iamax, sums),
    "gemv": Routine(2, "A x y", rows("A[vi, vk]", "x", "y"), DOTS),
    "gemv.T": Routine(2, "A x y", columns("A[vk, vj]", "x", "y"), ADDED),
    "ger": Routine(2, "a x y A", each(RANK_1, "i j"), stream),
    "syr": Routine(2, "a x A", each(SQUARE_1, "i j", "j <= i"), THIN),
    "syr2": Routine(2, "a x y A", each(RANK_2, "i j", "j <= i"), THIN),
    "symv": Routine(2, "A x y", symv, on("both", library.unroll_rows, ROWS)),
    "trmv": Routine(2, "L x", in_place(rows("L[vi, vk]", "y", "z", "vk <= vi")), DOTS),
    "trmv.T": Routine(2, "L x", in_place(columns("L[vk, vj]", "y", "z", "vj <= vk")), ADDED),
    "trsv": Routine(2, "L x", trsv, solve),
    "gemm": Routine(3, "A B C", product("A[vi, vk]", "B[vk, vj]"), multiply),
    "gemm.TN": Routine(3, "A B C", product("A[vk, vi]", "B[vk, vj]"), multiply),
    "gemm.NT": Routine(3, "A B C", packed("B[vj, vi]", product("A[vi, vk]", "P[vk, vj]")), packing),
    "symm": Routine(3, "A B C", packed(EITHER, product("P[vi, vk]", "B[vk, vj]")), packing),
    "syrk": Routine(3, "A C", lower(packed("A[vj, vi]", SQUARE), "Q[vi, vj]"), packing_lower),
    "syr2k": Routine(3, "A B C", lower(packed("B[vj, vi]", AB), "Q[vi, vj] + Q[vj, vi]"), packing),
    "trmm": Routine(3, "L B", trmm, multiply_triangle),
    "trsm": Routine(3, "L B", trsm, solve_panels),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="routines, all by default")
    parser.add_argument("--table", action="store_true", required=True, help="print times")
    options = parser.parse_args()
    from benchmarks.blas_timings import print_table  # noqa: PLC0415

    print_table({name: ROUTINES[name] for name in options.names or ROUTINES})


if __name__ == "__main__":
    main()
