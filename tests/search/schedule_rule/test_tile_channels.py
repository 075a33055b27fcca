"""Convolutions over rows are tiled with channels in the lanes of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import codegen
import search as ms
from search.runner.measure_candidate import without_layout_rewrite
from search.schedule_rule import ScheduleRule
from search.space_generator import PostOrderApply
from tensorir import te
from tensorir.function import IRModule, PrimFunc

TARGET = "llvm -mcpu=x86-64-v4 -num-cores=1"


def convolution(
    size: int = 8, stride: int = 1, window: int = 3, *, out: int = 32, tail: bool = True
) -> PrimFunc:
    """Return a convolution of 8 channels, with a bias and an activation if there is a `tail`."""
    x = te.placeholder((1, 8, size, size), name="x")
    w = te.placeholder((out, 8, window, window), name="w")
    b = te.placeholder((out,), name="b")
    extents = (("c", 8), ("r", window), ("s", window))
    c, r, s = (te.reduce_axis((0, extent), name=name) for name, extent in extents)
    side = (size - window) // stride + 1
    y = te.compute(
        (1, out, side, side),
        lambda n, o, i, j: te.sum(
            x[n, c, i * stride + r, j * stride + s] * w[o, c, r, s], axis=[c, r, s]
        ),
        name="conv",
    )
    if not tail:
        return te.create_prim_func([x, w, y])
    z = te.compute(
        (1, out, side, side), lambda n, o, i, j: te.max(y[n, o, i, j] + b[o], 0.0), name="relu"
    )
    return te.create_prim_func([x, w, b, z])


def spaces(func: PrimFunc) -> list[bool]:
    """Return of each design space whether channels are in the lanes."""
    context = ms.TuneContext(
        func, target=TARGET, space_generator=PostOrderApply(postprocs=[]), rand_state=1
    )
    made = context.generate_design_space()
    return [
        any(inst.kind.name == "TransformBlockLayout" for inst in sch.trace.insts) for sch in made
    ]


def weights_are_constant(func: PrimFunc) -> PrimFunc:
    return func.with_attr("layout_free_buffers", [1])


@pytest.mark.parametrize(
    ("size", "stride", "designs"),
    [
        (8, 1, [True, True]),  # rows of 6 elements, one level of tiles or two around the copy
        (18, 1, [False, False, False, True, True]),  # rows of 16, a whole vector
        (33, 2, [True, True]),  # rows of 16, with gaps between what is read
    ],
)
def test_rows_that_are_no_vectors_leave_only_channels(
    size: int, stride: int, designs: list[bool]
) -> None:
    found = spaces(weights_are_constant(convolution(size, stride)))
    assert found.count(True) == designs.count(True)
    assert (False in found) == (False in designs)


def test_it_needs_constant_weights_and_whole_vectors_of_channels() -> None:
    assert not any(spaces(convolution()))
    assert not any(spaces(weights_are_constant(convolution(out=24))))


@pytest.mark.parametrize(
    ("size", "stride", "window", "tail"), [(6, 1, 3, True), (7, 2, 3, False), (6, 2, 1, True)]
)
def test_results_are_those_of_the_program(size: int, stride: int, window: int, tail: bool) -> None:
    """On this machine, whose vectors may be shorter."""
    func = weights_are_constant(convolution(size, stride, window, out=16, tail=tail))
    sch = ms.default_schedule(func, "llvm -num-cores=1")
    scheduled = without_layout_rewrite(sch.mod)["main"]
    weights = scheduled.buffer_map[scheduled.params[1]]
    rng = np.random.default_rng(0)
    shapes = [[int(extent) for extent in func.buffer_map[param].shape] for param in func.params]
    arrays: list[Any] = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    expected = arrays[-1].copy()
    codegen.build(func, "llvm -num-cores=1")["main"](*arrays[:-1], expected)
    whole = np.zeros_like(expected)
    codegen.build(sch.mod, "llvm -num-cores=1")["main"](*arrays[:-1], whole)
    np.testing.assert_allclose(whole, expected, rtol=1e-4, atol=1e-4)
    lanes = codegen.Target("llvm").vector_lanes(32)
    assert int(weights.shape[-1]) == lanes, "channels lie side by side"


def test_no_loop_but_those_of_the_tile_is_written_out() -> None:
    sch = ms.default_schedule(weights_are_constant(convolution(out=16)), TARGET)
    assert "pragma_auto_unroll_max_step" not in sch.mod.script()
    assert isinstance(sch.mod, IRModule)


def test_the_rule_has_a_short_name_in_the_preset() -> None:
    assert any(type(rule).__name__ == "TileChannels" for rule in ScheduleRule.create("llvm"))
