"""The methods of `Schedule` that come from the registry of primitives.

Registering a primitive adds its method here. The signatures that type checkers and editors see are
in `methods.pyi`, which `python -m schedule.stubs` writes from the registry.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from schedule.instruction import InstructionKind, on_register


class PrimitiveMethods:
    """One method for every registered primitive."""

    def _call(self, kind: InstructionKind, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        raise NotImplementedError


def _install(kind: InstructionKind) -> None:
    if hasattr(PrimitiveMethods, kind.method):
        raise ValueError(f"Schedule has a method called {kind.method} already")

    def method(self: PrimitiveMethods, *args: Any, **kwargs: Any) -> Any:
        return self._call(kind, args, kwargs)

    method.__name__ = kind.method
    method.__qualname__ = f"Schedule.{kind.method}"
    method.__doc__ = inspect.getdoc(kind.function)
    signature = inspect.signature(kind.function)
    shown = [p for p in signature.parameters.values() if p.name not in kind.injected]
    if kind.returns_domain:
        shown.append(inspect.Parameter("decision", inspect.Parameter.KEYWORD_ONLY, default=None))
    method.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[shown[0].replace(name="self", annotation=inspect.Parameter.empty), *shown[1:]]
    )
    setattr(PrimitiveMethods, kind.method, method)


on_register(_install)
