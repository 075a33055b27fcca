"""Working directories as searches leave them, in no time: programs are real, times are made up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

from codegen import Target
from schedule import Schedule
from search.database import JSONDatabase, TuningRecord
from search.database.line_store import LineStore
from search.reports import TaskReport, Trial
from search.reports.run_directory import TRIALS, add_tasks
from search.space_generator.design_space import DesignSpace
from tests.search.programs import Matmul, split_all

TARGET = "llvm -keys=cpu -num-cores=1"
TRIAL = Trial(
    task="matmul",
    workload="17",
    target=TARGET,
    batch=0,
    number=0,
    stage="done",
    build_secs=0.5,
    measure_secs=0.25,
    run_secs=(4e-6,),
    predicted=0.5,
    time=1_700_000_001.0,
    space=0,
    decisions=[[1, 2, 16], [4, 8, 1], [2, 2, 8]],
)
WRONG = "Wrong result, argument {} (C) is wrong in {} of 1024 elements"


def trials(count: int, task: str = "matmul", seed: int = 1) -> Iterator[Trial]:
    """Yield trials that get faster: of ten one is stopped early and one fails."""
    chance = np.random.default_rng(seed)
    for k in range(count):
        kind = k % 10
        tiles = [[int(2 ** chance.integers(0, 6)) for _ in range(3)] for _ in range(3)]
        micros = 100 / (1 + k / 8) * float(np.exp(chance.normal(0, 0.4)))
        yield replace(
            TRIAL,
            task=task,
            number=k,
            batch=k // 16,
            stage={3: "stopped", 7: "check"}.get(kind, "done"),
            error=WRONG.format(k % 3, k) if kind == 7 else None,
            run_secs=() if kind == 7 else (micros * 1e-6,),
            predicted=float(chance.uniform(0, 1)),
            time=TRIAL.time + k * 0.5,
            decisions=tiles,
        )


def write(folder: Path, *of_tasks: Iterator[Trial]) -> Path:
    """Write the trials of some tasks, which take turns."""
    log = LineStore(folder)
    for row in zip(*of_tasks, strict=True):
        for trial in row:
            log.add(TRIALS, trial)
    return folder


def write_search(folder: Path) -> Path:
    """Write a search with a database: 20 real schedules of a matmul with different times."""
    database = JSONDatabase(work_dir=folder)
    workload = database.commit_workload(Matmul)
    key = database.workload_key(workload.mod)
    log = LineStore(folder)
    for k in range(20):
        sch = split_all(Schedule(Matmul, seed=k + 1))
        seconds = (1e-6 * (3 + (k * 7) % 20),)
        database.commit_tuning_record(TuningRecord(sch.trace, workload, seconds, Target(TARGET)))
        log.add(
            TRIALS,
            replace(
                TRIAL,
                workload=key,
                number=k,
                run_secs=seconds,
                predicted=1 / seconds[0] * 1e-6,
                time=TRIAL.time + k,
                decisions=[list(one) for one in DesignSpace.of(sch).decisions],  # type: ignore[arg-type]
            ),
        )
    add_tasks(LineStore(folder), [TaskReport("matmul", TARGET, key, 3.0)])
    return folder


class Parsed(HTMLParser):
    """A page: the texts of the parts with an id, its tables, and whether each element is ended."""

    WITHOUT_END = frozenset(["br", "col", "link", "meta"])

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[tuple[str, str | None]] = []
        self.texts: dict[str, list[str]] = {}
        self.tables: list[list[list[str]]] = []
        self.captions: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()
        assert not self.open, "each element is ended"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.attributes.append((tag, given))
        if tag not in self.WITHOUT_END:
            self.open.append((tag, given.get("id")))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "caption":
            self.captions.append("")

    def handle_endtag(self, tag: str) -> None:
        opened, _ = self.open.pop()
        assert opened == tag, f"<{opened}> is ended by </{tag}>"

    def handle_data(self, text: str) -> None:
        tags = [tag for tag, _ in self.open]
        if ("script" in tags and self.open[-1][1] != "data") or "style" in tags:
            return
        for _, name in self.open:
            if name is not None:
                self.texts.setdefault(name, []).append(text)
        if "caption" in tags:
            self.captions[-1] += text
        elif tags and ("td" in tags or "th" in tags):
            self.tables[-1][-1][-1] += text

    def text(self, name: str) -> str:
        """Return the text of the part with an id."""
        return "".join(self.texts[name])

    def table(self, caption: str) -> list[list[str]]:
        """Return the rows of the table with a caption that begins so."""
        (place,) = [k for k, text in enumerate(self.captions) if text.startswith(caption)]
        return self.tables[place]
