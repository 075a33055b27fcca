"""Programs whose shapes are known only when they run are scheduled like others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import Schedule
from tensorir import PrimFunc, parse
from tensorir.arith import Analyzer
from tensorir.interp import interpret
from tensorir.nodes.expr import IntImm
from tensorir.nodes.ops import const
from tensorir.rewriting.visit import collect_vars, substitute
from tests.schedule.transformation import refused, scheduled

SIZES = ((1, 1), (5, 7), (16, 16), (33, 20), (3, 40))
"""Values of `n` and `m` for which results are compared."""


def arguments(func: PrimFunc, n: int, m: int, seed: int = 0) -> list[object]:
    """Return random arrays, and the sizes that are parameters themselves."""
    rng = np.random.default_rng(seed)
    values = {"n": n, "m": m}
    result: list[object] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            result.append(values[param.name])
        else:
            shape = [_size(extent, values) for extent in buffer.shape]
            result.append(rng.uniform(1, 2, shape).astype(buffer.dtype.to_numpy()))
    return result


def _size(extent, values: dict[str, int]) -> int:
    known = substitute(extent, {v: const(values[v.name], v.dtype) for v in collect_vars(extent)})
    simple = Analyzer().simplify(known)
    assert isinstance(simple, IntImm)
    return simple.value


def computes_the_same(sch: Schedule, before: PrimFunc) -> None:
    """Run a schedule and the program that it began with for several sizes."""
    for n, m in SIZES:
        expected, actual = arguments(before, n, m), arguments(before, n, m)
        interpret(before, *expected)
        interpret(sch.mod, *actual)
        for got, wanted in zip(actual, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5)


def apply(before: str, call: Callable[[Schedule], object], after: str | None = None) -> Schedule:
    """Apply `call`, check the program and its trace, and what it computes for several sizes."""
    sch = scheduled(before, call, after)
    computes_the_same(sch, parse(before))
    return sch


def nest(sch: Schedule, name: str):
    """Return a block and the loops around it."""
    block = sch.get_block(name)
    return block, *sch.get_loops(block)


ROW_SUM = """\
@T.prim_func
def main(a: T.handle, c: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m))
    C = T.match_buffer(c, (n,))
    for i, k in T.grid(n, m):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""

