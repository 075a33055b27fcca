"""The replay of the trace of one program on another program.

Decisions that do not fit the other program are repaired by their primitives: the inner parts of a
tile stay, and the outermost part gets the remaining iterations. Splits by numbers are adapted in
the same way.

A good schedule of a matrix product is good for that product with another epilogue (a bias, an
activation), as the anchor block does nearly all of the work. The instructions on the anchor block
are replayed; those on missing blocks are skipped; blocks that the trace does not mention are
inlined, or computed at the tiles of the anchor block.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator, Sequence, Set
from itertools import takewhile
from math import prod
from typing import Any, Final

from codegen import Target
from codegen.target import as_target
from schedule import BlockRV, LoopRV, Schedule, ScheduleError, Trace
from schedule.analysis.bindings import loop_iter_types
from schedule.analysis.block_kind import is_spatial
from schedule.instruction import Instruction
from schedule.trace import translate
from search.context import TuneContext
from search.database.module_equality import anchor_block
from search.errors import TuningError
from search.schedule_rule.compute_location import AutoInline, InlineConstantScalars
from search.schedule_rule.schedule_rule import ScheduleRule, exists, succeeds
from search.space_generator.space_generator import SpaceGenerator
from search.task import with_num_cores
from tensorir.errors import TensorIRError
from tensorir.function import IRModule
from tensorir.nodes.expr import IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import collect_vars, walk

_SEED: Final = 1
"""The fixed seed of decisions that are sampled again."""


class ReplayError(TuningError):
    """The trace of one program cannot be replayed on another one."""


class AdaptedReplay:
    """Applies a trace to a schedule of another program.

    `name_here` maps the name of a block in the trace to its name in this program, None if it is
    missing; `func` is the name of the function. A subclass may make instructions optional.
    """

    def __init__(self, sch: Schedule, func: str, name_here: Callable[[str], str | None]) -> None:
        self._sch = sch
        self._func = func
        self._name_here = name_here
        self._made: dict[Any, Any] = {mark: mark for mark in (LoopRV.inline_rv(), LoopRV.root_rv())}

    def apply(self, trace: Trace, remove_postproc: bool = True) -> None:
        """Apply a trace, by default without postprocessing; ReplayError if it does not fit."""
        for inst in trace.instructions(remove_postproc=remove_postproc):
            needed = self.is_needed(inst)
            try:
                outputs = self._apply_instruction(inst, trace.decisions.get(inst))
            except TensorIRError as error:
                if needed:
                    text = str(error).partition("\n")[0]
                    raise ReplayError(f"{inst.kind.name} does not apply: {text}") from error
                continue
            if needed and inst.kind.result != "blocks" and len(outputs) != len(inst.outputs):
                raise ReplayError(
                    f"{inst.kind.name} gives {len(outputs)} outputs, not {len(inst.outputs)}"
                )
            # A block may have more neighbours in one program: the first ones correspond.
            self._made.update(zip(inst.outputs, outputs, strict=False))
            self.applied(inst)

    def is_needed(self, inst: Instruction) -> bool:
        """True if the replay fails when an instruction does not apply."""
        return True

    def applied(self, inst: Instruction) -> None:
        """Called after each instruction that was applied."""

    def _apply_instruction(self, inst: Instruction, decision: Any) -> list[Any]:
        values = [translate(value, self._made) for value in inst.values]
        if inst.kind.name == "GetBlock":
            values = [self._name_here(values[0]), self._func]
        elif inst.kind.name == "Split":
            loop, factors, *options = values
            values = [loop, self._cover_loop(loop, factors), *options]
        return self._sch.invoke(inst.kind, values, decision)

    def _cover_loop(self, loop: LoopRV, factors: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return factors that cover a loop: the first one is inferred if it is too small."""
        extent = self._sch.get(loop).extent
        numbers = [self._sch.get(f) if isinstance(f, PrimExpr) else f for f in factors]
        known = [number for number in numbers if number is not None]
        if len(known) < len(numbers) or not isinstance(extent, IntImm):
            return factors
        return factors if prod(known) >= extent.value else (None, *factors[1:])


def space_for(mod: IRModule, target: Target) -> SpaceGenerator:
    """Return the rules and postprocessors for a target, initialised for a program."""
    context = TuneContext(mod, target=target, space_generator="post-order-apply", rand_state=_SEED)
    assert context.space_generator is not None
    return context.space_generator


def schedule_of(mod: IRModule) -> Schedule:
    """Return an empty schedule of a program for the replay of another trace."""
    return Schedule(mod, seed=_SEED, error_render_level="fast")


def postprocess_like(trace: Trace, sch: Schedule, space: SpaceGenerator) -> None:
    """Run the postprocessors if those of a trace were run; ReplayError if one rejects."""
    if all(inst.kind.name != "EnterPostproc" for inst in trace.insts):
        return
    sch.enter_postproc()
    for postproc in space.postprocs:
        if not postproc.apply(sch):
            raise ReplayError(f"{postproc} rejects the schedule: {postproc.reason(sch)}")


