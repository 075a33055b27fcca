"""The points of a design space for a GPU whose thread blocks fit the device."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from codegen.target.gpu import SECTOR, WARP, GpuLimits
from schedule.random_state import RandomState
from search.feature_extractor.gpu_estimate import UNFIT, ThreadBlocks, Work
from search.schedule_rule.multi_level_tiling_tensor_core import factor_layouts
from search.space_generator.annotations import (
    AUTO_TENSORIZE,
    TILING_STRUCTURE,
    WARP_EXECUTION,
)
from search.space_generator.design_space import Decisions, DesignSpace
from search.space_generator.matrix_axes import matrix_axes
from search.space_generator.tensor_core_tiles import TensorCoreBlock
from search.space_generator.trace_tiles import TraceTiles
from tensorir.arith.coefficients import coefficients
from tensorir.function import IRModule
from tensorir.nodes.expr import IterVar, Var
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import walk

_DRAWS: Final = 1000
_KEPT: Final = 48
"""The number of random points that are drawn, and of promising ones that are kept."""
_ROUNDS: Final = 6
_CHILDREN: Final = 4
"""The rounds in which promising points are improved, and the steps from each point."""
_MOST_STEPS: Final = 4
_TRIES: Final = 32
_SEED: Final = 1


@dataclass(frozen=True, slots=True)
class _Operand:
    """A buffer that a tiled block copies to shared memory."""

    item_bytes: int
    dims: tuple[Mapping[int, int], ...]
    """For each dimension, the coefficients of its index, by the number of the block's axis."""

    def spans(self, sizes: Sequence[int]) -> list[int]:
        """Return the extents of the region for a tile of so many iterations of each axis."""
        return [1 + sum(c * (sizes[axis] - 1) for axis, c in dim.items()) for dim in self.dims]


