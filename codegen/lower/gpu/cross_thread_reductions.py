"""Reductions whose steps are divided among the threads of a block."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from codegen.errors import LoweringError
from codegen.lower.rewriters import StatementRewriter
from codegen.lower.thread_axes import BLOCK, THREAD, axis_of, kind_of, memory_of
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import (
    EQ,
    BufferLoad,
    IntImm,
    IterVar,
    PointerType,
    PrimExpr,
    PrimType,
    Var,
)
from tensorir.nodes.node import Node
from tensorir.nodes.ops import TRUE, add, all_of, compare, conjuncts, const, mul, sub
from tensorir.reducers import NoReducer, NotAReduction, Reduction, reduction_of
from tensorir.rewriting.visit import substitute, uses_var, walk


def cross_thread_reductions(func: PrimFunc) -> PrimFunc:
    """Have each thread reduce its own steps, then combine the results of the threads as a tree.

    Before: for k0 in 8: for k1 (threadIdx.x, 32): B[i] += A[i, k0 * 32 + k1]
    After:  for t: own[t] = 0
            for k0: for k1: own[k1] += A[i, k0 * 32 + k1]
            for t: all[t] = own[t]
            for t: if t < 16: all[t] += all[t + 16]          (8, 4, 2, 1: a thread for two values)
            for t: if t == 0: B[i] = all[0]

    Every loop over `t` is bound to the same threads. `own` is local memory, `all` is shared. Any
    extent does, and any registered reducer, of tuples as well. Threads without a step contribute
    the identity. Local results are stored by every thread of the block, others by the first one.
    Raises LoweringError for a reduction over blocks, one without an init, and an unknown reducer.
    """
    finder = _Finder()
    finder(func.body)
    if not finder.found:
        return func
    return func.with_body(_Replace(finder.found)(func.body))


@dataclass(eq=False, slots=True)
class _Divided:
    """A reduction over threads: its block and the loops around that."""

    node: s.BlockRealize
    around: list[s.For]
    """The loops outside of the outermost reduction loop."""
    loops: list[s.For]
    """The loops from the outermost reduction loop on."""
    steps: set[Var] = field(default_factory=set)
    """The variables of the loops over steps."""

    def depends_on(self, var: Var) -> bool:
        """Say whether the reduction is another one for another value of a variable."""
        return any(uses_var(part, var) for part in (*self.node.iter_values, self.node.predicate))

    @property
    def name(self) -> str:
        return self.node.block.name_hint


class _Finder(StatementRewriter):
    """Finds the reductions over threads, by the outermost loop over their steps."""

    def __init__(self) -> None:
        self.found: dict[Node, _Divided] = {}
        self._loops: list[s.For] = []

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        self._loops.append(node)
        self(node.body)
        self._loops.pop()
        return node

    def rewrite_BlockRealize(self, node: s.BlockRealize) -> s.Stmt:  # noqa: N802
        block = node.block
        steps = {
            part
            for axis, value in zip(block.iter_vars, node.iter_values, strict=True)
            if axis.iter_type == IterVar.COMM_REDUCE
            for part in walk(value)
            if isinstance(part, Var)
        }
        over = [loop for loop in self._loops if loop.loop_var in steps]
        for loop in over:
            if kind_of(loop) == BLOCK:
                raise LoweringError(
                    f"loop {loop.loop_var.name} is a reduction loop of block {block.name_hint!r} "
                    f"and bound to {axis_of(loop)}, but blocks cannot combine results; bind it to "
                    f"threadIdx.x, or factor the reduction (sch.rfactor)"
                )
        if any(kind_of(loop) == THREAD for loop in over):
            first = self._loops.index(over[0])
            divided = _Divided(node, self._loops[:first], self._loops[first:], steps)
            if over[0] in self.found:
                raise LoweringError(
                    f"the loop {over[0].loop_var.name} is around the reductions of blocks "
                    f"{self.found[over[0]].name!r} and {block.name_hint!r} over threads; give "
                    f"each loops of its own"
                )
            self.found[over[0]] = divided
        outer, self._loops = self._loops, [] if block.iter_vars else self._loops
        self(block)
        self._loops = outer
        return node


class _Replace(StatementRewriter):
    def __init__(self, found: dict[Node, _Divided]) -> None:
        self._found = found

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        divided = self._found.get(node)
        return self.generic(node) if divided is None else _Tree(divided).stmt(node)


class _Tree:
    """The statements that replace the nest of one reduction over threads."""

    def __init__(self, divided: _Divided) -> None:
        self._divided = divided
        self._reduction = _reduction(divided)
        loops, steps = divided.loops, divided.steps
        # Threads along other axes reduce the same, and one of them is enough (`lift_threads`).
        self._rows = [
            loop
            for loop in divided.around
            if kind_of(loop) == THREAD and divided.depends_on(loop.loop_var)
        ]
        self._inner_rows = [
            loop for loop in loops if kind_of(loop) == THREAD and loop.loop_var not in steps
        ]
        self._over = [loop for loop in loops if kind_of(loop) == THREAD and loop.loop_var in steps]
        self._outputs = [
            loop for loop in loops if kind_of(loop) != THREAD and loop.loop_var not in steps
        ]
        self._check()
        threads = [_threads(loop, divided.name) for loop in self._over]
        self._count = math.prod(threads)
        rows = [_threads(loop, divided.name) for loop in (*self._rows, *self._inner_rows)]
        inner = [loop.extent for loop in self._outputs]
        own_shape = [*map(const, (*rows, *threads)), *inner]
        shape = [*map(const, (*rows, self._count))]
        targets = self._reduction.buffers
        self._own = [_buffer(b, "own", own_shape, "local") for b in targets]
        self._all = [_buffer(b, "all", shape, "shared") for b in targets]

    def _check(self) -> None:
        divided, reduction = self._divided, self._reduction
        inside = {other.loop_var for other in divided.loops}
        for loop in self._outputs:
            if uses_var(loop.extent, lambda var: var in inside):
                raise LoweringError(
                    f"the extent of loop {loop.loop_var.name} changes inside of the reduction of "
                    f"block {divided.name!r} over threads; move the loop outside (sch.reorder)"
                )
        tags = [axis_of(loop) for loop in (*self._rows, *self._inner_rows, *self._over)]
        for tag in tags:
            if tags.count(tag) > 1:
                raise LoweringError(
                    f"two loops around the reduction block {divided.name!r} are bound to {tag}; "
                    f"bind them to different axes"
                )
        bound = self._values()
        for index in reduction.indices:
            if uses_var(substitute(index, bound), lambda var: var in divided.steps):
                raise LoweringError(
                    f"block {divided.name!r} stores at {index}, which changes with the steps of "
                    f"its reduction; the steps cannot be divided among threads"
                )

    def _values(self) -> dict[Var, PrimExpr]:
        """Return what the axes of the block are bound to."""
        node = self._divided.node
        return {
            axis.var: value.astype(axis.var.dtype)
            for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True)
        }

    def stmt(self, nest: s.For) -> s.Stmt:
        """Return what replaces the outermost loop over steps."""
        whole = self._over_threads(self._inner_rows, lambda rows: self._combined(rows))
        parts = [self._started(), _Steps(self._divided.node, self._own_steps())(nest), whole]
        block = s.Block((), (), (), "", s.sequence(parts), alloc_buffers=(*self._own, *self._all))
        return s.BlockRealize((), TRUE, block)

    def _started(self) -> s.Stmt:
        identity = self._reduction.reducer.identity([b.dtype for b in self._reduction.buffers])

        def start(rows: _Places, over: _Places, inner: _Places) -> s.Stmt:
            indices = self._place(rows, over, inner)
            return s.sequence(
                [s.BufferStore(b, v, indices) for b, v in zip(self._own, identity, strict=True)]
            )

        return self._over_threads(
            self._inner_rows,
            lambda rows: self._over_threads(
                self._over,
                lambda over: self._over_outputs(lambda inner: start(rows, over, inner)),
            ),
        )

    def _own_steps(self) -> s.Stmt:
        bound = self._values()
        same: _Places = {loop.loop_var: loop.loop_var for loop in self._divided.loops}
        indices = self._place(same, same, same)
        old = [BufferLoad(buffer, indices) for buffer in self._own]
        new = [substitute(value, bound) for value in self._reduction.values]
        update = self._reduction.update(old, new, self._own, indices)
        return _under([self._divided.node.predicate], update)

    def _combined(self, rows: _Places) -> s.Stmt:
        return self._over_outputs(lambda inner: self._tree(rows, inner))

    def _tree(self, rows: _Places, inner: _Places) -> s.Stmt:
        parts = [self._each(lambda over, t: self._shown(rows, over, inner, t))]
        left = self._count
        while left > 1:
            half = 1 << (left - 1).bit_length() - 1
            parts.append(self._each(self._halved(rows, half, left - half)))
            left = half
        parts.append(self._stored(rows, inner))
        return s.sequence(parts)

    def _shown(self, rows: _Places, over: _Places, inner: _Places, t: PrimExpr) -> s.Stmt:
        """Store the result of each thread where the others see it."""
        own, to = self._place(rows, over, inner), [*self._row(rows), t]
        return s.sequence(
            [
                s.BufferStore(b, BufferLoad(a, own), to)
                for a, b in zip(self._own, self._all, strict=True)
            ]
        )

    def _halved(
        self, rows: _Places, half: int, pairs: int
    ) -> Callable[[_Places, PrimExpr], s.Stmt]:
        """Combine the values from `half` on with the first ones."""

        def combine(over: _Places, t: PrimExpr) -> s.Stmt:
            a = [*self._row(rows), t]
            b = [*self._row(rows), add(t, const(half, t.dtype))]
            x, y = ([BufferLoad(buffer, at) for buffer in self._all] for at in (a, b))
            update = self._reduction.update(x, y, self._all, a)
            return s.IfThenElse(t < const(pairs, t.dtype), update)

        return combine

    def _stored(self, rows: _Places, inner: _Places) -> s.Stmt:
        """Store the result: by the first thread, or by all where each has its own memory."""
        divided, reduction = self._divided, self._reduction
        places = {**rows, **inner}
        bound = {var: substitute(value, places) for var, value in self._values().items()}
        indices = [substitute(index, bound) for index in reduction.indices]
        conditions = [
            substitute(part, places)
            for part in conjuncts(divided.node.predicate)
            if not uses_var(part, lambda var: var in divided.steps)
        ]
        first = [*self._row(rows), const(0)]
        stores: dict[bool, list[s.Stmt]] = {True: [], False: []}
        for target, result in zip(reduction.buffers, self._all, strict=True):
            store = s.BufferStore(target, BufferLoad(result, first), indices)
            stores[memory_of(target.data) == "local"].append(store)
        parts = [_under(conditions, s.sequence(stores[True]))]
        if stores[False]:
            once = s.sequence(stores[False])
            parts.append(
                self._each(
                    lambda over, t: _under([compare(EQ, t, const(0, t.dtype)), *conditions], once)
                )
            )
        return s.sequence(parts)

    # ----------------------------------------------------------------------------- loops and places

    def _place(self, rows: _Places, over: _Places, inner: _Places) -> list[PrimExpr]:
        """Return the indices of one thread's result."""
        threads = [_from_zero(loop, over[loop.loop_var]) for loop in self._over]
        outputs = [_from_zero(loop, inner[loop.loop_var]) for loop in self._outputs]
        return [*self._row(rows), *threads, *outputs]

    def _row(self, rows: _Places) -> list[PrimExpr]:
        outer = [_from_zero(loop, loop.loop_var) for loop in self._rows]
        return [*outer, *(_from_zero(loop, rows[loop.loop_var]) for loop in self._inner_rows)]

    def _over_threads(self, loops: Sequence[s.For], body: Callable[[_Places], s.Stmt]) -> s.Stmt:
        """Return loops bound like others, with variables of their own, around a statement."""
        places: dict[Var, PrimExpr] = {
            loop.loop_var: Var(loop.loop_var.name, loop.loop_var.dtype) for loop in loops
        }
        result = body(places)
        for loop in reversed(loops):
            var = places[loop.loop_var]
            assert isinstance(var, Var)
            result = s.For(var, loop.min, loop.extent, loop.kind, result, loop.thread_binding)
        return result

    def _over_outputs(self, body: Callable[[_Places], s.Stmt]) -> s.Stmt:
        serial = [
            loop if loop.kind is s.ForKind.UNROLLED else loop.with_(kind=s.ForKind.SERIAL)
            for loop in self._outputs
        ]
        return self._over_threads(serial, body)

    def _each(self, body: Callable[[_Places, PrimExpr], s.Stmt]) -> s.Stmt:
        """Return a statement for each of the threads, which gets their number."""

        def numbered(places: _Places) -> s.Stmt:
            number: PrimExpr | None = None
            for loop in self._over:
                position = _from_zero(loop, places[loop.loop_var])
                if number is None:
                    number = position
                else:
                    number = add(mul(number, loop.extent), position)
            assert number is not None
            return body(places, number)

        return self._over_threads(self._over, numbered)


