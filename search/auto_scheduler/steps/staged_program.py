"""The blocks of a schedule by stage, while steps divide stages and copy what they read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedule import BlockRV, LoopRV, Schedule
from search.auto_scheduler.steps.step import StepError
from tensorir.nodes.buffer import Buffer
from tensorir.te import PlaceholderOp

if TYPE_CHECKING:
    from search.auto_scheduler.steps.compute_dag import ComputeDAG
    from search.auto_scheduler.steps.state import Stage, State


class StagedProgram:
    """A schedule of the program of a graph, and which block computes which stage."""

    def __init__(self, dag: ComputeDAG, seed: int) -> None:
        self.sch = Schedule(dag.func, seed=seed, error_render_level="fast")
        arguments = zip(dag.tensors, dag.func.buffer_map.values(), strict=True)
        inputs = {t.op: buffer for t, buffer in arguments if isinstance(t.op, PlaceholderOp)}
        self._sources: list[Buffer | tuple[str, ...] | BlockRV] = [
            inputs[op] if op in inputs else dag.block_names[op] for op in dag.ops
        ]

    def block(self, state: State, index: int) -> BlockRV:
        """Return the block of a stage; StepError unless it has one whose loops are its axes."""
        source = self._sources[index]
        if isinstance(source, tuple):
            name = state.stages[index].name
            if len(source) != 1:
                raise StepError(
                    f"{name} gives {len(source)} tensors, which are computed in a nest each; steps "
                    "on it cannot be replayed"
                )
            source = self._sources[index] = self.sch.get_block(source[0], "main")
        assert isinstance(source, BlockRV)
        return source

    def blocks(self, state: State, index: int) -> list[BlockRV]:
        """Return all blocks of a stage."""
        source = self._sources[index]
        if isinstance(source, tuple) and len(source) != 1:
            return [self.sch.get_block(name, "main") for name in source]
        return [self.block(state, index)]

    def buffer(self, state: State, index: int) -> Buffer:
        """Return the buffer of a stage or an input."""
        source = self._sources[index]
        if isinstance(source, Buffer):
            return source
        writes = self.sch.get(self.block(state, index)).writes
        if len(writes) != 1:
            raise StepError(f"{state.stages[index].name} gives {len(writes)} tensors, not one")
        return writes[0].buffer

    def insert(self, index: int, block: BlockRV) -> None:
        """Let a block be that of a new stage; those from `index` on move up."""
        self._sources.insert(index, block)

    def nest(self, state: State, index: int) -> list[LoopRV]:
        """Return the loops of a stage where it is, in the order of its axes."""
        stage = state.stages[index]
        block = self.block(state, index)
        loops = self.sch.get_loops(block)
        count = len(stage.axes)
        if len(loops) < count:
            raise StepError(
                f"{stage.name} has {count} axes but {len(loops)} loops around its block, because "
                "the range of one depends on another; steps on it cannot be replayed"
            )
        return loops[len(loops) - count :]

    def rfactor(self, state: State, index: int, position: int, factor_axis: int) -> None:
        """Factor a loop of the reduction of a stage, and give the partial results a stage."""
        sch, stage = self.sch, state.stages[index]
        block = self.block(state, index)
        loops = self.nest(state, index)
        for change in stage.changes:
            loops = change.replay(sch, block, loops)
        partial = sch.rfactor(loops[position], factor_axis)
        rank = len(stage.shape)
        kept = [k for k in range(rank, len(loops)) if k != position]
        order = [*range(factor_axis), position, *range(factor_axis, rank), *kept]
        nest = sch.get_loops(partial)
        ordered = [nest[k] for k in order]
        if ordered != nest:
            sch.reorder(*ordered)
        self._sources.insert(index, partial)
        self._axes_in_order(stage, partial)
        self._axes_in_order(stage, block)

    def _axes_in_order(self, stage: Stage, block: BlockRV) -> None:
        """Give a block its axes in the order of the loops, in which `compute_at` makes new ones."""
        sch = self.sch
        bound = list(sch.get_sref(block).block_realize.iter_values)
        variables = [sch.get(loop).loop_var for loop in sch.get_loops(block)]
        try:
            order = [bound.index(var) for var in variables]
        except ValueError:
            order = []
        if sorted(order) != list(range(len(bound))):
            raise StepError(
                f"the loops of the reduction {stage.name} that remain are not its axes; fuse all "
                "of them before they are split"
            )
        if order != sorted(order):
            sch.reorder_block_iter_var(block, order)
