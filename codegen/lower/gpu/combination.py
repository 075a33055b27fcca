"""Statements that divide the steps of a reduction among threads, and combine their results."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from codegen.errors import LoweringError
from codegen.lower.rewriters import StatementRewriter
from codegen.lower.thread_axes import AXES, THREAD, axis_of, kind_of
from tensorir.memory.storage_scopes import memory_of
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import EQ, BufferLoad, IntImm, PointerType, PrimExpr, PrimType, Var
from tensorir.nodes.ops import TRUE, add, all_of, compare, conjuncts, const, mul, sub
from tensorir.reducers import NoReducer, NotAReduction, Reduction, reduction_of
from tensorir.rewriting.visit import substitute, uses_var

Places = dict[Var, PrimExpr]
"""The expressions that replace the variables of loops."""


@dataclass(eq=False, slots=True)
class DividedReduction:
    """A reduction over threads: its block and the loops around that."""

    node: s.BlockRealize
    rows: list[s.For]
    """The loops over threads outside of the steps, if other threads there have other results."""
    loops: list[s.For]
    """The loops from the outermost reduction loop on."""
    steps: set[Var] = field(default_factory=set)
    """The variables of the loops over steps."""

    @property
    def name(self) -> str:
        """The name of the block."""
        return self.node.block.name_hint


class Combination(ABC):
    """The statements that replace the nest of one reduction over threads.

    Each thread has its own result in local memory, and the threads are numbered as by the device:
    threadIdx.x is the fastest axis.
    """

    def __init__(self, divided: DividedReduction) -> None:
        self.divided = divided
        self.reduction = _reduction(divided)
        loops, steps = divided.loops, divided.steps
        # Threads along other axes reduce the same, and one of them is enough (`lift_threads`).
        self._rows = divided.rows
        self._inner_rows = [
            loop for loop in loops if kind_of(loop) == THREAD and loop.loop_var not in steps
        ]
        self.over = sorted(
            (loop for loop in loops if kind_of(loop) == THREAD and loop.loop_var in steps),
            key=lambda loop: -AXES.index(axis_of(loop)),
        )
        """The loops whose threads have the steps, the slowest axis first."""
        self._outputs = [
            loop for loop in loops if kind_of(loop) != THREAD and loop.loop_var not in steps
        ]
        self._check()
        threads = [_threads(loop, divided.name) for loop in self.over]
        self.count = math.prod(threads)
        """The number of threads that have steps of one result."""
        self.rows = [_threads(loop, divided.name) for loop in (*self._rows, *self._inner_rows)]
        """The extents of the axes whose threads have other results."""
        inner = [loop.extent for loop in self._outputs]
        own_shape = [*map(const, (*self.rows, *threads)), *inner]
        self.own = [buffer_like(b, "own", own_shape, "local") for b in self.reduction.buffers]
        """The results of each thread."""

    @abstractmethod
    def shared(self) -> Sequence[Buffer]:
        """Return the buffers in shared memory by which threads combine their results."""

    @abstractmethod
    def tree(self, rows: Places, inner: Places) -> s.Stmt:
        """Return the statements that combine the results of threads, and store them."""

    def _check(self) -> None:
        divided, reduction = self.divided, self.reduction
        inside = {other.loop_var for other in divided.loops}
        for loop in self._outputs:
            if uses_var(loop.extent, lambda var: var in inside):
                raise LoweringError(
                    f"the extent of loop {loop.loop_var.name} changes inside of the reduction of "
                    f"block {divided.name!r} over threads; move the loop outside (sch.reorder)"
                )
        tags = [axis_of(loop) for loop in (*self._rows, *self._inner_rows, *self.over)]
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
        node = self.divided.node
        return {
            axis.var: value.astype(axis.var.dtype)
            for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True)
        }

    def stmt(self, nest: s.For) -> s.Stmt:
        """Return what replaces the outermost loop over steps."""
        whole = self._over_threads(
            self._inner_rows,
            lambda rows: self._over_outputs(lambda inner: self.tree(rows, inner)),
        )
        parts = [self._started(), _Steps(self.divided.node, self._own_steps())(nest), whole]
        memory = (*self.own, *self.shared())
        block = s.Block((), (), (), "", s.sequence(parts), alloc_buffers=memory)
        return s.BlockRealize((), TRUE, block)

    def identity(self) -> Sequence[PrimExpr]:
        """Return the tuple that changes nothing."""
        return self.reduction.reducer.identity([b.dtype for b in self.reduction.buffers])

    def _started(self) -> s.Stmt:
        def start(rows: Places, over: Places, inner: Places) -> s.Stmt:
            return store_each(self.own, self.place(rows, over, inner), self.identity())

        return self._over_threads(
            self._inner_rows,
            lambda rows: self._over_threads(
                self.over,
                lambda over: self._over_outputs(lambda inner: start(rows, over, inner)),
            ),
        )

    def _own_steps(self) -> s.Stmt:
        bound = self._values()
        same: Places = {loop.loop_var: loop.loop_var for loop in self.divided.loops}
        indices = self.place(same, same, same)
        new = [substitute(value, bound) for value in self.reduction.values]
        update = self.reduction.update(load_each(self.own, indices), new, self.own, indices)
        return _under([self.divided.node.predicate], update)

    def own_stores(self, rows: Places, inner: Places, results: Sequence[PrimExpr]) -> s.Stmt:
        """Return the stores of results to memory of each thread, by all threads."""
        return self._stores(rows, inner, results, is_local=True)

    def common_stores(
        self, rows: Places, inner: Places, t: PrimExpr, results: Sequence[PrimExpr]
    ) -> s.Stmt:
        """Return the stores of results to memory that threads share, by the first thread."""
        is_first = compare(EQ, t, const(0, t.dtype))
        return self._stores(rows, inner, results, is_first, is_local=False)

    def _stores(
        self,
        rows: Places,
        inner: Places,
        results: Sequence[PrimExpr],
        *conditions: PrimExpr,
        is_local: bool,
    ) -> s.Stmt:
        reduction = self.reduction
        places = {**rows, **inner}
        bound = {var: substitute(value, places) for var, value in self._values().items()}
        indices = [substitute(index, bound) for index in reduction.indices]
        predicate = [
            substitute(part, places)
            for part in conjuncts(self.divided.node.predicate)
            if not uses_var(part, lambda var: var in self.divided.steps)
        ]
        stores = [
            s.BufferStore(target, result, indices)
            for target, result in zip(reduction.buffers, results, strict=True)
            if (memory_of(target.data) == "local") == is_local
        ]
        return _under([*conditions, *predicate], s.sequence(stores))

    # ----------------------------------------------------------------------------- loops and places

    def place(self, rows: Places, over: Places, inner: Places) -> list[PrimExpr]:
        """Return the indices of one thread's result."""
        threads = [_from_zero(loop, over[loop.loop_var]) for loop in self.over]
        outputs = [_from_zero(loop, inner[loop.loop_var]) for loop in self._outputs]
        return [*self.row(rows), *threads, *outputs]

    def row(self, rows: Places) -> list[PrimExpr]:
        """Return the place of the threads along axes without steps."""
        outer = [_from_zero(loop, loop.loop_var) for loop in self._rows]
        return [*outer, *(_from_zero(loop, rows[loop.loop_var]) for loop in self._inner_rows)]

    def _over_threads(self, loops: Sequence[s.For], body: Callable[[Places], s.Stmt]) -> s.Stmt:
        """Return loops bound like others, with variables of their own, around a statement."""
        places: dict[Var, PrimExpr] = {
            loop.loop_var: Var(loop.loop_var.name, loop.loop_var.dtype) for loop in loops
        }
        result = body(places)
        if s.is_no_op(result):
            return result
        for loop in reversed(loops):
            var = places[loop.loop_var]
            assert isinstance(var, Var)
            result = s.For(var, loop.min, loop.extent, loop.kind, result, loop.thread_binding)
        return result

    def _over_outputs(self, body: Callable[[Places], s.Stmt]) -> s.Stmt:
        serial = [
            loop if loop.kind is s.ForKind.UNROLLED else loop.with_(kind=s.ForKind.SERIAL)
            for loop in self._outputs
        ]
        return self._over_threads(serial, body)

    def each(self, body: Callable[[Places, PrimExpr], s.Stmt]) -> s.Stmt:
        """Return a statement for each of the threads, which gets their number."""

        def numbered(places: Places) -> s.Stmt:
            number: PrimExpr | None = None
            for loop in self.over:
                position = _from_zero(loop, places[loop.loop_var])
                if number is None:
                    number = position
                else:
                    number = add(mul(number, loop.extent), position)
            assert number is not None
            return body(places, number)

        return self._over_threads(self.over, numbered)


