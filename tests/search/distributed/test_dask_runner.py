"""Candidates are measured by the machines of a Dask scheduler; here they are made up."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

import search as ms
from codegen import Target
from search.distributed import dispatcher
from search.distributed.credentials import Credentials
from search.distributed.in_process import (
    InProcessCluster,
    MadeUpBench,
    in_process_cluster,
    made_up_machine,
)
from search.distributed.machine import this_release
from search.distributed.messages import MeasureAnswer, MeasureRequest
from search.errors import TuningError
from search.runner import RunnerInput
from tensorir import workloads
from tensorir.function import IRModule
from tests.search.distributed.processes import wait_until

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
    with in_process_cluster(credentials=Credentials.read()) as found:
        yield found


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "_LOOK_SECONDS", 0.2)


@contextlib.contextmanager
def runner_of(cluster: InProcessCluster, **options: object) -> Iterator[ms.DaskRunner]:
    with contextlib.closing(ms.DaskRunner(cluster.address, **options)) as runner:  # type: ignore[arg-type]
        yield runner


def test_each_machine_gets_its_share(cluster: InProcessCluster, inputs: list[RunnerInput]) -> None:
    benches = [MadeUpBench(made_up_machine(f"m{k}"), seconds=0.02) for k in range(3)]
    cluster.add(*benches)
    with runner_of(cluster) as runner:
        results = [future.result() for future in runner.run(inputs[:12])]
    assert all(result.run_secs and result.error_msg is None for result in results)
    assert {result.machine for result in results} == {"m0", "m1", "m2"}
    assert sum(len(bench.asked) for bench in benches) == 12


def test_a_machine_that_comes_late_gets_work(
    cluster: InProcessCluster, inputs: list[RunnerInput]
) -> None:
    cluster.add(MadeUpBench(made_up_machine("early"), seconds=0.2))
    with runner_of(cluster) as runner:
        futures = runner.run(inputs)
        cluster.add(MadeUpBench(made_up_machine("late"), seconds=0.01))
        assert "late" in {future.result().machine for future in futures}


def test_results_come_as_they_end(cluster: InProcessCluster, inputs: list[RunnerInput]) -> None:
    quick, slow = (MadeUpBench(made_up_machine(host)) for host in ("quick", "slow"))

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
    cluster.add(*(MadeUpBench(made_up_machine(f"m{k}"), seconds=0.2) for k in range(2)))
    with runner_of(cluster) as runner:
        futures = runner.run(inputs[:8])
        cluster.end(0)
        assert all(future.result().error_msg is None for future in futures)
        assert futures[-1].result().machine == "m1"


def test_a_machine_that_lies_is_left_out(
    cluster: InProcessCluster, inputs: list[RunnerInput], caplog: pytest.LogCaptureFixture
) -> None:
    def unable(request: MeasureRequest, answer: MeasureAnswer) -> MeasureAnswer:
        return replace(answer, status="unable", error="the code uses amx-tile", run_secs=())

    cluster.add(
        MadeUpBench(made_up_machine("liar"), change=unable),
        MadeUpBench(made_up_machine("honest"), seconds=0.05),
    )
    with runner_of(cluster) as runner, caplog.at_level(logging.WARNING, "tensorir.search"):
        results = [future.result() for future in runner.run(inputs[:6])]
    assert {result.machine for result in results} == {"honest"}
    assert caplog.text.count("is left out: the code uses amx-tile") == 1


def test_without_a_machine_that_can_the_search_ends(
    cluster: InProcessCluster, inputs: list[RunnerInput]
) -> None:
    def unable(request: MeasureRequest, answer: MeasureAnswer) -> MeasureAnswer:
        return replace(answer, status="unable", error="its disk is full", run_secs=())

    cluster.add(MadeUpBench(made_up_machine("full"), change=unable))
    with runner_of(cluster) as runner, pytest.raises(TuningError, match="its disk is full"):
        runner.run(inputs[:1])[0].result()


def paced(host: str, *paces: float, seconds: float = 0.02) -> MadeUpBench:
    """A machine whose reference kernel takes these seconds, and then the last one for good."""
    told = iter(paces)
    return MadeUpBench(
        made_up_machine(host),
        seconds,
        lambda request, answer: replace(answer, pace=next(told, paces[-1])),
    )


def test_a_slow_machine_is_left_out_where_another_one_is_left(
    cluster: InProcessCluster, inputs: list[RunnerInput], caplog: pytest.LogCaptureFixture
) -> None:
    """All run the reference kernel: where that takes twice as long, times are others."""
    cluster.add(paced("usual", 1e-4), paced("throttled", 2e-4))
    with runner_of(cluster) as runner, caplog.at_level(logging.WARNING, "tensorir.search"):
        _ = [future.result() for future in runner.run(inputs[:4])]
        later = [future.result().machine for future in runner.run(inputs[4:10])]
        assert set(later) == {"usual"}
        assert (
            "throttled is left out for a while: it takes 2.00 times as long for the reference"
            in caplog.text
        )
        cluster.end(0)
        assert runner.run(inputs[10:11])[0].result().machine == "throttled"


def test_a_slow_machine_is_asked_again_after_a_while(
    cluster: InProcessCluster, inputs: list[RunnerInput], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("search.distributed.dispatcher._SLOW_SECONDS", 0.1)
    monkeypatch.setattr("search.distributed.dispatcher._LOOK_SECONDS", 0.05)
    cluster.add(paced("usual", 1e-4, seconds=0.05), paced("busy", 2e-4, 1e-4, seconds=0.05))
    with runner_of(cluster) as runner:
        _ = [future.result() for future in runner.run(inputs[:4])]
        time.sleep(0.2)
        later = [future.result().machine for future in runner.run(inputs[4:10])]
    assert set(later) == {"usual", "busy"}


def test_what_is_measured_while_the_pace_drifts_is_measured_again(
    cluster: InProcessCluster, inputs: list[RunnerInput]
) -> None:
    bench = paced("drifts", 1e-4, 1.01e-4, 0.99e-4, 3e-4, *[1e-4, 1.02e-4] * 9)
    cluster.add(bench)
    with runner_of(cluster) as runner:
        for future in [runner.run([one])[0] for one in inputs[:4]]:
            assert future.result().error_msg is None
    assert len(bench.asked) == 5
    assert bench.asked.count(bench.asked[3]) == 2


def test_one_search_uses_machines_of_one_kind(
    cluster: InProcessCluster, inputs: list[RunnerInput]
) -> None:
    other = replace(made_up_machine("other"), caches=(1, 2, 3))
    cluster.add(MadeUpBench(made_up_machine("this")), MadeUpBench(other))
    with runner_of(cluster) as runner:
        results = [future.result() for future in runner.run(inputs[:6])]
        assert {result.machine for result in results} == {"this"}
    mine = Target({**TARGET.to_dict(), "mcpu": made_up_machine().cpu})
    with runner_of(cluster, machines=other.kind) as runner:
        assert runner.why_not(mine) is None
        assert "this: machines=" in str(runner.why_not(TARGET))


def test_a_target_that_nobody_has_is_told_at_once(cluster: InProcessCluster) -> None:
    with runner_of(cluster) as runner:
        assert "there is no machine that measures: start `tensorir worker`" in str(
            runner.why_not(TARGET)
        )
        cluster.add(MadeUpBench(made_up_machine("here")))
        reason = str(runner.why_not(Target("llvm -mcpu=neoverse-n1 -mtriple=aarch64-linux-gnu")))
        assert "there are 1 of " in reason
        assert "not by here: it is x86_64" in reason or "not by here: it is aarch64" in reason
        assert "it has 1 core" in str(runner.why_not(Target("llvm -num-cores=4096"))) or (
            "cores" in str(runner.why_not(Target("llvm -num-cores=4096")))
        )


def test_machines_of_another_release_are_left_out_unless_allowed(
    cluster: InProcessCluster, inputs: list[RunnerInput]
) -> None:
    bench = MadeUpBench(replace(made_up_machine("old"), release="0.0.1 (lowering 01234567)"))
    cluster.add(bench)
    with runner_of(cluster) as runner:
        assert (
            f"not by old: it runs tensorir 0.0.1 (lowering 01234567) and this process {RELEASE}: "
            "install the same version on both"
        ) in str(runner.why_not(TARGET))
        with pytest.raises(TuningError, match="allow_other_versions=True"):
            runner.run(inputs[:1])
    with runner_of(cluster, allow_other_versions=True) as runner:
        assert runner.run(inputs[:1])[0].result().machine == "old"


def test_one_search_uses_machines_of_one_release(
    cluster: InProcessCluster, inputs: list[RunnerInput]
) -> None:
    """Also one that comes later, and where others are allowed: their times are others."""
    old = MadeUpBench(replace(made_up_machine("old"), release="0.0.1"))
    new = MadeUpBench(made_up_machine("new", at_once=2), seconds=0.01)
    new.machine = replace(new.machine, measuring=2)
    cluster.add(new)
    with runner_of(cluster, allow_other_versions=True) as runner:
        futures = runner.run(inputs)
        cluster.add(old)
        assert {future.result().machine for future in futures} == {"new"}


def test_a_scheduler_of_another_release_is_refused_unless_allowed(
    cluster: InProcessCluster,
) -> None:
    cluster.scheduler.task_metadata["tensorir"] = "0.0.1"
    with pytest.raises(TuningError, match=r"the scheduler at tls.* runs tensorir 0\.0\.1 and this"):
        ms.DaskRunner(cluster.address)
    with runner_of(cluster, allow_other_versions=True) as runner:
        assert runner.machines() == {}


def test_a_worker_that_describes_itself_otherwise_is_told(
    cluster: InProcessCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.add(MadeUpBench(replace(made_up_machine("odd"), cores="many")))  # type: ignore[arg-type]
    with runner_of(cluster) as runner, caplog.at_level(logging.WARNING, "tensorir.search"):
        assert (runner.machines(), runner.machines()) == ({}, {})
    assert caplog.text.count("is left out: the description of a machine has cores = 'many'") == 1


def test_the_scheduler_goes_away_and_comes_back(
    inputs: list[RunnerInput], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "tensorir.search"):
        with in_process_cluster([MadeUpBench(seconds=0.3)], 0, Credentials.read()) as first:
            port = int(first.address.rsplit(":", 1)[1])
            runner = ms.DaskRunner(first.address)
            futures = runner.run(inputs[:3])
            assert futures[0].result().error_msg is None
        with in_process_cluster([MadeUpBench()], port, Credentials.read()):
            assert all(future.result().error_msg is None for future in futures)
            runner.close()


def test_what_another_builder_made_is_refused(cluster: InProcessCluster) -> None:
    cluster.add(MadeUpBench())
    with runner_of(cluster) as runner, pytest.raises(TuningError, match=r"leave out builder="):
        runner.run([RunnerInput("/some/object.o", "llvm", [])])


def test_what_nobody_waits_for_is_not_measured(
    cluster: InProcessCluster, inputs: list[RunnerInput]
) -> None:
    bench = MadeUpBench(seconds=0.2)
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
    cluster.add(*(MadeUpBench(made_up_machine(f"m{k}"), seconds=0.05) for k in range(3)))
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
