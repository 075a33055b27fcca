"""A function and its blocks while their suites are being read, and what their scripts leave out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tensorir.errors import IRTypeError, IRValueError
from tensorir.memory.access import get_block_access_region, require_no_opaque
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, MatchBufferRegion, Range
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import IterVar, PrimExpr, Var
from tensorir.nodes.ops import TRUE, cast, const
from tensorir.nodes.stmt import Stmt
from tensorir.rewriting.visit import walk
from tensorir.script.records import AxisRecord, BlockFrame, BlockRecord

_DUPLICATE: Final = {
    "where": "Duplicate block predicate declaration",
    "block_attr": "Duplicate block annotations",
    **dict.fromkeys(("reads", "writes"), "Duplicate read/write region declaration"),
}


class BlockParts:
    """The parts of a block, collected until the end of its suite."""

    def __init__(self, frame: BlockFrame, depth: int) -> None:
        self.frame = frame
        self.depth = depth
        """The number of statements around those that stand directly in its suite."""
        self.axes: list[IterVar] = []
        self.bindings: list[PrimExpr] = []
        self.declared: dict[str, Any] = {}
        """What statements say of the block: its `reads`, its `writes`, `where` and `block_attr`."""
        self.init: Stmt | None = None
        self.alloc_buffers: list[Buffer] = []
        self.match_buffers: list[MatchBufferRegion] = []

    @property
    def missing(self) -> tuple[bool, bool]:
        """Two flags: the reads are not declared, the writes are not declared."""
        return "reads" not in self.declared, "writes" not in self.declared

    def declare(self, record: BlockRecord) -> None:
        """Take what a statement says of the block; IRValueError if that has been said already."""
        if record.what in self.declared:
            raise IRValueError(_DUPLICATE[record.what])
        self.declared[record.what] = record.value

    def add_axis(self, name: str, record: AxisRecord) -> Var:
        """Return the variable of a new axis; IRTypeError if its binding is missing or no index."""
        bits = max(record.low.dtype.bits, record.extent.dtype.bits, DataType(record.dtype).bits)
        dtype = DataType(f"int{bits}")
        var = Var(name, dtype)
        dom = Range.from_min_extent(cast(dtype, record.low), cast(dtype, record.extent))
        self.axes.append(IterVar(dom, var, record.iter_type))
        if self.frame.realize:
            if record.binding is None:
                raise IRTypeError(f"axis {name} needs a binding")
            if not record.binding.dtype.is_int:
                raise IRTypeError(f"axis {name} is bound to a value of {record.binding.dtype}")
            self.bindings.append(record.binding)
        return var

    def block(self, body: Stmt | None) -> s.Block:
        """Return the block with the regions that are declared."""
        return s.Block(
            self.axes,
            self.declared.get("reads", ()),
            self.declared.get("writes", ()),
            self.frame.name,
            s.Evaluate(const(0)) if body is None else body,
            self.init,
            self.alloc_buffers,
            self.match_buffers,
            self.declared.get("block_attr"),
        )

    def realize(self, block: s.Block) -> Stmt:
        """Return the block as it stands among statements."""
        if not self.frame.realize:
            return block
        return s.BlockRealize(self.bindings, self.declared.get("where", TRUE), block)


class FunctionParts:
    """The parts of a function, collected until the end of its suite."""

    def __init__(self, private: bool) -> None:
        self.private = private
        self.params: list[Var] = []
        self.buffer_map: dict[Var, Buffer] = {}
        self.attrs: dict[str, Any] = {}
        self.alloc_buffers: list[Buffer] = []
        self.returned: PrimExpr | None = None
        """A value that the function returns."""

    def add_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Take attributes; IRValueError for one that is there already.

        Names that newer releases write as `tirx.noalias` are those of `tir.noalias`.
        """
        for written, value in attrs.items():
            key = written.replace("tirx.", "tir.", 1) if written.startswith("tirx.") else written
            if key in self.attrs:
                raise IRValueError(f"Duplicate prim func annotation for key {key!r}")
            self.attrs[key] = value

    def named_attrs(self, name: str) -> dict[str, Any]:
        """Return the attributes, the symbol of a public function among them."""
        if not self.private:
            return {"global_symbol": name, **self.attrs}
        if "global_symbol" in self.attrs:
            raise IRValueError("a private function must not have a global_symbol")
        return self.attrs

    def bind_buffer(self, param: Var, buffer: Buffer) -> None:
        """Say that a parameter is a buffer; IRValueError if it is no parameter."""
        if param not in self.params:
            raise IRValueError("Can not bind non-input param to buffer.")
        self.buffer_map[param] = buffer

    def add_return(self, value: PrimExpr) -> None:
        """Take a value that is returned; IRTypeError if another has another type."""
        if self.returned is not None and self.returned.dtype is not value.dtype:
            raise IRTypeError(
                f"the function returns {self.returned.dtype} and {value.dtype}; cast one of them"
            )
        self.returned = value

    def result_type(self) -> e.Type:
        """Return the type of what is returned, void if nothing is."""
        return e.TupleType() if self.returned is None else e.PrimType(self.returned.dtype)


def complete_block(
    block: s.Block, missing: tuple[bool, bool], visible: Mapping[Var, Buffer]
) -> s.Block:
    """Return a block with the regions filled in that the script does not declare.

    `missing` says whether reads and writes are absent, `visible` gives the buffers that are known
    outside the block. Raises IRValueError if a pointer is used in a way that hides what is touched.
    """
    if not any(missing):
        return block
    reads, writes, opaque = get_block_access_region(block, visible)
    require_no_opaque(block, opaque)
    return block.with_(
        reads=reads if missing[0] else block.reads,
        writes=writes if missing[1] else block.writes,
    )


def with_root_block(
    body: Stmt,
    alloc_buffers: Sequence[Buffer],
    filled: Mapping[s.Block, tuple[bool, bool]] | None = None,
) -> Stmt:
    """Return a function's body, inside a root block where there is anything to schedule.

    `filled` says of which blocks the reads and writes are not from the script: a block that turns
    out to be the root keeps these lists empty.
    """
    if isinstance(body, s.BlockRealize) and not body.block.iter_vars and not alloc_buffers:
        reads, writes = (filled or {}).get(body.block, (False, False))
        if not reads and not writes:
            return body
        root = body.block.with_(
            reads=() if reads else body.block.reads, writes=() if writes else body.block.writes
        )
        return s.BlockRealize(body.iter_values, body.predicate, root)
    has_block = any(isinstance(node, s.BlockRealize) for node in walk(body))
    if not alloc_buffers and not has_block:
        return body
    root = s.Block((), (), (), "root", body, alloc_buffers=alloc_buffers)
    return s.BlockRealize((), TRUE, root)
