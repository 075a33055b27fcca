"""The one function that a measuring worker executes for a client."""

from __future__ import annotations

from search.distributed.dask_package import dask_distributed
from search.errors import TuningError


def measure_here(request: str) -> str:
    """Return the answer of the worker that executes this to a request; both are texts of JSON.

    TuningError on a worker that was not started to measure.
    """
    worker = dask_distributed().get_worker()
    bench = getattr(worker, "bench", None)
    if bench is None:
        raise TuningError(
            "a Dask worker was asked to measure that was not started with `tensorir worker`"
        )
    answer: str = bench.answer(request, worker.address)
    return answer
