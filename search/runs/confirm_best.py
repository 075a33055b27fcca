"""Interleaved re-measurements of the best candidates of a task.

A search measures each candidate once, at different times, and the best of many was often just
lucky. In interleaved rounds (A B C A B C ...) all candidates run under the same conditions.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from search.builder import Builder
from search.context import TuneContext
from search.database.best_records import usable
from search.database.records import TuningRecord
from search.runner import Runner, RunnerInput, RunnerResult
from search.runner.arguments import ProgramFacts
from search.runner.objective import SECONDS, Objective
from search.runs.measuring import built_inputs, interleaved_rounds, runner_input

_LEAST_ROUNDS: Final = 3
"""The minimum number of rounds, even if the time is over: fewer give no estimate of the
certainty.
"""
_FEWEST_ROUNDS: Final = 5
_MOST_ROUNDS: Final = 15
_ENOUGH: Final = 0.95
_RESAMPLES: Final = 2000


@dataclass(frozen=True)
class Confirmation:
    """A record that was measured again, with its time and the certainty of its rank."""

    record: TuningRecord
    """The record with the times of the rounds, which replace its old ones."""
    median: float
    """Seconds per call."""
    spread: float
    """Half of the distance between the quartiles of the rounds, in seconds."""
    rounds: int
    """The number of measurements."""
    ratio: float
    """The time as a multiple of that of the fastest.

    It compares medians of times relative to their rounds, so a round in which the whole machine
    was slow counts like the others.
    """
    certainty: float
    """The probability that it is the fastest of the measured candidates.

    This is the fraction of 2,000 bootstrap samples of the rounds in which its median is the least.
    """


def confirm_best(
    records: Sequence[TuningRecord],
    builder: Builder,
    runner: Runner,
    context: TuneContext,
    max_seconds: float = 10.0,
) -> list[Confirmation]:
    """Measure the records of a task again in interleaved rounds, and return them fastest first.

    There are 5 to 15 rounds. They end when the fastest is certain (0.95), or with the round in
    which `max_seconds` are over, but after at least three. Records that no longer build or run are
    left out. Results are not checked again. Raises TuningError for a context without a target.
    """
    objective = context.objective
    replayed = list(usable(records, TuningRecord.as_measure_candidate))
    records = [record for record, _ in replayed]
    candidates = [candidate for _, candidate in replayed]
    facts = ProgramFacts.of(context.program, context.has_cold_arguments)
    programs = [(one.mod, runner_input(context, one, facts)) for one in candidates]
    with built_inputs(builder, context.known_target, programs) as contenders:
        rounds = _rounds(contenders, runner, max_seconds, objective)
    return _rank({place: records[place] for place in rounds}, rounds, objective)


def summary(confirmations: Sequence[Confirmation]) -> str:
    """Return a sentence with the fastest and its certainty; `confirmations` begin with it."""
    if not confirmations:
        return "none of the best could be measured again"
    best, *others = confirmations
    time = f"{best.median * 1e6:.4g} us +- {best.spread * 1e6:.2g} us in {best.rounds} rounds"
    if not others:
        return f"the best, measured again, takes {time}"
    second = others[0].ratio / best.ratio
    text = (
        f"the best {len(confirmations)} were measured again, interleaved: the fastest takes "
        f"{time}, the second {second:.3f} times as long"
    )
    close = best.certainty < _ENOUGH
    return f"{text}, which is too close to tell which of the two is faster" if close else text


def _rounds(
    contenders: dict[int, RunnerInput], runner: Runner, max_seconds: float, objective: Objective
) -> dict[int, list[RunnerResult]]:
    """Return the results of each contender in each round, without contenders that failed."""
    end = time.monotonic() + max_seconds
    rounds: dict[int, list[RunnerResult]] = {}
    for number, rounds in enumerate(interleaved_rounds(runner.in_one_place(), contenders), 1):
        is_over = number >= _LEAST_ROUNDS and time.monotonic() >= end
        if not rounds or is_over or number == _MOST_ROUNDS:
            break
        certainties = _winning_probabilities(_relative_times(_table(rounds, objective)))
        if number >= _FEWEST_ROUNDS and certainties.max() >= _ENOUGH:
            break
    return rounds


def _rank(
    records: dict[int, TuningRecord], rounds: dict[int, list[RunnerResult]], objective: Objective
) -> list[Confirmation]:
    if not rounds:
        return []
    low, middle, high = np.quantile(_table(rounds, SECONDS), (0.25, 0.5, 0.75), axis=0)
    relative = _relative_times(_table(rounds, objective))
    kept = {place: _seconds_to_store(results, objective) for place, results in rounds.items()}
    for place, results in rounds.items():
        objective.note(kept[place], results)
    ratios = np.median(relative, axis=0) / np.median(relative, axis=0).min()
    certainties = _winning_probabilities(relative)
    confirmations = [
        Confirmation(
            replace(records[place], run_secs=kept[place]),
            float(middle[column]),
            float(high[column] - low[column]) / 2,
            len(rounds[place]),
            float(ratios[column]),
            float(certainties[column]),
        )
        for column, place in enumerate(rounds)
    ]
    return sorted(confirmations, key=lambda c: c.ratio)


def _table(rounds: dict[int, list[RunnerResult]], objective: Objective) -> NDArray[np.float64]:
    """Return the objective of each result, as an array of [rounds, contenders]."""
    values = [[objective.of_result(result) for result in of_one] for of_one in rounds.values()]
    return np.array(values).T


def _seconds_to_store(rounds: Sequence[RunnerResult], objective: Objective) -> tuple[float, ...]:
    """Return the seconds to store: one of each round, or all if the objective uses all."""
    every = [result.run_secs or () for result in rounds]
    if objective is SECONDS:
        return tuple(SECONDS.value(times) for times in every)
    return tuple(seconds for times in every for seconds in times)


def _relative_times(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the times relative to the median of their rounds."""
    return np.asarray(table / np.median(table, axis=1, keepdims=True))


def _winning_probabilities(relative: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each contender the probability that it is the fastest."""
    rounds, contenders = relative.shape
    chosen = np.random.default_rng(0).integers(0, rounds, (_RESAMPLES, rounds))
    fastest = np.median(relative[chosen], axis=1).argmin(axis=1)
    return np.bincount(fastest, minlength=contenders) / _RESAMPLES
