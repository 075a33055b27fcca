"""Limits on the size of the program that a small model file may produce."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from tensorir.errors import IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from tensorir.rewriting.visit import walk


class ImportLimitError(IRValueError):
    """A model exceeds a limit while it is read; the text names the field of `ImportLimits`."""


@dataclass(frozen=True, kw_only=True)
class ImportLimits:
    """Limits for `from_onnx(model, limits=ImportLimits(max_nodes=10**6))`.

    A file of a few kilobytes can describe a program of any size: functions that call one another,
    loops, shapes, doubled integers. Exceeding a limit raises `ImportLimitError`. Two limits on
    integers and expressions that are computed while a model is read (`max_known_elements`,
    `max_terms`) do not raise an error: larger values are computed when the model runs.
    """

    max_nodes: int = 100_000
    """Nodes of the model; the nodes of a function count once for each call."""
    max_repeated_nodes: int = 10_000
    """Nodes that are read again: in rounds of loops and of SequenceMap, and in steps of loops whose
    values change their shapes.
    """
    max_depth: int = 100
    """Nesting depth of functions and graphs."""
    max_parts: int = 512
    """Outputs of one node, elements of a sequence of known length, and integers of one tensor that
    become sizes.
    """
    max_rank: int = 64
    """Dimensions of a tensor. NumPy arrays have 64 at most."""
    max_bytes: int = 1 << 38
    """Bytes of one tensor of known shape; an extent of 0 counts as 1."""
    max_known_elements: int = 4096
    """Elements of an integer tensor that are computed while the model is read."""
    max_terms: int = 256
    """Variables, numbers and operations in a symbolic shape, or in the known elements of an integer
    tensor. A shape replaces a longer expression by a new symbolic size, which the model computes
    when it runs."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise IRValueError(f"{name} must be an integer of at least 0, got {value!r}")

    def check(self, name: str, amount: int, what: str) -> None:
        """Raise ImportLimitError if an amount, described by `what`, is above the limit `name`."""
        most = getattr(self, name)
        if amount > most:
            raise ImportLimitError(
                f"{what}: {_amount_text(amount)}, at most {most:,} allowed; if the model is "
                "meant to be so large, raise the limit: "
                f"from_onnx(..., limits=ImportLimits({name}=...))"
            )

    def check_tensor(self, info: StructInfo, what: str) -> None:
        """Raise ImportLimitError for a tensor of too many dimensions or bytes."""
        if isinstance(info, TupleStructInfo):
            for k, field in enumerate(info.elements):
                self.check_tensor(field, f"{what}, part {k}")
        if not isinstance(info, TensorStructInfo):
            return
        self.check("max_rank", info.ndim, f"{what} has too many dimensions")
        if info.shape is not None:
            self.check_shape(info.shape, info.dtype, what)

    def check_shape(
        self, shape: Sequence[int | PrimExpr], dtype: DataType | None, what: str
    ) -> None:
        """Raise ImportLimitError for a tensor of too many bytes; extents may exceed 64 bits."""
        plain = [n.value if isinstance(n, IntImm) else n for n in shape]
        known = [max(abs(n), 1) for n in plain if isinstance(n, int)]
        width = 1 if dtype is None else dtype.nbytes
        text = f"({', '.join(map(str, plain))})"
        self.check(
            "max_bytes", math.prod(known) * width, f"{what} of shape {text} has too many bytes"
        )

    def has_few_terms(self, exprs: Iterable[object]) -> bool:
        """Return whether expressions have at most `max_terms` terms, integers not counted."""
        left = self.max_terms
        for expr in exprs:
            if not isinstance(expr, PrimExpr) or isinstance(expr, IntImm):
                continue
            for _ in walk(expr):
                left -= 1
                if left < 0:
                    return False
        return True


DEFAULT_LIMITS = ImportLimits()


def _amount_text(amount: int) -> str:
    return f"{amount:,}" if amount < 1 << 64 else f"about 2^{amount.bit_length() - 1}"


_NODES_OF_ROUNDS: Final = 96
"""The maximum number of nodes in all unrolled rounds of nested loops."""


class Repeats:
    """Counts the nodes of subgraphs, and the nodes that are read again.

    Short loops are unrolled, sequences of known length are read element by element, and the step of
    a loop is read again if its values change their shapes. So nested loops can turn a small graph
    into a large program.
    """

    def __init__(self, limits: ImportLimits) -> None:
        self._limits = limits
        self._inside: list[Any] = []
        """The nodes that are being read, from the outermost to the innermost."""
        self._read: dict[tuple[int, ...], Any] = {}
        """The messages of each graph that was read, by their identities (keeps them alive)."""
        self._changing: dict[tuple[int, ...], Any] = {}
        self._nodes = 0
        self._repeated = 0
        self._left_for_rounds = _NODES_OF_ROUNDS

    @contextmanager
    def node(self, proto: Any) -> Iterator[None]:
        """Read a node in a `with` statement."""
        self._inside.append(proto)
        try:
            yield
        finally:
            self._inside.pop()

    def _key(self, *more: Any) -> tuple[int, ...]:
        return tuple(map(id, [*self._inside, *more]))

    def enter(self, graph: Any) -> None:
        """Count the nodes of a graph.

        Raises ImportLimitError for too many nodes or repeated nodes.
        """
        count = 1 + len(graph.node)
        self._nodes += count
        self._limits.check("max_nodes", self._nodes, "the graphs inside of nodes have too many")
        key = self._key(graph)
        if key in self._read:
            self._repeated += count
            self._limits.check(
                "max_repeated_nodes",
                self._repeated,
                f"the graph {graph.name!r} of a loop or sequence is read again and again, and too "
                "many nodes are",
            )
        self._read[key] = (*self._inside, graph)

    def rounds(self, graph: Any) -> int:
        """Return the maximum number of rounds of a graph that may be unrolled."""
        return self._left_for_rounds // _nodes_of(graph)

    @contextmanager
    def reading_rounds(self, count: int) -> Iterator[None]:
        """Unroll `count` rounds of a loop; its inner loops share the remaining rounds."""
        before = self._left_for_rounds
        self._left_for_rounds //= max(count, 1)
        try:
            yield
        finally:
            self._left_for_rounds = before

    def changing(self) -> dict[int, Any]:
        """Return the recorded shape changes of the values that the loop of this node carries.

        An inner loop is read again with each reading of the outer loop, and starts with the changes
        found before. The caller adds new changes to the returned dictionary.
        """
        known: dict[int, Any] = self._changing.setdefault(self._key(), {})
        return known


def _nodes_of(graph: Any) -> int:
    """Return the number of nodes of a graph, including nested graphs; at least 1."""
    inner = [g for n in graph.node for a in n.attribute for g in [a.g, *a.graphs] if g.node]
    return max(1, len(graph.node) + sum(map(_nodes_of, inner)))
