"""The replay of the trace of a static program on a program with symbolic sizes.

A tile keeps its inner parts, and the outermost part covers the symbolic extent: the last tile has
conditions, from which lowering makes a separate version (`codegen.lower.split_tails`). So the
schedule is right for every size. `size_dispatch` chooses among such schedules at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from schedule.analysis.bindings import loop_iter_types
from schedule.instruction import Instruction
from schedule.trace import translate
from search.history.adapted_replay import AdaptedReplay, ReplayError, schedule_of
from search.postproc.rewrite_layout import copied_weight
from search.schedule_rule.schedule_rule import succeeds
from tensorir.errors import IRValueError
from tensorir.function import IRModule
from tensorir.indices.accesses import strides
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import For, ForKind


def schedule_for_any_size(
    mod: IRModule, static: Schedule, layouts: dict[Buffer, IndexMap]
) -> Schedule:
    """Return a schedule of a program with symbolic sizes from a schedule of a static one.

    `static` is a schedule of `with_sizes` of its function, and replayed with its postprocessing.
    `layouts` has the layouts of weights that other schedules of the program have chosen, by
    parameter; they replace those of `static`, whose other layouts are added to it.

    Raises ReplayError if an instruction does not apply to symbolic sizes.
    """
    sch = schedule_of(mod)
    try:
        _OverOpenSizes(sch, static, layouts).apply(static.trace, remove_postproc=False)
    except ScheduleError as error:  # in `applied`
        raise ReplayError(f"a loop cannot be split once more: {error.message}") from error
    return sch


class _OverOpenSizes(AdaptedReplay):
    """Replays a trace of a static program on the program with symbolic sizes.

    The outermost part of a split covers a symbolic extent. If the static schedule unrolls or
    vectorises that part, or a whole loop, it is split once more by its static extent, and the new
    loop goes around the nest:

    Before: for i: for j in T.unroll(4): ...           # n is 4
    After:  for j_0 in (n + 3) // 4: for i: for j_1 in T.unroll(4): ...
    """

    def __init__(self, sch: Schedule, static: Schedule, layouts: dict[Buffer, IndexMap]) -> None:
        super().__init__(sch, "main", lambda block: block)
        self._static = static
        self._layouts = layouts
        self._added: set[Var] = set()
        """The loops that the static program does not have."""
        self._written_out = {
            value
            for inst in static.trace.insts
            if inst.kind.name in ("Unroll", "Vectorize")
            for value in inst.values
        }

    def _apply_instruction(self, inst: Instruction, decision: Any) -> list[Any]:
        values = [translate(value, self._made) for value in inst.values]
        match inst.kind.name:
            case "SamplePerfectTile" | "SamplePartitionedTile" if not self._is_known(values[0]):
                return [None, *decision[1:]]
            case "Split" if not self._is_known(values[0]):
                return self._split(inst, *values[:3])
            case "GetLoops":
                loops = super()._apply_instruction(inst, decision)
                return [loop for loop in loops if self._var(loop) not in self._added]
            case "DecomposeReduction":
                self._keep_sums(*values)
            case "TransformLayout":
                return self._transform_layout(*values)
        return super()._apply_instruction(inst, decision)

    def applied(self, inst: Instruction) -> None:
        """Split whole loops that are written out."""
        for handle in inst.outputs:
            if handle in self._written_out and not self._is_known(self._made[handle]):
                parts = [None, self._static_extent(handle)]
                added, self._made[handle] = self._sch.split(self._made[handle], parts)
                self._put_around(added)

    def _split(
        self, inst: Instruction, loop: LoopRV, factors: Sequence[Any], keeps_unit_loops: bool
    ) -> list[Any]:
        first = inst.outputs[0]
        inner = factors[1:]
        if first not in self._written_out:
            return self._sch.split(loop, [None, *inner], keeps_unit_loops)
        whole = [None, self._static_extent(first), *inner]
        added, *parts = self._sch.split(loop, whole, keeps_unit_loops)
        self._put_around(added)
        return parts

    def _transform_layout(
        self,
        block: BlockRV,
        place: tuple[str, int],
        index_map: IndexMap,
        pad_value: Any,
        trust: bool,
    ) -> list[Any]:
        weight = copied_weight(self._sch, block, place)
        if weight is not None:
            index_map = self._layouts.setdefault(weight, index_map)
        side, index = place
        node = self._sch.get(block)
        shape = (node.reads if side == "read" else node.writes)[index].buffer.shape
        if trust and not all(isinstance(extent, IntImm) for extent in shape):
            try:
                index_map.non_surjective_inverse(shape)
            except IRValueError:
                return []  # it is injective for the static shape only
        self._sch.transform_layout(
            block, place, index_map, pad_value, assume_injective_transform=trust
        )
        return []

    def _put_around(self, loop: LoopRV) -> None:
        """Move a new loop out of the serial loops directly around it."""
        self._added.add(self._var(loop))
        sref = self._sch.get_sref(loop)
        around = 0
        while (
            (outer := sref.parent) is not None
            and isinstance(outer.stmt, For)
            and outer.stmt.kind is ForKind.SERIAL
            and outer.stmt.body is sref.stmt
        ):
            sref, around = outer, around + 1
        if around:
            loops = self._sch.get_loops(self._sch.get_child_blocks(loop)[0])
            place = [self._var(other) for other in loops].index(self._var(loop))
            self._sch.reorder(loop, *loops[place - around : place])

    def _keep_sums(self, block: BlockRV, loop: LoopRV) -> None:
        """Copy a tile of sums to a separate buffer if the distance of its rows is symbolic.

        Lowering keeps sums in registers only if it can prove that they do not overlap.
        """
        sref = self._sch.get_sref(block)
        written = sref.block.writes[0]  # values of a tuple have the same shape
        loops = self._sch.get_loops(block)
        place = [self._var(other) for other in loops].index(self._var(loop))
        kinds = loop_iter_types(self._sch.state, [self._sch.get_sref(other) for other in loops])
        starts = [dim.min for dim in written.region]
        steps = strides(sref.block_realize, written.buffer, starts)
        is_apart = any(
            steps.get(self._var(other), 0) is None
            for other, kind in zip(loops[place:], kinds[place:], strict=True)
            if kind == IterVar.DATA_PAR and self._is_tile(other)
        )
        if not is_apart or self._is_used_within(block, loops[:place]):
            return
        if succeeds(_copy_sums, self._sch.copy(), block, loops[:place]):
            _copy_sums(self._sch, block, loops[:place])

    def _is_used_within(self, block: BlockRV, loops: Sequence[LoopRV]) -> bool:
        """Return True if the innermost of some loops contains a consumer of a block.

        Lowering then gives the block a buffer for an iteration of that loop.
        """
        repeating = [loop for loop in loops if not is_const_int(self._sch.get(loop).extent, 1)]
        around = {
            self._var(loop)
            for consumer in self._sch.get_consumers(block)
            for loop in self._sch.get_loops(consumer)
        }
        return not repeating or self._var(repeating[-1]) in around

    def _static_extent(self, handle: Any) -> PrimExpr:
        assert isinstance(handle, LoopRV)
        extent: PrimExpr = self._static.get(handle).extent
        return extent

    def _var(self, loop: LoopRV) -> Var:
        var: Var = self._sch.get(loop).loop_var
        return var

    def _is_tile(self, loop: LoopRV) -> bool:
        return self._is_known(loop) and not is_const_int(self._sch.get(loop).extent, 1)

    def _is_known(self, loop: LoopRV) -> bool:
        return isinstance(self._sch.get(loop).extent, IntImm)


def _copy_sums(sch: Schedule, block: BlockRV, loops: Sequence[LoopRV]) -> None:
    """Compute a block in memory of its own, and copy it in the innermost possible of some loops.

    Raises ScheduleError if there is no such loop.
    """
    copy = sch.cache_write(block, 0, "global")
    for loop in reversed(loops[1:]):
        if succeeds(sch.reverse_compute_at, copy, loop, preserve_unit_loops=True):
            break
    else:
        sch.reverse_compute_at(copy, loops[0], preserve_unit_loops=True)
    innermost = sch.get_loops(copy)[-1]
    if isinstance(sch.get(innermost).extent, IntImm):
        sch.vectorize(innermost)
