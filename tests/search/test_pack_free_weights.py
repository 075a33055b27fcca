"""Weights that may have any layout are packed when a model is built, not in each call."""

from __future__ import annotations

import pytest

import search as ms
from search.space_generator.annotations import PACKED
from tests.search.anchored_programs import TARGET
from tests.search.compatible_programs import product


@pytest.mark.parametrize(("free", "is_packed"), [([], True), ([1], False)])
def test_only_operands_of_a_fixed_layout_are_copied(free: list[int], is_packed: bool) -> None:
    func = product(256, 256, 256)["main"].with_attr("layout_free_buffers", free)
    context = ms.TuneContext(func, target=TARGET, space_generator="post-order-apply", rand_state=1)
    packed = [
        sch
        for sch in context.generate_design_space()
        if any(PACKED in sref.block.annotations for sref in sch.state.blocks("main"))
    ]
    assert bool(packed) == is_packed
