"""Barriers between accesses of different threads to one element."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeGuard

from codegen.errors import LoweringError
from codegen.lower.check_supported import name_of
from codegen.lower.gpu.meetings import Access, Meetings, surely_runs
from codegen.lower.rewriters import StatementRewriter, controls
from codegen.lower.thread_axes import THREAD, barrier, is_barrier, kind_of, tensor_core_of
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.ops import conjuncts, logical_and, logical_not
from tensorir.rewriting.visit import statements
from tensorir.semantics.purity import is_pure, may_run_anywhere


def place_barriers(func: PrimFunc) -> PrimFunc:
    """Have the threads of a block wait before an access to what another one has accessed.

    Before: for tx in 64: for k: S[tx] = A[k, tx]; B[k, tx] = S[63 - tx]
    After:  for tx in 64: for k: sync; S[tx] = A[k, tx]; sync; B[k, tx] = S[63 - tx]

    Of two accesses to an element of shared memory, or of global memory that the kernel writes, at
    least one is a store; they come one after the other, in one iteration of the loops around or in
    different ones. None is placed if no two threads reach the same element: indices are compared
    for all values of thread and loop variables (`element_sets`), and where that is impossible they
    are taken to be equal. Conditions that differ between threads move inwards past the barrier.
    Asynchronous copies count as stores where they begin, and where a thread waits for them.
    Raises LoweringError naming a loop whose extent differs between threads where a barrier is
    needed inside of it.
    """
    return func.with_body(_Launches(func)(func.body))


class _Launches(StatementRewriter):
    def __init__(self, func: PrimFunc) -> None:
        self._func = func

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        if kind_of(node) != THREAD:
            return self.generic(node)
        threads = []
        body: s.Stmt = node
        while isinstance(body, s.For) and kind_of(body) == THREAD:
            threads.append(body)
            body = body.body
        result = _Barriers(self._func, threads, body).placed()
        for loop in reversed(threads):
            result = loop.with_body(result)
        return result


class _NeedsBarrier(Exception):  # noqa: N818 - the condition around moves inwards
    """A barrier belongs where not all threads come."""


class _Barriers:
    """Places the barriers of one launch."""

    def __init__(self, func: PrimFunc, threads: Sequence[s.For], body: s.Stmt) -> None:
        self._name = name_of(func)
        self._body = body
        self._meetings = Meetings(func, threads, body)
        self._conditions: list[PrimExpr] = []
        """The conditions around the visited statement."""
        self._alone = False
        """True where not all threads of the block come."""

    def placed(self) -> s.Stmt:
        """Return the body of the launch with its barriers."""
        return self._sequence(self._body, [])[0]

    # ------------------------------------------------------------------------------- the statements

    def _sequence(self, node: s.Stmt, pending: list[Access]) -> tuple[s.Stmt, list[Access]]:
        """Return statements with barriers, and the accesses since the last one."""
        found: list[s.Stmt] = []
        for part in node.seq if isinstance(node, s.SeqStmt) else (node,):
            if is_barrier(part):
                self._check_all_come()
                pending = []
            elif not _is_wait(part) and self._meets(pending, part):
                self._check_all_come()
                found.append(barrier())
                pending = []
            new, pending = self._statement(part, pending)
            if found and is_barrier(found[-1]) and _begins_with_barrier(new):
                found.pop()
            found.append(new)
        return s.sequence(found), pending

    def _check_all_come(self) -> None:
        if self._alone:
            raise _NeedsBarrier

    def _statement(self, node: s.Stmt, pending: list[Access]) -> tuple[s.Stmt, list[Access]]:
        if _is_wait(node):
            body, pending = self._sequence(node.body, pending + self._meetings.landing)
            return node.changed(body=body), pending
        if self._is_free_of_meetings(node):
            return node, pending + self._accesses(node)
        if isinstance(node, s.For):
            return self._loop(node, pending)
        if isinstance(node, s.While):
            if self._meetings.differs(node.condition):
                return self._alone_in(node, pending)
            return self._repeated(node, pending, frozenset())
        if isinstance(node, s.IfThenElse):
            return self._branch(node, pending)
        if isinstance(node, (s.LetStmt, s.Allocate, s.AttrStmt, s.AssertStmt, s.DeclBuffer)):
            pending = pending + self._own_accesses(node)
            body, pending = self._sequence(node.body, pending)
            return node.changed(body=body), pending
        return node, pending + self._accesses(node)

    def _loop(self, node: s.For, pending: list[Access]) -> tuple[s.Stmt, list[Access]]:
        if node.loop_var in self._meetings.differing:
            return self._alone_in(node, pending)
        return self._repeated(node, pending, frozenset({node.loop_var}))

    def _repeated(
        self, node: s.For | s.While, before: list[Access], variables: frozenset[Var]
    ) -> tuple[s.Stmt, list[Access]]:
        """Return a loop with barriers between its iterations, too."""
        own = self._own_accesses(node)
        body, after = self._sequence(node.body, before + own)
        if isinstance(node, s.While) and self._meetings.any_meet(after, own):
            self._check_all_come()
            body, after = s.sequence([body, barrier()]), []
        body, after = self._sequence(body, self._meetings.freed(after, variables))
        after = self._meetings.freed(after, variables)
        return node.changed(body=body), after if surely_runs(node) else [*before, *after]

    def _alone_in(
        self, node: s.For | s.While, pending: list[Access]
    ) -> tuple[s.Stmt, list[Access]]:
        """Return a loop that each thread leaves at another time: there is no barrier in it."""
        outer, self._alone = self._alone, True
        try:
            self._repeated(node, pending, frozenset())
        except _NeedsBarrier:
            what = f"loop {node.loop_var.name}" if isinstance(node, s.For) else "a while loop"
            raise LoweringError(
                f"threads have to wait for one another in {what} of {self._name}, but its number "
                f"of iterations differs between threads; give it the same bounds in all threads "
                f"and put a condition inside"
            ) from None
        finally:
            self._alone = outer
        return node, pending + self._accesses(node)

    def _branch(self, node: s.IfThenElse, pending: list[Access]) -> tuple[s.Stmt, list[Access]]:
        alone = self._alone
        self._alone = alone or self._meetings.differs(node.condition)
        own = self._own_accesses(node)
        try:
            with self._given(node.condition):
                then_case, after = self._sequence(node.then_case, pending + own)
            else_case, other = None, pending + own
            if node.else_case is not None:
                with self._given(logical_not(node.condition)):
                    else_case, other = self._sequence(node.else_case, pending + own)
        except _NeedsBarrier:
            if alone:
                raise
            self._alone = alone
            return self._sequence(self._moved_inwards(node), pending)
        finally:
            self._alone = alone
        merged = [*after, *(access for access in other if access not in after)]
        return node.changed(then_case=then_case, else_case=else_case), merged

    @contextmanager
    def _given(self, condition: PrimExpr) -> Iterator[None]:
        parts = conjuncts(condition)
        self._conditions += parts
        try:
            yield
        finally:
            del self._conditions[-len(parts) :]

    def _is_free_of_meetings(self, node: s.Stmt) -> bool:
        """Say whether a statement has no barrier, and needs none inside."""
        if _is_one_step(node):
            return True
        if any(is_barrier(part) or _is_wait(part) for part in statements(node)):
            return False
        accesses = self._accesses(node)
        return not self._meetings.any_meet(accesses, accesses)

    def _meets(self, pending: list[Access], node: s.Stmt) -> bool:
        """Say whether a statement accesses an element that another thread accessed before."""
        return bool(pending) and self._meetings.any_meet(pending, self._accesses(node))

    def _accesses(self, node: s.Stmt) -> list[Access]:
        return self._meetings.accesses(node, self._conditions)

    def _own_accesses(self, node: s.Stmt) -> list[Access]:
        return self._meetings.own_accesses(node, self._conditions)

    # ----------------------------------------------------------------------- conditions that differ

    def _moved_inwards(self, node: s.IfThenElse) -> s.Stmt:
        return self._divided(node, node.condition, logical_not)

    def _divided(
        self,
        node: s.IfThenElse,
        condition: PrimExpr,
        otherwise: Callable[[PrimExpr], PrimExpr],
    ) -> s.Stmt:
        """Return both cases under conditions of their own; one that is loaded is loaded once."""
        held = Var("holds", condition.dtype)
        test = condition if is_pure(condition) else held
        parts = [self._under(test, node.then_case)]
        if node.else_case is not None:
            parts.append(self._under(otherwise(test), node.else_case))
        if test is condition:
            return s.sequence(parts)
        new = s.LetStmt(held, condition, s.sequence(parts))
        self._meetings.define(new)
        return new

    def _under(self, condition: PrimExpr, node: s.Stmt) -> s.Stmt:
        """Return a statement of which all threads run the control and some the effects."""
        if is_barrier(node) or s.is_no_op(node):
            return node
        if _is_one_step(node):
            return s.IfThenElse(condition, node)
        if isinstance(node, s.SeqStmt):
            return s.sequence([self._under(condition, part) for part in node.seq])
        if isinstance(node, (s.Allocate, s.AttrStmt)) or (
            isinstance(node, (s.For, s.LetStmt)) and all(map(may_run_anywhere, controls(node)))
        ):
            return node.with_(body=self._under(condition, node.body))
        if isinstance(node, s.IfThenElse):
            both = logical_and(condition, node.condition)
            return self._divided(node, both, lambda x: logical_and(condition, logical_not(x)))
        if self._is_free_of_meetings(node):
            return s.IfThenElse(condition, node)
        what = f"loop {node.loop_var.name}" if isinstance(node, s.For) else type(node).__name__
        raise LoweringError(
            f"threads have to wait for one another in {what} of {self._name}, which only those "
            f"with {condition} run, and the condition cannot move inwards; compute its bounds or "
            f"values in all threads"
        )


def _is_one_step(node: s.Stmt) -> bool:
    """Return True for a statement inside which no barrier can stand."""
    return isinstance(node, (s.BufferStore, s.Evaluate)) or tensor_core_of(node) is not None


def _is_wait(node: s.Stmt) -> TypeGuard[s.AttrStmt]:
    """Say whether a thread waits for its asynchronous copies, so that their stores land here."""
    return isinstance(node, s.AttrStmt) and node.attr_key == s.ASYNC_WAIT


def _begins_with_barrier(node: s.Stmt) -> bool:
    if isinstance(node, s.SeqStmt):
        return _begins_with_barrier(node.seq[0])
    if isinstance(node, s.Allocate) or (
        isinstance(node, s.For) and surely_runs(node) and isinstance(node.min, IntImm)
    ):
        return _begins_with_barrier(node.body)
    return is_barrier(node)
