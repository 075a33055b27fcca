"""The lookup of the best schedule of a program in a database, and warnings if there is none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import chain, combinations, islice, takewhile
from typing import TYPE_CHECKING, Final, Literal

from codegen import Target
from codegen.target import as_target
from schedule import Schedule, Trace
from search.database import ModuleEquality, TuningRecord
from search.database.best_records import with_schedules
from search.database.database import Database
from search.database.module_equality import same_structure
from search.database.program_lengths import ProgramLengths
from search.database.records import Workload
from search.database.target_key import same_target, target_key
from search.errors import DatabaseError
from search.history.adapted_replay import ReplayError, schedule_by_anchor, schedule_by_compatible
from search.task import normalize_mod, with_num_cores
from tensorir.comparison.structural_hash import structural_hash
from tensorir.errors import IRTypeError
from tensorir.function import IRModule, PrimFunc
from tensorir.memory.layout_rewrite import LAYOUT_FREE_BUFFERS

if TYPE_CHECKING:
    from search.history.sample_on_miss import Sampler

logger = logging.getLogger("tensorir.search")

_MOST_STALE: Final = 256
"""The maximum number of records of the program itself that are tried, one after another."""

_ATTEMPTS: Final = 8
"""The maximum number of records of compatible programs, and of others, that are tried."""

_OF_EACH: Final = 4
"""The maximum number of records of each other program."""

_STRICTER: Final = 63
"""The maximum number of programs with fewer free layouts that are looked up: enough for six
parameters."""


@dataclass(frozen=True)
class FoundSchedule:
    """A schedule of a program, and its origin.

    `how` is `"exact"` for a record of the same program, up to names; `"compatible"` for a record of
    a program with shorter loops, of which this one has `factor` times the iterations; `"anchor"`
    for a record of another program with the same anchor block, whose time is no estimate for this
    one; and `"sampled"` if no record was found and a schedule was sampled.
    """

    schedule: Schedule
    record: TuningRecord
    how: Literal["exact", "compatible", "anchor", "sampled"]
    factor: float = 1.0
    is_for_other_cores: bool = False
    """True if the record is for another number of cores than the requested target."""

    @property
    def func(self) -> PrimFunc:
        """The one function of the schedule."""
        (func,) = self.schedule.mod.prim_funcs().values()
        return func

    @property
    def expected_seconds(self) -> float | None:
        """The expected seconds of a call, None if the record does not predict them."""
        if self.how == "anchor" or self.is_for_other_cores or not self.record.run_secs:
            return None
        return self.record.mean_seconds * self.factor

    def __str__(self) -> str:
        seconds = self.record.mean_seconds
        time = f"{seconds * 1e6:.4g} us" if self.record.run_secs else "no time"
        if self.how == "sampled" and not self.record.run_secs:
            return "a sampled schedule, not measured"
        if self.how == "compatible":
            return (
                f"the schedule of a program with shorter loops, {seconds * self.factor * 1e6:.4g} "
                f"us expected: {self.factor:.4g} times that of the other, recorded with {time}"
            )
        return {
            "exact": f"the schedule recorded for it, with {time}",
            "anchor": f"the schedule of another program with its main block, recorded with {time}",
            "sampled": f"a sampled schedule, measured with {time}",
        }[self.how]


def find_schedule(
    database: Database,
    mod: IRModule | PrimFunc,
    target: str | Target | None = None,
    workload_name: str = "main",
    *,
    include_compatible: bool = False,
    sample_on_miss: Sampler | None = None,
    module_equality: str | ModuleEquality | None = None,
) -> FoundSchedule | None:
    """Return the best schedule that a database has of a program for a target, None without one.

    `mod` is a function, or a module of one. A target without `num-cores` gets the number of cores
    of this machine, as in a search; None is the current target, else this machine.

    If there is no record for the target, records for another number of cores are used; the `record`
    of the result has that target, and its time is not an estimate for this one.

    Records of the program itself come first. These include records of the program with fewer
    parameters of free layout (`layout_free_buffers`): the fastest of all is chosen. Records with
    more free layouts are ignored, as their times exclude the conversion of layouts. Records that do
    not replay are skipped with a warning.

    With `include_compatible` follow records of programs with the same structure and shorter loops
    (`compatible_factor`), lowest expected time first; then those of programs that are equal under
    `module_equality`, by default that of the database: `"anchor-block"` means other programs with
    the same anchor block. If there is nothing, `sample_on_miss` may sample a schedule.

    Raises IRTypeError if `database` is not a database, but a path for example.
    """
    if not isinstance(database, Database):
        raise IRTypeError(
            f"expected a Database, got {type(database).__name__}: {database!r}; open the directory "
            "of a search by search.database.JSONDatabase(work_dir=...)"
        )
    program = normalize_mod(mod)
    wanted = with_num_cores(as_target(target))
    programs = [program, *_with_fewer_free_layouts(program)]
    answers = [database.query_tuning_records(p, wanted, workload_name) for p in programs]

    def rank(record: TuningRecord) -> tuple[bool, float]:
        return (not same_target(record.target, wanted), record.mean_seconds)

    own = [_own_records(p, records) for p, records in zip(programs, answers, strict=True)]
    for record, sch in with_schedules(islice(merge(*own, key=rank), _MOST_STALE)):
        return FoundSchedule(sch, record, "exact", 1.0, not same_target(record.target, wanted))
    if include_compatible:
        found = _find_compatible(database, programs, wanted)
        if found is not None:
            return found
    if module_equality is None:
        others = [r for r in answers[0] if not same_structure(r.workload.mod, program)]
    else:
        like = database.records_like(program, wanted, module_equality, _OF_EACH)
        others = sorted(like, key=lambda record: record.mean_seconds)
    # An unscheduled winner of another program says nothing about this program.
    for record in [record for record in others if record.schedules][:_ATTEMPTS]:
        adapted = _adapt(schedule_by_anchor, program, record, wanted)
        if adapted is not None:
            return FoundSchedule(adapted, record, "anchor")
    if sample_on_miss is not None:
        sampled = sample_on_miss.sample(program, wanted, workload_name)
        if sampled is not None:
            return FoundSchedule(sampled.schedule(), sampled, "sampled")
    return None


def _own_records(program: IRModule, records: Sequence[TuningRecord]) -> Iterator[TuningRecord]:
    """Yield the records of the program itself, which come first."""
    return takewhile(lambda record: same_structure(record.workload.mod, program), records)


_Adapt = Callable[["IRModule", "Trace", "IRModule", "Target"], "Schedule"]


def _adapt(
    adapt: _Adapt, program: IRModule, record: TuningRecord, target: Target
) -> Schedule | None:
    """Return a schedule of a program from the record of another one, None if it does not apply."""
    try:
        return adapt(program, record.trace, record.workload.mod, target)
    except (ReplayError, DatabaseError) as error:
        logger.debug("A record of another program does not apply: %s", error)
        return None


def _find_compatible(
    database: Database, programs: Sequence[IRModule], target: Target
) -> FoundSchedule | None:
    """Return a schedule from a record of a program with shorter loops, None without one."""
    found = [
        (
            not same_target(record.target, target),
            factor * record.mean_seconds,
            program,
            record,
            factor,
        )
        for program in programs
        for record, factor in _records_of_shorter(database, program, target)
    ]
    for is_other, _, program, record, factor in sorted(found, key=lambda one: one[:2])[:_ATTEMPTS]:
        sch = _adapt(schedule_by_compatible, program, record, target)
        if sch is not None:
            return FoundSchedule(sch, record, "compatible", factor, is_other)
    return None


def _records_of_shorter(
    database: Database, program: IRModule, target: Target
) -> list[tuple[TuningRecord, float]]:
    """Return records of programs with shorter loops, with the ratio of iterations."""
    lengths = ProgramLengths.of(program)

    def factor(workload: Workload) -> float:
        return lengths.factor(workload.lengths) or 0.0

    records = database.records_like(
        program, target, "ignore-lengths", _OF_EACH, lambda workload: factor(workload) > 0
    )
    return [(record, factor(record.workload)) for record in records if record.schedules]


def _with_fewer_free_layouts(program: IRModule) -> Iterator[IRModule]:
    """Yield a program of one function with each subset of its parameters of free layout."""
    (func,) = program.prim_funcs().values()
    free = func.attrs.get(LAYOUT_FREE_BUFFERS, ())
    subsets = chain.from_iterable(combinations(free, size) for size in range(len(free)))
    for positions in islice(subsets, _STRICTER):
        stricter = func.without_attr(LAYOUT_FREE_BUFFERS)
        if positions:
            stricter = stricter.with_attr(LAYOUT_FREE_BUFFERS, positions)
        yield IRModule(dict.fromkeys(program.prim_funcs(), stricter), program.attrs)


_MOST_NAMED: Final = 3


def warn_if_untuned(
    database: Database,
    functions: Mapping[str, IRModule | PrimFunc],
    target: str | Target | None,
    found: Mapping[str, FoundSchedule | None],
) -> None:
    """Warn about functions without a schedule, or with one for another number of cores.

    The warning has the contents of the database and the remedy. It comes once for each program and
    target, in one line for all functions with the same problem. A database without records, such as
    a function, gives no warning.
    """
    wanted = with_num_cores(as_target(target))
    groups: dict[str, list[str]] = {}
    for name, func in functions.items():
        program, known = normalize_mod(func), found[name]
        is_tuned = known is not None and (
            known.how == "sampled" or same_target(known.record.target, wanted)
        )
        if is_tuned or not database.members():
            continue
        if database.should_warn(str(structural_hash(program)), target_key(wanted)):
            groups.setdefault(
                _reason_without_schedule(database, program, wanted, known), []
            ).append(name)
    for problem, names in groups.items():
        if len(names) == 1:
            logger.warning('Function "%s": %s', names[0], problem)
            continue
        named = [f'"{name}"' for name in names[:_MOST_NAMED]]
        named += ["..."] * (len(names) > _MOST_NAMED)
        logger.warning("%d functions (%s), each: %s", len(names), ", ".join(named), problem)


def _reason_without_schedule(
    database: Database, program: IRModule, wanted: Target, found: FoundSchedule | None
) -> str:
    if found is not None:
        return (
            f"its schedule was found for {found.record.target}, as there is no record for "
            f"{wanted}; it computes the same there, and may be slower than one that is tuned for "
            "that"
        )
    contents = (_describe_contents(member, program, wanted) for member in database.members())
    return f"no schedule for {wanted}: {'; '.join(contents)}"


def _describe_contents(database: Database, program: IRModule, wanted: Target) -> str:
    """Return the contents of a database without a usable record of a program, and the remedy."""
    place = database.place
    count = len(database)
    if not count:
        return f"{place} has no records; check that this is the database of the search"
    own = database.tuning_records_of(Workload(program))
    if any(same_target(record.target, wanted) for record in own):
        return f"{place} has records of it, but none that succeeded and applies; tune it for longer"
    if own:
        targets = list(dict.fromkeys(str(record.target) for record in own))
        return (
            f"{place} has records of it for {', '.join(targets[:_MOST_NAMED])}; code for another "
            "CPU is not used: tune it for this target, or build for that one"
        )
    return f"{place} has {count} record(s), all of other programs; tune it"
