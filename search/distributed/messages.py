"""What travels between a search and a machine that measures: texts of JSON, read with care.

Another release may send what this one does not know, which is an error that names the field.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from codegen import Target
from search.arg_info import ArgInfo
from search.builder.externs import checked_names
from search.distributed.read_fields import (
    Read,
    exactly,
    number,
    one_of,
    optional,
    read_fields,
    tuple_of,
)
from search.runner.argument_values import Values
from search.runner.program_facts import ProgramFacts
from search.runner.time_call import EvaluatorConfig
from search.workers.worker import Ending

Status = Literal["measured", "failed", "unable", "program"]
"""How a request ended.

The candidate was measured; it failed; the machine cannot measure it, which is no fault of the
candidate; or the unscheduled program itself cannot be measured.
"""
Stage = Literal["build", "run", "check"]

LONGEST: Final = 3600.0
"""The most seconds that a request may ask a machine to grant to anything."""


@dataclass(frozen=True)
class MeasureRequest:
    """A candidate to build and to measure; programs are texts of scripts."""

    program: str
    target: Target
    args_info: tuple[ArgInfo, ...]
    evaluator: EvaluatorConfig
    alloc_repeat: int = 1
    build_seconds: float = 15.0
    """How long building may take."""
    run_seconds: float = 30.0
    """How long measuring may take altogether."""
    best_seconds: float | None = None
    reference: str | None = None
    """The unscheduled program, whose results the candidate's are compared with."""
    facts: ProgramFacts = field(default_factory=ProgramFacts)
    allow_externs: frozenset[str] = frozenset()
    """The C functions that programs may call, beside those that the machine allows."""
    input_data: Mapping[int, NDArray[Any]] = field(default_factory=dict, compare=False)

    def with_best(self, seconds: float | None) -> MeasureRequest:
        """Return the request with the best time that is known by now."""
        return replace(self, best_seconds=seconds)

    def as_text(self) -> str:
        """Return what `from_text` reads."""
        return json.dumps(vars(self), default=_plain)

    @staticmethod
    def from_text(text: object) -> MeasureRequest:
        """Return the request that a text holds; TuningError names the field at fault."""
        return MeasureRequest(**read_fields("request", text, _REQUEST))


@dataclass(frozen=True)
class MeasureAnswer:
    """How a request ended, and where."""

    status: Status
    machine: str = ""
    """The machine and the name of its worker: a time is one of this machine."""
    worker: str = ""
    """The address of its worker."""
    kind: str = ""
    run_secs: tuple[float, ...] = ()
    error: str | None = None
    stage: Stage = "run"
    stopped: bool = False
    build_seconds: float = 0.0
    seconds: float = 0.0
    """The wall time that measuring took."""
    ending: Ending = "value"
    joules: float | None = None
    """The energy of a call, where the evaluator of the request counts it."""
    pace: float | None = None
    """The seconds of the reference kernel on this machine, now or lately."""

    def as_text(self) -> str:
        """Return what `from_text` reads."""
        return json.dumps(vars(self))

    @staticmethod
    def from_text(text: object) -> MeasureAnswer:
        """Return the answer that a text holds; TuningError for anything else."""
        return MeasureAnswer(**read_fields("answer", text, _ANSWER))


def _plain(value: Any) -> Any:
    """Return a part of a request as JSON."""
    if isinstance(value, np.ndarray):
        file = io.BytesIO()
        np.save(file, value)
        return base64.b64encode(file.getvalue()).decode("ascii")
    if isinstance(value, Target):
        return value.export()
    if isinstance(value, ArgInfo):
        return value.as_json()
    return sorted(value) if isinstance(value, frozenset) else vars(value)


def _array(text: str) -> NDArray[Any]:
    data = io.BytesIO(base64.b64decode(text, validate=True))
    return np.load(data, allow_pickle=False)  # type: ignore[no-any-return]


def _facts(value: Any) -> ProgramFacts:
    values = {
        int(place): Values(
            int(entry["low"]), int(entry["high"]), tuple(map(int, entry["distinct"]))
        )
        for place, entry in value["values"].items()
    }
    return ProgramFacts(bool(value["integers_are_data"]), float(value["rounding"]), values)


_REQUEST: Final[Mapping[str, Read]] = {
    "program": exactly(str),
    "target": lambda value: Target(exactly(dict)(value)),
    "args_info": tuple_of(ArgInfo.from_json),
    "evaluator": lambda value: EvaluatorConfig(**value),
    "alloc_repeat": number(1, 1000, int),
    "build_seconds": number(0, LONGEST),
    "run_seconds": number(0, LONGEST),
    "best_seconds": optional(number()),
    "reference": optional(exactly(str)),
    "facts": _facts,
    "allow_externs": checked_names,
    "input_data": lambda value: {int(place): _array(text) for place, text in value.items()},
}
_ANSWER: Final[Mapping[str, Read]] = {
    "status": one_of(get_args(Status)),
    "machine": exactly(str),
    "worker": exactly(str),
    "kind": exactly(str),
    "run_secs": tuple_of(number()),
    "error": optional(exactly(str)),
    "stage": one_of(get_args(Stage)),
    "stopped": exactly(bool),
    "build_seconds": number(),
    "seconds": number(),
    "ending": one_of(get_args(Ending)),
    "joules": optional(number()),
    "pace": optional(number()),
}
