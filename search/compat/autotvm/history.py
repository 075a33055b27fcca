"""The best configurations of logs."""

from __future__ import annotations

import logging
from typing import Any, Final

from codegen import Target
from search.compat.autotvm.arguments import Workload
from search.compat.autotvm.config import Config
from search.compat.autotvm.dispatch import DispatchContext
from search.compat.autotvm.errors import TemplateError
from search.compat.autotvm.measure import Record
from search.compat.autotvm.record import Records, records_of
from search.database.measure_error_no import MeasureErrorNo

logger = logging.getLogger("autotvm")

_UNKNOWN: Final = "unknown"


class ApplyHistoryBest(DispatchContext):
    """Answers with the configuration of the lowest mean cost that logs have for a workload.

    `records` is a path, an opened log, an iterable of (input, result), or several of those.
    A target is looked up by its model, if it has one, then by its keys, `cpu` say, so that a log of
    one CPU serves another; that is reported at level INFO. Records with errors are left out; of
    equal costs the first counts.
    """

    def __init__(self, records: Records) -> None:
        super().__init__()
        self.best: dict[tuple[str, Workload], Record] = {}
        """The best record by a model or a key of its target, and its workload."""
        self._reported: set[tuple[str, Workload]] = set()
        self.load(records)

    def load(self, records: Records) -> None:
        """Add the records of logs; TemplateError for what is neither a log nor records."""
        for record in records_of(records):
            inp, res = record
            if res.error_no != MeasureErrorNo.NO_ERROR:
                continue
            for name in self._keys(inp.target):
                known = self.best.get((name, inp.task.workload))
                if known is None or res.mean_cost < known[1].mean_cost:
                    self.best[name, inp.task.workload] = record

    def _keys(self, target: Target | None) -> list[str]:
        """Return the model of a target, if it has one, and its keys."""
        if target is None:
            raise TemplateError("a configuration is set for a target; pass one to update")
        model = str(target.to_dict().get("model", _UNKNOWN))
        return [*([] if model == _UNKNOWN else [model]), *target.keys]

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config | None:
        if workload is None:
            return None
        if target is None:
            raise TemplateError(
                "the best of history is looked up for a target; call the template within "
                "`with codegen.Target(...):`"
            )
        for name in self._keys(target):
            key: tuple[str, Any] = (name, workload)
            if key in self.memory:
                return self.memory[key]
            if key in self.best:
                return self._answer(self.best[key], target)
        return None

    def _answer(self, found: Record, target: Target) -> Config:
        inp, _ = found
        key = (str(target), inp.task.workload)
        if str(inp.target) != str(target) and key not in self._reported:
            self._reported.add(key)
            text = "the configuration of %s for %s was measured for %s"
            logger.info(text, inp.task.workload, target, inp.target)
        return inp.config

    def update(self, target: Target | None, workload: Workload, cfg: Config) -> None:
        """Answer with another configuration for a workload from now on."""
        super().update(target, workload, cfg)
        cfg.cost = 0


apply_history_best = ApplyHistoryBest
