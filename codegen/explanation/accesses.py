"""The loads, stores and updates of a program whose loops are vectors but not yet unrolled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from codegen.explanation.facts import Access, Accumulator, InnerLoop, Pattern
from codegen.lower.remarks import Remarks
from codegen.target import Target
from tensorir.arith import Analyzer
from tensorir.arith.terms import expr_key
from tensorir.comparison.equal import structural_equal
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import (
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    IntImm,
    PrimExpr,
    Ramp,
    Shuffle,
    Var,
)
from tensorir.nodes.intrin import Op
from tensorir.nodes.node import Node
from tensorir.nodes.ops import add, cast, mul, sub
from tensorir.nodes.stmt import ForKind
from tensorir.rewriting.visit import children, ruled, substitute, uses_var, walk

Loops: TypeAlias = tuple[s.For, ...]
_IF_THEN_ELSE: Final = Op.get("if_then_else")
_LANE: Final = Var("lane")


def remains(loop: s.For) -> bool:
    """Return True if a loop that is not unrolled is a loop in machine code."""
    return loop.kind in (ForKind.SERIAL, ForKind.PARALLEL) and constant_extent(loop) != 1


def constant_extent(loop: s.For) -> int | None:
    """Return the number of iterations of a loop, None if it depends on the arguments."""
    return loop.extent.value if isinstance(loop.extent, IntImm) else None


def _copies(loops: Iterable[s.For]) -> int:
    """Return the number of copies of a body that unrolling these loops makes."""
    return math.prod(constant_extent(loop) or 1 for loop in loops if loop.kind is ForKind.UNROLLED)


@dataclass(frozen=True, slots=True)
class _Place:
    """The loops around a statement, and whether a condition guards it."""

    loops: Loops = ()
    is_guarded: bool = False

    def innermost(self) -> int:
        """Return the position after the innermost loop that remains, 0 if there is none."""
        return max((k for k, loop in enumerate(self.loops, 1) if remains(loop)), default=0)


@dataclass(slots=True)
class _Count:
    """The buffers, updates and memory accesses of one iteration of an innermost loop."""

    name: str
    buffers: dict[str, None] = field(default_factory=dict)
    updates: int = 0
    has_loop: bool = False
    memory: list[tuple[Var, Access]] = field(default_factory=list)
    """The accesses to memory with their pointers."""

    def total(self, kind: str) -> int:
        """Return the number of loads or stores that depend on the loop."""
        stored = {pointer for pointer, access in self.memory if access.kind == "store"}
        return sum(
            access.times
            for pointer, access in self.memory
            if access.kind == kind and (access.step != 0 or pointer in stored)
        )


@dataclass(slots=True)
class MemoryReader:
    """Reads the facts about memory from a function before `unroll`.

    The remarks of `promote_accumulators` tell which memory is kept in registers, so the function
    must have been lowered completely.
    """

    function: str
    remarks: Remarks
    target: Target
    accumulators: list[Accumulator] = field(default_factory=list)
    ordered: set[Var] = field(default_factory=set)
    """Variables of the loops that sum scalar floats, which prevents vectors."""
    _accesses: Counter[tuple[s.For | None, Access]] = field(default_factory=Counter)
    """The number of equal accesses in an iteration of the innermost loop around them."""
    _counts: dict[s.For, _Count] = field(default_factory=dict)
    _allocated: dict[Var, int] = field(default_factory=dict)
    """The number of loops around the allocation of each pointer."""

    def read(self, func: PrimFunc) -> None:
        """Read a function."""
        self._visit(func.body, _Place())

    @property
    def accesses(self) -> list[Access]:
        """The accesses, in program order."""
        return [replace(access, times=times) for (_, access), times in self._accesses.items()]

    @property
    def inner_loops(self) -> list[InnerLoop]:
        """The loops with updates and no other loop inside."""
        return [
            InnerLoop(
                self.function,
                c.name,
                tuple(c.buffers),
                c.updates,
                c.total("load"),
                c.total("store"),
            )
            for c in self._counts.values()
            if c.updates and not c.has_loop
        ]

    # ---------------------------------------------------------------------------------- statements

    def _visit(self, node: s.Stmt, place: _Place) -> None:
        if isinstance(node, s.For):
            self._loop(node, place)
        elif isinstance(node, s.BufferStore):
            self._store(node, place)
        elif isinstance(node, s.IfThenElse):
            self._loads(node.condition, "condition", place)
            for case in (node.then_case, node.else_case):
                if case is not None:
                    self._visit(case, replace(place, is_guarded=True))
        else:
            if isinstance(node, s.Allocate):
                self._allocated[node.buffer_var] = len(place.loops)
            label = node.var.name if isinstance(node, s.LetStmt) else "call"
            for part in children(node):
                if isinstance(part, s.Stmt):
                    self._visit(part, place)
                else:
                    self._loads(part, label, place)

    def _loop(self, node: s.For, place: _Place) -> None:
        inside = _Place((*place.loops, node), place.is_guarded)
        if remains(node):
            around = place.innermost()
            if around:
                self._counts[place.loops[around - 1]].has_loop = True
            self._counts[node] = _Count(self._name(node))
            inside = replace(inside, is_guarded=False)
        self._visit(node.body, inside)

    def _name(self, loop: s.For) -> str:
        return self.remarks.origin(loop.loop_var).name

    def _store(self, node: s.BufferStore, place: _Place) -> None:
        (index,) = node.indices
        updates = any(
            type(part) is BufferLoad
            and part.buffer.data is node.buffer.data
            and structural_equal(part.indices[0], index)
            for part in walk(node.value)
        )
        label = f"update of {node.buffer.name}" if updates else node.buffer.name
        lanes = node.value.dtype.lanes
        self._loads(node.value, label, place, lanes)
        self._access("store", node.buffer, index, node.predicate, label, place, lanes)
        if updates:
            self._update(node.buffer, index, place)
            position = place.innermost()
            if position:
                count = self._counts[place.loops[position - 1]]
                count.updates += _copies(place.loops[position:])
                count.buffers[node.buffer.name] = None

    # ------------------------------------------------------------------------------------ accesses

    def _loads(self, value: Node, label: str, place: _Place, lanes: int = 1) -> None:
        seen = set()
        stack: list[tuple[Node, _Place]] = [(value, place)]
        while stack:
            part, where = stack.pop()
            if isinstance(part, BufferLoad):
                (index,) = part.indices
                key = part.buffer.data, expr_key(index), part.predicate is None
                if key not in seen:
                    seen.add(key)
                    self._access("load", part.buffer, index, part.predicate, label, where, lanes)
            parts = [(inner, where) for inner in children(part)]
            if isinstance(part, Call) and part.op is _IF_THEN_ELSE:
                guarded = replace(where, is_guarded=True)
                parts[1:] = [(inner, guarded) for inner, _ in parts[1:]]
            stack.extend(reversed(parts))

    def _access(
        self,
        kind: Literal["load", "store"],
        buffer: Buffer,
        index: PrimExpr,
        predicate: PrimExpr | None,
        statement: str,
        place: _Place,
        statement_lanes: int,
    ) -> None:
        position = place.innermost()
        loop = place.loops[position - 1] if position else None
        written_out = [n for n in place.loops[position:] if uses_var(index, n.loop_var)]
        pattern, stride = _pattern(index, statement_lanes)
        access = Access(
            function=self.function,
            kind=kind,
            buffer=buffer.name,
            statement=statement,
            loop=self._name(loop) if loop is not None else "",
            times=_copies(written_out),
            lanes=1 if pattern in ("element", "broadcast") else index.dtype.lanes,
            pattern=pattern,
            stride=stride,
            step=_step(index, loop.loop_var) if loop is not None else 0,
            masked=predicate is not None,
            guarded=place.is_guarded,
            in_register=self._keeping_loop(buffer, place) is not None,
        )
        self._accesses[loop, replace(access, times=0)] += access.times
        if loop is not None and not access.in_register:
            self._counts[loop].memory.append((buffer.data, access))

    # -------------------------------------------------------------------------------- accumulators

    def _keeping_loop(self, buffer: Buffer, place: _Place) -> int | None:
        """Return the number of loops around the registers that keep a buffer.

        None without registers.
        """
        pointer = self.remarks.origin(buffer.data)
        for position, loop in enumerate(place.loops):
            about = self.remarks.of_loop(self.remarks.origin(loop.loop_var), "promote_accumulators")
            if any(r.is_done and r.buffer is pointer for r in about):
                return position
        if any(r.is_done and r.loop is None and r.buffer is pointer for r in self.remarks.made):
            return self._allocated.get(buffer.data, 0)
        return None

    def _update(self, buffer: Buffer, index: PrimExpr, place: _Place) -> None:
        """Record the accumulator of an update that a loop repeats."""
        position = self._keeping_loop(buffer, place)
        own = self._allocated.get(buffer.data, 0)
        inside = place.loops[own if position is None else position :]
        indexing = [loop for loop in inside if uses_var(index, loop.loop_var)]
        over = [loop for loop in inside if remains(loop) and loop not in indexing]
        is_written_out = any(
            loop.kind is ForKind.UNROLLED and loop not in indexing for loop in inside
        )
        if not over and not is_written_out:
            return
        made = Accumulator(
            self.function,
            buffer.name,
            str(buffer.dtype),
            index.dtype.lanes,
            _copies(indexing),
            "registers",
            self._name(over[0]) if over else "",
        )
        if position is None:
            made = self._describe_unkept(made, buffer, index, place, over)
        else:
            made = replace(
                made, note="; ".join(self._watch(made, place.loops[own:position], index))
            )
        is_scalar_float = made.lanes == 1 and buffer.dtype.is_floating
        if is_scalar_float and over and over[-1] is place.loops[place.innermost() - 1]:
            self.ordered.add(self.remarks.origin(over[-1].loop_var))
        if made not in self.accumulators:
            self.accumulators.append(made)

    def _watch(self, made: Accumulator, around: Loops, index: PrimExpr) -> list[str]:
        """Return notes on the remaining costs of an accumulator in registers inside these loops."""
        notes = []
        registers = self.target.vector_registers
        if made.count > registers:
            notes.append(f"the target has {registers} vector registers: some go to memory")
        again = [n for n in around if remains(n) and not uses_var(index, n.loop_var)]
        if again:
            notes.append(f"loaded and stored in each iteration of {self._name(again[-1])}")
        return notes

    def _describe_unkept(
        self, made: Accumulator, buffer: Buffer, index: PrimExpr, place: _Place, over: list[s.For]
    ) -> Accumulator:
        if not over:
            return replace(made, home="left to LLVM", note="its loops are unrolled")
        inner = [n for n in place.loops[place.innermost() :] if uses_var(index, n.loop_var)]
        made = replace(made, loop=self._name(over[-1]), count=_copies(inner))
        pointer = self.remarks.origin(buffer.data)
        for loop in reversed(over):
            about = self.remarks.of_loop(self.remarks.origin(loop.loop_var), "promote_accumulators")
            for r in about:
                if not r.is_done and r.buffer is pointer:
                    return replace(made, home="memory", note=r.text)
                if not r.is_done and r.buffer is None:
                    return replace(made, home="left to LLVM", note=r.text)
        return replace(made, home="memory")


def _pattern(index: PrimExpr, statement_lanes: int) -> tuple[Pattern, int | str | None]:
    """Return the pattern of the lanes of an access and their distance in elements."""
    if index.dtype.lanes == 1:
        return ("element", None) if statement_lanes == 1 else ("broadcast", 0)
    stride = _step(index, _LANE)
    names: dict[int | str | None, Pattern] = {
        None: "irregular", 0: "broadcast", 1: "contiguous", -1: "reversed",
    }  # fmt: skip
    return names.get(stride, "strided"), stride


def _step(index: PrimExpr, var: Var) -> int | str | None:
    """Return the step of an index along a loop or from lane to lane; None if it is not constant."""
    if any(type(part) in (BufferLoad, Call, Shuffle) for part in walk(index)):
        return None if var is _LANE or uses_var(index, var) else 0
    index = _OF_ONE_LANE(index)
    if not uses_var(index, var):
        return 0
    step = Analyzer().simplify(sub(substitute(index, {var: add(var, 1)}), index))
    while isinstance(step, Cast):
        step = step.value
    if isinstance(step, IntImm):
        return step.value
    return None if uses_var(step, var) else str(step)


_OF_ONE_LANE: Final = ruled(
    before={
        Ramp: lambda n, _: add(n.base, mul(n.stride, cast(n.stride.dtype, _LANE))),
        Broadcast: lambda n, _: n.value,
        Cast: lambda n, r: cast(n.dtype.element, r(n.value)),
    }
)
"""Turns a vector index into the index of one lane, `_LANE`."""
