"""Databases that store nothing: they query other databases, or a function."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from codegen import Target
from schedule import Schedule
from search.database.database import Database
from search.database.module_equality import ModuleEquality, same_structure
from search.database.records import TuningRecord, Workload
from search.database.target_key import same_target
from tensorir.function import IRModule


class QueryOnlyDatabase(Database):
    """A database that answers queries and stores nothing: its other methods are not implemented."""

    databases: Sequence[Database] = ()
    """The databases that it queries."""

    def _refuse(self, *_: object) -> NoReturn:
        """Raise NotImplementedError: such a database answers queries only."""
        raise NotImplementedError(
            f"a {type(self).__name__} answers queries only; it has no records"
        )

    has_workload: Any = _refuse
    commit_workload: Any = _refuse
    commit_tuning_record: Any = _refuse
    get_top_k: Any = _refuse
    get_all_tuning_records: Any = _refuse
    __len__: Any = _refuse

    def records_like(
        self,
        mod: IRModule,
        target: Target | None,
        equality: str | ModuleEquality,
        count: int = 1,
        where: Callable[[Workload], bool] = lambda _: True,
    ) -> list[TuningRecord]:
        """Return the records of all databases for programs that are equal under an equality."""
        answers = (d.records_like(mod, target, equality, count, where) for d in self.databases)
        return [record for found in answers for record in found]

    def members(self) -> Sequence[Database]:
        """Return the databases that hold records."""
        return [member for database in self.databases for member in database.members()]

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        inside = ", ".join(map(repr, self.members())) or "it stores no records"
        return f"<{type(self).__name__}: {inside}>"

    def _repr_html_(self) -> str:
        own = f"<p>{html.escape(type(self).__name__)}</p>"
        return own + "".join(member._repr_html_() for member in self.members())


@Database.kinds.register("union")
class UnionDatabase(QueryOnlyDatabase):
    """Answers with the best record of all members; of equal ones the first."""

    def __init__(self, *databases: Database) -> None:
        super().__init__()
        self.databases = databases

    def query_tuning_record(
        self, mod: IRModule, target: Target | str | None, workload_name: str = "main"
    ) -> TuningRecord | None:
        """Return the fastest record of all members, None without any."""
        return next(iter(self.query_tuning_records(mod, target, workload_name)), None)

    def query_tuning_records(
        self, mod: IRModule, target: Target | str | None, workload_name: str = "main"
    ) -> Sequence[TuningRecord]:
        """Return the best record of each member, those of the program's own structure first."""
        answers = (d.query_tuning_record(mod, target, workload_name) for d in self.databases)
        wanted = None if target is None else Target(target)
        return sorted(
            (record for record in answers if record is not None),
            key=lambda r: (
                not same_structure(r.workload.mod, mod),
                not same_target(r.target, wanted),
                r.mean_seconds,
            ),
        )


@Database.kinds.register("ordered-union")
class OrderedUnionDatabase(UnionDatabase):
    """Answers with the records of the first member that has one."""

    def query_tuning_records(
        self, mod: IRModule, target: Target | str | None, workload_name: str = "main"
    ) -> Sequence[TuningRecord]:
        """Return the record of the first member that has one."""
        answers = (d.query_tuning_record(mod, target, workload_name) for d in self.databases)
        first = next((record for record in answers if record is not None), None)
        return () if first is None else (first,)

    def records_like(
        self,
        mod: IRModule,
        target: Target | None,
        equality: str | ModuleEquality,
        count: int = 1,
        where: Callable[[Workload], bool] = lambda _: True,
    ) -> list[TuningRecord]:
        """Return the records of the first member that has any of programs that are equal."""
        answers = (d.records_like(mod, target, equality, count, where) for d in self.databases)
        return next((found for found in answers if found), [])


@Database.kinds.register("schedule-fn")
class ScheduleFnDatabase(QueryOnlyDatabase):
    """Answers with the schedule that `schedule_fn` makes of a program.

    The function gets a schedule whose functions have the attribute `task_name`, and returns True if
    it scheduled it. The record has no times.
    """

    def __init__(
        self,
        schedule_fn: Callable[[Schedule], bool],
        module_equality: str | ModuleEquality = "structural",
    ) -> None:
        super().__init__(module_equality)
        self.schedule_fn = schedule_fn

    def query_schedule(
        self, mod: IRModule, target: Target | str | None, workload_name: str = "main"
    ) -> Schedule | None:
        """Return the program as the function scheduled it, None if it did not."""
        named = IRModule(
            {name: mod[name].with_attr("task_name", workload_name) for name in mod.functions},
            mod.attrs,
        )
        sch = Schedule(named)
        return sch if self.schedule_fn(sch) else None

    def query_tuning_record(
        self, mod: IRModule, target: Target | str | None, workload_name: str = "main"
    ) -> TuningRecord | None:
        """Return the trace of the function's schedule as a record without times."""
        sch = self.query_schedule(mod, target, workload_name)
        if sch is None:
            return None
        of_target = None if target is None else Target(target)
        return TuningRecord(sch.trace, Workload(mod), None, of_target, None)
