"""The best configurations of logs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from codegen import Target
from search.autotvm.dispatch import DispatchContext
from search.autotvm.errors import TemplateError
from search.autotvm.measure.measurement import MeasureInput, MeasureResult
from search.autotvm.record import Record, Records, records_of
from search.records.measure_error_no import MeasureErrorNo

if TYPE_CHECKING:
    from search.autotvm.arguments import Workload
    from search.autotvm.space.config import Config

logger = logging.getLogger("autotvm")


class ApplyHistoryBest(DispatchContext):
    """Answers with the configuration of the lowest mean cost that logs have for a workload.

    A target is asked for by its keys, `cpu` say, so that a log of one CPU serves another; that is
    reported at level INFO. Records with errors are left out; of equal costs the first counts.
    """

    def __init__(self, records: Records) -> None:
        self.best_by_targetkey: dict[tuple[str, Any], Record] = {}
        self.best_by_model: dict[tuple[str, Any], Record] = {}
        self._user_defined: dict[tuple[str, Any], Config] = {}
        self._told: set[tuple[str, Any]] = set()
        self.load(records)

    def load(self, records: Records) -> None:
        """Add what logs have; TemplateError for what is neither a log nor records."""
        for inp, res in records_of(records):
            if res.error_no != MeasureErrorNo.NO_ERROR:
                continue
            for key in inp.target.keys:
                _keep_better(self.best_by_targetkey, (key, inp.task.workload), inp, res)
            model = _model(inp.target)
            if model != "unknown":
                _keep_better(self.best_by_model, (model, inp.task.workload), inp, res)

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config | None:
        if workload is None:
            return None
        if target is None:
            raise TemplateError(
                "the best of history is looked up for a target; call the template within "
                "`with codegen.Target(...):`"
            )
        model = _model(target)
        if (model, workload) in self._user_defined:
            return self._user_defined[model, workload]
        if (model, workload) in self.best_by_model:
            return self._answer(self.best_by_model[model, workload], target)
        for key in target.keys:
            if (key, workload) in self._user_defined:
                return self._user_defined[key, workload]
            if (key, workload) in self.best_by_targetkey:
                return self._answer(self.best_by_targetkey[key, workload], target)
        return None

    def _answer(self, found: Record, target: Target) -> Config:
        logged = found[0].target
        key = (str(target), found[0].task.workload)
        if str(logged) != str(target) and key not in self._told:
            self._told.add(key)
            logger.info(
                "the configuration of %s for %s was measured for %s",
                found[0].task.workload,
                target,
                logged,
            )
        return found[0].config

    def update(self, target: Target | None, workload: Workload, cfg: Config) -> None:
        """Answer with another configuration for a workload from now on."""
        if target is None:
            raise TemplateError("a configuration is set for a target; pass one to update")
        cfg.cost = 0
        model = _model(target)
        if model != "unknown":
            self._user_defined[model, workload] = cfg
        for key in target.keys:
            self._user_defined[key, workload] = cfg


def apply_history_best(records: Records) -> ApplyHistoryBest:
    """Return a context in which templates get the best configurations of logs.

    `records` is a path, an opened log, an iterable of (input, result), or several of those.
    """
    return ApplyHistoryBest(records)


def _keep_better(
    best: dict[tuple[str, Any], Record],
    key: tuple[str, Any],
    inp: MeasureInput,
    res: MeasureResult,
) -> None:
    if key not in best or res.mean_cost < best[key][1].mean_cost:
        best[key] = (inp, res)


def _model(target: Target) -> str:
    return str(target.to_dict().get("model", "unknown"))