STAGES = """\
@T.prim_func
def main(a: T.handle, c: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m))
    C = T.match_buffer(c, (n, m))
    B = T.alloc_buffer((n, m))
    for i, j in T.grid(n, m):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(n, m):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""

TILES = """\
@T.prim_func
def main(a: T.handle, c: T.handle, n: T.int32):
    A = T.match_buffer(a, (n * 16, 8))
    C = T.match_buffer(c, (n * 16,))
    for i, k in T.grid(n * 16, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""

CUBE = """\
@T.prim_func
def main(a: T.handle, b: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, 4, m))
    B = T.match_buffer(b, (n, 4, m))
    for i, j, k in T.grid(n, 4, m):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)
"""

# ----------------------------------------------------------------------------- loops of one block


def test_parallel():
    after = ROW_SUM.replace(
        "    for i, k in T.grid(n, m):\n",
        "    for i in T.parallel(n):\n      for k in range(m):\n",
    )

    def call(sch):
        _, i, _ = nest(sch, "C")
        sch.parallel(i)

    apply(ROW_SUM, call, after)


def test_a_reduction_is_not_parallel():
    refused(ROW_SUM, lambda sch: sch.parallel(nest(sch, "C")[2]), "WrongBlockIterTypeError")


def test_reorder():
    def call(sch):
        _, i, k = nest(sch, "C")
        sch.reorder(k, i)

    apply(ROW_SUM, call, ROW_SUM.replace("i, k in T.grid(n, m)", "k, i in T.grid(m, n)"))


def test_decompose_reduction():
    after = """\
@T.prim_func
def main(a: T.handle, c: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m))
    C = T.match_buffer(c, (n,))
    for i in range(n):
        with T.block("C_init"):
            vi = T.axis.spatial(n, i)
            C[vi] = T.float32(0)
        for k in range(m):
            with T.block("C_update"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + A[vi, vk]
"""

    def call(sch):
        block, _, k = nest(sch, "C")
        sch.decompose_reduction(block, k)

    apply(ROW_SUM, call, after)


def test_tiles_with_a_predicate():
    after = """\
@T.prim_func
def main(a: T.handle, c: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m))
    C = T.match_buffer(c, (n,))
    for i_0 in T.parallel((n + 15) // 16):
        for i_1_init in range(16):
            with T.block("C_init"):
                vi = T.axis.spatial(n, i_0 * 16 + i_1_init)
                T.where(i_0 * 16 + i_1_init < n)
                C[vi] = T.float32(0)
        for k, i_1 in T.grid(m, 16):
            with T.block("C_update"):
                vi = T.axis.spatial(n, i_0 * 16 + i_1)
                vk = T.axis.reduce(m, k)
                T.where(i_0 * 16 + i_1 < n)
                C[vi] = C[vi] + A[vi, vk]
"""

    def call(sch):
        block, i, k = nest(sch, "C")
        i_0, i_1 = sch.split(i, [None, 16])
        sch.reorder(i_0, k, i_1)
        sch.parallel(i_0)
        sch.decompose_reduction(block, k)

    apply(ROW_SUM, call, after)


def test_tiles_without_a_predicate():
    after = """\
@T.prim_func
def main(a: T.handle, c: T.handle, n: T.int32):
    A = T.match_buffer(a, (n * 16, 8))
    C = T.match_buffer(c, (n * 16,))
    for i_0_init, i_1_init in T.grid(n, 16):
        with T.block("C_init"):
            vi = T.axis.spatial(n * 16, i_0_init * 16 + i_1_init)
            C[vi] = T.float32(0)
    for k_1, i_0, i_1, k_0 in T.grid(4, n, 16, 2):
        with T.block("C_update"):
            vi = T.axis.spatial(n * 16, i_0 * 16 + i_1)
            vk = T.axis.reduce(8, k_0 * 4 + k_1)
            C[vi] = C[vi] + A[vi, vk]
"""

    def call(sch):
        block, i, k = nest(sch, "C")
        i_0, i_1 = sch.split(i, [None, 16])
        k_0, k_1 = sch.split(k, [2, 4])
        sch.reorder(k_1, i_0, i_1, k_0)
        sch.decompose_reduction(block, k_1)

    apply(TILES, call, after)


@pytest.mark.parametrize(
    ("first", "last", "loops", "bindings"),
    [
        (0, 2, "for f in range(n * 4):\n    for k in range(m):", ("f // 4", "f % 4", "k")),
        (1, 3, "for i in range(n):\n    for f in range(m * 4):", ("i", "f // m", "f % m")),
        (0, 3, "for f in range(n * m * 4):", ("f // (m * 4)", "f % (m * 4) // m", "f % m")),
    ],
)
def test_fuse(first, last, loops, bindings):
    head, _ = CUBE.split("    for i, j, k in T.grid(n, 4, m):\n")
    lines = loops.split("\n")
    vi, vj, vk = bindings
    pad = "    " * (len(lines) + 1)
    after = (
        head
        + "".join(f"    {line}\n" for line in lines)
        + f'{pad}with T.block("B"):\n'
        + f"{pad}    vi = T.axis.spatial(n, {vi})\n"
        + f"{pad}    vj = T.axis.spatial(4, {vj})\n"
        + f"{pad}    vk = T.axis.spatial(m, {vk})\n"
        + f"{pad}    B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)\n"
    )

    def call(sch):
        sch.parallel(sch.fuse(*nest(sch, "B")[1:][first:last]))

    apply(CUBE, call, after.replace("for f in range", "for f in T.parallel"))


def test_a_fused_loop_is_split():
    after = """\
@T.prim_func
def main(a: T.handle, c: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m))
    C = T.match_buffer(c, (n, m))
    B = T.alloc_buffer((n, m))
    for f_0 in T.parallel((n * m + 7) // 8):
        for f_1 in T.vectorized(8):
            with T.block("B"):
                vi = T.axis.spatial(n, (f_0 * 8 + f_1) // m)
                vj = T.axis.spatial(m, (f_0 * 8 + f_1) % m)
                T.where(f_0 * 8 + f_1 < n * m)
                B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(n, m):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""

    def call(sch):
        _, i, j = nest(sch, "B")
        f_0, f_1 = sch.split(sch.fuse(i, j), [None, 8])
        sch.vectorize(f_1)
        sch.parallel(f_0)

    apply(STAGES, call, after)


def test_fusing_a_large_loop_keeps_the_quotient_and_the_remainder_whole():
    """`T.Cast("int32", f) % 12` would cut the loop variable off before it is divided."""
    before = """\
@T.prim_func
def main(A: T.Buffer((T.int64(1073741824), 12)), B: T.Buffer((T.int64(1073741824), 12))):
    for i in range(T.int64(1073741824)):
        for j in range(12):
            with T.block("B"):
                vi = T.axis.spatial(T.int64(1073741824), i)
                vj = T.axis.spatial(12, j)
                B[vi, vj] = A[vi, vj]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((T.int64(1073741824), 12)), B: T.Buffer((T.int64(1073741824), 12))):
    for f in range(T.int64(12884901888)):
        with T.block("B"):
            vi = T.axis.spatial(T.int64(1073741824), f // T.int64(12))
            vj = T.axis.spatial(12, T.Cast("int32", f % T.int64(12)))
            B[vi, vj] = A[vi, vj]
"""
    scheduled(before, lambda sch: sch.fuse(*nest(sch, "B")[1:]), after)


def test_blockize_a_tile():
    after = """\
@T.prim_func
def main(a: T.handle, c: T.handle, n: T.int32):
    A = T.match_buffer(a, (n * 16, 8))
    C = T.match_buffer(c, (n * 16,))
    for i_0 in range(n):
        with T.block("C_o"):
            vi_o = T.axis.spatial(n, i_0)
            vk_o = T.axis.reduce(1, 0)
            T.reads(A[vi_o * 16:vi_o * 16 + 16, 0:8])
            T.writes(C[vi_o * 16:vi_o * 16 + 16])
            with T.init():
                for i_1 in range(16):
                    with T.block("C_init"):
                        vi_i_init = T.axis.spatial(16, i_1)
                        C[vi_o * 16 + vi_i_init] = T.float32(0)
            for i_1, k in T.grid(16, 8):
                with T.block("C"):
                    vi_i, vk_i = T.axis.remap("SR", [i_1, k])
                    T.reads(C[vi_o * 16 + vi_i], A[vi_o * 16 + vi_i, vk_i])
                    T.writes(C[vi_o * 16 + vi_i])
                    C[vi_o * 16 + vi_i] = C[vi_o * 16 + vi_i] + A[vi_o * 16 + vi_i, vk_i]
"""

    def call(sch):
        _, i, _ = nest(sch, "C")
        _, i_1 = sch.split(i, [None, 16])
        sch.blockize(i_1)

    apply(TILES, call, after)


def test_blockize_a_symbolic_loop():
    after = """\
@T.prim_func
def main(a: T.handle, c: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m))
    C = T.match_buffer(c, (n,))
    for i in range(n):
        with T.block("C_o"):
            vi_o = T.axis.spatial(n, i)
            vk_o = T.axis.reduce(1, 0)
            T.reads(A[vi_o, 0:m])
            T.writes(C[vi_o])
            with T.init():
                with T.block("C_init"):
                    C[vi_o] = T.float32(0)
            for k in range(m):
                with T.block("C"):
                    vk_i = T.axis.reduce(m, k)
                    T.reads(C[vi_o], A[vi_o, vk_i])
                    T.writes(C[vi_o])
                    C[vi_o] = C[vi_o] + A[vi_o, vk_i]
