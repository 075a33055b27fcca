"""The check that a call of the dialect has strings and dicts where its function takes those.

Most arguments may be numbers or expressions, and their functions refuse others; a name or an
attribute would be stored as it is, and be found wrong only where the program is printed or built.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import FunctionType, MethodType, NoneType
from typing import Any, Final

from tensorir.errors import IRTypeError

_NAMED: Final[dict[str, tuple[type, str]]] = {
    "str": (str, "a string"),
    "dict": (dict, "a dict of names and values"),
    "None": (NoneType, "None"),
}


def check_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Raise IRTypeError for an argument that is no string or dict where the function takes one."""
    plain = function.__func__ if type(function) is MethodType else function
    if type(plain) is not FunctionType or not plain.__module__.startswith("tensorir."):
        return
    expected = _expected(plain)
    if not expected:
        return
    first = int(type(function) is MethodType)
    for name, (position, types, words) in expected.items():
        place = position - first
        if 0 <= place < len(args):
            value = args[place]
        elif name in kwargs:
            value = kwargs[name]
        else:
            continue
        if not isinstance(value, types):
            raise IRTypeError(f"`{name}` is {words}, got {type(value).__name__}")


@cache
def _expected(function: FunctionType) -> dict[str, tuple[int, tuple[type, ...], str]]:
    """Return the parameters that take strings or dicts only: their place, types and words."""
    found: dict[str, tuple[int, tuple[type, ...], str]] = {}
    for place, parameter in enumerate(inspect.signature(function).parameters.values()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        parts = [part.partition("[")[0].strip() for part in str(parameter.annotation).split("|")]
        if all(part in _NAMED for part in parts):
            types, words = zip(*(_NAMED[part] for part in parts), strict=True)
            place = place if parameter.kind is not parameter.KEYWORD_ONLY else -1
            found[parameter.name] = (place, types, " or ".join(words))
    return found
