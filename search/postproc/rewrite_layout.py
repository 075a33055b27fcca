"""The postprocessor that lays out weights in the order in which a schedule reads them."""

from __future__ import annotations

from schedule import BlockRV, Schedule, ScheduleError
from schedule.sref import StmtSRef
from search.postproc.postproc import Postproc, functions_with_blocks
from search.space_generator.suggested_layout import last_read, read_index, suggested_layout
from tensorir.comparison.equal import expr_deep_equal
from tensorir.indices.index_map import IndexMap
from tensorir.memory.layout_rewrite import LAYOUT_REWRITE_PREPROC, layout_free_positions
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import Var
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import Block, BlockRealize
from tensorir.rewriting.visit import pre_order_visit, used_buffers

_PLACEHOLDERS = "layout_free_placeholders"
"""An annotation of blocks: the buffers that may have any layout."""


class RewriteLayout(Postproc):
    """Copies each buffer with a free layout to one in the order of the loops that read it.

    Such buffers are weights, which have the same values in every call. The copying block gets the
    annotation `meta_schedule.layout_rewrite_preproc`: it runs once when a model is built
    (`transform.SplitLayoutRewritePreproc`) and is not measured. If the schedule copies a weight to
    caches, the caches get the new layout, too.

    Without `at_build` the copy is a normal part of the program: it is made in parallel in each
    call, and measured.

    A buffer keeps its layout if no better layout is found, if a rule has already laid it out, or if
    it is accessed outside of blocks. The schedule is rejected if a primitive fails.
    """

    def __init__(self, *, at_build: bool = True) -> None:
        self.at_build = at_build

    def apply(self, sch: Schedule) -> bool:
        """Rewrite the layouts; False if a primitive fails."""
        try:
            for name in functions_with_blocks(sch):
                for buffer in layout_free_buffers(sch, name):
                    rewrite_layout(sch, name, buffer, at_build=self.at_build)
        except ScheduleError:
            return False
        return True


def layout_free_buffers(sch: Schedule, name: str) -> list[Buffer]:
    """Return the buffers of a function that may have any layout."""
    func = sch.state.func(name)
    buffers = [func.buffer_map[func.params[k]] for k in layout_free_positions(func)]
    for sref in sch.state.blocks(name):
        buffers.extend(sref.block.annotations.get(_PLACEHOLDERS, ()))
    return list(dict.fromkeys(buffers))


def rewrite_layout(
    sch: Schedule,
    name: str,
    buffer: Buffer,
    index_map: IndexMap | None = None,
    *,
    at_build: bool = True,
) -> None:
    """Copy a buffer of a function to another layout, by default that of the loops that read it.

    Nothing is done if no layout is better, if a rule has already laid it out, or if it is accessed
    outside of blocks. ScheduleError if a primitive fails.
    """
    copies = _copies(sch, name, buffer)
    used = copies[-1].block.writes[0].buffer if copies else buffer
    place = last_read(sch.state.blocks(name), used)
    if place is None or _is_accessed_bare(sch, name, buffer):
        return
    consumer, load = place
    if LAYOUT_REWRITE_PREPROC in consumer.block.annotations:
        return  # a rule has already copied it to the layout of an intrinsic
    index = read_index(consumer, used)
    index_map = index_map or suggested_layout(consumer, load)
    if index is None or index_map is None:
        return
    block = _handle(sch, name, consumer)
    if not copies:
        _copy_once(sch, block, index, at_build=at_build)
    sch.transform_layout(block, ("read", index), index_map)
    for copy in reversed(copies):
        block = _handle(sch, name, copy)
        if copy is copies[0]:
            _copy_once(sch, block, 0, at_build=at_build)
        sch.transform_layout(block, ("read", 0), index_map)


def copied_weight(sch: Schedule, block: BlockRV, place: tuple[str, int]) -> Buffer | None:
    """Return the buffer with a free layout of which a block reads a copy, None for other buffers.

    `place` is that of the copy among the regions of the block, such as `("read", 1)`.
    """
    side, index = place
    if side != "read":
        return None
    buffer = sch.get(block).reads[index].buffer
    name = sch.state.func_name_of(sch.get_sref(block))
    copied = {
        sref.block.writes[0].buffer: sref.block.reads[0].buffer
        for sref in sch.state.blocks(name)
        if len(sref.block.writes) == 1 and len(sref.block.reads) == 1 and sref.block.init is None
    }
    while buffer in copied:
        buffer = copied.pop(buffer)
    return buffer if buffer in layout_free_buffers(sch, name) else None


def _is_accessed_bare(sch: Schedule, name: str, buffer: Buffer) -> bool:
    """Return True if a statement or condition outside of all blocks accesses a buffer."""
    bare: set[Var] = set()

    def visit(node: Node) -> bool:
        is_inside = isinstance(node, Block)
        if not is_inside:
            bare.update(used.data for used in used_buffers(node))
            bare.update([node] if isinstance(node, Var) else [])
        return not is_inside

    root = sch.state.func(name).body
    assert isinstance(root, BlockRealize)
    pre_order_visit(root.block.body, visit)
    return buffer.data in bare


def _handle(sch: Schedule, name: str, block: StmtSRef) -> BlockRV:
    return sch.get_block(block.block.name_hint, name)


def _copy_once(sch: Schedule, consumer: BlockRV, index: int, *, at_build: bool) -> None:
    """Copy a weight before its reader, with the annotation for a copy at build time."""
    copy = sch.cache_read(consumer, index, "global")
    if at_build:
        sch.annotate(copy, LAYOUT_REWRITE_PREPROC, True)
    else:
        sch.parallel(sch.get_loops(copy)[0])


def _copies(sch: Schedule, name: str, buffer: Buffer) -> list[StmtSRef]:
    """Return the chain of blocks that copy a buffer, then its copy, and so on, in program order.

    Copies to parameters are ignored, because parameters keep their layout.
    """
    parameters = set(sch.state.func(name).buffer_map.values())
    copies: list[StmtSRef] = []
    for sref in sch.state.blocks(name):
        node = sref.block
        if sref.parent is None or node.init is not None:
            continue
        if len(node.reads) != 1 or len(node.writes) != 1 or node.reads[0].buffer is not buffer:
            continue
        target = node.writes[0].buffer
        if target in parameters or not _same_shape(buffer, target):
            break
        copies.append(sref)
        buffer = target
    return copies


def _same_shape(a: Buffer, b: Buffer) -> bool:
    return len(a.shape) == len(b.shape) and all(map(expr_deep_equal, a.shape, b.shape))
