"""A database that is a function."""

from __future__ import annotations

from collections.abc import Callable

from codegen import Target
from schedule import Schedule
from search.database.database import Database
from search.database.module_equality import ModuleEquality
from search.database.records import TuningRecord, Workload
from search.database.union_database import QueryOnlyDatabase
from tensorir.function import IRModule


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
