"""Tiles that end in whole vectors: how the loop over the last written dimension is split."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from schedule import Schedule
from search.errors import TuningError
from search.schedule_rule import MultiLevelTilingWideVector, ReuseType
from tensorir import assert_structural_equal
from tensorir.interp import interpret, random_arguments
from tensorir.nodes.expr import IntImm
from tests.search.int8_programs import program

MATMUL = """
@T.prim_func
def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((6, 32), "float32"), C: T.Buffer((8, 32), "float32")):
    for i, j, k in T.grid(8, 32, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def tiling(bits: int, structure: str = "SRSRS", **options: Any) -> MultiLevelTilingWideVector:
    return MultiLevelTilingWideVector(structure, bits, max_innermost_factor=64, **options)


def designs(rule: MultiLevelTilingWideVector, text: str, seed: int = 1) -> list[Schedule]:
    """Apply a rule to block C, and check that every design computes the same."""
    func = program(text)
    sch = Schedule(func, seed=seed, debug_mask="all")
    made = rule.apply(sch, sch.get_block("C"))
    expected = random_arguments(func, 0)
    interpret(func, *expected)
    for design in made:
        actual = random_arguments(func, 0)
        interpret(design.mod, *actual)
        for got, wanted in zip(actual, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=2e-5)
    return made


def extents(sch: Schedule, of: str) -> list[int]:
    """Return the extents of the loops that one loop was split into."""
    found = []
    for handle in sch.get_loops(sch.get_block("C")):
        loop = sch.get(handle)
        if loop.loop_var.name.startswith(of):
            assert isinstance(loop.extent, IntImm)
            found.append(loop.extent.value)
    return found


# With one reduction loop between two spatial ones, and i of extent 1, there is nothing to sample.
ONE_ROW = MATMUL.replace("T.grid(8, 32, 6)", "T.grid(1, 32, 6)")
ONE_ROW_TILED = """
@T.prim_func
def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((6, 32), "float32"), C: T.Buffer((8, 32), "float32")):
    for i_0, j_0, k, i_1, j_1 in T.grid(1, 4, 6, 1, 8):
        with T.block("C"):
            vi = T.axis.spatial(1, i_0 + i_1)
            vj = T.axis.spatial(32, j_0 * 8 + j_1)
            vk = T.axis.reduce(6, k)
            T.reads(A[vi, vk], B[vk, vj])
            T.writes(C[vi, vj])
            T.block_attr({"meta_schedule.tiling_structure": "SRS"})
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def test_the_innermost_tile_is_a_register() -> None:
    """256 bits are 8 elements of float32."""
    (sch,) = designs(tiling(256, "SRS"), ONE_ROW)
    assert_structural_equal(sch.mod["main"], program(ONE_ROW_TILED))


@pytest.mark.parametrize("seed", range(1, 6))
def test_the_rest_of_the_loop_is_sampled(seed: int) -> None:
    (sch,) = designs(tiling(256), MATMUL, seed)
    *outer, lanes = extents(sch, "j")
    assert lanes == 8
    assert np.prod(outer) == 4
    assert len(extents(sch, "j")) == len(extents(sch, "i")) == 3
    assert np.prod(extents(sch, "i")) == 8, "other loops are split by sampled factors"


@pytest.mark.parametrize(("bits", "lanes"), [(1024, 32), (4096, 32)])
def test_a_loop_that_fits_into_a_register_stays_whole(bits: int, lanes: int) -> None:
    (sch,) = designs(tiling(bits), MATMUL)
    assert extents(sch, "j") == [1, 1, lanes]
    sampled = [inst for inst in sch.trace.insts if inst.kind.name == "SamplePerfectTile"]
    assert len(sampled) == 2, "i and k"


def test_the_length_counts_elements_of_what_is_written() -> None:
    doubles = MATMUL.replace("float32", "float64")
    (sch,) = designs(tiling(256), doubles)
    assert extents(sch, "j")[-1] == 4


def test_the_last_vector_may_be_short() -> None:
    (sch,) = designs(tiling(256), MATMUL.replace("T.grid(8, 32, 6)", "T.grid(8, 30, 6)"))
    *outer, lanes = extents(sch, "j")
    assert (np.prod(outer), lanes) == (4, 8)
    assert str(sch.get_sref(sch.get_block("C")).block_realize.predicate) != "True"


def test_the_last_written_index_decides_and_not_the_last_axis() -> None:
    swapped = MATMUL.replace("i, j, k in T.grid(8, 32, 6)", "j, i, k in T.grid(32, 8, 6)").replace(
        'vi, vj, vk = T.axis.remap("SSR", [i, j, k])', 'vj, vi, vk = T.axis.remap("SSR", [j, i, k])'
    )
    (sch,) = designs(tiling(256), swapped)
    assert extents(sch, "j")[-1] == 8


def test_a_letter_that_stands_alone_does_not_split() -> None:
    (sch,) = designs(tiling(256, "SR"), MATMUL)
    assert extents(sch, "j") == [32]


def test_caches_are_those_of_multi_level_tiling() -> None:
    rule = tiling(256, reuse_write=ReuseType("may", (1,), "global"))
    plain, cached = designs(rule, MATMUL)
    kinds = [[inst.kind.name for inst in sch.trace.insts] for sch in (plain, cached)]
    assert ["CacheWrite" in found for found in kinds] == [False, True]


def test_the_length_of_a_register_is_positive() -> None:
    with pytest.raises(TuningError, match="vector_length_in_bits"):
        tiling(0)
