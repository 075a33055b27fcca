"""Solutions of the puzzles of notebook 07, and attempts that fail. Solve the puzzles first."""

from __future__ import annotations

from collections.abc import Callable

from schedule import Schedule
from schedule.library import fuse_elementwise, microkernel, stage_operands, tile_for_cache

Solve = Callable[[Schedule], object]


def copy(sch: Schedule) -> None:
    (i,) = sch.get_loops("B")
    _, lane = sch.split(i, [None, 8])
    sch.vectorize(lane)


def copy_in_short_vectors(sch: Schedule) -> None:
    (i,) = sch.get_loops("B")
    sch.vectorize(sch.split(i, [None, 4])[1])


def rows(sch: Schedule) -> None:
    j, i = sch.get_loops("B")
    _, lane = sch.split(j, [None, 8])
    sch.reorder(i, lane)
    sch.vectorize(lane)


def columns(sch: Schedule) -> None:
    _, i = sch.get_loops("B")
    _, lane = sch.split(i, [None, 8])
    sch.vectorize(lane)


def in_half_precision(sch: Schedule) -> None:
    sch.unsafe_set_dtype(sch.get_block("scaled"), 0, "float16")
    fuse_elementwise(sch)


def one_at_a_time(sch: Schedule) -> None:
    sch.compute_at(sch.get_block("scaled"), sch.get_loops("shifted")[-1])
    sch.compute_at(sch.get_block("shifted"), sch.get_loops("relu")[-1])


def partial_sums(sch: Schedule) -> None:
    _, k = sch.get_loops("S")
    _, lanes = sch.split(k, [None, 32])
    partial = sch.rfactor(lanes, factor_axis=1)
    *_, steps, lanes = sch.get_loops(partial)
    vectors, lane = sch.split(lanes, [4, 8])
    sch.unroll(vectors)
    sch.vectorize(lane)
    sch.decompose_reduction(partial, steps)


def partial_sums_in_memory(sch: Schedule) -> None:
    _, k = sch.get_loops("S")
    sch.rfactor(sch.split(k, [None, 32])[1], factor_axis=1)


def sums(sch: Schedule) -> None:
    microkernel(sch, sch.get_block("C"), rows=4, columns=16, lanes=8)


def a_row_of_sums(sch: Schedule) -> None:
    microkernel(sch, sch.get_block("C"), rows=1, columns=32, lanes=8)


def a_column_of_sums(sch: Schedule) -> None:
    microkernel(sch, sch.get_block("C"), rows=8, columns=8, lanes=8)


def tile(sch: Schedule) -> None:
    tile_for_cache(sch, sch.get_block("C"), [8, 8, 8])


def tile_of_whole_rows(sch: Schedule) -> None:
    tile_for_cache(sch, sch.get_block("C"), [8, 8, None])


def strips(sch: Schedule) -> None:
    y, _ = sch.get_loops("V")
    strip, _ = sch.split(y, [None, 4])
    sch.compute_at(sch.get_block("H"), strip)


def every_row(sch: Schedule) -> None:
    sch.compute_at(sch.get_block("H"), sch.get_loops("V")[0])


def rolling(sch: Schedule) -> None:
    every_row(sch)
    sch.rolling_buffer(sch.get_block("H"), 0)


def panels(sch: Schedule) -> None:
    stage_operands(sch, sch.get_block("C"), panel=16, lanes=8)
    sums(sch)