def load_each(buffers: Sequence[Buffer], indices: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Return the loads of an element of several buffers."""
    return [BufferLoad(buffer, indices) for buffer in buffers]


def store_each(
    buffers: Sequence[Buffer], indices: Sequence[PrimExpr], values: Sequence[PrimExpr]
) -> s.Stmt:
    """Return the stores to an element of several buffers."""
    return s.sequence([s.BufferStore(b, v, indices) for b, v in zip(buffers, values, strict=True)])


def bind_each(names: Sequence[Var], values: Sequence[PrimExpr], body: s.Stmt) -> s.Stmt:
    """Return a statement with variables bound to values."""
    for name, value in reversed(list(zip(names, values, strict=True))):
        body = body if s.is_no_op(body) else s.LetStmt(name, value, body)
    return body


def buffer_like(of: Buffer, what: str, shape: Sequence[PrimExpr], scope: str) -> Buffer:
    """Return a buffer with the dtype of another one and a name after it."""
    name = f"{of.name}_{what}"
    pointer = Var(name, PointerType(PrimType(of.dtype), scope))
    return Buffer(pointer, of.dtype, shape, (), const(0), name)


class _Steps(StatementRewriter):
    """Puts a statement in the place of a block."""

    def __init__(self, node: s.BlockRealize, stmt: s.Stmt) -> None:
        self._node = node
        self._stmt = stmt

    def rewrite_BlockRealize(self, node: s.BlockRealize) -> s.Stmt:  # noqa: N802
        return self._stmt if node is self._node else self.generic(node)


def _under(conditions: Sequence[PrimExpr], node: s.Stmt) -> s.Stmt:
    condition = all_of(conditions)
    is_always = type(condition) is IntImm and bool(condition.value)
    return node if is_always or s.is_no_op(node) else s.IfThenElse(condition, node)


def _reduction(divided: DividedReduction) -> Reduction:
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
