"""The best schedule that is known of a program, how it was found, and what there is else."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import chain, combinations, islice, takewhile
from typing import Final, Literal

from codegen import Target
from codegen.target import as_target
from schedule import Schedule, Trace
from search.database import ModuleEquality, TuningRecord
from search.database.best_records import with_schedules
from search.database.database import Database
from search.database.keyed_database import KeyedDatabase
from search.database.module_equality import same_structure
from search.database.program_lengths import ProgramLengths
from search.database.records import Workload
from search.database.target_key import same_target, target_key
from search.errors import DatabaseError
from search.history.adapted_replay import ReplayError, schedule_by_anchor, schedule_by_compatible
from search.history.sample_on_miss import Sampler
from search.task import normalize_mod, with_num_cores
from tensorir.comparison.structural_hash import structural_hash
from tensorir.errors import IRTypeError
from tensorir.function import IRModule, PrimFunc
from tensorir.memory.layout_rewrite import LAYOUT_FREE_BUFFERS
from tensorir.nodes.expr import IntImm, PrimExpr

logger = logging.getLogger("tensorir.search")

_MOST_STALE: Final = 256
"""The most records of the program itself that are tried, each after the one before has failed."""

_ATTEMPTS: Final = 8
"""The most records of compatible programs that are tried, and the most of others."""

_OF_EACH: Final = 4
"""The most records of each other program that are tried."""

_STRICTER: Final = 63
"""The most programs with fewer free layouts that are looked up: all for six parameters, with none
and with one free first."""

_MOST_NAMED: Final = 3
_MOST_COMPARED: Final = 200
"""Among so many programs those are looked for that are like the one that was asked for."""


@dataclass(frozen=True)
class FoundSchedule:
    """A schedule of a program, and where it comes from.

    `how` is `"exact"` where the record is of the same program, whatever that was called: it is then
    replayed on that. It is `"compatible"` where the record is of a program with shorter loops, of
    which this one has `factor` times the iterations; `"anchor"` where it is of another program with
    the same anchor block, whose time says little of this one; and `"sampled"` where nothing was
    known, and the record is of what was sampled now.
    """

    schedule: Schedule
    record: TuningRecord
    how: Literal["exact", "compatible", "anchor", "sampled"]
    factor: float = 1.0
    is_for_other_cores: bool = False
    """True if the record is for another target than the one that was asked for."""

    @property
    def func(self) -> PrimFunc:
        """The one function of the schedule."""
        (func,) = self.schedule.mod.prim_funcs().values()
        return func

    @property
    def expected_seconds(self) -> float | None:
        """The seconds that a call is expected to take, None where that is not known."""
        if self.how == "anchor" or self.is_for_other_cores or not self.record.run_secs:
            return None
        return self.record.mean_seconds * self.factor

    def __str__(self) -> str:
        time = _time(self.record)
        if self.how == "exact":
            return f"the schedule recorded for it, with {time}"
        if self.how == "sampled":
            measured = f"measured with {time}" if self.record.run_secs else "not measured"
            return f"a schedule made up now, {measured}"
        if self.how == "anchor":
            return f"the schedule of another program with its main block, recorded with {time}"
        expected = self.record.mean_seconds * self.factor * 1e6
        return (
            f"the schedule of a program with shorter loops, {expected:.4g} us expected: "
            f"{self.factor:.4g} times that of the other, recorded with {time}"
        )


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

    `mod` is a function, or a module of one. A target that does not say `num-cores` gets the number
    of cores of this machine, as in a search; None is the current one, else this machine.

    Where there is no record for the target, those for another number of cores answer; the `record`
    of what is returned says for which, and its time is then none to expect here.

    A record of the program itself is preferred to any of another one. Records count as of the
    program itself, too, in which fewer parameters may have any layout (`layout_free_buffers`): the
    fastest of all is taken. One in which more may is none, because its time leaves out what brings
    them into their layout. One that does not replay any more is left out, with a warning.

    With `include_compatible` follow records of programs with the same structure and shorter loops
    (`compatible_factor`), those first that let expect the lowest time; then those of programs that
    are the same under `module_equality`, by default that of the database: with `"anchor-block"`
    they are of other programs around the same anchor block. If there is nothing, `sample_on_miss`
    may make a schedule up.

    IRTypeError for what is no database, the path of one for example.
    """
    if not isinstance(database, Database):
        raise IRTypeError(
            f"schedules are found in a Database, got {type(database).__name__}: {database!r}; open "
            "the directory of a search by search.database.JSONDatabase(work_dir=...)"
        )
    program = normalize_mod(mod)
    wanted = with_num_cores(as_target(target))
    programs = [program, *_with_fewer_free_layouts(program)]
    answers = [database.query_tuning_records(p, wanted, workload_name) for p in programs]

    def rank(record: TuningRecord) -> tuple[bool, float]:
        return (not same_target(record.target, wanted), record.mean_seconds)

    own = [_own(p, records) for p, records in zip(programs, answers, strict=True)]
    for record, sch in with_schedules(islice(merge(*own, key=rank), _MOST_STALE)):
        return FoundSchedule(sch, record, "exact", 1.0, not same_target(record.target, wanted))
    if include_compatible:
        found = _compatible(database, programs, wanted)
        if found is not None:
            return found
    if module_equality is None:
        others = [r for r in answers[0] if not same_structure(r.workload.mod, program)]
    else:
        like = database.records_like(program, wanted, module_equality, _OF_EACH)
        others = sorted(like, key=lambda record: record.mean_seconds)
    # That another program is best as it is says nothing of this one.
    for record in [record for record in others if record.schedules][:_ATTEMPTS]:
        adapted = _adapted(schedule_by_anchor, program, record, wanted)
        if adapted is not None:
            return FoundSchedule(adapted, record, "anchor")
    if sample_on_miss is not None:
        sampled = sample_on_miss.sample(program, wanted, workload_name)
        if sampled is not None:
            return FoundSchedule(sampled.schedule(), sampled, "sampled")
    return None


