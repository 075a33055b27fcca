"""Instructions of NVIDIA's tensor cores, as LLVM's intrinsics.

A thread keeps its part of each tile of a fragment in registers. They are written as memory of the
thread, one tile after the other, which LLVM turns into registers once the number of each tile is a
constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from codegen.emit.context import FunctionEmitter
from codegen.emit.memory import element_address, flat_index
from codegen.emit.parallel import define_counter
from codegen.lower.thread_axes import LANES
from codegen.target.gpu import WARP
from codegen.target.tensor_cores import (
    OPERANDS,
    REGISTERS,
    SIDE,
    is_turned,
    place,
    registers_of,
    uses_ldmatrix,
)
from tensorir.arith.analyzer import Analyzer
from tensorir.memory.storage_scopes import scope_of
from tensorir.nodes.expr import BufferLoad, Call, IntImm, PrimExpr, StringImm, Var
from tensorir.nodes.ops import add, const, floordiv, floormod, mul
from tensorir.nodes.stmt import Allocate
from tensorir.tensor_intrin.tensor_core import neighbours

_SHAPE: Final = "m16n16k16"
_ALIGNMENT: Final = 16
_Registers = list[tuple[str, str]]
"""Types and values."""
_Tiles = list[tuple[PrimExpr, PrimExpr]]
"""The first element of each tile, and the distance of its rows."""
_Known = Mapping[tuple[str, str], tuple[str, int]]
"""The registers of a family of instructions."""


def allocate_fragments(f: FunctionEmitter, node: Allocate, count: int) -> None:
    """Write the memory of a thread for fragments with `count` elements in a warp, and its body."""
    scope = scope_of(node.buffer_var)
    registers = registers_of(scope, node.dtype, count)
    if not registers:
        f.fail(
            f"{node.buffer_var.name} has {count} elements of {node.dtype} in scope {scope}; tensor "
            f"cores have tiles of {SIDE} x {SIDE} float16, bfloat16, int8, and sums"
        )
    array = f"[{registers} x i32]"
    f.values[node.buffer_var] = f.stack(array, _ALIGNMENT)
    f.local_pointers.add(node.buffer_var)
    f.stmt(node.body)


def emit_tensor_core(f: FunctionEmitter, node: Call) -> None:
    """Write the intrinsics that compute the instruction of a `T.tensor_core`."""
    name, *operands = node.args
    assert isinstance(name, StringImm)
    tiles = list(zip(operands[::2], operands[1::2], strict=True))
    family, kind, *rest = name.value.split(".")
    known = REGISTERS[family]
    if kind == "fill":
        register, count = known["d", rest[0]]
        _put(f, tiles[0], [(register, "zeroinitializer")] * count)
    else:
        _EMITTERS[family, kind](f, tiles, rest, known)


def _load(f: FunctionEmitter, tiles: _Tiles, rest: list[str], known: _Known) -> None:
    matrix, layout, dtype = rest
    space, address, row = _memory(f, *tiles[1])
    full = f"llvm.nvvm.wmma.{_SHAPE}.load.{matrix}.{layout}.stride.{dtype}.{space}"
    _put(f, tiles[0], _results(f, full, known[matrix, dtype], [address, row]))


def _store(f: FunctionEmitter, tiles: _Tiles, rest: list[str], known: _Known) -> None:
    space, address, row = _memory(f, *tiles[0])
    full = f"llvm.nvvm.wmma.{_SHAPE}.store.d.row.stride.{rest[-1]}.{space}"
    values = _taken(f, tiles[1], known["d", rest[-1]])
    f.call_intrinsic(full, "void", [address, *values, row])
    f.forget_loads()


def _multiply(f: FunctionEmitter, tiles: _Tiles, rest: list[str], known: _Known) -> None:
    a_layout, b_layout, dtype, sums = rest
    c, b, a = tiles
    full = f"llvm.nvvm.wmma.{_SHAPE}.mma.{a_layout}.{b_layout}.{_types(dtype, sums)}"
    values = [
        *_taken(f, a, known["a", dtype]),
        *_taken(f, b, known["b", dtype]),
        *_taken(f, c, known["d", sums]),
    ]
    _put(f, c, _results(f, full, known["d", sums], values))


def _types(dtype: str, sums: str) -> str:
    """Return the dtypes in the name of a product: only those of float16 have several for sums."""
    return f"{sums}.{sums}" if dtype == "f16" else dtype


# ------------------------------------------------------------------------------ ldmatrix, mma.sync


def _load_places(f: FunctionEmitter, tiles: _Tiles, rest: list[str], known: _Known) -> None:
    """Write a load of a factor for `mma.sync`."""
    matrix, layout, dtype = rest
    register, count = known[matrix, dtype]
    lane, run = _lane(f), neighbours(dtype)
    turned = is_turned(matrix, layout)
    if uses_ldmatrix(*rest):
        # Each thread has the address of a row of one of four matrices, of 8 rows of 16 bytes.
        outer, inner = place(matrix, dtype, const(0, lane.dtype), lane // 8 * run)
        at = (inner + lane % 8, outer) if turned else (outer + lane % 8, inner)
        trans = ".trans" if turned else ""
        full = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{trans}.b16.p3"
        pointer, address, _ = _element(f, tiles[1], *at)
        _put(f, tiles[0], _results(f, full, ("i32", count), [(pointer, address)]))
        return
    values = []
    for first in range(0, count * run, run):
        packed = "zeroinitializer"
        for number in range(first, first + run):
            at = place(matrix, dtype, lane, const(number, lane.dtype))
            pointer, address, _ = _element(f, tiles[1], *(reversed(at) if turned else at))
            element = f.op(f"load i8, {pointer} {address}")
            packed = f.op(f"insertelement <4 x i8> {packed}, i8 {element}, i32 {number - first}")
        values.append((register, f.op(f"bitcast <4 x i8> {packed} to i32")))
    _put(f, tiles[0], values)


def _store_places(f: FunctionEmitter, tiles: _Tiles, rest: list[str], known: _Known) -> None:
    """Write a store of sums of `mma.sync`: each thread stores its pairs of neighbours."""
    dtype = rest[-1]
    pairs = [value for _, value in _taken(f, tiles[1], known["d", dtype])]
    kind, lane = known["d", dtype][0], _lane(f)
    if kind[0] != "<":  # a register has one element
        kind, singles, pairs = f"<2 x {kind}>", pairs, []
        for first, second in zip(singles[::2], singles[1::2], strict=True):
            pair = f.op(f"insertelement {kind} poison, {kind[5:-1]} {first}, i32 0")
            pairs.append(f.op(f"insertelement {kind} {pair}, {kind[5:-1]} {second}, i32 1"))
    for k, pair in enumerate(pairs):
        at = place("d", dtype, lane, const(2 * k, lane.dtype))
        pointer, address, alignment = _element(f, tiles[0], *at)
        f.do(f"store {kind} {pair}, {pointer} {address}, align {alignment}")
    f.forget_loads()


def _multiply_halves(f: FunctionEmitter, tiles: _Tiles, rest: list[str], known: _Known) -> None:
    """Write the two instructions `mma.sync` that make the 16 columns of a tile of sums."""
    _, _, dtype, sums = rest
    c, b, a = tiles
    left = _taken(f, a, known["a", dtype])
    register, count = known["d", sums]
    right, total = _taken(f, b, known["b", dtype]), _taken(f, c, (register, count))
    full = f"llvm.nvvm.mma.m16n8k{32 if dtype == 's8' else 16}.row.col.{_types(dtype, sums)}"
    values = []
    for half in (0, 1):
        factors = right[half * 2 : half * 2 + 2]
        own = total[half * count // 2 : (half + 1) * count // 2]
        values += _results(f, full, (register, count // 2), [*left, *factors, *own])
    _put(f, c, values)


def _lane(f: FunctionEmitter) -> Var:
    """Return a variable for the number of the thread in its warp."""
    lane = Var("lane", f.index_dtype)
    define_counter(f, lane, f.module.dialect.thread_index(f, LANES, WARP), (0, WARP - 1))
    return lane


def _element(
    f: FunctionEmitter, tile: tuple[PrimExpr, PrimExpr], below: PrimExpr, beside: PrimExpr
) -> tuple[str, str, int]:
    """Write the address of an element of a tile in memory; return its type, and the alignment."""
    first, row = tile
    assert isinstance(first, BufferLoad)
    buffer, (start,) = first.buffer, first.indices
    f.written.add(buffer.data)
    kind = start.dtype
    index = add(start, add(mul(below.astype(kind), row.astype(kind)), beside.astype(kind)))
    alignment = f.module.dialect.alignment(index, buffer.dtype.nbytes)
    return f.pointer(buffer.data), element_address(f, buffer, index), alignment


_EMITTERS: Final = {
    ("wmma", "load"): _load,
    ("wmma", "store"): _store,
    ("wmma", "mma"): _multiply,
    ("mma", "load"): _load_places,
    ("mma", "store"): _store_places,
    ("mma", "mma"): _multiply_halves,
}


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
    space = "p3" if "addrspace(3)" in kind else "p1"
    address = element_address(f, buffer, flat_index(f, buffer, first.indices))
    distance = f.index(row)
    if f.index_type != "i32" and not isinstance(row, IntImm):
        distance = f.op(f"trunc {f.index_type} {distance} to i32")
    return space, (kind, address), ("i32", distance)


def _registers(
    f: FunctionEmitter, tile: tuple[PrimExpr, PrimExpr], registers: tuple[str, int]
) -> list[tuple[str, str]]:
    """Write the addresses of the registers of a tile, and return them with their type."""
    first, row = tile
    assert isinstance(first, BufferLoad)
    (index,) = first.indices
    number = Analyzer().simplify(_tile_number(scope_of(first.buffer.data), index, row))
    kind, count = registers
    start = f.index(number)
    pointer = f.values[first.buffer.data]
    tiles = f"[{count} x i32]"
    return [
        (kind, f.op(f"getelementptr {tiles}, ptr {pointer}, {f.index_type} {start}, i64 {k}"))
        for k in range(count)
    ]


def _tile_number(scope: str, index: PrimExpr, row: PrimExpr) -> PrimExpr:
    """Return the number of the tile that begins at an index, in rows of tiles."""
    side = const(SIDE, index.dtype)
    row = row.astype(index.dtype)
    if scope not in OPERANDS:
        return index // (row * WARP)
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
