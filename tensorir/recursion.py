"""Programs of any depth: recursion that continues beyond Python's own stack.

Passes, printers and analyses walk programs by recursion, which Python stops after 1000 calls: a sum
of 300 terms has that. Entry points that are marked with `any_depth` run a second time where that
happens, in a thread whose stack holds a hundred times as many calls. What is deeper even than that
is refused by a sentence, `NestingError`.

Nothing else changes the limit of recursion. It is a limit of the process: while such a thread runs
it is raised, and the thread that waits for it does nothing meanwhile.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final, ParamSpec, TypeVar

from tensorir.errors import IRValueError
from tensorir.nodes.node import Node

P = ParamSpec("P")
R = TypeVar("R")

_STACK_BYTES: Final = 1 << 29
_CALLS: Final = 100_000
"""Calls inside one another, for each of which the stack has 5 KiB."""
_SHALLOW: Final = 50
"""Levels of nesting that every recursion over a program can handle on the current stack."""


class NestingError(IRValueError):
    """A program is nested more deeply than can be worked on."""


class _Here(threading.local):
    is_deep = False


_here: Final = _Here()
_lock: Final = threading.Lock()
_running = 0
_limit_before = 0


def may_go_deeper() -> bool:
    """Say whether a `RecursionError` is to reach `any_depth`, which tries again with more stack."""
    return not _here.is_deep


def any_depth(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function work on programs of any depth.

    It runs again on a larger stack if Python's stack does not suffice, so its only effect before
    that must be its result. Raises NestingError, which names the nested construct, if that fails.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            if _here.is_deep:
                raise
        return run_deep(function, *args, **kwargs)

    return run


def run_deep(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function where the stack is large, and return its result.

    Context variables are those of the caller. Raises what the function raises, and NestingError for
    a RecursionError.
    """
    if _here.is_deep:
        return function(*args, **kwargs)
    results: list[R] = []
    errors: list[BaseException] = []
    context = copy_context()

    def work() -> None:
        _here.is_deep = True
        try:
            results.append(context.run(function, *args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            errors.append(error)

    _enter()
    try:
        thread = _start_thread(work)
        thread.join()
    finally:
        _leave()
    if not errors:
        return results[0]
    if isinstance(errors[0], RecursionError):
        raise NestingError(_sentence(function, [*args, *kwargs.values()]))
    raise errors[0]


def run_as_deep_as(
    program: object, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Call a function that has effects where the stack suffices for a program of this depth."""
    if nesting(program)[0] <= _SHALLOW:
        return function(*args, **kwargs)
    return run_deep(function, *args, **kwargs)


def _start_thread(work: Callable[[], None]) -> threading.Thread:
    with _lock:
        usual = threading.stack_size(_STACK_BYTES)
        try:
            thread = threading.Thread(target=work, name="deep recursion", daemon=True)
            thread.start()
        finally:
            threading.stack_size(usual)
    return thread


def _enter() -> None:
    global _running, _limit_before
    with _lock:
        if _running == 0:
            _limit_before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_CALLS, _limit_before))
        _running += 1


def _leave() -> None:
    global _running
    with _lock:
        _running -= 1
        if _running == 0:
            sys.setrecursionlimit(_limit_before)


# --------------------------------------------------------------------------------- what is nested


def nesting(program: object) -> tuple[int, str]:
    """Return the depth to which nodes of a program are nested, and the class of most of them."""
    levels: dict[int, int] = {}
    deepest: dict[int, object] = {}
    """The deepest part of each node."""
    stack = [(program, False)]
    while stack:
        node, done = stack.pop()
        if id(node) in levels:
            continue
        parts = _parts(node)
        if not done:
            stack.append((node, True))
            stack += [(part, False) for part in parts if id(part) not in levels]
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


def _parts(value: object) -> list[Any]:
    if isinstance(value, Node):
        found = [getattr(value, name) for name in value.fields]
    elif isinstance(value, (tuple, list)):
        found = list(value)
    elif isinstance(value, dict):
        found = list(value.values())
    else:
        found = []
    return [part for part in found if isinstance(part, (Node, tuple, list, dict))]


def _sentence(function: Callable[..., Any], args: list[Any]) -> str:
    what = function.__name__.strip("_").replace("_", " ")
    levels, kind = max((nesting(arg) for arg in args), default=(0, ""))
    if not levels:
        return f"{what}: it is nested too deeply; bind parts of it to variables"
    return (
        f"{what}: {levels} nodes of the program are inside one another, most of them {kind}, which "
        f"is more than can be worked on; store or bind parts of it, or write it as a loop"
    )
