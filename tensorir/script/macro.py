"""Macros: suites that are read in place of a call, with the arguments as names.

Those of tensor functions are statements; one of graph functions may also return a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tensorir.errors import IRTypeError, IRValueError
from tensorir.script.scope import Scope
from tensorir.script.source import Source
from tensorir.script.syntax import Tree

if TYPE_CHECKING:
    from tensorir.script.evaluate import Evaluator

_DEEPEST: Final = 64
"""The depth to which macros may call macros: one that calls itself has no end."""


@dataclass(frozen=True, eq=False)
class Macro:
    """A macro, as `@T.macro` or `@R.macro` defines it.

    In a hygienic macro free names mean what they meant where it was defined, and the names of the
    caller are not seen; in another they mean what they mean at the call.
    """

    tree: Tree
    source: Source
    names: Mapping[str, Any]
    """The names that were visible at the definition."""
    trusted: bool
    hygienic: bool = True

    @property
    def name(self) -> str:
        """The name it was defined under."""
        return str(self.tree[2])

    def __repr__(self) -> str:
        return f"<macro {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> MacroCall:
        """Return the call, which becomes statements where it stands in a function."""
        return MacroCall(self, self._bind(args, kwargs))

    def __get__(self, owner: Any, kind: type | None = None) -> Callable[..., MacroCall]:
        """Return the macro as a method: its first parameter is the object it is called on."""
        return self if owner is None else partial(self, owner)

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments by parameter; IRTypeError if they do not fit, as Python words it."""
        remaining, named = list(args), dict(kwargs)
        bound: dict[str, Any] = {}
        for _, _, star, name, _, default in self.tree[3]:
            if star == "*":
                bound[name], remaining = tuple(remaining), []
            elif star == "**":
                bound[name], named = named, {}
            elif remaining:
                bound[name] = remaining.pop(0)
            elif name in named:
                bound[name] = named.pop(name)
            elif default is not None:
                bound[name] = Default(default)
            else:
                raise IRTypeError(f"macro {self.name}() is missing the argument {name!r}")
        if remaining or named:
            extra = next(iter(named), None)
            what = f"an unexpected argument {extra!r}" if extra else "too many arguments"
            raise IRTypeError(f"macro {self.name}() got {what}")
        return bound


@dataclass(frozen=True, eq=False)
class Default:
    """The default of a parameter, which is evaluated among the names of the definition alone."""

    tree: Tree


@dataclass(frozen=True, eq=False)
class MacroCall:
    """A macro and its arguments by parameter."""

    macro: Macro
    arguments: dict[str, Any]

    def __repr__(self) -> str:
        return f"<call of macro {self.macro.name}>"

    @contextmanager
    def opened(self, evaluate: Evaluator) -> Iterator[list[Tree]]:
        """Let `evaluate` see the names that the suite of the macro does, which is given.

        IRValueError if the macro calls itself without end.
        """
        macro = self.macro
        if evaluate.depth_of_macros >= _DEEPEST:
            raise IRValueError(f"macro {macro.name} calls itself without end")
        before = evaluate.source, evaluate.scope
        evaluate.depth_of_macros += 1
        evaluate.source = macro.source
        evaluate.scope = Scope(dict(macro.names), trusted=macro.trusted)
        try:
            values = {
                name: evaluate(value.tree) if isinstance(value, Default) else value
                for name, value in self.arguments.items()
            }
            if not macro.hygienic:
                evaluate.scope = before[1]
            evaluate.scope.push()
            try:
                for name, value in values.items():
                    evaluate.scope.define(name, value)
                yield macro.tree[5]
            finally:
                evaluate.scope.pop()
        finally:
            evaluate.source, evaluate.scope = before
            evaluate.depth_of_macros -= 1
