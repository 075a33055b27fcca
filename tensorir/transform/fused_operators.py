"""The operators that a tensor function computes, by name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from tensorir.function import IRModule, PrimFunc
from tensorir.relax.operator import Operator

FUSED_OPERATORS: Final = "fused_operators"
"""Attribute of a tensor function: the names of the operators that it computes, in order."""


def operators_of(func: PrimFunc, name: str, mod: IRModule) -> Sequence[str]:
    """Return the operators that a function computes: what it states, else its name.

    A number that only makes a function's name unique is not part of an operator's name: `gelu1`
    is `gelu`, but `log2` is an operator.
    """
    stated = func.attrs.get(FUSED_OPERATORS)
    if stated is not None:
        return [str(operator) for operator in stated]
    plain = name.rstrip("0123456789")
    if plain == name:
        return [name]
    for end in range(len(name), len(plain) - 1, -1):
        if name[:end] in _operator_names():
            return [name[:end]]
    return [plain if plain in mod else name]


@cache
def _operator_names() -> frozenset[str]:
    return frozenset(name.rpartition(".")[2] for name in Operator.names())
