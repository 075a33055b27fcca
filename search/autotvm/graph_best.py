"""The configurations of the operators of a graph, in its order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search.autotvm.dispatch import FallbackContext
from search.autotvm.errors import TemplateError
from search.autotvm.record import Records, records_of

if TYPE_CHECKING:
    from codegen import Target
    from search.autotvm.arguments import Workload
    from search.autotvm.space.config import Config


class ApplyGraphBest(FallbackContext):
    """Hands out the configurations of records one after the other.

    A tuner of a whole graph chooses for each operator, so that two calls with the same arguments
    may get different configurations: `records` are in the order in which the templates are called.
    After the last one, a workload gets what it got before, or was given by `update`; one that is
    unknown gets default values, which is warned of once.

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


def apply_graph_best(records: Records) -> ApplyGraphBest:
    """Return a context in which the templates of a graph get its records, in their order.

    `records` is a path, an opened log, an iterable of (input, result), or several of those.
    """
    return ApplyGraphBest(records)
