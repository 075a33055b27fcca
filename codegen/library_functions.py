"""Library functions: Python functions that programs and models call by name.

    @codegen.register_func("env.relu")
    def relu(x, out):
        np.maximum(x, 0, out=out)

Arrays arrive as `codegen.NDArray`, numbers and strings as Python values. By convention outputs come
last and are written in place. A program looks its library functions up when it is loaded: existing
modules do not use a function that is registered later under the same name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias, TypeVar, overload

import numpy as np

from codegen.errors import LibraryFunctionError
from codegen.runtime.ndarray import from_dlpack
from tensorir.errors import IRTypeError, IRValueError
from tensorir.relax.operator import LIBRARY_PREFIX

LibraryFunction: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=LibraryFunction)

_functions: Final[dict[str, LibraryFunction]] = {}
_lock: Final = threading.Lock()


@overload
def register_func(name: str, f: None = None, override: bool = False) -> Callable[[F], F]: ...
@overload
def register_func(name: str, f: F, override: bool = False) -> F: ...
@overload
def register_func(name: F, f: None = None, override: bool = False) -> F: ...
def register_func(name: str | F, f: F | None = None, override: bool = False) -> Any:
    """Register a Python function that programs call by name.

    Use it as a decorator with a name, as a decorator without one (then the function's `__name__` is
    used), or as a call with name and function. Modules that are loaded already keep the function
    that they found. Raises IRValueError if the name exists, unless `override` is True to replace
    its function.
    """
    if not isinstance(name, str):
        if not callable(name):
            raise IRTypeError(f"register_func takes a name or a function, got {name!r}")
        own_name = getattr(name, "__name__", "")
        if not own_name:
            raise IRTypeError(f"{name!r} has no __name__; pass a name to register_func")
        return _register(own_name, name, override)
    if f is not None:
        return _register(name, f, override)
    return lambda function: _register(name, function, override)


def _register(name: str, function: F, override: bool) -> F:
    if not callable(function):
        raise IRTypeError(f"library function {name!r} is a {type(function).__name__}, not callable")
    if not name:
        raise IRValueError("a library function needs a name")
    with _lock:
        known = _functions.get(name)
        if known is not None and not override:
            raise IRValueError(
                f"library function {name!r} exists already: {_source_position(known)}; "
                f"pass override=True to replace it, or choose another name"
            )
        _functions[name] = function
    return function


def _source_position(function: LibraryFunction) -> str:
    """Return the file and line that define a function, if Python has this information."""
    function = getattr(function, "func", function)  # of functools.partial
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None:
        return repr(function)
    return f"{function.__qualname__} at {code.co_filename}:{code.co_firstlineno}"


@overload
def get_global_func(name: str, allow_missing: Literal[False] = False) -> LibraryFunction: ...
@overload
def get_global_func(name: str, allow_missing: bool) -> LibraryFunction | None: ...
def get_global_func(name: str, allow_missing: bool = False) -> LibraryFunction | None:
    """Return a registered function.

    Raises IRValueError for an unregistered name; with `allow_missing` returns None.
    """
    found = _functions.get(name) or _numpy_operator(name)
    if found is None and not allow_missing:
        raise IRValueError(missing_text([name]))
    return found


def _numpy_operator(name: str) -> LibraryFunction | None:
    """Return the NumPy implementation of an operator; None for any other name."""
    if not name.startswith(LIBRARY_PREFIX):
        return None
    return import_module("tensorir.relax.declaration").library_function(name)  # type: ignore[no-any-return]


def missing_text(names: Sequence[str]) -> str:
    """Return an error text about unregistered names, with similar registered names."""
    known = list_global_func_names()
    lines = []
    for name in names:
        close = get_close_matches(name, known, 3)
        lines.append(repr(name) + (f" (near it: {', '.join(close)})" if close else ""))
    count = "function is" if len(names) == 1 else "functions are"
    return (
        f"library {count} not registered: {', '.join(lines)}; register with "
        f"@codegen.register_func({names[0]!r})"
    )


def list_global_func_names() -> list[str]:
    """Return the names of all registered functions, sorted."""
    with _lock:
        return sorted(_functions)


def remove_global_func(name: str) -> None:
    """Unregister a function; loaded modules keep it. Raises IRValueError for an unknown name."""
    with _lock:
        removed = _functions.pop(name, None)
    if removed is None:
        raise IRValueError(missing_text([name]))


def call_library(
    name: str, function: LibraryFunction, args: Sequence[Any], *, binding: str = ""
) -> Any:
    """Return `function(*args)`.

    An exception becomes the cause of a LibraryFunctionError that names the function, its arguments
    and, if given, the calling `binding` of a graph function.
    """
    try:
        return function(*args)
    except Exception as problem:
        raise library_error(name, args, problem, binding) from problem


def call_interpreted(name: str, args: Sequence[Any]) -> Any:
    """Call a registered function for an interpreted program."""
    values = [from_dlpack(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
    return call_library(name, get_global_func(name), values)


def library_error(
    name: str, args: Sequence[Any], problem: BaseException, binding: str = ""
) -> LibraryFunctionError:
    """Return the error of a library function that failed with `problem`."""
    called_by = f", called for {binding}," if binding else ""
    arguments = ", ".join(_describe(arg) for arg in args)
    reason = f"{type(problem).__name__}: {problem}"
    return LibraryFunctionError(
        f"library function {name!r}({arguments}){called_by} raised {reason}"
    )


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{', '.join(str(n) for n in value.shape)}]"
    if isinstance(value, tuple):
        return f"({', '.join(_describe(part) for part in value)})"
    text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


_LONGEST: Final = 40
