"""Several tuners on one database: none measures what another does, and each learns of all."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import search as ms
from schedule import Schedule
from search import DatabaseError
from search.database import (
    Claimed,
    Database,
    MemoryDatabase,
    SQLDatabase,
    TuningRecord,
)
from search.runner import RunnerResult
from search.runner.measure_candidate import MeasureCandidate
from search.runs.leases import Leases, key_of
from search.search_strategy import EvolutionarySearch
from tests.search.database.made_records import TARGET, commit, scheduled
from tests.search.made_up_runs import TimesOfScripts, task
from tests.search.programs import Matmul
from tests.search.runs.test_tuning_run import run

DECISIONS = [(8, 4), (4, 8), (16, 2), (2, 16)]


@pytest.fixture(params=["file", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a database is: a URL."""
    if request.param == "server":
        return str(request.getfixturevalue("postgres").url())
    return f"sqlite:///{tmp_path}/shared.sqlite"


def opened(place: str) -> SQLDatabase:
    database = Database.create(place)
    assert isinstance(database, SQLDatabase)
    return database


def keys_of(place: str) -> list[bytes]:
    return [record.trace_key for record in opened(place).get_all_tuning_records()]


def slowly(_: int) -> RunnerResult | None:
    time.sleep(0.01)
    return None


def tuner(
    work_dir: Path, place: str, trials: int, result: Callable[[int], RunnerResult | None] = slowly
) -> int:
    """Start a process that tunes the product of matrices, and return its number."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            config = ms.TuneConfig(trials, num_trials_per_iter=3, num_confirmed=0)
            run(work_dir, config=config, database=place, runner=TimesOfScripts(result))
            status = 0
        finally:
            os._exit(status)
    return pid


def test_tuners_of_one_task_measure_nothing_twice(place: str, tmp_path: Path) -> None:
    """Their seeds are the same, so that alone each would measure what the others do."""
    pids = [tuner(tmp_path / str(k), place, 6) for k in range(3)]
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 3
    keys = keys_of(place)
    assert len(keys) == 18
    assert len(set(keys)) == len(keys)
    assert claimed(place) == set(), "no claim outlives its run"


def test_tuners_of_a_small_space_measure_all_of_it_once(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/shared.sqlite"
    pids = []
    for k in range(2):
        pid = os.fork()
        if not pid:
            try:
                run(
                    tmp_path / str(k),
                    task(space=split_once, seed=k + 1),
                    config=ms.TuneConfig(64, num_trials_per_iter=2, num_confirmed=0),
                    database=place,
                    runner=TimesOfScripts(slowly),
                )
            finally:
                os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    keys = keys_of(place)
    assert len(keys) == len(set(keys)) == len(sampled(split_once))


def split_once(sch: Schedule) -> None:
    _, j, _ = sch.get_loops(sch.get_block("C"))
    sch.split(j, sch.sample_perfect_tile(j, n=2))


def sampled(space: Callable[[Schedule], object]) -> set[str]:
    """Return the traces of a small space."""
    found = set()
    for seed in range(1, 200):
        sch = Schedule(Matmul, seed=seed)
        space(sch)
        found.add(str(sch.trace))
    return found


def test_what_a_killed_tuner_had_claimed_is_free_when_its_lease_is_over(
    place: str, tmp_path: Path
) -> None:
    database = opened(place)
    database.commit_workload(Matmul)
    pid = tuner(tmp_path / "killed", place, 200, lambda k: time.sleep(600) if k == 4 else None)
    while len(database) < 3 or not claimed(place) - set(keys_of(place)):
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    measured = set(keys_of(place))
    leased = claimed(place)
    assert leased - measured
    workload = database.commit_workload(Matmul)
    refused = database.claim(workload, TARGET, sorted(leased), "me", 60)
    assert refused == (frozenset(), leased & measured)
    lease_ends(place)
    granted = database.claim(workload, TARGET, sorted(leased), "me", 60)
    assert granted == (leased - measured, leased & measured)


def lease_ends(place: str) -> None:
    with opened(place).store.sql.session(writes=True) as session:
        session.exec_driver_sql("UPDATE claim SET until = 1")


def claimed(place: str) -> set[bytes]:
    with opened(place).store.sql.session(writes=False) as session:
        rows = session.exec_driver_sql("SELECT trace_key FROM claim")
        return {bytes(key) for (key,) in rows}


# -------------------------------------------------------------------------------------- one by one


def candidates() -> list[MeasureCandidate]:
    return [MeasureCandidate(scheduled(decision), []) for decision in DECISIONS]


def test_a_claim_is_granted_to_one_and_ends_with_its_record(place: str) -> None:
    mine, yours = (Leases(opened(place)) for _ in range(2))
    first, second = task(target=str(TARGET)), task(target=str(TARGET))
    a, b, c, d = candidates()
    assert mine.acquire(first, [a, b, b]) == [a, b], "each once"
    assert yours.acquire(second, [b, c]) == [c]
    commit(opened(place), DECISIONS[0], 1e-6)
    mine.release(first)
    assert yours.acquire(second, [a, b, c, d]) == [b, c, d], "a was measured, and b was not"
    yours.close()
    assert mine.acquire(first, [a, b]) == [b]
    mine.close()


class Vanishing(MemoryDatabase):
    """Answers once that another one has everything, and then no more."""

    has_claims = True
    answers = 1

    def claim(self, *_: object) -> Claimed:
        self.answers -= 1
        if self.answers < 0:
            raise DatabaseError("the server is gone")
        return Claimed(frozenset(), frozenset())


def test_without_an_answer_new_candidates_are_measured_and_those_of_others_are_not() -> None:
    claims, tuned = Leases(Vanishing()), task()
    a, b, *_ = candidates()
    assert claims.acquire(tuned, [a]) == []
    assert claims.acquire(tuned, [b]) == [b]
    assert claims.expired(tuned, 9) == []


class Renewed(MemoryDatabase):
    """Says when a claim is renewed."""

    has_claims = True

    def __init__(self) -> None:
        super().__init__()
        self.owners: list[str] = []
        self.was_renewed = threading.Event()

    def renew_claims(self, owner: str, seconds: int) -> None:
        self.owners.append(owner if seconds else "released")
        self.was_renewed.set()


def test_the_last_of_many_finds_candidates_of_its_own(tmp_path: Path) -> None:
    """Forty tuners with one seed have claimed the first batches, one after another."""
    place = f"sqlite:///{tmp_path}/shared.sqlite"
    database = opened(place)
    workload = database.commit_workload(Matmul)
    taken: list[bytes] = []

    class First(Told):
        def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
            batch = super().generate_measure_candidates()
            if batch and len(taken) < 80:
                keys = [key_of(candidate) for candidate in batch]
                taken.extend(database.claim(workload, TARGET, keys, "others", 60).granted)
            return batch

    config = ms.TuneConfig(4, num_trials_per_iter=2, num_confirmed=0)
    run(tmp_path, task(strategy=First()), database=place, config=config)
    assert len(taken) >= 80
    assert len(database) == 4


def test_a_strategy_that_repeats_itself_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Random draws of a space of six, all of which another tuner has measured."""
    place = f"sqlite:///{tmp_path}/shared.sqlite"
    config = ms.TuneConfig(64, num_trials_per_iter=16, num_confirmed=0)
    for strategy in ("evolutionary", "replay-trace"):
        tuned = task(strategy=strategy, space=split_once)
        run(tmp_path / strategy, tuned, database=place, config=config)
    assert "gave batches that others have measured one after another" in capsys.readouterr().err
    assert len(set(keys_of(place))) == len(keys_of(place)) == len(sampled(split_once))


