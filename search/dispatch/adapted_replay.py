"""The replay of a trace that was recorded of one program on another one.

Decisions that do not fit the other program are repaired by their primitives: of a tile the inner
parts stay, and the outermost takes what they leave. Splits by numbers are adapted in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, Final

from schedule import LoopRV, Schedule
from schedule.trace import translate
from search.context import TuneContext
from search.errors import TuningError
from search.space_generator.space_generator import SpaceGenerator
from tensorir.errors import TensorIRError
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import walk

if TYPE_CHECKING:
    from codegen import Target
    from schedule import Trace
    from schedule.instruction import Instruction
    from tensorir.function import IRModule

_SEED: Final = 1
"""The seed of what has to be drawn anew, which so is always the same."""


class ReplayError(TuningError):
    """A trace that was recorded of one program cannot be replayed on another one."""


class AdaptedReplay:
    """Applies a trace to a schedule of another program than that which it was recorded on.

    `name_here` gives what the block that the trace calls by a name is called here, None if it is
    not here; `func` is the name of the function. A subclass may say that some instructions need not
    apply.
    """

    def __init__(self, sch: Schedule, func: str, name_here: Callable[[str], str | None]) -> None:
        self._sch = sch
        self._func = func
        self._name_here = name_here
        self._made: dict[Any, Any] = {mark: mark for mark in (LoopRV.inline_rv(), LoopRV.root_rv())}

    def apply(self, trace: Trace) -> None:
        """Apply a trace but for its postprocessing; ReplayError if it does not fit."""
        for inst in trace.instructions(remove_postproc=True):
            needed = self.is_needed(inst)
            try:
                outputs = self._applied(inst, trace.decisions.get(inst))
            except TensorIRError as error:
                if needed:
                    text = str(error).partition("\n")[0]
                    raise ReplayError(f"{inst.kind.name} does not apply: {text}") from error
                continue
            if needed and inst.kind.result != "blocks" and len(outputs) != len(inst.outputs):
                raise ReplayError(
                    f"{inst.kind.name} gives {len(outputs)} outputs, not {len(inst.outputs)}"
                )
            # Which neighbours a block has depends on the program: the first ones correspond.
            self._made.update(zip(inst.outputs, outputs, strict=False))
            self.applied(inst)

    def is_needed(self, inst: Instruction) -> bool:
        """Say whether the replay fails with an instruction, or goes on without it."""
        return True

    def applied(self, inst: Instruction) -> None:
        """Take note of an instruction that applied."""

    def _applied(self, inst: Instruction, decision: Any) -> list[Any]:
        values = [translate(value, self._made) for value in inst.values]
        if inst.kind.name == "GetBlock":
            values = [self._name_here(values[0]), self._func]
        elif inst.kind.name == "Split":
            loop, factors, *options = values
            values = [loop, self._covering(loop, factors), *options]
        return self._sch.invoke(inst.kind, values, decision)

    def _covering(self, loop: LoopRV, factors: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return factors that cover a loop: the first one is inferred where it is too small."""
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
    """Return the schedule of a program on which a trace of another one is replayed."""
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
    """Return a schedule of `mod` after a trace that was recorded on a compatible program.

    Both are modules of one function; see `compatible_factor`. Tiles keep their inner parts. If the
    trace was postprocessed, the postprocessors for `target` end the schedule.

    Raises ReplayError where an instruction does not apply, or a postprocessor rejects the result.
    """
    (name,) = mod.functions
    names = dict(zip(_block_names(recorded), _block_names(mod), strict=True))
    sch = schedule_of(mod)
    AdaptedReplay(sch, name, lambda block: names.get(block, block)).apply(trace)
    postprocess_like(trace, sch, space_for(mod, target))
    return sch


def _block_names(mod: IRModule) -> list[str]:
    """Return the names of the blocks of a program in its order."""
    (func,) = mod.prim_funcs().values()
    return [node.name_hint for node in walk(func.body) if isinstance(node, Block)]
