"""Runs of kernels as tensor functions, which are lowered and compiled like any other.

The arrays of a graph function are at *roots*, pointers that its machine code receives. A tensor has
an offset in bytes from a root. A graph function without steps in Python is one tensor function

    main(x, ..., result, ..., arena, constants)

whose body calls the kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from codegen.signature import symbolic_vars
from tensorir.function import PrimFunc
from tensorir.memory.alignment import ALIGNMENT
from tensorir.nodes import expr as e
from tensorir.nodes import ops
from tensorir.nodes.buffer import Buffer, decl_buffer
from tensorir.nodes.dtype import HANDLE, INT64
from tensorir.nodes.expr import BufferLoad, Call, GlobalVar, IntImm, PrimExpr, StringImm, Var
from tensorir.nodes.intrin import Op
from tensorir.nodes.stmt import Evaluate, IfThenElse, SeqStmt, Stmt
from tensorir.relax.calls import product
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.rewriting.visit import substitute

_ADDRESS_OF: Final = Op.get("address_of")
_CALL_EXTERN: Final = Op.get("call_extern")


@dataclass(eq=False, slots=True)
class Root:
    """A pointer to a tensor of struct info `info`, or to memory that tensors share (None).

    `nbytes` are the bytes of shared memory if they depend on sizes.
    """

    name: str
    slot: int
    info: TensorStructInfo | None
    register: int
    nbytes: PrimExpr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Address:
    """An offset from a root in bytes; with `is_far` the offset is read from the memory there."""

    root: Root
    offset: PrimExpr = field(default_factory=lambda: ops.const(0, INT64))
    is_far: bool = False

    @staticmethod
    def at(root: Root, offset: int) -> Address:
        """Return the address at an offset from a root."""
        return Address(root, ops.const(offset, INT64))

    def is_same(self, other: Address) -> bool:
        """Return True if two addresses are provably equal."""
        if self.root is not other.root or self.is_far != other.is_far:
            return False
        return self.offset is other.offset or str(self.offset) == str(other.offset)


@dataclass(frozen=True, slots=True)
class CalleeArena:
    """The part of the arena for called graph functions."""


Argument: TypeAlias = Address | CalleeArena | PrimExpr


@dataclass(frozen=True, slots=True)
class CallKernel:
    """A call of a tensor function, or of the machine code of a graph function."""

    name: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of bytes."""

    source: Address
    destination: Address
    nbytes: PrimExpr


@dataclass(frozen=True, slots=True)
class NativeIf:
    """A branch: one of two lists of operations, by a scalar tensor in memory."""

    condition: Address
    condition_bytes: int
    then: tuple[Operation, ...]
    otherwise: tuple[Operation, ...]


Operation: TypeAlias = CallKernel | Copy | NativeIf


def infer_symbolic_sizes(
    callee: PrimFunc, shapes: Sequence[Sequence[PrimExpr] | None]
) -> dict[Var, PrimExpr] | list[str]:
    """Return the values of a kernel's symbolic sizes, inferred from the shapes of its arguments.

    A call passes these values after the arguments. `shapes` has None for scalars. If the arguments
    do not determine all sizes, return the names of the missing ones instead.
    """
    wanted = symbolic_vars(callee)
    values: dict[Var, PrimExpr] = {}
    for param, shape in zip(callee.params, shapes, strict=True):
        buffer = callee.buffer_map.get(param)
        if buffer is None or shape is None or not wanted:
            continue
        for dim, extent in zip(buffer.shape, shape, strict=False):
            if isinstance(dim, Var):
                values.setdefault(dim, ops.cast(dim.dtype, extent))
        stride: PrimExpr = ops.const(1, INT64)
        for dim, extent in zip(reversed(buffer.strides), reversed(shape), strict=False):
            if isinstance(dim, Var):
                values.setdefault(dim, ops.cast(dim.dtype, stride))
            stride = ops.mul(stride, extent)
        if isinstance(buffer.elem_offset, Var):
            values.setdefault(buffer.elem_offset, ops.const(0, buffer.elem_offset.dtype))
    missing = [var.name for var in wanted if var not in values]
    return missing or {var: values[var] for var in wanted}


def expected_struct_info(buffer: Buffer, sizes: Mapping[Var, PrimExpr]) -> TensorStructInfo:
    """Return the struct info that a kernel expects for a buffer, given its sizes."""
    shape = [ops.cast(INT64, substitute(dim, sizes)) for dim in buffer.shape]
    return TensorStructInfo(shape, buffer.dtype)


