"""Schedules of the kernels of a model, which a layer above this one has or makes.

A `Schedules` answers for many functions at once, so that it may work on several of them. A database
that is given to `vm_build` is one. Another makes schedules without any record; a package that has
one names it in its metadata, as an entry point of the group `tensorir.schedules` that gives it when
it is called without arguments. A package that runs from its sources, or was installed before its
metadata said so, offers it when it is imported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Final, Protocol, runtime_checkable

from codegen.target import Target
from tensorir.function import PrimFunc

GROUP: Final = "tensorir.schedules"
"""The group of entry points."""

logger = logging.getLogger("tensorir.codegen")


@runtime_checkable
class Schedules(Protocol):
    """Something that knows schedules of functions, or makes them."""

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


_offered: Callable[[], Schedules] | None = None
_made: Schedules | None = None


def offer_schedules(make: Callable[[], Schedules] | None) -> None:
    """Have `make` give the schedules of functions without a record; None withdraws the offer."""
    global _offered, _made
    _offered, _made = make, None


def default_schedules() -> Schedules:
    """Return what makes schedules of functions without a record: offered, or else installed.

    Where there is none, a warning says so, once, and functions stay as they are.
    """
    global _made
    if _made is None:
        make = _offered or _installed()
        if make is None:
            logger.warning(
                "no package that schedules kernels is installed, or it was installed before it "
                "said so: kernels without a record are built as they are, and slow; install "
                "tensorir again, or import search first"
            )
        _made = _Nothing() if make is None else make()
    return _made


def _installed() -> Callable[[], Schedules] | None:
    for entry in metadata.entry_points(group=GROUP):
        make: Callable[[], Schedules] = entry.load()
        return make
    return None
