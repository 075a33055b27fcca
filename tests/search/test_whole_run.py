"""A run of which every part is the user's own: what it takes to write one, and that it is used."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import codegen
import search as ms
from schedule import BlockRV, Schedule, Trace
from schedule.random_state import RandomState
from search.builder import Builder, BuilderInput, BuilderResult
from search.cost_model import CostModel
from search.database import Database, TuningRecord, Workload
from search.measure_callback import MeasureCallback
from search.mutator import Mutator
from search.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from search.schedule_rule import ScheduleRule
from search.space_generator import SpaceGenerator
from tensorir import IRModule, assert_structural_equal
from tests.search.programs import Matmul

TARGET = "llvm -num-cores=1"


class TiledLoops(SpaceGenerator):
    """Applies the rules, whichever they are, to the one block of a program."""

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        sch = Schedule(mod, seed=1)
        spaces = [sch]
        for rule in self.sch_rules:
            spaces = [new for sch in spaces for new in rule.apply(sch, sch.get_block("C", "main"))]
        return spaces


class Tile(ScheduleRule):
    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        i, j, k = sch.get_loops(block)
        i0, i1 = sch.split(i, sch.sample_perfect_tile(i, n=2))
        j0, j1 = sch.split(j, sch.sample_perfect_tile(j, n=2))
        sch.reorder(i0, j0, k, i1, j1)
        return [sch]


class SquareTile(Mutator):
    """Gives both loops the tile of the first."""

    def apply(self, trace: Trace, rand_state: RandomState) -> Trace | None:
        first, second = (inst for inst in trace.insts if inst.kind.name == "SamplePerfectTile")
        if trace.decisions[first] == trace.decisions[second]:
            return None
        return trace.with_decision(second, trace.decisions[first], remove_postproc=True)


class WideTilesFirst(CostModel):
    """Scores by the tile of the second loop, and remembers how many candidates it was shown."""

    def __init__(self) -> None:
        self.shown = 0

    def predict(self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]):
        return np.array([list(c.sch.trace.decisions.values())[1][1] for c in candidates], float)

    def update(self, context, candidates, results) -> None:
        self.shown += len(candidates)

    def save(self, path) -> None:
        Path(path).write_text(str(self.shown))

    def load(self, path) -> None:
        self.shown = int(Path(path).read_text())


class Lists(Database):
    """What a user of TVM's `PyDatabase` writes."""

    def __init__(self) -> None:
        super().__init__()
        self.workloads: list[Workload] = []
        self.kept: list[TuningRecord] = []

    def has_workload(self, mod: IRModule) -> bool:
        return any(self.module_equality.equal(mod, known.mod) for known in self.workloads)

    def commit_workload(self, mod: IRModule) -> Workload:
        if not self.has_workload(mod):
            self.workloads.append(Workload(mod))
        return next(w for w in self.workloads if self.module_equality.equal(mod, w.mod))

    def commit_tuning_record(self, record: TuningRecord) -> None:
        self.kept.append(replace(record))

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        same = self.module_equality.equal
        own = [r for r in self.kept if r.is_valid and same(r.workload.mod, workload.mod)]
        return sorted(own, key=lambda record: record.mean_seconds)[:top_k]

    def get_all_tuning_records(self) -> list[TuningRecord]:
        return list(self.kept)

    def __len__(self) -> int:
        return len(self.kept)


class BuildHere(Builder):
    """Compiles in this process, into files of its own directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.built = 0

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        return [BuilderResult(self._artifact(entry)) for entry in build_inputs]

    def _artifact(self, entry: BuilderInput) -> str:
        self.built += 1
        path = self.folder / f"{self.built}.o"
        path.write_bytes(codegen.compile_object(entry.mod, entry.target))
        return str(path)


class RunHere(Runner):
    """Times one call in this process."""

    def __init__(self) -> None:
        self.ran = 0

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        return [RunnerFuture.ready(self._result(entry)) for entry in runner_inputs]

    def _result(self, entry: RunnerInput) -> RunnerResult:
        self.ran += 1
        module = codegen.Module.from_object(Path(entry.artifact_path).read_bytes())
        arrays = [np.ones(info.shape, info.dtype) for info in entry.args_info]
        start = time.perf_counter()
        module["main"](*arrays)
        return RunnerResult((time.perf_counter() - start,))


class Count(MeasureCallback):
    def __init__(self) -> None:
        self.trials = 0
        self.batches: list[int] = []

    def apply_to_trial(self, *_: object) -> None:
        self.trials += 1

    def apply(self, task_scheduler, task_id, measure_candidates, *_: object) -> None:
        self.batches.append(len(measure_candidates))


def test_every_part_may_be_the_users_own(tmp_path: Path) -> None:
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    model, database, count = WideTilesFirst(), Lists(), Count()
    builder, runner = BuildHere(artifacts), RunHere()
    mutated: list[Trace] = []

    class Watched(SquareTile):
        def apply(self, trace: Trace, rand_state: RandomState) -> Trace | None:
            new = super().apply(trace, rand_state)
            mutated.extend([] if new is None else [new])
            return new

    best = ms.tune_tir(
        Matmul,
        TARGET,
        ms.TuneConfig(12, num_trials_per_iter=4, num_confirmed=0),
        tmp_path,
        space=TiledLoops(sch_rules=[Tile()], postprocs=[], mutator_probs={Watched(): 1.0}),
        cost_model=model,
        database=database,
        builder=builder,
        runner=runner,
        measure_callbacks=[*MeasureCallback.create("default"), count],
        seed=1,
    )

    assert best is not None
    assert [inst.kind.name for inst in best.trace.insts] == [
        "GetBlock",
        "GetLoops",
        *["SamplePerfectTile", "Split"] * 2,
        "Reorder",
        "EnterPostproc",
    ], "of the user's space and rule"
    (fastest,) = database.get_top_k(database.commit_workload(Matmul), 1)
    assert_structural_equal(best.mod, fastest.schedule().mod)
    assert mutated
    assert len(database) == count.trials == sum(count.batches) == model.shown == 12
    assert runner.ran == 12
    assert builder.built == 13, "with the unscheduled program"
    assert [path.name for path in artifacts.iterdir()] == ["1.o"]
    assert (tmp_path / "cost_model.xgb").read_text() == "12"
    tiles = [list(record.trace.decisions.values())[1][1] for record in database.kept]
    assert sum(tiles[:4]) > 4 * 8, "the model chose what to measure first"
