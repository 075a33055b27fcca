"""Worker processes: a job that fails costs nothing but itself."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from codegen import worker_pool
from codegen.worker_pool import WorkerPool
from search import WorkerError
from tests.search.programs import end_process, fail_on, sleep_for, square


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    """Two workers for all tests, forks as everywhere: whatever a job does, the next test has two again."""
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


def test_a_worker_killed_while_it_starts_is_replaced() -> None:
    pool = WorkerPool(2)
    pool.start()
    while len(pids := pool.pids) < 2:
        pass
    os.kill(pids[1], signal.SIGKILL)
    outcomes = pool.run([(square, (k,)) for k in range(4)], timeout_sec=30)
    pool.close()
    assert [o.value for o in outcomes] == [0, 1, 4, 9]


def kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_pool_that_is_closed_while_a_process_is_made_ends_that_process(tmp_path: Path) -> None:
    started = tmp_path / "started"
    pool = WorkerPool(1, started.touch)
    crew = pool._crew
    make, is_made = crew.start, threading.Event()

    def make_late() -> worker_pool.Worker:
        is_made.set()
        while not crew.stopping:
            time.sleep(0.001)
        return make()

    crew.start = make_late
    pool.start()
    is_made.wait()
    pool.close()
    assert not started.exists()
    assert not pool.pids


def test_workers_that_never_start_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codegen.worker_pool._MAX_STARTS", 2)
    pool = WorkerPool(1, kill_this_process)
    with pytest.raises(WorkerError, match="2 times in a row; the system may be short of memory"):
        pool.run([(square, (1,))], timeout_sec=30)
    pool.close()


def test_functions_of_a_script_travel_by_value(tmp_path: Path) -> None:
    """The pool that nobody closes ends with the process, quietly."""
    script = tmp_path / "script.py"
    script.write_text(
        """
from codegen.worker_pool import WorkerPool

class Offset:
    def __init__(self, by):
        self.by = by

def shifted(x, offset):
    return x + offset.by

pool = WorkerPool(1)
print(*(o.value for o in pool.run([(shifted, (k, Offset(10))) for k in range(3)], 30)))
"""
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("10 11 12\n", "")


def test_what_cannot_be_sent_is_refused(pool: WorkerPool) -> None:
    with pytest.raises(WorkerError, match=r"this function or argument cannot be sent.*lock"):
        pool.run([(square, (threading.Lock(),))], timeout_sec=30)


def test_what_cannot_be_sent_back_is_an_error_of_the_job(pool: WorkerPool) -> None:
    bad, good = pool.run([(threading.Lock, ()), (square, (3,))], timeout_sec=30)
    assert bad.status == "error"
    assert "cannot leave its worker process" in bad.value
    assert good.value == 9


def test_given_up_jobs_end_and_the_next_are_done(pool: WorkerPool) -> None:
    futures = [pool.submit((sleep_for, (60.0,)), timeout_sec=90) for _ in range(3)]
    pool.cancel()
    assert {future.result().status for future in futures} == {"cancelled"}
    assert pool.run([(square, (3,))], timeout_sec=30)[0].value == 9


def test_jobs_of_a_pool_that_is_closed_are_given_up() -> None:
    pool = WorkerPool(1)
    waiting = pool.submit((sleep_for, (60.0,)), timeout_sec=90)
    pool.close()
    assert waiting.result().status == "cancelled"
    assert pool.run([(square, (3,))], timeout_sec=30)[0].value == 9
    (pid,) = pool.pids
    del pool
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_system_without_processes_left_is_an_error_of_the_set_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("Too many open files")

    monkeypatch.setattr("codegen.worker_pool.Worker", refuse)
    with pytest.raises(
        WorkerError, match="cannot be started or do not answer: Too many open files"
    ):
        WorkerPool(1).run([(square, (1,))], timeout_sec=30)


def test_a_spare_starts_with_the_first_worker_and_takes_over_from_a_killed_one() -> None:
    pool = WorkerPool(1, spare=True, loads=square)
    (first,) = pool.run([(os.getpid, ())], timeout_sec=30, alone=True)
    working = first.value
    (spare,) = set(pool.pids) - {working}
    (crash,) = pool.run([(end_process, (signal.SIGKILL,))], timeout_sec=30)
    assert crash.ended_by == signal.SIGKILL
    assert pool.run([(os.getpid, ())], timeout_sec=30)[0].value == spare
    assert working not in pool.pids
    pool.close()
    assert pool.pids == []


def test_an_initializer_that_fails_is_an_error_of_the_set_up() -> None:
    pool = WorkerPool(1, initializer=_broken)
    with pytest.raises(WorkerError, match="no licence for this machine"):
        pool.run([(square, (1,))], timeout_sec=30)


def _broken() -> None:
    raise RuntimeError("no licence for this machine")
