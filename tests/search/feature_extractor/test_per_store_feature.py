"""Features: published values for a matmul, and how they follow the program."""

import numpy as np
import pytest

from schedule import Schedule
from search.feature_extractor import PerStoreFeature
from tensorir import parse
from tensorir.function import IRModule, PrimFunc
from tests.matmul import matmul

MATMUL = matmul(512, 512, 512)


def schedule(text: str) -> Schedule:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return Schedule(IRModule({"main": func}))


def published() -> Schedule:
    sch = schedule(MATMUL)
    i, j, k = sch.get_loops(sch.get_block("C"))
    i_o, i_i = sch.split(i, [None, 16])
    j_o, j_i = sch.split(j, [None, 8])
    sch.reorder(i_o, j_o, k, j_i, i_i)
    sch.parallel(i_o)
    sch.parallel(j_o)
    sch.vectorize(j_i)
    sch.unroll(k)
    return sch


def test_published_values() -> None:
    features = PerStoreFeature().extract(published().mod)
    assert features.shape == (1, 164)
    (row,) = features
    close = pytest.approx
    arithmetic = [0, 27, 27, 0, 0, 0, 0, 0, 29, 29, 0, 0, 0, 0, 0, 0]
    assert row[:16] == close(arithmetic, abs=1e-3)
    mixed = [0, 0, 0, 0, 0, 0, 0, 1]
    assert row[16:27] == close([1, 3.1699, 3.1699, *mixed], abs=1e-3)
    assert row[27:38] == close([1, 9.0028, 9.0028, *mixed], abs=1e-3)
    assert row[38:49] == close([1.585, 11.0007, 6.0224, *mixed], abs=1e-3)
    assert row[49:57] == close([0, 1, 1, 1, 1, 1, 1, 1], abs=1e-3)
    a, c, b = row[57:75], row[75:93], row[93:111]
    assert a == close(
        [1, 0, 0, 29, 20, 27, 14, 1, 0, 0, 4.0875, 7.0553, 3.1699, 26, 17, 24, 11.0007, 9.0028],
        abs=1e-3,
    )
    assert c[:3] == close([0, 0, 1])
    assert b == close(
        [1, 0, 0, 29, 20, 19, 14, 1, 0, 0, 1.0, 3.7004, 4.0875, 25, 16, 15, 10.0014, 0], abs=1e-3
    )
    assert not row[111:147].any(), "two of five buffers are missing"
    assert (row[147], row[156]) == close((3.8126, 6.4318), abs=1e-3)
    assert row[157:161] == close([20, 18, 1, 27], abs=1e-3)
    assert row[161:164] == close([27, 2.585, 0], abs=1e-3)


def test_a_store_of_a_constant_gives_no_row() -> None:
    fill = """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = T.float32(0)
"""
    assert PerStoreFeature().extract(schedule(fill).mod).shape == (0, 164)


def test_an_allocation_counts_with_what_is_live_of_it() -> None:
    sch = schedule(MATMUL)
    block = sch.get_block("C")
    i, j, _ = sch.get_loops(block)
    i_o, i_i = sch.split(i, [None, 16])
    sch.reorder(i_o, j, i_i)
    cache = sch.cache_write(block, 0, "global")
    sch.reverse_compute_at(cache, j)
    rows = PerStoreFeature().extract(sch.mod)
    assert rows.shape == (2, 164)
    bytes_of_cache, elements, outer, inner = 2 ** rows[0, 157:161] - 1
    assert bytes_of_cache == pytest.approx(16 * 4), "one column of 16"
    assert (elements, outer) == pytest.approx((512 * 512, 32 * 512))
    assert inner == pytest.approx(16 * 512)


def test_unit_loops_do_not_count_and_fused_ones_are_understood() -> None:
    plain = schedule(MATMUL)
    split = schedule(MATMUL)
    i, *_ = split.get_loops(split.get_block("C"))
    split.split(i, [512, 1])
    extractor = PerStoreFeature()
    np.testing.assert_allclose(extractor.extract(plain.mod), extractor.extract(split.mod))

    fused = schedule(MATMUL)
    i, j, _ = fused.get_loops(fused.get_block("C"))
    fused.fuse(i, j)
    row, plain_row = extractor.extract(fused.mod)[0], extractor.extract(plain.mod)[0]
    assert row[162] == pytest.approx(np.log2(3)), "two loops"
    for place in (58, 60, 61):
        assert row[place] == pytest.approx(plain_row[place], abs=1e-9)


def test_the_flags_of_the_workload_follow_every_row() -> None:
    extractor = PerStoreFeature(extract_workload=True)
    assert extractor.feature_vector_length == 172


def test_threads_of_a_gpu() -> None:
    """Columns 49 to 56: bound at all, then log2(1 + extent) of each axis."""
    func = parse(
        """
@T.prim_func
def main(A: T.Buffer((4, 2, 8)), B: T.Buffer((4, 2, 8))):
    for i in T.thread_binding(4, thread="blockIdx.y"):
        for v in T.thread_binding(2, thread="vthread.x"):
            for j in T.thread_binding(8, thread="threadIdx.x"):
                with T.block("B"):
                    vi, vv, vj = T.axis.remap("SSS", [i, v, j])
                    B[vi, vv, vj] = A[vi, vv, vj] * T.float32(2)
"""
    )
    assert isinstance(func, PrimFunc)
    (row,) = PerStoreFeature().extract(IRModule({"main": func}))
    none, four, eight, two = (np.log2(1 + extent) for extent in (1, 4, 8, 2))
    np.testing.assert_allclose(row[49:57], [1, none, four, none, eight, none, none, two])
