"""The speed of databases that open and store records, and their memory.

    python -m benchmarks.database [--records 100000]

Files are filled with the traces of auto-scheduled matmuls of several sizes. A new process opens
each, asks for the best record of one workload, and reads all times. Then four processes commit
records to an empty database at the same time. MB are the most that the process had, the packages
included, which is printed before.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any, Final

import search
from codegen import Target
from search.database import RECORDS, Database, JSONDatabase, SQLDatabase, TuningRecord, Workload
from search.runner.measure_candidate import MeasureCandidate
from tensorir import te
from tensorir.function import IRModule

TARGET: Final = Target("llvm -mcpu=skylake-avx512 -num-cores=4")
SPAWN: Final = multiprocessing.get_context("spawn")
KINDS: Final[dict[str, Callable[..., JSONDatabase | SQLDatabase]]] = {
    "json": JSONDatabase,
    "sql": SQLDatabase,
}
WORKLOADS: Final = 16
WRITERS: Final = 4
COMMITS: Final = 250
"""The records that each writer commits."""


def matmul(size: int) -> IRModule:
    a = te.placeholder((size, 128), name="A")
    b = te.placeholder((128, size), name="B")
    k = te.reduce_axis((0, 128), name="k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return IRModule({"main": te.create_prim_func([a, b, c])})


def candidates(mod: IRModule) -> list[MeasureCandidate]:
    context = search.TuneContext(
        mod,
        target=TARGET,
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        rand_state=1,
    )
    context.pre_tuning(8, 8)
    return context.generate_measure_candidates() or []


def fill(folder: Path, count: int) -> None:
    """Write records that differ in a decision and in their times.

    The decisions fit no loop: nothing here replays them.
    """
    database = JSONDatabase(work_dir=folder)
    bodies = []
    for number in range(WORKLOADS):
        mod = matmul(64 + 16 * number)
        workload = database.commit_workload(mod)
        for candidate in candidates(mod):
            record = TuningRecord(candidate.sch.trace, workload, [0.0], TARGET, candidate.args_info)
            bodies.append((number, record.as_json()))
    with (folder / RECORDS.file).open("w") as file:
        for number in range(count):
            workload_number, body = bodies[number % len(bodies)]
            body[0][1][0][1] = [number, 1]
            body[1] = [1e-3 / (number + 1), 1.1e-3 / (number + 1)]
            file.write(json.dumps([workload_number, body], separators=(",", ":")) + "\n")


def peak_mb() -> float:
    """Return the most memory this process had; what its parent had before does not count."""
    (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x)
    return int(line.split()[1]) / 1024


def open_and_ask(kind: str, folder: Path, answers: SimpleQueue[Any]) -> None:
    before = peak_mb()
    start, start_cpu = time.perf_counter(), time.process_time()
    database = KINDS[kind](work_dir=folder)
    opened, cpu = time.perf_counter(), time.process_time() - start_cpu
    opened_mb = peak_mb()
    best = database.get_top_k(Workload(matmul(64)), 1, TARGET)
    asked = time.perf_counter()
    fastest = min(record.mean_seconds for record in database.get_all_tuning_records())
    read = time.perf_counter()
    assert fastest <= best[0].mean_seconds
    answers.put((before, opened - start, cpu, opened_mb, asked - opened, read - asked, peak_mb()))


def write(kind: str, folder: Path, number: int, answers: SimpleQueue[Any]) -> None:
    database: Database = KINDS[kind](work_dir=folder)
    mod = matmul(64)
    candidate = candidates(mod)[0]
    start = time.time()
    for k in range(COMMITS):
        workload = database.commit_workload(mod)
        seconds = [1e-3 * (number + 1) / (k + 1)]
        database.commit_tuning_record(
            TuningRecord(candidate.sch.trace, workload, seconds, TARGET, candidate.args_info)
        )
    answers.put((start, time.time()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    count = parser.parse_args().records
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder, count)
        megabytes = (folder / RECORDS.file).stat().st_size / 1e6
        print(f"{count} records of {WORKLOADS} workloads, {megabytes:.0f} MB of lines")
        start = time.perf_counter()
        with_sql = SQLDatabase(work_dir=folder)
        JSONDatabase(work_dir=folder).copy_to(with_sql)
        print(f"json to sql: {time.perf_counter() - start:.1f} s")
        print("      MB before   open s  CPU s    MB   best s   all s    MB")
        for kind in KINDS:
            answers: SimpleQueue[Any] = SPAWN.SimpleQueue()
            reader = SPAWN.Process(target=open_and_ask, args=(kind, folder, answers))
            reader.start()
            before, opened, cpu, opened_mb, best, read, peak = answers.get()
            reader.join()
            print(
                f"{kind:6}{before:10.0f}{opened:9.3f}{cpu:7.2f}{opened_mb:6.0f}{best:9.3f}{read:8.2f}"
                f"{peak:6.0f}"
            )
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as name:
            answers = SPAWN.SimpleQueue()
            for count in (1, WRITERS):
                writers = [
                    SPAWN.Process(target=write, args=(kind, Path(name), k, answers))
                    for k in range(count)
                ]
                for writer in writers:
                    writer.start()
                spans = [answers.get() for _ in writers]
                for writer in writers:
                    writer.join()
                seconds = max(end for _, end in spans) - min(start for start, _ in spans)
                rate = count * COMMITS / seconds
                print(f"{kind}: {rate:.0f} commits/s by {count} process(es)")
            assert len(KINDS[kind](work_dir=name)) == (WRITERS + 1) * COMMITS


if __name__ == "__main__":
    main()
