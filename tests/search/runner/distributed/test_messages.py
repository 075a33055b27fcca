"""Requests and answers are texts of JSON, of which every field is looked at."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from codegen import Target
from search.arg_info import ArgInfo
from search.errors import TuningError
from search.runner import EvaluatorConfig, RunnerResult
from search.runner.argument_values import Values
from search.runner.arguments import ProgramFacts
from search.runner.distributed.connection import Machine
from search.runner.distributed.messages import MeasureAnswer, MeasureRequest, packed_arrays

REQUEST = MeasureRequest(
    program="a program",
    target=Target("llvm -mcpu=znver3 -num-cores=2"),
    args_info=(ArgInfo("float32", (2, 3)),),
    evaluator=EvaluatorConfig(number=2, repeat=3),
    best_seconds=1e-6,
    reference="its reference",
    facts=ProgramFacts(True, 1e-5, {0: Values(0, 7, (1,))}),
    allow_externs=frozenset({"sleep"}),
    input_data={0: np.arange(6, dtype=np.int32).reshape(2, 3)},
)
RESULT = RunnerResult((1e-6,), machine="host a", joules=2e-3)
ANSWER = MeasureAnswer("done", RESULT, "tcp://a:1", pace=1e-4)


def test_a_request_is_read_as_it_was_written() -> None:
    again = MeasureRequest.from_text(REQUEST.as_text(), packed_arrays(REQUEST.input_data))
    assert again == REQUEST
    assert (again.input_data[0] == REQUEST.input_data[0]).all()


def test_an_answer_is_read_as_it_was_written() -> None:
    assert MeasureAnswer.from_text(ANSWER.as_text()) == ANSWER
    failed = MeasureAnswer("done", RunnerResult(error_msg="crash", ending="crash"))
    assert MeasureAnswer.from_text(failed.as_text()) == failed


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("allow_externs", "system", "allow_externs = "),
        ("program", 3, "program = 3"),
        ("target", {"kind": "llvm", "mcpu": 7}, "target = {"),
        ("target", "llvm", "target = 'llvm': expected dict"),
        ("args_info", [["TENSOR", "float32", [-1.5]]], "args_info = "),
        (
            "evaluator",
            {"number": 0},
            "evaluator = {'number': 0}: EvaluatorConfig needs number >= 1",
        ),
        ("run_seconds", 1e9, "run_seconds = 1000000000.0"),
        ("run_seconds", float("nan"), "run_seconds = nan"),
        ("best_seconds", "soon", "best_seconds = 'soon'"),
        ("facts", {"values": {"0": {}}}, "facts = "),
    ],
)
def test_a_request_with_a_wrong_field_names_it(field: str, value: Any, text: str) -> None:
    obj = {**json.loads(REQUEST.as_text()), field: value}
    with pytest.raises(TuningError) as found:
        MeasureRequest.from_text(json.dumps(obj))
    assert text in str(found.value)


@pytest.mark.parametrize(
    ("archive", "text"),
    [
        (packed_arrays({0: np.array([print], dtype=object)}), "Object arrays cannot be loaded"),
        (packed_arrays({0: np.arange(9)})[:-9], "cannot be read"),
        (b"no archive", "cannot be read"),
    ],
    ids=["objects would be unpickled", "cut short", "no archive"],
)
def test_arrays_that_cannot_be_read_are_refused(archive: bytes, text: str) -> None:
    with pytest.raises(TuningError, match=f"the input data of the request .*{text}"):
        MeasureRequest.from_text(REQUEST.as_text(), archive)


@pytest.mark.parametrize("text", ["", "[]", REQUEST.as_text()[:-9], None, 7, b"{}"])
def test_half_a_message_is_an_error(text: Any) -> None:
    for read in (MeasureRequest.from_text, MeasureAnswer.from_text):
        with pytest.raises(TuningError, match="is not"):
            read(text)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("status", "won"),
        ("pace", "fast"),
        ("worker", None),
        ("result", {"run_secs": [-1]}),
        ("result", {"stage": []}),
    ],
)
def test_an_answer_with_a_wrong_field_names_it(field: str, value: Any) -> None:
    with pytest.raises(TuningError, match=f"the answer has {field} = "):
        MeasureAnswer.from_text(json.dumps({**json.loads(ANSWER.as_text()), field: value}))


def test_a_machine_is_read_as_it_describes_itself() -> None:
    machine = Machine.this()
    assert Machine.from_json(json.loads(json.dumps(machine.as_json()))) == machine
    for field, value in (("cores", "many"), ("caches", [1, "2"]), ("cpu", None)):
        with pytest.raises(TuningError, match=f"the description of a machine has {field} = "):
            Machine.from_json({**machine.as_json(), field: value})
    with pytest.raises(TuningError, match="the description of a machine is not a JSON object"):
        Machine.from_json(None)


def test_the_kind_tells_machines_apart_whose_times_differ() -> None:
    machine = Machine.this()
    assert replace(machine, host="another", cores=99).kind == machine.kind
    assert replace(machine, caches=(1, 2, 3)).kind != machine.kind
    assert replace(machine, identity="another model").kind != machine.kind
    assert replace(machine, features=(*machine.features, "told by a new kernel")).kind == (
        machine.kind
    )


def test_a_machine_says_which_targets_it_measures_for() -> None:
    machine = replace(Machine.this(), cores=2)
    assert machine.why_not(Target("llvm -num-cores=2")) is None
    assert machine.why_not(Target("llvm -num-cores=4")) == "it has 2 cores"
    other = replace(machine, cpu="znver1", caches=(1, 2, 3))
    assert "has no CPU model and therefore means this machine" in str(
        other.why_not(Target("llvm -num-cores=1"))
    )
    if machine.architecture == "x86_64":
        old = replace(machine, features=("sse", "sse2"))
        assert "its CPU has no " in str(old.why_not(Target("llvm -mcpu=x86-64-v3 -num-cores=1")))
        assert old.why_not(Target("llvm -mcpu=x86-64 -num-cores=1")) is None
