"""Workloads by key: the name of a function that gives a program, and its arguments."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar, overload

from search.compat.autotvm.arguments import as_tuples, deserialize_args, serialize_args
from search.database.module_equality import unnamed
from search.errors import TuningError, blamed_on
from search.kinds import like_or_all
from search.task import normalize_mod
from tensorir import te
from tensorir.comparison.structural_hash import structural_hash
from tensorir.function import IRModule, PrimFunc

Workload: TypeAlias = "list[te.Tensor] | PrimFunc | IRModule"
"""The result of a workload function: tensors, inputs first and outputs last, or a program."""

F = TypeVar("F", bound=Callable[..., Any])

_functions: Final[dict[str, Callable[..., Any]]] = {}


@overload
def register_workload(func_name: F, f: None = None, override: bool = False) -> F: ...
@overload
def register_workload(
    func_name: str, f: None = None, override: bool = False
) -> Callable[[F], F]: ...
@overload
def register_workload(func_name: str, f: F, override: bool = False) -> F: ...
def register_workload(func_name: Any, f: Any = None, override: bool = False) -> Any:
    """Register a function that gives a workload: `@register_workload`, or with a name, or a call.

    It returns te tensors (inputs first, outputs last), a PrimFunc, or a module of one function.
    Without a name it has the one in its `__qualname__`; keys in logs begin with it.

    TuningError for a name that another function has, unless `override`. A function that is defined
    again, in a cell of a notebook say, takes the place of its earlier self.
    """
    name = func_name if isinstance(func_name, str) else _name_of(func_name)
    f = f if isinstance(func_name, str) else func_name

    def register(function: F) -> F:
        known = _functions.get(name)
        if known is not None and not override and _identity(known) != _identity(function):
            raise TuningError(
                f"there is a workload {name!r} already: {_identity(known)}; register this one "
                "under another name, or with override=True"
            )
        _functions[name] = function
        return function

    return register if f is None else register(f)


def register_tensors(tensors: Sequence[te.Tensor], func: PrimFunc) -> str:
    """Register te tensors themselves, which `func` computes; return their key.

    It is JSON of the MD5 of the printed function, then the shape of each tensor. The printed
    operations, of which Ansor takes it, do not say dtypes and the lengths of reductions.
    """
    digest = hashlib.md5(func.script().encode(), usedforsecurity=False).hexdigest()
    shapes = serialize_args([tensor.shape for tensor in tensors])
    kept = list(tensors)
    _functions[digest] = lambda *_: kept
    return json.dumps([digest, *shapes])


def register_program(func: PrimFunc) -> str:
    """Register a program itself; return its key, JSON of a hash that is the same in all processes.

    Programs that are the same but for names share it, and the first of them is the workload.
    """
    name = f"{structural_hash(unnamed(normalize_mod(func))):016x}"
    _functions.setdefault(name, lambda: func)
    return json.dumps([name])


def make_workload_key(func: str | Callable[..., Any], args: Sequence[Any]) -> str:
    """Return the key of a call of a registered function, which is given itself or by name.

    The key is JSON `[name, argument, ...]`, a tensor being `["TENSOR", shape, dtype]`. TuningError
    for a function that is not registered, or an argument that JSON cannot hold.
    """
    name = func if isinstance(func, str) else _name_of(func)
    if name not in _functions:
        raise _unknown(name)
    if not isinstance(args, (list, tuple)):
        raise TuningError(
            f"the arguments of the workload {name!r} are a tuple or a list, got {args!r}; for one "
            f"argument write ({args!r},)"
        )
    return json.dumps([name, *serialize_args(args)])


def workload_of(workload_key: str) -> Workload:
    """Return the result of the function of a key for its arguments.

    Encoded tensors are handed to it as placeholders. TuningError for a key that is none, a function
    that is not registered, and one that returns something else.
    """
    name, args = name_and_args(workload_key)
    if name not in _functions:
        raise _unknown(name)
    with blamed_on(f"the workload {name!r}", lambda: f"the arguments {args}"):
        made = _functions[name](*deserialize_args(args))
    if isinstance(made, te.Tensor):
        made = [made]
    if isinstance(made, (list, tuple)) and made and all(isinstance(t, te.Tensor) for t in made):
        return list(made)
    if isinstance(made, (PrimFunc, IRModule)):
        return made
    raise TuningError(
        f"the workload {name!r} returned {type(made).__name__}; it returns a list of te tensors "
        "(inputs first, outputs last), a PrimFunc, or an IRModule"
    )


def name_and_args(workload_key: str) -> tuple[str, tuple[Any, ...]]:
    """Return the name and the arguments of a key, lists as tuples; TuningError if it is none."""
    try:
        values = json.loads(workload_key)
    except (TypeError, ValueError, RecursionError) as error:
        raise TuningError(f"{workload_key!r} is no workload key: {error}") from error
    if not isinstance(values, list) or not values or not isinstance(values[0], str):
        raise TuningError(
            f'a workload key is JSON of ["name", argument, ...], got {workload_key!r}'
        )
    return values[0], as_tuples(values[1:])


def compatible_factor(workload_key: str, recorded_key: str) -> float | None:
    """Return how many times the work of a recorded workload another one is, None if that is open.

    They are compatible if they have the same function and as many arguments, those within shapes
    counted, and each positive integer is a multiple of the recorded one, while all else is equal.
    The factor is the product of the ratios: shapes (8, 3, 224, 224) and (1, 3, 112, 112) give 32.

    The rule takes every integer for an extent. A stride is none, so a factor only orders records;
    whether a schedule fits a program is decided on the program, by `search.find_schedule`.
    """
    name, args = name_and_args(workload_key)
    recorded_name, recorded_args = name_and_args(recorded_key)
    wanted, recorded = list(_flat(args)), list(_flat(recorded_args))
    if name != recorded_name or len(wanted) != len(recorded):
        return None
    factor = 1.0
    for ours, theirs in zip(wanted, recorded, strict=True):
        if type(ours) is int and type(theirs) is int and ours > 0 and theirs > 0:
            if ours % theirs:
                return None
            factor *= ours // theirs
        elif type(ours) is not type(theirs) or ours != theirs:
            return None
    return factor


def _flat(value: Any) -> Iterator[Any]:
    """Yield the arguments and the elements of lists among them, in order."""
    for one in value:
        if isinstance(one, (list, tuple)):
            yield ("a list of", len(one))
            yield from _flat(one)
        else:
            yield one


def _name_of(function: Any) -> str:
    if not callable(function) or not hasattr(function, "__qualname__"):
        raise TuningError(
            f"a workload is registered as a function, got {type(function).__name__}; wrap what is "
            "there already: register_workload('name', lambda: program)"
        )
    return str(function.__qualname__)


def _identity(function: Callable[..., Any]) -> str:
    name = f"{function.__module__}.{getattr(function, '__qualname__', function)}"
    return f"{name} at {id(function):#x}" if "<lambda>" in name else name


def _unknown(name: str) -> TuningError:
    return TuningError(
        f"there is no workload {name!r}; {like_or_all(name, _functions)}. Import the module that "
        "registers it, write @register_workload before the function, or make the tasks of its "
        "network first"
    )
