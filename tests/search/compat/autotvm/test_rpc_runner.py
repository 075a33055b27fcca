"""Scripts in the style of AutoTVM and Ansor measure on other machines, which are simulated."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from codegen import load_module
from search import auto_scheduler, autotvm
from search.compat.autotvm import exec as commands
from search.errors import TuningError
from search.runner import RunnerResult
from search.runner.distributed.connection import Machine
from search.runner.distributed.credentials import Credentials
from search.runner.distributed.messages import MeasureAnswer, MeasureRequest
from tensorir import te
from tests.search.compat.autotvm.templates import TUTORIAL
from tests.search.runner.distributed.cluster import (
    FakeBench,
    InProcessCluster,
    in_process_cluster,
    simulated_machine,
)

pytest.importorskip("distributed")
pytestmark = pytest.mark.usefixtures("credentials")

TARGET = "llvm -num-cores=1"
HOST = "127.0.0.1"


@auto_scheduler.register_workload
def product_elsewhere(n: int) -> list[te.Tensor]:
    x, y = te.placeholder((n, n), name="x"), te.placeholder((n, n), name="y")
    k = te.reduce_axis((0, n), name="k")
    return [x, y, te.compute((n, n), lambda i, j: te.sum(x[i, k] * y[k, j], axis=k), name="z")]


@pytest.fixture
def benches() -> list[FakeBench]:
    return [FakeBench(simulated_machine(f"board {k}"), seconds=0.01) for k in range(2)]


@pytest.fixture
def cluster(benches: list[FakeBench]) -> Iterator[InProcessCluster]:
    with in_process_cluster(*benches) as found:
        yield found


def port_of(cluster: InProcessCluster) -> int:
    return int(cluster.address.rpartition(":")[2])


def test_a_tuner_measures_on_all_machines(
    cluster: InProcessCluster, benches: list[FakeBench], tmp_path: Path
) -> None:
    task = autotvm.task.create(TUTORIAL, (64, 64, 64, "float32"), TARGET)
    option = autotvm.measure_option(
        builder=autotvm.LocalBuilder(),
        runner=autotvm.RPCRunner(
            Machine.this().cpu, host=HOST, port=port_of(cluster), number=5, timeout=10
        ),
    )
    log = tmp_path / "matmul.log"
    callbacks = [autotvm.callback.log_to_file(str(log))]
    tuner = autotvm.tuner.GridSearchTuner(task)
    tuner.tune(12, measure_option=option, callbacks=callbacks)
    records = list(autotvm.record.load_from_file(str(log)))
    assert sorted(inp.config.index for inp, _ in records) == list(range(12))
    assert all(result.error_no == autotvm.MeasureErrorNo.NO_ERROR for _, result in records)
    assert all(1e-3 <= result.mean_cost <= 2e-3 for _, result in records)
    assert all(bench.asked for bench in benches)
    assert sum(len(bench.asked) for bench in benches) == len(
        {inp.config.index for inp, _ in records}
    )
    option["runner"].close()


def test_what_fails_on_a_machine_has_the_number_of_its_failure(
    cluster: InProcessCluster, benches: list[FakeBench]
) -> None:
    def fails(request: MeasureRequest, answer: MeasureAnswer) -> MeasureAnswer:
        return replace(answer, result=RunnerResult(error_msg="no such instruction", stage="build"))

    for bench in benches:
        bench.change = fails
    task = autotvm.task.create(TUTORIAL, (64, 64, 64, "float32"), TARGET)
    runner = autotvm.RPCRunner(None, HOST, port_of(cluster))
    batch = autotvm.create_measure_batch(task, autotvm.measure_option("local", runner))
    (result,) = batch([autotvm.MeasureInput(task.target, task, task.config_space.get(3))])
    runner.close()
    assert result.error_no == autotvm.MeasureErrorNo.COMPILE_HOST
    assert result.costs == ("no such instruction",)


def test_ansor_measures_on_all_machines(
    cluster: InProcessCluster, benches: list[FakeBench], tmp_path: Path
) -> None:
    task = auto_scheduler.SearchTask(product_elsewhere, (32,), target=TARGET)
    log = str(tmp_path / "log.json")
    runner = auto_scheduler.RPCRunner(None, HOST, port_of(cluster), repeat=1, min_repeat_ms=50)
    task.tune(
        auto_scheduler.TuningOptions(
            num_measure_trials=8,
            num_measures_per_round=8,
            builder=auto_scheduler.LocalBuilder(timeout=20),
            runner=runner,
            measure_callbacks=[auto_scheduler.RecordToFile(log)],
            verbose=0,
        )
    )
    runner.close()
    asked = {program for bench in benches for program in bench.asked}
    assert len(asked) == 9, "eight candidates, and the unscheduled program"
    assert len(list(auto_scheduler.load_records(log))) >= 8, "the best are measured again"
    assert all(bench.asked for bench in benches)
    assert task.apply_best(log) is not None


def test_a_context_of_ansor_measures_here() -> None:
    context = auto_scheduler.LocalRPCMeasureContext(repeat=2, min_repeat_ms=300, timeout=5)
    options = auto_scheduler.TuningOptions(num_measure_trials=1, runner=context.runner)
    _, runner = options.measuring_parts()
    assert isinstance(runner, auto_scheduler.LocalRunner)
    assert (runner.timeout_sec, runner.evaluator_config.repeat) == (5, 2)
    assert runner.evaluator_config.min_repeat_ms == 300


def test_what_cannot_travel_is_said(cluster: InProcessCluster) -> None:
    runner = autotvm.RPCRunner(None, HOST, port_of(cluster))
    for own in (
        autotvm.LocalBuilder(build_func=lambda mod, target: load_module("x")),
        autotvm.LocalBuilder(build_kwargs={"opt_level": 1}),
    ):
        with pytest.raises(autotvm.TemplateError, match=r"of an RPCRunner build what they measure"):
            autotvm.measure_option(own, runner)
    runner.close()
    ansor = auto_scheduler.RPCRunner(None, HOST, port_of(cluster))
    own_build = auto_scheduler.LocalBuilder(build_func=lambda mod, target: load_module("x"))
    with pytest.raises(TuningError, match=r"of an RPCRunner build what they measure"):
        auto_scheduler.TuningOptions(builder=own_build, runner=ansor).measuring_parts()
    ansor.close()


def test_keys_that_no_machine_has_are_said(
    cluster: InProcessCluster,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = autotvm.task.create(TUTORIAL, (64, 64, 64, "float32"), TARGET)
    runner = autotvm.RPCRunner("rk3399", HOST, port_of(cluster))
    inputs = [autotvm.MeasureInput(task.target, task, task.config_space.get(3))]
    with pytest.raises(TuningError, match=r"there are 2 of .*'rk3399' leaves it out"):
        autotvm.create_measure_batch(task, autotvm.measure_option("local", runner))(inputs)
    runner.close()
    with pytest.raises(
        TuningError, match=rf"key 'rk3399' is not one of .*{Machine.this().kind}.*leave out"
    ):
        commands.main(["rpc_server", "--tracker", "127.0.0.1:9190", "--key", "rk3399"])
    commands.main(["query_rpc_tracker", "--port", str(port_of(cluster))])
    table = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in table] == ["key", Machine.this().kind, Machine.this().kind]
    monkeypatch.setattr(commands, "PATIENCE", 0.2)
    with pytest.raises(TuningError, match=r"no scheduler answers at tls://127\.0\.0\.1:1"):
        commands.main(["query_rpc_tracker", "--port", "1"])


def test_a_server_is_a_worker_of_the_tracker(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[object] = []
    monkeypatch.setattr(commands, "serve", lambda *args, **options: served.append((args, options)))
    commands.main(["rpc_server", "--tracker=host:9190", f"--key={Machine.this().cpu}", "--cores=2"])
    ((address, options),) = served  # type: ignore[misc]
    assert address == ("dask://host:9190", Credentials.read())
    assert options["measuring"] == 2


def test_a_tracker_is_a_scheduler() -> None:
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "search.compat.autotvm.exec", "rpc_tracker", "--port", "0"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline().split()[2].rpartition(":")[2])
        with contextlib.closing(auto_scheduler.RPCRunner(None, HOST, port)) as runner:
            assert runner.machines() == {}
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
