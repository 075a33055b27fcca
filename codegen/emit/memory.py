"""Loads, stores and allocations.

Buffers are flat. An evenly spaced vector index becomes one vector access where the distance is 1, a
broadcast where it is 0, a reversed access where it is -1; all other accesses gather or scatter.
Without a mask, only irregular accesses do (see `lower.contiguous_accesses`). Small constant
allocations live in the stack frame, so that LLVM can turn them into registers; the others are on
the heap, aligned to a cache line, and are freed at every exit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from codegen.abi import OUT_OF_MEMORY
from codegen.emit.context import FunctionEmitter, emits, emits_stmt, mangled
from codegen.emit.index import extend_index, linear_lanes
from codegen.emit.llvm_text import memory_type, register_type
from codegen.lower.hoist_allocations import MOST_BYTES, constant_bytes, stack_bytes
from tensorir.arith.const_interval import exact_interval
from tensorir.memory.alignment import ALIGNMENT, align
from tensorir.memory.storage_scopes import memory_of
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import INT64, DataType
from tensorir.nodes.expr import Add, BufferLoad, IntImm, Mul, PrimExpr, Var
from tensorir.nodes.index_arithmetic import is_index_arithmetic
from tensorir.nodes.stmt import Allocate, AllocateConst, BufferStore

_COPIES: Final = (4, 8, 16)
"""The bytes of asynchronous copies."""
Typed: TypeAlias = tuple[str, str]
"""A type and a value of it."""

# --------------------------------------------------------------------------------------- addresses


def _data(f: FunctionEmitter, buffer: Buffer) -> str:
    pointer = f.values.get(buffer.data)
    if pointer is None:
        f.fail(f"the memory of buffer {buffer.name} is not defined where it is used")
    return pointer


def element_address(
    f: FunctionEmitter, buffer: Buffer, index: PrimExpr, is_opaque: bool = False
) -> str:
    """Write the address of the element at the scalar `index` of a flat buffer.

    Addresses that differ by a constant are written as constant offsets from a common address, which
    is the form that LLVM's passes recognise. LLVM treats an opaque address as different each time
    it is written, so it does not move loads from there out of a loop.
    """
    if (
        type(index) is Add
        and type(index.b) is IntImm
        and buffer.dtype.lanes == 1
        and index.b.value > 0
        and is_index_arithmetic(index, f.value_variables)
    ):
        rest = f.index(index.a)
        if rest[0] == "%":
            is_inside = f.inside.get(rest)
            if is_inside is None:
                # Addresses before the buffer must not be declared to be in it.
                values = exact_interval(index.a, f.ranges)
                is_inside = f.inside[rest] = values is not None and values[0] >= 0
            inbounds = "inbounds " if is_inside else ""
            start = f"getelementptr {inbounds}{memory_type(buffer.dtype)}, {f.pointer(buffer.data)}"
            common = f.pure(f"{start} {_data(f, buffer)}, {f.index_type} {rest}")
            if is_opaque:
                common = _opaque(f, common)
            return f.pure(f"{start} {common}, i64 {index.b.value}")
    address = _address_at(f, buffer, f.index(index))
    return _opaque(f, address) if is_opaque else address


def _opaque(f: FunctionEmitter, pointer: str) -> str:
    # LLVM treats the results of two such calls as different pointers to the same object.
    name = "llvm.launder.invariant.group.p0"
    f.module.text.declare(name, f"declare ptr @{name}(ptr)")
    return f.pure(f"call ptr @{name}(ptr {pointer})")


def _address_at(f: FunctionEmitter, buffer: Buffer, index: str) -> str:
    """Write the address of the element at an index of the index type."""
    base, lanes = _data(f, buffer), buffer.dtype.lanes
    if lanes > 1:
        # Vector elements are dense in memory, while LLVM would pad <3 x float>.
        index = f.pure(f"mul nsw {f.index_type} {index}, {lanes}")
    if index == "0":
        return base
    element = memory_type(buffer.dtype.element)
    start = f"getelementptr inbounds {element}, {f.pointer(buffer.data)} {base}"
    return f.pure(f"{start}, {f.index_type} {index}")


def flat_index(f: FunctionEmitter, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
    """Return the single index of an access to a lowered buffer.

    Raises CodegenError for several indices.
    """
    if len(indices) != 1:
        f.fail(f"buffer {buffer.name} is accessed with {len(indices)} indices; lowering leaves one")
    return indices[0]


def _align(dtype: DataType) -> int:
    return max(1, dtype.bits // 8)


# ------------------------------------------------------------------------------------------- loads


@emits(BufferLoad)
def _load(f: FunctionEmitter, node: BufferLoad) -> str:
    buffer = node.buffer
    index = flat_index(f, buffer, node.indices)
    again = buffer.data in f.repeated
    if index.dtype.lanes == 1:
        address = element_address(f, buffer, index, again)
        condition = _predicate(f, node)
        if f.load_mask is not None and not _is_inside(buffer, index):
            any_lane = _any(f, *f.load_mask)
            condition = f.op(f"and i1 {condition}, {any_lane}") if condition else any_lane
        if not condition:
            align = _scalar_align(f, buffer, index)
            return _load_plain(f, address, node.dtype, buffer.data, align)
        load = partial(_load_plain, f, address, node.dtype, buffer.data)
        return f.emit_select(condition, register_type(node.dtype), load, "zeroinitializer")
    f.vector_ops += 1
    mask = f.in_load_mask(_predicate(f, node), index.dtype.lanes)
    if _goes_lane_by_lane(f, index, mask):
        return _load_singly(f, node, index, mask)
    distance, place = _vector_place(f, buffer, index, mask, again)
    if mask or distance is None:
        return _load_masked(f, place, node.dtype, mask)
    if distance == 0:
        one = _load_plain(f, place[1], buffer.dtype, buffer.data)
        return f.splat(one, register_type(buffer.dtype), index.dtype.lanes)
    align = _align(buffer.dtype) if distance != 1 else _vector_align(f, buffer, index)
    value = _load_plain(f, place[1], node.dtype, buffer.data, align)
    return value if distance == 1 else _reverse(f, value, node.dtype)


def _predicate(f: FunctionEmitter, node: BufferLoad | BufferStore) -> str:
    return "" if node.predicate is None else f.expr(node.predicate)


def _vector_place(
    f: FunctionEmitter, buffer: Buffer, index: PrimExpr, mask: str, is_opaque: bool = False
) -> tuple[int | None, Typed]:
    """Write the lowest address of lanes that are 1, 0 or -1 apart; else one address for each lane.

    Also returns the distance of the lanes, None if each lane has its own address.
    """
    linear = linear_lanes(f, index)
    first, distance = linear or (index, None)
    is_plain = not mask and buffer.dtype.lanes == 1
    if distance == 1 or (distance == 0 and is_plain):
        return distance, (f.pointer(buffer.data), element_address(f, buffer, first, is_opaque))
    if distance == -1 and is_plain:
        start = f.op(f"add nsw {f.index_type} {f.index(first)}, {1 - index.dtype.lanes}")
        return distance, (f.pointer(buffer.data), _address_at(f, buffer, start))
    return None, _lanes(f, buffer, index, linear)


def _from_memory(f: FunctionEmitter, value: str, dtype: DataType) -> str:
    if dtype.is_bool:
        return f.op(f"icmp ne {memory_type(dtype)} {value}, zeroinitializer")
    return value


def _to_memory(f: FunctionEmitter, value: str, dtype: DataType) -> str:
    if dtype.is_bool:
        return f.op(f"zext {register_type(dtype)} {value} to {memory_type(dtype)}")
    return value


def _load_plain(
    f: FunctionEmitter, address: str, dtype: DataType, data: Var, align: int = 0
) -> str:
    text = f"load {memory_type(dtype)}, {f.pointer(data)} {address}, align {align or _align(dtype)}"
    return _from_memory(f, f.load(text, data), dtype)


def _scalar_align(f: FunctionEmitter, buffer: Buffer, index: PrimExpr) -> int:
    """Return the alignment in bytes of an element, by which LLVM joins accesses to vectors."""
    dialect, nbytes = f.module.dialect, _align(buffer.dtype)
    return dialect.alignment(index, nbytes) if dialect.needs_alignment else nbytes


def _vector_align(f: FunctionEmitter, buffer: Buffer, index: PrimExpr) -> int:
    """Return the alignment in bytes of lanes side by side."""
    dialect, nbytes = f.module.dialect, _align(buffer.dtype)
    if not dialect.needs_alignment:
        return nbytes
    linear = linear_lanes(f, index)
    return nbytes if linear is None else dialect.alignment(linear[0], nbytes)


def _goes_lane_by_lane(f: FunctionEmitter, index: PrimExpr, mask: str) -> bool:
    """Say whether no instruction accesses lanes under a mask, or at these distances."""
    if f.module.dialect.has_gathers:
        return False
    linear = linear_lanes(f, index)
    return bool(mask) or linear is None or linear[1] not in (0, 1, -1)


def _is_inside(buffer: Buffer, index: PrimExpr) -> bool:
    """Return True if an index is a constant within the bounds of a buffer of constant shape."""
    size = buffer.shape[0]
    return type(index) is IntImm and type(size) is IntImm and 0 <= index.value < size.value


def _any(f: FunctionEmitter, mask: str, lanes: int) -> str:
    return f.call_intrinsic(f"llvm.vector.reduce.or.v{lanes}i1", "i1", [(f"<{lanes} x i1>", mask)])


def _load_masked(f: FunctionEmitter, place: Typed, dtype: DataType, mask: str) -> str:
    kind = memory_type(dtype)
    operands = [place, ("i32", str(_align(dtype))), _mask(dtype, mask), (kind, "zeroinitializer")]
    name = _masked_name(("load", "gather"), place, dtype)
    return _from_memory(f, f.call_intrinsic(name, kind, operands), dtype)


def _store_masked(f: FunctionEmitter, value: str, place: Typed, dtype: DataType, mask: str) -> None:
    stored = (memory_type(dtype), _to_memory(f, value, dtype))
    operands = [stored, place, ("i32", str(_align(dtype))), _mask(dtype, mask)]
    f.call_intrinsic(_masked_name(("store", "scatter"), place, dtype), "void", operands)


def _mask(dtype: DataType, mask: str) -> Typed:
    return f"<{dtype.lanes} x i1>", mask or "splat (i1 true)"


def _masked_name(names: tuple[str, str], place: Typed, dtype: DataType) -> str:
    """Return the intrinsic for contiguous lanes, or for lanes with separate addresses."""
    stored = DataType("int8").with_lanes(dtype.lanes) if dtype.is_bool else dtype
    is_one = place[0][0] != "<"
    places = "p0" if is_one else f"v{place[0][1:].split()[0]}p0"
    return f"llvm.masked.{names[not is_one]}.{mangled(stored)}.{places}"


def _lanes(
    f: FunctionEmitter, buffer: Buffer, index: PrimExpr, linear: tuple[PrimExpr, int] | None
) -> Typed:
    """Write a separate address for each lane."""
    lanes = index.dtype.lanes
    if buffer.dtype.lanes > 1:
        f.fail(f"buffer {buffer.name} of {buffer.dtype} supports only contiguous vector indices")
    scalar = f.index_type
    wide = f"<{lanes} x {scalar}>"
    if linear is None:
        offsets = extend_index(f, f.expr(index), index.dtype)
    else:
        first, distance = linear
        steps = ", ".join(f"{scalar} {k * distance}" for k in range(lanes))
        offsets = f.op(f"add nsw {wide} {f.splat(f.index(first), scalar, lanes)}, <{steps}>")
    element = memory_type(buffer.dtype)
    pointer = f.pointer(buffer.data)
    addresses = f"getelementptr inbounds {element}, {pointer} {_data(f, buffer)}, {wide} {offsets}"
    return f"<{lanes} x {pointer}>", f.op(addresses)


def _reverse(f: FunctionEmitter, value: str, dtype: DataType) -> str:
    """Write the vector with its lanes in the opposite order."""
    return f.shuffle(register_type(dtype), value, "poison", reversed(range(dtype.lanes)))


def _single_addresses(f: FunctionEmitter, buffer: Buffer, index: PrimExpr) -> list[str]:
    """Write the address of each lane."""
    linear, lanes = linear_lanes(f, index), index.dtype.lanes
    if linear is not None:
        first, distance = f.index(linear[0]), linear[1]
        offsets = [f.pure(f"add nsw {f.index_type} {first}, {k * distance}") for k in range(lanes)]
    else:
        wide = extend_index(f, f.expr(index), index.dtype)
        vector = f"<{lanes} x {f.index_type}>"
        offsets = [f.pure(f"extractelement {vector} {wide}, i64 {k}") for k in range(lanes)]
    return [_address_at(f, buffer, offset) for offset in offsets]


def _load_singly(f: FunctionEmitter, node: BufferLoad, index: PrimExpr, mask: str) -> str:
    """Load the lanes that a mask selects one after another; the other lanes are 0."""
    dtype, element = node.dtype, register_type(node.dtype.element)
    value = "zeroinitializer"
    for k, address in enumerate(_single_addresses(f, node.buffer, index)):
        load = partial(_load_plain, f, address, dtype.element, node.buffer.data)
        one = f.emit_select(_lane(f, mask, k, dtype.lanes), element, load, "zeroinitializer")
        value = f.op(f"insertelement {register_type(dtype)} {value}, {element} {one}, i64 {k}")
    return value


def _lane(f: FunctionEmitter, mask: str, lane: int, lanes: int) -> str:
    return f.op(f"extractelement <{lanes} x i1> {mask}, i64 {lane}") if mask else "true"


# ------------------------------------------------------------------------------------------ stores


@emits_stmt(BufferStore)
def _store(f: FunctionEmitter, node: BufferStore) -> None:
    buffer, dtype = node.buffer, node.value.dtype
    f.written.add(buffer.data)
    index = flat_index(f, buffer, node.indices)
    if f.copies and _copied(f, node, index):
        f.forget_stored(buffer.data)
        return
    if index.dtype.lanes == 1:
        _store_scalar(f, node, index)
        return
    value = f.expr(node.value)
    f.vector_ops += 1
    mask = _predicate(f, node)
    if _goes_lane_by_lane(f, index, mask):
        _store_singly(f, buffer, index, value, mask)
        f.forget_stored(buffer.data)
        return
    distance, place = _vector_place(f, buffer, index, mask)
    if mask or distance is None:
        _store_masked(f, value, place, dtype, mask)
    else:
        align = _align(buffer.dtype) if distance != 1 else _vector_align(f, buffer, index)
        if distance == 0:
            # The lanes are written in order, so the last lane wins.
            kind, last = register_type(dtype), dtype.lanes - 1
            value, dtype = f.op(f"extractelement {kind} {value}, i64 {last}"), buffer.dtype
        elif distance == -1:
            value = _reverse(f, value, dtype)
        _store_plain(f, value, place[1], dtype, buffer.data, align)
    f.forget_stored(buffer.data)


def _copied(f: FunctionEmitter, node: BufferStore, index: PrimExpr) -> bool:
    """Write a store as an asynchronous copy if it is one of 4, 8 or 16 bytes that are aligned."""
    source, nbytes = node.value, node.value.dtype.bits * node.value.dtype.lanes // 8
    if not isinstance(source, BufferLoad) or node.predicate or source.predicate:
        return False
    scopes = memory_of(node.buffer.data), memory_of(source.buffer.data)
    if scopes != ("shared", "global") or nbytes not in _COPIES or node.buffer.dtype.lanes > 1:
        return False
    addresses = []
    for buffer, at in ((node.buffer, index), (source.buffer, source.indices[0])):
        first, step = (at, 1) if at.dtype.lanes == 1 else linear_lanes(f, at) or (at, None)
        unit = buffer.dtype.bits // 8
        if step != 1 or f.module.dialect.alignment(first, unit) % nbytes:
            return False
        addresses.append((f.pointer(buffer.data), element_address(f, buffer, first)))
    # Copies of 16 bytes may pass by the L1 cache.
    kind = "cg" if nbytes == 16 else "ca"
    f.module.dialect.asynchronous(f, f"{kind}.shared.global.{nbytes}", addresses)
    return True


def _store_singly(
    f: FunctionEmitter, buffer: Buffer, index: PrimExpr, value: str, mask: str
) -> None:
    """Store lane after lane those that a mask selects."""
    dtype, lanes = buffer.dtype, index.dtype.lanes
    kind = register_type(dtype.with_lanes(lanes))
    for k, address in enumerate(_single_addresses(f, buffer, index)):
        store, stored = f.new_label("store"), f.new_label("stored")
        f.branch_if(_lane(f, mask, k, lanes), store, stored)
        f.start(store)
        one = f.op(f"extractelement {kind} {value}, i64 {k}")
        _store_plain(f, one, address, dtype, buffer.data)
        f.branch(stored)
        f.start(stored)


def _store_scalar(f: FunctionEmitter, node: BufferStore, index: PrimExpr) -> None:
    then, done = "", ""
    if node.predicate is not None:
        then, done = f.new_label("store"), f.new_label("stored")
        f.branch_if(f.expr(node.predicate), then, done)
        f.start(then)
    value = f.expr(node.value)
    address = element_address(f, node.buffer, index)
    align = _scalar_align(f, node.buffer, index)
    _store_plain(f, value, address, node.value.dtype, node.buffer.data, align)
    f.forget_stored(node.buffer.data)
    if done:
        f.branch(done)
        f.start(done)


def _store_plain(
    f: FunctionEmitter, value: str, address: str, dtype: DataType, data: Var, align: int = 0
) -> None:
    stored = _to_memory(f, value, dtype)
    align = align or _align(dtype)
    f.do(f"store {memory_type(dtype)} {stored}, {f.pointer(data)} {address}, align {align}")


# -------------------------------------------------------------------------------------- allocations


@emits_stmt(Allocate)
def _allocate(f: FunctionEmitter, node: Allocate) -> None:
    f.module.dialect.allocate(f, node)


def allocate_for_cpu(f: FunctionEmitter, node: Allocate) -> None:
    """Write memory that lies in the stack frame if it is small and comes from the heap if not."""
    on_stack = stack_bytes(node, f.stack_bytes)
    if on_stack is None:
        allocate_on_heap(f, node, lambda: f.stmt(node.body))
    else:
        f.local_pointers.add(node.buffer_var)
        _allocate_on_stack(f, node, on_stack)


def _allocate_on_stack(f: FunctionEmitter, node: Allocate, nbytes: int) -> None:
    f.stack_bytes += nbytes
    element = memory_type(node.dtype.element)
    count = nbytes // max(1, node.dtype.element.nbytes)
    pointer = f.stack(f"[{max(1, count)} x {element}]", ALIGNMENT)
    f.values[node.buffer_var] = pointer
    if not f.in_loop:
        f.stmt(node.body)
        return
    # Declaring that the contents do not survive an iteration keeps them out of phi nodes.
    arguments = [("i64", str(nbytes)), ("ptr", pointer)]
    f.call_intrinsic("llvm.lifetime.start.p0", "void", arguments)
    f.stmt(node.body)
    f.call_intrinsic("llvm.lifetime.end.p0", "void", arguments)


_PAIR: Final = "{ i64, i1 }"


def _factors(extent: PrimExpr) -> list[PrimExpr]:
    if isinstance(extent, Mul):
        return [*_factors(extent.a), *_factors(extent.b)]
    return [extent]


def _dynamic_size(f: FunctionEmitter, node: Allocate) -> str:
    size = str(node.dtype.nbytes)
    for factor in [part for extent in node.extents for part in _factors(extent)]:
        # A product that overflows must not become a small allocation.
        pair = f.call_intrinsic(
            "llvm.smul.with.overflow.i64", _PAIR, [("i64", size), ("i64", f.index(factor))]
        )
        size = f.op(f"extractvalue {_PAIR} {pair}, 0")
        overflows = f.op(f"extractvalue {_PAIR} {pair}, 1")
        f.leave_unless(f.op(f"xor i1 {overflows}, true"), str(OUT_OF_MEMORY))
    f.leave_unless(f.op(f"icmp sle i64 {size}, {MOST_BYTES}"), str(OUT_OF_MEMORY))
    padded = f.op(f"add nsw i64 {size}, {ALIGNMENT - 1}")
    rounded = f.op(f"and i64 {padded}, {-ALIGNMENT}")
    return f.math_intrinsic("smax", INT64, rounded, str(ALIGNMENT))


def allocate_on_heap(f: FunctionEmitter, node: Allocate, write_body: Callable[[], None]) -> None:
    """Write an allocation around what `write_body` writes."""
    f.local_pointers.add(node.buffer_var)
    nbytes = constant_bytes(node)
    padded = None if nbytes is None else str(align(nbytes))
    size = padded or _dynamic_size(f, node)
    text = f.module.text
    text.declare("aligned_alloc", "declare noalias ptr @aligned_alloc(i64, i64) nounwind")
    text.declare("free", "declare void @free(ptr) nounwind")
    pointer = f.op(
        f"call noalias align {ALIGNMENT} ptr @aligned_alloc(i64 {ALIGNMENT}, i64 {size})"
    )
    f.leave_unless(f.op(f"icmp ne ptr {pointer}, null"), str(OUT_OF_MEMORY))
    f.values[node.buffer_var] = pointer
    f.cleanups.append(pointer)
    write_body()
    f.cleanups.pop()
    f.do(f"call void @free(ptr {pointer})")


@emits_stmt(AllocateConst)
def _allocate_const(f: FunctionEmitter, node: AllocateConst) -> None:
    data = node.data
    expected = node.dtype.element.to_numpy()
    if data.dtype != expected and data.dtype.itemsize != expected.itemsize:
        f.fail(
            f"the data of constant {node.buffer_var.name} has dtype {data.dtype}, its declared "
            f"dtype is {node.dtype}"
        )
    little = np.ascontiguousarray(data).astype(data.dtype.newbyteorder("<"), copy=False)
    f.values[node.buffer_var] = f.module.text.constant_bytes(little.tobytes(), ALIGNMENT)
    f.stmt(node.body)
