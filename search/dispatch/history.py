"""The history that builds and passes look functions up in: a database with options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search.database.database import Entered, innermost
from search.database.module_equality import ModuleIndex, StructuralEquality, unnamed
from search.database.target_key import target_key
from search.dispatch.find_schedule import FoundSchedule, find_schedule, say_if_missing
from search.dispatch.sample_on_miss import Sampler

if TYPE_CHECKING:
    from codegen import Target
    from search.database import Database, ModuleEquality, TuningRecord
    from tensorir.function import IRModule, PrimFunc


class History(Entered):
    """A database, and what is done about programs that it does not have.

    Inside of `with History(database, ...):` builds take the schedules that it finds; `with
    database:` is the same without options, which are those of `find_schedule`. What is sampled is
    remembered here, also that nothing came of it, and not written to the database.
    """

    def __init__(
        self,
        database: Database,
        *,
        include_compatible: bool = False,
        sample_on_miss: Sampler | None = None,
        module_equality: str | ModuleEquality | None = None,
    ) -> None:
        self.database = database
        self.include_compatible = include_compatible
        self.sample_on_miss = None if sample_on_miss is None else _Remembered(sample_on_miss)
        self.module_equality = module_equality

    @staticmethod
    def current() -> History | None:
        """Return the history of the innermost `with`, None outside."""
        entered = innermost()
        if entered is None or isinstance(entered, History):
            return entered
        return History(entered.as_database())

    def as_database(self) -> Database:
        """Return the database."""
        return self.database

    def find(
        self,
        mod: IRModule | PrimFunc,
        target: str | Target | None = None,
        workload_name: str = "main",
    ) -> FoundSchedule | None:
        """Return the best schedule of a program for a target, None if nothing is known of it.

        Of that, and of one that was found for another target, a warning says what there is instead,
        once for each program and target.
        """
        found = find_schedule(
            self.database,
            mod,
            target,
            workload_name,
            include_compatible=self.include_compatible,
            sample_on_miss=self.sample_on_miss,
            module_equality=self.module_equality,
        )
        say_if_missing(self.database, mod, target, workload_name, found)
        return found


class _Remembered(Sampler):
    """Samples each program once for each target."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._known: dict[str, ModuleIndex[TuningRecord | None]] = {}

    def sample(self, mod: IRModule, target: Target, task_name: str = "main") -> TuningRecord | None:
        """Return the sample of a program, which is made the first time that it is asked for."""
        key = target_key(target)
        known = self._known.setdefault(key, ModuleIndex(StructuralEquality()))
        for record in known.like(unnamed(mod)):
            return record
        record = self._sampler.sample(mod, target, task_name)
        known.add(unnamed(mod), record)
        return record
