"""Prefixes of units, as in GFLOPS."""

from __future__ import annotations

from typing import Final

from search.autotvm.errors import TemplateError

_PREFIXES: Final = "yzafpnµm kMGTPEZY"
_ONE: Final = _PREFIXES.index(" ")


def checked_si_prefix(prefix: str) -> str:
    """Return a prefix; TemplateError unless it is one letter of those that there are, or blank."""
    if len(prefix) != 1 or prefix not in _PREFIXES:
        raise TemplateError(f"si_prefix is one of {list(_PREFIXES)}, got {prefix!r}")
    return prefix


def in_si_unit(value: float, prefix: str) -> float:
    """Return a number in the unit that a prefix makes: 2e9 is 2 with G."""
    return float(value * 1000.0 ** (_ONE - _PREFIXES.index(prefix)))
