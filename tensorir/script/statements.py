"""The base of the readers of tensor functions and graph functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tensorir.errors import DiagnosticError, IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import Var
from tensorir.script.evaluate import Evaluator
from tensorir.script.scope import Scope
from tensorir.script.source import Place, Source
from tensorir.script.syntax import Tree, names_in, parse_expression


class StatementReader:
    """Reads the statements of a function; the method `read_<kind>` reads statements of a kind."""

    refused: ClassVar[Mapping[str, str]]
    """Kinds of statements that are errors in the function, each with the remedy."""

    def __init__(self, evaluate: Evaluator, private: bool) -> None:
        self._evaluate = evaluate
        self._private = private
        self._attrs: dict[str, Any] = {}

    @property
    def _scope(self) -> Scope:
        return self._evaluate.scope

    def _fail(self, message: str, place: Place) -> DiagnosticError:
        return self._evaluate.fail(message, place)

    def _statement(self, tree: Tree) -> Any:
        """Read a statement; an error without a place points at the statement."""
        kind, place = tree[:2]
        if kind in self.refused:
            raise self._fail(self.refused[kind], place)
        return self._evaluate.guarded(place, getattr(self, f"read_{kind}"), tree)

    def read_pass(self, _: Tree) -> None:
        """Read pass."""

    def read_import(self, _: Tree) -> None:
        """Skip an import: the names of the dialect are defined without it."""

    def _add_attrs(self, attrs: Mapping[str, Any]) -> None:
        """Add attributes of the function. Raises IRValueError for a duplicate.

        Newer releases of TVM write `tirx.*` for `tir.*`.
        """
        for written, value in attrs.items():
            key = written.replace("tirx.", "tir.", 1) if written.startswith("tirx.") else written
            if key in self._attrs:
                raise IRValueError(f"Duplicate prim func annotation for key {key!r}")
            self._attrs[key] = value

    def _named_attrs(self, name: str) -> dict[str, Any]:
        """Return the attributes of the function, with the symbol of a public one."""
        if not self._private:
            return {"global_symbol": name, **self._attrs}
        if "global_symbol" in self._attrs:
            raise IRValueError("a private function must not have a global_symbol")
        return self._attrs

    def _annotated_name(self, parameter: Tree, missing: str) -> tuple[str, Tree]:
        """Return the name and the annotation of a parameter; `missing` is the error without one."""
        _, place, star, name, annotation, default = parameter
        if star or default is not None:
            raise self._fail("only plain parameters without defaults are supported", place)
        if annotation is None:
            raise self._fail(missing.format(name=name), place)
        return name, annotation

    def _size(self, text: str, dtype: DataType, defines: bool = True) -> Any:
        """Return the size that a text in quotes describes; new names in it become variables."""
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
