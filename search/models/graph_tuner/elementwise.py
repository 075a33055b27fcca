"""Element-wise kernels, which can follow any layout, and kernels that only change a layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from codegen import Target
from codegen.history import can_be_scheduled
from schedule import Schedule
from search.history.history import under_its_name
from search.history.sample_on_miss import default_schedule
from search.models.graph_tuner.layouts import Layout, with_layouts
from tensorir import te
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.expr import IterVar
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import walk

_COPY: Final = "transformed"
"""The name of the block that changes a layout."""


def is_elementwise(func: PrimFunc) -> bool:
    """Return True if all blocks of a kernel are data-parallel."""
    return all(
        axis.iter_type == IterVar.DATA_PAR for block in _blocks(func) for axis in block.iter_vars
    )


def follow_layout(func: PrimFunc, layouts: Mapping[int, Layout], target: Target) -> PrimFunc | None:
    """Return a kernel with parameters in `layouts`, its loops in the memory order of its result.

    It gets the default schedule for these loops. None if the result is row-major, and for a kernel
    that is scheduled already, or is more than one element-wise block that writes at its axes.
    ScheduleError if a parameter cannot have its layout.
    """
    written = layouts.get(len(func.params) - 1)
    if written is None or not can_be_scheduled(func) or not is_elementwise(func):
        return None
    inner = [block for block in _blocks(func) if block.iter_vars]
    if len(inner) != 1 or not _writes_at_its_axes(inner[0]):
        return None
    return _scheduled_in_order(with_layouts(func, layouts), inner[0].name_hint, written, target)


def transform_kernels(
    shape: Sequence[int], dtype: str, source: Layout, destination: Layout, target: Target
) -> list[PrimFunc]:
    """Return kernels `f(in, out)` that copy a tensor from one layout to another.

    One has its loops in the order in which the source lies in memory, the other one in that of the
    destination, each with its default schedule. Which of them is faster depends on the sizes.
    """
    tensor = te.placeholder(tuple(shape), dtype, "tensor")
    copy = te.compute(tuple(shape), lambda *indices: tensor[indices], _COPY)
    func = te.create_prim_func([tensor, copy]).with_attr("tir.noalias", True)
    func = with_layouts(func.without_attr("global_symbol"), {0: source, 1: destination})
    orders = dict.fromkeys((source, destination))
    return [_scheduled_in_order(func, _COPY, order, target) for order in orders]


def _scheduled_in_order(func: PrimFunc, block: str, order: Layout, target: Target) -> PrimFunc:
    """Return the default schedule of a kernel after its loops were put in the order of a layout."""
    sch = Schedule(IRModule({"main": func}))
    if order is not None:
        sch.transform_block_layout(sch.get_block(block, "main"), order)
    return under_its_name(func, default_schedule(sch.mod, target).mod.prim_func("main"))


def _blocks(func: PrimFunc) -> list[Block]:
    return [node for node in walk(func.body) if isinstance(node, Block)]


def _writes_at_its_axes(block: Block) -> bool:
    if len(block.writes) != 1 or len(block.writes[0].region) != len(block.iter_vars):
        return False
    pairs = zip(block.writes[0].region, block.iter_vars, strict=True)
    return all(place.min is axis.var for place, axis in pairs)
