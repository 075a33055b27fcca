"""Grouped convolutions get an axis for the groups, and lanes in one group or several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import codegen
import search as ms
from schedule import Schedule
from search.schedule_rule import SeparateGroups
from search.space_generator import PostOrderApply
from tensorir import te
from tensorir.function import PrimFunc
from tensorir.topi.nn import conv2d

AVX512 = "llvm -mcpu=x86-64-v4 -num-cores=1"


def convolution(
    each: int,
    groups: int,
    *,
    layout: str = "NHWC",
    window: int = 3,
    stride: int = 1,
    size: int = 7,
    outputs: int | None = None,
    tail: bool = True,
) -> PrimFunc:
    """Return a convolution of `each` input channels a group, rectified if there is a `tail`."""
    c, o = each * groups, (outputs or each) * groups
    in_rows = layout == "NCHW"
    x = te.placeholder((1, c, size, size) if in_rows else (1, size, size, c), name="x")
    weights = (o, each, window, window) if in_rows else (window, window, each, o)
    w = te.placeholder(weights, name="w")
    kernel = "OIHW" if in_rows else "HWIO"
    y = conv2d(x, w, stride, window // 2, 1, groups, layout, kernel)
    if tail:
        y = te.compute(y.shape, lambda *i: te.max(y[i], 0.0), name="relu")
    return te.create_prim_func([x, w, y]).with_attr("layout_free_buffers", [1])


def test_groups_get_an_axis() -> None:
    sch = Schedule(convolution(8, 4, window=1))
    (design,) = SeparateGroups().apply(sch, sch.get_block("group_conv2d_nhwc"))
    script = design.mod.script()
    assert "x[0, v3, v4, v5 * 8 + v7]" in script
    assert "w[0, 0, v7, v5 * 8 + v6]" in script
    assert "relu[0, v1, v2, v3 * 8 + v4] = T.max(group_conv2d_nhwc[0, v1, v2, v3, v4]" in script


def test_a_single_group_stays_as_it_is() -> None:
    sch = Schedule(convolution(8, 1, window=1))
    (design,) = SeparateGroups().apply(sch, sch.get_block("conv2d_nhwc"))
    assert "transform_block_layout" not in str(design.trace)


@pytest.mark.parametrize(
    ("each", "groups", "lanes"),
    [(8, 4, "8, 2"), (4, 8, "4, 4"), (24, 4, "8, 2"), (16, 4, None), (8, 3, None), (5, 4, None)],
)
def test_groups_share_a_vector_where_they_fill_it(
    each: int, groups: int, lanes: str | None
) -> None:
    """Vectors have 16 lanes."""
    context = ms.TuneContext(
        convolution(each, groups),
        target=AVX512,
        space_generator=PostOrderApply(postprocs=[]),
        rand_state=1,
    )
    scripts = [design.mod.script() for design in context.generate_design_space()]
    shared = [text for text in scripts if "meta_schedule.operands_packed" in text]
    assert bool(shared) == (lanes is not None)
    assert len(scripts) > len(shared), "lanes in one group are tried, too"
    for text in shared:
        assert f"{lanes}))" in text, "elements of several groups lie side by side"


@pytest.mark.parametrize(
    "case",
    [
        {"each": 4, "groups": 4, "stride": 2, "layout": "NCHW", "size": 3},
        {"each": 5, "groups": 3, "outputs": 7, "window": 1, "size": 3},
        {"each": 1, "groups": 16, "outputs": 2, "window": 1, "size": 3},
    ],
    ids=str,
)
def test_results_are_those_of_the_program(case: Any) -> None:
    """On this machine, with its vectors."""
    func = convolution(**case)
    target = "llvm -num-cores=1"
    rng = np.random.default_rng(0)
    shapes = [[int(n) for n in func.buffer_map[param].shape] for param in func.params]
    x, w, expected = (rng.standard_normal(shape).astype("float32") for shape in shapes)
    codegen.build(func, target)["main"](x, w, expected)
    sch = ms.default_schedule(func, target)
    result = np.full_like(expected, np.nan)
    codegen.build(sch.mod, target)["main"](x, w, result)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_elements_of_two_groups_are_loaded_at_once() -> None:
    """A vector holds two groups of half its lanes, and no lane is gathered."""
    target = "llvm -mcpu=znver3 -num-cores=1"
    func = convolution(4, 2, size=3)
    context = ms.TuneContext(func, target=target, space_generator="post-order-apply", rand_state=1)
    shared = [d for d in context.generate_design_space() if "operands_packed" in d.mod.script()]
    text = codegen.build(ms.default_schedule(func, target).mod, target).inspect_llvm()
    assert shared
    assert "masked.gather" not in text
