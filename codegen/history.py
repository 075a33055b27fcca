"""The schedules that are known already of the functions of a build.

A layer above this one, which keeps schedules, enters a lookup here. `codegen.build` replaces by
what it returns each function that nobody has scheduled. `compile_object` compiles what it is given.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Final

from codegen.compile import Compilable, functions_by_name
from codegen.target import Target
from tensorir.function import BaseFunc, IRModule, PrimFunc
from tensorir.nodes.expr import IntImm
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import Block, BlockRealize, For, Stmt
from tensorir.rewriting.visit import children, walk

IS_SCHEDULED: Final = "tir.is_scheduled"
"""The attribute of a function whose schedule is final."""

_SMALL: Final = 4096
"""A function of fewer iterations takes some microseconds as it is, and a tenth of a second to be
scheduled."""

Lookup = Callable[[str, PrimFunc, Target], PrimFunc | None]
"""Takes the name of a function in its module, the function, and the target of the build."""

_lookup: Lookup | None = None
_consulted: Final[ContextVar[bool]] = ContextVar("consulted", default=True)


def set_history(lookup: Lookup | None) -> Lookup | None:
    """Let builds ask `lookup` for the scheduled form of functions; return the lookup before it.

    The lookup returns None for a function of which it knows no schedule, else one with the same
    parameters and attributes and `tir.is_scheduled`. None in its place ends the asking.
    """
    global _lookup
    before, _lookup = _lookup, lookup
    return before


@contextlib.contextmanager
def without_history() -> Iterator[None]:
    """Build programs as they are inside of this `with`, for they are to be measured."""
    token = _consulted.set(False)
    try:
        yield
    finally:
        _consulted.reset(token)


def with_history(program: Compilable, target: Target) -> Compilable:
    """Return a program with the schedules that are known of its functions.

    It is the program itself if there are none. Functions of a graph stay as they are.
    """
    if _lookup is None or not _consulted.get():
        return program
    functions = functions_by_name(program)
    found: dict[str, BaseFunc] = {}
    for name, func in functions.items():
        if isinstance(func, PrimFunc) and can_be_scheduled(func):
            scheduled = _lookup(name, func, target)
            if scheduled is not None:
                found[name] = scheduled
    if not found:
        return program
    attrs = program.attrs if isinstance(program, IRModule) else None
    return IRModule({**functions, **found}, attrs)


def can_be_scheduled(func: PrimFunc) -> bool:
    """Say whether a function has blocks to schedule, and nobody has called its schedule final."""
    if func.attrs.get(IS_SCHEDULED) or not isinstance(func.body, BlockRealize):
        return False
    return any(isinstance(node, Block) for node in walk(func.body.block.body))


def is_small(func: PrimFunc) -> bool:
    """Say whether a function takes some microseconds as it is; not if its sizes are not known."""
    return _iterations(func.body) < _SMALL


def _iterations(node: Node) -> float:
    """Return how many innermost statements run; infinitely many where a size is not known."""
    inside = [child for child in children(node) if isinstance(child, Stmt)]
    count = sum(map(_iterations, inside)) if inside else 1.0
    if isinstance(node, For):
        count *= node.extent.value if isinstance(node.extent, IntImm) else math.inf
    return count
