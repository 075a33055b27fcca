"""How well cost models rank candidates: of a workload that they never saw, and after 32 of its own.

    python -m benchmarks.ranking                          # measures 11 operators for some minutes
    python -m benchmarks.ranking out MM128 C2D SFM        # three of them, kept in the folder `out`
    python -m benchmarks.ranking avx2 --target "llvm -mcpu=znver3 -num-cores=1"

Random candidates of each program are timed in turns and kept as databases in the folder; what is
there already is not timed again. Printed are for each model and program

* the share of the pairs of candidates whose times differ by 5 % or more that are in the right
  order, and
* the time of the best of all relative to that of the best of the model's first five picks,

once trained on all other workloads ("unseen"), and once on 32 candidates of the workload too, asked
about the rest ("own 32"). "estimate" is what is known of candidates before any is measured, and
`--estimate` prints that alone.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

import codegen
import search as ms
from benchmarks.matmul import TARGET
from benchmarks.suite_programs import program
from search.builder import Builder, BuilderInput, BuilderResult
from search.cost_model import CostModel, RandomModel, XGBModel
from search.cost_model.tree_ensemble import pairwise_accuracy
from search.database import JSONDatabase
from search.feature_extractor import FeatureExtractor, PackedFeatures
from search.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from search.runner.measure_candidate import MeasureCandidate

NAMES = ("MM128", "C2D", "C1D", "DEP", "DIL", "GRP", "T2D", "CBR", "TBG", "NRM", "SFM")
OWN = 32
PICKS = 5
SEED = 11
TIMES = "seconds.npy"
LEAST_TURNS, MOST_TURNS = 4, 20
TURN_SECONDS = 2e-4
ENOUGH_SECONDS = 0.05
UNTRAINED = 1 << 40
"""More measurements than there are: a model that waits for so many says what it began with."""

Make: TypeAlias = Callable[[int], CostModel]
"""Makes a model that trains once it was shown so many measurements."""


@dataclass(frozen=True, eq=False)
class Measured:
    """Candidates of a workload and the time in seconds of each."""

    context: ms.TuneContext
    candidates: Sequence[MeasureCandidate]
    seconds: NDArray[np.float64]

    def some(self, places: Sequence[int] | NDArray[np.intp]) -> Measured:
        return Measured(
            self.context, [self.candidates[k] for k in places], self.seconds[np.array(places)]
        )


class Remembered(FeatureExtractor):
    """Another extractor, asked once about each candidate."""

    def __init__(self, extractor: str) -> None:
        self.extractor = FeatureExtractor.create(extractor)
        self.estimates = self.extractor.estimates  # type: ignore[misc]
        self.rows: dict[MeasureCandidate, NDArray[np.float64]] = {}

    def extract_from(
        self, context: ms.TuneContext, candidates: Sequence[MeasureCandidate]
    ) -> list[NDArray[np.float64]]:
        new = [c for c in candidates if c not in self.rows]
        self.rows.update(zip(new, self.extractor.extract_from(context, new), strict=True))
        return [self.rows[c] for c in candidates]

    def estimate(self, packed: PackedFeatures) -> NDArray[np.float64]:
        return self.extractor.estimate(packed)


class NoBuilder(Builder):
    """Builds nothing: candidates are only drawn."""

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        return [BuilderResult("nowhere") for _ in build_inputs]


class NoRunner(Runner):
    """Says of every candidate that it takes a second."""

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        return [RunnerFuture.ready(RunnerResult((1.0,))) for _ in runner_inputs]


def collect(folder: Path, names: Sequence[str], count: int, target: str) -> None:
    """Draw `count` random candidates of each workload that the folder does not have; time them."""
    for name in names:
        if not (folder / name).exists():
            ms.tune_tir(
                program(name).func,
                target,
                ms.TuneConfig(max_trials_global=count, strategy="replay-trace", num_confirmed=0),
                work_dir=folder / name,
                builder=NoBuilder(),
                runner=NoRunner(),
                cost_model="random",
                seed=SEED,
            )
        if not (folder / name / TIMES).exists():
            start = time.perf_counter()
            np.save(folder / name / TIMES, seconds_in_turns(*candidates_of(folder / name)))
            print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)


def candidates_of(folder: Path) -> tuple[ms.TuneContext, list[MeasureCandidate]]:
    """Replay the database of a workload; return its task and its candidates."""
    records = JSONDatabase(work_dir=folder).get_all_tuning_records()
    last = {json.dumps(record.trace.as_json()): record for record in records}
    context = ms.TuneContext(records[0].workload.mod, target=records[0].target)
    return context, [record.as_measure_candidate() for record in last.values()]


def seconds_in_turns(
    context: ms.TuneContext, candidates: Sequence[MeasureCandidate]
) -> NDArray[np.float64]:
    """Time candidates side by side: the least of several short turns of each [candidates].

    Counted is the time that the core worked for this thread, not what it did for others meanwhile.
    """
    rng = np.random.default_rng(SEED)
    assert context.mod is not None
    func = context.mod.prim_func("main")
    arguments = [
        codegen.array(rng.random(tuple(int(n) for n in func.buffer_map[p].shape), np.float32))  # type: ignore[call-overload]
        for p in func.params
    ]
    modules = [codegen.build(candidate.measured_mod, context.target) for candidate in candidates]
    calls = [module["main"].prepare(*arguments) for module in modules]
    best = np.full(len(calls), np.inf)
    spent = np.zeros(len(calls))
    for turn in range(MOST_TURNS):
        for k, call in enumerate(calls):
            if turn >= LEAST_TURNS and spent[k] > ENOUGH_SECONDS:
                continue
            if turn == 0:
                call()
            number = max(1, int(TURN_SECONDS / best[k]))
            before = time.thread_time_ns()
            batch = call.time(number)
            used = min(batch.seconds, (time.thread_time_ns() - before) * 1e-9)
            best[k] = min(best[k], used / batch.runs)
            spent[k] += batch.seconds
    return best


def measured(folder: Path, name: str) -> Measured:
    """Return the candidates of a workload, and what was measured."""
    context, candidates = candidates_of(folder / name)
    return Measured(context, candidates, np.load(folder / name / TIMES))


def quality(model: CostModel, data: Measured) -> tuple[float, float]:
    """Return the share of the pairs in the right order, and how good the first picks are."""
    scores = model.predict(data.context, data.candidates)
    picked = np.argsort(-scores, kind="stable")[:PICKS]
    return (
        pairwise_accuracy(scores, np.log(data.seconds)),
        float(data.seconds.min() / data.seconds[picked].min()),
    )


def report(folder: Path, names: Sequence[str], only_estimate: bool) -> None:
    """Print the table of all models, or of the estimate."""
    data = {name: measured(folder, name) for name in names}
    extractors = {kind: Remembered(kind) for kind in ("nest-feature", "per-store-feature")}
    models: dict[str, Make] = {"estimate": lambda _: _model(extractors["nest-feature"], UNTRAINED)}
    if not only_estimate:
        models |= {
            f"xgb, {kind}": partial(_model, extractor) for kind, extractor in extractors.items()
        }
        models["random"] = lambda _: RandomModel(seed=SEED)
    for title, make in models.items():
        print(f"\n{title}\n{'':8}{'unseen':>16}{f'own {OWN}':>16}")
        rows = []
        for name in names:
            rows.append((*unseen(make, data, name), *own(make, data, name)))
            print(_line(name, rows[-1]), flush=True)
        print(_line("mean", np.mean(rows, axis=0)))


def _model(extractor: FeatureExtractor, count: int) -> CostModel:
    return XGBModel(extractor=extractor, num_warmup_samples=count)


def unseen(make: Make, data: dict[str, Measured], name: str) -> tuple[float, float]:
    """Train a model on all workloads but one and ask it about that one."""
    return quality(trained(make, [d for n, d in data.items() if n != name]), data[name])


def own(make: Make, data: dict[str, Measured], name: str) -> tuple[float, float]:
    """Train a model on all other workloads and some candidates of one; ask it about the rest."""
    order = np.random.default_rng(SEED).permutation(len(data[name].candidates))
    some = min(OWN, len(order) // 2)
    parts = {**data, name: data[name].some(order[:some])}
    return quality(trained(make, list(parts.values())), data[name].some(order[some:]))


def trained(make: Make, parts: Sequence[Measured]) -> CostModel:
    """Return a model that was shown all parts and trained once."""
    model = make(sum(len(part.candidates) for part in parts))
    for part in parts:
        results = [RunnerResult(run_secs=(float(seconds),)) for seconds in part.seconds]
        model.update(part.context, part.candidates, results)
    return model


def _line(name: str, values: Sequence[float] | NDArray[np.float64]) -> str:
    pairs, best, own_pairs, own_best = values
    return f"{name:8}{pairs:9.1%}{best:7.2f}{own_pairs:9.1%}{own_best:7.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("ranking_out"))
    parser.add_argument("names", nargs="*", default=NAMES, help="programs of the suite")
    parser.add_argument("--count", type=int, default=96, help="candidates of each program")
    parser.add_argument("--target", default=TARGET, help="what the candidates are compiled for")
    parser.add_argument("--estimate", action="store_true", help="print the estimate alone")
    options = parser.parse_args()
    collect(options.folder, options.names, options.count, options.target)
    report(options.folder, options.names, options.estimate)


if __name__ == "__main__":
    main()
