"""Transposing tiles in registers that are read or written column by column.

Unrolled statements read or write a small matrix column by column if each of their vectors has one
element of each of several rows, next to the elements of the following statement. Its rows lie
contiguously in memory: they are loaded or stored as vectors, and shuffles make columns of rows or
rows of columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from codegen.lower.contiguous_accesses import instructions_to_load, lane_of, strided_ramp
from codegen.lower.indices import plus, split_constant
from codegen.lower.loop_accesses import Aliasing, Reordering
from codegen.lower.rewriters import SharedRewriter, StatementRewriter
from codegen.lower.transpose import columns_of, interleave, rows_of
from codegen.lower.widen import may_load
from codegen.target import Target, as_target
from tensorir.arith.terms import expr_key
from tensorir.function import PrimFunc
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, Call, IntImm, PrimExpr, Ramp, Var
from tensorir.nodes.intrin import Op
from tensorir.nodes.ops import const
from tensorir.rewriting.visit import children

_MOST_INTERLEAVED: Final = 4
"""The maximum number of interleaved columns that are stored as vectors, unless it is a power of
two.
"""
_CLOSED: Final = frozenset({e.Let, e.And, e.Or})
_CLOSED_CALLS: Final = frozenset({Op.get("if_then_else"), Op.get("address_of")})
"""Expressions whose loads may be conditional, depend on a binding, or have no plain form."""


def transpose_tiles(func: PrimFunc) -> PrimFunc:
    """Load and store small matrices by rows where successive statements access them by columns.

    Before: B[Ramp(j, 1, 2)] = A[Ramp(j, n, 2)]; B[Ramp(j + 8, 1, 2)] = A[Ramp(j + 1, n, 2)]
    After:  let row = A[Ramp(j, 1, 2)], row_1 = A[Ramp(j + n, 1, 2)]:
            let mix = Shuffle([row, row_1], [0, 2]), mix_1 = Shuffle([row, row_1], [1, 3]):
            B[Ramp(j, 1, 2)] = mix; B[Ramp(j + 8, 1, 2)] = mix_1

    A matrix has one row for each lane of the vectors. The number of columns is a power of two, at
    most the number of rows. Loads form a matrix if no statement of the sequence stores to their
    memory, and if rows need fewer instructions than columns in `contiguous_accesses`. Stores form a
    matrix if they may be delayed until the last one. If the distance between rows is the number of
    columns, the matrix is contiguous and is stored as a whole. Statements are ordered by the
    matrices that they load if they may be reordered. Masked accesses stay unchanged.
    """
    return func.with_body(_TransposeTiles(func, as_target(None))(func.body))


@dataclass(eq=False, slots=True)
class _Tile:
    """A matrix that is loaded by rows: the bindings of the rows, and the value of each column."""

    bindings: list[tuple[Var, PrimExpr]] = field(default_factory=list)
    columns: dict[BufferLoad, PrimExpr] = field(default_factory=dict)

    def bind(self, name: str, value: PrimExpr) -> Var:
        var = Var(name, value.dtype)
        self.bindings.append((var, value))
        return var

    def mix(self, value: PrimExpr) -> Var:
        return self.bind("mix", value)

    def around(self, body: s.Stmt) -> s.Stmt:
        """Return a statement in which the bindings hold."""
        for var, value in reversed(self.bindings):
            body = s.LetStmt(var, value, body)
        return body


@dataclass(eq=False, slots=True)
class _Step:
    """Statements that are written together.

    A single one, or the stores of all columns of a matrix.
    """

    stores: list[s.BufferStore]
    tiles: tuple[_Tile, ...]
    """The matrices from which they load."""


class _TransposeTiles(StatementRewriter):
    def __init__(self, func: PrimFunc, target: Target) -> None:
        self._target = target
        self._aliasing = Aliasing(func)
        self._strided: dict[PrimExpr, tuple[BufferLoad, ...]] = {}

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        """Return a store, with its loads by tiles."""
        return self._run([node]) or node

    def rewrite_SeqStmt(self, node: s.SeqStmt) -> s.Stmt:  # noqa: N802
        parts: list[s.Stmt] = []
        for kind, group in groupby(node.seq, type):
            found: list[Any] = list(group)
            if kind is s.BufferStore:
                changed = self._run(found)
                parts += found if changed is None else [changed]
            else:
                parts += map(self, found)
        is_same = len(parts) == len(node.seq) and all(
            a is b for a, b in zip(parts, node.seq, strict=True)
        )
        return node if is_same else s.sequence(parts)

    def _run(self, stores: list[s.BufferStore]) -> s.Stmt | None:
        """Return successive stores rewritten by tiles, None if none was found."""
        loads = [self._loads_in(store.value) for store in stores]
        written = [_column(store.buffer, store.indices, store.predicate) for store in stores]
        if not any(loads) and not any(written):
            return None
        tiles = self._tiles({load: None for found in loads for load in found}, stores)
        by_load = {load: tile for tile in tiles for load in tile.columns}
        users = [
            dict.fromkeys(by_load[load] for load in found if load in by_load) for found in loads
        ]
        reordering = Reordering(stores, self._aliasing)
        steps = [
            _Step(
                [stores[k] for k in members],
                tuple(dict.fromkeys(tile for k in members for tile in users[k])),
            )
            for members in _group_stores(stores, written, reordering)
        ]
        if not tiles and len(steps) == len(stores):
            return None
        if len(tiles) > 1 and reordering.may_permute(0, len(stores) - 1):
            numbers = {tile: number for number, tile in enumerate(tiles)}
            steps.sort(key=lambda step: min((numbers[tile] for tile in step.tiles), default=-1))
        columns = {load: tile.columns[load] for load, tile in by_load.items()}
        return _nest(steps, _Columns(columns))

    def _loads_in(self, value: PrimExpr) -> tuple[BufferLoad, ...]:
        """Return the columns that a value loads unconditionally."""
        known = self._strided.get(value)
        if known is not None:
            return known
        kind = type(value)
        found: tuple[BufferLoad, ...] = ()
        if kind not in _CLOSED and not (kind is Call and value.op in _CLOSED_CALLS):  # type: ignore[attr-defined]
            for part in children(value):
                found += self._loads_in(part)  # type: ignore[arg-type]
        if isinstance(value, BufferLoad) and _column(value.buffer, value.indices, value.predicate):
            found += (value,)
        self._strided[value] = found
        return found

    # ------------------------------------------------------------------------------------- loading

    def _tiles(self, loads: dict[BufferLoad, None], stores: list[s.BufferStore]) -> list[_Tile]:
        """Return the matrices that loads of these statements form."""
        stored = {store.buffer.data for store in stores}
        groups: dict[Any, dict[int, list[BufferLoad]]] = {}
        for load in loads:
            column = _column(load.buffer, load.indices, None)
            assert column is not None
            if not self._aliasing.may_overlap({load.buffer.data}, stored):
                key = (load.buffer.data, load.dtype, *column.key)
                groups.setdefault(key, {}).setdefault(column.offset, []).append(load)
        made = []
        for by_offset in groups.values():
            most = next(iter(by_offset.values()))[0].dtype.lanes
            for offsets in _matrices(sorted(by_offset), most):
                tile = self._tile([by_offset[offset] for offset in offsets])
                if tile is not None:
                    made.append(tile)
        return made

    def _tile(self, columns: list[list[BufferLoad]]) -> _Tile | None:
        """Return the matrix of some columns, of which each may be loaded several times."""
        first = columns[0][0]
        ramp = strided_ramp(first.buffer, first.indices)
        assert ramp is not None
        tile, width = _Tile(), len(columns)
        rows = [
            tile.bind("row", BufferLoad(first.buffer, (_run_from(lane_of(ramp, k), width),)))
            for k in range(ramp.lanes)
        ]
        one_by_one = width * instructions_to_load(ramp, first.buffer.dtype, self._target)
        made = columns_of(rows, tile.mix)
        if len(tile.bindings) >= one_by_one:
            return None
        for loads, column in zip(columns, made, strict=True):
            tile.columns.update(dict.fromkeys(loads, column))
        return tile


# ----------------------------------------------------------------------------------------- columns


@dataclass(frozen=True, slots=True)
class _Column:
    """One element of each of some rows.

    Columns with the same key differ by their position in the row.
    """

    ramp: Ramp
    key: tuple[Any, ...]
    offset: int


def _column(
    buffer: Buffer, indices: tuple[PrimExpr, ...], predicate: PrimExpr | None
) -> _Column | None:
    if indices[0].dtype.lanes == 1 or predicate is not None or buffer.dtype.is_bool:
        return None
    ramp = strided_ramp(buffer, indices)
    if ramp is None or ramp.lanes & (ramp.lanes - 1) or may_load(ramp):
        return None
    base, offset = split_constant(ramp.base)
    key = (None if base is None else expr_key(base), expr_key(ramp.stride), ramp.lanes)
    return _Column(ramp, key, offset)


def _matrices(offsets: list[int], most: int) -> Iterator[list[int]]:
    """Yield the columns of each matrix.

    They are adjacent, and their number is a power of two up to `most`.
    """
    for run in _consecutive(offsets):
        while len(run) > 1:
            width = min(most, 1 << (len(run).bit_length() - 1))
            yield run[:width]
            run = run[width:]


def _consecutive(offsets: list[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and runs[-1][-1] + 1 == offset:
            runs[-1].append(offset)
        else:
            runs.append([offset])
    return runs


def _run_from(first: PrimExpr, length: int) -> PrimExpr:
    return Ramp(first, const(1, first.dtype), length)


# ----------------------------------------------------------------------------------------- storing


def _group_stores(
    stores: list[s.BufferStore], written: list[_Column | None], reordering: Reordering
) -> list[list[int]]:
    """Return the stores in order, with the stores of a matrix grouped at the last of them."""
    groups: dict[Any, dict[int, list[int]]] = {}
    for k, column in enumerate(written):
        if column is not None:
            key = (stores[k].buffer.data, stores[k].buffer.dtype, *column.key)
            groups.setdefault(key, {}).setdefault(column.offset, []).append(k)
    steps = {k: [k] for k in range(len(stores))}
    for by_offset in groups.values():
        column = written[next(iter(by_offset.values()))[0]]
        assert column is not None
        stride = column.ramp.stride
        if type(stride) is not IntImm or any(len(found) > 1 for found in by_offset.values()):
            continue
        for offsets in _stored_matrices(sorted(by_offset), stride.value, column.ramp.lanes):
            members = [by_offset[offset][0] for offset in offsets]
            if reordering.may_permute(min(members), max(members)):
                for k in members:
                    del steps[k]
                steps[max(members)] = members
    return [steps[k] for k in sorted(steps)]


def _stored_matrices(offsets: list[int], stride: int, lanes: int) -> Iterator[list[int]]:
    """Yield the columns of each matrix, whose rows do not overlap."""
    if stride <= min(lanes, _MOST_INTERLEAVED):
        for run in _consecutive(offsets):
            for start in range(0, len(run) - stride + 1, stride):
                yield run[start : start + stride]
    else:
        yield from _matrices(offsets, min(lanes, stride))


def _emit_stores(step: list[s.BufferStore]) -> s.Stmt:
    """Return a single store, or the stores of a matrix by rows."""
    if len(step) == 1:
        return step[0]
    first = step[0]
    ramp = strided_ramp(first.buffer, first.indices)
    assert ramp is not None
    tile = _Tile()
    columns = [tile.bind("column", store.value) for store in step]
    if type(ramp.stride) is IntImm and ramp.stride.value == len(step):
        vectors = interleave(columns, tile.mix)
        starts = [plus(ramp.base, k * ramp.lanes) for k in range(len(step))]
    else:
        vectors = rows_of(columns, tile.mix)
        starts = [lane_of(ramp, k) for k in range(ramp.lanes)]
    return tile.around(
        s.sequence(
            [
                s.BufferStore(first.buffer, vector, (_run_from(start, vector.dtype.lanes),))
                for start, vector in zip(starts, vectors, strict=True)
            ]
        )
    )


# ---------------------------------------------------------------------------------------- in order


def _nest(steps: list[_Step], columns: _Columns, inside: frozenset[_Tile] = frozenset()) -> s.Stmt:
    """Return the steps in order, each matrix loaded from its first use to its last."""
    parts: list[s.Stmt] = []
    while steps:
        opened = [tile for tile in steps[0].tiles if tile not in inside]
        if not opened:
            parts.append(_emit_stores([columns(store) for store in steps[0].stores]))
            steps = steps[1:]
            continue
        last = _last_use(steps, inside)
        body = _nest(steps[: last + 1], columns, inside.union(opened))
        for tile in opened:
            body = tile.around(body)
        parts.append(body)
        steps = steps[last + 1 :]
    return s.sequence(parts)


def _last_use(steps: list[_Step], inside: frozenset[_Tile]) -> int:
    """Return the last step that uses a matrix of the first step or of a step in between."""
    last = place = 0
    while place <= last:
        for tile in steps[place].tiles:
            if tile not in inside:
                last = max(last, *(k for k, step in enumerate(steps) if tile in step.tiles))
        place += 1
    return last


class _Columns(SharedRewriter):
    """Replaces loads by the columns of matrices."""

    def __init__(self, columns: Mapping[Any, PrimExpr]) -> None:
        super().__init__()
        self._memo.update(columns)
