"""Tensor cores of NVIDIA's GPUs: the threads of a warp multiply two tiles of 16 x 16 numbers.

The tiles lie in fragments: registers of the 32 threads of a warp. A warp loads them from shared
memory, multiplies, and stores the sums. There are two families of instructions:

- `wmma` has fragments of the scopes `wmma.matrix_a`, `wmma.matrix_b` and `wmma.accumulator`. Only
  hardware knows which thread has which number.
- `mma` (`ldmatrix`, `mma.sync`) has fragments of the scope `warp`, whose dimensions are the thread
  and the number in it. Tiles of int8 are 32 numbers long. The intrinsics have the names of TVM, and
  the elements the places they have there, so that its traces replay. Hardware may have an element
  in another place: instructions that share a fragment agree on it.

An implementation is its definition inside of an attribute, `T.tensor_core(...)`, that names the
instruction, and for each operand the first element and the distance of rows. The definition is what
the interpreter runs and what analyses see; the attribute is what is compiled. Each thread of a warp
must come to the attribute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Final, NamedTuple

from tensorir.errors import IRValueError
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


def neighbours(dtype: str) -> int:
    """Return how many numbers one after the other a thread has in a fragment of scope `warp`."""
    return 4 if dtype == "s8" else 2


class _Tile(NamedTuple):
    """A parameter of an intrinsic: a tile of some rows and columns."""

    name: str
    dtype: str
    scope: str
    size: tuple[int, int] = (16, 16)
    is_turned: bool = False
    """True if the threads of a `warp` have neighbours in a column rather than in a row."""

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the buffer."""
        return (32, math.prod(self.size) // 32) if self.scope == _WARP else self.size

    def at(self, i: str, j: str) -> str:
        """Return the element in row i and column j of the tile, as text."""
        if self.scope == _WARP:
            run = neighbours(self.dtype)
            i, j = (j, i) if self.is_turned else (i, j)
            near, far = f"{i} // 8", f"{j} // {4 * run}"
            if self.is_turned:
                near, far = far, near
            number = f"{far} * {2 * run} + {near} * {run} + {j} % {run}"
            i, j = f"{i} % 8 * 4 + {j} % {4 * run} // {run}", number
        return f"{self.name}[{i}, {j}]"


def _intrinsic(
    tiles: Sequence[_Tile], axes: str, extents: Sequence[int], statement: str, instruction: str
) -> TensorIntrin:
    """Return an intrinsic with `tiles` as parameters, the last of which is written.

    `axes` are the kinds of the axes i, j and perhaps k of its only statement.
    """
    return TensorIntrin(
        *(_program(tiles, axes, extents, statement, name) for name in ("", instruction))
    )


def _program(
    tiles: Sequence[_Tile], axes: str, extents: Sequence[int], statement: str, instruction: str
) -> PrimFunc:
    """Return a description, or with an instruction the implementation."""
    names = "ijk"[: len(axes)]
    lines = [
        "@T.prim_func",
        f"def main({', '.join(f'{t.name.lower()}: T.handle' for t in tiles)}):",
    ]
    lines += [f"    {t.name.lower()}_row = T.int32()" for t in tiles]
    lines += [
        f"    {t.name} = T.match_buffer({t.name.lower()}, {t.shape}, {DTYPES[t.dtype]!r}, "
        f"scope={t.scope!r}, offset_factor=1, strides=[{t.name.lower()}_row, 1])"
        for t in tiles
    ]
    *read, written = (f"{t.name}[0:{t.shape[0]}, 0:{t.shape[1]}]" for t in tiles)
    if "R" in axes:
        read.insert(0, written)
    lines += [
        '    with T.block("root"):',
        f"        T.reads({', '.join(read)})",
        f"        T.writes({written})",
    ]
    indent = "        "
    if instruction:
        operands = [f"{t.name}[0, 0], {t.name.lower()}_row" for t in reversed(tiles)]
        call = f"T.tensor_core({instruction!r}, {', '.join(operands)})"
        lines.append(f'{indent}with T.attr(0, "tensor_core", {call}):')
        indent += "    "
    lines.append(f"{indent}for {', '.join(names)} in T.grid({', '.join(map(str, extents))}):")
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


_WARP: Final = "warp"
_SCOPES: Final = {"a": "wmma.matrix_a", "b": "wmma.matrix_b", "d": "wmma.accumulator"}


def _fragment(name: str, family: str, operand: str, layout: str, dtype: str) -> _Tile:
    """Return a tile of a factor ("a", "b") or of sums ("d") in a fragment."""
    if family == "wmma":
        return _Tile(name, dtype, _SCOPES[operand])
    if dtype != "s8":
        return _Tile(name, dtype, _WARP)
    is_turned = (operand, layout) == ("b", "row")
    return _Tile(name, dtype, _WARP, (32, 16) if is_turned else (16, 32), is_turned)


def _load(instruction: str, scope: str) -> TensorIntrin:
    family, _, operand, layout, dtype = instruction.split(".")
    held = _fragment("C", family, operand, layout, dtype)
    tiles = _Tile("A", dtype, scope, held.size), held
    return _intrinsic(tiles, "SS", held.size, f"{held.at('vi', 'vj')} = A[vi, vj]", instruction)


def _store(instruction: str, scope: str) -> TensorIntrin:
    family, _, operand, layout, dtype = instruction.split(".")
    held = _fragment("A", family, operand, layout, dtype)
    tiles = held, _Tile("C", dtype, scope)
    return _intrinsic(tiles, "SS", held.size, f"C[vi, vj] = {held.at('vi', 'vj')}", instruction)


def _fill(instruction: str, _: str) -> TensorIntrin:
    family, _, dtype = instruction.split(".")
    held = _fragment("C", family, "d", "row", dtype)
    statement = f"{held.at('vi', 'vj')} = T.{DTYPES[dtype]}(0)"
    return _intrinsic((held,), "SS", held.size, statement, instruction)


def _sync(instruction: str, _: str) -> TensorIntrin:
    family, _, left, right, dtype, sums = instruction.split(".")
    a = _fragment("A", family, "a", left, dtype)
    b = _fragment("B", family, "b", right, dtype)
    c = _fragment("C", family, "d", "row", sums)
    factors = [
        a.at("vi", "vk") if left == "row" else a.at("vk", "vi"),
        b.at("vk", "vj") if right == "row" else b.at("vj", "vk"),
    ]
    if sums != dtype:
        factors = [f'T.Cast("{DTYPES[sums]}", {factor})' for factor in factors]
    total = c.at("vi", "vj")
    statement = f"{total} = {total} + {' * '.join(factors)}"
    return _intrinsic((a, b, c), "SSR", (*c.size, max(a.size)), statement, instruction)


_KINDS: Final = (("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("s8", "s32"))
"""The dtypes of factors and of sums."""
_MAKERS: Final = {"load": _load, "store": _store, "fill": _fill, "mma": _sync}


def _intrinsics() -> Iterator[tuple[str, str, str]]:
    """Yield the name of each intrinsic, its instruction, and the scope of its tile in memory.

    The layout "col" of a factor in memory is that of its transpose.
    """
    shared = ("shared", "shared.dyn")
    layouts = [(operand, layout) for operand in "ab" for layout in ("row", "col")]
    for dtype, sums in _KINDS:
        short, wide = (name.replace("s", "i") for name in (dtype, sums))
        lacks = [("a", "col")] if dtype == "s8" else []
        yield f"wmma_fill_16x16x16_{sums}", f"wmma.fill.{sums}", ""
        yield f"mma_fill_16x16_{wide}", f"mma.fill.{sums}", ""
        for right in ("row", "col"):
            name = f"wmma_sync_16x16x16_{dtype}{dtype}{sums}{'_trans' * (right == 'col')}"
            yield name, f"wmma.mma.row.{right}.{dtype}.{sums}", ""
            for left in ("row",) if lacks else ("row", "col"):
                name = f"mma_{short}{short}{wide}{'_trans_a' * (left == 'col')}"
                name += "_trans_b" * (right == "col")
                yield name, f"mma.mma.{left}.{right}.{dtype}.{sums}", ""
        for scope in shared:
            place = scope.replace(".", "_")
            for operand, layout in layouts:
                which = operand + "_trans" * (layout == "col")
                instruction = f"load.{operand}.{layout}.{dtype}"
                if which != "a_trans":
                    name = f"wmma_load_16x16x16_{dtype}_{which}_{place}"
                    yield name, f"wmma.{instruction}", scope
                if (operand, layout) not in lacks:
                    name = f"mma_ldmatrix_{short}_{which}{place.removeprefix('shared')}"
                    yield name, f"mma.{instruction}", scope
        for scope in (*shared, "global"):
            place = scope.replace(".", "_")
            yield f"wmma_store_16x16x16_{sums}_{place}", f"wmma.store.d.row.{sums}", scope
            for end in ("", "simple_"):
                name = f"mma_store_16x16_{wide}_{place}_{end}"
                yield name, f"mma.store.d.row.{sums}", scope


INTRINSICS: Final[dict[str, Callable[[], TensorIntrin]]] = {}
"""The functions that create intrinsics, by name."""
INSTRUCTIONS: Final[dict[str, Callable[[], TensorIntrin]]] = {}
"""The function that creates an intrinsic, for each instruction by its name in `T.tensor_core`."""
for _name, _instruction, _scope in _intrinsics():
    INTRINSICS[_name] = partial(_MAKERS[_instruction.split(".")[1]], _instruction, _scope)
    INSTRUCTIONS.setdefault(_instruction, INTRINSICS[_name])


@cache
def definition_of(instruction: str) -> AttrStmt:
    """Return an instruction with its loops over tiles, which are buffers of 16 x 16 elements."""
    found = statements(INSTRUCTIONS[instruction]().impl.body)
    return next(node for node in found if isinstance(node, AttrStmt))


def get_mma_intrin_group(
    load_scope: str,
    store_scope: str,
    a_dtype: str,
    b_dtype: str,
    out_dtype: str,
    trans_a: bool,
    trans_b: bool,
    not_use_mma_store_intrinic: bool = True,
    store_to_smem_dtype: str | None = None,
) -> dict[str, str]:
    """Return the names of the intrinsics of the family `mma` that one product uses.

    The keys are `"init"`, `"load_a"`, `"load_b"`, `"compute"` and `"store"`. Factors are loaded
    from `load_scope`, and sums are stored to `store_scope`, with `store_to_smem_dtype` instead of
    `out_dtype` if given. Names and parameters are those of TVM. Raises IRValueError if there is no
    such intrinsic.
    """
    kinds = (a_dtype, b_dtype, out_dtype, store_to_smem_dtype or out_dtype)
    a, b, c, stored = (NAMES.get(dtype, dtype).replace("s", "i") for dtype in kinds)
    load, place = load_scope.removeprefix("shared").replace(".", "_"), store_scope.replace(".", "_")
    found = {
        "init": f"mma_fill_16x16_{c}",
        "load_a": f"mma_ldmatrix_{a}_a{'_trans' * trans_a}{load}",
        "load_b": f"mma_ldmatrix_{b}_b{'_trans' * trans_b}{load}",
        "compute": f"mma_{a}{b}{c}{'_trans_a' * trans_a}{'_trans_b' * trans_b}",
        "store": f"mma_store_16x16_{stored}_{place}_{'simple_' * not_use_mma_store_intrinic}",
    }
    for name in found.values():
        if name not in INTRINSICS:
            raise IRValueError(
                f"there is no intrinsic {name!r}; factors are float16, bfloat16 or int8 in shared "
                f"memory, and a left factor of int8 cannot be transposed"
            )
    return found
