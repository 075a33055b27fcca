"""Carets under marked nodes in a printed program, and comments beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tensorir.function import BaseFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import IterVar
from tensorir.nodes.node import Node
from tensorir.relax.expr import BindingBlock, MatchCast, VarBinding
from tensorir.script.print_expr import ExprPrinter
from tensorir.script.print_names import Names
from tensorir.script.print_options import PrintOptions
from tensorir.script.printer import Printer

# Text between these is underlined; `quote` escapes them where a program has them.
_BEGIN: Final = "\x02"
_END: Final = "\x03"
_OF_SEVERAL_LINES: Final = (s.For, s.Block, s.BlockRealize, s.IfThenElse, BaseFunc, BindingBlock)


@dataclass(frozen=True)
class Marks:
    """The nodes that are underlined or commented on, by identity."""

    nodes: frozenset[int]
    """Nodes wherever they occur."""
    places: frozenset[tuple[int, int]]
    """Nodes as children of particular nodes: a constant is one object wherever it occurs."""
    notes: Mapping[int, str]

    @staticmethod
    def of_nodes(nodes: Iterable[Node], notes: Mapping[Node, str]) -> Marks:
        """Return the marks of nodes and the comments on others."""
        comments = {id(node): text for node, text in notes.items()}
        return Marks(frozenset(id(node) for node in nodes), frozenset(), comments)

    def with_place(self, parent: Node, child: Node) -> Marks:
        """Return these marks and one on `child` as a child of `parent`."""
        if isinstance(child, (s.Stmt, BaseFunc, IterVar, VarBinding, MatchCast, BindingBlock)):
            return replace(self, nodes=self.nodes | {id(child)})
        return replace(self, places=self.places | {(id(parent), id(child))})

    def has(self, parent: Node | None, node: Node) -> bool:
        """Say whether `node` is marked where it is a child of `parent`."""
        return id(node) in self.nodes or (id(parent), id(node)) in self.places


def _marked(method: Callable[..., str]) -> Any:
    """Return a method that gives the text of a node, with what underlines it."""

    def text(self: MarkingPrinter, node: Node) -> str:
        return self.marked(node, method(self, node))

    return text


def _inside(method: Callable[..., Any]) -> Any:
    """Return a method that prints the parts of a node."""

    def printed(self: MarkingPrinter, node: Node, *args: Any) -> Any:
        return self.inside(node, method, self, node, *args)

    return printed


def _marked_inside(method: Callable[..., str]) -> Any:
    """Return a method of an expression printer that gives the text of a node and its parts."""

    def text(self: _MarkingExprPrinter, node: Node, *args: Any) -> str:
        printer = self._printer
        return printer.marked(node, printer.inside(node, method, self, node, *args))

    return text


class MarkingPrinter(Printer):
    """A printer that points things out."""

    def __init__(self, options: PrintOptions, names: Names, marks: Marks) -> None:
        super().__init__(options, names)
        self.expr = _MarkingExprPrinter(self)
        self.marks = marks
        self.parent: Node | None = None
        """The node whose parts are being printed."""

    def inside(self, node: Node, printed: Callable[..., Any], *args: Any) -> Any:
        """Return the result of a method that prints the parts of `node`."""
        before, self.parent = self.parent, node
        result = printed(*args)
        self.parent = before
        return result

    def marked(self, node: Node, text: str) -> str:
        """Return the text of a node, with what underlines it if that is wanted here."""
        return f"{_BEGIN}{text}{_END}" if self.marks.has(self.parent, node) else text

    def line(self, text: str, *nodes: Node) -> None:
        """Add a line, and a line of carets and comments where nodes or parts are marked."""
        for node in nodes:
            note = self.marks.notes.get(id(node))
            if note is not None and isinstance(node, _OF_SEVERAL_LINES):
                for part in note.splitlines():
                    super().line(f"# {part}")
        plain, carets = _carets(text)
        if any(id(node) in self.marks.nodes for node in nodes) and not _is_nest(nodes):
            carets = "^" * len(plain)
        for node in nodes:
            note = self.marks.notes.get(id(node))
            if note is not None and not isinstance(node, _OF_SEVERAL_LINES):
                plain += f"  # {' '.join(note.splitlines())}"
        super().line(plain)
        if carets:
            super().line(carets)

    var = _marked(Printer.var)
    buffer = _marked(Printer.buffer)
    loop_name = _marked(Printer.loop_name)
    axis_name = _marked(Printer.axis_name)
    buffer_type = _inside(Printer.buffer_type)
    stmt = _inside(Printer.stmt)
    binding = _inside(Printer.binding)
    part = _inside(Printer.part)
    function = _inside(Printer.function)
    signature = _inside(Printer.signature)
    declaration = _inside(Printer.declaration)


class _MarkingExprPrinter(ExprPrinter):
    """An expression printer that points things out."""

    _printer: MarkingPrinter
    __call__ = _marked_inside(ExprPrinter.__call__)
    region = _marked_inside(ExprPrinter.region)
    range = _marked_inside(ExprPrinter.range)


def _is_nest(nodes: tuple[Node, ...]) -> bool:
    return len(nodes) > 1 and isinstance(nodes[0], s.For)


def _carets(text: str) -> tuple[str, str]:
    """Return a text without the marks in it, and the carets that belong under it."""
    if _BEGIN not in text:
        return text, ""
    plain: list[str] = []
    carets: list[str] = []
    depth = 0
    for char in text:
        if char in (_BEGIN, _END):
            depth += 1 if char == _BEGIN else -1
        else:
            plain.append(char)
            carets.append("^" if depth else " ")
    return "".join(plain), "".join(carets).rstrip()
