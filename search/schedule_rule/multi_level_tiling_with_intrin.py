"""Tiling around a tensor intrinsic: the loops that it computes, its operands, and the rule."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from codegen.target.machine_intrinsics import refusal_of
from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from schedule.analysis.bindings import is_trivial_binding
from schedule.analysis.intrin_match import Mismatch
from schedule.sref import StmtSRef, loops_above
from search.errors import refusal_reason
from search.schedule_rule.multi_level_tiling import (
    BlockFilter,
    MultiLevelTiling,
    ReuseType,
    TilingState,
)
from search.space_generator.annotations import AUTO_TENSORIZE
from tensorir.arith import Analyzer
from tensorir.comparison.equal import expr_deep_equal
from tensorir.function import PrimFunc
from tensorir.indices.index_map import IndexMap
from tensorir.memory.layout_rewrite import LAYOUT_REWRITE_PREPROC, layout_free_positions
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import BufferLoad, Cast, FloorMod, IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.float_format import holds_values_of
from tensorir.nodes.ops import cast, const
from tensorir.nodes.stmt import BlockRealize, BufferStore, For, Stmt
from tensorir.rewriting.visit import collect_vars, rewrite, substitute, walk
from tensorir.tensor_intrin import TensorIntrin

if TYPE_CHECKING:
    from search.task import Task

_LANES: Final = 64
"""The maximum number of iterations of a loop of a copy that becomes one vector."""
_SUMS: Final = 16
"""The number of sums of an offset factor that are computed together."""


@dataclass(frozen=True)
class IntrinLoop:
    """A loop around a block whose innermost part an intrinsic computes."""

    position: int
    """The index of the loop around the block: 0 for the outermost, -1 for the innermost."""
    extent: int
    """The number of iterations in the intrinsic, a divisor of the extent of the loop."""


def intrin_loops(block: StmtSRef, desc: PrimFunc, *, other_sign: bool = False) -> list[IntrinLoop]:
    """Return the loops around a block that match the loops of a description, in its order.

    Block and description must compute the same function; their memory layouts may differ. An
    operand may be narrower than the description's if it is converted when it is read, as int8 for
    int16, and with `other_sign` may be uint8 for int8. The axes of a kind (spatial, reduction) are
    matched from the last one back. Raises Mismatch if the computations differ, if axes are missing,
    or if an extent is not a multiple.
    """
    extents, described = described_nest(desc)
    node = block.block
    if not is_trivial_binding(block):
        raise Mismatch("an axis of the block lacks its own loop", node, described)
    _check_computation(node.body, described.block.body, other_sign)
    free: dict[int, list[int]] = {}
    for position, axis in enumerate(node.iter_vars):
        free.setdefault(axis.iter_type, []).append(position)
    found: list[IntrinLoop] = []
    loops = loops_above(block)
    for axis, extent in zip(reversed(described.block.iter_vars), reversed(extents), strict=True):
        positions = free.get(axis.iter_type)
        if not positions:
            raise Mismatch(
                "the block has fewer spatial or reduction axes than the intrinsic", node, described
            )
        position = positions.pop()
        total = loops[position].loop.extent
        if not isinstance(total, IntImm) or total.value % extent != 0:
            raise Mismatch(
                f"loop {loops[position].loop.loop_var.name} has {total} iterations, not a multiple "
                f"of {extent}",
                node,
                described,
            )
        found.insert(0, IntrinLoop(position, extent))
    return found


def described_nest(desc: PrimFunc) -> tuple[list[int], BlockRealize]:
    """Return the extents of the loops of a description, and the block inside them."""
    assert isinstance(desc.body, BlockRealize)
    stmt: Stmt = desc.body.block.body
    extents: list[int] = []
    loop_vars: list[Var] = []
    while isinstance(stmt, For) and isinstance(stmt.extent, IntImm):
        extents.append(stmt.extent.value)
        loop_vars.append(stmt.loop_var)
        stmt = stmt.body
    if isinstance(stmt, BlockRealize):
        values = stmt.iter_values
        if len(values) == len(loop_vars) and all(map(operator.is_, values, loop_vars)):
            return extents, stmt
    raise Mismatch("the description of the intrinsic is not one block in a nest of its axes")


def operand_loads(body: Stmt) -> list[BufferLoad]:
    """Return the loads in a store, without loads of the stored buffer."""
    assert isinstance(body, BufferStore)
    loads = [part for part in walk(body.value) if isinstance(part, BufferLoad)]
    return [load for load in loads if load.buffer is not body.buffer]


def _check_computation(found: Stmt, expected: Stmt, other_sign: bool) -> None:
    """Raise unless two bodies store the same function of the same number of buffers."""
    if not isinstance(found, BufferStore) or not isinstance(expected, BufferStore):
        raise Mismatch("the block is not a single store", found, expected)
    shared: dict[tuple[int, DataType], Var] = {}
    computed, described = (
        _without_indices(store.value, store.buffer, shared) for store in (found, expected)
    )
    if not expr_deep_equal(computed, described):
        raise Mismatch("the expressions differ", found, expected)
    for load, wanted in zip(operand_loads(found), operand_loads(expected), strict=True):
        fits = holds_values_of(wanted.dtype, load.dtype)
        if not fits and not (other_sign and _differ_in_sign(wanted, load)):
            raise Mismatch(
                f"`{load.buffer.name}` is {load.dtype}, which {wanted.dtype} cannot represent "
                "exactly",
                found,
                expected,
            )


def _differ_in_sign(a: BufferLoad, b: BufferLoad) -> bool:
    both = a.dtype.is_integral and b.dtype.is_integral
    return both and a.dtype.bits == b.dtype.bits and a.dtype.is_int != b.dtype.is_int


def _without_indices(
    value: PrimExpr, stored: Buffer, shared: dict[tuple[int, DataType], Var]
) -> PrimExpr:
    """Return a value with a variable for each loaded buffer, numbered in the order of their use.

    A load that is converted without loss to another type is replaced by a variable of that type.
    """
    numbers = {stored: 0}

    def variable(load: BufferLoad, dtype: DataType) -> Var:
        number = numbers.setdefault(load.buffer, len(numbers))
        return shared.setdefault((number, dtype), Var(f"buffer_{number}", dtype))

    def converted(node: Cast) -> Var | None:
        load = node.value
        if isinstance(load, BufferLoad) and holds_values_of(node.dtype, load.dtype):
            return variable(load, node.dtype)
        return None

    return rewrite(
        value,
        before={
            Cast: lambda node, _: converted(node),
            BufferLoad: lambda node, _: variable(node, node.dtype),
        },
    )


@dataclass(frozen=True)
class Repacked:
    """An operand that is copied to another type or layout for an intrinsic."""

    buffer: Buffer
    dtype: DataType
    """The new dtype: it represents all values exactly, or has the other sign."""
    layout: Layout | None
    """The new layout; None for the old one."""


@dataclass(frozen=True)
class Layout:
    """A layout whose last dimensions are those of an intrinsic's operand."""

    index_map: IndexMap
    tiles: tuple[int, ...]
    """The extent of the intrinsic in each old dimension; 1 for other dimensions."""
    outer: tuple[int, ...]
    """The order of the old dimensions in front."""
    inner: tuple[int, ...]
    """The old dimensions of the intrinsic, with the contiguous one last."""
    together: int
    """The number of contiguous elements of the last of them."""


