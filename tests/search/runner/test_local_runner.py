"""Measuring: the failure of a candidate is its result."""

from collections.abc import Iterator

import pytest

from codegen import Target
from search.arg_info import ArgInfo
from search.builder import BuilderInput, LocalBuilder
from search.runner import EvaluatorConfig, LocalRunner, RunnerInput, RunnerResult
from tensorir.function import IRModule, PrimFunc
from tests.search import programs

TARGET = Target("llvm -num-cores=1")
QUICK = EvaluatorConfig(number=1, repeat=2, min_repeat_ms=1)


@pytest.fixture(scope="module")
def builder() -> Iterator[LocalBuilder]:
    builder = LocalBuilder(max_workers=1, timeout_sec=30, allow_externs=["abort", "sleep"])
    yield builder
    builder.close()


@pytest.fixture(scope="module")
def runner() -> Iterator[LocalRunner]:
    runner = LocalRunner(timeout_sec=2.0, evaluator_config=QUICK)
    yield runner
    runner.close()


def built(builder: LocalBuilder, func: PrimFunc | IRModule) -> str:
    mod = func if isinstance(func, IRModule) else IRModule({"main": func})
    (result,) = builder.build([BuilderInput(mod, TARGET)])
    assert result.error_msg is None, result.error_msg
    assert result.artifact_path is not None
    return result.artifact_path


def run(runner: LocalRunner, path: str, func: PrimFunc, reference: str | None) -> RunnerResult:
    entry = RunnerInput(path, "llvm", ArgInfo.from_prim_func(func), reference)
    (future,) = runner.run([entry])
    return future.result()


def test_a_candidate_is_timed(builder: LocalBuilder, runner: LocalRunner) -> None:
    path = built(builder, programs.adds_one)
    result = run(runner, path, programs.adds_one, reference=path)
    assert result.error_msg is None
    assert result.run_secs is not None
    assert len(result.run_secs) == QUICK.repeat
    assert all(0 < seconds < 1e-3 for seconds in result.run_secs)


def test_a_wrong_result_is_an_error(builder: LocalBuilder, runner: LocalRunner) -> None:
    result = run(
        runner,
        built(builder, programs.adds_two),
        programs.adds_two,
        reference=built(builder, programs.adds_one),
    )
    assert result.run_secs is None
    assert result.stage == "check"
    assert str(result.error_msg).startswith(
        "LocalRunner: Wrong result, argument 1 (B) is wrong in 4 of 4 elements, first at [0]: "
    )


def test_a_crash_is_an_error_and_the_next_candidate_runs(
    builder: LocalBuilder, runner: LocalRunner
) -> None:
    crash = run(runner, built(builder, programs.aborts), programs.aborts, None)
    assert str(crash.error_msg).startswith(
        "LocalRunner: Crash of the candidate, the worker process was ended by SIGABRT"
    )
    path = built(builder, programs.adds_one)
    assert run(runner, path, programs.adds_one, path).run_secs


def test_a_hang_is_an_error(builder: LocalBuilder, runner: LocalRunner) -> None:
    hang = run(runner, built(builder, programs.hangs), programs.hangs, None)
    assert hang.error_msg == "LocalRunner: Timeout of the candidate, killed after 2 seconds"
    assert hang.seconds >= 2


def test_a_candidate_that_cannot_win_is_stopped_in_its_first_call(
    builder: LocalBuilder, runner: LocalRunner
) -> None:
    slow = programs.computes_for_minutes
    path = built(builder, slow)
    entry = RunnerInput(path, "llvm", ArgInfo.from_prim_func(slow), best_seconds=0.01)
    (future,) = runner.run([entry])
    stopped = future.result()
    assert (stopped.stopped, stopped.run_secs, stopped.error_msg) == (True, (0.1,), None)
    good = built(builder, programs.adds_one)
    assert run(runner, good, programs.adds_one, good).run_secs


def test_an_unscheduled_program_that_fails_is_said_to(
    builder: LocalBuilder, runner: LocalRunner
) -> None:
    candidate, reference = built(builder, programs.adds_one), built(builder, programs.aborts)
    result = run(runner, candidate, programs.adds_one, reference)
    assert str(result.error_msg).startswith("LocalRunner: Crash of the unscheduled program, ")


def test_a_function_of_the_user_measures(builder: LocalBuilder) -> None:
    path = built(builder, programs.adds_one)
    runner = LocalRunner(f_run_evaluator=lambda module, device, config, arguments: [0.25])
    assert run(runner, path, programs.adds_one, None).run_secs == (0.25,)
    runner.close()


def test_a_candidate_is_measured_when_its_result_is_asked_for(
    builder: LocalBuilder, runner: LocalRunner
) -> None:
    path = built(builder, programs.adds_one)
    first, second = runner.run(
        [RunnerInput(path, "llvm", ArgInfo.from_prim_func(programs.adds_one))] * 2
    )
    assert not first.done()
    assert first.result().run_secs
    assert first.done()
    assert not second.done()


@pytest.mark.parametrize("times", [(), (0.0,), (1e-3, float("nan")), (float("inf"),), (-1.0,)])
def test_times_that_no_program_has_are_a_failure(times: tuple[float, ...]) -> None:
    result = RunnerResult(run_secs=times)
    assert result.median_secs is None
    assert "times are finite and above 0" in str(result.checked().error_msg)
