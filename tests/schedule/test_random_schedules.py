"""Whatever primitives a program accepts, it stays well-formed, replays and computes the same.

`python -m benchmarks.fuzz schedules` runs more of these. Sequences that once failed are kept here.
"""

from __future__ import annotations

import pytest

from benchmarks.fuzz.campaign import Failure
from benchmarks.fuzz.programs import PROGRAMS, program_names
from benchmarks.fuzz.schedules import LINES, Session, run_lines, run_random
from schedule import InstructionKind, Schedule
from tensorir import parse


@pytest.mark.parametrize("name", program_names())
def test_random_calls(name):
    run_random(name, seed=1, length=10)


ONCE_FAILED = """\
a copy, step by step, of what a reduction reads under a condition: continued
sch.read_at(loop('D', 1), block('D'), 1, 'global')
sch.split(loop('A_global', 1), [1, None], preserve_unit_iters=True)
sch.split(loop('A_global', 2), [8, None, 5], preserve_unit_iters=True)
sch.reindex_cache_read(block('D'), 1, 'local', lambda i, j: (j, i))

a piece in which a reduction has no step: few_steps
sch.loop_partition(loop('B', 0), [1, None])

the init of a piece whose reduction loop is around the pieces: GMM-0
sch.reorder(loop('Z', 0), loop('Z', 3), loop('Z', 1), loop('Z', 2))
sch.loop_partition(loop('Z', 2), [1, None])
sch.decompose_reduction(block('Z_i0'), loop('Z_i0', 1))

padding of a block that calls for an effect: calls
sch.pad_einsum(block('B'), [5])

a producer whose result the pieces of a partitioned loop read as well: chain
sch.loop_partition(loop('D', 0), [2, None])
sch.reverse_compute_inline(block('C'))

the pieces of a partitioned loop below a loop of what they read: bare
sch.loop_partition(loop('D', 0), [4, None])
sch.reverse_compute_at(block('D_i_common'), loop('B', 1), False, -2)

a block below a loop of the table that it looks up: GMM-2
sch.pad_einsum(block('Z'), [4, 5, 1, 1])
sch.cache_index(block('X_pad'), 'global', 1)
sch.reverse_compute_at(block('X_pad'), loop('index_0', 0), True, -1)

a cache that only a producer was to read: padded
sch.cache_read(block('C'), 0, 'local', [block('P')])

writes that are declared wider than they are: C1D-0
sch.cache_index(block('conv1d_nlc'), 'global', 1)
sch.loop_partition(loop('index_1', 1), [2, None])
sch.cache_write(block('index_1_ax10'), 0, 'local')

a cache for a block that updates in place: in_place
sch.cache_write(block('scale'), 0, 'global')

a move that is taken back: stencil
sch.reverse_compute_at(block('C'), loop('B', 0), True, 1)

a cache written below a loop of a block with blocks in its init: DEP-0
sch.blockize(loop('depth_conv2d_nhwc', 4), preserve_unit_iters=False)
sch.write_at(loop('depth_conv2d_nhwc_o', 0), block('depth_conv2d_nhwc_o'), 0, 'global')

another type for what a block with blocks in its init writes: NRM-1
sch.blockize(loop('C', 0), preserve_unit_iters=False)
sch.unsafe_set_dtype(block('C_o'), 0, 'float16')

a block around a block with blocks in its init: window
sch.blockize(loop('C', 2), preserve_unit_iters=False)
sch.blockize(loop('C_o', 1), preserve_unit_iters=True)

a reduction factored under a predicate on a data-parallel loop: C3D-1
sch.split(loop('conv3d_ndhwc', 0), [None, 4], preserve_unit_iters=True)
sch.rfactor(loop('conv3d_ndhwc', 7), 2)

a reduction factored over more steps than there are: argmax
sch.split(loop('argmax', 1), [8, 4], preserve_unit_iters=False)
sch.rfactor(loop('argmax', 1), 0)

copies of a loop that is bound to a thread: argmax
sch.add_unit_loop(block('argmax'))
sch.bind(loop('argmax', 2), 'threadIdx.x')
sch.rfactor(loop('argmax', 1), 0)

a block made inside an opaque block: C1D-1
sch.loop_partition(loop('conv1d_nlc', 1), [2, None])
sch.blockize(loop('conv1d_nlc_l0', 3), preserve_unit_iters=False)

a block around blocks inside an opaque block: TBG-0
sch.loop_partition(loop('query_T', 1), [1, None])
sch.blockize([block('query_T_h1')])

a cache inside two opaque blocks: GMM-0
sch.loop_partition(loop('Z', 1), [1, None])
sch.loop_partition(loop('Z_i1', 1), [3, None])
sch.cache_write(block('Z_i1_j1'), 0, 'global')

a consumer whose axes are remainders: C2D-1
sch.transform_layout(block('conv2d_nhwc'), ('read', 0), lambda n, h, w, c: (n, h, w, c // 4, c % 4), pad_value=0.0)
sch.reverse_compute_at(block('conv2d_nhwc'), loop('PadInput', 3), True, -1)

write_at inside an opaque block: GMM-3
sch.reorder(loop('Z', 0), loop('Z', 2), loop('Z', 1))
sch.loop_partition(loop('Z', 2), [1, None])
sch.write_at(loop('Z_i0', 0), block('Z_i0'), 0, 'local')

a copy back where the writer does not run: DEP-0
sch.transform_block_layout(block('PadInput'), lambda n, h, w, c: (n * 2, h, w, c))
sch.split(loop('PadInput', 0), [3, 2, None], preserve_unit_iters=True)
sch.write_at(loop('PadInput', 3), block('PadInput'), 0, 'global')

a consumer that also runs where its producer does not: T2D-0
sch.blockize([block('PadInput')])
sch.cache_read(block('PadInput'), 0, 'global')
sch.reverse_compute_inline(block('PadInput'))

loops of a reduction that pass one of both kinds: argmax
sch.fuse(loop('argmax', 0), loop('argmax', 1))
sch.split(loop('argmax', 0), [3, 4, 5])
sch.reorder(loop('argmax', 0), loop('argmax', 2), loop('argmax', 1))

an axis of one step that indexes nothing becomes longer: GMM-3
sch.transform_block_layout(block('Z'), lambda *a: (*a[1:], *a[:1]))
sch.pad_einsum(block('Z'), [4, 1, 1, 5])

a block with a buffer of its own reads what is inlined: NRM-1
sch.blockize([block('D')])
sch.cache_read(block('outer_D_'), 0, 'local')
sch.cache_write(block('D'), 0, 'global')
sch.compute_inline(block('C_local'))

a consumer that reads elements several times: C1D-1
sch.reindex_cache_read(block('conv1d_nlc'), 0, 'local', lambda *a: a[::-1])
sch.reverse_compute_inline(block('PadInput_local'))

a consumer of the first of several elements: DEP-0
sch.cache_read(block('PadInput'), 0, 'global')
sch.pad_einsum(block('placeholder_global'), [4, 2, 1, 2])
sch.reverse_compute_inline(block('placeholder_global_pad'))

a cache in another storage scope than the views of a tensorized block: dot_product
tensorized(block('C'))
sch.cache_write(block('C_o'), 0, 'local')

a producer whose instances overlap, the last of them: DEP-1
sch.read_at(loop('depth_conv2d_nhwc', 1), block('depth_conv2d_nhwc'), 0, 'local')
sch.cache_write(block('PadInput_local'), 0, 'global')
sch.compute_at(block('PadInput_local'), loop('PadInput_local_global', 4))

a reduction under a loop that repeats its steps: C1D-0
sch.rfactor(loop('conv1d_nlc', 3), -1)
sch.reverse_compute_at(block('conv1d_nlc'), loop('conv1d_nlc_rf', 4), False, -1)

a block without axes that uses a loop around it: GMM-3
sch.decompose_reduction(block('Z'), loop('Z', 0))
sch.loop_partition(loop('Z_update', 1), [2, None])
sch.reverse_compute_at(block('Z_update_i_common'), loop('Z_init', 2), False, -1)

a piece of a fused loop that starts amid a row: dot_product
sch.fuse(loop('C', 0), loop('C', 1), preserve_unit_iters=True)
sch.loop_partition(loop('C', 0), [4, None])
sch.cache_write(block('C_i_j_fused1'), 0, 'global')

an extent that is written as a difference: DEP-1
at(block('PadInput'))
sch.cache_read(block('PadInput'), 0, 'global')
sch.split(loop('PadInput', 2), [1, None], preserve_unit_iters=False)
sch.cache_write(block('placeholder_global'), 0, 'global')
sch.split(loop('depth_conv2d_nhwc', 4), [None, 4, 3], preserve_unit_iters=True)

an allocation in an iteration that is updated at one place: C3D-1
sch.reverse_compute_at(block('conv3d_ndhwc'), loop('PadInput', 4), True, -2)
sch.split(loop('conv3d_ndhwc', 8), [3, None, 1], preserve_unit_iters=True)

a unit loop around the root block: chain
sch.add_unit_loop(block('root'))

a location for the root block: chain
at(block('root'))

a consumer below a binding, before its producer: bindings
sch.reverse_compute_at(block('D'), loop('B', 0), True, 0)

a producer below a binding, after its consumer: bindings
sch.compute_at(block('B'), loop('D', 1), False, -1)

the attribute of a buffer that is inlined: nested
at(block('B'))

padding of what is stored beside blocks: bare
sch.transform_layout(block('D'), ('read', 1), lambda *a: (*a[:-1], *(x // 4 for x in a[-1:]), *(x % 4 for x in a[-1:])), pad_value=0.0)

the index of a buffer that is not there: chain
sch.reindex(block('C'), ('write', 1))

an init that changes what it reads, moved out of a fused loop: continued
sch.fuse(loop('D', 0), loop('D', 1), preserve_unit_iters=True)
sch.blockize(loop('D', 0), preserve_unit_iters=False)

a loop that only guards, fused with a loop of a reduction: GMM-1
sch.split(loop('Z', 2), [8, None], preserve_unit_iters=False)
sch.split(loop('Z', 3), [None, 8, 2], preserve_unit_iters=False)
sch.fuse(loop('Z', 5), loop('Z', 6), preserve_unit_iters=True)
"""
"""Titles, names of programs, and the calls that went wrong."""


