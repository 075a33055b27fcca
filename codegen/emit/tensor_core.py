"""Instructions of NVIDIA's tensor cores, as LLVM's intrinsics.

A thread keeps its part of each tile of a fragment in registers. They are written as memory of the
thread, one tile after the other, which LLVM turns into registers once the number of each tile is a
constant.
"""

from __future__ import annotations

from typing import Final

from codegen.emit.context import FunctionEmitter
from codegen.emit.memory import element_address, flat_index
from codegen.lower.thread_axes import scope_of
from codegen.target.tensor_cores import OPERANDS, REGISTERS, SIDE
from tensorir.arith.analyzer import Analyzer
from tensorir.nodes.expr import BufferLoad, Call, IntImm, PrimExpr, StringImm
from tensorir.nodes.ops import add, const, floordiv, floormod, mul
from tensorir.nodes.stmt import Allocate
from tensorir.tensor_intrin.tensor_core import NAMES

_SHAPE: Final = "m16n16k16"
_ALIGNMENT: Final = 16
_Registers = list[tuple[str, str]]
"""Types and values."""


def allocate_fragments(f: FunctionEmitter, node: Allocate, count: int) -> None:
    """Write the memory of a thread for fragments with `count` elements in a warp, and its body."""
    scope, name = scope_of(node.buffer_var), NAMES.get(str(node.dtype))
    _, registers = REGISTERS.get((OPERANDS.get(scope, ""), name or ""), ("", 0))
    if not registers or count % SIDE**2:
        f.fail(
            f"{node.buffer_var.name} has {count} elements of {node.dtype} in scope {scope}; tensor "
            f"cores have tiles of {SIDE} x {SIDE} float16, bfloat16, int8, and sums"
        )
    array = f"[{count // SIDE**2 * registers} x i32]"
    f.values[node.buffer_var] = f.stack(array, _ALIGNMENT)
    f.local_pointers.add(node.buffer_var)
    f.stmt(node.body)


def emit_tensor_core(f: FunctionEmitter, node: Call) -> None:
    """Write the intrinsic that a `T.tensor_core` names."""
    name, *operands = node.args
    assert isinstance(name, StringImm)
    _, kind, *rest = name.value.split(".")
    tiles = list(zip(operands[::2], operands[1::2], strict=True))
    if kind == "fill":
        register, count = REGISTERS["d", rest[0]]
        _put(f, tiles[0], [(register, "zeroinitializer")] * count)
    elif kind == "load":
        matrix, layout, dtype = rest
        place, address, row = _memory(f, *tiles[1])
        full = f"llvm.nvvm.wmma.{_SHAPE}.load.{matrix}.{layout}.stride.{dtype}.{place}"
        _put(f, tiles[0], _results(f, full, REGISTERS[matrix, dtype], [address, row]))
    elif kind == "store":
        place, address, row = _memory(f, *tiles[0])
        full = f"llvm.nvvm.wmma.{_SHAPE}.store.d.row.stride.{rest[-1]}.{place}"
        values = _taken(f, tiles[1], REGISTERS["d", rest[-1]])
        f.call_intrinsic(full, "void", [address, *values, row])
        f.forget_loads()
    else:
        a_layout, b_layout, dtype, sums = rest
        c, b, a = tiles
        # Sums have one type for each type of factors other than float16.
        types = f"{sums}.{sums}" if dtype == "f16" else dtype
        full = f"llvm.nvvm.wmma.{_SHAPE}.mma.{a_layout}.{b_layout}.{types}"
        values = [
            *_taken(f, a, REGISTERS["a", dtype]),
            *_taken(f, b, REGISTERS["b", dtype]),
            *_taken(f, c, REGISTERS["d", sums]),
        ]
        _put(f, c, _results(f, full, REGISTERS["d", sums], values))


def _results(
    f: FunctionEmitter, name: str, registers: tuple[str, int], arguments: _Registers
) -> _Registers:
    kind, count = registers
    results = f"{{ {', '.join([kind] * count)} }}"
    found = f.call_intrinsic(name, results, arguments)
    return [(kind, f.op(f"extractvalue {results} {found}, {k}")) for k in range(count)]


def _memory(
    f: FunctionEmitter, first: PrimExpr, row: PrimExpr
) -> tuple[str, tuple[str, str], tuple[str, str]]:
    """Write the address of a tile and the distance of its rows; return LLVM's suffix as well."""
    assert isinstance(first, BufferLoad)
    buffer = first.buffer
    f.written.add(buffer.data)
    kind = f.pointer(buffer.data)
    place = "p3" if "addrspace(3)" in kind else "p1"
    address = element_address(f, buffer, flat_index(f, buffer, first.indices))
    distance = f.index(row)
    if f.index_type != "i32" and not isinstance(row, IntImm):
        distance = f.op(f"trunc {f.index_type} {distance} to i32")
    return place, (kind, address), ("i32", distance)


def _registers(
    f: FunctionEmitter, tile: tuple[PrimExpr, PrimExpr], registers: tuple[str, int]
) -> list[tuple[str, str]]:
    """Write the addresses of the registers of a tile, and return them with their type."""
    first, row = tile
    assert isinstance(first, BufferLoad)
    (index,) = first.indices
    number = Analyzer().simplify(_tile_number(index, row))
    kind, count = registers
    start = f.index(number)
    pointer = f.values[first.buffer.data]
    tiles = f"[{count} x i32]"
    return [
        (kind, f.op(f"getelementptr {tiles}, ptr {pointer}, {f.index_type} {start}, i64 {k}"))
        for k in range(count)
    ]


def _tile_number(index: PrimExpr, row: PrimExpr) -> PrimExpr:
    """Return the number of the tile that begins at an index, in rows of tiles."""
    side = const(SIDE, index.dtype)
    row = row.astype(index.dtype)
    below = mul(floordiv(floordiv(index, row), side), floordiv(row, side))
    return add(below, floordiv(floormod(index, row), side))


def _taken(
    f: FunctionEmitter, tile: tuple[PrimExpr, PrimExpr], registers: tuple[str, int]
) -> _Registers:
    return [
        (kind, f.op(f"load {kind}, ptr {address}, align 4"))
        for kind, address in _registers(f, tile, registers)
    ]


def _put(f: FunctionEmitter, tile: tuple[PrimExpr, PrimExpr], values: _Registers) -> None:
    places = _registers(f, tile, (values[0][0], len(values)))
    for (kind, value), (_, address) in zip(values, places, strict=True):
        f.do(f"store {kind} {value}, ptr {address}, align 4")
