"""What the search does to a module, as passes: functions from module to module with a name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from search.apply_database import apply_database
from search.builder import Builder
from search.database import Database
from search.errors import TuningError
from search.graph_tuner import Measure, tune_layouts
from search.runner import Runner

if TYPE_CHECKING:
    from codegen import Target
    from tensorir.function import IRModule


class ApplyDatabase:
    """Puts the best schedules of a database in the place of functions; see `apply_database`.

    Without `database` or `target` the current ones are taken when the pass is called; TuningError
    if there is no current database.
    """

    name = "ApplyDatabase"

    def __init__(
        self,
        database: Database | None = None,
        target: str | Target | None = None,
        *,
        module_equality: str | None = None,
    ) -> None:
        self.database = database
        self.target = target
        self.module_equality = module_equality

    def __call__(self, mod: IRModule) -> IRModule:
        """Return the module with scheduled functions."""
        database = Database.current() if self.database is None else self.database
        if database is None:
            raise TuningError(
                "ApplyDatabase has no database: pass one, or call it inside of `with database:`"
            )
        return apply_database(mod, database, self.target, module_equality=self.module_equality)


class TuneLayouts:
    """Chooses the layouts of the tensors between kernels; see `graph_tuner.tune_layouts`.

    Without `database` or `target` the current ones are taken when the pass is called; without a
    current database, kernels are considered as they are.
    """

    name = "TuneLayouts"

    def __init__(
        self,
        database: Database | None = None,
        target: str | Target | None = None,
        *,
        max_candidates: int = 20,
        work_dir: str | Path | None = None,
        builder: str | Builder = "local",
        runner: str | Runner = "local",
        measure: Measure | None = None,
    ) -> None:
        self.database = database
        self.target = target
        self.max_candidates = max_candidates
        self.work_dir = work_dir
        self.builder = builder
        self.runner = runner
        self.measure = measure

    def __call__(self, mod: IRModule) -> IRModule:
        """Return the module with the layouts that were chosen, and schedules applied."""
        return tune_layouts(
            mod,
            Database.current() if self.database is None else self.database,
            self.target,
            max_candidates=self.max_candidates,
            work_dir=self.work_dir,
            builder=self.builder,
            runner=self.runner,
            measure=self.measure,
        ).mod
