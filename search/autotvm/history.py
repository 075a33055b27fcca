"""The configurations of logs: the best of each workload, or one after the other."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from codegen import Target
from search.autotvm.dispatch import DispatchContext, FallbackContext
from search.autotvm.errors import TemplateError
from search.autotvm.record import Record, Records, records_of
from search.records.measure_error_no import MeasureErrorNo

if TYPE_CHECKING:
    from search.autotvm.arguments import Workload
    from search.autotvm.space.config import Config

logger = logging.getLogger("autotvm")

_UNKNOWN = "unknown"


class ApplyHistoryBest(DispatchContext):
    """Answers with the configuration of the lowest mean cost that logs have for a workload.

    `records` is a path, an opened log, an iterable of (input, result), or several of those.
    A target is asked for by its keys, `cpu` say, so that a log of one CPU serves another; that is
    reported at level INFO. Records with errors are left out; of equal costs the first counts.
    """

    def __init__(self, records: Records) -> None:
        super().__init__()
        self.best_by_targetkey: dict[tuple[str, Any], Record] = {}
        self.best_by_model: dict[tuple[str, Any], Record] = {}
        self._told: set[tuple[str, Any]] = set()
        self.load(records)

    def load(self, records: Records) -> None:
        """Add what logs have; TemplateError for what is neither a log nor records."""
        for record in records_of(records):
            inp, res = record
            if res.error_no != MeasureErrorNo.NO_ERROR:
                continue
            for name in self._keys(inp.target):
                best, key = self._best(name, inp.target), (name, inp.task.workload)
                if key not in best or res.mean_cost < best[key][1].mean_cost:
                    best[key] = record

    def _keys(self, target: Target | None) -> list[str]:
        """Return the model of a target, if it says one, and its keys."""
        if target is None:
            raise TemplateError("a configuration is set for a target; pass one to update")
        model = str(target.to_dict().get("model", _UNKNOWN))
        return [*([] if model == _UNKNOWN else [model]), *target.keys]

    def _best(self, name: str, target: Target) -> dict[tuple[str, Any], Record]:
        return self.best_by_targetkey if name in target.keys else self.best_by_model

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config | None:
        if workload is None:
            return None
        if target is None:
            raise TemplateError(
                "the best of history is looked up for a target; call the template within "
                "`with codegen.Target(...):`"
            )
        for name in self._keys(target):
            key = (name, workload)
            if key in self.memory:
                return self.memory[key]
            found = self._best(name, target).get(key)
            if found is not None:
                return self._answer(found, target)
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
        super().update(target, workload, cfg)
        cfg.cost = 0


class ApplyGraphBest(FallbackContext):
    """Hands out the configurations of records one after the other.

    A tuner of a whole graph chooses for each operator, so that two calls with the same arguments
    may get different configurations: `records`, as for `ApplyHistoryBest`, are in the order in
    which the templates are called. After the last one, a workload gets what it got before, or was
    given by `update`; one that is unknown gets default values, which is warned of once.

    TemplateError for what is neither a log nor records, and where another workload is asked for
    than the next record has.
    """

    def __init__(self, records: Records) -> None:
        super().__init__()
        self._records = list(records_of(records))
        self._counter = 0

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config:
        if self._counter == len(self._records):
            return super()._query_inside(target, workload)
        inp, _ = self._records[self._counter]
        recorded = inp.task.workload
        if workload is not None and workload != recorded:
            raise TemplateError(
                f"call {self._counter + 1} is of {workload}, but record {self._counter + 1} of "
                f"{len(self._records)} is of {recorded}; records of a graph are in the order in "
                "which its templates are called"
            )
        self._counter += 1
        self.update(target, recorded, inp.config)
        return inp.config

    def _warning(self, target: Target | None, workload: Workload) -> str:
        return (
            f"the records of ApplyGraphBest have no configuration of {workload} for {target}: the "
            "fallback is used, which may be much slower; tune the graph again"
        )


apply_history_best = ApplyHistoryBest
apply_graph_best = ApplyGraphBest
