"""Searches on machines of several kinds, while machines and searches are killed."""

from __future__ import annotations

import contextlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import search as ms
from codegen.target import host
from search.measure_callback import MeasureCallback
from tests.search.models.network_programs import dense_model
from tests.search.programs import Matmul, split_all
from tests.search.runner.distributed.cluster import (
    FakeBench,
    InProcessCluster,
    in_process_cluster,
    simulated_machine,
    wait_until,
    worker_process,
)

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.usefixtures("credentials"),
    pytest.mark.skipif(host.machine() != "x86_64", reason="the machines are made up"),
]

CPUS = ("x86-64-v3", "x86-64-v4")
TRIALS = 12


class Counted(MeasureCallback):
    """Says when a few trials were made."""

    def __init__(self, few: int) -> None:
        self.few = few
        self.reached = threading.Event()
        self.count = 0

    def apply_to_trial(self, *_: Any) -> None:
        self.count += 1
        if self.count == self.few:
            self.reached.set()


def tuned(address: str, cpu: str, folder: Path, told: MeasureCallback) -> None:
    ms.tune_tir(
        Matmul,
        f"llvm -mcpu={cpu} -num-cores=1",
        ms.TuneConfig(TRIALS, num_trials_per_iter=4),
        folder,
        space=split_all,
        runner=address,
        cost_model="random",
        measure_callbacks=[*MeasureCallback.create("default"), told],
        seed=1,
    )


def found_in(folder: Path) -> tuple[list[str], list[tuple[float, str]]]:
    """Return the points of all trials, and times and traces in the database, sorted."""
    trials = ms.load_run(folder).trials
    points = [json.dumps([trial.space, trial.decisions]) for trial in trials]
    assert all(trial.stage == "done" for trial in trials)
    database = ms.database.JSONDatabase(work_dir=folder)
    records = database.get_all_tuning_records()
    return points, sorted((r.mean_seconds, str(r.trace)) for r in records)


def test_two_targets_on_three_machines_while_two_are_killed(tmp_path: Path) -> None:
    told = {cpu: Counted(4) for cpu in CPUS}
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(in_process_cluster())
        killed = [
            stack.enter_context(worker_process(cluster.address, name, cpu))
            for name, cpu in (("a", CPUS[0]), ("c", CPUS[1]))
        ]
        cluster.add(FakeBench(simulated_machine("b", CPUS[0]), 0.1))
        wait_until(lambda: workers(cluster) == 3)
        pool = stack.enter_context(ThreadPoolExecutor(2))
        url = cluster.address
        runs = [pool.submit(tuned, url, cpu, tmp_path / cpu, told[cpu]) for cpu in CPUS]
        for cpu, run in zip(CPUS, runs, strict=True):
            wait_until(lambda cpu=cpu, run=run: told[cpu].reached.is_set() or run.done())
        for process in killed:
            process.kill()
        cluster.add(FakeBench(simulated_machine("d", CPUS[1]), 0.1))
        for run in runs:
            run.result(timeout=60)

    for cpu in CPUS:
        points, records = found_in(tmp_path / cpu)
        assert len(points) == len(set(points)) == TRIALS
        machines = {trial.machine for trial in ms.load_run(tmp_path / cpu).trials}
        assert machines == ({"a", "b"} if cpu == CPUS[0] else {"c", "d"})
        assert len(records) >= TRIALS
        log = (tmp_path / cpu / "logs" / "tvm.meta_schedule.logging.task_scheduler.log").read_text()
        assert f"Working directory: {tmp_path / cpu}\n" in log
        assert log.count("Working directory: ") == 1


def workers(cluster: InProcessCluster) -> int:
    return len(cluster.scheduler.workers)


def test_the_winner_is_that_of_one_machine(tmp_path: Path) -> None:
    """As many machines as there are candidates in a batch choose as one does."""
    found = []
    for count in (1, 4):
        folder = tmp_path / str(count)
        with in_process_cluster(*(FakeBench(seconds=0.01) for _ in range(count))) as cluster:
            best = ms.tune_tir(
                Matmul,
                "llvm -num-cores=1",
                ms.TuneConfig(TRIALS, num_trials_per_iter=4),
                folder,
                space=split_all,
                runner=cluster.address,
                cost_model="random",
                seed=1,
            )
        assert best is not None
        points, records = found_in(folder)
        found.append((sorted(points), records, str(best.trace)))
    assert found[0] == found[1]


def test_a_model_is_tuned_for_machines_of_another_architecture(tmp_path: Path) -> None:
    machine = simulated_machine("board", "neoverse-n1")
    with in_process_cluster(FakeBench(machine)) as cluster:
        database = ms.tune_model(
            dense_model(),
            "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1 -num-cores=1",
            tmp_path,
            max_trials_global=4,
            runner=cluster.address,
            cost_model="random",
            seed=1,
        )
    assert len(database) >= 4
    assert {trial.machine for trial in ms.load_run(tmp_path).trials} == {"board"}
    log = (tmp_path / "logs" / "tvm.meta_schedule.logging.task_scheduler.log").read_text()
    assert "The tuned model cannot run here to be compared: the code is for aarch64" in log
