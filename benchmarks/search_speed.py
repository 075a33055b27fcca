"""Count the candidates that a search breeds and scores in a second: `make bench-search`.

    python -m benchmarks.search_speed MM128 C2D --populations 64 1000 10000

A population of random points and one generation of its children are scored by the default cost
model, trained on a few programs with made-up times: how good its scores are makes no difference to
how long they take. The first population of a workload also pays for what the model finds out once
about its design spaces. Nothing is built or run. Times are processor time of one core.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass

import search as ms
from benchmarks.matmul import TARGET
from benchmarks.suite_programs import program
from schedule.random_state import RandomState
from search.cost_model import CostModel, XGBModel
from search.runner import RunnerResult
from search.search_strategy.breeding import Breeding
from search.search_strategy.evolution import Evolution, Scoring
from search.search_strategy.individual import Individual
from search.search_strategy.trace_application import TraceApplication
from search.space_generator.design_space import DesignSpace

TRAINED_ON = 32
MOST_REPLAYED = 200
"""So many programs are made in a generation where the model wants them; the rest is left out."""


@dataclass(frozen=True)
class Speed:
    """The number of candidates, and the seconds for them."""

    candidates: int
    seconds: float
    replayed: int
    """Of how many the model wanted the programs."""

    def __str__(self) -> str:
        rate = self.candidates / self.seconds
        took = f"{self.candidates} in {self.seconds:.2f} s, {self.replayed} of them replayed"
        return f"{rate:8.0f} candidates/s  ({took})"


class Task:
    """A workload with its design spaces and a trained model."""

    def __init__(self, name: str) -> None:
        self.context = ms.TuneContext(
            program(name).mod,
            target=TARGET,
            space_generator="post-order-apply",
            rand_state=1,
            num_threads=1,
        )
        spaces = [
            DesignSpace.of(sch, k, self.context.mod)
            for k, sch in enumerate(self.context.generate_design_space())
        ]
        application = TraceApplication(self.context)
        self.breeding = Breeding(self.context, spaces, application, RandomState(1))
        self.model: CostModel = XGBModel(num_tuning_cores=1)
        self.scoring = Scoring(self.context, self.model, self.breeding)
        self._train()

    def _train(self) -> None:
        candidates = [
            self.breeding.candidate(x) for x in self._points(TRAINED_ON) if self.breeding.replay(x)
        ]
        times = [1e-3 * (1 + k % 7) for k in range(len(candidates))]
        results = [RunnerResult(run_secs=(seconds,)) for seconds in times]
        self.model.update(self.context, candidates, results)

    def speed(self, population: int) -> Speed:
        """Score a random population and its children."""
        evolution = Evolution(
            self.breeding,
            self.scoring,
            set(),
            RandomState(1),
            mutate_prob=0.85,
            max_fail_count=10,
            exploration=1.0,
        )
        start = time.process_time()
        first = self._points(population)
        pool = evolution.run(first, 1, population, MOST_REPLAYED, lambda _: None)
        seconds = time.process_time() - start
        replayed = sum(x.sch is not None for x in pool)
        return Speed(len(pool), seconds, replayed)

    def _points(self, count: int) -> list[Individual]:
        drawn = [self.breeding.sample() for _ in range(count)]
        return [individual for individual in drawn if individual is not None]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", default=["MM128", "C2D"])
    parser.add_argument("--populations", nargs="+", type=int, default=[64, 1000, 10000])
    options = parser.parse_args(arguments)
    for name in options.workloads:
        task = Task(name)
        print(f"{name:8}  first: {task.speed(64)}", flush=True)
        for population in options.populations:
            print(f"{name:8} {population:6}: {task.speed(population)}", flush=True)


if __name__ == "__main__":
    main()
