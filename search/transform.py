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
    """Puts the best schedules that are known in the place of functions; see `apply_database`.

    Without `database` the current one is taken when the pass is called, with the options that it
    was entered with if none are given here; TuningError if there is none. Without `target` it is
    the current one.
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
                "ApplyDatabase has no database: pass one, or call it inside of `with database:`"
            )
        if self.history is None and self.options:
            history = History(history.database, **self.options)
        return apply_history(mod, history, self.target)


@dataclass(eq=False, repr=False)
class TuneLayouts(ModulePass):
    """Chooses the layouts of the tensors between kernels; see `graph_tuner.tune_layouts`.

    Without `database` or `target` the current ones are taken when the pass is called; without a
    current database, kernels are considered as they are.
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
