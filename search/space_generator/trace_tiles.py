"""The tiles of blocks, read from the trace of a design space."""

from __future__ import annotations

from typing import Any

from codegen.lower.forms import PIPELINE_STAGE
from schedule.instruction import Instruction
from search.space_generator.annotations import THREAD_EXTENT_HIGH, THREAD_EXTENT_LOW
from search.space_generator.design_space import DesignSpace
from tensorir.nodes.expr import IntImm


class TraceTiles:
    """The tiles, thread axes and annotations of blocks and loops in the trace of a space."""

    def __init__(self, space: DesignSpace) -> None:
        knob_of = {knob.inst: k for k, knob in enumerate(space.knobs)}
        self.names: dict[Any, str] = {}
        self.origin: dict[Any, Any] = {}
        """The block inside of each block that `blockize` made."""
        self._loops: dict[Any, tuple[Any, int]] = {}
        """The block and the axis that each loop belongs to."""
        self._parts: dict[Any, list[tuple[Any, int]]] = {}
        """The sampled factors that a split or fused loop consists of: their axis and level."""
        self.knobs: dict[Any, int] = {}
        """The knob for each loop that is tiled."""
        self._levels: dict[Any, int] = {}
        """The number of tile levels of each split loop."""
        self._binds: dict[tuple[Any, int], str] = {}
        self.marks: dict[tuple[Any, str], Any] = {}
        """The annotations of blocks."""
        self.stages: dict[Any, int] = {}
        """The number of steps that a pipelined loop of a block runs at the same time."""
        for inst in space.trace.insts:
            if inst.kind.name == "SamplePerfectTile" and inst in knob_of:
                self.knobs[inst.value_of("loop")] = knob_of[inst]
            self._read(inst)

    def _read(self, inst: Instruction) -> None:
        kind = inst.kind.name
        if kind == "GetBlock":
            self.names[inst.outputs[0]] = inst.value_of("name")
        elif kind == "GetLoops":
            block = inst.value_of("block")
            for k, loop in enumerate(inst.outputs):
                self._loops.setdefault(loop, (block, k))
        elif kind == "Split":
            loop = inst.value_of("loop")
            self._levels[loop] = len(inst.outputs)
            self._parts.update({made: [(loop, level)] for level, made in enumerate(inst.outputs)})
        elif kind == "Fuse":
            fused = inst.value_of("loops")
            self._parts[inst.outputs[0]] = [
                part for loop in fused for part in self._parts.get(loop, ())
            ]
        elif kind == "Blockize":
            self.origin[inst.outputs[0]] = self._block_of(inst.value_of("target"))
        elif kind == "Bind":
            parts = self._parts.get(inst.value_of("loop"), ())
            self._binds.update(dict.fromkeys(parts, inst.value_of("thread_axis")))
        elif kind == "Annotate":
            value, target = inst.value_of("ann_val"), inst.value_of("block_or_loop")
            key = inst.value_of("ann_key")
            self.marks[target, key] = value.value if isinstance(value, IntImm) else value
            if key == PIPELINE_STAGE:
                self.stages[self._block_of(target)] = 1 + max(map(int, value))

    def _block_of(self, loop: Any) -> Any:
        """Return the block whose loops include one that a loop is a part of."""
        parts = self._parts.get(loop, [(loop, 0)])
        return self._loops.get(parts[0][0], (None, 0))[0] if parts else None

    def loops_of(self, block: Any) -> list[Any]:
        """Return the loops of a block as they were read first."""
        found: dict[int, Any] = {}
        for loop, (owner, axis) in self._loops.items():
            if owner == block:
                found.setdefault(axis, loop)
        return [found[axis] for axis in sorted(found)]

    def binds_of(self, loop: Any) -> tuple[str, ...]:
        """Return the thread axis of each tile level of a loop, `""` for none."""
        return tuple(self._binds.get((loop, level), "") for level in range(self._levels[loop]))

    def threads_of(self, block: Any) -> tuple[int, int]:
        """Return the least and the largest number of threads around a block."""
        low = self.marks.get((block, THREAD_EXTENT_LOW), 1)
        return low, self.marks.get((block, THREAD_EXTENT_HIGH), 1 << 30)
