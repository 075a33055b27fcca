"""Carets under nodes of a printed program, and comments next to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tensorir.function import BaseFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import IterVar, Var
from tensorir.nodes.node import Node
from tensorir.relax.expr import BindingBlock, MatchCast, VarBinding
from tensorir.script.print_names import Names
from tensorir.script.printer import Printer, PrintOptions

# Text between these characters is underlined; `quote` escapes them in strings of a program.
_BEGIN: Final = "\x02"
_END: Final = "\x03"
_OF_SEVERAL_LINES: Final = (s.For, s.Block, s.BlockRealize, s.IfThenElse, BaseFunc, BindingBlock)


@dataclass(frozen=True)
class Marks:
    """The nodes that are underlined or commented on, by identity."""

    nodes: frozenset[int]
    """Nodes to mark at every occurrence."""
    places: frozenset[tuple[int, int]]
    """Pairs of parent and child to mark, because a constant may be the child of several nodes."""
    notes: Mapping[int, str]

    @staticmethod
    def of_nodes(nodes: Iterable[Node], notes: Mapping[Node, str]) -> Marks:
        """Return marks on nodes, and comments on others."""
        comments = {id(node): text for node, text in notes.items()}
        return Marks(frozenset(id(node) for node in nodes), frozenset(), comments)

    def with_place(self, parent: Node, child: Node) -> Marks:
        """Return these marks and one on `child` as a child of `parent`."""
        if isinstance(child, (s.Stmt, BaseFunc, IterVar, VarBinding, MatchCast, BindingBlock)):
            return replace(self, nodes=self.nodes | {id(child)})
        return replace(self, places=self.places | {(id(parent), id(child))})

    def has(self, parent: Node | None, node: Node) -> bool:
        """Return True if `node` is marked as a child of `parent`."""
        return id(node) in self.nodes or (id(parent), id(node)) in self.places


class MarkingPrinter(Printer):
    """A printer that marks nodes in their text, and prints comments and carets."""

    def __init__(self, options: PrintOptions, names: Names, marks: Marks) -> None:
        super().__init__(options, names)
        self.marks = marks
        self.parent: Node | None = None
        """The node whose parts are being printed."""

    def inside(self, node: Node, printed: Callable[..., Any], *args: Any) -> Any:
        """Return `printed(*args)`, which prints parts of `node`."""
        before, self.parent = self.parent, node
        result = printed(*args)
        self.parent = before
        return result

    def marked(self, node: Node, text: str) -> str:
        """Return the text of a node, between marks if the node is to be underlined here."""
        return f"{_BEGIN}{text}{_END}" if self.marks.has(self.parent, node) else text

    def var(self, var: Var) -> str:
        """Return the marked name of a variable."""
        return self.marked(var, super().var(var))

    def buffer(self, buffer: Buffer) -> str:
        """Return the marked name of a buffer."""
        return self.marked(buffer, super().buffer(buffer))

    def declaration(self, buffer: Buffer, constructor: str, source: str = "") -> str:
        """Return the call that makes a buffer, with its parts marked."""
        text = self.inside(buffer, super().declaration, buffer, constructor, source)
        return str(text)

    def stmt(self, node: s.Stmt, last: bool = False) -> None:
        """Print a statement with its parts marked."""
        self.inside(node, super().stmt, node, last)

    def __call__(self, node: Any, loosest: int = 0) -> str:
        """Return the marked text of an expression."""
        return self.marked(node, self.inside(node, super().__call__, node, loosest))

    def region(self, region: BufferRegion) -> str:
        """Return the marked text of a region."""
        return self.marked(region, self.inside(region, super().region, region))

    def range(self, values: Range) -> str:
        """Return the marked text of a dimension of a region."""
        return self.marked(values, self.inside(values, super().range, values))

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


def _is_nest(nodes: tuple[Node, ...]) -> bool:
    return len(nodes) > 1 and isinstance(nodes[0], s.For)


def _carets(text: str) -> tuple[str, str]:
    """Return a text without its marks, and the carets to print under it."""
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
