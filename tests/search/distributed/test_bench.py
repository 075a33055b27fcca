"""A machine answers requests: it builds and measures programs that it gets as texts."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from codegen import Target
from search.arg_info import ArgInfo
from search.distributed import bench as bench_module
from search.distributed.bench import LocalBench
from search.distributed.messages import MeasureAnswer, MeasureRequest
from search.runner import EvaluatorConfig
from search.runner.program_facts import ProgramFacts
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
    assert found.error is None
    assert (found.status, found.worker, found.kind) == (
        "measured",
        "tcp://here:1",
        bench.machine.kind,
    )
    assert found.machine == f"{bench.machine.host} here"
    assert 0 < found.run_secs[0] < 1
    assert found.pace is not None
    assert 0 < found.pace < 1
    assert found.build_seconds > 0


def test_several_are_answered_at_once(bench: LocalBench) -> None:
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: answer(bench, REQUEST), range(3)))
    assert [one.status for one in found] == ["measured"] * 3


def test_a_wrong_result_is_a_failure_of_the_candidate(bench: LocalBench) -> None:
    wrong = REQUEST.program.replace("* Y", "+ Y")
    found = answer(bench, replace(REQUEST, program=wrong))
    assert (found.status, found.stage) == ("failed", "check")
    assert "Wrong result" in str(found.error)


def test_a_build_that_takes_too_long_is_a_failure_of_the_candidate(bench: LocalBench) -> None:
    other = IRModule({"main": workloads.create("GMM", n=7, m=7, k=7)}).script()
    found = answer(bench, replace(REQUEST, program=other, reference=None, build_seconds=1e-3))
    assert (found.status, found.stage, found.ending) == ("failed", "build", "timeout")


def test_what_a_machine_cannot_do_is_no_fault_of_the_candidate(
    bench: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = "aarch64" if bench.machine.architecture == "x86_64" else "x86_64"
    target = Target(f"llvm -mtriple={foreign}-linux-gnu -num-cores=1")
    found = answer(bench, replace(REQUEST, target=target))
    assert found.status == "unable"
    assert f"the code is for {foreign}" in str(found.error)

    found = answer(bench, replace(REQUEST, program="def main(: pass"))
    assert found.status == "unable"
    assert "the program of the request cannot be read" in str(found.error)

    assert MeasureAnswer.from_text(bench.answer("{", "")).error is not None

    monkeypatch.setattr(bench_module, "_LEAST_SPACE", 1 << 62)
    assert "free some space there" in str(answer(bench, REQUEST).error)


def test_energy_is_counted_where_the_machine_can(
    bench: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = replace(REQUEST, evaluator=EvaluatorConfig(number=1, min_repeat_ms=1, energy=True))
    monkeypatch.setattr(bench_module.energy, "why_not", lambda: "nothing counts it")
    assert answer(bench, counted).error == "nothing counts it"
    assert answer(bench, counted).status == "unable"


def test_c_functions_are_allowed_by_the_search_or_by_the_machine(
    bench: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = REQUEST.program.replace("T.float32(0.0)", 'T.call_extern("float32", "rand")')
    request = replace(REQUEST, program=calls, reference=None)
    found = answer(bench, request)
    assert (found.status, found.stage) == ("failed", "build")
    assert "calls the C function 'rand'" in str(found.error)
    assert "--allow-extern rand" in str(found.error)
    assert answer(bench, replace(request, allow_externs=frozenset({"rand"}))).error is None
    assert answer(bench, request).error is not None
    monkeypatch.setattr(bench._builder, "allow_externs", frozenset({"rand"}))
    assert answer(bench, request).error is None


def test_a_program_that_cannot_be_measured_is_no_fault_of_the_candidate(bench: LocalBench) -> None:
    calls = REQUEST.program.replace("T.float32(0.0)", 'T.call_extern("float32", "nobody_has_it")')
    found = answer(bench, replace(REQUEST, reference=calls))
    assert found.status == "program"
    assert "nobody_has_it" in str(found.error)
