"""Messages between a search and a machine that measures: texts of JSON, read field by field.

Another release may send a field that this release cannot read; the error names the field.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cache, lru_cache
from typing import (
    Any,
    Final,
    Literal,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)
from zipfile import BadZipFile

from numpy.typing import NDArray

from codegen import Target
from search.arg_info import ArgInfo
from search.builder.builder import checked_names
from search.errors import TuningError
from search.lines import is_number
from search.runner.arguments import ProgramFacts, read_given, write_given
from search.runner.runner import RunnerResult
from search.runner.time_call import EvaluatorConfig
from tensorir.errors import TensorIRError

Status = Literal["done", "unable", "program"]
"""The outcome of a request.

"done": the candidate was measured, or failed. "unable": this machine cannot measure it. "program":
the unscheduled program itself cannot be measured.
"""
LONGEST: Final = 3600.0
"""The maximum time limit of a build or a measurement, in seconds."""
T = TypeVar("T")
Arrays: TypeAlias = Mapping[int, NDArray[Any]]


@dataclass(frozen=True)
class MeasureRequest:
    """A candidate to build and to measure; programs are texts of scripts."""

    program: str
    target: Target
    args_info: tuple[ArgInfo, ...] = ()
    evaluator: EvaluatorConfig = field(default_factory=EvaluatorConfig)
    alloc_repeat: int = 1
    build_seconds: float = 15.0
    run_seconds: float = 30.0
    """The time limits of building and of measuring."""
    best_seconds: float | None = None
    reference: str | None = None
    """The unscheduled program, which computes the expected results."""
    facts: ProgramFacts = field(default_factory=ProgramFacts)
    allow_externs: frozenset[str] = frozenset()
    """C functions that programs may call, in addition to those allowed by the machine."""
    input_data: Arrays = field(default_factory=dict, compare=False)
    search: str = ""
    """The id of the search, by whose best time a machine ends hopeless candidates.

    Without an id each candidate is timed in full.
    """

    def __post_init__(self) -> None:
        """Check the limits, so that a request cannot occupy a machine for long."""
        limits = {"alloc_repeat": 1000, "build_seconds": LONGEST, "run_seconds": LONGEST}
        for name, most in limits.items():
            if not 0 < getattr(self, name) <= most:
                value = getattr(self, name)
                raise TuningError(
                    f"a request has {name} = {value}; expected more than 0 and at most {most:g}"
                )

    def as_text(self) -> str:
        """Return what `from_text` reads, without the arrays (`packed_arrays`)."""
        fields = {name: value for name, value in vars(self).items() if name != "input_data"}
        return json.dumps(fields, default=_plain)

    @staticmethod
    def from_text(text: object, arrays: bytes = b"") -> MeasureRequest:
        """Return a request from its text and arrays; TuningError names an invalid field."""
        request = read_object("request", MeasureRequest, text)
        return replace(request, input_data=_unpacked_arrays(arrays)) if arrays else request


@dataclass(frozen=True)
class MeasureAnswer:
    """The end of a request, and the machine that answers."""

    status: Status
    result: RunnerResult
    """The times or the error, and the machine with the name of its worker."""
    worker: str = ""
    """The address of the worker."""
    pace: float | None = None
    """The latest time of the reference kernel on the machine, in seconds."""

    def as_text(self) -> str:
        """Return what `from_text` reads."""
        return json.dumps(vars(self), default=vars)

    @staticmethod
    def from_text(text: object) -> MeasureAnswer:
        """Return an answer from its text; TuningError names an invalid field."""
        return read_object("answer", MeasureAnswer, text)


def read_object(what: str, kind: type[T], obj: object) -> T:
    """Return an object of a data class from plain data, or from its text, by its declared types.

    TuningError names an invalid field. Unknown fields are ignored.
    """
    try:
        obj = json.loads(obj) if isinstance(obj, str) else obj
    except ValueError as error:
        raise TuningError(f"the {what} is not valid JSON: {error}") from error
    if not isinstance(obj, Mapping):
        raise TuningError(f"the {what} is not a JSON object but {obj!r:.80}")
    values = {}
    for name, hint in _fields(cast(Any, kind)).items():
        try:
            if name in obj:
                values[name] = _value(hint, obj[name])
        except (TensorIRError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise TuningError(f"the {what} has {name} = {obj[name]!r:.80}: {error}") from error
    try:
        return kind(**values)
    except TypeError as error:
        raise TuningError(f"the {what} lacks a field: {error}") from error


@cache
def _fields(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _value(hint: Any, value: Any) -> Any:
    """Return a value of JSON as a declared type; ValueError, TypeError and others if it is not."""
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if kind in _READERS:
        return _READERS[kind](value)
    if type(None) in arguments:
        return None if value is None else _value(arguments[0], value)
    if kind is tuple and type(value) is list:
        return tuple(_value(arguments[0], one) for one in value)
    if kind is Mapping and type(value) is dict:
        return {int(key): _value(arguments[1], one) for key, one in value.items()}
    if is_dataclass(kind) and isinstance(kind, type):
        return read_object(kind.__name__, kind, value)
    if kind is float and is_number(value) and value >= 0:
        return float(value)
    if type(value) is kind or (kind is Literal and value in arguments):
        return value
    raise ValueError(f"expected {arguments or kind.__name__}")


def _plain(value: Any) -> Any:
    """Return a part of a request as plain data."""
    if isinstance(value, Target):
        return value.export()
    if isinstance(value, ArgInfo):
        return value.as_json()
    return sorted(value) if isinstance(value, frozenset) else vars(value)


def packed_arrays(arrays: Arrays) -> bytes:
    """Return an archive of arrays, for `MeasureRequest.from_text`."""
    file = io.BytesIO()
    write_given(file, arrays)
    return file.getvalue()


@lru_cache(maxsize=4)
def _unpacked_arrays(archive: bytes) -> Arrays:
    """Return arrays: the same mapping for the same archive, so a runner writes its file once."""
    try:
        return read_given(io.BytesIO(archive))
    except (ValueError, OSError, TypeError, AttributeError, BadZipFile) as error:
        raise TuningError(f"the input data of the request cannot be read: {error}") from error


_READERS: Final[Mapping[Any, Callable[[Any], Any]]] = {
    Target: lambda value: Target(_value(dict, value)),
    ArgInfo: ArgInfo.from_json,
    frozenset: checked_names,
}
"""Readers of types with a special form in JSON."""
