"""Kernels that compute in blocks of channels: the form in which short rows can be vectorized.

The search keeps the order of a kernel's loops, so the vectors of a kernel in the order NCHW lie
along rows. Where these are no multiple of a vector long, vectors of channels are faster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from codegen import Target
from codegen.target import as_target
from schedule import Schedule, ScheduleError
from search.models.graph_tuner.elementwise import is_elementwise
from search.models.graph_tuner.kernel_graph import KernelCall, kernel_graphs
from search.models.graph_tuner.layouts import Layout, fixed_shape, parameter, with_layouts
from tensorir.function import IRModule, PrimFunc
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.constants import is_const_int
from tensorir.nodes.expr import IterVar, Var
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import collect_vars
from tensorir.verify import verify_well_formed


def channels_of_block(target: Target) -> int:
    """Return the channels of a block: as many as a vector register of the target holds floats."""
    return target.vector_lanes(32)


def channel_blocks(shape: Sequence[int], channels: int) -> Layout:
    """Return the layout `(n, c, h, w) -> (n, c // channels, h, w, c % channels)` for a shape.

    There may be any number of dimensions from four on. None, row-major, unless dimension 1 consists
    of whole blocks, and where the order of elements would be the same.
    """
    if len(shape) < 4 or shape[1] % channels or math.prod(shape[2:]) == 1:
        return None
    indices = [Var(f"i{k}", "int32") for k in range(len(shape))]
    outer, channel, *rest = indices
    return IndexMap(indices, [outer, channel // channels, *rest, channel % channels])


def blocked_kernels(mod: IRModule, target: str | Target | None = None) -> IRModule:
    """Return the kernels that graph functions call, taking and giving blocks of channels.

    A block has the channels that a vector of the target holds, of the current one by default.

    `tune_module` finds schedules for them, which `tune_layouts` considers where it is given the
    same database. Kernels stay out that cannot take another layout, that neither read nor write a
    tensor with whole blocks of channels, and that only map elements: these follow any layout.

    Channels are dimension 1, as in NCHW; in the order NHWC there is nothing to gain.
    """
    verify_well_formed(mod)
    _, graphs = kernel_graphs(mod)
    channels = channels_of_block(as_target(target))
    calls = {call.name: call for graph in graphs.values() for call in graph.calls.values()}
    blocked = {name: blocked_kernel(call, channels) for name, call in calls.items()}
    return IRModule({name: func for name, func in blocked.items() if func is not None})


def blocked_layouts(call: KernelCall, channels: int) -> tuple[Layout, ...]:
    """Return the layouts that the slots of a call have in its blocked kernel."""
    shapes = (fixed_shape(parameter(call.func, position)) for position in call.slots)
    return tuple(channel_blocks(shape or (), channels) for shape in shapes)


def blocked_kernel(call: KernelCall, channels: int) -> PrimFunc | None:
    """Return the kernel of a call with slots in blocks of channels, None if it has no such form.

    With 16 channels:

    Before: for n, o, y, x, c, r, s: Y[n, o, y, x] += X[n, c, y + r, x + s] * W[o, c, r, s]
    After:  for n, o0, y, x, o1, c, r, s:
                Y[n, o0, y, x, o1] += X[n, c // 16, y + r, x + s, c % 16] * W[o0 * 16 + o1, c, r, s]
    """
    layouts = dict(zip(call.slots, blocked_layouts(call, channels), strict=True))
    if is_elementwise(call.func) or not any(layouts.values()):
        return None
    try:
        return _in_order_of_writes(with_layouts(call.func, layouts), channels)
    except ScheduleError:
        return None


def read_as_rows(func: PrimFunc, call: KernelCall, channels: int) -> PrimFunc:
    """Return a blocked kernel with its slots row-major again; its loops stay.

    ScheduleError where a slot cannot be brought back.
    """
    back: dict[int, Layout] = {}
    for position, layout in zip(call.slots, blocked_layouts(call, channels), strict=True):
        if layout is not None:
            back[position] = layout.inverse(fixed_shape(parameter(call.func, position)) or ())
    return with_layouts(func, back)


def _in_order_of_writes(func: PrimFunc, channels: int) -> PrimFunc:
    """Return a kernel with buffers of its own in blocks, too, and loops in the order of writes."""
    parameters = set(func.buffer_map.values())
    sch = Schedule(IRModule({"main": func}))
    nodes = [sref.block for sref in sch.state.blocks("main")]
    for name in [node.name_hint for node in nodes if node.iter_vars and node.writes]:
        block = sch.get_block(name, "main")
        written = sch.get(block).writes[0].buffer
        layout = (
            None if written in parameters else channel_blocks(fixed_shape(written) or (), channels)
        )
        if layout is not None:
            sch.transform_layout(block, ("write", 0), layout)
        sch.transform_block_layout(block, _order_of_writes(sch.get(block)))
    return sch.mod.prim_func("main")


def _order_of_writes(block: Block) -> IndexMap:
    """Return the map from a block's axes to the indices it writes at, those of reductions behind.

    Axes of one place come first: the last axis but reductions is that of the vectors.
    """
    indices = [place.min for place in block.writes[0].region]
    moving = [index for index in indices if collect_vars(index)]
    used = {var for index in moving for var in collect_vars(index)}
    others = [axis for axis in block.iter_vars if axis.var not in used]
    single = [axis.var for axis in others if _has_one_place(axis)]
    longer = [axis.var for axis in others if not _has_one_place(axis)]
    return IndexMap([axis.var for axis in block.iter_vars], [*single, *moving, *longer])


def _has_one_place(axis: IterVar) -> bool:
    return axis.dom is not None and is_const_int(axis.dom.extent, 1)
