"""What a database is, and how one is asked for a schedule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from codegen import Target
from search.database.module_equality import ModuleEquality, ModuleSet
from search.errors import TuningError
from search.kinds import Kinds
from tensorir.errors import IRValueError

if TYPE_CHECKING:
    from schedule import Schedule
    from search.database.records import TuningRecord, Workload
    from tensorir.function import IRModule

_current: ContextVar[tuple[Database, ...]] = ContextVar("databases", default=())


class Database(ABC):
    """Workloads and tuning records.

    `module_equality` says which programs are the same workload. `with database:` makes it the
    current one.
    """

    kinds: ClassVar[Kinds[Database]] = Kinds("database")

    def __init__(self, module_equality: str | ModuleEquality = "structural") -> None:
        self.module_equality = ModuleEquality.create(module_equality)

    @staticmethod
    def create(
        kind: str | Database | Callable[[Schedule], bool] = "json", *args: Any, **kwargs: Any
    ) -> Database:
        """Return a database: `"json"`, `"memory"`, `"union"`, `"ordered_union"`, or a function.

        A function `f(sch) -> bool` schedules a program itself, or says by False that it cannot.
        """
        if callable(kind) and not isinstance(kind, type):
            return Database.kinds.make("schedule-fn", kind, *args, **kwargs)
        made: Database = Database.kinds.part(Database, kind, *args, **kwargs)
        return made

    # ------------------------------------------------------------------------------------ storage

    @abstractmethod
    def has_workload(self, mod: IRModule) -> bool:
        """Say whether a program is a workload of this database."""

    @abstractmethod
    def commit_workload(self, mod: IRModule) -> Workload:
        """Return the workload of a program, added if it is new."""

    @abstractmethod
    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Add a record; IRValueError if its workload was not committed before."""

    @abstractmethod
    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        """Return the `top_k` best valid records of a workload, best first; IRValueError below 0."""

    @abstractmethod
    def get_all_tuning_records(self) -> list[TuningRecord]:
        """Return all records, valid or not, in the order in which they were committed."""

    def tuning_records_of(self, workload: Workload) -> list[TuningRecord]:
        """Return all records of a workload or one equal to it, in the order of their commit."""
        same: dict[Workload, bool] = {workload: True}
        found = []
        for record in self.get_all_tuning_records():
            other = record.workload
            if other not in same:
                same[other] = self.module_equality.equal(other.mod, workload.mod)
            if same[other]:
                found.append(record)
        return found

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of records."""

    # ------------------------------------------------------------------------------------ queries

    def query_tuning_record(
        self, mod: IRModule, target: Target | str, workload_name: str = "main"
    ) -> TuningRecord | None:
        """Return the best valid record of a program, None without one.

        The target is not compared: a record made for another machine is found too.
        """
        if not self.has_workload(mod):
            return None
        return next(iter(self.get_top_k(self.commit_workload(mod), 1)), None)

    def query_schedule(
        self, mod: IRModule, target: Target | str, workload_name: str = "main"
    ) -> Schedule | None:
        """Return the best schedule of a program, None without one."""
        record = self.query_tuning_record(mod, target, workload_name)
        return None if record is None else record.schedule()

    def query_ir_module(
        self, mod: IRModule, target: Target | str, workload_name: str = "main"
    ) -> IRModule | None:
        """Return the best scheduled form of a program, None without one."""
        sch = self.query_schedule(mod, target, workload_name)
        return None if sch is None else sch.mod

    def query(
        self,
        mod: IRModule,
        target: Target | str,
        *,
        workload_name: str = "main",
        kind: Literal["schedule", "record", "ir_module"] = "schedule",
    ) -> Schedule | IRModule | TuningRecord | None:
        """Return the best of a program as a schedule, a record or a module."""
        if kind == "schedule":
            return self.query_schedule(mod, target, workload_name)
        if kind == "record":
            return self.query_tuning_record(mod, target, workload_name)
        if kind == "ir_module":
            return self.query_ir_module(mod, target, workload_name)
        raise IRValueError(f"kind is 'schedule', 'record' or 'ir_module', got {kind!r}")

    def dump_pruned(self, destination: Database) -> None:
        """Add the best valid record of each workload to another database."""
        seen = ModuleSet(self.module_equality)
        for record in self.get_all_tuning_records():
            workload = record.workload
            if not seen.add(workload.mod):
                continue
            for best in self.get_top_k(workload, 1):
                destination.commit_workload(workload.mod)
                destination.commit_tuning_record(best)

    # -------------------------------------------------------------------------------- the current

    @staticmethod
    def current() -> Database | None:
        """Return the database of the innermost `with`, None outside."""
        stack = _current.get()
        return stack[-1] if stack else None

    def __enter__(self) -> Self:
        _current.set((*_current.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        stack = _current.get()
        if not stack or stack[-1] is not self:
            raise TuningError("databases are left in another order than they were entered")
        _current.set(stack[:-1])


PyDatabase = Database
"""The base class under the name that it has for user classes in TVM."""
