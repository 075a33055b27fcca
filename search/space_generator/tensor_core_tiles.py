"""The time of the points of a design space with tensor cores, estimated from tiles alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from codegen.target.gpu import BANKS, SECTOR, WARP, GpuLimits
from codegen.target.tensor_cores import SIDE, registers_of
from search.feature_extractor.gpu_estimate import (
    ThreadBlocks,
    Work,
    tensor_operations,
)
from search.schedule_rule.multi_level_tiling_tensor_core import row_stride
from search.space_generator.design_space import Decisions
from search.space_generator.matrix_axes import MatrixAxes
from tensorir.nodes.buffer import Buffer


@dataclass(frozen=True, slots=True)
class TensorCoreBlock:
    """A product after `MultiLevelTilingTensorCore`, with the structure `"SSSRRSRS"`."""

    knobs: tuple[int, ...]
    """The knobs that sample the tiles of the rows, columns and steps of the product."""
    binds: tuple[str, ...]
    """For each tile level of rows and columns, an axis such as `"blockIdx.y"`, or `""`."""
    axes: MatrixAxes
    layouts: tuple[str, str]
    """The letters of both dimensions of each factor in shared memory."""
    threads: tuple[int, int]
    """The least and the largest number of threads."""
    stages: int
    """The number of steps whose operands are in shared memory at the same time."""

    def cycles(self, decisions: Decisions, gpu: GpuLimits) -> float:
        """Return an estimate of the time of a point; `UNFIT` or more if it does not fit the GPU."""
        tiles: list[Any] = [decisions[knob] for knob in self.knobs]
        rows, columns = (self._parts(tile) for tile in tiles[:2])
        outer, between, inner = tiles[2][0], math.prod(tiles[2][1:-1]), tiles[2][-1]
        grid = self.axes.count("b") * rows[self.binds[0]] * columns[self.binds[0]]
        blocks = self.axes.count("b") * rows["blockIdx"] * columns["blockIdx"]
        warps = rows["threadIdx"] * columns["threadIdx"]
        threads = warps * WARP
        sums = rows[""] * columns[""]
        left, right = (load.buffer for load in self.axes.loads)
        local = sum(
            registers_of(scope, dtype, SIDE**2 * count)
            for scope, dtype, count in (
                ("wmma.accumulator", self.axes.result.dtype, sums),
                ("wmma.matrix_a", left.dtype, rows[""] * inner),
                ("wmma.matrix_b", right.dtype, columns[""] * inner),
            )
        )
        extent = {
            "i": SIDE * rows["threadIdx"] * rows[""],
            "j": SIDE * columns["threadIdx"] * columns[""],
            "k": SIDE * between * inner,
        }
        boxes = [(extent[layout[0]], extent[layout[1]]) for layout in self.layouts]
        shared = self.stages * sum(
            count * row_stride(length, buffer.dtype) * buffer.dtype.nbytes
            for (count, length), buffer in zip(boxes, (left, right), strict=True)
        )
        # The results have the bytes of the operands (`share_bytes`).
        shared = max(shared, warps * columns[""] * SIDE**2 * self.axes.result.dtype.nbytes)
        steps = outer * between * inner
        loaded = warps * (rows[""] + columns[""]) * steps * SIDE**2 * left.dtype.nbytes
        step = math.prod(boxes[0]) * left.dtype.nbytes + math.prod(boxes[1]) * right.dtype.nbytes
        work = Work(
            operations=tensor_operations(warps * sums * steps * SIDE**3, left.dtype.nbytes),
            shared=(loaded + step * outer) / (BANKS * 4),
            sectors=float(outer * sum(self._fetched(k, box) for k, box in enumerate(boxes))),
            parallel=float(min(8, sums)),
            steps=float(outer),
        )
        thread_blocks = ThreadBlocks(blocks, grid, threads, self.threads, local, shared)
        return thread_blocks.cycles(work, gpu)

    def _parts(self, tile: Sequence[int]) -> dict[str, int]:
        counts = {"blockIdx": 1, "threadIdx": 1, "": 1}
        for axis, part in zip(self.binds, tile, strict=True):
            for name in {axis, axis.partition(".")[0]}:
                counts[name] = counts.get(name, 1) * part
        return counts

    def _fetched(self, factor: int, box: tuple[int, int]) -> int:
        """Return the bytes of the sectors from which a tile of a factor is fetched."""
        load, (count, length) = self.axes.loads[factor], box
        buffer: Buffer = load.buffer
        is_row = self.layouts[factor][1] in self.axes.dims(load)[-1]
        return count * (max(SECTOR, length * buffer.dtype.nbytes) if is_row else length * SECTOR)