def test_a_claim_is_renewed_while_its_run_lives() -> None:
    database = Renewed()
    claims = Leases(database, seconds=1)
    claims.acquire(task(), candidates())
    assert database.was_renewed.wait(10)
    claims.close()
    last = len(database.owners)
    assert database.owners[-1] == "released"
    time.sleep(0.01)
    assert len(database.owners) == last


def test_renewed_claims_last_from_now_on(place: str) -> None:
    database = opened(place)
    workload = database.commit_workload(Matmul)
    database.claim(workload, TARGET, [b"a"], "me", 5)
    lease_ends(place)
    database.renew_claims("me", 60)
    assert database.claim(workload, TARGET, [b"a"], "you", 5).granted == frozenset()
    with database.store.sql.session(writes=False) as session:
        ((until,),) = session.exec_driver_sql("SELECT until FROM claim")
    assert until > time.time() + 30


class Told(EvolutionarySearch):
    """Remembers what it was told of."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[TuningRecord] = []

    def notify_records(self, records: list[TuningRecord]) -> None:  # type: ignore[override]
        self.records += records
        super().notify_records(records)


def test_a_tuner_learns_what_others_measure_meanwhile(place: str, tmp_path: Path) -> None:
    strategy = Told()
    beside = opened(place)

    def result(number: int) -> RunnerResult | None:
        if number == 2:
            commit(beside, DECISIONS[0], 0.5e-6)
        return None

    tuned = task(strategy=strategy)
    done = run(tmp_path, tuned, database=place, runner=TimesOfScripts(result))
    assert [record.mean_seconds for record in strategy.records] == [0.5e-6], "and not its own"
    assert len(done.database) == 9
