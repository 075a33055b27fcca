"""Programs of any depth: recursion that continues beyond Python's own stack.

Passes, printers and analyses walk programs by recursion. Python stops a recursion at 1000 calls,
which a sum of 300 terms reaches. An entry point that is marked with `any_depth` then runs a second
time, in a thread whose stack holds a hundred times as many calls. A program that is nested even
more deeply raises `NestingError`.

Only this module changes the recursion limit. The limit belongs to the process: it is raised while
such a thread runs, and the calling thread waits for it.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from tensorir.errors import IRValueError
from tensorir.nodes.node import Node

P = ParamSpec("P")
R = TypeVar("R")

_STACK_BYTES: Final = 1 << 29
_CALLS: Final = 100_000
"""The maximum number of nested calls in such a thread; the stack has 5 KiB for each."""
_SHALLOW: Final = 50
"""Levels of nesting that every recursion over a program can handle on the current stack."""


class NestingError(IRValueError):
    """A program is nested too deeply."""


class _ThreadState(threading.local):
    is_deep = False


_thread_state: Final = _ThreadState()
_lock: Final = threading.Lock()
_running = 0
_limit_before = 0
_depths: Final[WeakKeyDictionary[Node, int]] = WeakKeyDictionary()


def may_go_deeper() -> bool:
    """Return True if `any_depth` can still handle a `RecursionError`, by a larger stack."""
    return not _thread_state.is_deep


def any_depth(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that it accepts programs of any depth.

    If Python's stack is too small, the function runs again on a larger stack, so it must not have
    effects. Raises NestingError, which names the nested construct, if that stack is too small.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            if _thread_state.is_deep:
                raise
        return run_deep(function, *args, **kwargs)

    return run


def run_deep(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function in a thread with a large stack, and return its result.

    Context variables are those of the caller. Raises what the function raises, and NestingError for
    a RecursionError.
    """
    if _thread_state.is_deep:
        return function(*args, **kwargs)
    results: list[R] = []
    errors: list[BaseException] = []
    context = copy_context()

    def work() -> None:
        _thread_state.is_deep = True
        try:
            results.append(context.run(function, *args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            errors.append(error)

    _raise_limit()
    try:
        thread = _start_thread(work)
        thread.join()
    finally:
        _restore_limit()
    if not errors:
        return results[0]
    if isinstance(errors[0], RecursionError):
        raise NestingError(_nesting_message(function, [*args, *kwargs.values()]))
    raise errors[0]


def run_as_deep_as(
    program: Node | Mapping[Any, Node], function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Call a function that has effects, on a large stack if the program is deeply nested.

    The depth of each node is measured once, since interpreted functions run many times.
    """
    nodes = program.values() if isinstance(program, Mapping) else (program,)
    for node in nodes:
        if node not in _depths:
            _depths[node] = nesting(node)[0]
    if max((_depths[node] for node in nodes), default=0) <= _SHALLOW:
        return function(*args, **kwargs)
    return run_deep(function, *args, **kwargs)


def _start_thread(work: Callable[[], None]) -> threading.Thread:
    with _lock:
        previous_size = threading.stack_size(_STACK_BYTES)
        try:
            thread = threading.Thread(target=work, name="deep recursion", daemon=True)
            thread.start()
        finally:
            threading.stack_size(previous_size)
    return thread


def _raise_limit() -> None:
    global _running, _limit_before
    with _lock:
        if _running == 0:
            _limit_before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_CALLS, _limit_before))
        _running += 1


def _restore_limit() -> None:
    global _running
    with _lock:
        _running -= 1
        if _running == 0:
            sys.setrecursionlimit(_limit_before)


# ----------------------------------------------------------------------------- measuring nesting


def nesting(program: object) -> tuple[int, str]:
    """Return the nesting depth of a program, and the most frequent class of the nested nodes."""
    levels: dict[int, int] = {}
    deepest: dict[int, object] = {}
    """The child of each node with the greatest depth."""
    stack: list[tuple[object, list[Any] | None]] = [(program, None)]
    """Nodes, with their children when these are measured."""
    while stack:
        node, parts = stack.pop()
        if id(node) in levels:
            continue
        if parts is None:
            parts = _child_values(node)
            unknown = [(part, None) for part in parts if id(part) not in levels]
            if unknown:
                stack.append((node, parts))
                stack += unknown
                continue
        below = max(parts, key=lambda part: levels.get(id(part), 0), default=None)
        levels[id(node)] = isinstance(node, Node) + (0 if below is None else levels[id(below)])
        deepest[id(node)] = below
    kinds: Counter[str] = Counter()
    at: object | None = program
    while at is not None:
        if isinstance(at, Node):
            kinds[type(at).__name__] += 1
        at = deepest[id(at)]
    return levels[id(program)], kinds.most_common(1)[0][0] if kinds else "nothing"


def _child_values(value: object) -> list[Any]:
    if isinstance(value, Node):
        found = [getattr(value, name) for name in value.fields]
    elif isinstance(value, (tuple, list)):
        found = list(value)
    elif isinstance(value, dict):
        found = list(value.values())
    else:
        found = []
    return [part for part in found if isinstance(part, (Node, tuple, list, dict))]


def _nesting_message(function: Callable[..., Any], args: list[Any]) -> str:
    what = function.__name__.strip("_").replace("_", " ")
    levels, kind = max((nesting(arg) for arg in args), default=(0, ""))
    if not levels:
        return f"{what}: it is nested too deeply; bind parts of it to variables"
    return (
        f"{what}: the program is nested too deeply: {levels} nodes inside one another, most of "
        f"them {kind}; store or bind parts of it, or write it as a loop"
    )