def repacked_operands(
    block: StmtSRef, intrin: TensorIntrin, *, other_sign: bool = False
) -> list[Repacked]:
    """Return the operands of a block that must be copied before an intrinsic can read them.

    The dimensions of the intrinsic become the last ones, in the order and with the extents of its
    description. A right operand `B[k, n]` of a dot product of 4 bytes in 16 lanes becomes
    `B[n // 16, k // 4, n % 16, k % 4]`. With `other_sign`, signed factors may become unsigned and
    the reverse. Raises Mismatch if the computations differ, or if an axis of the intrinsic is not
    alone in a dimension.
    """
    tiles = intrin_loops(block, intrin.desc, other_sign=other_sign)
    _, described = described_nest(intrin.desc)
    axes = [block.block.iter_vars[tile.position] for tile in tiles]
    taken = {axis.var: tile.extent for axis, tile in zip(axes, tiles, strict=True)}
    named = dict(
        zip((a.var for a in described.block.iter_vars), (a.var for a in axes), strict=True)
    )
    spatial = {axis.var for axis in axes if axis.iter_type == IterVar.DATA_PAR}
    implemented = {
        intrin.desc.buffer_map[a]: intrin.impl.buffer_map[b]
        for a, b in zip(intrin.desc.params, intrin.impl.params, strict=True)
    }
    found: list[Repacked] = []
    pairs = zip(operand_loads(block.block.body), operand_loads(described.block.body), strict=True)
    for load, wanted in pairs:
        here = BufferLoad(wanted.buffer, tuple(substitute(i, named) for i in wanted.indices))
        is_compact = not any(isinstance(n, Var) for n in implemented[wanted.buffer].strides)
        layout = None
        if not _is_laid_out(load, here, is_compact, taken):
            layout = _layout(load, here, taken, spatial)
        if layout is not None or load.dtype is not wanted.dtype:
            found.append(Repacked(load.buffer, wanted.dtype, layout))
    # Factors with an offset come last: the sum of the offset reads the packed operand.
    return sorted(found, key=lambda one: holds_values_of(one.dtype, one.buffer.dtype))


