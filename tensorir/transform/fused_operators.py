"""The operators that a tensor function computes, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorir.function import IRModule, PrimFunc

FUSED_OPERATORS: Final = "fused_operators"
"""Attribute of a tensor function: the names of the operators that it computes, in order."""


def operators_of(func: PrimFunc, name: str, mod: IRModule) -> Sequence[str]:
    """Return the operators that a function computes: what it states, else its name.

    A number that tells functions of one name apart is no part of
    an operator's name.
    """
    stated = func.attrs.get(FUSED_OPERATORS)
    if stated is not None:
        return [str(operator) for operator in stated]
    plain = name.rstrip("0123456789")
    return [plain if plain in mod else name]
