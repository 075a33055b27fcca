"""A design space as a set of points: what the sites of a trace may decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from html import escape
from math import prod
from typing import Any, Final, TypeAlias

from schedule import Instruction, Schedule, ScheduleError, Trace
from schedule.decisions.domain import Decision
from schedule.random_state import RandomState
from schedule.trace.json_form import to_json
from search.space_generator.decision_site import Site, annotated_number, sites_of, with_number
from search.space_generator.replays import Replays
from tensorir.function import IRModule

Decisions: TypeAlias = tuple[Decision | None, ...]
"""A point of a space: a decision for each site; None where a site is to be sampled anew."""

_COLUMNS: Final = ("decides", "variables", "alternatives", "which")
_FIRST_REPLAYS: Final = 2
_MOST_REPLAYS: Final = 4


class DesignSpace:
    """All programs that one trace stands for as its sites decide differently.

    `index` tells the spaces of a task apart, so that `(space.index, decisions)` is the key of a
    point. `trace` is simplified and without postprocessing; `decisions` are its own. `sites` are
    its sampling instructions in order, then the annotations whose number a mutator may change.

    Where the alternatives of a site vary with decisions before it, it has those that were seen.
    A decision that does not fit after others have changed is repaired when the trace is replayed;
    `decisions_of` the replayed trace are the repaired ones.
    """

    def __init__(self, trace: Trace, sites: Sequence[Site], index: int = 0) -> None:
        self.index = index
        self.trace = trace
        self.sites = tuple(sites)
        self._positions = [trace.insts.index(site.inst) for site in self.sites]
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

        Its sites have the alternatives that they had when the schedule was made. With `mod`, the
        program that the space was generated for, they also get those of some random points. `seen`
        is called with the index and the schedule of each, and that of the generated one; one or
        two points more are enough then.
        """
        trace = sch.trace.simplified(remove_postproc=True)
        sites = sites_of(trace.insts)
        if mod is not None:
            see = None
            if seen is not None:
                seen(index, sch)
                see = partial(seen, index)
            sites = _with_seen(sites, trace, mod, see)
        return DesignSpace(trace, sites, index)

    @property
    def num_points(self) -> int:
        """The number of points; a site whose alternatives are not known counts once."""
        return prod(site.size or 1 for site in self.sites)

    @property
    def structural_sites(self) -> list[int]:
        """The sites whose decisions are no numbers of the program but change its structure."""
        decided = zip(self.sites, self.decisions, strict=True)
        return [k for k, (site, own) in enumerate(decided) if site.numbers(own) is None]

    # --------------------------------------------------------------------------- points and traces

    def trace_of(self, decisions: Decisions) -> Trace:
        """Return the trace of a point, which shares the instructions of `trace`."""
        trace = self.trace.copy()
        for k, (site, decision) in enumerate(zip(self.sites, decisions, strict=True)):
            if site.is_sampling:
                if decision is None:
                    trace.decisions.pop(site.inst, None)
                else:
                    trace.decisions[site.inst] = decision
            elif decision != self.decisions[k]:
                assert isinstance(decision, int)
                trace.insts[self._positions[k]] = self._with_number(k, decision)
        return trace

    def decisions_of(self, trace: Trace) -> Decisions | None:
        """Return the point that a trace is, None if it is not of this space.

        The trace may be one of `trace_of`, a replay of one, postprocessed or not, or a stored one,
        whose decisions may mean nothing here.
        """
        insts = trace.simplified(remove_postproc=True).insts
        if len(insts) != len(self.trace.insts) or not self._same_instructions(insts):
            return None
        point = self._decisions(insts, trace.decisions)
        sites = zip(self.sites, self.decisions, point, strict=True)
        return point if all(site.may_decide(new, own) for site, own, new in sites) else None

    def _decisions(
        self, insts: Sequence[Instruction], decisions: Mapping[Instruction, Any]
    ) -> Decisions:
        return tuple(
            site.decision_in(decisions, insts[position])
            for site, position in zip(self.sites, self._positions, strict=True)
        )

    def _same_instructions(self, insts: Sequence[Instruction]) -> bool:
        """Say whether instructions are those of the space but for the numbers of its sites."""
        own = self.trace.insts
        blank = {p for s, p in zip(self.sites, self._positions, strict=True) if not s.is_sampling}
        if all(a is b or k in blank for k, (a, b) in enumerate(zip(insts, own, strict=True))):
            return True
        if self._rows is None:
            self._rows = _rows(own, blank)
        return _rows(insts, blank) == self._rows

    def _with_number(self, k: int, number: int) -> Instruction:
        key = (k, number)
        if key not in self._numbered:
            self._numbered[key] = with_number(self.sites[k].inst, number)
        return self._numbered[key]

    # -------------------------------------------------------------------------------- other points

    def sample(self, rng: RandomState) -> Decisions:
        """Return a random point."""
        return tuple(
            None if site.domain is None else site.domain.sample(rng) for site in self.sites
        )

    def admitted(self, decisions: Decisions) -> Decisions | None:
        """Return the point that a changed one stands for: itself, where all are allowed.

        None if no point does. A part of a space has its own answer.
        """
        return decisions

    def neighbour(
        self, decisions: Decisions, rng: RandomState, among: Sequence[int] | None = None
    ) -> Decisions | None:
        """Return a point with another decision at one site, None if there is no other.

        The site is one of those at the indices `among` (None: all), drawn uniformly.
        """
        left = list(range(len(self.sites)) if among is None else among)
        while left:
            k = left.pop(rng.uniform_int(0, len(left)))
            domain, present = self.sites[k].domain, decisions[k]
            if domain is None:
                return (*decisions[:k], None, *decisions[k + 1 :])
            other = domain.sample(rng) if present is None else domain.step(present, rng)
            if other is not None:
                return (*decisions[:k], other, *decisions[k + 1 :])
        return None

    def crossover(self, a: Decisions, b: Decisions, rng: RandomState) -> Decisions:
        """Return a point that has the decision of either of two, drawn for each site."""
        return tuple(
            first if first == second or rng.uniform_int(0, 2) == 0 else second
            for first, second in zip(a, b, strict=True)
        )

    def crossover_traces(self, a: Trace, b: Trace, rng: RandomState) -> Trace | None:
        """Return the same for traces; None if one of them is not of this space."""
        first, second = self.decisions_of(a), self.decisions_of(b)
        if first is None or second is None:
            return None
        return self.trace_of(self.crossover(first, second, rng))

    # ------------------------------------------------------------------------------------ printing

    def __str__(self) -> str:
        rows = self._rows_of_text()
        widths = [max((len(row[k]) for row in rows), default=0) for k in range(3)]
        lines = [
            f"  {name:<{widths[0]}}  {variables:<{widths[1]}}  {count:>{widths[2]}}: {alternatives}"
            for name, variables, count, alternatives in rows
        ]
        return "\n".join([self._title(), *lines])

    def __repr__(self) -> str:
        return f"<{self._title()}>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
            for row in self._rows_of_text()
        )
        return f"<table><caption>{self._title()}</caption><tr>{head}</tr>{body}</table>"

    def _rows_of_text(self) -> list[tuple[str, str, str, str]]:
        return [
            (site.name, site.variables, _count_text(site.size), str(site.domain or "sampled anew"))
            for site in self.sites
        ]

    def _title(self) -> str:
        sites = f"{len(self.sites)} site" + ("" if len(self.sites) == 1 else "s")
        known = all(site.domain is not None for site in self.sites)
        points = f"{_count_text(self.num_points)} point" + ("" if self.num_points == 1 else "s")
        return f"design space #{self.index}: {sites}, {points}{'' if known else ' or more'}"


def _with_seen(
    sites: Sequence[Site],
    trace: Trace,
    mod: IRModule,
    see: Callable[[Schedule], None] | None,
) -> tuple[Site, ...]:
    """Return sites with the alternatives that they also have at random points of the space."""
    domains = [site.domain for site in sites]
    positions = [trace.insts.index(site.inst) for site in sites]
    replays = Replays(mod, keeps_domains=True)
    first, most = (_FIRST_REPLAYS, _MOST_REPLAYS) if see is None else (1, 2)
    for replay in range(most):
        if replay == first and domains == [site.domain for site in sites]:
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
    return tuple(replace(site, domain=domain) for site, domain in zip(sites, domains, strict=True))


def _rows(insts: Sequence[Instruction], blank: set[int]) -> list[Any] | None:
    """Return instructions as plain data, the numbers of annotations at `blank` left out."""
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
