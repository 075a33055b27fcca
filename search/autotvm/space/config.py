"""The interface of a configuration to its template, which declares knobs and takes their values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from schedule import Instruction, Schedule, Trace
from search.autotvm.errors import KnobError, UnknownKnobError
from search.autotvm.space.annotate import AnnotateSpace
from search.autotvm.space.knob import Axis, AxisLike, Entity, KnobSpace, VirtualAxis, virtual_axis
from search.autotvm.space.option import OtherOptionSpace
from search.autotvm.space.reorder import ReorderSpace
from search.autotvm.space.split import SplitSpace
from search.spaces.decision_site import KNOB


class Config(ABC):
    """A set of knobs, each with the value that it has now.

    `get_config()` gives a template one, and the template never knows which: a `ConfigSpace` while
    its knobs are collected, a `ConfigEntity` while one configuration is made, a
    `FallbackConfigEntity` where nothing is known.
    """

    is_fallback = False

    def __init__(self) -> None:
        self.space_map: dict[str, KnobSpace[Any]] = {}
        """The knobs that the template has declared, in the order of definition."""
        self.entity_map: dict[str, Entity] = {}
        """The value of each knob."""
        self.errors: list[str] = []
        """The reasons why the configuration is not valid."""
        self.flop: float = 0
        """Operations that the template has counted itself."""
        self.cost: float | None = None
        """Seconds that a log has for the configuration."""
        self.code_hash: str | None = None
        self.reads: set[str] = set()
        """Knobs whose value Python has looked at: the program may depend on them in any way."""

    def begin(self) -> None:
        """Forget what an earlier run of the template has said."""
        self.errors.clear()
        self.flop = 0

    # -------------------------------------------------------------------------------------- knobs

    def define_split(
        self, name: str, axis: AxisLike, policy: str = "factors", **kwargs: Any
    ) -> list[Axis]:
        """Declare a knob that splits an axis, and return handles of the parts; see `SplitSpace`.

        `kwargs`: `num_outputs`, `max_factor`, `filter`, `no_tail`, `candidate`.
        """
        return self._define(name, lambda: SplitSpace(axis, policy, **kwargs))

    def define_reorder(
        self, name: str, axes: Sequence[AxisLike], policy: str, **kwargs: Any
    ) -> list[Axis]:
        """Declare a knob that orders axes, and return handles of them; see `ReorderSpace`.

        `kwargs`: `interval`, `candidate`, `spatial`, `reduce`.
        """
        return self._define(name, lambda: ReorderSpace(axes, policy, **kwargs))

    def define_annotate(
        self, name: str, axes: Sequence[AxisLike], policy: str, **kwargs: Any
    ) -> list[Axis]:
        """Declare a knob that says how axes run, and return handles of them; see `AnnotateSpace`.

        `kwargs`: `num_anchor`, `candidate`.
        """
        return self._define(name, lambda: AnnotateSpace(axes, policy, **kwargs))

    def define_knob(self, name: str, candidate: Sequence[Any]) -> None:
        """Declare a knob that is one of some values."""
        self._define(name, lambda: OtherOptionSpace(candidate))

    @staticmethod
    def axis(var: AxisLike) -> VirtualAxis:
        """Return the length of a loop, an axis or a number as an axis of knobs."""
        return virtual_axis(var)

    reduce_axis = axis

    def multi_filter(
        self,
        filter: Callable[[Mapping[str, Any]], bool],
    ) -> None:
        """Restrict which values of knobs go together; only a space takes note."""

    @abstractmethod
    def _define(self, name: str, make: Callable[[], KnobSpace[Any]]) -> list[Axis]:
        """Declare a knob whose space `make` gives, and return handles of the axes it gives."""

    def __getitem__(self, name: str) -> Any:
        if name not in self.entity_map:
            raise self._unknown(name)
        return self.entity_map[name].owned(self, name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.entity_map

    def _unknown(self, name: str) -> UnknownKnobError:
        known = list(self.entity_map)
        close = get_close_matches(str(name), known, 1)
        hint = f"; do you mean {close[0]!r}?" if close else ""
        return UnknownKnobError(
            f"the configuration has no knob {name!r}, it has {', '.join(known) or 'none'}{hint}"
        )

    # ---------------------------------------------------------------------------------- validity

    def add_flop(self, flop: float) -> None:
        """Add to the number of operations of the task."""
        self.flop += float(flop)

    def raise_error(self, msg: str) -> None:
        """Say that the configuration is not valid, and why."""
        self.errors.append(msg)

    def valid(self) -> bool:
        """Say whether nothing was raised."""
        return not self.errors

    # ------------------------------------------------------------------------------------- traces

    def note_read(self, name: str) -> None:
        """Take note that Python looked at the value of a knob."""
        self.reads.add(name)

    def sampled(self, sch: Schedule, name: str) -> Sequence[Any] | None:
        """Return the numbers that stand for a knob in the trace of `sch`, None for constants.

        The sampling instruction is appended where it is not there yet. A knob that has one value
        is a constant, and so is one that Python has read.
        """
        space = self.space_map.get(name)
        if space is None or not space.can_be_sampled or len(space) <= 1:
            return None
        inst = knob_instructions(sch.trace).get(name)
        if inst is None:
            if name in self.reads:
                return None
            space.sample(sch, name, self.entity_map[name])
            inst = sch.trace.insts[-1]
        return inst.outputs

    def record(self, sch: Schedule) -> None:
        """Complete the trace of `sch` with the knobs that nothing in it was made with.

        Those that Python has read are recorded with their one value: nothing else leads to this
        trace. What a search decides for the others changes nothing.
        """
        present = knob_instructions(sch.trace)
        for name, entity in self.entity_map.items():
            space = self.space_map.get(name)
            if name in present or space is None:
                continue
            if name in self.reads or not space.can_be_sampled:
                sch.sample_knob_option(name, [entity._value], decision=0)
            else:
                space.sample(sch, name, entity)


def trace_of(sch_or_trace: Schedule | Trace) -> Trace:
    """Return a trace, or that of a schedule."""
    return sch_or_trace.trace if isinstance(sch_or_trace, Schedule) else sch_or_trace


def knob_instructions(trace: Trace) -> dict[str, Instruction]:
    """Return the sampling instructions of a trace that are knobs, by name."""
    return {
        inst.value_of(KNOB): inst
        for inst in trace.insts
        if inst.kind.has_decision and inst.kind.params and inst.kind.params[0].name == KNOB
    }


def checked_space(name: Any, make: Callable[[], KnobSpace[Any]]) -> KnobSpace[Any]:
    """Return the space of a knob; KnobError naming it where there is none, or nothing in it."""
    if not isinstance(name, str) or not name:
        raise KnobError(f"the name of a knob is a text that is not empty, got {name!r}")
    try:
        space = make()
        empty = not space
    except (KnobError, TypeError) as error:
        raise KnobError(f"the knob {name!r} cannot be defined: {error}") from error
    if empty:
        raise KnobError(f"the knob {name!r} has no candidates left; check its filter and limits")
    return space
