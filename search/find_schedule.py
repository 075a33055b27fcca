"""The best schedule that a database has of a program, and how it was found."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice
from typing import TYPE_CHECKING, Final, Literal

from codegen.target import as_target
from search.anchor_trace import AnchorTraceError, schedule_by_anchor
from search.context import normalize_mod, with_num_cores
from search.database.module_equality import same_structure
from tensorir.function import IRModule
from tensorir.layout_rewrite import LAYOUT_FREE_BUFFERS

if TYPE_CHECKING:
    from codegen import Target
    from schedule import Schedule
    from search.database import Database, TuningRecord
    from tensorir.function import PrimFunc

logger = logging.getLogger("tvm.meta_schedule")

_ATTEMPTS: Final = 8
"""How many records of other programs are tried."""

_STRICTER: Final = 63
"""How many programs with fewer free layouts are looked up: all for six parameters, with none and
with one free first."""


@dataclass(frozen=True)
class FoundSchedule:
    """A schedule of a program that a record was found for.

    `how` is `"exact"` where the record is of the same program, whatever that was called: it is then
    replayed on that. It is `"anchor"` where the record is of another program with the same anchor
    block, whose time says little of this one.
    """

    schedule: Schedule
    record: TuningRecord
    how: Literal["exact", "anchor"]

    @property
    def func(self) -> PrimFunc:
        """The one function of the schedule."""
        (func,) = self.schedule.mod.prim_funcs().values()
        return func

    def __str__(self) -> str:
        time = f"{self.record.mean_seconds * 1e6:.4g} us" if self.record.run_secs else "no time"
        if self.how == "exact":
            return f"exact, recorded with {time}"
        return f"anchor, of a program recorded with {time}"


def find_schedule(
    database: Database,
    mod: IRModule | PrimFunc,
    target: str | Target | None = None,
    workload_name: str = "main",
) -> FoundSchedule | None:
    """Return the best schedule that a database has of a program for a target, None without one.

    `mod` is a function, or a module of one. A target that does not say `num-cores` gets the number
    of cores of this machine, as in a search; None is the current one, else this machine. A record
    of the program itself is preferred to any of another one, which only a database that compares
    anchor blocks answers with (`module_equality="anchor-block"`).

    Records count as of the program itself, too, in which fewer parameters may have any layout
    (`layout_free_buffers`): the fastest of all is taken. One in which more may is none, because its
    time leaves out what brings them into their layout.
    """
    program = normalize_mod(mod)
    wanted = with_num_cores(as_target(target))
    records = database.query_tuning_records(program, wanted, workload_name)
    own = _own(program, records)
    for stricter in _with_fewer_free_layouts(program):
        own += _own(stricter, database.query_tuning_records(stricter, wanted, workload_name))
    if own:
        best = min(own, key=lambda record: record.mean_seconds)
        return FoundSchedule(best.schedule(), best, "exact")
    for record in records[:_ATTEMPTS]:
        try:
            sch = schedule_by_anchor(program, record.trace, record.workload.mod, wanted)
        except AnchorTraceError as error:
            logger.debug("A record of another program does not apply: %s", error)
        else:
            return FoundSchedule(sch, record, "anchor")
    return None


def _own(program: IRModule, records: Sequence[TuningRecord]) -> list[TuningRecord]:
    """Return the first of the records of a program, if that is of the program itself."""
    return [record for record in records[:1] if same_structure(record.workload.mod, program)]


def _with_fewer_free_layouts(program: IRModule) -> Iterator[IRModule]:
    """Yield a program of one function in which fewer of its parameters may have any layout."""
    (func,) = program.prim_funcs().values()
    free = func.attrs.get(LAYOUT_FREE_BUFFERS, ())
    subsets = chain.from_iterable(combinations(free, size) for size in range(len(free)))
    for positions in islice(subsets, _STRICTER):
        stricter = func.without_attr(LAYOUT_FREE_BUFFERS)
        if positions:
            stricter = stricter.with_attr(LAYOUT_FREE_BUFFERS, positions)
        yield IRModule(dict.fromkeys(program.prim_funcs(), stricter), program.attrs)
