"""Recorded schedules for the functions of a build.

Inside `with` a `KnownSchedules`, such as a database of the search, `codegen.build` queries it for
the scheduled form of each unscheduled function. `compile_object` compiles its argument unchanged.
"""

from __future__ import annotations

import contextlib
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from typing import Final, Protocol, Self, runtime_checkable

from codegen.compile import Compilable, functions_by_name
from codegen.errors import CodegenError
from codegen.target import Target
from tensorir.extensions import SCHEDULES, extension
from tensorir.function import BaseFunc, IRModule, PrimFunc
from tensorir.nodes.expr import IntImm
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import Block, BlockRealize, For, Stmt
from tensorir.rewriting.visit import children, walk

IS_SCHEDULED: Final = "tir.is_scheduled"
"""The attribute of a function whose schedule is final."""

_SMALL: Final = 4096
"""A function with fewer iterations runs in a few microseconds unscheduled, while scheduling it
needs a tenth of a second.
"""

_entered: Final[ContextVar[tuple[KnownSchedules, ...]]] = ContextVar("entered", default=())
_consulted: Final[ContextVar[bool]] = ContextVar("consulted", default=True)


class KnownSchedules(ABC):
    """A source of schedules for the builds inside its `with` statement.

    The innermost one is used.
    """

    @abstractmethod
    def scheduled(self, name: str, func: PrimFunc, target: Target) -> PrimFunc | None:
        """Return the scheduled form of a function of a module, None without a schedule.

        It has the same parameters and attributes, and `tir.is_scheduled`.
        """

    def __enter__(self) -> Self:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        stack = _entered.get()
        if not stack or stack[-1] is not self:
            raise CodegenError(
                f"a {type(self).__name__} is left before another one that was entered inside it; "
                "nest their `with` statements"
            )
        _entered.set(stack[:-1])


def innermost() -> KnownSchedules | None:
    """Return the object that the innermost `with` entered, None outside."""
    stack = _entered.get()
    return stack[-1] if stack else None


@contextlib.contextmanager
def without_history() -> Iterator[None]:
    """Build programs without recorded schedules inside this `with` statement, to measure them."""
    token = _consulted.set(False)
    try:
        yield
    finally:
        _consulted.reset(token)


def with_history(program: Compilable, target: Target) -> Compilable:
    """Return a program with the recorded schedules of its functions.

    It is the program itself if there are none. Functions of a graph stay as they are.
    """
    known = innermost()
    if known is None or not _consulted.get():
        return program
    functions = functions_by_name(program)
    found: dict[str, BaseFunc] = {}
    for name, func in functions.items():
        if isinstance(func, PrimFunc) and can_be_scheduled(func):
            scheduled = known.scheduled(name, func, target)
            if scheduled is not None:
                found[name] = scheduled
    if not found:
        return program
    attrs = program.attrs if isinstance(program, IRModule) else None
    return IRModule({**functions, **found}, attrs)


def can_be_scheduled(func: PrimFunc) -> bool:
    """Return True if a function has blocks to schedule and its schedule is not marked as final."""
    if func.attrs.get(IS_SCHEDULED) or not isinstance(func.body, BlockRealize):
        return False
    return any(isinstance(node, Block) for node in walk(func.body.block.body))


def is_small(func: PrimFunc) -> bool:
    """Return True if a function runs in a few microseconds unscheduled; False for unknown sizes."""
    return _iterations(func.body) < _SMALL


def _iterations(node: Node) -> float:
    """Return the number of innermost statements that run, infinity if a size is unknown."""
    inside = [child for child in children(node) if isinstance(child, Stmt)]
    count = sum(map(_iterations, inside)) if inside else 1.0
    if isinstance(node, For):
        count *= node.extent.value if isinstance(node.extent, IntImm) else math.inf
    return count


# ---------------------------------------------------------------------------------------- schedules
#
# Schedules of the kernels of a model, which a higher layer provides.
#
# A `Schedules` gets many functions in one call, so that it may schedule several at once. A database
# is one such source. A `ScheduleMaker` makes schedules without any record: an entry point of the
# group `tensorir.schedules` is a function without arguments that returns one.


logger = logging.getLogger("tensorir.codegen")


@runtime_checkable
class Schedules(Protocol):
    """A source of schedules for functions, which looks them up or makes them."""

    def schedules_of(
        self, functions: Mapping[str, PrimFunc], target: Target
    ) -> Mapping[str, PrimFunc]:
        """Return the available scheduled forms of functions, by name.

        They have the same parameters and attributes, and `tir.is_scheduled`.
        """


class ScheduleMaker(Protocol):
    """A source that makes schedules for the functions of a model."""

    def schedules_of(
        self, functions: Mapping[str, PrimFunc], target: Target, weight_bytes: int = 0
    ) -> Mapping[str, PrimFunc]:
        """Return scheduled forms of functions as `Schedules` does.

        The functions are those of a model with so many bytes of weights.
        """


class _NoSchedules:
    """No schedules of any function."""

    def schedules_of(
        self, functions: Mapping[str, PrimFunc], target: Target, weight_bytes: int = 0
    ) -> Mapping[str, PrimFunc]:
        return {}


@cache
def default_schedules() -> ScheduleMaker:
    """Return the source of default schedules for functions without a record.

    If no package provides one, this warns once, and functions stay unscheduled.
    """
    make = extension(SCHEDULES)
    if make is None:
        logger.warning(
            "no installed package provides default schedules (entry point tensorir.schedules), "
            "so kernels without a record are built unscheduled and are slow; install tensorir "
            "again"
        )
        return _NoSchedules()
    made: ScheduleMaker = make()
    return made