def _time(record: TuningRecord) -> str:
    return f"{record.mean_seconds * 1e6:.4g} us" if record.run_secs else "no time"


def _own(program: IRModule, records: Sequence[TuningRecord]) -> Iterator[TuningRecord]:
    """Yield the records that are of a program itself, which are the first ones."""
    return takewhile(lambda record: same_structure(record.workload.mod, program), records)


_Adapt = Callable[["IRModule", "Trace", "IRModule", "Target"], "Schedule"]


def _adapted(
    adapt: _Adapt, program: IRModule, record: TuningRecord, target: Target
) -> Schedule | None:
    """Return a schedule of a program after the record of another one, None if that cannot be."""
    try:
        return adapt(program, record.trace, record.workload.mod, target)
    except (ReplayError, DatabaseError) as error:
        logger.debug("A record of another program does not apply: %s", error)
        return None


def _compatible(
    database: Database, programs: Sequence[IRModule], target: Target
) -> FoundSchedule | None:
    """Return a schedule after a record of a program with shorter loops, None without one."""
    found = [(p, *known) for p in programs for known in _of_shorter(database, p, target)]
    ranked = [(not same_target(r.target, target), f * r.mean_seconds) for _, r, f in found]
    for place in sorted(range(len(found)), key=ranked.__getitem__)[:_ATTEMPTS]:
        program, record, factor = found[place]
        sch = _adapted(schedule_by_compatible, program, record, target)
        if sch is not None:
            return FoundSchedule(sch, record, "compatible", factor, ranked[place][0])
    return None


def _of_shorter(
    database: Database, program: IRModule, target: Target
) -> list[tuple[TuningRecord, float]]:
    """Return records of programs with shorter loops, each with its factor."""
    lengths = ProgramLengths.of(program)
    factors: dict[Workload, float] = {}

    def is_compatible(workload: Workload) -> bool:
        factor = lengths.factor(workload.lengths)
        if factor is not None:
            factors[workload] = factor
        return factor is not None

    records = database.records_like(program, target, "ignore-lengths", _OF_EACH, is_compatible)
    return [(record, factors[record.workload]) for record in records if record.schedules]


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


def say_if_missing(
    database: Database,
    mod: IRModule | PrimFunc,
    target: str | Target | None,
    name: str,
    found: FoundSchedule | None,
) -> None:
    """Warn that a function has no schedule, or one that was found for another number of cores.

    The warning says what the database has instead, and what to do. It comes once for each program
    and target. A database that holds no records, a function say, is not talked of.
    """
    program, wanted = normalize_mod(mod), with_num_cores(as_target(target))
    if _is_worth_saying(database, program, wanted, found):
        logger.warning('Function "%s": %s', name, _lack(database, program, wanted, found))


