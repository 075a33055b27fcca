"""A design space as a set of points: all combinations of decisions of a trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from math import prod
from typing import Any, Final, TypeAlias

from schedule import Instruction, Schedule, ScheduleError, Trace
from schedule.decisions.domain import Decision
from schedule.random_state import RandomState
from schedule.trace.json_form import to_json
from search.space_generator.knobs import Knob, annotated_number, knobs_in, with_number
from search.space_generator.replays import Replays
from tensorir.function import IRModule
from tensorir.text_table import aligned, html_table

Decisions: TypeAlias = tuple[Decision | None, ...]
"""A point of a space: a decision for each knob; None for a knob that is to be sampled again."""

_COLUMNS: Final = ("decision", "variables", "count", "alternatives")
_FIRST_REPLAYS: Final = 2
_MOST_REPLAYS: Final = 4


class DesignSpace:
    """All programs of one trace, one for each combination of its decisions.

    `index` is the number of the space in its task, so that `(space.index, decisions)` is the key of
    a point. `trace` is simplified and has no postprocessing; `decisions` are its point.
    `knobs` are its sampling instructions in order, then the annotations of parallel iterations.

    If the alternatives of a knob depend on earlier decisions, it has those of all replays so far.
    A decision that is out of range after others have changed is repaired when the trace is
    replayed; `decisions_of` the replayed trace returns the repaired ones.
    """

    def __init__(self, trace: Trace, knobs: Sequence[Knob], index: int = 0) -> None:
        self.index = index
        self.trace = trace
        self.knobs = tuple(knobs)
        self._positions = [trace.insts.index(knob.inst) for knob in self.knobs]
        self._numbered: dict[tuple[int, int], Instruction] = {}
        self._rows: list[Any] | None = None
        self.decisions: Decisions = self._decisions(trace.insts, trace.decisions)

    @staticmethod
    def of(
        sch: Schedule,
        index: int = 0,
        mod: IRModule | None = None,
        seen: Callable[[int, Schedule], None] | None = None,
    ) -> DesignSpace:
        """Return the space of a generated schedule.

        Its knobs have the alternatives that they had in this schedule. With `mod`, the program that
        the space was generated for, they also get the alternatives at some random points. `seen` is
        called with the index and the schedule of each point, and of `sch`; with it, only one or two
        random points are replayed.
        """
        trace = sch.trace.simplified(remove_postproc=True)
        knobs = knobs_in(trace.insts)
        if mod is not None:
            see = None
            if seen is not None:
                seen(index, sch)
                see = partial(seen, index)
            knobs = _with_seen(knobs, trace, mod, see)
        return DesignSpace(trace, knobs, index)

    @property
    def num_points(self) -> int:
        """The number of points; a knob with unknown alternatives counts as having one."""
        return prod(knob.size or 1 for knob in self.knobs)

    @property
    def structural_knobs(self) -> list[int]:
        """The indices of knobs whose decisions change the structure of the program."""
        decided = zip(self.knobs, self.decisions, strict=True)
        return [k for k, (knob, own) in enumerate(decided) if knob.numbers(own) is None]

    # --------------------------------------------------------------------------- points and traces

    def trace_of(self, decisions: Decisions) -> Trace:
        """Return the trace of a point, which shares the instructions of `trace`."""
        trace = self.trace.copy()
        for k, (knob, decision) in enumerate(zip(self.knobs, decisions, strict=True)):
            if knob.is_sampling:
                if decision is None:
                    trace.decisions.pop(knob.inst, None)
                else:
                    trace.decisions[knob.inst] = decision
            elif decision != self.decisions[k]:
                assert isinstance(decision, int)
                trace.insts[self._positions[k]] = self._with_number(k, decision)
        return trace

    def decisions_of(self, trace: Trace) -> Decisions | None:
        """Return the point of a trace, None for a trace of another space.

        The trace comes from `trace_of`, from a replay with or without postprocessing, or from a
        file, whose decisions may not fit.
        """
        insts = trace.simplified(remove_postproc=True).insts
        if len(insts) != len(self.trace.insts) or not self._same_instructions(insts):
            return None
        return self._accepted(insts, trace.decisions)

    def decisions_of_replay(self, replayed: Trace) -> Decisions | None:
        """Return the point of a replay of `trace_of` without postprocessing, as `decisions_of`.

        A replay has the instructions of its trace, so they are not compared.
        """
        return self._accepted(replayed.insts, replayed.decisions)

    def _accepted(
        self, insts: Sequence[Instruction], decisions: Mapping[Instruction, Any]
    ) -> Decisions | None:
        """Return the point of instructions, None if a knob has no such decision."""
        point = self._decisions(insts, decisions)
        decided = zip(self.knobs, self.decisions, point, strict=True)
        return point if all(knob.accepts(new, own) for knob, own, new in decided) else None

    def _decisions(
        self, insts: Sequence[Instruction], decisions: Mapping[Instruction, Any]
    ) -> Decisions:
        return tuple(
            knob.decision_in(decisions, insts[position])
            for knob, position in zip(self.knobs, self._positions, strict=True)
        )

    def _same_instructions(self, insts: Sequence[Instruction]) -> bool:
        """Return True if instructions differ from those of the space only in annotated numbers."""
        own = self.trace.insts
        blank = {p for x, p in zip(self.knobs, self._positions, strict=True) if not x.is_sampling}
        if all(a is b or k in blank for k, (a, b) in enumerate(zip(insts, own, strict=True))):
            return True
        if self._rows is None:
            self._rows = _rows(own, blank)
        return _rows(insts, blank) == self._rows

    def _with_number(self, k: int, number: int) -> Instruction:
        key = (k, number)
        if key not in self._numbered:
            self._numbered[key] = with_number(self.knobs[k].inst, number)
        return self._numbered[key]

    # -------------------------------------------------------------------------------- other points

    def sample(self, rng: RandomState) -> Decisions:
        """Return a random point."""
        return tuple(
            None if knob.domain is None else knob.domain.sample(rng) for knob in self.knobs
        )

    def admitted(self, decisions: Decisions) -> Decisions | None:
        """Return the point to use for a changed point, None if it is not allowed.

        A complete space allows all points. A restricted space may return another point.
        """
        return decisions

    def neighbour(
        self, decisions: Decisions, rng: RandomState, among: Sequence[int] | None = None
    ) -> Decisions | None:
        """Return a point that differs in the decision of one knob, None if there is none.

        The knob is drawn uniformly from the indices `among`, by default from all.
        """
        left = list(range(len(self.knobs)) if among is None else among)
        while left:
            k = left.pop(rng.uniform_int(0, len(left)))
            domain, present = self.knobs[k].domain, decisions[k]
            if domain is None:
                return (*decisions[:k], None, *decisions[k + 1 :])
            other = domain.sample(rng) if present is None else domain.step(present, rng)
            if other is not None:
                return (*decisions[:k], other, *decisions[k + 1 :])
        return None

    def crossover(self, a: Decisions, b: Decisions, rng: RandomState) -> Decisions:
        """Return a point with the decision of either of two points, drawn for each knob."""
        return tuple(
            first if first == second or rng.uniform_int(0, 2) == 0 else second
            for first, second in zip(a, b, strict=True)
        )

    # ------------------------------------------------------------------------------------ printing

    def __str__(self) -> str:
        if not self.knobs:
            return self._title()
        rows = self._rows_of_text()
        width = max(len(row[2]) for row in rows)
        table = aligned([(*row[:2], f"{row[2]:>{width}}: {row[3]}") for row in rows], ())
        return "\n  ".join([self._title(), *table.splitlines()])

    def __repr__(self) -> str:
        return f"<{self._title()}>"

    def _repr_html_(self) -> str:
        return f"<p>{self._title()}</p>{html_table([_COLUMNS, *self._rows_of_text()])}"

    def _rows_of_text(self) -> list[tuple[str, str, str, str]]:
        return [
            (knob.name, knob.variables, _count_text(knob.size), str(knob.domain or "sampled anew"))
            for knob in self.knobs
        ]

    def _title(self) -> str:
        decisions = f"{len(self.knobs)} decision" + ("" if len(self.knobs) == 1 else "s")
        known = all(knob.domain is not None for knob in self.knobs)
        points = f"{_count_text(self.num_points)} point" + ("" if self.num_points == 1 else "s")
        return f"design space #{self.index}: {decisions}, {points}{'' if known else ' or more'}"


def _with_seen(
    knobs: Sequence[Knob],
    trace: Trace,
    mod: IRModule,
    see: Callable[[Schedule], None] | None,
) -> tuple[Knob, ...]:
    """Return knobs that also have their alternatives at random points of the space."""
    domains = [knob.domain for knob in knobs]
    positions = [trace.insts.index(knob.inst) for knob in knobs]
    replays = Replays(mod, keeps_domains=True)
    first, most = (_FIRST_REPLAYS, _MOST_REPLAYS) if see is None else (1, 2)
    for replay in range(most):
        if replay == first and domains == [knob.domain for knob in knobs]:
            break
        try:
            sch = replays.replay(trace, replay + 1, lambda _: lambda *_: None)
        except ScheduleError:
            continue
        if see is not None:
            see(sch)
        for k, position in enumerate(positions):
            seen, domain = sch.trace.insts[position].domain, domains[k]
            if seen is not None and domain is not None and seen != domain:
                domains[k] = domain.joined(seen)
    return tuple(replace(knob, domain=domain) for knob, domain in zip(knobs, domains, strict=True))


def _rows(insts: Sequence[Instruction], blank: set[int]) -> list[Any] | None:
    """Return instructions as plain data, without the numbers of the annotations at `blank`."""
    bare = list(insts)
    for k in blank:
        if annotated_number(bare[k]) is None:
            return None
        bare[k] = with_number(bare[k], 0)
    rows: list[Any] = to_json(bare, {})[0]
    return rows


def _count_text(count: int | None) -> str:
    if count is None:
        return "?"
    return str(count) if count < 1_000_000 else f"{Decimal(count):.1e}"
