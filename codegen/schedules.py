"""Schedules of the kernels of a model, which a layer above this one has or makes.

A `Schedules` answers for many functions at once, so that it may work on several of them. A database
that is given to `vm_build` is one. Another makes schedules without any record; a package that has
one names it in its metadata, as an entry point of the group `tensorir.schedules` that gives it when
it is called without arguments.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from typing import Protocol, runtime_checkable

from codegen.target import Target
from tensorir.extensions import SCHEDULES, extension
from tensorir.function import PrimFunc

logger = logging.getLogger("tensorir.codegen")


@runtime_checkable
class Schedules(Protocol):
    """A source of schedules of functions, which looks them up or makes them."""

    def schedules_of(
        self, functions: Mapping[str, PrimFunc], target: Target
    ) -> Mapping[str, PrimFunc]:
        """Return the scheduled forms of those functions that it has one of, by name.

        They have the same parameters and attributes, and `tir.is_scheduled`.
        """


class _Nothing:
    """No schedules of any function."""

    def schedules_of(
        self, functions: Mapping[str, PrimFunc], target: Target
    ) -> Mapping[str, PrimFunc]:
        return {}


@cache
def default_schedules() -> Schedules:
    """Return what makes schedules of functions without a record.

    Where there is none, a warning says so, once, and functions stay as they are.
    """
    make = extension(SCHEDULES)
    if make is None:
        logger.warning(
            "no package that schedules kernels is installed, or it was installed before it said "
            "so: kernels without a record are built as they are, and slow; install tensorir again"
        )
        return _Nothing()
    made: Schedules = make()
    return made
