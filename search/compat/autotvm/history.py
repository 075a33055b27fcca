"""The best configurations of logs, applied to calls of templates."""

from __future__ import annotations

import logging
from typing import Any

from codegen import Target
from search.compat.autotvm.arguments import Workload
from search.compat.autotvm.config import Config
from search.compat.autotvm.dispatch import DispatchContext
from search.compat.autotvm.errors import TemplateError
from search.compat.autotvm.measure import Record
from search.compat.autotvm.record import LOGS, Records
from search.database.record_files import MeasureErrorNo

logger = logging.getLogger("autotvm")


class ApplyHistoryBest(DispatchContext):
    """Returns the configuration with the lowest mean cost that logs have for a workload.

    `records` is a path, an open log, an iterable of (input, result), or several of those. A target
    is looked up by its model, if it has one, then by its keys such as `cpu`: a log of one CPU
    serves another, which is logged at level INFO. Records with errors are skipped; the first of
    equal costs counts.
    """

    def __init__(self, records: Records) -> None:
        super().__init__()
        self.best: dict[tuple[str, Workload], Record] = {}
        """The best record by a model or a key of its target, and its workload."""
        self._reported: set[tuple[str, Workload]] = set()
        self.load(records)

    def load(self, records: Records) -> None:
        """Add the records of logs; TemplateError for an argument of another type."""
        for inp, result in LOGS.records(records):
            if result.error_no != MeasureErrorNo.NO_ERROR:
                continue
            for name in self._keys(inp.target):
                known = self.best.get((name, inp.task.workload))
                if known is None or result.mean_cost < known[1].mean_cost:
                    self.best[name, inp.task.workload] = (inp, result)

    def _keys(self, target: Target | None) -> list[str]:
        """Return the model of a target, if it has one, and its keys."""
        if target is None:
            raise TemplateError(
                "the target to look up or to set a configuration for is missing; call the template "
                "within `with codegen.Target(...):`, or pass a target to update"
            )
        model = str(target.to_dict().get("model", "unknown"))
        return [*([] if model == "unknown" else [model]), *target.keys]

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config | None:
        if workload is None:
            return None
        for name in self._keys(target):
            key: tuple[str, Any] = (name, workload)
            if key in self.memory:
                return self.memory[key]
            if key in self.best:
                inp, _ = self.best[key]
                reported = (str(target), workload)
                if str(inp.target) != str(target) and reported not in self._reported:
                    self._reported.add(reported)
                    text = "the configuration of %s for %s was measured for %s"
                    logger.info(text, workload, target, inp.target)
                return inp.config
        return None

    def update(self, target: Target | None, workload: Workload, cfg: Config) -> None:
        """Set the configuration for a workload; it takes precedence over logs."""
        super().update(target, workload, cfg)
        cfg.cost = 0


apply_history_best = ApplyHistoryBest
