"""The ledger of a launch: who accessed which element of the memory that threads share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tensorir.interp.arguments import Env
from tensorir.interp.memory import InterpreterError, Memory, in_one_line, is_written
from tensorir.memory.storage_scopes import memory_of
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import Var
from tensorir.rewriting.visit import statements

if TYPE_CHECKING:
    from tensorir.interp.accesses import Locate
    from tensorir.interp.statements import Run


class _Who(NamedTuple):
    """An access: the block and the thread, by axis, and the statement."""

    block: str
    thread: str
    statement: s.Stmt


class _Element:
    """The accesses to an element: a store, a load, and a load of another thread or block."""

    __slots__ = ("load", "other_load", "store")

    def __init__(self) -> None:
        self.store: _Who | None = None
        self.load: _Who | None = None
        self.other_load: _Who | None = None

    def conflict(self, who: _Who, is_store: bool, part: int) -> _Who | None:
        """Note an access; return the one of another block (part 0) or thread (1) it races with."""
        known = (self.store, self.load, self.other_load) if is_store else (self.store,)
        for other in known:
            if other is not None and other[part] != who[part]:
                return other
        if is_store:
            self.store = who
        elif self.load is None:
            self.load = who
        elif self.other_load is None and self.load[part] != who[part]:
            self.other_load = who
        return None


@dataclass(slots=True)
class _Copied:
    """An element that an asynchronous copy stores."""

    buffer: Buffer
    memory: Memory
    cell: int
    statement: s.Stmt
    value: Any = None


class Ledger:
    """Who accessed which element of the memory that threads share."""

    def __init__(self, body: s.Stmt) -> None:
        self._stored: Final = {
            n.buffer.data for n in statements(body) if isinstance(n, s.BufferStore)
        }
        self.block = self.thread = ""
        self.statement: s.Stmt = body
        self._since_barrier: dict[tuple[Var, int], _Element] = {}
        self._in_launch: dict[tuple[Var, int], _Element] = {}
        self._copied: list[_Copied] | None = None
        """The stores so far of the asynchronous group that a thread makes; None outside of one."""
        self._groups: dict[str, list[list[_Copied]]] = {}
        """The groups that each thread of the block has not waited for."""

    def begin(self) -> None:
        """Forget the accesses of an earlier run."""
        self._in_launch.clear()
        self._since_barrier.clear()

    def begin_block(self) -> None:
        """Forget the asynchronous copies of another block."""
        self._groups.clear()

    def wait(self) -> None:
        """Pass a barrier."""
        self._since_barrier.clear()

    def attribute(self, node: s.AttrStmt, body: Run) -> Run:
        """Return a closure that runs a body; what it copies asynchronously lands at the wait.

        Until then, the elements count as not written.
        """
        if node.attr_key == s.ASYNC_COMMIT:

            def commit(env: Env) -> None:
                group: list[_Copied] = []
                self._copied = group
                body(env)
                self._copied = None
                for copied in group:
                    copied.value = copied.memory.cells.item(copied.cell)
                    copied.memory.cells[copied.cell] = None
                self._groups.setdefault(self.thread, []).append(group)

            return commit
        if node.attr_key != s.ASYNC_WAIT:
            return body

        def wait(env: Env) -> None:
            self.land(int(node.value))  # type: ignore[call-overload]
            body(env)

        return wait

    def land(self, most: int) -> None:
        """Have the copies of the current thread land, except those of the last `most` groups."""
        groups = self._groups.get(self.thread, [])
        while len(groups) > most:
            for copied in groups.pop(0):
                self.statement = copied.statement
                self._enter(copied.buffer, (copied.memory, copied.cell), True, True)
                copied.memory.cells[copied.cell] = copied.value

    def running(self, node: s.Stmt, run: Run) -> Run:
        """Return a closure that runs a statement, which errors then show."""

        def noted(env: Env) -> None:
            self.statement = node
            run(env)

        return noted

    def watched(self, locate: Locate, buffer: Buffer, node: object) -> Locate:
        """Return a closure that finds an element, and enters the access."""
        if buffer.data not in self._stored:
            return locate
        memory = memory_of(buffer.data)
        is_store = isinstance(node, s.BufferStore)

        def found(env: Env, indices: Sequence[int]) -> tuple[Memory, int]:
            place = locate(env, indices)
            if memory != "local":
                self._enter(buffer, place, is_store, memory == "shared")
            if is_store and memory == "shared" and self._copied is not None:
                self._copied += (
                    _Copied(buffer, place[0], place[1] + k * place[0].step, self.statement)
                    for k in range(buffer.dtype.lanes)
                )
            if not is_store and not is_written(*place):
                raise InterpreterError(
                    f"element {place[1]} of {memory} buffer {buffer.name} is read before it is "
                    f"written, in `{in_one_line(self.statement)}`"
                )
            return place

        return found

    def _enter(
        self, buffer: Buffer, place: tuple[Memory, int], is_store: bool, is_shared: bool
    ) -> None:
        memory, first = place
        for cell in range(first, first + memory.step):
            self._enter_cell(buffer, cell, is_store, is_shared)

    def _enter_cell(self, buffer: Buffer, cell: int, is_store: bool, is_shared: bool) -> None:
        who, key = _Who(self.block, self.thread, self.statement), (buffer.data, cell)
        other = self._since_barrier.setdefault(key, _Element()).conflict(who, is_store, 1)
        if other is not None:
            raise InterpreterError(
                f"threads {other.thread} and {who.thread} of one block access element {cell} of "
                f"{buffer.name} without a barrier in between, in {_both(other, who)}"
            )
        if is_shared:
            return
        other = self._in_launch.setdefault(key, _Element()).conflict(who, is_store, 0)
        if other is not None:
            raise InterpreterError(
                f"blocks {other.block} and {who.block} of one launch access element {cell} of "
                f"{buffer.name}, in {_both(other, who)}"
            )


def _both(a: _Who, b: _Who) -> str:
    return f"`{in_one_line(a.statement)}` and `{in_one_line(b.statement)}`"
