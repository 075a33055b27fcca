"""What reading tensor functions and graph functions has in common: statements one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tensorir.errors import DiagnosticError, IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import Var
from tensorir.script.evaluate import Evaluator
from tensorir.script.parts import FunctionParts
from tensorir.script.scope import Scope
from tensorir.script.source import Place, Source
from tensorir.script.syntax import Tree, names_in, parse_expression


class StatementReader:
    """Reads the statements of a function: those of a kind by the method `read_<kind>`."""

    refused: ClassVar[Mapping[str, str]]
    """Kinds of statements that have no meaning in the function, and what to do instead."""

    def __init__(self, evaluate: Evaluator, private: bool) -> None:
        self._evaluate = evaluate
        self._function = FunctionParts(private)

    @property
    def _scope(self) -> Scope:
        return self._evaluate.scope

    def _fail(self, message: str, place: Place) -> DiagnosticError:
        return self._evaluate.fail(message, place)

    def _statement(self, tree: Tree) -> Any:
        """Read a statement; an error that shows no other place shows its."""
        kind, place = tree[:2]
        if kind in self.refused:
            raise self._fail(self.refused[kind], place)
        return self._evaluate.guarded(place, getattr(self, f"read_{kind}"), tree)

    def read_pass(self, _: Tree) -> None:
        """Read pass."""

    def read_import(self, _: Tree) -> None:
        """Read an import: what it names is known already."""

    def _annotated_name(self, parameter: Tree, missing: str) -> tuple[str, Tree]:
        """Return the name and the annotation of a parameter; `missing` is said without one."""
        _, place, star, name, annotation, default = parameter
        if star or default is not None:
            raise self._fail("only plain parameters without defaults are supported", place)
        if annotation is None:
            raise self._fail(missing.format(name=name), place)
        return name, annotation

    def _size(self, text: str, dtype: DataType, defines: bool = True) -> Any:
        """Return the size that a text in quotes stands for; it may define what it first names."""
        source = Source(text.strip(), "<a size in quotes>")
        tree = parse_expression(source)
        for name in names_in(tree):
            if self._scope.knows(name):
                continue
            if not defines:
                raise IRValueError(
                    f'the size "{name}" is not defined; write {name} = T.{dtype}() before'
                )
            self._scope.define(name, Var(name, dtype))
        return Evaluator(source, self._scope)(tree)
