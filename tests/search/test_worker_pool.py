"""Worker processes: a job that fails costs nothing but itself."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from search import WorkerError
from search.worker_pool import WorkerPool
from tests.search.programs import end_process, fail_on, sleep_for, square


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    pool = WorkerPool(2)
    yield pool
    pool.close()


def test_outcomes_are_in_order_and_workers_are_kept(pool: WorkerPool) -> None:
    outcomes = pool.run([(square, (k,)) for k in range(9)], timeout_sec=30)
    assert [o.value for o in outcomes] == [k * k for k in range(9)]
    before = pool.pids
    pool.run([(square, (3,))], timeout_sec=30)
    assert pool.pids == before


def test_an_exception_is_told_with_its_place(pool: WorkerPool) -> None:
    good, bad, after = pool.run([(fail_on, (k,)) for k in (1, 2, 3)], timeout_sec=30)
    assert (good.value, after.value) == (1, 3)
    assert bad.status == "error"
    assert "ValueError: two is not allowed" in bad.value
    assert "fail_on" in bad.value


def test_a_job_that_hangs_is_killed_and_the_others_are_done(pool: WorkerPool) -> None:
    pool.run([(square, (1,))] * 2, timeout_sec=30)
    start = time.monotonic()
    hung, *others = pool.run(
        [(sleep_for, (60.0,)), *((square, (k,)) for k in range(4))], timeout_sec=0.5
    )
    assert time.monotonic() - start < 20
    assert (hung.status, hung.value) == ("timeout", "killed after 0.5 seconds")
    assert [o.value for o in others] == [0, 1, 4, 9]


def test_a_job_that_kills_its_process_costs_only_itself(pool: WorkerPool) -> None:
    first, killed, last = pool.run(
        [(square, (2,)), (end_process, (signal.SIGKILL,)), (square, (4,))], timeout_sec=30
    )
    assert (first.value, last.value) == (4, 16)
    assert killed.status == "crash"
    assert "SIGKILL" in killed.value


def test_a_segmentation_fault_says_where_python_was(pool: WorkerPool) -> None:
    (crash,) = pool.run([(end_process, (signal.SIGSEGV,))], timeout_sec=30)
    assert "SIGSEGV" in crash.value
    assert "end_process" in crash.value


def test_a_worker_killed_between_jobs_is_replaced(pool: WorkerPool) -> None:
    pool.run([(square, (1,))] * 2, timeout_sec=30)
    for pid in pool.pids:
        os.kill(pid, signal.SIGKILL)
    outcomes = pool.run([(square, (k,)) for k in range(4)], timeout_sec=30)
    assert [o.value for o in outcomes] == [0, 1, 4, 9]


def test_functions_that_no_worker_can_import_are_refused(pool: WorkerPool) -> None:
    with pytest.raises(WorkerError, match="top level of a module"):
        pool.run([(lambda: 1, ())], timeout_sec=30)


def test_an_initializer_that_fails_is_an_error_of_the_set_up() -> None:
    pool = WorkerPool(1, initializer=_broken)
    with pytest.raises(WorkerError, match="no licence for this machine"):
        pool.run([(square, (1,))], timeout_sec=30)


def _broken() -> None:
    raise RuntimeError("no licence for this machine")