@pytest.mark.parametrize("entry", ONCE_FAILED.split("\n\n"), ids=lambda e: e.partition(": ")[0])
def test_what_once_failed(entry):
    """Checks are on with seed 1; seed 0 draws other decisions."""
    head, *lines = entry.splitlines()
    name = head.rpartition(": ")[2]
    draws = ("sample", "at(block", "mutate", "changed(", "scramble", "partitioned(")
    for seed in (0, 1) if any(word in line for line in lines for word in draws) else (1,):
        run_lines(name, seed, lines)


def test_every_primitive_occurs():
    called = {line.removeprefix("sch.").partition("(")[0] for _, line in LINES}
    elsewhere = {
        "enter_composite",
        "enter_postproc",
        "exit_composite",
        "get_block",
        "get_child_blocks",
        "get_consumers",
        "get_loops",
        "get_output_blocks",
        "get_producers",
        "sample_categorical",
        "sample_compute_location",
        "sample_knob_annotate",
        "sample_knob_option",
        "sample_knob_reorder",
        "sample_knob_split",
        "sample_partitioned_tile",
        "sample_perfect_tile",
    }
    known = {
        kind.method
        for kind in InstructionKind.all()
        if kind.function.__module__.startswith("schedule.primitives.")
    }
    assert known - called == elsewhere


def test_a_wrong_result_is_noticed():
    session = Session("chain", 0)
    doubled = PROGRAMS["chain"].replace("T.float32(2)", "T.float32(4)")
    session.sch = Schedule(parse(doubled))
    with pytest.raises(Failure, match="differ"):
        session.check([])
