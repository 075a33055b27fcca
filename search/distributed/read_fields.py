"""What another process tells as JSON is read field by field; an error names the field at fault."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from search.database.growing_file import is_number
from search.errors import TuningError
from tensorir.errors import TensorIRError

Read: TypeAlias = Callable[[Any], Any]
"""Returns what a value of JSON means; ValueError, TypeError and the like for a wrong one."""


def read_fields(what: str, obj: object, readers: Mapping[str, Read]) -> dict[str, Any]:
    """Return the fields of an object, or of its text; TuningError names one that is at fault."""
    try:
        obj = json.loads(obj) if isinstance(obj, str) else obj
    except ValueError as error:
        raise TuningError(f"the {what} is no JSON: {error}") from error
    if not isinstance(obj, Mapping):
        raise TuningError(f"the {what} is no JSON object but {obj!r:.80}")
    values = {}
    for name, read in readers.items():
        if name not in obj:
            raise TuningError(f"the {what} has no field {name}")
        try:
            values[name] = read(obj[name])
        except (TensorIRError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise TuningError(f"the {what} has {name} = {obj[name]!r:.80}: {error}") from error
    return values


def exactly(*kinds: type) -> Read:
    """Return what reads values of these types."""

    def read(value: Any) -> Any:
        if type(value) not in kinds:
            raise TypeError(f"expected {' or '.join(kind.__name__ for kind in kinds)}")
        return value

    return read


def number(least: float = 0, most: float = math.inf, kind: type[float] = float) -> Read:
    """Return what reads finite numbers from `least` to `most`."""

    def read(value: Any) -> Any:
        if not is_number(value) or not least <= value <= most or kind(value) != value:
            raise ValueError(f"expected {kind.__name__} from {least} to {most}")
        return kind(value)

    return read


def one_of(known: tuple[Any, ...]) -> Read:
    """Return what reads the values that are listed."""
    return lambda value: known[known.index(value)]


def optional(read: Read) -> Read:
    """Return what reads None, too."""
    return lambda value: None if value is None else read(value)


def tuple_of(read: Read) -> Read:
    """Return what reads lists."""
    return lambda values: tuple(map(read, exactly(list, tuple)(values)))
