"""The effect of each loop of a program on the buffers that are accessed under it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final

from search.arg_info import entry_name
from search.feature_extractor.stored_program import Bindings, loop_vars
from tensorir.function import IRModule
from tensorir.nodes import expr as e
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, IntImm, PrimExpr, Var
from tensorir.nodes.stmt import (
    BlockRealize,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)
from tensorir.rewriting.visit import walk

LOOP_KINDS: Final = (
    "blockIdx.x",
    "blockIdx.y",
    "blockIdx.z",
    "threadIdx.x",
    "threadIdx.y",
    "threadIdx.z",
    "unrolled",
    "vectorized",
    "parallel",
    "serial",
    "vthread",
)
"""The kinds of loops, in the order that features have them."""

_ADDITIONS: Final = (e.Add, e.Sub)
_DIVISIONS: Final = (e.Div, e.Mod)
_KIND_OF: Final = {
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorized",
    ForKind.UNROLLED: "unrolled",
}


@dataclass(slots=True)
class Touch:
    """The dependence of one access on a loop.

    `stride` is by how many elements an iteration moves it in memory, 0 if not at all; `mod` after
    how many it comes back, -1 for never. In all iterations of the loop, and of those under it, it
    touches `count` elements `reuse` times each. The last two are the same, of the loops that are
    parallel, if those were innermost.
    """

    stride: int = 0
    mod: int = -1
    count: float = 1
    reuse: float = 1
    thread_count: float = 0
    thread_reuse: float = 0

    def as_row(self) -> list[float]:
        """Return the six numbers."""
        return [
            self.stride,
            self.mod,
            self.count,
            self.reuse,
            self.thread_count,
            self.thread_reuse,
        ]


@dataclass(slots=True)
class TouchingLoop:
    """A loop: its number of iterations, its depth from 1, and the iterations around and under it.

    `topdown` is the product of its length and those of the loops around it, `bottomup` that of it
    and those under it. `additions`, `multiplications` and `divisions` of floats are directly under
    it. `touches` has the accesses under it: the k-th of the buffer A is called A_k.
    """

    name: str
    length: int
    nest_level: int
    topdown: int
    kind: str
    bottomup: float = 0
    additions: int = 0
    multiplications: int = 0
    divisions: int = 0
    touches: dict[str, Touch] = field(default_factory=dict)

    @property
    def parallel_level(self) -> int:
        """2 for blocks of threads, 1 for threads, 0 for what one thread does."""
        if self.kind.startswith("blockIdx"):
            return 2
        return int(self.kind == "parallel" or self.kind.startswith("threadIdx"))


def touching_loops(mod: IRModule) -> list[TouchingLoop]:
    """Return the loops of the entry function, in the order of the text; unit loops are loops.

    The blocks are open: an index is one of loop variables. What initialises a reduction is left
    out. A loop of unknown length counts as one of length 1.
    """
    reader = _Reader()
    reader.visit(mod.prim_func(entry_name(mod)).body, Bindings(), [])
    return reader.loops


class _Reader:
    def __init__(self) -> None:
        self.loops: list[TouchingLoop] = []
        self._accesses: dict[str, int] = {}

    def visit(self, node: Stmt, bindings: Bindings, nest: list[tuple[Var, TouchingLoop]]) -> None:
        if isinstance(node, For):
            self._loop(node, bindings, nest)
        elif isinstance(node, BlockRealize):
            self.visit(node.block.body, bindings.with_block(node), nest)
        elif isinstance(node, SeqStmt):
            for part in node.seq:
                self.visit(part, bindings, nest)
        elif isinstance(node, IfThenElse):
            self.visit(node.then_case, bindings, nest)
            if node.else_case is not None:
                self.visit(node.else_case, bindings, nest)
        elif isinstance(node, LetStmt):
            self.visit(node.body, bindings.with_value(node.var, node.value), nest)
        elif isinstance(node, BufferStore):
            self._store(node, bindings, nest)
        else:
            body = getattr(node, "body", None)
            if isinstance(body, Stmt):
                self.visit(body, bindings, nest)

    def _loop(self, node: For, bindings: Bindings, nest: list[tuple[Var, TouchingLoop]]) -> None:
        length = node.extent.value if isinstance(node.extent, IntImm) else 1
        around = nest[-1][1].topdown if nest else 1
        kind = _KIND_OF.get(node.kind, "serial")
        if node.thread_binding is not None:
            tag = node.thread_binding.thread_tag
            kind = "vthread" if tag.startswith("vthread") else tag
        loop = TouchingLoop(node.loop_var.name, length, len(nest) + 1, around * length, kind)
        self.loops.append(loop)
        inside = [*nest, (node.loop_var, loop)]
        self.visit(node.body, bindings, inside)
        _leave(loop, [around for _, around in inside])

    def _store(
        self, node: BufferStore, bindings: Bindings, nest: list[tuple[Var, TouchingLoop]]
    ) -> None:
        self._access(node.buffer, node.indices, bindings, nest)
        for part in walk(node.value):
            if isinstance(part, BufferLoad):
                self._access(part.buffer, part.indices, bindings, nest)
            elif nest and isinstance(part, PrimExpr) and part.dtype.is_float:
                _count(part, nest[-1][1])

    def _access(
        self,
        buffer: Buffer,
        indices: Sequence[PrimExpr],
        bindings: Bindings,
        nest: list[tuple[Var, TouchingLoop]],
    ) -> None:
        number = self._accesses.get(buffer.name, 0)
        self._accesses[buffer.name] = number + 1
        name = f"{buffer.name}_{number}"
        patterns = _patterns(buffer, indices, bindings)
        for var, loop in nest:
            loop.touches[name] = Touch(*patterns.get(var, (0, -1)))


def _count(node: PrimExpr, loop: TouchingLoop) -> None:
    if isinstance(node, _ADDITIONS):
        loop.additions += 1
    elif isinstance(node, e.Mul):
        loop.multiplications += 1
    elif isinstance(node, _DIVISIONS):
        loop.divisions += 1


def _patterns(
    buffer: Buffer, indices: Sequence[PrimExpr], bindings: Bindings
) -> dict[Var, tuple[int, int]]:
    """Return for each loop variable by how much it moves an access, and modulo what."""
    shape = [extent.value if isinstance(extent, IntImm) else 1 for extent in buffer.shape]
    strides: dict[Var, int] = {}
    moduli: dict[Var, int] = {}
    for dim, index in enumerate(indices):
        step = prod(shape[dim + 1 :])
        total = bindings.read(index)
        for var, factor in total.of.items():
            strides[var] = strides.get(var, 0) + factor * step
        for part, factor in total.parts:
            for var in loop_vars(part, bindings):
                strides[var] = strides.get(var, 0) + factor * step
                if isinstance(part, e.FloorMod) and isinstance(part.b, IntImm):
                    moduli[var] = part.b.value
    return {var: (stride, moduli.get(var, -1)) for var, stride in strides.items()}


def _leave(loop: TouchingLoop, nest: Sequence[TouchingLoop]) -> None:
    """Multiply counts and reuses by the iterations of a loop, for it and all around it."""
    for name, touch in loop.touches.items():
        for outer in nest:
            around = outer.touches[name]
            if touch.stride != 0:
                around.count *= loop.length
            else:
                around.reuse *= loop.length
    loop.bottomup = max((t.count * t.reuse for t in loop.touches.values()), default=0)
    level = loop.parallel_level
    outer_loops = [outer for outer in nest[:-1] if outer.parallel_level == level + 1]
    if len(nest) > 1 and nest[-2].parallel_level == level + 1:
        for name, touch in loop.touches.items():
            for outer in outer_loops:
                # What one thread does; the loop of the threads divides by it when it is left.
                outer.touches[name].thread_count = -touch.count
                outer.touches[name].thread_reuse = -touch.reuse
    for touch in loop.touches.values():
        if touch.thread_count < 0:
            touch.thread_count = touch.count / -touch.thread_count
            touch.thread_reuse = touch.reuse / -touch.thread_reuse
