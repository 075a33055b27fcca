"""The best candidates of a task measured again, in turns.

In a search each candidate is measured once, at its own time, and the best of many is often one that
was lucky. Measured in turns (A B C A B C ...), all of them meet the same machine.
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
from search.runner.objective import SECONDS, Objective
from search.runner.program_facts import ProgramFacts
from search.runs.built_entries import built_entries

_LEAST_ROUNDS: Final = 3
"""However little time there is: fewer say nothing of how certain the result is."""
_FEWEST_ROUNDS: Final = 5
_MOST_ROUNDS: Final = 15
_ENOUGH: Final = 0.95
_RESAMPLES: Final = 2000


@dataclass(frozen=True)
class Confirmation:
    """A record that was measured again: what the rounds gave, and how sure its rank is."""

    record: TuningRecord
    """The record, with one time for each round in place of those that it had."""
    median: float
    """Seconds per call."""
    spread: float
    """Half of the distance between the quartiles of the rounds, in seconds."""
    rounds: int
    """How often it was measured again."""
    ratio: float
    """The factor to the fastest: 1 for the fastest, whose runner-up is the second.

    Compared are medians of times relative to their rounds: a round in which the whole machine was
    slow counts like the others.
    """
    certainty: float
    """Probability that it is the fastest of those that were measured.

    It is the share of 2,000 random choices of as many rounds, repetitions allowed (the bootstrap),
    in which that median is the least.
    """


def confirm_best(
    records: Sequence[TuningRecord],
    builder: Builder,
    runner: Runner,
    context: TuneContext,
    max_seconds: float = 10.0,
) -> list[Confirmation]:
    """Measure the records of a task again, in turns, and return them fastest first.

    There are 5 to 15 rounds: they end when one is the fastest with a certainty of 0.95, or, after
    three at the least, at the end of the round in which `max_seconds` are over. Records that cannot
    be built or run any more are left out. Results are not checked again. TuningError for a context
    without a target.
    """
    objective = context.objective
    replayed = list(usable(records, TuningRecord.as_measure_candidate))
    records = [record for record, _ in replayed]
    candidates = [candidate for _, candidate in replayed]
    facts = None if context.mod is None else ProgramFacts.of(context.mod)
    with built_entries(builder, context, candidates, facts) as contenders:
        rounds = _rounds(contenders, runner, max_seconds, objective)
    return _ranked({place: records[place] for place in rounds}, rounds, objective)


def summary(confirmations: Sequence[Confirmation]) -> str:
    """Return in a sentence which is the fastest and how sure that is; fastest come first."""
    if not confirmations:
        return "none of the best could be measured again"
    best, *others = confirmations
    time = f"{best.median * 1e6:.4g} us +- {best.spread * 1e6:.2g} us in {best.rounds} rounds"
    if not others:
        return f"the best, measured again, takes {time}"
    second = others[0].ratio / best.ratio
    text = (
        f"the best {len(confirmations)} were measured again in turns: the fastest takes {time}, "
        f"the second {second:.3f} times as long"
    )
    close = best.certainty < _ENOUGH
    return f"{text}, which is too close to tell which of the two is faster" if close else text


def _rounds(
    contenders: dict[int, RunnerInput], runner: Runner, max_seconds: float, objective: Objective
) -> dict[int, list[RunnerResult]]:
    """Return the results of each contender in each round, without those that failed in one."""
    rounds: dict[int, list[RunnerResult]] = {place: [] for place in contenders}
    runner = runner.in_one_place()
    end = time.monotonic() + max_seconds
    for number in range(1, _MOST_ROUNDS + 1):
        for place in list(rounds):
            (future,) = runner.run([contenders[place]])
            found = future.result()
            if found.median_secs is None:
                del rounds[place]
            else:
                rounds[place].append(found)
        if not rounds or (number >= _LEAST_ROUNDS and time.monotonic() >= end):
            break
        if number < _FEWEST_ROUNDS:
            continue
        if _certainties(_relative(_table(rounds, objective))).max() >= _ENOUGH:
            break
    return rounds


def _ranked(
    records: dict[int, TuningRecord], rounds: dict[int, list[RunnerResult]], objective: Objective
) -> list[Confirmation]:
    if not rounds:
        return []
    low, middle, high = np.quantile(_table(rounds, SECONDS), (0.25, 0.5, 0.75), axis=0)
    relative = _relative(_table(rounds, objective))
    kept = {place: _kept(results, objective) for place, results in rounds.items()}
    for place, results in rounds.items():
        objective.note(kept[place], results)
    ratios = np.median(relative, axis=0) / np.median(relative, axis=0).min()
    certainties = _certainties(relative)
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
    """Return what the objective makes of the results, as an array of [rounds, contenders]."""
    values = [[objective.of_result(result) for result in of_one] for of_one in rounds.values()]
    return np.array(values).T


def _kept(rounds: Sequence[RunnerResult], objective: Objective) -> tuple[float, ...]:
    """Return the seconds to be stored: one of each round, or all for an objective of all."""
    every = [result.run_secs or () for result in rounds]
    if objective is SECONDS:
        return tuple(SECONDS.value(times) for times in every)
    return tuple(seconds for times in every for seconds in times)


def _relative(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the times relative to the middle one of their rounds."""
    return np.asarray(table / np.median(table, axis=1, keepdims=True))


def _certainties(relative: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each contender the probability that it is the fastest."""
    rounds, contenders = relative.shape
    chosen = np.random.default_rng(0).integers(0, rounds, (_RESAMPLES, rounds))
    fastest = np.median(relative[chosen], axis=1).argmin(axis=1)
    return np.bincount(fastest, minlength=contenders) / _RESAMPLES
