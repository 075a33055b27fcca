"""Databases that store nothing: they ask other databases, or a function."""

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


def _refused(what: str) -> Any:
    """Return a method of a database that stores nothing: it raises NotImplementedError."""

    def refuse(self: Database, *_: object) -> NoReturn:
        raise NotImplementedError(f"{type(self).__name__} answers queries only, it has no {what}")

    refuse.__doc__ = "Raise NotImplementedError: such a database answers queries only."
    return refuse


class QueryOnlyDatabase(Database):
    """A database that answers queries and stores nothing."""

    has_workload = _refused("has_workload")
    commit_workload = _refused("commit_workload")
    commit_tuning_record = _refused("commit_tuning_record")
    get_top_k = _refused("get_top_k")
    get_all_tuning_records = _refused("get_all_tuning_records")
    __len__ = _refused("len")

    def records_like(
        self,
        mod: IRModule,
        target: Target | None,
        equality: str | ModuleEquality,
        count: int = 1,
        where: Callable[[Workload], bool] = lambda _: True,
    ) -> list[TuningRecord]:
        """Return nothing: other programs are not known."""
        return []

    def members(self) -> Sequence[Database]:
        """Return nothing: it holds no records itself."""
        return ()

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
        """Return the fastest record that a member has, None without any."""
        return next(iter(self.query_tuning_records(mod, target, workload_name)), None)

    def query_tuning_records(
        self, mod: IRModule, target: Target | str | None, workload_name: str = "main"
    ) -> Sequence[TuningRecord]:
        """Return the best record of each member, those of the program's own structure first."""
        answers = (d.query_tuning_record(mod, target, workload_name) for d in self.databases)
        found = [record for record in answers if record is not None]
        wanted = None if target is None else Target(target)
        return sorted(
            found,
            key=lambda r: (
                not same_structure(r.workload.mod, mod),
                not same_target(r.target, wanted),
                r.mean_seconds,
            ),
        )

    def members(self) -> Sequence[Database]:
        """Return the members that hold records."""
        return [member for database in self.databases for member in database.members()]

    def records_like(
        self,
        mod: IRModule,
        target: Target | None,
        equality: str | ModuleEquality,
        count: int = 1,
        where: Callable[[Workload], bool] = lambda _: True,
    ) -> list[TuningRecord]:
        """Return the records of all members for programs that are the same under an equality."""
        answers = (d.records_like(mod, target, equality, count, where) for d in self.databases)
        return [record for found in answers for record in found]


@Database.kinds.register("ordered-union")
class OrderedUnionDatabase(UnionDatabase):
    """Answers with the records of the first member that has one."""

    def query_tuning_records(
        self, mod: IRModule, target: Target | str | None, workload_name: str = "main"
    ) -> Sequence[TuningRecord]:
        """Return the record of the first member that has one."""
        for database in self.databases:
            record = database.query_tuning_record(mod, target, workload_name)
            if record is not None:
                return (record,)
        return ()

    def records_like(
        self,
        mod: IRModule,
        target: Target | None,
        equality: str | ModuleEquality,
        count: int = 1,
        where: Callable[[Workload], bool] = lambda _: True,
    ) -> list[TuningRecord]:
        """Return the records of the first member that knows programs that are the same."""
        answers = (d.records_like(mod, target, equality, count, where) for d in self.databases)
        return next((found for found in answers if found), [])


@Database.kinds.register("schedule-fn")
class ScheduleFnDatabase(QueryOnlyDatabase):
    """Answers with the schedule that `schedule_fn` makes of a program.

    It gets a schedule whose functions carry the attribute `task_name` and returns whether it
    scheduled it. The record has no times.
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
        return TuningRecord(
            sch.trace, Workload(mod), None, None if target is None else Target(target), None
        )
