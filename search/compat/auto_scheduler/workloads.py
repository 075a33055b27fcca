"""Workloads by key: the name of a registered function, and its arguments."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar, overload

from search.compat.autotvm.arguments import as_tuples, deserialize_args, serialize_args
from search.database.module_equality import unnamed
from search.errors import TuningError, blamed_on
from search.kinds import suggestion_or_all
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
    """Register a workload function: `@register_workload`, with a name or without, or as a call.

    The function returns te tensors (inputs first, outputs last), a PrimFunc, or a module of one
    function. Its name is `func_name` or its `__qualname__`; keys in logs start with it.

    Raises TuningError for a name that another function has, unless `override`. A function that is
    defined again, for example in a cell of a notebook, replaces its earlier definition.
    """
    name = func_name if isinstance(func_name, str) else _name_of(func_name)
    f = f if isinstance(func_name, str) else func_name

    def register(function: F) -> F:
        known = _functions.get(name)
        if known is not None and not override and _identity(known) != _identity(function):
            raise TuningError(
                f"the workload {name!r} is already registered as {_identity(known)}; register this "
                "function under another name, or with override=True"
            )
        _functions[name] = function
        return function

    return register if f is None else register(f)


def register_tensors(tensors: Sequence[te.Tensor], func: PrimFunc) -> str:
    """Register te tensors, which `func` computes, and return their key.

    The key has the MD5 of the printed function, then the shape of each tensor. Ansor hashes the
    printed operations, which lack dtypes and the lengths of reductions.
    """
    digest = hashlib.md5(func.script().encode(), usedforsecurity=False).hexdigest()
    kept = list(tensors)
    _functions[digest] = lambda *_: kept
    return json.dumps([digest, *serialize_args([tensor.shape for tensor in tensors])])


def register_program(func: PrimFunc) -> str:
    """Register a program and return its key, a hash that is the same in every process.

    Programs with different names but the same structure share a key, which refers to the program
    that was registered first.
    """
    name = f"{structural_hash(unnamed(normalize_mod(func))):016x}"
    _functions.setdefault(name, lambda: func)
    return json.dumps([name])


def make_workload_key(func: str | Callable[..., Any], args: Sequence[Any]) -> str:
    """Return the key of a call of a registered function, given itself or by name.

    The key is JSON `[name, argument, ...]`; a tensor is `["TENSOR", shape, dtype]`. TuningError for
    an unregistered function, or an argument that JSON cannot hold.
    """
    name = func if isinstance(func, str) else _name_of(func)
    _registered_function(name)
    return json.dumps([name, *serialize_args(args)])


def workload_of(workload_key: str) -> Workload:
    """Call the function of a key with its arguments, tensors as placeholders; return the result.

    Raises TuningError for a malformed key, an unregistered function, or a result of another type.
    """
    name, args = name_and_args(workload_key)
    function = _registered_function(name)
    with blamed_on(f"the workload {name!r}", lambda: f"the arguments {args}"):
        made = function(*deserialize_args(args))
    if isinstance(made, te.Tensor):
        made = [made]
    if isinstance(made, (list, tuple)) and made and all(isinstance(t, te.Tensor) for t in made):
        return list(made)
    if isinstance(made, (PrimFunc, IRModule)):
        return made
    raise TuningError(
        f"the workload {name!r} returned {type(made).__name__}; it must return a list of te "
        "tensors (inputs first, outputs last), a PrimFunc, or an IRModule"
    )


def name_and_args(workload_key: str) -> tuple[str, tuple[Any, ...]]:
    """Return the name and the arguments of a key, with tuples for lists; TuningError otherwise."""
    try:
        match json.loads(workload_key):
            case [str(name), *args]:
                return name, as_tuples(args)
    except (TypeError, ValueError, RecursionError):
        pass
    raise TuningError(f'a workload key is JSON of ["name", argument, ...], got {workload_key!r}')


def compatible_factor(workload_key: str, recorded_key: str) -> float | None:
    """Return the ratio of the work of two compatible workloads, None for incompatible ones.

    Compatible workloads have the same function and as many arguments; each positive integer is a
    multiple of the recorded one, and everything else is equal. The factor is the product of the
    ratios: shapes (8, 3, 224, 224) and (1, 3, 112, 112) give 32.

    The rule treats every integer as an extent, although strides are integers too. So a factor only
    ranks records; `search.find_schedule` checks whether a schedule fits a program.
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
    """Yield the elements of nested lists in order, each list after its length."""
    for one in value:
        if isinstance(one, (list, tuple)):
            yield ("a list of", len(one))
            yield from _flat(one)
        else:
            yield one


def _name_of(function: Any) -> str:
    if not callable(function) or not hasattr(function, "__qualname__"):
        raise TuningError(
            f"a workload is registered as a function, got {type(function).__name__}; wrap a "
            "program in one: register_workload('name', lambda: program)"
        )
    return str(function.__qualname__)


def _identity(function: Callable[..., Any]) -> str:
    name = f"{function.__module__}.{getattr(function, '__qualname__', function)}"
    return f"{name} at {id(function):#x}" if "<lambda>" in name else name


def _registered_function(name: str) -> Callable[..., Any]:
    if name not in _functions:
        raise TuningError(
            f"unknown workload {name!r}; {suggestion_or_all(name, _functions)}. Import the module "
            "that registers it, put @register_workload before the function, or call extract_tasks "
            "on its network"
        )
    return _functions[name]
