"""Attention in one pass over keys and values (Vaswani et al., "Attention Is All You Need", 2017).

The scores of a tile of queries and a tile of keys stay in the caches: the softmax is computed
online, from the largest score and the sum so far (Milakov and Gimelshein, "Online normalizer
calculation for softmax", 2018), and rescales the result of earlier tiles (Dao et al.,
"FlashAttention", 2022). So the memory for any length is a few tiles for each core.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final, Literal

from tensorir import te
from tensorir.comparison.equal import expr_deep_equal
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import INT64, DataType
from tensorir.nodes.expr import EQ, IntImm, IterVar, PrimExpr
from tensorir.nodes.ops import (
    add,
    all_of,
    cast,
    ceildiv,
    compare,
    const,
    floordiv,
    floormod,
    infinity,
    max_,
    min_,
    select,
)
from tensorir.nodes.stmt import IfThenElse, Stmt
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor
from tensorir.topi.block_nests import Nests, at
from tensorir.topi.broadcast import broadcast_indices, broadcast_shape
from tensorir.topi.extents import (
    as_divisor,
    check_equal,
    check_floats,
    check_rank,
    known_extent,
)
from tensorir.topi.matmul import product_dtypes
from tensorir.topi.nn.key_tiles import LANES, KeyTiles, tile_length

_QUERIES: Final = 64
_SYMBOLIC_QUERIES: Final = 32
_KEYS: Final = 128
"""The most rows of a tile, measured on processors with 32 KiB in the first cache: fewer queries
read the keys more often, and more keys leave the second cache. A smaller tile wastes fewer rows if
the number of queries is unknown."""
_SINGLE_ROWS: Final = 8
"""If the number of queries is unknown, up to this many are computed one by one: a tile takes as
long as ten of them. With as many keys, the tiles of keys are small, too, and `LANES` queries are
faster one by one."""
_FEW_ROWS: Final = 4
"""With more rows, their partial sums are more than the keys."""
_ROW: Final = {"schedule_rule": "None"}
"""The annotation of reductions along rows: they need no design but the lanes that they have."""


@operator("nn.attention")
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None = None,
    scale: float | None = None,
    causal_mask: Literal["TopLeft", "BottomRight"] | None = None,
    window_size: int | None = None,
    softcap: float = 0.0,
    lengths: Tensor | None = None,
) -> Tensor:
    """Return `softmax(query @ key.T * scale + bias) @ value` for each head.

    `query[b, i, h, d]`, `key[b, j, h, d]` and `value[b, j, h, e]` give `[b, i, h, e]`. Keys and
    values may have fewer heads; then several heads of the query share one (grouped heads). `bias`
    broadcasts to `[b, h, i, j]`; a bool `bias` is a mask. `scale` is `1 / sqrt(d)` by default.
    `causal_mask` masks later positions, counted from the beginning or from the end, and
    `window_size` masks positions that are at least this distance before. `softcap` bounds the
    products by a tanh. Only the first `lengths[b]` keys and values of each sequence are used, and
    read, as in a cache that is not full. The result is 0 where all positions are masked. Sums of
    floats of 16 bits are float32.
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        check_rank(name, tensor, 4)
        check_floats(name, tensor)
    b, i, h, d = query.shape
    for name, tensor in (("key", key), ("value", value)):
        check_equal(tensor.shape[0], f"the batch of {name}", b, "that of query")
    check_equal(key.shape[3], "the depth of key", d, "that of query")
    check_equal(value.shape[1], "the length of value", key.shape[1], "that of key")
    check_equal(value.shape[2], "the number of heads of value", key.shape[2], "that of key")
    if window_size is not None and causal_mask is None:
        raise IRValueError("window_size needs a causal_mask: it counts back from a position")
    if scale is None:
        if not isinstance(d, IntImm) or d.value == 0:
            raise IRValueError(f"set scale: the depth of the heads, {d}, is not constant")
        scale = 1 / math.sqrt(d.value)
    if lengths is not None:
        check_rank("lengths", lengths, 1)
        check_equal(lengths.shape[0], "the number of lengths", b, "the batch of query")
        if not lengths.dtype.is_integral:
            raise IRTypeError(f"lengths must be integers, got {lengths.dtype}")
    if bias is not None:
        broadcast_shape((b, h, i, key.shape[1]), bias.shape)
    dtype, wide = product_dtypes(query, key, None)
    given = [tensor for tensor in (bias, lengths) if tensor is not None]
    group = _heads_per_group(h, key.shape[2])

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        rest = ins[3:]
        own_bias = None if bias is None else rest.pop(0)
        own_lengths = rest.pop(0) if rest else None
        program = _Attention(
            ins[0], ins[1], ins[2], outs[0], own_bias, own_lengths, group, scale, causal_mask,
            window_size, softcap, wide,
        )  # fmt: skip
        return program.statement()

    shape = [b, i, h, value.shape[3]]
    result = te.extern(
        shape, [query, key, value, *given], body, name="attention_tiles", dtype=dtype
    )
    assert isinstance(result, Tensor)
    return result


