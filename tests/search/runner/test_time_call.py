"""A call is timed long enough to be sure, and no longer."""

import itertools
import math
from collections.abc import Iterator

import pytest

import codegen
from codegen.runtime.timed_loop import Batch
from search.runner.time_call import EvaluatorConfig, first_call_limit, times
from tests.search import programs


class Call:
    """Takes the seconds that it is told, one number for each batch of calls."""

    def __init__(self, *seconds: float) -> None:
        self.seconds: Iterator[float] = itertools.cycle(seconds)
        self.batches: list[int] = []
        self.flushed = 0

    def time(self, number: int) -> Batch:
        self.batches.append(number)
        return Batch(number, number * next(self.seconds), 0)

    def flush_non_first(self) -> None:
        self.flushed += 1


def timed(call: Call, config: EvaluatorConfig, first: float, best: float = math.inf) -> list[float]:
    return times(call, config, first, best)  # type: ignore[arg-type]


def test_a_result_is_the_median_of_twenty_slices() -> None:
    call = Call(1e-3, 1e-3, 1e-3, 1e-3, 5e-3)
    assert timed(call, EvaluatorConfig(min_repeat_ms=80), first=1e-3) == [1e-3]
    assert sum(call.batches) >= 50
    assert call.batches[0] == 4


def test_long_calls_are_made_as_often_as_wanted_and_no_more() -> None:
    call = Call(0.2)
    assert timed(call, EvaluatorConfig(number=3, repeat=2), first=0.2) == [0.2, 0.2]
    assert call.batches == [1] * 6


@pytest.mark.parametrize(("first", "slices"), [(0.5, 0), (0.18, 1), (0.13, 3), (1e-3, 1)])
def test_one_that_is_certainly_slower_is_not_timed_longer(first: float, slices: int) -> None:
    """After n slices, one whose fastest is 1 + 1/n times as slow; a long first call is a slice."""
    call = Call(max(first, 0.13))
    (result,) = timed(call, EvaluatorConfig(number=50), first, best=0.1 if first > 0.1 else 0.05)
    assert result == max(first, 0.13)
    assert len(call.batches) == slices


def test_a_rival_is_timed_longer_while_its_slices_differ() -> None:
    config = EvaluatorConfig(min_repeat_ms=80)
    steady, noisy, slow = Call(1e-3), Call(1e-3, 1.1e-3), Call(1e-3, 1.1e-3)
    timed(steady, config, 1e-3, best=1e-3)
    timed(noisy, config, 1e-3, best=1e-3)
    timed(slow, config, 1e-3, best=0.85e-3)
    assert sum(slow.batches) < 100
    assert sum(noisy.batches) > 1.7 * sum(steady.batches)


def test_a_rival_of_long_calls_that_differ_is_called_once_more_than_twice() -> None:
    config = EvaluatorConfig(number=1, min_repeat_ms=20)
    steady, noisy, slow = Call(0.1), Call(0.13, 0.1), Call(0.15)
    assert timed(steady, config, 0.1, best=0.1) == [0.1]
    assert timed(noisy, config, 0.1, best=0.1) == [0.1]
    assert timed(slow, config, 0.15, best=0.1) == [0.15]
    assert [len(call.batches) for call in (steady, noisy, slow)] == [1, 2, 1]


def test_the_arguments_leave_the_caches_before_each_slice() -> None:
    call = Call(1e-4)
    timed(call, EvaluatorConfig(number=2, min_repeat_ms=1, enable_cpu_cache_flush=True), 1e-4)
    assert call.batches == [2] * 5
    assert call.flushed == 5


def test_a_call_on_cold_arguments_is_timed_alone() -> None:
    call, chilled = Call(1e-4), itertools.count()
    config = EvaluatorConfig(number=3, min_repeat_ms=1)
    assert times(call, config, 1e-4, before=lambda: next(chilled)) == [1e-4]  # type: ignore[arg-type]
    assert call.batches == [1] * 10
    assert next(chilled) == 10


def test_a_flushed_argument_is_read_from_memory_again() -> None:
    module = codegen.build(programs.reads_much, "llvm -num-cores=1")
    call = module["main"].prepare(codegen.empty((1,)), codegen.empty((1 << 18,)))
    config = EvaluatorConfig(number=1, min_repeat_ms=1)
    flushing = EvaluatorConfig(number=1, min_repeat_ms=1, enable_cpu_cache_flush=True)
    call.time(10)
    warm, cold = (min(times(call, c, 0.0)[0] for _ in range(5)) for c in (config, flushing))
    assert cold > warm


def test_the_first_call_of_a_hopeless_candidate_is_limited() -> None:
    assert first_call_limit(None) is None
    assert first_call_limit(1e-5) == 50e-3
    assert first_call_limit(0.1) == 1.0