@dataclass(frozen=True, slots=True)
class _TiledBlock:
    """A block after `MultiLevelTiling` with bound tiles."""

    knobs: tuple[int, ...]
    """For each axis, the knob that samples its tiles."""
    spatial: tuple[bool, ...]
    binds: tuple[tuple[str, ...], ...]
    """For each axis and tile level, `"blockIdx"`, `"vthread"`, `"threadIdx"` or `""`."""
    operands: tuple[_Operand, ...]
    threads: tuple[int, int]
    """The least and the largest number of threads."""
    stages: int
    """The number of steps whose operands are in shared memory at the same time."""

    def cycles(self, decisions: Decisions, gpu: GpuLimits) -> float:
        """Return an estimate of the time of a point; at least `UNFIT` if it does not fit the GPU.

        It ignores bank conflicts, and the shapes of warps.
        """
        counts = {"blockIdx": 1, "vthread": 1, "threadIdx": 1, "": 1}
        in_block, innermost, steps, depth = [], [], 1, 1
        for knob, spatial, binds in zip(self.knobs, self.spatial, self.binds, strict=True):
            tile: Any = decisions[knob]
            if spatial:
                for axis, part in zip(binds, tile, strict=True):
                    counts[axis] *= part
                innermost.append(tile[-1])
                in_block.append(math.prod(tile) // tile[0])
            else:
                steps, depth = steps * tile[0], depth * math.prod(tile[1:])
                in_block.append(math.prod(tile[1:]))
                innermost.append(1)
        threads, results = counts["threadIdx"], counts["vthread"] * counts[""]
        boxes = [operand.spans(in_block) for operand in self.operands]
        sizes = [math.prod(b) * o.item_bytes for o, b in zip(self.operands, boxes, strict=True)]
        warps = -(-threads // WARP)
        # The innermost reduction loop is around the innermost tile, whose operands are loaded once.
        loads = sum(math.prod(operand.spans(innermost)) for operand in self.operands)
        loads *= results // math.prod(innermost)
        fetched = sum(
            math.prod(box[:-1]) * max(SECTOR, box[-1] * operand.item_bytes)
            for operand, box in zip(self.operands, boxes, strict=True)
        )
        work = Work(
            operations=float(warps * WARP * results * steps * depth),
            shared=float(warps * loads * steps * depth),
            sectors=float(fetched * steps),
            parallel=float(min(8, results)),
            steps=float(steps),
        )
        shared = self.stages * sum(sizes)
        blocks = ThreadBlocks(counts["blockIdx"], 1, threads, self.threads, results, shared)
        return blocks.cycles(work, gpu)


class FittingSpace(DesignSpace):
    """The points of a space whose thread blocks have room on a GPU.

    Most random tiles need more shared memory, threads or registers than there are. A sample is a
    few random steps from one of the most promising of some random points, by an estimate of the
    tiles alone.
    """

    def __init__(
        self,
        space: DesignSpace,
        blocks: Sequence[_TiledBlock | TensorCoreBlock],
        gpu: GpuLimits,
    ) -> None:
        super().__init__(space.trace, space.knobs, space.index)
        self._blocks = tuple(blocks)
        self._gpu = gpu

    def _cycles(self, decisions: Decisions) -> float:
        if any(decisions[knob] is None for block in self._blocks for knob in block.knobs):
            return 0.0
        return sum(block.cycles(decisions, self._gpu) for block in self._blocks)

    @cached_property
    def _promising(self) -> list[Decisions]:
        """The fitting points with the least expected time, of random ones and steps from them."""
        rng = RandomState(_SEED)
        found: dict[Decisions, float] = {}
        draw, step = super().sample, super().neighbour
        born: list[Decisions | None] = [draw(rng) for _ in range(_DRAWS)]
        best: list[Decisions] = []
        for _ in range(_ROUNDS):
            for point in born:
                if point is not None:
                    found[point] = self._cycles(point)
            best = sorted(found, key=lambda point: found[point])[:_KEPT]
            born = [step(point, rng) for point in best for _ in range(_CHILDREN)]
        return [point for point in best if found[point] < UNFIT]

    def admitted(self, decisions: Decisions) -> Decisions | None:
        """Return the point if it fits, else None."""
        return decisions if self._cycles(decisions) < UNFIT else None

    def sample(self, rng: RandomState) -> Decisions:
        """Return a random point near a promising one; any point if none that fits was found."""
        if not self._promising:
            return super().sample(rng)
        point = self._promising[int(len(self._promising) * rng.uniform_real())]
        for _ in range(rng.uniform_int(0, _MOST_STEPS + 1)):
            point = self.neighbour(point, rng) or point
        return point

    def neighbour(
        self, decisions: Decisions, rng: RandomState, among: Sequence[int] | None = None
    ) -> Decisions | None:
        """Return a fitting point that differs in one decision, None if none was found."""
        for _ in range(_TRIES):
            point = super().neighbour(decisions, rng, among)
            if point is None or self.admitted(point) is not None:
                return point
        return None


def fitting_part(space: DesignSpace, program: IRModule, gpu: GpuLimits) -> DesignSpace:
    """Return the points of a space that fit a GPU; the space itself if no block has bound tiles."""
    blocks = list(_tiled_blocks(space, program))
    return FittingSpace(space, blocks, gpu) if blocks else space


def _tiled_blocks(space: DesignSpace, program: IRModule) -> Iterator[_TiledBlock | TensorCoreBlock]:
    tiles = TraceTiles(space)
    for block, key in tiles.marks:
        node = _block_named(program, tiles.names.get(tiles.origin.get(block, block), ""))
        if node is None:
            continue
        if key == TILING_STRUCTURE:
            own = tiles.loops_of(block)
            if len(own) == len(node.iter_vars) and all(loop in tiles.knobs for loop in own):
                yield _TiledBlock(
                    tuple(tiles.knobs[loop] for loop in own),
                    tuple(axis.iter_type == IterVar.DATA_PAR for axis in node.iter_vars),
                    tuple(
                        tuple(axis.partition(".")[0] for axis in tiles.binds_of(loop))
                        for loop in own
                    ),
                    tuple(_operands(node)),
                    tiles.threads_of(block),
                    tiles.stages.get(block, 1),
                )
        elif key == WARP_EXECUTION:
            own, axes = tiles.loops_of(block)[-3:], matrix_axes(node)
            if axes is not None and all(loop in tiles.knobs for loop in own):
                yield TensorCoreBlock(
                    tuple(tiles.knobs[loop] for loop in own),
                    tiles.binds_of(own[0]),
                    axes,
                    factor_layouts(tiles.marks[block, AUTO_TENSORIZE]),
                    tiles.threads_of(block),
                    tiles.stages.get(block, 1),
                )


def _block_named(program: IRModule, name: str) -> Block | None:
    for func in program.prim_funcs().values():
        for node in walk(func.body):
            if isinstance(node, Block) and node.name_hint == name:
                return node
    return None


def _operands(block: Block) -> Iterator[_Operand]:
    axes: dict[Var, int] = {axis.var: k for k, axis in enumerate(block.iter_vars)}
    for read in block.reads:
        if read.buffer is block.writes[0].buffer:
            continue
        dims = [coefficients(dim.min) for dim in read.region]
        yield _Operand(
            read.buffer.dtype.nbytes,
            tuple({axes[v]: abs(c) for v, c in dim.of.items() if v in axes} for dim in dims),
        )
