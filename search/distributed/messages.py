"""What travels between a search and a machine that measures: texts of JSON, read with care.

Nothing that is read here is executed but the program, which the machine compiles and runs in a
process that it may lose.
"""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from codegen import Target, TargetError
from search.arg_info import ArgInfo
from search.builder.externs import checked_names
from search.database.growing_file import is_number
from search.errors import TuningError
from search.runner.argument_values import Values
from search.runner.program_facts import ProgramFacts
from search.runner.time_call import EvaluatorConfig
from search.workers.worker import Ending
from tensorir.errors import TensorIRError

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
        return json.dumps(
            {
                "program": self.program,
                "target": self.target.export(),
                "args_info": [info.as_json() for info in self.args_info],
                "evaluator": asdict(self.evaluator),
                "alloc_repeat": self.alloc_repeat,
                "build_seconds": self.build_seconds,
                "run_seconds": self.run_seconds,
                "best_seconds": self.best_seconds,
                "reference": self.reference,
                "facts": asdict(self.facts),
                "allow_externs": sorted(self.allow_externs),
                "input_data": _arrays_as_text(self.input_data),
            }
        )

    @staticmethod
    def from_text(text: str) -> MeasureRequest:
        """Return the request that a text holds; TuningError names the field at fault."""
        read = _Fields(_object(text, "request"), "request")
        return MeasureRequest(
            program=read.text("program"),
            target=read.made("target", _target),
            args_info=read.made("args_info", _arguments),
            evaluator=read.made("evaluator", lambda value: EvaluatorConfig(**value)),
            alloc_repeat=read.number("alloc_repeat", 1, 1000, int),
            build_seconds=read.number("build_seconds", 0, LONGEST, float),
            run_seconds=read.number("run_seconds", 0, LONGEST, float),
            best_seconds=read.optional(
                "best_seconds", lambda n: read.number(n, 0, math.inf, float)
            ),
            reference=read.optional("reference", read.text),
            facts=read.made("facts", _facts),
            allow_externs=read.made("allow_externs", checked_names),
            input_data=read.made("input_data", _arrays),
        )


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
        return json.dumps(asdict(self))

    @staticmethod
    def from_text(text: object) -> MeasureAnswer:
        """Return the answer that a text holds; TuningError for anything else."""
        obj = _object(text, "answer")
        read = _Fields(obj, "answer")
        seconds = obj.get("run_secs")
        if not isinstance(seconds, list) or not all(is_number(s) and s >= 0 for s in seconds):
            raise TuningError(f"the answer has run_secs = {seconds!r:.80}")
        return MeasureAnswer(
            status=read.one_of("status", get_args(Status)),
            machine=read.text("machine"),
            worker=read.text("worker"),
            kind=read.text("kind"),
            run_secs=tuple(map(float, seconds)),
            error=read.optional("error", read.text),
            stage=read.one_of("stage", get_args(Stage)),
            stopped=obj.get("stopped") is True,
            build_seconds=read.number("build_seconds", 0, math.inf, float),
            seconds=read.number("seconds", 0, math.inf, float),
            ending=read.one_of("ending", get_args(Ending)),
            joules=read.optional("joules", lambda name: read.number(name, 0, math.inf, float)),
            pace=read.optional("pace", lambda name: read.number(name, 0, math.inf, float)),
        )


def _object(text: object, what: str) -> dict[str, Any]:
    try:
        obj = json.loads(text) if isinstance(text, str) else None
    except ValueError as error:
        raise TuningError(f"the {what} is no JSON: {error}") from error
    if not isinstance(obj, dict):
        raise TuningError(f"the {what} is no text of a JSON object but {text!r:.80}")
    return obj


@dataclass(frozen=True)
class _Fields:
    """The fields of a message, read one by one; TuningError names the one at fault."""

    obj: dict[str, Any]
    what: str

    def _bad(self, name: str) -> TuningError:
        if name not in self.obj:
            return TuningError(f"the {self.what} has no field {name}")
        return TuningError(f"the {self.what} has {name} = {self.obj[name]!r:.80}")

    def text(self, name: str) -> str:
        value = self.obj.get(name)
        if not isinstance(value, str):
            raise self._bad(name)
        return value

    def number(self, name: str, least: float, most: float, kind: Any) -> Any:
        value: Any = self.obj.get(name)
        if not is_number(value) or not least <= value <= most or kind(value) != value:
            raise self._bad(name)
        return kind(value)

    def one_of(self, name: str, known: tuple[Any, ...]) -> Any:
        value = self.obj.get(name)
        if value not in known:
            raise self._bad(name)
        return value

    def optional(self, name: str, read: Any) -> Any:
        return None if self.obj.get(name) is None else read(name)

    def made(self, name: str, make: Any) -> Any:
        """Return what a function makes of a field."""
        if name not in self.obj:
            raise self._bad(name)
        try:
            return make(self.obj[name])
        except (TensorIRError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise TuningError(f"the {self.what} has a wrong {name}: {error}") from error


def _target(value: Any) -> Target:
    if not isinstance(value, dict):
        raise TargetError(f"a target is an object, got {value!r:.80}")
    return Target(value)


def _arguments(value: Any) -> tuple[ArgInfo, ...]:
    return tuple(ArgInfo.from_json(entry) for entry in value)


def _facts(value: Any) -> ProgramFacts:
    values = {
        int(place): Values(
            int(entry["low"]), int(entry["high"]), tuple(map(int, entry["distinct"]))
        )
        for place, entry in value["values"].items()
    }
    return ProgramFacts(bool(value["integers_are_data"]), float(value["rounding"]), values)


def _arrays_as_text(arrays: Mapping[int, NDArray[Any]]) -> str | None:
    if not arrays:
        return None
    file = io.BytesIO()
    np.savez(file, **{str(place): array for place, array in arrays.items()})  # type: ignore[arg-type]
    return base64.b64encode(file.getvalue()).decode("ascii")


def _arrays(text: str | None) -> dict[int, NDArray[Any]]:
    if text is None:
        return {}
    with np.load(io.BytesIO(base64.b64decode(text, validate=True)), allow_pickle=False) as arrays:
        return {int(place): arrays[place] for place in arrays}
