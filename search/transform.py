"""The passes of the search, over modules."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Unpack

from codegen import Target
from search.builder import Builder
from search.database import Database
from search.errors import TuningError
from search.history.history import History, HistoryOptions, apply_history
from search.models.graph_tuner import Measure, tune_layouts
from search.runner import Runner
from tensorir.function import IRModule
from tensorir.transform import ModulePass, PassContext


class ApplyDatabase(ModulePass):
    """Replaces functions by their best schedules in a database; see `apply_database`.

    By default the database is the current one when the pass is called, with the options of its
    `with` statement; TuningError without one. The default target is the current one.
    """

    def __init__(
        self,
        database: Database | None = None,
        target: str | Target | None = None,
        **options: Unpack[HistoryOptions],
    ) -> None:
        self.history = None if database is None else History(database, **options)
        self.target = target
        self.options = options

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module with scheduled functions."""
        history = self.history or History.current()
        if history is None:
            raise TuningError(
                "ApplyDatabase needs a database: pass one, or call it inside of `with database:`"
            )
        if self.history is None and self.options:
            history = History(history.database, **self.options)
        return apply_history(mod, history, self.target)


@dataclass(eq=False, repr=False)
class TuneLayouts(ModulePass):
    """Chooses the layouts of the tensors between kernels; see `graph_tuner.tune_layouts`.

    The default database and target are the current ones when the pass is called. Without a current
    database only unscheduled kernels are considered.
    """

    database: Database | None = None
    target: str | Target | None = None
    _: KW_ONLY
    max_candidates: int = 20
    work_dir: str | Path | None = None
    builder: str | Builder = "local"
    runner: str | Runner = "local"
    measure: Measure | None = None

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module with the chosen layouts, and schedules applied."""
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