def say_which_are_missing(
    database: Database,
    functions: Mapping[str, PrimFunc],
    target: str | Target | None,
    found: Mapping[str, FoundSchedule | None],
) -> None:
    """Warn as `say_if_missing` does, but in one line of all functions that lack the same."""
    wanted = with_num_cores(as_target(target))
    alike: dict[str, list[str]] = {}
    for name, func in functions.items():
        program = normalize_mod(func)
        if _is_worth_saying(database, program, wanted, found[name]):
            lack = _lack(database, program, wanted, found[name], in_detail=False)
            alike.setdefault(lack, []).append(name)
    for lack, (first, *others) in alike.items():
        if not others:
            program = normalize_mod(functions[first])
            lack = _lack(database, program, wanted, found[first])
            logger.warning('Function "%s": %s', first, lack)
            continue
        names = [f'"{name}"' for name in (first, *others)[:_MOST_NAMED]]
        names += ["..."] * (len(others) >= _MOST_NAMED)
        logger.warning("%d functions (%s), each: %s", len(others) + 1, ", ".join(names), lack)


def _is_worth_saying(
    database: Database, program: IRModule, wanted: Target, found: FoundSchedule | None
) -> bool:
    """Say whether what was found is less than a record for the target, and nobody was told yet."""
    is_own = found is not None and same_target(found.record.target, wanted)
    if not database.members() or is_own or (found is not None and found.how == "sampled"):
        return False
    return database.is_first_time(str(structural_hash(program)), target_key(wanted))


def _lack(
    database: Database,
    program: IRModule,
    wanted: Target,
    found: FoundSchedule | None,
    *,
    in_detail: bool = True,
) -> str:
    """Return a text on what a function has instead of a schedule for the target."""
    if found is not None:
        return (
            f"its schedule was found for {found.record.target}, as there is no record for "
            f"{wanted}; it computes the same there, and may be slower than one that is tuned for "
            "that"
        )
    members = database.members()
    holdings = "; ".join(_holdings(member, program, wanted, in_detail) for member in members)
    return f"no schedule for {wanted}: {holdings}"


def _holdings(database: Database, program: IRModule, wanted: Target, in_detail: bool) -> str:
    """Return a text on the contents of a database without a record of a program, with a remedy.

    Without details it is the same for many programs.
    """
    place = database.place
    count = len(database)
    if not count:
        return f"{place} has no records; see that this is the database that was tuned into"
    own = database.tuning_records_of(Workload(program))
    if any(same_target(record.target, wanted) for record in own):
        number = f"{len(own)} record(s)" if in_detail else "records"
        return (
            f"{place} has {number} of it, none of which succeeded and applies; tune it for longer"
        )
    if own:
        targets = Counter(str(record.target) for record in own).most_common(_MOST_NAMED)
        named = ", ".join(
            f"{target} ({number})" if in_detail else target for target, number in targets
        )
        return (
            f"{place} has records of it for {named}; code for another CPU is not used: tune it for "
            "this target, or build for that one"
        )
    near = _near(database, program) if in_detail else "; tune it"
    return f"{place} has {count} record(s), all of other programs{near}"


def _near(database: Database, program: IRModule) -> str:
    """Return a text on the programs of a database that are like one, with a remedy."""
    if not isinstance(database, KeyedDatabase) or len(database.workloads()) > _MOST_COMPARED:
        return "; tune this one"
    for equality, likeness, option in (
        ("ignore-lengths", "but for its lengths", "include_compatible=True"),
        ("anchor-block", "around the same reduction", 'module_equality="anchor-block"'),
    ):
        like = database.workloads_like(
            program, equality, lambda workload: bool(database.tuning_records_of(workload))
        )
        if like:
            shapes = ", ".join(_shapes(workload.mod) for _, workload in like[:_MOST_NAMED])
            more = ", ..." if len(like) > _MOST_NAMED else ""
            return (
                f", the same {likeness} for {shapes}{more}; tune this one, or see whether "
                f"{option} makes a schedule of theirs fit"
            )
    return "; tune this one"


def _shapes(mod: IRModule) -> str:
    """Return the shapes of the parameters of a program of one function."""
    (func,) = mod.prim_funcs().values()
    buffers = [func.buffer_map[param] for param in func.params if param in func.buffer_map]
    shapes = ("x".join(map(_size, buffer.shape)) or "scalar" for buffer in buffers)
    return f"({', '.join(shapes)})"


def _size(extent: PrimExpr) -> str:
    return str(extent.value if isinstance(extent, IntImm) else extent)
