"""The decisions of a schedule by name, for people and for constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from schedule import Schedule
from search.errors import TuningError
from search.kinds import nearest
from search.space_generator.decision_site import Site, decision_value, site_names, sites_of
from tensorir.text_table import aligned, html_table

if TYPE_CHECKING:
    from search.database.records import TuningRecord


class MissingDecisionError(KeyError):
    """A schedule has no decision of a name; the text says which it has."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        listed = ", ".join(map(repr, known)) or "none"
        self.text = f"there is no decision {name!r}{nearest(name, known)}; there are {listed}"
        super().__init__(self.text)

    def __str__(self) -> str:
        return self.text


class NamedDecisions(dict[str, Any]):
    """What a schedule decides, by the names that tables and pictures of a search have too.

    | name | value |
    | --- | --- |
    | `tile of loop 0 of C` | the factors of the first loop of block C, outermost first: a tuple |
    | `location of C` | the place of block C: text |
    | `unroll_explicit of root`, a knob's own name | the candidate: a number where it is one |

    Where several are called the same they are numbered: `tile of l5 (2)`. Printed, it is a table of
    names and values. A name that is not there is a MissingDecisionError, a KeyError; `get` has its
    default.
    """

    def __missing__(self, name: str) -> NoReturn:
        raise MissingDecisionError(name, list(self))

    def __str__(self) -> str:
        return aligned([(name, str(value)) for name, value in self.items()])

    def _repr_html_(self) -> str:
        return html_table([("decision", "value"), *((n, str(v)) for n, v in self.items())])


def named(sites: Sequence[Site], decisions: Sequence[Any]) -> NamedDecisions:
    """Return decisions, one for each site, by name; what is still open is None."""
    values = (
        None if decision is None else decision_value(site, decision)
        for site, decision in zip(sites, decisions, strict=True)
    )
    return NamedDecisions(zip(site_names(sites), values, strict=True))


def decisions_of(schedule: Schedule | TuningRecord) -> NamedDecisions:
    """Return what a schedule, or that of a database record, decides, by name.

        print(search.decisions_of(search.default_schedule(mod, target)))

    These are the names and values that a `constraint` is given. A schedule whose numbers are all
    written down decides nothing. TuningError for anything else.
    """
    sch = schedule if isinstance(schedule, Schedule) else _replayed(schedule)
    trace = sch.trace.simplified(remove_postproc=True)
    sites = sites_of(trace.insts)
    return named(sites, [site.decision_in(trace.decisions, site.inst) for site in sites])


def _replayed(record: object) -> Schedule:
    make = getattr(record, "schedule", None)
    sch = make() if callable(make) else None
    if not isinstance(sch, Schedule):
        raise TuningError(
            f"decisions_of takes a Schedule or a record of a database, got {type(record).__name__};"
            " a trace is applied to a schedule first: trace.apply_to_schedule(sch, False)"
        )
    return sch
