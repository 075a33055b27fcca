"""The points of a design space for a GPU whose thread blocks fit the device."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from codegen.target.gpu import SECTOR, WARP, GpuLimits
from schedule.random_state import RandomState
from search.feature_extractor.gpu_estimate import (
    MOST_REGISTERS,
    OWN_REGISTERS,
    Work,
    cycles_of,
)
from search.space_generator.annotations import (
    THREAD_EXTENT_HIGH,
    THREAD_EXTENT_LOW,
    TILING_STRUCTURE,
)
from search.space_generator.design_space import Decisions, DesignSpace
from tensorir.arith.coefficients import coefficients
from tensorir.function import IRModule
from tensorir.nodes.expr import IntImm, IterVar, Var
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
_UNFIT: Final = 1e18
"""More cycles than any kernel takes."""


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

    def cycles(self, decisions: Decisions, gpu: GpuLimits) -> float:
        """Return an estimate of the time of a point; at least `_UNFIT` if it does not fit the GPU.

        It ignores bank conflicts, and the shapes of warps. Of two points that do not fit, the one
        that is farther from fitting has more cycles.
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
        low, high = self.threads
        excess = math.prod(
            max(1.0, used / most)
            for used, most in (
                (low, threads),
                (threads, high),
                (sum(sizes), max(1, gpu.max_shared_memory_per_block)),
                (results + OWN_REGISTERS, MOST_REGISTERS),
            )
        )
        if excess > 1:
            return _UNFIT * excess
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
        registers = results + OWN_REGISTERS
        resident, _ = gpu.multiprocessor.resident_blocks(threads, registers, sum(sizes))
        return cycles_of(work, counts["blockIdx"], threads, resident, results, 0.0)


class FittingSpace(DesignSpace):
    """The points of a space whose thread blocks have room on a GPU.

    Most random tiles need more shared memory, threads or registers than there are. A sample is a
    few random steps from one of the most promising of some random points, by an estimate of the
    tiles alone.
    """

    def __init__(self, space: DesignSpace, blocks: Sequence[_TiledBlock], gpu: GpuLimits) -> None:
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
        return [point for point in best if found[point] < _UNFIT]

    def admitted(self, decisions: Decisions) -> Decisions | None:
        """Return the point if it fits, else None."""
        return decisions if self._cycles(decisions) < _UNFIT else None

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


def _tiled_blocks(space: DesignSpace, program: IRModule) -> Iterator[_TiledBlock]:
    insts = space.trace.insts
    knob_of = {knob.inst: k for k, knob in enumerate(space.knobs)}
    names: dict[Any, str] = {}
    loops: dict[Any, tuple[Any, int]] = {}
    """The block and the axis that each loop belongs to."""
    parts: dict[Any, list[tuple[Any, int]]] = {}
    """The sampled factors that a split or fused loop consists of: their axis and level."""
    knobs: dict[Any, int] = {}
    """The knob for each loop that is tiled."""
    levels: dict[Any, int] = {}
    """The number of tile levels of each split loop."""
    binds: dict[tuple[Any, int], str] = {}
    limits: dict[tuple[Any, str], int] = {}
    for inst in insts:
        kind = inst.kind.name
        if kind == "GetBlock":
            names[inst.outputs[0]] = inst.value_of("name")
        elif kind == "GetLoops":
            block = inst.value_of("block")
            for k, loop in enumerate(inst.outputs):
                loops.setdefault(loop, (block, k))
        elif kind == "SamplePerfectTile" and inst in knob_of:
            knobs[inst.value_of("loop")] = knob_of[inst]
        elif kind == "Split":
            loop = inst.value_of("loop")
            levels[loop] = len(inst.outputs)
            parts.update({made: [(loop, level)] for level, made in enumerate(inst.outputs)})
        elif kind == "Fuse":
            fused = inst.value_of("loops")
            parts[inst.outputs[0]] = [part for loop in fused for part in parts.get(loop, ())]
        elif kind == "Bind":
            axis = inst.value_of("thread_axis").partition(".")[0]
            binds.update(dict.fromkeys(parts.get(inst.value_of("loop"), ()), axis))
        elif kind == "Annotate":
            value = inst.value_of("ann_val")
            number = value.value if isinstance(value, IntImm) else value
            limits[inst.value_of("block_or_loop"), inst.value_of("ann_key")] = number
    for block, key in limits:
        if key == TILING_STRUCTURE:
            tiled = {axis: loop for loop, (owner, axis) in loops.items() if owner == block}
            node = _block_named(program, names.get(block, ""))
            if node is not None and all(tiled.get(k) in knobs for k in range(len(node.iter_vars))):
                own = [tiled[k] for k in range(len(node.iter_vars))]
                yield _TiledBlock(
                    tuple(knobs[loop] for loop in own),
                    tuple(axis.iter_type == IterVar.DATA_PAR for axis in node.iter_vars),
                    tuple(
                        tuple(binds.get((loop, level), "") for level in range(levels[loop]))
                        for loop in own
                    ),
                    tuple(_operands(node)),
                    (limits.get((block, THREAD_EXTENT_LOW), 1),
                     limits.get((block, THREAD_EXTENT_HIGH), 1 << 30)),
                )  # fmt: skip


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
