"""Applying unroll pragmas to loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from codegen.lower.forms import EXPLICIT, LEFT_TO_BACKEND, MAX_STEP, PIECES
from codegen.lower.rewriters import StatementRewriter
from codegen.lower.thread_axes import tensor_core_of
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import IntImm

MAX_DEPTH: Final = 8
MAX_COPIES: Final = 256
"""The maximum number of statements (including native vectors) of an unrolled nest: more copies do
not run faster, but LLVM needs a second to compile them.
"""


def mark_unrolled(func: PrimFunc) -> PrimFunc:
    """Turn serial loops into unrolled loops according to the pragmas on outer loops.

    Before: for i (pragma_auto_unroll_max_step=16): for j in 4: for k in 4: S
    After:  for i: for j in T.unroll(4): for k in T.unroll(4): S

    From the innermost loop outwards, a serial loop is unrolled if it contains no other remaining
    loop, at most eight unrolled loops are nested, and its extent times the number of statements in
    it (including copies) is at most the step. A statement that was split into native vectors counts
    once for the step, but the vectors count for `MAX_COPIES`. With `pragma_unroll_explicit` the
    copies are written out by `unroll`, without it they are left to LLVM.
    """
    return func.with_body(_MarkUnrolled()(func.body))


@dataclass(slots=True)
class _Size:
    """The size of a statement: number of statements, unrolled and other loops nested in it."""

    steps: int = 0
    copies: int = 0
    unrolled: int = 0
    others: int = 0


class _MarkUnrolled(StatementRewriter):
    def __init__(self) -> None:
        self._max_step = 0
        self._explicit = True
        self._size = _Size()

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        self._size.steps += 1
        self._size.copies += 1
        return node

    def rewrite_Evaluate(self, node: s.Evaluate) -> s.Stmt:  # noqa: N802
        self._size.steps += 1
        self._size.copies += 1
        return node

    def rewrite_AttrStmt(self, node: s.AttrStmt) -> s.Stmt:  # noqa: N802
        if tensor_core_of(node) is None:
            return self.generic(node)
        self._size.steps += 1
        self._size.copies += 1
        return node

    def rewrite_SeqStmt(self, node: s.SeqStmt) -> s.Stmt:  # noqa: N802
        total = self._size
        parts = []
        for part in node.seq:
            self._size = _Size()
            parts.append(self(part))
            total.steps += self._size.steps
            total.copies += self._size.copies
            total.unrolled = max(total.unrolled, self._size.unrolled)
            total.others = max(total.others, self._size.others)
        self._size = total
        return (
            node if all(a is b for a, b in zip(parts, node.seq, strict=True)) else s.sequence(parts)
        )

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        outer = self._max_step, self._explicit
        notes = node.annotations
        if notes:
            self._max_step = int(notes.get(MAX_STEP, self._max_step))
            self._explicit = bool(int(notes.get(EXPLICIT, self._explicit)))
        body = self(node.body)
        changed = self._loop(node, body)
        self._max_step, self._explicit = outer
        return changed

    def _loop(self, node: s.For, body: s.Stmt) -> s.Stmt:
        if PIECES in node.annotations:
            self._size.copies *= int(node.extent)  # type: ignore[call-overload]
            return node.changed(body=body)
        size, kind, notes = self._size, node.kind, node.annotations
        extent = node.extent.value if type(node.extent) is IntImm else None
        if (
            kind is s.ForKind.SERIAL
            and extent is not None
            and extent > 1
            and size.others == 0
            and size.unrolled <= MAX_DEPTH
            and extent * size.steps <= self._max_step
            and extent * size.copies <= MAX_COPIES
        ):
            kind = s.ForKind.UNROLLED
            if not self._explicit:
                notes = notes.with_item(LEFT_TO_BACKEND, 1)
        if kind is s.ForKind.UNROLLED and extent is not None:
            size.steps *= extent
            size.copies *= extent
            size.unrolled += 1
        elif extent != 1:
            size.others += 1
        return node.changed(body=body, kind=kind, annotations=notes)