@dataclass(slots=True)
class SegmentWriter:
    """Writes the segments of a graph function; all have the same parameters, the slots."""

    slots: Sequence[Root | Var]
    arena: Root
    arena_bytes: int
    """The bytes of the function itself; called functions use the rest of the arena."""
    total_bytes: int
    constants: Root
    constant_bytes: int
    _buffers: dict[Root, Buffer] = field(default_factory=dict)
    _pointers: dict[Root, Var] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for slot in self.slots:
            if isinstance(slot, Root):
                self._declare(slot)

    def _declare(self, root: Root) -> None:
        if root is self.arena or root is self.constants:
            nbytes = self.total_bytes if root is self.arena else self.constant_bytes
            self._buffers[root] = decl_buffer(
                [ops.const(max(nbytes, ALIGNMENT), INT64)], "uint8", root.name
            )
        elif root.nbytes is not None:
            self._buffers[root] = decl_buffer([root.nbytes], "uint8", root.name)
        elif root.info is not None and root.info.static_shape is not None:
            assert root.info.dtype is not None
            self._buffers[root] = decl_buffer(
                [ops.const(n, INT64) for n in root.info.static_shape], root.info.dtype, root.name
            )
        else:
            self._pointers[root] = Var(root.name, HANDLE)

    def function(self, symbol: str, operations: Sequence[Operation]) -> PrimFunc:
        """Return the segment `symbol`."""
        params = [s if isinstance(s, Var) else self._buffers.get(s) or self._pointers[s]
                  for s in self.slots]  # fmt: skip
        attrs = {"global_symbol": symbol, "tir.is_scheduled": True}
        return PrimFunc(params, self._statements(operations), attrs=attrs)

    def _statements(self, operations: Sequence[Operation]) -> Stmt:
        parts = [self._statement(part) for part in operations]
        if not parts:
            return Evaluate(ops.const(0))
        return parts[0] if len(parts) == 1 else SeqStmt(parts)

    def _statement(self, operation: Operation) -> Stmt:
        if isinstance(operation, CallKernel):
            arguments = [self._argument(a) for a in operation.arguments]
            return Evaluate(Call("int32", GlobalVar(operation.name), arguments))
        if isinstance(operation, Copy):
            arguments = [
                StringImm("memcpy"),
                self._argument(operation.destination),
                self._argument(operation.source),
                operation.nbytes,
            ]
            return Evaluate(Call("handle", _CALL_EXTERN, arguments))
        otherwise = self._statements(operation.otherwise) if operation.otherwise else None
        return IfThenElse(self._truth(operation), self._statements(operation.then), otherwise)

    def _argument(self, argument: Argument) -> PrimExpr:
        if isinstance(argument, PrimExpr):
            return argument
        if isinstance(argument, CalleeArena):
            return self._argument(Address.at(self.arena, self.arena_bytes))
        pointer = self._pointers.get(argument.root)
        if pointer is not None:
            return pointer
        buffer = self._buffers[argument.root]
        offset = _distance(buffer, argument.offset) if argument.is_far else argument.offset
        if isinstance(offset, IntImm) and offset.value == 0:
            return buffer.data
        return Call("handle", _ADDRESS_OF, [BufferLoad(buffer, [offset])])

    def _truth(self, operation: NativeIf) -> PrimExpr:
        """Return the condition that a scalar is not 0: in shared memory, that any byte is not."""
        root, offset = operation.condition.root, operation.condition.offset
        buffer = self._buffers[root]
        if root.info is not None:
            zeros = [ops.const(0, INT64)] * len(buffer.shape)
            value = BufferLoad(buffer, zeros)
            return value if value.dtype.is_bool else e.NE(value, ops.const(0, value.dtype))
        found: PrimExpr | None = None
        for k in range(operation.condition_bytes):
            byte = BufferLoad(buffer, [ops.add(offset, ops.const(k, INT64))])
            differs = e.NE(byte, ops.const(0, byte.dtype))
            found = differs if found is None else e.Or(found, differs)
        assert found is not None
        return found


def _distance(buffer: Buffer, offset: PrimExpr) -> PrimExpr:
    """Return the 64-bit integer in a buffer of bytes, the lowest byte first."""
    total: PrimExpr = ops.const(0, INT64)
    for k in range(INT64.nbytes):
        byte = ops.cast(INT64, BufferLoad(buffer, [ops.add(offset, ops.const(k, INT64))]))
        total = total | (byte << ops.const(8 * k, INT64)) if k else byte
    return total


def tensor_bytes(info: TensorStructInfo) -> PrimExpr:
    """Return the bytes of a tensor of known shape and dtype."""
    assert info.shape is not None
    assert info.dtype is not None
    return ops.mul(product(info.shape), ops.const(info.dtype.nbytes, INT64))
