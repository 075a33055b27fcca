"""Kernels that compute in blocks of channels, by which images with short rows can be vectorized.

The search keeps the order of the loops of a kernel, so it vectorizes an NCHW kernel along rows. If
the length of a row is not a multiple of a vector, vectors of channels are faster.
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
    """Return the channels of a block: the number of floats in a vector register of the target."""
    return target.vector_lanes(32)


def channel_blocks(shape: Sequence[int], channels: int) -> Layout:
    """Return the layout `(n, c, h, w) -> (n, c // channels, h, w, c % channels)` for a shape.

    The shape has four or more dimensions. None, which is row-major, if dimension 1 does not consist
    of whole blocks, or if the order of elements would not change.
    """
    if len(shape) < 4 or shape[1] % channels or math.prod(shape[2:]) == 1:
        return None
    indices = [Var(f"i{k}", "int32") for k in range(len(shape))]
    outer, channel, *rest = indices
    return IndexMap(indices, [outer, channel // channels, *rest, channel % channels])


def blocked_kernels(mod: IRModule, target: str | Target | None = None) -> IRModule:
    """Return the kernels that graph functions call, with tensors in blocks of channels.

    A block has as many channels as a vector of the target, by default the current one, has floats.
    `tune_module` tunes these kernels, and `tune_layouts` uses their records if it gets the same
    database. Kernels that cannot have another layout, that access no tensor with whole blocks of
    channels, and element-wise kernels, which follow any layout, are left out. Channels are
    dimension 1, as in NCHW; kernels in NHWC would not gain.
    """
    verify_well_formed(mod)
    _, graphs = kernel_graphs(mod)
    channels = channels_of_block(as_target(target))
    calls = {call.name: call for graph in graphs.values() for call in graph.calls.values()}
    blocked = {name: blocked_kernel(call, channels) for name, call in calls.items()}
    return IRModule({name: func for name, func in blocked.items() if func is not None})


def blocked_layouts(call: KernelCall, channels: int) -> tuple[Layout, ...]:
    """Return the layouts of the slots of a call in its blocked kernel."""
    shapes = (fixed_shape(parameter(call.func, position)) for position in call.slots)
    return tuple(channel_blocks(shape or (), channels) for shape in shapes)


def blocked_kernel(call: KernelCall, channels: int) -> PrimFunc | None:
    """Return the kernel of a call with slots in blocks of channels, None if that is impossible.

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
    """Return a blocked kernel with row-major slots and unchanged loops.

    ScheduleError if a slot cannot be changed back.
    """
    back: dict[int, Layout] = {}
    for position, layout in zip(call.slots, blocked_layouts(call, channels), strict=True):
        if layout is not None:
            back[position] = layout.inverse(fixed_shape(parameter(call.func, position)) or ())
    return with_layouts(func, back)


def _in_order_of_writes(func: PrimFunc, channels: int) -> PrimFunc:
    """Return a kernel with its internal buffers in blocks, and loops in the order of writes."""
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
    """Return the map from the axes of a block to its written indices, then the reduction axes.

    Axes of extent 1 come first, because the last spatial axis is the vector axis.
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
