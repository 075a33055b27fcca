"""The operators and calls of graph functions, under the names of TVM's `relax.op`.

Operators are looked up by name: `relax.op.add(x, y)`, `relax.op.nn.softmax(x, axis=-1)`.
"""

from __future__ import annotations

from typing import Any, cast

from tensorir.relax.calls import (
    call_dps_packed,
    call_packed,
    call_pure_packed,
    call_tir,
    call_tir_inplace,
)
from tensorir.relax.expr import GraphCall
from tensorir.relax.operator import Operator

__all__ = ["call_dps_packed", "call_packed", "call_pure_packed", "call_tir", "call_tir_inplace"]


class _Name:
    """The name of an operator, or of a family of operators."""

    def __getattr__(self, name: str) -> _Name:
        raise AttributeError(name)

    def __call__(self, *args: Any, **kwargs: Any) -> GraphCall:
        """Return a call of the operator."""
        raise NotImplementedError


class _Family(_Name):
    """The operators with a common prefix, which ends in a dot."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> _Name:
        return _find(self._prefix, name)

    def __dir__(self) -> list[str]:
        return _names(self._prefix)


def _find(prefix: str, name: str) -> _Name:
    if Operator.exists(prefix + name):
        return cast("_Name", Operator.get(prefix + name))
    if any(known.startswith(f"{prefix}{name}.") for known in Operator.names()):
        return _Family(f"{prefix}{name}.")
    raise AttributeError(f"there is no operator relax.{prefix}{name}")


def _names(prefix: str) -> list[str]:
    rests = (name[len(prefix) :] for name in Operator.names() if name.startswith(prefix))
    return sorted({rest.split(".")[0] for rest in rests})


def __getattr__(name: str) -> _Name:
    """Return an operator, or a family of operators such as `nn`; AttributeError for others."""
    if name.startswith("__"):
        raise AttributeError(name)
    return _find("", name)


def __dir__() -> list[str]:
    """Return the names of calls, operators and families of operators."""
    return sorted({*__all__, *_names("")})