def _is_laid_out(
    load: BufferLoad, wanted: BufferLoad, is_compact: bool, taken: Mapping[Var, int]
) -> bool:
    """Return True if the last dimensions of a load are those of an intrinsic's operand."""
    analyzer = Analyzer()
    count = len(wanted.indices)
    if len(load.indices) < count:
        return False
    lengths = zip(load.buffer.shape[-count:], wanted.buffer.shape, strict=True)
    indices = zip(load.indices[-count:], wanted.indices, strict=True)
    for k, ((index, place), (has, needs)) in enumerate(zip(indices, lengths, strict=True)):
        if not expr_deep_equal(index, FloorMod(place, cast(place.dtype, needs))):
            offset = analyzer.simplify(index - place)
            if not taken.keys().isdisjoint(collect_vars(offset)):
                return False
        if k > 0 and is_compact and not expr_deep_equal(has, needs):
            return False
    return True


def _layout(
    load: BufferLoad, wanted: BufferLoad, taken: Mapping[Var, int], spatial: set[Var]
) -> Layout:
    """Return the layout that makes a load read like an intrinsic; Mismatch if none does."""
    dim_of: dict[Var, int] = {}
    for dim, index in enumerate(load.indices):
        for axis in collect_vars(index):
            if axis in taken and (index is not axis or axis in dim_of):
                raise Mismatch(f"`{load.buffer.name}` has other indices", load, wanted)
            if axis in taken:
                dim_of[axis] = dim
    walked = list(dict.fromkeys(v for index in wanted.indices for v in collect_vars(index)))
    if set(walked) != set(dim_of):
        raise Mismatch(f"`{load.buffer.name}` has other indices", load, wanted)
    lanes = [dim_of[axis] for axis in walked if axis in spatial]
    depths = [dim_of[axis] for axis in walked if axis not in spatial]
    others = [k for k in range(len(load.indices)) if k not in dim_of.values()]
    outer = (*lanes, *others, *depths)
    places = [Var(f"i{k}", length.dtype) for k, length in enumerate(load.buffer.shape)]
    analyzer = Analyzer()
    for place, length in zip(places, load.buffer.shape, strict=True):
        analyzer.bind(place, Range(length))
    tiles = [1] * len(places)
    parts = {}
    for axis, dim in dim_of.items():
        tiles[dim] = taken[axis]
        parts[axis] = places[dim] % const(taken[axis], places[dim].dtype)
    rest = [places[dim] // tiles[dim] for dim in outer]
    inside = [substitute(index, parts) for index in wanted.indices]
    index_map = IndexMap(places, [analyzer.simplify(index) for index in (*rest, *inside)])
    together = wanted.buffer.shape[-1]
    assert isinstance(together, IntImm)
    inner = tuple(dim_of[axis] for axis in walked)
    return Layout(index_map, tuple(tiles), outer, inner, together.value)


def repack(sch: Schedule, block: BlockRV, operand: Repacked) -> None:
    """Copy an operand of a block to the type and layout of an intrinsic.

    `Schedule.offset_factor` converts signed to unsigned integers, or the reverse. A weight with a
    free layout is copied once, when a model is built.
    """
    reads = [read.buffer for read in sch.get(block).reads]
    index = reads.index(operand.buffer)
    if not holds_values_of(operand.dtype, operand.buffer.dtype):
        _, share = sch.offset_factor(block, index, str(operand.dtype))
        _in_lanes(sch, share)
        if operand.layout is not None:
            sch.transform_layout(block, ("read", index), operand.layout.index_map)
        return
    copy = sch.cache_read(block, index, "global")
    func = sch.state.func(sch.state.func_name_of(sch.get_sref(block)))
    free = layout_free_positions(func)
    if any(func.buffer_map.get(func.params[k]) is operand.buffer for k in free):
        sch.annotate(copy, LAYOUT_REWRITE_PREPROC, True)
    if operand.dtype is not operand.buffer.dtype:
        sch.unsafe_set_dtype(copy, 0, operand.dtype)
    if operand.layout is not None:
        sch.transform_layout(block, ("read", index), operand.layout.index_map)
        _in_order(sch, copy, operand.layout)


def _in_lanes(sch: Schedule, sums: BlockRV) -> None:
    """Vectorise a reduction along its last spatial loop."""
    node = sch.get(sums)
    loops = sch.get_loops(sums)
    spatial = [
        loop
        for loop, axis in zip(loops, node.iter_vars, strict=True)
        if axis.iter_type == IterVar.DATA_PAR
    ]
    if spatial:
        rest, lanes = sch.split(spatial[-1], [None, _SUMS])
        others = [loop for loop in loops if loop not in spatial]
        sch.reorder(*spatial[:-1], rest, *others, lanes)
        sch.vectorize(lanes)


def _in_order(sch: Schedule, copy: BlockRV, layout: Layout) -> None:
    """Reorder the loops of a copy by its layout, with vectors along its source.

    If the source and the copy are contiguous in different dimensions, the loop over contiguous
    elements of the copy is unrolled around the vectors, which interleaves them.
    """
    outer: list[LoopRV] = []
    inner: dict[int, LoopRV] = {}
    for dim, loop in enumerate(sch.get_loops(copy)):
        rest = loop
        if layout.tiles[dim] > 1:
            rest, inner[dim] = sch.split(loop, [None, layout.tiles[dim]])
        outer.append(rest)
    last = len(outer) - 1
    vector = inner.get(last)
    tiles = [inner[dim] for dim in layout.inner if dim != last]
    side = layout.inner[-1]
    if side != last and layout.tiles[side] > layout.together:
        tiles[-1:] = sch.split(tiles[-1], [None, layout.together])
    lanes = [] if vector is None else [vector]
    sch.reorder(*(outer[dim] for dim in layout.outer), *tiles, *lanes)
    if vector is not None and layout.tiles[last] <= _LANES:
        sch.vectorize(vector)
        if side != last and layout.together <= _LANES:
            sch.unroll(tiles[-1])


def separate(sch: Schedule, block: BlockRV, parts: Sequence[IntrinLoop]) -> BlockRV:
    """Move the innermost parts of loops to an inner block; return the block around it."""
    loops = sch.get_loops(block)
    inner: list[LoopRV] = []
    for part in reversed(parts):
        _, tile = sch.split(loops[part.position], [None, part.extent])
        inner.insert(0, tile)
    around = sch.get_loops(block)
    taken = {sch.get_sref(loop) for loop in inner}
    first = next(k for k, loop in enumerate(around) if sch.get_sref(loop) in taken)
    between = [loop for loop in around[first:] if sch.get_sref(loop) not in taken]
    sch.reorder(*between, *inner)
    return sch.blockize(inner[0])


class MultiLevelTilingWithIntrin(MultiLevelTiling):
    """Tiles a block so that its innermost tile is one call of a tensor intrinsic.

    The loops of the intrinsic are split off, moved innermost, and become an inner block. The outer
    block is annotated with `intrin_name`, for `RewriteTensorize`, and tiled like in
    `MultiLevelTiling`, with the same arguments.

    An operand with another memory layout than the intrinsic's, or a narrower type, is copied first
    (`repack`). With `other_sign`, so is a factor that is signed where the intrinsic needs an
    unsigned number, or the reverse. A block is left to later rules if the intrinsic computes
    something else, if an operand cannot be copied to its layout, or if the target lacks its
    instructions. Otherwise all designs use the intrinsic. Raises IRValueError for an unknown
    intrinsic.
    """

    def __init__(
        self,
        intrin_name: str,
        structure: str,
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: ReuseType | None = None,
        reuse_write: ReuseType | None = None,
        filter_fn: BlockFilter | None = None,
        other_sign: bool = False,
    ) -> None:
        super().__init__(
            structure,
            tile_binds,
            max_innermost_factor,
            vector_load_lens,
            reuse_read,
            reuse_write,
            filter_fn,
        )
        intrin = TensorIntrin.get(intrin_name)
        assert intrin is not None
        self.intrin_name = intrin_name
        self.other_sign = other_sign
        self._intrin = intrin
        self._refusal: str | None = None

    def _initialize_with_tune_context(self, context: Task) -> None:
        super()._initialize_with_tune_context(context)
        if context.target is not None:
            self._refusal = refusal_of(self._intrin.impl, context.target)

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the tiled designs with the intrinsic, if it fits."""
        sref = sch.get_sref(block)
        if not self.applies_to(sch, sref):
            return [sch]
        try:
            intrin_loops(sref, self._intrin.desc, other_sign=self.other_sign)
        except Mismatch as difference:
            self._log(sch, block, difference.reason)
            return [sch]
        if self._refusal is not None:
            self._log(sch, block, self._refusal)
            return [sch]
        return self.designs(sch.copy(), block) or [sch]

    def steps(self) -> list[Callable[[Any], list[Any]]]:
        """Return the steps of tiling, after the step that separates the intrinsic."""
        return [self.separate_intrin, *super().steps()]

    def separate_intrin(self, state: TilingState) -> list[TilingState]:
        """Move the loops of the intrinsic to an inner block; the outer block is tiled."""
        sch, block = state.sch, state.block
        try:
            for operand in repacked_operands(
                sch.get_sref(block), self._intrin, other_sign=self.other_sign
            ):
                repack(sch, block, operand)
            outer = separate(sch, block, intrin_loops(sch.get_sref(block), self._intrin.desc))
            sch.copy().tensorize(outer, self.intrin_name)
        except Mismatch as difference:
            self._log(sch, block, difference.reason)
            return []
        except ScheduleError as error:
            self._log(sch, block, refusal_reason(error))
            return []
        sch.annotate(outer, AUTO_TENSORIZE, self.intrin_name)
        state.block = outer
        return [state]

    def _log(self, sch: Schedule, block: BlockRV, reason: str) -> None:
        self._task_logger().debug(
            "Block %s is not tiled for %s: %s", sch.get(block).name_hint, self.intrin_name, reason
        )
