"""Candidates are measured by the machines of a Dask scheduler; here they are made up."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import search as ms
from codegen import Target
from search.errors import TuningError
from search.runner import RunnerInput, RunnerResult
from search.runner.distributed import dispatcher
from search.runner.distributed.connection import Machine, this_release
from search.runner.distributed.messages import MeasureAnswer, MeasureRequest
from tensorir import workloads
from tensorir.function import IRModule
from tests.search.runner.distributed.cluster import (
    FakeBench,
    InProcessCluster,
    in_process_cluster,
    simulated_machine,
    wait_until,
)

pytest.importorskip("distributed")
pytestmark = pytest.mark.usefixtures("credentials")

TARGET = Target("llvm -num-cores=1")
BUILDER = ms.DaskBuilder()
RELEASE = this_release()


@pytest.fixture(scope="module")
def inputs() -> list[RunnerInput]:
    """Forty candidates."""
    mods = [IRModule({"main": workloads.create("GMM", n=n, m=4, k=4)}) for n in range(1, 41)]
    built = BUILDER.build([ms.builder.BuilderInput(mod, TARGET) for mod in mods])
    infos = [ms.arg_info.ArgInfo.from_entry_func(mod) for mod in mods]
    return [RunnerInput(str(b.artifact_path), "llvm", i) for b, i in zip(built, infos, strict=True)]


@pytest.fixture
def cluster() -> Iterator[InProcessCluster]:
    with in_process_cluster() as found:
        yield found


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "_LOOK_SECONDS", 0.2)


@contextlib.contextmanager
def runner_of(cluster: InProcessCluster, **options: object) -> Iterator[ms.DaskRunner]:
    with contextlib.closing(ms.DaskRunner(cluster.address, **options)) as runner:  # type: ignore[arg-type]
        yield runner


def test_arrays_of_the_user_travel_once_to_each_machine(
    cluster: InProcessCluster, inputs: list[RunnerInput]
) -> None:
    benches = [FakeBench(simulated_machine(f"m{k}"), seconds=0.02) for k in range(2)]
    cluster.add(*benches)
    arrays = {1: np.arange(6, dtype=np.int32)}
    with runner_of(cluster) as runner:
        given = [replace(entry, input_data=arrays) for entry in inputs[:6]]
        assert all(future.result().run_secs for future in runner.run(given))
        wait_until(lambda: len(cluster.scheduler.tasks) == 1)  # the arrays, for later requests
    for bench in benches:
        assert all((found[1] == arrays[1]).all() for found in bench.arrays)


def test_results_come_as_they_end(cluster: InProcessCluster, inputs: list[RunnerInput]) -> None:
    quick, slow = (FakeBench(simulated_machine(host)) for host in ("quick", "slow"))

    def after_the_quick_ones(_: MeasureRequest, answer: MeasureAnswer) -> MeasureAnswer:
        wait_until(lambda: len(quick.asked) >= 5)
        time.sleep(0.2)  # their answers are on their way
        return answer

    slow.change = after_the_quick_ones
    cluster.add(quick, slow)
    with runner_of(cluster) as runner:
        futures = runner.run(inputs[:6])
        order = [futures[k].result().machine for k in runner.as_they_end(futures, lambda: False)]
        assert order == ["quick"] * 5 + ["slow"]
        futures = runner.run(inputs[:6])
        assert list(runner.as_they_end(futures, lambda: True)) == []


def test_a_machine_that_vanishes_costs_nothing(
    cluster: InProcessCluster, inputs: list[RunnerInput]
) -> None:
    cluster.add(*(FakeBench(simulated_machine(f"m{k}"), seconds=0.2) for k in range(2)))
    with runner_of(cluster) as runner:
        futures = runner.run(inputs[:8])
        cluster.end(0)
        assert all(future.result().error_msg is None for future in futures)
        assert futures[-1].result().machine == "m1"


def test_a_candidate_with_which_six_machines_die_is_a_failed_trial(
    cluster: InProcessCluster, inputs: list[RunnerInput]
) -> None:
    def dying(number: int) -> FakeBench:
        def change(request: MeasureRequest, answer: MeasureAnswer) -> MeasureAnswer:
            cluster.end(number)
            return answer

        return FakeBench(simulated_machine(f"m{number}"), change=change)

    cluster.add(*(dying(number) for number in range(7)))
    with runner_of(cluster) as runner:
        result = runner.run(inputs[:1])[0].result()
        assert "every machine that measured it died" in str(result.error_msg)
        assert len(runner.machines()) == 1


def test_a_machine_that_cannot_measure_is_left_out_while_there_is_another_one(
    cluster: InProcessCluster, inputs: list[RunnerInput], caplog: pytest.LogCaptureFixture
) -> None:
    def unable(request: MeasureRequest, answer: MeasureAnswer) -> MeasureAnswer:
        return replace(answer, status="unable", result=RunnerResult(error_msg="its disk is full"))

    full, fine = simulated_machine("full"), simulated_machine("fine")
    cluster.add(FakeBench(full, change=unable), FakeBench(fine, seconds=0.05))
    with runner_of(cluster) as runner, caplog.at_level(logging.WARNING, "tensorir.search"):
        results = [future.result() for future in runner.run(inputs[:6])]
        assert {result.machine for result in results} == {"fine"}
        assert caplog.text.count("full is left out: its disk is full") == 1
    cluster.end(1)
    with runner_of(cluster) as runner, pytest.raises(TuningError, match="its disk is full"):
        runner.run(inputs[:1])[0].result()


def paced(host: str, pace: float) -> FakeBench:
    """A machine on which the reference kernel takes so many seconds."""
    return FakeBench(
        simulated_machine(host), 0.05, lambda request, answer: replace(answer, pace=pace)
    )


def test_a_slow_machine_is_left_out_where_there_is_another_one(
    cluster: InProcessCluster, inputs: list[RunnerInput], caplog: pytest.LogCaptureFixture
) -> None:
    cluster.add(paced("usual", 1e-4), paced("throttled", 2e-4))
    with runner_of(cluster) as runner, caplog.at_level(logging.WARNING, "tensorir.search"):
        _ = [future.result() for future in runner.run(inputs[:4])]
        results = [future.result() for future in runner.run(inputs[4:10])]
        assert {result.machine for result in results} == {"usual"}
        text = "throttled is left out for a while: it takes 2.00 times as long for the reference"
        assert text in caplog.text
        cluster.end(0)
        assert runner.run(inputs[10:11])[0].result().machine == "throttled"


FOREIGN: Mapping[str, tuple[Machine, str, dict[str, Any]]] = {
    "kind": (
        replace(simulated_machine("other"), caches=(1, 2, 3)),
        "has no CPU model and therefore means this machine",
        {"machines": replace(simulated_machine(), caches=(1, 2, 3)).kind},
    ),
    "release": (
        replace(simulated_machine("other"), release="0.0.1 (lowering 01234567)"),
        f"it runs tensorir 0.0.1 (lowering 01234567) and this process {RELEASE}: install the same",
        {"allow_other_versions": True},
    ),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_one_search_uses_machines_of_one_kind_and_release(
    what: str, cluster: InProcessCluster, inputs: list[RunnerInput]
) -> None:
    """Also where others come later, or are allowed: their times are others."""
    machine, reason, option = FOREIGN[what]
    cluster.add(FakeBench(machine))
    with runner_of(cluster) as runner:
        assert f"not by other: {reason}" in str(runner.why_not(TARGET)).replace("the target ", "")
        with pytest.raises(TuningError, match="cannot be measured: at tls"):
            runner.run(inputs[:1])
    named = Target({**TARGET.to_dict(), "mcpu": machine.cpu})
    with runner_of(cluster, **option) as runner:
        assert runner.why_not(named) is None
    cluster.add(*(FakeBench(simulated_machine(f"this {k}"), seconds=0.01) for k in range(2)))
    with runner_of(cluster) as runner:
        machines = {future.result().machine for future in runner.run(inputs)}
    assert machines == {"this 0", "this 1"}


def test_a_target_that_nobody_has_is_told_at_once(cluster: InProcessCluster) -> None:
    with runner_of(cluster) as runner:
        assert "no machine is connected: start `tensorir worker`" in str(runner.why_not(TARGET))
        cluster.add(FakeBench(simulated_machine("here")))
        reason = str(runner.why_not(Target("llvm -mcpu=neoverse-n1 -mtriple=aarch64-linux-gnu")))
        assert "there are 1 of " in reason
        assert "not by here: it is x86_64" in reason or "not by here: it is aarch64" in reason
        assert "it has 1 core" in str(runner.why_not(Target("llvm -num-cores=4096"))) or (
            "cores" in str(runner.why_not(Target("llvm -num-cores=4096")))
        )


def test_a_worker_that_describes_itself_otherwise_is_told(
    cluster: InProcessCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.add(FakeBench(replace(simulated_machine("odd"), cores="many")))  # type: ignore[arg-type]
    with runner_of(cluster) as runner, caplog.at_level(logging.WARNING, "tensorir.search"):
        assert (runner.machines(), runner.machines()) == ({}, {})
    assert caplog.text.count("is left out: the description of a machine has cores = 'many'") == 1


def test_the_scheduler_goes_away_and_comes_back(
    inputs: list[RunnerInput], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "tensorir.search"):
        with in_process_cluster(FakeBench(seconds=0.3)) as first:
            port = int(first.address.rsplit(":", 1)[1])
            runner = ms.DaskRunner(first.address)
            futures = runner.run(inputs[:3])
            assert futures[0].result().error_msg is None
        with in_process_cluster(FakeBench(), port=port):
            assert all(future.result().error_msg is None for future in futures)
            runner.close()


def test_what_another_builder_made_is_refused(cluster: InProcessCluster) -> None:
    cluster.add(FakeBench())
    with runner_of(cluster) as runner, pytest.raises(TuningError, match=r"leave out builder="):
        runner.run([RunnerInput("/some/object.o", "llvm", [])])


def test_what_nobody_waits_for_is_not_measured(
    cluster: InProcessCluster, inputs: list[RunnerInput]
) -> None:
    bench = FakeBench(seconds=0.2)
    cluster.add(bench)
    with runner_of(cluster) as runner:
        first, *others = runner.run(inputs[:10])
        for future in others:
            future.give_up()
        assert first.result().error_msg is None
    assert len(bench.asked) <= 2


def test_rounds_are_on_one_machine_and_go_on_on_another(
    cluster: InProcessCluster, inputs: list[RunnerInput]
) -> None:
    """The best are measured again on one machine, so that their times may be compared."""
    cluster.add(*(FakeBench(simulated_machine(f"m{k}"), seconds=0.05) for k in range(3)))
    with runner_of(cluster) as runner:
        once = runner.in_one_place()
        first = [future.result().machine for future in once.run(inputs[:5])]
        assert len(set(first)) == 1
        waiting = once.run(inputs[:5])
        cluster.end(int(str(first[0])[1]))
        others = {future.result().machine for future in waiting} - set(first)
        then = {future.result().machine for future in once.run(inputs[:3])}
    assert others
    assert len(then) == 1
    assert then != set(first)