def schedule_by_compatible(
    mod: IRModule, trace: Trace, recorded: IRModule, target: Target
) -> Schedule:
    """Return a schedule of `mod` from the trace of a compatible program (`compatible_factor`).

    Both are modules of one function. Tiles keep their inner parts. If the trace was postprocessed,
    the postprocessors for `target` run at the end.

    Raises ReplayError if an instruction does not apply, or a postprocessor rejects the result.
    """
    sch = schedule_of(mod)
    replay_like(sch, block_names(recorded), trace)
    postprocess_like(trace, sch, space_for(mod, target))
    return sch


def replay_like(sch: Schedule, blocks: Sequence[str], trace: Trace) -> None:
    """Apply the trace of a program with the same structure, whose blocks have the given names.

    The schedule is of a module of one function. Raises ReplayError if an instruction does not
    apply.
    """
    (name,) = sch.mod.functions
    here = block_names(sch.mod)
    if len(here) != len(blocks):
        raise ReplayError(f"the program has {len(here)} blocks, that of the trace {len(blocks)}")
    names = dict(zip(blocks, here, strict=True))
    AdaptedReplay(sch, name, lambda block: names.get(block, block)).apply(trace)


def block_names(mod: IRModule) -> tuple[str, ...]:
    """Return the names of the blocks of a program of one function, in its order."""
    (func,) = mod.prim_funcs().values()
    return tuple(node.name_hint for node in walk(func.body) if isinstance(node, Block))


def schedule_by_anchor(mod: IRModule, trace: Trace, recorded: IRModule, target: Target) -> Schedule:
    """Return a schedule of `mod` from the trace of a program with the same anchor block.

    Both are modules of one function. Instructions on the anchor block are applied to the anchor
    block of `mod`, and instructions on another block to the block with its name, if there is one
    and they apply. Blocks that the trace does not change are inlined if the rules for `target`
    inline them; otherwise a consumer is inlined into the trace's cache of the anchor's result, or
    computed at its tiles. If the trace was postprocessed, the postprocessors for `target` run at
    the end.

    Raises ReplayError if the trace does not fit the anchor block, or a postprocessor rejects the
    result.
    """
    sch = schedule_of(mod)
    _replay(sch, trace, _anchor_name(recorded), set(block_names(recorded)), target)
    return sch


def schedule_using_anchor_trace(
    sch: Schedule, anchor_trace: Trace, target: Target | str | None = None
) -> None:
    """Apply the trace of another program with the same anchor block to a schedule.

    Blocks correspond by their names, as in TVM: the anchor block (the reduction with the most work)
    must have a name in the trace, and instructions on missing blocks are skipped. Blocks that the
    trace does not change, other reductions among them, are inlined, computed at the tiles of the
    anchor block, or parallelised if the trace parallelises a loop. If the trace was postprocessed,
    the postprocessors for `target` run at the end.

    Raises ReplayError, with the schedule unchanged, if the module has several functions, if the
    name of the anchor block is not in the trace, or if the trace does not fit that block.
    """
    mod = sch.mod
    if len(mod.functions) != 1:
        raise ReplayError(
            f"an anchor trace needs a module of one function, got {len(mod.functions)}"
        )
    names = {i.values[0] for i in anchor_trace.insts if i.kind.name == "GetBlock"}
    anchor = _anchor_name(mod)
    if anchor is not None and anchor not in names:
        raise ReplayError(
            f"the trace has no block {anchor!r}, the anchor block of this program; its blocks are "
            f"{', '.join(sorted(map(repr, names))) or 'none'}"
        )
    made = schedule_of(mod)
    _replay(made, anchor_trace, anchor, names, with_num_cores(as_target(target)))
    made.trace.apply_to_schedule(sch, remove_postproc=False)


def _replay(
    sch: Schedule,
    trace: Trace,
    recorded_anchor: str | None,
    recorded_blocks: Set[str | None],
    target: Target,
) -> None:
    mod = sch.mod
    (name,) = mod.functions
    space = space_for(mod, target)
    anchor = _anchor_name(mod)
    others = _OtherBlocks(sch, name, anchor, space)
    replay = _AnchorReplay(sch, name, anchor, recorded_anchor, recorded_blocks)
    others.inline(but=replay.names_of(trace))
    replay.apply(trace)
    others.inline()
    others.join_tiles()
    if any(i.kind.name == "Parallel" for i in trace.instructions(remove_postproc=True)):
        others.run_in_parallel()
    postprocess_like(trace, sch, space)


def _anchor_name(mod: IRModule) -> str | None:
    block = anchor_block(mod)
    return None if block is None else block.name_hint


