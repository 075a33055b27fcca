"""Buffers, and the buffer regions that statements access."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import INT32, INT64, DataType
from tensorir.nodes.expr import (
    BufferLoad,
    Call,
    ExprLike,
    IntImm,
    PointerType,
    PrimExpr,
    PrimType,
    Ramp,
    Var,
    smart,
)
from tensorir.nodes.intrin import Op
from tensorir.nodes.node import Node, buffer, buffer_definition, definition, label, part, parts
from tensorir.nodes.ops import as_expr, const, is_const_int

if TYPE_CHECKING:
    from tensorir.nodes.stmt import BufferStore

_ACCESS_PTR: Final = Op.get("tvm_access_ptr")
_TYPE_ANNOTATION: Final = Op.get("type_annotation")


class Range(Node):
    """The half-open interval `[min, min + extent)`.

    `Range(extent)` starts at 0, `Range(begin, end)` computes the extent, and
    `Range.from_min_extent` accepts the two fields.
    """

    fields = (part("min"), part("extent"))
    __slots__ = fields

    def __init__(self, begin: ExprLike, end: ExprLike | None = None) -> None:
        if end is None:
            self.extent = as_expr(begin)
            self.min: PrimExpr = const(0, self.extent.dtype)
            return
        self.min = as_expr(begin)
        last = as_expr(end)
        starts_at_zero = isinstance(self.min, IntImm) and self.min.value == 0
        self.extent = last if starts_at_zero else last - self.min

    @classmethod
    def from_min_extent(cls, min: ExprLike, extent: ExprLike) -> Range:
        """Build from the first value and the number of values."""
        result = cls.__new__(cls)
        result.min = as_expr(min)
        result.extent = as_expr(extent)
        return result

    rebuilt = from_min_extent

    @classmethod
    def point(cls, value: PrimExpr) -> Range:
        """Build the range that contains only `value`."""
        return cls.from_min_extent(value, const(1, value.dtype.element))


class Buffer(Node):
    """A tensor in memory: a typed, shaped view of the pointer `data`.

    `strides` (in elements) are empty for the compact row-major layout; `elem_offset` counts
    elements, `data_alignment` bytes. Buffers are compared by identity.

    `layout` has the dimensions, strides and offset in one tuple. Its constants have at least 32
    bits, because they are multiplied with each other.
    """

    fields = (
        definition("data"),
        "dtype",
        parts("shape", defines=True),
        parts("strides", defines=True),
        "axis_separators",
        part("elem_offset", defines=True),
        "data_alignment",
        "buffer_type",
        label("name"),
        label("offset_factor"),
    )
    __slots__ = (*fields, "has_constant_layout", "layout")

    def __init__(
        self,
        data: Var,
        dtype: str,
        shape: Sequence[PrimExpr],
        strides: Sequence[PrimExpr],
        elem_offset: PrimExpr,
        name: str,
        data_alignment: int = 64,
        offset_factor: int = 1,
        buffer_type: str = "",
        axis_separators: Sequence[int] = (),
    ) -> None:
        self.data = data
        self.dtype = DataType(dtype)
        self.shape = tuple([_as_size(size) for size in shape])
        self.strides = tuple([_as_size(stride) for stride in strides])
        self.elem_offset = elem_offset = _as_size(elem_offset)
        self.name = name
        self.data_alignment = data_alignment
        self.offset_factor = offset_factor
        self.buffer_type = buffer_type
        self.axis_separators = tuple(axis_separators)
        self.layout = (*self.shape, *self.strides, elem_offset)
        self.has_constant_layout = all(type(size) is IntImm for size in self.layout)

    def scope(self) -> str:
        """Return the storage scope; `"global"` by default."""
        kind = self.data.type_annotation
        return (kind.storage_scope or "global") if isinstance(kind, PointerType) else "global"

    def __getitem__(self, indices: Any) -> BufferLoad | BufferRegion:
        """Return a load, or a `BufferRegion` if an index is a slice without a step."""
        items = indices if isinstance(indices, tuple) else (indices,)
        if not any(isinstance(i, slice) for i in items):
            return BufferLoad(self, [as_expr(i) for i in items])
        if len(items) != len(self.shape):
            raise IRValueError(
                f"buffer {self.name} has {len(self.shape)} dimension(s), "
                f"but the region has {len(items)}"
            )
        ranges = [_range_of(i, n) for i, n in zip(items, self.shape, strict=True)]
        return BufferRegion(self, ranges)

    def vload(
        self,
        begin: Sequence[ExprLike] | ExprLike,
        dtype: str | None = None,
        predicate: ExprLike | None = None,
    ) -> BufferLoad:
        """Return a load of `dtype`, whose lanes run along the last dimension from `begin`.

        The default is a load of one element. Raises IRTypeError for another element type.
        """
        kind = self.dtype if dtype is None else DataType(dtype)
        condition = None if predicate is None else as_expr(predicate)
        return BufferLoad(self, self._vector_indices(begin, kind), condition)

    def vstore(
        self,
        begin: Sequence[ExprLike] | ExprLike,
        value: ExprLike,
        predicate: ExprLike | None = None,
    ) -> BufferStore:
        """Return a store of `value`, whose lanes run along the last dimension from `begin`.

        Raises IRTypeError for a value of another element type.
        """
        stored = as_expr(value)
        condition = None if predicate is None else as_expr(predicate)
        indices = self._vector_indices(begin, stored.dtype)
        return smart["store"](self, stored, indices, condition)  # type: ignore[no-any-return]

    def _vector_indices(
        self, begin: Sequence[ExprLike] | ExprLike, dtype: DataType
    ) -> list[PrimExpr]:
        indices = [as_expr(i) for i in (begin if isinstance(begin, (list, tuple)) else (begin,))]
        if dtype.element is not self.dtype.element:
            raise IRTypeError(
                f"buffer {self.name} holds {self.dtype}, so an access cannot have the type {dtype}"
            )
        lanes = dtype.lanes // self.dtype.lanes
        if lanes > 1 and indices and indices[-1].dtype.lanes == 1:
            indices[-1] = Ramp(indices[-1], const(1, indices[-1].dtype), lanes)
        return indices

    def access_ptr(
        self,
        access_mask: int | str,
        ptr_type: str = "handle",
        content_lanes: int = 1,
        offset: ExprLike = 0,
        extent: ExprLike | None = None,
    ) -> Call:
        """Return the pointer to element `offset`, as an argument for a C function.

        `access_mask` is the kind of access: `"r"` (1), `"w"` (2) or `"rw"` (3). `extent` is the
        number of elements, by default all from `offset` on. If `content_lanes` is above 1, both
        count vectors. Raises IRValueError for another mask.
        """
        masks = {"r": 1, "w": 2, "rw": 3, "wr": 3}
        mask = masks.get(access_mask, 0) if isinstance(access_mask, str) else access_mask
        if mask not in (1, 2, 3):
            raise IRValueError(
                f"the access_mask of {self.name} must be 'r', 'w' or 'rw', got {access_mask!r}"
            )
        size = self._span(range(len(self.shape)))
        start, first = as_expr(offset), self.elem_offset
        if content_lanes > 1:
            size, first = size // content_lanes, first // content_lanes
        kind = Call(self.dtype.with_lanes(self.dtype.lanes * content_lanes), _TYPE_ANNOTATION, ())
        count = size - start if extent is None else as_expr(extent)
        place, count = _simplify([first + start, count])
        return Call(ptr_type, _ACCESS_PTR, (kind, self.data, place, count, const(mask)))

    def all_strides(self) -> tuple[PrimExpr, ...]:
        """Return the strides in elements; by default those of the compact layout."""
        if self.strides:
            return self.strides
        strides: list[PrimExpr] = []
        stride: PrimExpr | None = None
        for extent in reversed(self.shape):
            strides.append(const(1, wide_index(extent.dtype)) if stride is None else stride)
            stride = extent.astype(wide_index(extent.dtype)) if stride is None else extent * stride
        return tuple(reversed(strides))

    def offset_of(self, indices: Sequence[ExprLike] | ExprLike) -> list[PrimExpr]:
        """Return the offset of an element, in elements from `data`; it includes `elem_offset`.

        Every group of dimensions between axis separators has one offset. Offsets are simplified:
        `(x // 8, x % 8)` in (4, 8) is at `x`. Raises IRValueError for a wrong number of indices,
        and for an `elem_offset` of a buffer with several groups.
        """
        given = [
            as_expr(i) for i in (indices if isinstance(indices, (list, tuple)) else (indices,))
        ]
        if len(given) != len(self.shape):
            raise IRValueError(
                f"buffer {self.name} has {len(self.shape)} dimension(s), "
                f"but offset_of got {len(given)} index(es)"
            )
        offsets = []
        for group in self._axis_groups():
            offset = const(0, given[group.start].dtype if group else self.elem_offset.dtype)
            for k in group:
                if self.strides:
                    offset = offset + given[k] * self.strides[k]
                else:
                    offset = offset * self.shape[k] + given[k]
            offsets.append(offset)
        if is_const_int(self.elem_offset, 0):
            return _simplify(offsets)
        if len(offsets) > 1:
            raise IRValueError(
                f"buffer {self.name} has axis_separators {self.axis_separators}, so its "
                f"elem_offset {self.elem_offset} is ambiguous"
            )
        return _simplify([offsets[0] + self.elem_offset])

    def get_flattened_buffer(self) -> Buffer:
        """Return the flat buffer over the same memory that `offset_of` indexes.

        `self` if it is flat. It has one dimension for every group of dimensions between axis
        separators. The extent covers the memory that the strides span; the flat buffer has no
        strides.
        """
        groups = self._axis_groups()
        if len(groups) == len(self.shape) and not self.strides:
            return self
        return self.with_(
            shape=[self._span(group) for group in groups],
            strides=(),
            axis_separators=range(1, len(groups)),
        )

    def _axis_groups(self) -> list[range]:
        ends = (*self.axis_separators, len(self.shape))
        return [range(a, b) for a, b in zip((0, *self.axis_separators), ends, strict=True)]

    def _span(self, dims: range) -> PrimExpr:
        """Return the number of elements between the first and the last of some dimensions."""
        extents = [self.shape[k] for k in dims]
        size: PrimExpr = const(1, (extents[0] if extents else self.elem_offset).dtype)
        size = size.astype(wide_index(size.dtype))
        if not self.strides or any(is_const_int(extent, 0) for extent in extents):
            for extent in extents:
                size = size * extent
            return size
        for k in dims:
            size = size + (self.shape[k] - 1) * self.strides[k]
        return size


class BufferRegion(Node):
    """A box in a buffer: one range for each dimension."""

    fields = (buffer("buffer"), parts("region"))
    __slots__ = fields

    def __init__(self, buffer: Buffer, region: Sequence[Range]) -> None:
        self.buffer = buffer
        self.region = tuple(region)
        if len(self.region) != len(buffer.shape):
            raise IRValueError(
                f"buffer {buffer.name} has {len(buffer.shape)} dimension(s), "
                f"but its region has {len(self.region)}"
            )

    @staticmethod
    def full_region(buffer: Buffer) -> BufferRegion:
        """Return the region of the whole buffer."""
        return BufferRegion(buffer, [Range(n) for n in buffer.shape])

    @staticmethod
    def from_point(buffer: Buffer, indices: Sequence[PrimExpr]) -> BufferRegion:
        """Return the region of one access; a `Ramp` index spans `lanes * stride` elements."""
        ranges = []
        for index in indices:
            if isinstance(index, Ramp):
                ranges.append(Range.from_min_extent(index.base, index.stride * index.lanes))
            else:
                ranges.append(Range.point(index))
        return BufferRegion(buffer, ranges)

    def as_expr(self) -> BufferLoad:
        """Return the load of this region, if it is one element or has a constant extent in the last
        dimension.
        """
        indices: list[PrimExpr] = []
        for dim in self.region:
            if not isinstance(dim.extent, IntImm):
                raise IRValueError(
                    f"Cannot convert to BufferLoad: the extent of {self} is not constant"
                )
            lanes = dim.extent.value
            one = const(1, dim.min.dtype)
            indices.append(dim.min if lanes == 1 else Ramp(dim.min, one, lanes))
        return BufferLoad(self.buffer, indices)


class MatchBufferRegion(Node):
    """`buffer` as a view of the region `source`, with its own layout."""

    fields = (buffer_definition("buffer"), part("source"))
    __slots__ = fields

    def __init__(self, buffer: Buffer, source: BufferRegion) -> None:
        """Build the view. Raises IRValueError, which names the mismatch with the source."""
        self.buffer = buffer
        self.source = source
        outer = source.buffer
        if buffer.scope() != outer.scope():
            raise IRValueError(
                f"match_buffer {buffer.name}: storage scope {buffer.scope()!r} "
                f"does not match {outer.scope()!r} of {outer.name}"
            )
        if buffer.dtype is not outer.dtype:
            raise IRTypeError(
                f"match_buffer {buffer.name}: dtype {buffer.dtype} "
                f"does not match {outer.dtype} of {outer.name}"
            )
        if outer.data_alignment % buffer.data_alignment:
            raise IRValueError(
                f"match_buffer {buffer.name}: alignment {buffer.data_alignment} "
                f"does not divide {outer.data_alignment} of {outer.name}"
            )
        surplus = len(source.region) - len(buffer.shape)
        if surplus < 0:
            raise IRValueError(
                f"match_buffer {buffer.name}: rank {len(buffer.shape)} "
                f"exceeds rank {len(source.region)} of its source {outer.name}"
            )
        wanted = [const(1)] * surplus + list(buffer.shape)
        for k, (dim, extent) in enumerate(zip(source.region, wanted, strict=True)):
            both_known = isinstance(extent, IntImm) and isinstance(dim.extent, IntImm)
            if both_known and int(extent) != int(dim.extent):  # type: ignore[call-overload]
                raise IRValueError(
                    f"match_buffer {buffer.name}: dimension {k} of the source has extent "
                    f"{dim.extent}, the view needs {extent}"
                )


def decl_buffer(
    shape: Sequence[ExprLike] | ExprLike,
    dtype: str | None = None,
    name: str = "buffer",
    data: Var | None = None,
    strides: Sequence[ExprLike] | None = None,
    elem_offset: ExprLike | None = None,
    scope: str = "",
    data_alignment: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Sequence[int] | None = None,
) -> Buffer:
    """Return a new buffer (float32 by default).

    A scalar `shape` means rank 1. If `offset_factor` is not 0 and no offset is given, the offset is
    a new variable. Raises IRValueError for axis separators that are not increasing positions.
    """
    dims = [as_expr(n) for n in (shape if isinstance(shape, (list, tuple)) else (shape,))]
    kind = DataType(dtype or "float32")
    if data is None:
        stored = DataType("int8") if kind.is_bool else kind
        data = Var(name, PointerType(PrimType(stored), scope))
    elif not isinstance(data.type_annotation, PointerType):
        raise IRTypeError(f"buffer {name}: data variable {data.name} is not a pointer")
    index_dtype = wide_index(dims[0].dtype) if dims else INT64
    if elem_offset is not None:
        offset = as_expr(elem_offset)
    elif offset_factor:
        offset = Var(f"{name}_elem_offset", index_dtype)
    else:
        offset = const(0, index_dtype)
    if buffer_type == "auto" and not strides:
        strides = [Var(f"{name}_s{k}", INT32) for k in range(len(dims))]
    separators = tuple(int(k) for k in axis_separators or ())
    if any(not 0 <= k <= len(dims) for k in separators) or list(separators) != sorted(separators):
        raise IRValueError(
            f"buffer {name}: axis_separators {separators} must be increasing positions "
            f"in [0, {len(dims)}]"
        )
    return Buffer(
        data,
        kind,
        dims,
        [as_expr(s) for s in strides or ()],
        offset,
        name,
        data_alignment if data_alignment > 0 else 64,
        offset_factor or 1,
        "" if buffer_type == "default" else buffer_type,
        separators,
    )


def wide_index(dtype: DataType) -> DataType:
    """Return the type of offsets into a buffer whose extents have the type `dtype`."""
    return INT32 if dtype.bits < INT32.bits else dtype


def _as_size(size: PrimExpr) -> PrimExpr:
    if type(size) is IntImm and size.dtype.bits < INT32.bits:
        return const(size.value, INT32)
    return size


def _range_of(index: Any, extent: PrimExpr) -> Range:
    if not isinstance(index, slice):
        return Range.point(as_expr(index))
    if index.step is not None:
        raise IRValueError("a slice of a region must not have a step")
    begin = const(0, extent.dtype) if index.start is None else as_expr(index.start)
    return Range(begin, extent if index.stop is None else as_expr(index.stop))


def _simplify(exprs: Sequence[PrimExpr]) -> list[PrimExpr]:
    from tensorir.arith import Analyzer  # noqa: PLC0415  it is made of nodes

    analyzer = Analyzer()
    return [analyzer.simplify(expr) for expr in exprs]
