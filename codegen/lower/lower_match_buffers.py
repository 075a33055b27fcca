"""Replacing the views that `match_buffer` makes by their source buffers."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.errors import LoweringError
from codegen.lower.rewriters import analyzer_for
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, BufferRegion, MatchBufferRegion
from tensorir.nodes.expr import Call, PrimExpr, Var
from tensorir.nodes.ops import add, const, is_const_int, mul
from tensorir.nodes.packed_call import MAKE_ARRAY
from tensorir.rewriting.element_rewriter import ElementRewriter, indices_in_source


def lower_match_buffers(func: PrimFunc) -> PrimFunc:
    """Access the source of each view directly.

    Before: V = match_buffer(A[i * 4:i * 4 + 4, 0:8], (4, 8), strides=[s, 1]); V[a, b] = s
    After:  A[i * 4 + a, b] = 128

    Variables in the view's shape, strides and offset get their values from the source. Array
    arguments of library functions begin at the start of the view. Raises LoweringError if the view
    requires a layout that the source does not have.
    """
    return func.with_body(_LowerViews(func)(func.body))


class _LowerViews(ElementRewriter):
    def __init__(self, func: PrimFunc) -> None:
        self._sources: dict[Buffer, BufferRegion] = {}
        self._values: dict[Var, PrimExpr] = {}
        self._starts: dict[PrimExpr, PrimExpr] = {}
        """The start offsets of views that do not declare an offset, by their pointers."""
        self._analyzer = analyzer_for(func)

    def buffer(self, buffer: Buffer) -> Buffer:
        source = self._sources.get(buffer)
        return buffer if source is None else source.buffer

    def indices(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> Sequence[PrimExpr]:
        return indices_in_source(self._sources[buffer], indices)

    def rewrite_Var(self, node: Var) -> PrimExpr:  # noqa: N802
        return self._values.get(node, node)

    def rewrite_Block(self, node: s.Block) -> s.Block:  # noqa: N802
        if not node.match_buffers:
            return self.generic(node)
        for match in node.match_buffers:
            self._define(match, self(match.source))
        return self.generic(node.with_(match_buffers=()))

    def _define(self, match: MatchBufferRegion, source: BufferRegion) -> None:
        view, outer = match.buffer, source.buffer
        self._sources[view] = source
        self._values[view.data] = outer.data
        surplus = len(outer.shape) - len(view.shape)
        for k, extent in enumerate(view.shape):
            self._equate(view, "shape", extent, source.region[k + surplus].extent)
        strides = outer.all_strides()
        if view.strides:
            for stride, actual in zip(view.strides, strides[surplus:], strict=True):
                self._equate(view, "strides", stride, actual)
        elif not self._is_dense(view, strides[surplus:]):
            raise LoweringError(
                f"match_buffer {view.name} takes a dense region, but its source {outer.name} has "
                f"strides {[str(n) for n in strides]}; declare the view with strides=[...]"
            )
        starts = [dim.min for dim in source.region]
        start = offset_of(outer, starts, strides)
        self._equate(view, "elem_offset", view.elem_offset, start)
        if is_const_int(view.elem_offset, 0):
            self._starts[view.data] = start

    def _is_dense(self, view: Buffer, strides: Sequence[PrimExpr]) -> bool:
        """Return True if the memory layout of the source is that of the compact view.

        The distance between elements of a dimension of extent 1 does not matter.
        """
        expected: PrimExpr = const(1, strides[0].dtype) if strides else const(1)
        for extent, stride in zip(reversed(view.shape), reversed(strides), strict=True):
            size = self(extent)
            if not self._same(size, const(1, size.dtype)) and not self._same(stride, expected):
                return False
            expected = mul(expected, size)
        return True

    def _same(self, a: PrimExpr, b: PrimExpr) -> bool:
        return self._analyzer.can_prove_equal(a, b)

    def _equate(self, view: Buffer, what: str, wanted: PrimExpr, actual: PrimExpr) -> None:
        """Equate `wanted` to `actual`: define it if it is a new variable, else check it."""
        if isinstance(wanted, Var) and wanted not in self._values:
            self._values[wanted] = self._analyzer.simplify(actual)
            return
        known = self(wanted)
        is_default_offset = what == "elem_offset" and self._same(known, const(0, known.dtype))
        if not is_default_offset and not self._same(known, actual):
            raise LoweringError(
                f"match_buffer {view.name} requires {what} {known}, its source has "
                f"{self._analyzer.simplify(actual)}"
            )

    def rewrite_Call(self, node: Call) -> PrimExpr:  # noqa: N802
        start = self._starts.get(node.args[0]) if node.op is MAKE_ARRAY else None
        new: Call = self.generic(node)
        if start is None:
            return new
        return Call(new.dtype, new.op, (*new.args[:-1], self._analyzer.simplify(start)))


def offset_of(buffer: Buffer, indices: Sequence[PrimExpr], strides: Sequence[PrimExpr]) -> PrimExpr:
    """Return how many elements lie between the data pointer and the element at `indices`."""
    offset = buffer.elem_offset
    for index, stride in zip(indices, strides, strict=True):
        offset = add(offset, mul(index, stride))
    return offset
