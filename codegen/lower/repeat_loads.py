"""Loop-invariant loads that a loop repeats in every iteration on purpose.

LLVM moves all invariant loads out of a loop, even if they are more than the registers. The other
values are copied to the stack: before each short loop around an unrolled tile of a product, a
hundred vectors of its operand.
"""

from __future__ import annotations

from typing import Any, Final

from codegen.lower.forms import REPEATED_LOADS
from codegen.lower.loop_accesses import Aliasing, FixedKeys
from codegen.lower.rewriters import StatementRewriter
from codegen.target import as_target
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import (
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    IntImm,
    Let,
    PrimExpr,
    Shuffle,
    Var,
)
from tensorir.rewriting.visit import children, defined, uses_var

MOST_ITERATIONS: Final = 16
"""The minimum number of iterations for which copying the loaded values costs little."""
_TEMPORARIES: Final = 2
"""Registers for the intermediate values of an iteration."""


def repeat_loads(func: PrimFunc) -> PrimFunc:
    """Annotate short innermost loops with the pointers to load through in every iteration.

    Before: for i in 4: R[0:8] = R[0:8] + A[i] * B[0:8] + A[i + 4] * B[8:16] + ...
    After:  for i in 4 (repeated_loads=[B]): (the same)

    LLVM may hoist invariant vectors as long as they fit into the registers of the target next to
    the accumulators, starting with the memory with the fewest such places. LLVM may also hoist
    vectors that are converted or shuffled, because that saves more than a load.
    """
    return func.with_body(_RepeatLoads(func, as_target(None).vector_registers)(func.body))


class _RepeatLoads(StatementRewriter):
    def __init__(self, func: PrimFunc, registers: int) -> None:
        self._registers = registers
        self._aliasing = Aliasing(func)
        self._loops = 0

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        before = self._loops
        body = self(node.body)
        is_innermost = self._loops == before
        self._loops += 1
        if (
            is_innermost
            and node.kind is s.ForKind.SERIAL
            and isinstance(node.extent, IntImm)
            and node.extent.value <= MOST_ITERATIONS
        ):
            again = _Loads(node, self._aliasing).pointers_to_reload(self._registers - _TEMPORARIES)
            if again:
                return node.with_(annotations=node.annotations.with_item(REPEATED_LOADS, again))
        return node.changed(body=body)


class _Loads:
    """The invariant vectors that an innermost loop loads."""

    def __init__(self, loop: s.For, aliasing: Aliasing) -> None:
        self._inside: set[Var] = {loop.loop_var}
        self._stored: set[Var] = set()
        self._local = aliasing.allocated
        self._registers: set[tuple[Var, Any]] = set()
        """The registers for accumulators and for vectors that LLVM hoists."""
        self._free: dict[Var, set[Any]] = {}
        """The invariant places by pointer."""
        self._seen: set[PrimExpr] = set()
        self._place = FixedKeys(self._inside)
        self._statement(loop.body)
        for pointer in [*self._free]:
            if aliasing.may_overlap({pointer}, self._stored):
                del self._free[pointer]

    def pointers_to_reload(self, registers: int) -> tuple[Var, ...]:
        """Return the pointers to load through again, so that this number of registers suffices."""
        left = registers - len(self._registers)
        again = []
        for pointer, places in sorted(self._free.items(), key=lambda item: len(item[1])):
            left -= len(places)
            if left < 0:
                again.append(pointer)
        return tuple(again)

    def _statement(self, node: s.Stmt) -> None:
        self._inside.update(defined(node))
        if isinstance(node, s.BufferStore):
            self._stored.add(node.buffer.data)
            (index,) = node.indices
            if node.buffer.data in self._local and index.dtype.lanes > 1:
                place = self._place(index)
                if place is not None:
                    self._registers.add((node.buffer.data, place))
        for part in children(node):
            if isinstance(part, s.Stmt):
                self._statement(part)
            else:
                self._value(part, not isinstance(node, s.LetStmt))  # type: ignore[arg-type]

    def _value(self, node: PrimExpr, is_operand: bool) -> None:
        """Visit a value; `is_operand` is True if it is used only in arithmetic."""
        if node in self._seen:
            return
        self._seen.add(node)
        kind = type(node)
        load = node.value if kind is Broadcast else node  # type: ignore[attr-defined]
        if type(load) is BufferLoad:
            if node.dtype.lanes > 1:
                self._load(load, is_operand)
            return
        is_operand = is_operand and kind not in (Cast, Shuffle, Call, Let)
        for part in children(node):
            self._value(part, is_operand)  # type: ignore[arg-type]

    def _load(self, node: BufferLoad, is_operand: bool) -> None:
        place = None if node.predicate is not None else self._place(node.indices[0])
        if place is None:
            return
        pointer = node.buffer.data
        is_register = pointer in self._local and not uses_var(node.indices[0], lambda var: True)
        if is_operand and not is_register and pointer not in self._inside:
            self._free.setdefault(pointer, set()).add(place)
        else:
            self._registers.add((pointer, place))
