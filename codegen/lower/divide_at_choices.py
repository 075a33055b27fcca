"""Dividing loops at the iterations where a choice between values changes.

Index set splitting (Banerjee, "Dependence Analysis for Supercomputing", 1988) of loops that copy
and compute: a choice in each iteration prevents vector code.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from codegen.lower.integer_conditions import ComparisonDecider, Reader
from codegen.lower.remarks import RemarkedCopy, done
from codegen.lower.rewriters import StatementRewriter
from codegen.lower.unroll import statement_count
from tensorir.arith.terms import choice_of
from tensorir.function import PrimFunc
from tensorir.memory.value_variables import value_variables
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import BufferLoad, CmpOp, IntImm, PrimExpr, Var
from tensorir.nodes.ops import const
from tensorir.rewriting.visit import walk

MOST: Final = 64
"""The maximum number of stores in all pieces of a loop."""


def divide_at_choices(func: PrimFunc) -> PrimFunc:
    """Split a loop into pieces that each take the same side of its selects.

    Before: for i in 96: C[i] = T.if_then_else(i >= 64, B[i - 64], A[i])
    After:  for i in 64: C[i] = A[i]
            for i in range(64, 96): C[i] = B[i - 64]

    The conditions are comparisons of the loop's variable with constants. The pass divides serial
    loops of constant extent without annotations that contain only stores, and do not load from
    stored buffers. It divides outer loops first, as long as the pieces have at most `MOST` stores.
    The order of execution stays.
    """
    divider = _Divider(Reader(value_variables(func)))
    return func.with_body(divider(func.body))


class _Divider(StatementRewriter):
    def __init__(self, reader: Reader) -> None:
        self._read = reader
        self._decide = ComparisonDecider(reader)

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        """Return a loop, or its pieces one after another."""
        if type(node.min) is not IntImm or type(node.extent) is not IntImm:
            return self.generic(node)
        first, end = node.min.value, node.min.value + node.extent.value
        borders = sorted(self._borders(node, first, end))
        if not borders:
            return self.generic(node)
        pieces: list[s.Stmt] = []
        for low, high in pairwise([first, *borders, end]):
            piece = RemarkedCopy()(node) if pieces else node
            bounds = const(low, node.loop_var.dtype), const(high - low, node.loop_var.dtype)
            piece = piece.with_(min=bounds[0], extent=bounds[1])
            self._decide.facts.ranges[piece.loop_var] = low, high - 1
            pieces.append(piece.with_(body=self(self._decide(piece.body))))
            del self._decide.facts.ranges[piece.loop_var]
        done("divide_at_choices", f"{len(pieces)} pieces without choices", node.loop_var)
        return s.sequence(pieces)

    def _borders(self, loop: s.For, first: int, end: int) -> set[int]:
        """Return the iterations where a select changes its side; empty if the loop stays whole."""
        if loop.kind is not s.ForKind.SERIAL or loop.annotations or not _only_copies(loop.body):
            return set()
        borders = set()
        for part in walk(loop.body):
            choice = choice_of(part) if isinstance(part, PrimExpr) else None
            if choice is not None:
                borders |= {b for b in self._changes(choice[0], loop.loop_var) if first < b < end}
        stores = (len(borders) + 1) * statement_count(loop.body, lambda _: False)
        return borders if stores <= MOST else set()

    def _changes(self, condition: PrimExpr, var: Var) -> Iterator[int]:
        """Yield the values of a variable at which its comparison with a constant changes."""
        read = self._read(condition) if isinstance(condition, CmpOp) else None
        if read is None or read.lanes > 1 or set(read.terms) != {var}:
            return
        factor = read.terms[var]
        # factor * var + constant >= 0
        yield -(read.constant // factor) if factor > 0 else read.constant // -factor + 1


def _only_copies(body: s.Stmt) -> bool:
    """Return True if a body has only loops and stores, and does not load from stored buffers."""
    stored, loaded = set(), set()
    for part in walk(body):
        if isinstance(part, s.BufferStore):
            stored.add(part.buffer.data)
        elif isinstance(part, BufferLoad):
            loaded.add(part.buffer.data)
        elif isinstance(part, s.Stmt) and not isinstance(part, (s.For, s.SeqStmt)):
            return False
    return stored.isdisjoint(loaded)
