"""Layouts of tensors, kernels in them, and kernels that bring tensors into them."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from codegen import Target
from schedule import ScheduleError
from search.models.graph_tuner.candidates import (
    Candidate,
    follow_layout,
    is_elementwise,
    transform_kernels,
)
from search.models.graph_tuner.kernel_graph import (
    KnownLayouts,
    Layout,
    describe_layout,
    physical_shape,
    wanted_layout,
    with_layouts,
)
from search.models.graph_tuner.layout_choice import fastest_of_each
from tensorir import IRModule, PrimFunc, parse
from tensorir.errors import IRValueError
from tensorir.indices.index_map import IndexMap
from tests.search.models.graph_tuner.graphs import KERNELS, TARGET

MOD = parse(f"@I.ir_module\nclass Module:{KERNELS}")
assert isinstance(MOD, IRModule)


def layout(text: str) -> IndexMap:
    """Return the layout that a Python lambda gives."""
    return IndexMap.from_func(eval(text), index_dtype="int32")


BLOCKS = layout("lambda i, j: (i // 8, j // 8, i % 8, j % 8)")
TURNED = layout("lambda i, j: (j, i)")


def test_the_fastest_candidate_of_each_layout_is_kept() -> None:
    relu = MOD.prim_func("relu")
    plain, blocks = (None, None), (BLOCKS, BLOCKS)
    found = [Candidate(relu, layouts) for layouts in (plain, plain, plain, blocks, blocks)]
    kept = fastest_of_each(found, [3.0, 1.0, 2.0, 5.0, 4.0])
    assert [(found.index(one.candidate), one.seconds) for one in kept] == [
        (0, 3.0),
        (1, 1.0),
        (4, 4.0),
    ]
    kept = fastest_of_each(found, [np.inf, 2.0, 1.0, 4.0, 5.0])
    assert [(found.index(one.candidate), one.seconds) for one in kept] == [(2, 1.0), (3, 4.0)]


def test_one_order_of_elements_has_one_name() -> None:
    known = KnownLayouts()
    assert known.known(BLOCKS, (16, 16)) is BLOCKS
    again = layout("lambda a, b: (a // 8, b // 8, a % 8 // 4, a % 4, b % 8)")
    assert known.known(again, (16, 16)) is BLOCKS
    assert known.known(BLOCKS, (32, 32)) is BLOCKS
    assert known.known(again, (32, 16)) is again


def test_pieces_in_the_old_order_are_row_major() -> None:
    pieces = layout("lambda i, j: (i // 4, i % 4, j // 8, j % 8)")
    assert KnownLayouts().known(pieces, (16, 16)) is None


def test_a_layout_with_empty_places_is_none() -> None:
    with pytest.raises(IRValueError, match="has places that hold no element"):
        KnownLayouts().known(layout("lambda i, j: (j // 8, i, j % 8)"), (16, 12))


def test_layouts_are_described() -> None:
    assert describe_layout(None) == "row-major"
    assert describe_layout(TURNED) == "(i, j) -> (j, i)"
    assert physical_shape(BLOCKS, (16, 32)) == (2, 4, 8, 8)
    assert physical_shape(None, (16, 32)) == (16, 32)


def test_a_product_in_tiles_wants_tiles() -> None:
    assert describe_layout(wanted_layout(MOD["dense"], 0)) == (
        "(i0, i1) -> (i0 // 8, i1 // 8, i0 % 8, i1 % 8)"
    )


def test_an_image_is_blocked_where_windows_move_over_it() -> None:
    """No loops visit its rows and columns one by one, but its channels they do."""
    conv = parse("""
@T.prim_func
def conv(X: T.Buffer((32, 10, 10), "float32"), W: T.Buffer((4, 32, 3, 3), "float32"), Y: T.Buffer((4, 8, 8), "float32")):
    for o, c0, y, x, r, s, c1 in T.grid(4, 4, 8, 8, 3, 3, 8):
        with T.block("Y"):
            vo, vy, vx = T.axis.remap("SSS", [o, y, x])
            vc = T.axis.reduce(32, c0 * 8 + c1)
            vr, vs = T.axis.remap("RR", [r, s])
            with T.init():
                Y[vo, vy, vx] = T.float32(0)
            Y[vo, vy, vx] = Y[vo, vy, vx] + X[vc, vy + vr, vx + vs] * W[vo, vc, vr, vs]
""")
    assert isinstance(conv, PrimFunc)
    assert describe_layout(wanted_layout(conv, 0)) == "(i0, i1, i2) -> (i0 // 8, i1, i2, i0 % 8)"


def test_a_kernel_in_its_own_layouts_is_itself() -> None:
    assert with_layouts(MOD["relu"], {0: None, 1: None}) is MOD["relu"]


def test_what_two_blocks_access_changes_in_both() -> None:
    changed = with_layouts(MOD["halves"], {1: TURNED})
    assert "P[vj, vi] = S[vi, vj] * T.float32(0.5)" in changed.script()
    assert "Q[vi, vj] = S[vi, vj] - P[vj, vi]" in changed.script()


def test_a_layout_of_another_rank_is_refused() -> None:
    with pytest.raises(ScheduleError, match="takes 1 indices"):
        with_layouts(MOD["relu"], {0: layout("lambda i: (i // 8, i % 8)")})


def test_kernels_that_map_elements_are_told_from_sums() -> None:
    assert is_elementwise(MOD["relu"])
    assert not is_elementwise(MOD["dense"])


@pytest.mark.parametrize("name", ["dense", "halves"])
def test_other_kernels_do_not(name: str) -> None:
    func = MOD.prim_func(name)
    assert follow_layout(func, {len(func.params) - 1: BLOCKS}, Target(TARGET)) is None


def test_a_scheduled_kernel_keeps_its_loops() -> None:
    scheduled = MOD.prim_func("relu").with_attr("tir.is_scheduled", True)
    assert follow_layout(scheduled, {1: BLOCKS}, Target(TARGET)) is None


@pytest.mark.parametrize(
    ("shape", "source", "destination"),
    [
        ((16, 24), None, BLOCKS),
        ((16, 24), BLOCKS, None),
        ((12, 20), None, TURNED),
        ((12, 20), TURNED, layout("lambda i, j: (i // 4, j, i % 4)")),
        ((1, 7), None, TURNED),
        ((2, 8, 5, 3), layout("lambda n, c, h, w: (n, h, w, c)"), layout("lambda n, c, h, w: (n, c // 4, h, w, c % 4)")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_tensors_are_brought_from_layout_to_layout(
    shape: tuple[int, ...], source: Layout, destination: Layout, dtype: str
) -> None:
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    given = values if source is None else source.map_ndarray(values)
    wanted = values if destination is None else destination.map_ndarray(values)
    for kernel in transform_kernels(shape, dtype, source, destination, Target(TARGET)):
        result = np.zeros_like(wanted)
        codegen.build(kernel.with_attr("global_symbol", "main"), Target(TARGET))(given, result)
        np.testing.assert_array_equal(result, wanted)