def _heads_per_group(heads: PrimExpr, shared: PrimExpr) -> int:
    """Return the number of heads that share one head.

    Raises IRValueError if the numbers do not match.
    """
    if not isinstance(heads, IntImm) or not isinstance(shared, IntImm):
        check_equal(shared, "the number of heads of key and value", heads, "that of query")
        return 1
    count, shared_count = known_extent(heads, "heads"), known_extent(shared, "heads")
    if shared_count < 1 or count % shared_count:
        raise IRValueError(
            f"the {count} heads of query cannot share the {shared_count} heads of key and value"
        )
    return count // shared_count


@dataclass(frozen=True)
class _Attention:
    """The loops of one call.

    A row is a position of a head. If a head has few positions, the heads that share keys are in
    one tile of rows.
    """

    query: Buffer
    key: Buffer
    value: Buffer
    result: Buffer
    bias: Buffer | None
    lengths: Buffer | None
    group: int
    scale: float
    causal_mask: str | None
    window_size: int | None
    softcap: float
    dtype: DataType

    @property
    def shares_keys(self) -> bool:
        """True if a tile has the rows of all heads that share keys."""
        positions = self.query.shape[1]
        return isinstance(positions, IntImm) and positions.value < _QUERIES

    @property
    def has_as_many_keys(self) -> bool:
        """True if there are as many keys as queries, whatever their number."""
        return expr_deep_equal(self.query.shape[1], self.key.shape[1])

    def statement(self) -> Stmt:
        """Return the loops, of which those over tiles of rows may run in any order."""
        heads, rows = self.query.shape[2], self.query.shape[1]
        if self.shares_keys:
            heads, rows = self.key.shape[2], rows * self.group
        if isinstance(rows, IntImm):
            count = max(1, -(-rows.value // _QUERIES))
            height = max(1, min(rows.value, tile_length(rows.value, count, 4)))
            return self._tiles("", heads, rows, height)
        most = LANES if self.has_as_many_keys else _SINGLE_ROWS
        return IfThenElse(
            rows <= const(most, rows.dtype),
            self._tiles("single_", heads, rows, 1),
            self._tiles("", heads, rows, _SYMBOLIC_QUERIES),
        )

    def _tiles(self, prefix: str, heads: PrimExpr, rows: PrimExpr, height: int) -> Stmt:
        """Return the loops over tiles of `height` rows; the names of blocks have a prefix."""
        buffers = [self.query, self.key, self.value, self.result, self.bias, self.lengths]
        visible = {b.data: b for b in buffers if b is not None}
        program = Nests(self.dtype, visible, prefix)

        def tile(nests: Nests, axes: Sequence[PrimExpr]) -> None:
            b, head, number = axes
            first = number * height
            _Tile(self, nests, b, head, first, height, cast(INT64, rows)).add()

        program.nest("attention", [self.query.shape[0], heads, ceildiv(rows, height)], tile)
        return program.body


@dataclass(frozen=True)
class _Tile:
    """A tile of rows."""

    call: _Attention
    nests: Nests
    batch: PrimExpr
    head: PrimExpr
    first: PrimExpr
    height: int
    rows: PrimExpr
    """The number of rows of all tiles."""

    @property
    def _may_end_early(self) -> bool:
        return self.height > 1 and (
            not isinstance(self.rows, IntImm) or self.rows.value % self.height > 0
        )

    def _query(self, i: PrimExpr, may_be_outside: bool = True) -> tuple[PrimExpr, PrimExpr]:
        """Return the position and the head of a row; for rows that do not exist, of the last."""
        row = self.first + i
        if self._may_end_early and may_be_outside:
            row = min_(row, self.rows - 1)
        if not self.call.shares_keys:
            return row, self.head
        count = cast(INT64, as_divisor(self.call.query.shape[1]))
        return floormod(row, count), self.head * self.call.group + floordiv(row, count)

    def add(self) -> None:
        """Add the loops over the tiles of keys, and around them what is done once."""
        call, nests, dtype = self.call, self.nests, self.call.dtype
        depth, width = call.query.shape[3], call.value.shape[3]
        keys = self._keys

        def scaled(i: PrimExpr, d: PrimExpr) -> PrimExpr:
            position, head = self._query(i)
            return cast(dtype, at(call.query, self.batch, position, head, d)) * const(
                call.scale, dtype
            )

        def divided(i: PrimExpr, e: PrimExpr) -> PrimExpr:
            zero = const(0, dtype)
            share = select(compare(EQ, at(sums, i), zero), zero, at(output, i, e) / at(sums, i))
            return cast(call.result.dtype, share)

        def place(i: PrimExpr, e: PrimExpr) -> tuple[PrimExpr, ...]:
            position, head = self._query(i, may_be_outside=False)
            return self.batch, position, head, e

        height = self.height
        queries = nests.compute("queries", [height, depth], scaled)
        largest = nests.compute("largest", [height], lambda i: -infinity(dtype))
        total = nests.compute("total", [height, keys.lanes], lambda i, c: const(0, dtype))
        output = nests.compute("output", [height, width], lambda i, e: const(0, dtype))
        start, count = self._range(keys)
        state = queries, largest, total, output

        def step(inside: Nests, axes: Sequence[PrimExpr]) -> None:
            self._step(inside, keys, (start + axes[0]) * keys.length, *state)

        nests.nest("tile_of_keys", [count], step, [IterVar.OPAQUE])
        sums = nests.reduce(
            "sums", [height], keys.lanes, add, 0, lambda i, c: at(total, i, c), _ROW
        )

        def exists(loops: Sequence[PrimExpr]) -> PrimExpr:
            return self.first + loops[0] < self.rows

        where = exists if self._may_end_early else None
        nests.store("result", call.result, divided, place, extents=[height, width], where=where)

    @property
    def _keys(self) -> KeyTiles:
        """The tiles of keys; if they are as many as the rows, single rows have few keys."""
        has_few = self.height == 1 and self.call.has_as_many_keys
        return KeyTiles.of(self.call.key.shape[1], LANES if has_few else _KEYS)

    @property
    def _length(self) -> PrimExpr:
        """The number of keys that are not masked by their length."""
        count, lengths = cast(INT64, self.call.key.shape[1]), self.call.lengths
        return count if lengths is None else min_(cast(INT64, at(lengths, self.batch)), count)

    def _last(self, position: PrimExpr) -> PrimExpr:
        """Return the last key that a position sees."""
        if self.call.causal_mask == "TopLeft":
            return position
        return position + self._length - cast(INT64, self.call.query.shape[1])

    def _range(self, keys: KeyTiles) -> tuple[PrimExpr, PrimExpr]:
        """Return the first tile of keys that a row of this tile sees, and the number of them."""
        end, start, zero = self._length, const(0, INT64), const(0, INT64)
        if self.call.causal_mask is not None:
            low, high = zero, cast(INT64, self.call.query.shape[1])
            if not self.call.shares_keys:
                low, high = self.first, min_(self.first + self.height, high)
            end = max_(min_(end, self._last(high)), zero)
            if self.call.window_size is not None:
                begin = self._last(low) + 1 - self.call.window_size
                start = floordiv(max_(begin, zero), keys.length)
        return start, max_(ceildiv(end, keys.length) - start, zero)

    def _step(
        self,
        nests: Nests,
        keys: KeyTiles,
        start: PrimExpr,
        queries: Buffer,
        largest: Buffer,
        total: Buffer,
        output: Buffer,
    ) -> None:
        """Add the keys from `start` on to the sums of the rows."""
        call, dtype, height = self.call, self.call.dtype, self.height
        shared = self.head if call.shares_keys else floordiv(self.head, call.group)
        begin, low = keys.begin(start), -infinity(dtype)

        def key(j: PrimExpr, d: PrimExpr) -> PrimExpr:
            return cast(dtype, at(call.key, self.batch, keys.row(begin + j), shared, d))

        products = self._products(nests, keys, queries, key)

        def score(i: PrimExpr, j: PrimExpr) -> PrimExpr:
            return self._score(at(products, i, j), i, begin + j, start)

        scores = nests.compute("scores", [height, keys.length], score)

        def best(i: PrimExpr, c: PrimExpr, j: PrimExpr) -> PrimExpr:
            return at(scores, i, j * keys.lanes + c)

        def share(i: PrimExpr, c: PrimExpr, j: PrimExpr) -> PrimExpr:
            return at(weights, i, j * keys.lanes + c)

        parts = [height, keys.lanes]
        steps = keys.length // keys.lanes
        best_in_lanes = nests.reduce("best_in_lanes", parts, steps, max_, -math.inf, best, _ROW)
        best_in_tile = nests.reduce(
            "best_in_tile", [height], keys.lanes, max_, -math.inf,
            lambda i, c: at(best_in_lanes, i, c), _ROW,
        )  # fmt: skip
        found = nests.compute(
            "found", [height], lambda i: max_(at(largest, i), at(best_in_tile, i))
        )
        # Before any key that is not masked, the weights are exp(-inf - 0).
        subtrahend = nests.compute(
            "subtrahend",
            [height],
            lambda i: select(compare(EQ, at(found, i), low), const(0, dtype), at(found, i)),
        )
        factor = nests.compute(
            "factor", [height], lambda i: te.exp(at(largest, i) - at(subtrahend, i))
        )
        nests.store("new_largest", largest, lambda i: at(found, i))
        weights = nests.compute(
            "weights",
            [height, keys.length],
            lambda i, j: te.exp(at(scores, i, j) - at(subtrahend, i)),
        )
        in_lanes = nests.reduce("sums_in_lanes", parts, steps, add, 0, share, _ROW)
        nests.store(
            "new_total", total, lambda i, c: at(total, i, c) * at(factor, i) + at(in_lanes, i, c)
        )
        sums = nests.reduce(
            "weighted",
            [height, call.value.shape[3]],
            keys.length,
            add,
            0,
            lambda i, e, j: (
                at(weights, i, j)
                * cast(dtype, at(call.value, self.batch, keys.row(begin + j), shared, e))
            ),
        )
        nests.store(
            "new_output", output, lambda i, e: at(output, i, e) * at(factor, i) + at(sums, i, e)
        )

    def _products(
        self,
        nests: Nests,
        keys: KeyTiles,
        queries: Buffer,
        key: Callable[[PrimExpr, PrimExpr], PrimExpr],
    ) -> Buffer:
        """Return the products `[i, j]` of rows and keys of a tile, from `key(j, d)`.

        Vectors are along the keys, which are transposed. A few rows read the keys where they are:
        vectors are along their depth, and partial sums are transposed instead, which are fewer.
        """
        depth = self.call.query.shape[3]
        shape = [self.height, keys.length]
        lanes = gcd(depth.value, LANES) if isinstance(depth, IntImm) else 1
        if self.height <= _FEW_ROWS and lanes > 1:
            steps = floordiv(depth, lanes)
            parts = nests.allocate("parts", [keys.length, self.height, lanes])

            def row(inside: Nests, axes: Sequence[PrimExpr]) -> None:
                (j,) = axes
                sums = inside.reduce(
                    "products_in_lanes", [self.height, lanes], steps, add, 0,
                    lambda i, c, d: at(queries, i, d * lanes + c) * key(j, d * lanes + c), _ROW,
                )  # fmt: skip
                inside.store(
                    "parts", parts, lambda i, c: at(sums, i, c), lambda i, c: (j, i, c),
                    extents=[self.height, lanes],
                )  # fmt: skip

            # One after the other, as processors prefetch them.
            nests.nest("row_of_keys", [keys.length], row)
            turned = nests.compute(
                "turned", [self.height, lanes, keys.length], lambda i, c, j: at(parts, j, i, c)
            )
            return nests.reduce(
                "products", shape, lanes, add, 0, lambda i, j, c: at(turned, i, c, j), _ROW
            )
        if keys.extent is not None:
            columns = nests.compute("columns", [depth, keys.length], lambda d, j: key(j, d))
        else:
            # Rows at unknown places are gathered before squares of them are transposed.
            rows = nests.compute("rows", [keys.length, depth], key)
            columns = nests.compute("columns", [depth, keys.length], lambda d, j: at(rows, j, d))
        return nests.reduce(
            "products", shape, depth, add, 0, lambda i, j, d: at(queries, i, d) * at(columns, d, j)
        )

    def _score(self, product: PrimExpr, i: PrimExpr, j: PrimExpr, start: PrimExpr) -> PrimExpr:
        """Return the score of row `i` and key `j` for their product."""
        call, dtype = self.call, self.call.dtype
        position, head = self._query(i)
        score, conditions = product, []
        if call.softcap:
            cap = const(call.softcap, dtype)
            score = te.tanh(score / cap) * cap
        keys = self._keys
        if call.bias is not None:
            place = (self.batch, head, position, keys.row(j))
            bias = at(call.bias, *broadcast_indices(place, call.bias.shape))
            if call.bias.dtype.is_bool:
                conditions.append(bias)
            else:
                score = score + cast(dtype, bias)
        if keys.may_overlap:
            conditions.append(j >= start)
        if call.lengths is not None or keys.extent is None:
            conditions.append(j < self._length)
        if call.causal_mask is not None:
            last = self._last(position)
            conditions.append(j <= last)
            if call.window_size is not None:
                conditions.append(j > last - call.window_size)
        return select(all_of(conditions), score, -infinity(dtype)) if conditions else score