def panels_of_the_argument(sch: Schedule) -> None:
    sch.transform_layout(sch.get_block("C"), ("read", 1), lambda k, j: (j // 16, k, j % 16))
    sums(sch)


def dot_product(sch: Schedule, layout: bool = True) -> None:
    block = sch.get_block("C")
    copied = sch.cache_read(block, 1, "global")
    if layout:
        sch.transform_layout(copied, ("write", 0), lambda j, k: (j // 16, k // 4, j % 16, k % 4))
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 16])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i, j0, k0, j1, k1)
    sch.tensorize(j1, "dot_16x4_vnni")


def transposition(sch: Schedule, pad: bool = True) -> None:
    block = sch.get_block("B")
    tiles = threads_in_tiles(sch)
    copied = sch.cache_read(block, 0, "shared")
    sch.compute_at(copied, tiles)
    y, x = sch.get_loops(copied)[-2:]
    y0, _ = sch.split(y, [4, None])
    sch.bind(y0, "threadIdx.y")
    sch.bind(x, "threadIdx.x")
    if pad:
        sch.storage_align(copied, 0, axis=-2, factor=32, offset=1)


def threads_in_tiles(sch: Schedule):
    i, j = sch.get_loops("B")
    i0, i1, i2 = sch.split(i, [None, 4, 8])
    j0, j1 = sch.split(j, [None, 32])
    sch.reorder(i0, j0, i1, i2, j1)
    for loop, axis in [
        (i0, "blockIdx.y"),
        (j0, "blockIdx.x"),
        (i1, "threadIdx.y"),
        (j1, "threadIdx.x"),
    ]:
        sch.bind(loop, axis)
    return j0


def attention(sch: Schedule, keys: int = 4) -> None:
    i, c, j = sch.get_loops("attend")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, keys])
    sch.reorder(i0, j0, i1, c, j1)
    sch.compute_at(sch.get_block("S"), j0)


def attention_on_cores(sch: Schedule) -> None:
    attention(sch)
    sch.parallel(sch.get_loops("attend")[0])


# By puzzle.
SOLUTIONS: list[Solve] = [
    copy, rows, fuse_elementwise, partial_sums, sums, tile, strips, rolling, panels, dot_product,
    transposition, attention,
]  # fmt: skip

# The puzzle, what was tried, what is missing.
ATTEMPTS: list[tuple[int, Solve, str]] = [
    (
        1,
        copy_in_short_vectors,
        "the load of A takes 4 elements at a time; 8 neighbours are wanted",
    ),
    (
        2,
        columns,
        "the load of A takes 8 elements that are 64 apart (a gather) at a time; 8 "
        "neighbours are wanted",
    ),
    (
        3,
        one_at_a_time,
        "the program allocates elements for scaled (2048) and shifted (1); at most 0 are wanted",
    ),
    (
        3,
        in_half_precision,
        "1675 of the 2048 elements of relu differ from before",
    ),
    (
        4,
        partial_sums_in_memory,
        "loop k_1 sums into S, one number in registers; 4 vectors of 8 in registers are wanted",
    ),
    (
        5,
        a_row_of_sums,
        "loop k sums into C, 4 vectors of 8 in registers; 8 vectors of 8 in registers are wanted",
    ),
    (
        5,
        a_column_of_sums,
        "loop k has 9 loads for 8 multiply-adds, 1.1 each; at most 0.75 are wanted",
    ),
    (
        6,
        tile_of_whole_rows,
        "of the loops that run block C 512 times and more, loop i_1 touches the fewest "
        "bytes, 2304; at most 768 are wanted",
    ),
    (
        7,
        every_row,
        "block H runs 768 times; at most 384 are wanted",
    ),
    (
        7,
        lambda sch: sch.compute_inline("H"),
        "block H is gone; its values are computed again wherever they are read",
    ),
    (
        8,
        every_row,
        "block H runs 768 times; at most 288 are wanted",
    ),
    (
        9,
        sums,
        "the load of B takes 16 elements in each iteration of loop k and moves by 64; a "
        "stream moves by what it takes",
    ),
    (
        9,
        panels_of_the_argument,
        "the argument B has become 4 x 16 x 16, but callers have 16 x 64; change a copy "
        "of it (cache_read)",
    ),
    (
        10,
        lambda sch: dot_product(sch, layout=False),
        "the implementation needs B_global in another layout",
    ),
    (
        11,
        threads_in_tiles,
        "the load of A uses 12% of the bytes that a warp moves; neighbouring threads "
        "are to access neighbouring elements",
    ),
    (
        11,
        lambda sch: transposition(sch, pad=False),
        "32 threads of a warp want one bank of shared memory for the load of A_shared; "
        "each is to have another bank",
    ),
    (
        12,
        lambda sch: attention(sch, keys=16),
        "the program allocates elements for S (64); at most 16 are wanted",
    ),
    (
        12,
        attention_on_cores,
        "the schedule has 5 primitives (Split, Split, Reorder, ComputeAt, Parallel); 4 are enough",
    ),
]
