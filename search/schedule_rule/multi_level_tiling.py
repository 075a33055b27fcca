"""Multi-level tiling of reductions with data reuse."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, TypeVar

from codegen.lower.forms import PIPELINE_ASYNC, PIPELINE_ORDER, PIPELINE_STAGE
from schedule import BlockRV, ExprRV, LoopRV, Schedule, ScheduleError
from schedule.sref import StmtSRef
from search.errors import TuningError
from search.schedule_rule.schedule_rule import ScheduleRule
from search.space_generator.annotations import (
    COOPERATIVE_FETCH,
    THREAD_EXTENT_HIGH,
    THREAD_EXTENT_LOW,
    TILING_STRUCTURE,
    WRITE_CACHE_LEVEL,
)
from search.space_generator.tiling_needs import (
    cumulative_lengths,
    is_elementwise_consumer,
    needs_multi_level_tiling,
)
from tensorir.nodes.buffer import BufferRegion
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import IntImm, IterVar, StringImm
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import For, SeqStmt
from tensorir.rewriting.visit import collect_vars

if TYPE_CHECKING:
    from search.task import Task

BlockFilter: TypeAlias = Callable[[Schedule, StmtSRef], bool]


def elementwise_consumer(sch: Schedule, block: BlockRV) -> BlockRV | None:
    """Return the only consumer of a block if that is element-wise, else None."""
    consumers = sch.get_consumers(block)
    if len(consumers) != 1 or not is_elementwise_consumer(sch.get_sref(consumers[0])):
        return None
    return consumers[0]


def move_consumer(sch: Schedule, block: BlockRV, loop: LoopRV) -> None:
    """Compute the element-wise consumer of a block at a loop around the block, if possible."""
    consumer = elementwise_consumer(sch, block)
    if consumer is not None:
        with contextlib.suppress(ScheduleError):
            sch.reverse_compute_at(consumer, loop, preserve_unit_loops=True)


@dataclass(frozen=True)
class ReuseType:
    """The caching of buffers: required or not (`"no"`, `"may"`, `"must"`), tile levels, and scope.

    Level 1 is the end of the first group of loops, level 2 of the second, and so on.
    """

    req: Literal["no", "may", "must"]
    levels: Sequence[int]
    scope: str


NO_REUSE = ReuseType("no", (), "")
_TRIES: Final = 8


@dataclass(eq=False)
class TilingState:
    """An unfinished design: the schedule, the tiled block, and its loops by tile level."""

    sch: Schedule
    block: BlockRV
    tiles: list[list[LoopRV]]
    factors: tuple[Sequence[ExprRV], ...] = field(default=(), kw_only=True)
    """The sampled factors of each split loop, in the order of the loops."""
    reads: tuple[BlockRV, ...] = field(default=(), kw_only=True)
    """The blocks that copy operands."""
    write: BlockRV | None = field(default=None, kw_only=True)
    """The block that copies the result out of its cache."""

    def copy(self) -> Self:
        """Return an independent copy, whose handles are valid, too."""
        return replace(self, sch=self.sch.copy())

    def at(self, level: int) -> LoopRV:
        """Return the loop at which a cache of a level is computed."""
        return self.tiles[level - 1][-1]


State = TypeVar("State", bound=TilingState)


class MultiLevelTiling(ScheduleRule):
    """Tiles a block by sampled factors, optionally with caches for its result and operands.

    `structure` is a text such as `"SSRSRS"`: each letter is a group of loops, with one part of each
    spatial (S) or reduction (R) loop, outermost first. `max_innermost_factor` bounds the innermost
    tile, unless it is None. `max_innermost_steps`, if given, is the bound for reduction loops: a
    tile of accumulators stays in registers for so many steps. `reuse_write` and `reuse_read` set
    the tile levels of a cache for the result, which is copied out, and of caches for the operands.
    The rule applies to reductions with data reuse along a spatial axis, and to the blocks that
    `filter_fn(sch, sref)` selects.

    On a GPU, `tile_binds` has the thread axes of the outer groups of loops, such as `["blockIdx.x",
    "vthread.x", "threadIdx.x"]`. The threads of a block copy an operand together, each in vectors
    of one of `vector_load_lens` elements, which is sampled. Where the target copies asynchronously,
    there are further designs with a software pipeline of 4 and 5 stages.

    Zheng et al., Ansor (OSDI 2020), describes the structure.
    """

    def __init__(
        self,
        structure: str,
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: ReuseType | None = None,
        reuse_write: ReuseType | None = None,
        filter_fn: BlockFilter | None = None,
        max_innermost_steps: int | None = None,
    ) -> None:
        if not structure or set(structure) - set("SR"):
            raise TuningError(
                f"invalid tiling structure {structure!r}; it consists of the letters S and R"
            )
        if reuse_read is not None and reuse_read.req == "may":
            raise TuningError('invalid reuse_read "may"; it is "no" or "must"')
        self.structure = structure
        self.tile_binds = list(tile_binds or ())
        self.vector_load_lens = list(vector_load_lens or ())
        self.max_innermost_factor = max_innermost_factor
        self.max_innermost_steps = max_innermost_steps or max_innermost_factor
        self.reuse_read = reuse_read or NO_REUSE
        self.reuse_write = reuse_write or NO_REUSE
        self.filter_fn = filter_fn
        self.s_indices = [k for k, letter in enumerate(structure) if letter == "S"]
        self.r_indices = [k for k, letter in enumerate(structure) if letter == "R"]

    def _initialize_with_tune_context(self, context: Task) -> None:
        super()._initialize_with_tune_context(context)
        if (self.tile_binds or self.vector_load_lens) and self._task_target().gpu is None:
            raise TuningError(
                "tile_binds and vector_load_lens bind loops to GPU threads; leave them out on a CPU"
            )

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the tiled designs of a block, if the rule applies."""
        if not self.applies_to(sch, sch.get_sref(block)):
            return [sch]
        return self.designs(sch, block)

    def applies_to(self, sch: Schedule, block: StmtSRef) -> bool:
        """Return True if the rule tiles a block."""
        chosen = self.filter_fn is not None and self.filter_fn(sch, block)
        return chosen or needs_multi_level_tiling(block)

    def designs(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the designs that the steps make of a block; `sch` itself may be one of them.

        If a step refuses the sampled tiles, others are sampled, up to 8 times.
        """
        for _ in range(_TRIES - 1):
            with contextlib.suppress(ScheduleError), sch.transaction():
                return self._designs(sch, block)
            sch.fork_seed()
        return self._designs(sch, block)

    def _designs(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        sch.annotate(block, TILING_STRUCTURE, self.structure)
        states = self.start(sch, block)
        for step in self.steps():
            states = [made for state in states for made in step(state)]
        return [state.sch for state in states]

    def start(self, sch: Schedule, block: BlockRV) -> list[TilingState]:
        """Return the designs before the first step."""
        return [TilingState(sch, block, [])]

    def steps(self) -> list[Callable[[Any], list[Any]]]:
        """Return the steps that make the designs; each step turns one state into several."""
        return [self.tile, self.add_write_reuse, self.add_read_reuse, self.add_async_pipeline]

    # --------------------------------------------------------------------------------------- tiles

    def tile(self, state: TilingState) -> list[TilingState]:
        """Split every loop by sampled factors and reorder the parts by tile level."""
        sch = state.sch
        loops = sch.get_loops(state.block)
        axes = sch.get(state.block).iter_vars
        tiles: list[list[LoopRV]] = [[] for _ in self.structure]
        for loop, axis in zip(loops, axes, strict=True):
            if axis.iter_type == IterVar.DATA_PAR:
                slots, most = self.s_indices, self.max_innermost_factor
            elif axis.iter_type == IterVar.COMM_REDUCE:
                slots, most = self.r_indices, self.max_innermost_steps
            else:
                continue
            parts = self.split(state, loop, len(slots), most)
            assert len(parts) in (1, len(slots))
            for slot, part in zip(slots, parts, strict=False):
                tiles[slot].append(part)
        sch.reorder(*itertools.chain.from_iterable(tiles))
        state.tiles = tiles
        for level, thread in enumerate(self.tile_binds[: len(tiles)]):
            fused = sch.fuse(*tiles[level])
            sch.bind(fused, thread)
            tiles[level] = [fused]
        gpu = self._task_target().gpu
        if gpu is not None:
            lengths = cumulative_lengths(sch.state, sch.get_sref(state.block))
            enough = lengths is not None and lengths[0] > 2 * gpu.thread_warp_size
            sch.annotate(state.block, THREAD_EXTENT_LOW, gpu.thread_warp_size if enough else 1)
            sch.annotate(state.block, THREAD_EXTENT_HIGH, gpu.max_threads_per_block)
        return [state]

    def split(self, state: TilingState, loop: LoopRV, parts: int, most: int | None) -> list[LoopRV]:
        """Split a loop of the tiled block by sampled factors; return the parts, outermost first.

        The innermost part has at most `most` iterations. A single part instead of `parts` is in the
        outermost tile level.
        """
        if parts == 1:
            return [loop]
        limit = -1 if most is None else most
        factors = state.sch.sample_perfect_tile(loop, n=parts, max_innermost_factor=limit)
        state.factors = (*state.factors, factors)
        return state.sch.split(loop, factors)

    # -------------------------------------------------------------------------------------- caches

    def add_write_reuse(self, state: TilingState) -> list[TilingState]:
        """Write results to a cache, or compute an element-wise consumer at its level instead."""
        req, levels = self.reuse_write.req, list(self.reuse_write.levels)
        if req == "no":
            return [state]
        asked = state.sch.get(state.block).annotations.get(WRITE_CACHE_LEVEL)
        if asked is not None:
            req, levels = "must", _levels(asked)
            if not levels:
                return [state]
        if req == "must":
            name = state.sch.get(state.block).name_hint
            designs = self._cached(state, levels)
            if not designs:
                raise TuningError(
                    f"block {name!r} cannot have the required write cache at the tile levels "
                    f'{levels}; choose other levels, or "may" instead of "must"'
                )
            return designs
        consumer = elementwise_consumer(state.sch, state.block)
        if consumer is not None:
            return [state, *computed_at(state, consumer, levels)]
        return [state.copy(), *self._cached(state, levels)]

    def _cached(self, state: TilingState, levels: Sequence[int]) -> list[TilingState]:
        sch, scope = state.sch, self.reuse_write.scope
        if scope == "global" and mixes_axes(sch.get(state.block).writes[0]):
            # The tiles of such a block are not boxes of its result, and cannot be copied out.
            copy_out = sch.reindex(state.block, ("write", 0))
        else:
            copy_out = sch.cache_write(state.block, 0, scope)
        state.write = copy_out
        return computed_at(state, copy_out, levels)

    def add_read_reuse(self, state: TilingState) -> list[TilingState]:
        """Copy each operand into a cache, one design for each requested level."""
        if self.reuse_read.req == "no":
            return [state]
        designs = []
        for level in self.reuse_read.levels:
            design = state.copy()
            sch, block = design.sch, design.block
            node = sch.get(block)
            for k, read in enumerate(node.reads):
                if read.buffer is node.writes[0].buffer:
                    continue
                cache = sch.cache_read(block, k, self.reuse_read.scope, [block])
                sch.compute_at(cache, design.at(level), preserve_unit_loops=True)
                if read.buffer.shape:
                    sch.fuse(*sch.get_loops(cache)[-len(read.buffer.shape) :])
                self.fetch_together(sch, cache, read.buffer.dtype)
                design.reads = (*design.reads, cache)
            designs.append(design)
        return designs

    def fetch_together(self, sch: Schedule, cache: BlockRV, dtype: DataType) -> None:
        """Sample the vector length with which the threads of a block copy a cache together."""
        gpu = self._task_target().gpu
        if gpu is None:
            return
        # Loads of 2, 4, 8 and 16 bytes are one instruction; 3 words are split up by the compiler.
        lengths = [
            length
            for length in self.vector_load_lens
            if length * dtype.nbytes <= gpu.max_vector_bytes
            and (dtype.bits in (8, 32) or length % 2 == 0 or length == 1)
        ]
        if lengths:
            chosen = sch.sample_categorical(lengths, [1 / len(lengths)] * len(lengths))
            sch.annotate(cache, COOPERATIVE_FETCH, chosen)

    # ------------------------------------------------------------------------------------ pipeline

    def add_async_pipeline(self, state: TilingState) -> list[TilingState]:
        """Copy the operands of later steps while a step is computed, in 4 or 5 stages.

        That needs asynchronous copies (`sm_80` and later), and an outer reduction loop around two
        copies and the computation.
        """
        gpu = self._task_target().gpu
        if not self.r_indices or gpu is None or not gpu.copies_asynchronously:
            return [state]
        return [state, *self.pipelined(state, (4, 5))]

    def pipelined(self, state: State, stages: Sequence[int]) -> list[State]:
        """Return a copy with a software pipeline for each number of stages, none if impossible."""
        outer = state.tiles[self.r_indices[0]]
        body = state.sch.get(outer[-1]).body
        nests = body.seq if isinstance(body, SeqStmt) else ()
        if len(nests) != 3 or not all(isinstance(nest, For) for nest in nests):
            return []
        designs = []
        for count in stages:
            design = state.copy()
            loop = design.sch.fuse(*outer)
            design.sch.annotate(loop, PIPELINE_STAGE, [0, 0, count - 2])
            design.sch.annotate(loop, PIPELINE_ORDER, [0, 1, 2])
            design.sch.annotate(loop, PIPELINE_ASYNC, [0])
            designs.append(design)
        return designs


def computed_at(state: TilingState, block: BlockRV, levels: Sequence[int]) -> list[TilingState]:
    """Return the designs with a consumer moved to each level where that is possible."""
    designs = []
    for level in levels:
        design = state.copy()
        try:
            design.sch.reverse_compute_at(block, design.at(level), preserve_unit_loops=True)
        except ScheduleError:
            # For example, the block is computed under a condition.
            continue
        designs.append(design)
    return designs


def mixes_axes(region: BufferRegion) -> bool:
    """Return True if a region is a point with an index of several axes."""
    is_point = all(is_const_int(dim.extent, 1) for dim in region.region)
    return is_point and any(len(collect_vars(dim.min)) > 1 for dim in region.region)


def _levels(asked: Any) -> list[int]:
    """Return the levels of an annotation; an empty text means no levels."""
    items = asked if isinstance(asked, (tuple, list)) else [asked]
    plain = [item.value if isinstance(item, (IntImm, StringImm)) else item for item in items]
    if plain == [""]:
        return []
    levels = [item for item in plain if isinstance(item, int)]
    if len(levels) < len(plain):
        raise TuningError(
            f"invalid annotation {WRITE_CACHE_LEVEL}: {plain}; it is a list of tile levels, such "
            "as [2]"
        )
    return levels


class MultiLevelTilingWideVector(MultiLevelTiling):
    """Tiles like `MultiLevelTiling`, with one whole vector as the innermost tile.

    The innermost part of the loop over the last dimension of the written buffer has the number of
    elements of a register of `vector_length_in_bits`, or all iterations if there are fewer. The
    rest of that loop and all other loops are split by sampled factors.
    """

    def __init__(
        self,
        structure: str,
        vector_length_in_bits: int,
        max_innermost_factor: int | None = None,
        reuse_read: ReuseType | None = None,
        reuse_write: ReuseType | None = None,
    ) -> None:
        super().__init__(
            structure,
            max_innermost_factor=max_innermost_factor,
            reuse_read=reuse_read,
            reuse_write=reuse_write,
        )
        if vector_length_in_bits <= 0:
            raise TuningError(
                f"invalid vector_length_in_bits {vector_length_in_bits}; it is positive"
            )
        self.vector_length_in_bits = vector_length_in_bits

    def split(self, state: TilingState, loop: LoopRV, parts: int, most: int | None) -> list[LoopRV]:
        """Split a loop; the loop of the last written dimension ends in a whole vector."""
        if parts == 1 or not _is_innermost_written(state, loop):
            return super().split(state, loop, parts, most)
        sch = state.sch
        bits = sch.get(state.block).writes[0].buffer.dtype.bits
        lanes = max(1, self.vector_length_in_bits // bits)
        extent = sch.get(loop).extent
        if not isinstance(extent, IntImm) or extent.value <= lanes:
            return sch.split(loop, [*[1] * (parts - 1), None])
        outer, vector = sch.split(loop, [None, lanes])
        return [*super().split(state, outer, parts - 1, most), vector]


def _is_innermost_written(state: TilingState, loop: LoopRV) -> bool:
    """Return True if a loop is the last index of the written buffer."""
    realize = state.sch.get_sref(state.block).block_realize
    region = realize.block.writes[0].region
    loop_var = state.sch.get(loop).loop_var
    return any(
        value is loop_var and axis.var is region[-1].min
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if region
    )
