"""What the search does to a module, as passes: functions from module to module with a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from search.apply_database import HistoryOptions, apply_history
from search.errors import TuningError
from search.history import History

if TYPE_CHECKING:
    from codegen import Target
    from search.database import Database
    from tensorir.function import IRModule


class ApplyDatabase:
    """Puts the best schedules that are known in the place of functions; see `apply_database`.

    Without `database` the current one is taken when the pass is called, with the options that it
    was entered with if none are given here; TuningError if there is none. Without `target` it is
    the current one.
    """

    name = "ApplyDatabase"

    def __init__(
        self,
        database: Database | None = None,
        target: str | Target | None = None,
        **options: Unpack[HistoryOptions],
    ) -> None:
        self.history = None if database is None else History(database, **options)
        self.target = target
        self.options = options

    def __call__(self, mod: IRModule) -> IRModule:
        """Return the module with scheduled functions."""
        history = self.history or History.current()
        if history is None:
            raise TuningError(
                "ApplyDatabase has no database: pass one, or call it inside of `with database:`"
            )
        if self.history is None and self.options:
            history = History(history.database, **self.options)
        return apply_history(mod, history, self.target)
