"""The overhead of Dask for each trial of a search, and how many machines it keeps busy.

    python -m benchmarks.distributed
    python -m benchmarks.distributed --machines 100 300 1000 --seconds 5 --trials-each 4

The same candidates are built and measured without Dask and by one worker of this machine. Then
machines are made up: workers in a few processes sleep in place of measuring. They, the scheduler
and the search share the cores of this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import search as ms
from codegen import Target
from search.arg_info import ArgInfo
from search.builder import Builder, BuilderInput, LocalBuilder
from search.runner import LocalRunner, Runner, RunnerInput
from search.runner.distributed.credentials import VARIABLE, Credentials
from tensorir import workloads
from tensorir.function import IRModule
from tests.search.runner.distributed.cluster import InProcessCluster, in_process_cluster

TARGET: Final = Target("llvm -num-cores=1")
MEASURED: Final = 32
"""The candidates that are measured with and without Dask."""
PER_PROCESS: Final = 250
"""The most workers of a process."""

_SERVE: Final = """
import sys
from search.runner.distributed.credentials import Credentials
from search.runner.distributed.servers import serve
serve(sys.argv[1], Credentials.read())
"""
_SLEEP: Final = """
import asyncio, importlib, sys
from search.runner.distributed.credentials import Credentials
from search.runner.distributed.connection import dask_address
from tests.search.runner.distributed.cluster import FakeBench, simulated_machine
from search.runner.distributed.servers import new_worker

address, first, count, seconds = dask_address(sys.argv[1]), *sys.argv[2:]
credentials = Credentials.read()
importlib.import_module("dask.config").set({"distributed.worker.profile.enabled": False})

async def stay():
    names = [f"machine {k}" for k in range(int(first), int(first) + int(count))]
    benches = [FakeBench(simulated_machine(name, at_once=2), float(seconds)) for name in names]
    workers = [
        await new_worker(address, bench, name, credentials)
        for bench, name in zip(benches, names, strict=True)
    ]
    await asyncio.gather(*(worker.finished() for worker in workers))

asyncio.run(stay())
"""


def candidates(count: int) -> list[IRModule]:
    """Return scheduled programs that differ."""
    sizes = [(32 + 16 * (k % 8), 32 + 16 * (k // 8)) for k in range(count)]
    programs = [workloads.create("GMM", n=n, m=m, k=64) for n, m in sizes]
    return [ms.default_schedule(program, TARGET).mod for program in programs]


def inputs(builder: Builder, mods: Sequence[IRModule]) -> list[RunnerInput]:
    """Return what a runner is given."""
    built = builder.build([BuilderInput(mod, TARGET) for mod in mods])
    return [
        RunnerInput(str(one.artifact_path), TARGET.kind, ArgInfo.from_entry_func(mod))
        for one, mod in zip(built, mods, strict=True)
    ]


def seconds_of(builder: Builder, runner: Runner, mods: Sequence[IRModule]) -> float:
    """Return how long building and measuring takes, all given at once."""
    start = time.perf_counter()
    results = [future.result() for future in runner.run(inputs(builder, mods))]
    assert all(result.run_secs for result in results), results
    return time.perf_counter() - start


@contextlib.contextmanager
def processes(address: str, scripts: Sequence[Sequence[str]]) -> Iterator[None]:
    """Run scripts with an address and other arguments."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script, address, *others], env=env, stderr=subprocess.DEVNULL
        )
        for script, *others in scripts
    ]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def wait_for(cluster: InProcessCluster, count: int) -> None:
    """Wait until so many workers are there."""
    while len(cluster.scheduler.workers) < count:
        time.sleep(0.1)


def overhead() -> None:
    """Print what a trial takes with and without Dask."""
    mods = candidates(MEASURED)
    with (
        in_process_cluster() as cluster,
        processes(cluster.address, [[_SERVE]]),
    ):
        wait_for(cluster, 1)
        dask = ms.DaskRunner(cluster.address)
        seconds_of(ms.DaskBuilder(), dask, mods[:2])
        far = seconds_of(ms.DaskBuilder(), dask, mods[2:]) / (MEASURED - 2)
        dask.close()
    # Only now: a process keeps the core that it measures on, which the worker has until here.
    builder, runner = LocalBuilder(max_workers=1), LocalRunner()
    seconds_of(builder, runner, mods[:2])
    local = seconds_of(builder, runner, mods[2:]) / (MEASURED - 2)
    builder.close()
    runner.close()
    print(f"a trial without Dask:     {local * 1e3:6.1f} ms")
    print(f"with one Dask worker:     {far * 1e3:6.1f} ms ({(far - local) * 1e3:+.1f} ms)")


def busy(machines: int, seconds: float, trials: int, start_seconds: float = 0.0) -> float:
    """Return how many seconds so many machines take for trials that take `seconds` each."""
    mods = candidates(16)
    shares = range(0, machines, PER_PROCESS)
    scripts = [
        [_SLEEP, str(first), str(min(PER_PROCESS, machines - first)), str(seconds)]
        for first in shares
    ]
    with (
        in_process_cluster() as cluster,
        processes(cluster.address, scripts),
    ):
        wait_for(cluster, machines)
        time.sleep(start_seconds)
        runner, builder = ms.DaskRunner(cluster.address), ms.DaskBuilder()
        given = inputs(builder, mods)
        assert runner.why_not(TARGET) is None
        start = time.perf_counter()
        results = [f.result() for f in runner.run([given[k % 16] for k in range(trials)])]
        took = time.perf_counter() - start
        assert all(result.run_secs for result in results)
        runner.close()
    return took


def main() -> None:
    """Print all figures, or those of the machines asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--machines", type=int, nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--trials-each", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ[VARIABLE] = str(Path(folder, "credentials"))
        Credentials.read_or_make()
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the figures, with the credentials that the environment names."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it tells of workers that end
    if not options.machines:
        overhead()
    for machines in options.machines or (1, 2, 4, 8, 16):
        trials = options.trials_each * machines or 64
        took = busy(machines, options.seconds, trials, start_seconds=machines / 100)
        ideal = options.seconds * trials / machines
        print(
            f"{machines:5d} machines, {trials:5d} trials of {options.seconds:g} s: {took:7.2f} s, "
            f"{took / ideal:5.2f} of the ideal; {ideal / took:4.0%} busy, "
            f"{trials / took:5.0f} trials a second"
        )


if __name__ == "__main__":
    main()
