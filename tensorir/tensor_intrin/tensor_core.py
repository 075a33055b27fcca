"""Tensor cores of NVIDIA's GPUs: the threads of a warp multiply two tiles of 16 x 16 numbers.

The tiles lie in fragments: registers of the 32 threads of a warp, in scopes `wmma.matrix_a`,
`wmma.matrix_b` and `wmma.accumulator`. A warp loads them from shared memory, multiplies, and stores
the sums; only hardware knows which thread has which number.

An implementation is its definition inside of an attribute, `T.tensor_core(...)`, that names the
instruction, and for each operand the first element and the distance of rows. The definition is what
the interpreter runs and what analyses see; the attribute is what is compiled. Each thread of a warp
must come to the attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

from tensorir.function import PrimFunc
from tensorir.nodes.stmt import AttrStmt
from tensorir.rewriting.visit import statements
from tensorir.script import parse
from tensorir.tensor_intrin import TensorIntrin

DTYPES: Final = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "s8": "int8",
    "s32": "int32",
}
"""The dtypes by the names that instructions have for them."""
NAMES: Final = {dtype: name for name, dtype in DTYPES.items()}
"""The names of instructions by dtype."""


class _Tile(NamedTuple):
    """A parameter of an intrinsic: a tile of 16 rows of 16 numbers."""

    name: str
    dtype: str
    scope: str


def _intrinsic(
    tiles: Sequence[_Tile], reads: str, axes: str, statement: str, instruction: str
) -> TensorIntrin:
    """Return an intrinsic with `tiles` as parameters, the last of which is written.

    `axes` are the kinds of the axes i, j and perhaps k of its only statement.
    """
    return TensorIntrin(*(_program(*given) for given in (
        (tiles, reads, axes, statement, ""), (tiles, reads, axes, statement, instruction)
    )))  # fmt: skip


def _program(
    tiles: Sequence[_Tile], reads: str, axes: str, statement: str, instruction: str
) -> PrimFunc:
    """Return a description, or with an instruction the implementation."""
    names = "ijk"[: len(axes)]
    lines = [
        "@T.prim_func",
        f"def main({', '.join(f'{t.name.lower()}: T.handle' for t in tiles)}):",
    ]
    lines += [f"    {t.name.lower()}_row = T.int32()" for t in tiles]
    lines += [
        f"    {t.name} = T.match_buffer({t.name.lower()}, (16, 16), {DTYPES[t.dtype]!r}, "
        f"scope={t.scope!r}, offset_factor=1, strides=[{t.name.lower()}_row, 1])"
        for t in tiles
    ]
    whole = [f"{name}[0:16, 0:16]" for name in reads]
    lines += [
        '    with T.block("root"):',
        f"        T.reads({', '.join(whole)})",
        f"        T.writes({tiles[-1].name}[0:16, 0:16])",
    ]
    indent = "        "
    if instruction:
        operands = [f"{t.name}[0, 0], {t.name.lower()}_row" for t in reversed(tiles)]
        call = f"T.tensor_core({instruction!r}, {', '.join(operands)})"
        lines.append(f'{indent}with T.attr(0, "tensor_core", {call}):')
        indent += "    "
    lines.append(f"{indent}for {', '.join(names)} in T.grid({', '.join(['16'] * len(axes))}):")
    if instruction:
        lines.append(f"{indent}    {statement.replace('v', '')}")
    else:
        bound = ", ".join(f"v{name}" for name in names)
        lines += [
            f'{indent}    with T.block("tile"):',
            f'{indent}        {bound} = T.axis.remap("{axes}", [{", ".join(names)}])',
            f"{indent}        {statement}",
        ]
    func = parse("\n".join(lines) + "\n")
    assert isinstance(func, PrimFunc)
    return func


_ACCUMULATOR: Final = "wmma.accumulator"


def _load(matrix: str, layout: str, dtype: str, scope: str) -> TensorIntrin:
    tiles = _Tile("A", dtype, scope), _Tile("C", dtype, f"wmma.matrix_{matrix}")
    instruction = f"wmma.load.{matrix}.{layout}.{dtype}"
    return _intrinsic(tiles, "A", "SS", "C[vi, vj] = A[vi, vj]", instruction)


def _store(dtype: str, scope: str) -> TensorIntrin:
    tiles = _Tile("A", dtype, _ACCUMULATOR), _Tile("C", dtype, scope)
    return _intrinsic(tiles, "A", "SS", "C[vi, vj] = A[vi, vj]", f"wmma.store.d.row.{dtype}")


def _fill(dtype: str) -> TensorIntrin:
    zero = f"T.{DTYPES[dtype]}(0)"
    tiles = (_Tile("C", dtype, _ACCUMULATOR),)
    return _intrinsic(tiles, "", "SS", f"C[vi, vj] = {zero}", f"wmma.fill.{dtype}")


def _sync(dtype: str, sums: str, layout: str) -> TensorIntrin:
    tiles = (
        _Tile("A", dtype, "wmma.matrix_a"),
        _Tile("B", dtype, "wmma.matrix_b"),
        _Tile("C", sums, _ACCUMULATOR),
    )
    factors = ["A[vi, vk]", "B[vk, vj]" if layout == "row" else "B[vj, vk]"]
    if sums != dtype:
        factors = [f'T.Cast("{DTYPES[sums]}", {factor})' for factor in factors]
    statement = f"C[vi, vj] = C[vi, vj] + {' * '.join(factors)}"
    return _intrinsic(tiles, "CAB", "SSR", statement, f"wmma.mma.row.{layout}.{dtype}.{sums}")


_KINDS: Final = (("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("s8", "s32"))
"""The dtypes of factors and of sums."""
INSTRUCTIONS: Final[dict[str, Callable[[], TensorIntrin]]] = {
    name: create
    for dtype, sums in _KINDS
    for name, create in (
        (f"wmma.load.a.row.{dtype}", partial(_load, "a", "row", dtype, "shared")),
        (f"wmma.load.b.row.{dtype}", partial(_load, "b", "row", dtype, "shared")),
        (f"wmma.load.b.col.{dtype}", partial(_load, "b", "col", dtype, "shared")),
        (f"wmma.mma.row.row.{dtype}.{sums}", partial(_sync, dtype, sums, "row")),
        (f"wmma.mma.row.col.{dtype}.{sums}", partial(_sync, dtype, sums, "col")),
        (f"wmma.fill.{sums}", partial(_fill, sums)),
        (f"wmma.store.d.row.{sums}", partial(_store, sums, "shared")),
    )
}
"""The function that creates an intrinsic, for each instruction by its name in `T.tensor_core`."""


@cache
def definition_of(instruction: str) -> AttrStmt:
    """Return an instruction with its loops over tiles, which are buffers of 16 x 16 elements."""
    found = statements(INSTRUCTIONS[instruction]().impl.body)
    return next(node for node in found if isinstance(node, AttrStmt))


_SIZE: Final = "16x16x16"
_LAYOUTS: Final = (("", "row"), ("_trans", "col"))
_SHARED: Final = (("shared", "shared"), ("shared_dyn", "shared.dyn"))


def _table() -> dict[str, Callable[[], TensorIntrin]]:
    table: dict[str, Callable[[], Any]] = {}
    for dtype, sums in _KINDS:
        for suffix, layout in _LAYOUTS:
            name = f"wmma_sync_{_SIZE}_{dtype}{dtype}{sums}{suffix}"
            table[name] = partial(_sync, dtype, sums, layout)
            for place, scope in _SHARED:
                name = f"wmma_load_{_SIZE}_{dtype}_b{suffix}_{place}"
                table[name] = partial(_load, "b", layout, dtype, scope)
                table[f"wmma_load_{_SIZE}_{dtype}_a_{place}"] = partial(
                    _load, "a", "row", dtype, scope
                )
        table[f"wmma_fill_{_SIZE}_{sums}"] = partial(_fill, sums)
        for place, scope in (*_SHARED, ("global", "global")):
            table[f"wmma_store_{_SIZE}_{sums}_{place}"] = partial(_store, sums, scope)
    return table


INTRINSICS: Final[dict[str, Callable[[], TensorIntrin]]] = _table()
"""The functions that create intrinsics, by name."""
