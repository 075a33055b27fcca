"""Macros: a call is replaced by the statements of the macro, with the arguments bound to its
parameters.

The macros of graph functions may also return a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Final

from tensorir.errors import IRTypeError, IRValueError
from tensorir.script.scope import Scope
from tensorir.script.source import Source
from tensorir.script.syntax import Tree

if TYPE_CHECKING:
    from tensorir.script.evaluate import Evaluator

_DEEPEST: Final = 64
"""The limit on nested macro calls; a macro that calls itself exceeds it."""


@dataclass(frozen=True, eq=False)
class Macro:
    """A macro, as `@T.macro` or `@R.macro` defines it.

    The free names of a hygienic macro are looked up at its definition, those of another macro at
    the call.
    """

    tree: Tree
    source: Source
    names: Mapping[str, Any]
    """The names that were visible at the definition."""
    trusted: bool
    hygienic: bool = True

    @property
    def name(self) -> str:
        """The name in its definition."""
        return str(self.tree[2])

    def __repr__(self) -> str:
        return f"<macro {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> MacroCall:
        """Return a `MacroCall`; the reader replaces it by the statements of the macro."""
        return MacroCall(self, self._bind(args, kwargs))

    def __get__(self, owner: Any, kind: type | None = None) -> Callable[..., MacroCall]:
        """Return the macro as a method, with `owner` as its first argument."""
        return self if owner is None else partial(self, owner)

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments by parameter.

        Raises IRTypeError if they do not match the parameters.
        """
        parameters: list[Parameter] = []
        kind: Any = Parameter.POSITIONAL_OR_KEYWORD
        for _, _, star, name, _, default in self.tree[3]:
            own = {"*": Parameter.VAR_POSITIONAL, "**": Parameter.VAR_KEYWORD}.get(star, kind)
            given = Parameter.empty if default is None else Default(default)
            parameters.append(Parameter(name, own, default=given))
            kind = Parameter.KEYWORD_ONLY if star else kind
        try:
            bound = Signature(parameters).bind(*args, **kwargs)
        except TypeError as error:
            raise IRTypeError(f"macro {self.name}(): {error}") from None
        bound.apply_defaults()
        return bound.arguments


@dataclass(frozen=True, eq=False)
class Default:
    """The default of a parameter, which is evaluated with the names of the definition."""

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
        """Set the names of `evaluate` to those of the macro in a `with` statement, and return its
        statements.

        Raises IRValueError for a macro whose recursion does not end.
        """
        macro = self.macro
        if evaluate.depth_of_macros >= _DEEPEST:
            raise IRValueError(f"the recursion of macro {macro.name} does not end")
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