class _AnchorReplay(AdaptedReplay):
    """Applies the parts of a trace that fit; the instructions on the anchor block must apply.

    Instructions on blocks that the trace itself makes must apply, too. Without an anchor block, all
    instructions must.
    """

    def __init__(
        self,
        sch: Schedule,
        func: str,
        anchor: str | None,
        recorded_anchor: str | None,
        recorded_blocks: Set[str | None],
    ) -> None:
        super().__init__(sch, func, self._anchor_or_same)
        self._anchor = anchor
        self._recorded = recorded_anchor
        self._optional = recorded_blocks - {recorded_anchor}
        self._of_anchor: set[Any] = set()
        """The handles of the trace that derive from the anchor block."""

    def names_of(self, trace: Trace) -> set[str | None]:
        """Return the names in this program of the blocks of a trace."""
        insts = trace.instructions(remove_postproc=True)
        return {self._anchor_or_same(i.values[0]) for i in insts if i.kind.name == "GetBlock"}

    def is_needed(self, inst: Instruction) -> bool:
        """True if an instruction uses the anchor block, or a handle that derives from it."""
        if self._recorded is None:
            return True
        if inst.kind.name == "GetBlock":
            return inst.values[0] not in self._optional
        return next(_handles_in(inst.values), None) in self._of_anchor

    def applied(self, inst: Instruction) -> None:
        """Record the handles that derive from the anchor block; its neighbours do not."""
        finds_neighbours = inst.kind.is_pure and inst.kind.result == "blocks"
        if self.is_needed(inst) and not finds_neighbours:
            self._of_anchor.update(rv for rv in inst.outputs if rv is not None)

    def _anchor_or_same(self, name: str) -> str | None:
        """Return the name in this program of a block of the trace, None if it is missing."""
        if name == self._recorded:
            return self._anchor
        return None if name == self._anchor else name


class _OtherBlocks:
    """The blocks other than the anchor block, in program order."""

    def __init__(self, sch: Schedule, func: str, anchor: str | None, space: SpaceGenerator) -> None:
        kinds = (AutoInline, InlineConstantScalars)
        self._rules: list[ScheduleRule] = [r for r in space.sch_rules if isinstance(r, kinds)]
        self._sch = sch
        self._func = func
        self._anchor = anchor
        names = [sref.block.name_hint for sref in sch.state.blocks(func) if sref.parent is not None]
        self._handles = {
            name: sch.get_block(name, func)
            for name in names
            if name != anchor and names.count(name) == 1
        }
        self._loops = {block: self._loop_vars(block) for block in self._handles.values()}

    def inline(self, but: Container[str | None] = ()) -> None:
        """Inline the blocks that the rules inline, blocks without consumers last."""
        blocks = [block for name, block in self._handles.items() if name not in but]
        blocks = [block for block in blocks if self._is_untouched(block)]
        for block in sorted(blocks, key=lambda block: not self._sch.get_consumers(block)):
            for rule in self._rules:
                if exists(self._sch, block):
                    rule.apply(self._sch, block)

    def join_tiles(self) -> None:
        """Inline the consumers of the anchor block into its cache, or compute them at its tiles."""
        for block in self._handles.values():
            if not self._is_untouched(block) or not is_spatial(self._sch.get_sref(block)):
                continue
            inlined = succeeds(self._sch.reverse_compute_inline, block)
            if inlined or not self._sch.get_producers(block):
                continue
            for loop in reversed(self._tile_loops()):
                if succeeds(self._sch.reverse_compute_at, block, loop, preserve_unit_loops=True):
                    break

    def run_in_parallel(self) -> None:
        """Parallelise the outer spatial loops of each unchanged block."""
        for block in self._handles.values():
            if not self._is_untouched(block):
                continue
            loops = self._sch.get_loops(block)
            kinds = loop_iter_types(self._sch.state, [self._sch.get_sref(lp) for lp in loops])
            outer = list(
                takewhile(lambda pair: pair[1] == IterVar.DATA_PAR, zip(loops, kinds, strict=True))
            )
            if not outer:
                continue
            with contextlib.suppress(ScheduleError):
                fused = loops[0] if len(outer) == 1 else self._sch.fuse(*(lp for lp, _ in outer))
                self._sch.parallel(fused)

    def _tile_loops(self) -> list[LoopRV]:
        """Return the loops of the anchor block over tiles of more than one element."""
        if self._anchor is None:
            return []
        loops = self._sch.get_loops(self._sch.get_block(self._anchor, self._func))
        kinds = loop_iter_types(self._sch.state, [self._sch.get_sref(loop) for loop in loops])
        outer = list(takewhile(lambda k: kinds[k] == IterVar.DATA_PAR, range(len(loops))))
        extents = [self._sch.get(loop).extent for loop in loops]
        wide = [k for k, kind in enumerate(kinds) if kind == IterVar.DATA_PAR]
        wide = [k for k in wide if not is_const_int(extents[k], 1)]
        return [loops[k] for k in outer if wide and k < wide[-1]]

    def _is_untouched(self, block: BlockRV) -> bool:
        """True if a block exists and has its original loops."""
        return exists(self._sch, block) and self._loop_vars(block) == self._loops[block]

    def _loop_vars(self, block: BlockRV) -> list[Var]:
        return [self._sch.get(loop).loop_var for loop in self._sch.get_loops(block)]


def _handles_in(values: Sequence[Any]) -> Iterator[Any]:
    """Yield the blocks, loops and numbers among the arguments of an instruction, in order."""
    for value in values:
        if isinstance(value, (BlockRV, LoopRV)):
            yield value
        elif isinstance(value, PrimExpr):
            yield from collect_vars(value)
        elif isinstance(value, tuple):
            yield from _handles_in(value)