"""
    apply(ROW_SUM, lambda sch: sch.blockize(nest(sch, "C")[2]), after)


def test_tiles_that_a_predicate_cuts_are_not_blockized():
    def call(sch):
        _, i, _ = nest(sch, "C")
        _, i_1 = sch.split(i, [None, 16])
        sch.blockize(i_1)

    refused(ROW_SUM, call, "SubspaceNotDivisibleError", "relates outer and inner loops")


def test_rfactor():
    after = """\
@T.prim_func
def main(a: T.handle, c: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m))
    C = T.match_buffer(c, (n,))
    C_rf = T.alloc_buffer((16, n))
    for i, k_0, k_1 in T.grid(n, (m + 15) // 16, 16):
        with T.block("C_rf"):
            vk_1, vi, vk_0 = T.axis.remap("SSR", [k_1, i, k_0])
            T.where(k_0 * 16 + k_1 < m)
            with T.init():
                C_rf[vk_1, vi] = T.float32(0)
            C_rf[vk_1, vi] = C_rf[vk_1, vi] + A[vi, vk_0 * 16 + vk_1]
    for i, k_1 in T.grid(n, 16):
        with T.block("C"):
            vk_1, vi = T.axis.remap("RS", [k_1, i])
            T.where(k_1 < m)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + C_rf[vk_1, vi]
"""

    def call(sch):
        _, _, k = nest(sch, "C")
        _, k_1 = sch.split(k, [None, 16])
        sch.rfactor(k_1, 0)

    apply(ROW_SUM, call, after)


def test_rfactor_a_symbolic_loop():
    after = """\
@T.prim_func
def main(a: T.handle, c: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m))
    C = T.match_buffer(c, (n,))
    C_rf = T.alloc_buffer((n, (m + 15) // 16))
    for i, k_0, k_1 in T.grid(n, (m + 15) // 16, 16):
        with T.block("C_rf"):
            vk_0, vi, vk_1 = T.axis.remap("SSR", [k_0, i, k_1])
            T.where(k_0 * 16 + k_1 < m)
            with T.init():
                C_rf[vi, vk_0] = T.float32(0)
            C_rf[vi, vk_0] = C_rf[vi, vk_0] + A[vi, vk_0 * 16 + vk_1]
    for i, k_0 in T.grid(n, (m + 15) // 16):
        with T.block("C"):
            vk_0, vi = T.axis.remap("RS", [k_0, i])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + C_rf[vi, vk_0]
"""

    def call(sch):
        _, _, k = nest(sch, "C")
        k_0, _ = sch.split(k, [None, 16])
        sch.rfactor(k_0, 1)

    apply(ROW_SUM, call, after)


# ------------------------------------------------------------------------------- several blocks


def test_compute_at():
    after = """\
@T.prim_func
def main(a: T.handle, c: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m))
    C = T.match_buffer(c, (n, m))
    B = T.alloc_buffer((n, m))
    for i_0 in range((n + 15) // 16):
        for ax0, ax1 in T.grid(16, m):
            with T.block("B"):
                vi = T.axis.spatial(n, i_0 * 16 + ax0)
                vj = T.axis.spatial(m, ax1)
                T.where(i_0 * 16 + ax0 < n)
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i_1, j in T.grid(16, m):
            with T.block("C"):
                vi = T.axis.spatial(n, i_0 * 16 + i_1)
                vj = T.axis.spatial(m, j)
                T.where(i_0 * 16 + i_1 < n)
                C[vi, vj] = B[vi, vj] + T.float32(1)
"""

    def call(sch):
        block = sch.get_block("B")
        _, i, _ = nest(sch, "C")
        i_0, _ = sch.split(i, [None, 16])
        sch.compute_at(block, i_0)

    apply(STAGES, call, after)


def test_compute_at_a_fused_loop():
    after = """\
@T.prim_func
def main(a: T.handle, c: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m))
    C = T.match_buffer(c, (n, m))
    B = T.alloc_buffer((n, m))
    for f in range(n * m):
        with T.block("B"):
            vi = T.axis.spatial(n, f // m)
            vj = T.axis.spatial(m, f % m)
            B[vi, vj] = A[vi, vj] * T.float32(2)
        with T.block("C"):
            vi = T.axis.spatial(n, f // m)
            vj = T.axis.spatial(m, f % m)
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""

    def call(sch):
        block = sch.get_block("B")
        sch.compute_at(block, sch.fuse(*nest(sch, "C")[1:]))

    apply(STAGES, call, after)


def test_reverse_compute_at():
    after = """\
@T.prim_func
def main(a: T.handle, c: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m))
    C = T.match_buffer(c, (n, m))
    B = T.alloc_buffer((n, m))
    for i, j_0 in T.grid(n, (m + 15) // 16):
        for j_1 in range(16):
            with T.block("B"):
                vi = T.axis.spatial(n, i)
                vj = T.axis.spatial(m, j_0 * 16 + j_1)
                T.where(j_0 * 16 + j_1 < m)
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for ax0 in range(16):
            with T.block("C"):
                vi = T.axis.spatial(n, i)
                vj = T.axis.spatial(m, j_0 * 16 + ax0)
                T.where(j_0 * 16 + ax0 < m)
                C[vi, vj] = B[vi, vj] + T.float32(1)
"""

    def call(sch):
        block = sch.get_block("C")
        _, _, j = nest(sch, "B")
        j_0, _ = sch.split(j, [None, 16])
        sch.reverse_compute_at(block, j_0)

    apply(STAGES, call, after)


def test_copies_in_tiles():
    after = """\
@T.prim_func
def main(a: T.handle, c: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m))
    C = T.match_buffer(c, (n,))
    C_local = T.alloc_buffer((n,), scope="local")
    A_local = T.alloc_buffer((n, m), scope="local")
    for i_0 in T.parallel((n + 15) // 16):
        for ax0, ax1 in T.grid(16, m):
            with T.block("A_local"):
                v0 = T.axis.spatial(n, i_0 * 16 + ax0)
                v1 = T.axis.spatial(m, ax1)
                T.where(i_0 * 16 + ax0 < n)
                A_local[v0, v1] = A[v0, v1]
        for i_1, k in T.grid(16, m):
            with T.block("C"):
                vi = T.axis.spatial(n, i_0 * 16 + i_1)
                vk = T.axis.reduce(m, k)
                T.where(i_0 * 16 + i_1 < n)
                with T.init():
                    C_local[vi] = T.float32(0)
                C_local[vi] = C_local[vi] + A_local[vi, vk]
        for ax0 in range(16):
            with T.block("C_local"):
                v0 = T.axis.spatial(n, i_0 * 16 + ax0)
                T.where(i_0 * 16 + ax0 < n)
                C[v0] = C_local[v0]
"""

    def call(sch):
        block, i, _ = nest(sch, "C")
        i_0, _ = sch.split(i, [None, 16])
        written = sch.cache_write(block, 0, "local")
        sch.reverse_compute_at(written, i_0)
        read = sch.cache_read(block, 0, "local")
        sch.compute_at(read, i_0)
        sch.parallel(i_0)

    apply(ROW_SUM, call, after)


def test_inlining():
    after = """\
@T.prim_func
def main(a: T.handle, c: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m))
    C = T.match_buffer(c, (n, m))
    for i, j in T.grid(n, m):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * T.float32(2) + T.float32(1)
"""
    apply(STAGES, lambda sch: sch.compute_inline(sch.get_block("B")), after)
    backwards = after.replace('"C"', '"B"')
    apply(STAGES, lambda sch: sch.reverse_compute_inline(sch.get_block("C")), backwards)


# ------------------------------------------------------------------------------------ any schedule

_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("split"), st.integers(0, 5), st.sampled_from([2, 4, 16])),
        st.tuples(st.just("fuse"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("swap"), st.integers(0, 5), st.just(0)),
    ),
    max_size=4,
)


@settings(max_examples=25)
@given(_STEPS)
def test_tiled_and_fused_loops_keep_an_affine_binding(steps):
    """Whatever the loops become, the outermost one can be parallel."""
    sch = Schedule(parse(CUBE))
    for step, place, factor in steps:
        loops = sch.get_loops(sch.get_block("B"))
        k = place % len(loops)
        if step == "split":
            sch.split(loops[k], [None, factor])
        elif step == "fuse":
            sch.fuse(*loops[k : k + 2])
        elif k + 1 < len(loops):
            sch.reorder(loops[k + 1], loops[k])
    sch.parallel(sch.get_loops(sch.get_block("B"))[0])
    computes_the_same(sch, parse(CUBE))
