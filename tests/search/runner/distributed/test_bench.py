"""A machine answers requests: it builds and measures programs that it gets as texts."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from codegen import Target
from search.arg_info import ArgInfo
from search.runner import EvaluatorConfig, LocalRunner, RunnerInput, RunnerResult
from search.runner.arguments import ProgramFacts
from search.runner.distributed import bench as bench_module
from search.runner.distributed.bench import LocalBench
from search.runner.distributed.messages import MeasureAnswer, MeasureRequest
from search.runner.reference_program import reference_program
from tensorir import workloads
from tensorir.function import IRModule

MATMUL = IRModule({"main": workloads.create("GMM", n=8, m=8, k=8)})
REQUEST = MeasureRequest(
    program=MATMUL.script(),
    target=Target("llvm -num-cores=1"),
    args_info=tuple(ArgInfo.from_entry_func(MATMUL)),
    evaluator=EvaluatorConfig(number=1, min_repeat_ms=1),
    reference=reference_program(MATMUL).script(),
    facts=ProgramFacts.of(MATMUL),
)


@pytest.fixture(scope="module")
def bench() -> Iterator[LocalBench]:
    found = LocalBench(name="here")
    yield found
    found.close()


def answer(bench: LocalBench, request: MeasureRequest) -> MeasureAnswer:
    return MeasureAnswer.from_text(bench.answer(request.as_text(), "tcp://here:1"))


def test_a_program_is_built_checked_and_timed(bench: LocalBench) -> None:
    found = answer(bench, REQUEST)
    assert found.result.error_msg is None
    assert (found.status, found.worker) == ("done", "tcp://here:1")
    assert found.result.machine == f"{bench.machine.host} here"
    assert 0 < (found.result.median_secs or 0) < 1
    assert found.pace is not None
    assert 0 < found.pace < 1
    assert found.result.build_seconds > 0


def test_several_are_answered_at_once(bench: LocalBench) -> None:
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: answer(bench, REQUEST), range(3)))
    assert [one.status for one in found] == ["done"] * 3


def test_candidates_are_ended_by_the_best_of_their_search(
    bench: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = []
    measure = LocalRunner.measure

    def noted(runner: LocalRunner, entry: RunnerInput) -> RunnerResult:
        if entry.reference_path is not None:  # not the reference kernel
            limits.append(entry.best_seconds)
        return measure(runner, entry)

    monkeypatch.setattr(LocalRunner, "measure", noted)
    first = answer(bench, replace(REQUEST, search="a"))
    for search in ("a", "another", ""):
        answer(bench, replace(REQUEST, search=search))
    assert limits == [None, first.result.median_secs, None, None], "the last is to be timed in full"


def test_a_wrong_result_is_a_failure_of_the_candidate(bench: LocalBench) -> None:
    wrong = REQUEST.program.replace("* Y", "+ Y")
    found = answer(bench, replace(REQUEST, program=wrong))
    assert (found.status, found.result.stage) == ("done", "check")
    assert "Wrong result" in str(found.result.error_msg)


def test_a_build_that_takes_too_long_is_a_failure_of_the_candidate(bench: LocalBench) -> None:
    other = IRModule({"main": workloads.create("GMM", n=7, m=7, k=7)}).script()
    found = answer(bench, replace(REQUEST, program=other, reference=None, build_seconds=1e-3))
    assert (found.status, found.result.stage) == ("done", "build")
    assert found.result.ending == "timeout"


def test_what_a_machine_cannot_do_is_no_fault_of_the_candidate(
    bench: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = "aarch64" if bench.machine.architecture == "x86_64" else "x86_64"
    target = Target(f"llvm -mtriple={foreign}-linux-gnu -num-cores=1")
    found = answer(bench, replace(REQUEST, target=target))
    assert found.status == "unable"
    assert f"the code is for {foreign}" in str(found.result.error_msg)

    found = answer(bench, replace(REQUEST, program="def main(: pass"))
    assert found.status == "unable"
    assert "def main(: pass" in str(found.result.error_msg)

    assert MeasureAnswer.from_text(bench.answer("{", "")).result.error_msg is not None

    monkeypatch.setattr(bench_module, "energy_refusal", lambda: "nothing counts it")
    found = answer(bench, replace(REQUEST, evaluator=EvaluatorConfig(energy=True)))
    assert (found.status, found.result.error_msg) == ("unable", "nothing counts it")

    monkeypatch.setattr(bench_module, "_LEAST_SPACE", 1 << 62)
    assert "free some space there" in str(answer(bench, REQUEST).result.error_msg)


def test_c_functions_are_allowed_by_the_search_or_by_the_machine(
    bench: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = REQUEST.program.replace("T.float32(0.0)", 'T.call_extern("float32", "rand")')
    request = replace(REQUEST, program=calls, reference=None)
    found = answer(bench, request)
    assert (found.status, found.result.stage) == ("done", "build")
    assert "calls the C function 'rand'" in str(found.result.error_msg)
    assert "--allow-extern rand" in str(found.result.error_msg)
    assert (
        answer(bench, replace(request, allow_externs=frozenset({"rand"}))).result.error_msg is None
    )
    assert answer(bench, request).result.error_msg is not None
    monkeypatch.setattr(bench._builder, "allow_externs", frozenset({"rand"}))
    assert answer(bench, request).result.error_msg is None


def test_a_program_that_cannot_be_measured_is_no_fault_of_the_candidate(bench: LocalBench) -> None:
    calls = REQUEST.program.replace("T.float32(0.0)", 'T.call_extern("float32", "nobody_has_it")')
    found = answer(bench, replace(REQUEST, reference=calls))
    assert found.status == "program"
    assert "nobody_has_it" in str(found.result.error_msg)