def _under(conditions: Sequence[PrimExpr], node: s.Stmt) -> s.Stmt:
    condition = all_of(conditions)
    is_always = type(condition) is IntImm and bool(condition.value)
    return node if is_always or s.is_no_op(node) else s.IfThenElse(condition, node)


_Places = dict[Var, PrimExpr]
"""The expressions that replace the variables of loops."""


class _Steps(StatementRewriter):
    """Puts a statement in the place of a block."""

    def __init__(self, node: s.BlockRealize, stmt: s.Stmt) -> None:
        self._node = node
        self._stmt = stmt

    def rewrite_BlockRealize(self, node: s.BlockRealize) -> s.Stmt:  # noqa: N802
        return self._stmt if node is self._node else self.generic(node)


def _reduction(divided: _Divided) -> Reduction:
    what = f"the reduction of block {divided.name!r} is divided among threads"
    try:
        return reduction_of(divided.node.block)
    except NotAReduction as error:
        reason = str(error)
    except NoReducer:
        reason = "no known reducer has its identity and combiner"
    raise LoweringError(
        f"{what}, but {reason}; keep its init and a registered reducer "
        f"(tensorir.reducers.register_reducer), or leave its reduction loops serial"
    )


def _threads(loop: s.For, block: str) -> int:
    if not isinstance(loop.extent, IntImm):
        raise LoweringError(
            f"loop {loop.loop_var.name} around the reduction block {block!r} has {loop.extent} "
            f"threads; the number of threads must be constant: split the loop by a constant factor"
        )
    return loop.extent.value


def _from_zero(loop: s.For, value: PrimExpr) -> PrimExpr:
    return sub(value, loop.min)


def _buffer(of: Buffer, what: str, shape: Sequence[PrimExpr], scope: str) -> Buffer:
    name = f"{of.name}_{what}"
    pointer = Var(name, PointerType(PrimType(of.dtype), scope))
    return Buffer(pointer, of.dtype, shape, (), const(0), name)
