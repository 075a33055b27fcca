"""Launches of kernels: the threads of each block in lock step, with a ledger of their accesses.

A launch is a nest of loops bound to blocks, then to threads, each axis once; shared memory is
allocated in between, and no block statement is inside. The threads of a block run one after the
other from barrier to barrier, and the ledger keeps who accessed which element since the last one.
It is an error if two threads access one element with a store among the accesses, also if they
store the same value; if blocks of one launch do; if not all threads come to the same barrier; and
if memory is read that the kernel allocates and has not written. An asynchronous copy is written
where its thread waits for it.

The threads of a warp, those that differ in `threadIdx.x` only, meet at an instruction of tensor
cores, which runs once, by its definition. They have one copy of each fragment. It is an error if
they do not all come to the same instruction.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from numpy.typing import NDArray

from tensorir.interp.arguments import Env
from tensorir.interp.memory import InterpreterError, Memory, in_one_line, unwritten
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import Call, PointerType, Var
from tensorir.nodes.intrin import Op
from tensorir.rewriting.visit import statements

if TYPE_CHECKING:
    from tensorir.interp.accesses import Eval, Locate
    from tensorir.interp.statements import FunctionCompiler, Run

_SYNC: Final = Op.get("tvm_storage_sync")
_TENSOR_CORE: Final = Op.get("tensor_core")
_BLOCK: Final = "blockIdx."
_THREAD: Final = "threadIdx."
_LANES: Final = "threadIdx.x"
_FRAGMENTS: Final = Var("fragments", "handle")
"""The memory of the fragments of a warp, by the pointers to it."""

R = TypeVar("R")
Steps: TypeAlias = Callable[[Env], Iterator[s.Stmt]]
"""Runs a statement in one thread up to each barrier or instruction of a warp, which it yields."""


def is_launch(node: s.For) -> bool:
    """Say whether a loop is the outermost one of a launch."""
    around, body = _launch_of(node)
    axes = [_axis(part) for part in around if _axis(part)]
    ordered = [*(a for a in axes if a.startswith(_BLOCK)), *(a for a in axes if _is_thread(a))]
    if axes != ordered or len(set(axes)) < len(axes) or not any(map(_is_thread, axes)):
        return False
    return not any(isinstance(n, s.BlockRealize) or _axis(n) for n in statements(body))


def _launch_of(node: s.Stmt) -> tuple[list[s.For | s.Allocate], s.Stmt]:
    """Return the loops of a launch with the shared memory between them, and the threads' body."""
    around: list[s.For | s.Allocate] = []
    while True:
        is_inside = bool(around) and _is_thread(_axis(around[-1]))
        is_memory = isinstance(node, s.Allocate) and not is_inside
        if not isinstance(node, (s.For, s.Allocate)) or not (is_memory or _axis(node)):
            return around, node
        around.append(node)
        node = node.body


def _is_thread(axis: str) -> bool:
    return axis.startswith(_THREAD)


def _axis(node: s.Stmt) -> str:
    return node.thread_tag if isinstance(node, s.For) else ""


# --------------------------------------------------------------------------------------- the ledger


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
    cells: NDArray[Any]
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
                    copied.value = copied.cells.item(copied.cell)
                    copied.cells[copied.cell] = None
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
                self._enter(copied.buffer, copied.cell, True, True)
                copied.cells[copied.cell] = copied.value

    def running(self, node: s.Stmt, run: Run) -> Run:
        """Return a closure that runs a statement, and says which it is."""

        def noted(env: Env) -> None:
            self.statement = node
            run(env)

        return noted

    def watched(self, locate: Locate, buffer: Buffer, node: object) -> Locate:
        """Return a closure that finds an element, and enters the access."""
        if buffer.data not in self._stored:
            return locate
        memory = buffer.scope().split(".")[0]
        is_store = isinstance(node, s.BufferStore)

        def found(env: Env, indices: Sequence[int]) -> tuple[Memory, int]:
            place = locate(env, indices)
            if memory not in ("local", "wmma"):
                self._enter(buffer, place[1], is_store, memory == "shared")
            if is_store and memory == "shared" and self._copied is not None:
                self._copied += (
                    _Copied(buffer, place[0].cells, place[1] + k, self.statement)
                    for k in range(buffer.dtype.lanes)
                )
            if not is_store and place[0].cells.item(place[1]) is None:
                raise InterpreterError(
                    f"element {place[1]} of {memory} buffer {buffer.name} is read before it is "
                    f"written, in `{in_one_line(self.statement)}`"
                )
            return place

        return found

    def _enter(self, buffer: Buffer, cell: int, is_store: bool, is_shared: bool) -> None:
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


# -------------------------------------------------------------------------------------- the threads


def compile_launch(c: FunctionCompiler, node: s.For) -> Run:
    """Return a closure that runs a launch."""
    blocks: list[tuple[str, Var, Eval]] = []
    threads: list[tuple[str, Var, Eval]] = []
    memory: list[tuple[s.Allocate, list[Eval]]] = []
    around, body = _launch_of(node)
    for part in around:
        if isinstance(part, s.Allocate):
            memory.append((part, [c.expr(n) for n in part.extents]))
        else:
            axes = threads if _is_thread(_axis(part)) else blocks
            axes.append((_axis(part), part.loop_var, c.expr(part.extent)))
    ledger = Ledger(body)
    outer, c.ledger = c.ledger, ledger
    run = _steps(c, body)
    instructions: dict[s.Stmt, Run] = {
        part: c.stmt(part.body) for part in map(_instruction, statements(body)) if part is not None
    }
    c.ledger = outer

    def launch(env: Env) -> None:
        ledger.begin()
        for ledger.block, indices in _each(blocks, env):
            inside = {**env, **indices}
            ledger.begin_block()
            for allocation, extents in memory:
                count = math.prod(n(inside) for n in extents)
                inside[allocation.buffer_var] = unwritten(count, allocation.dtype)
            warps: dict[tuple[int, ...], list[_Thread]] = {}
            for name, at in _each(threads, env):
                warp = tuple(at[var] for axis, var, _ in threads if axis != _LANES)
                known = warps.setdefault(warp, [])
                fragments = known[0].env[_FRAGMENTS] if known else {}
                own = {**inside, **at, _FRAGMENTS: fragments}
                known.append(_Thread(name, own, run(own)))
            _run_block(list(warps.values()), ledger, instructions)

    return launch


def _each(axes: Sequence[tuple[str, Var, Eval]], env: Env) -> Iterator[tuple[str, Env]]:
    """Yield the indices along some axes, in words and as values of variables."""
    for indices in itertools.product(*(range(extent(env)) for _, _, extent in axes)):
        at = list(zip(axes, indices, strict=True))
        words = ", ".join(f"{axis} = {index}" for (axis, _, _), index in at)
        yield f"({words})", {var: index for (_, var, _), index in at}


class _Thread(NamedTuple):
    """A thread of a block: its indices in words, its variables, and its remaining steps."""

    name: str
    env: Env
    steps: Iterator[s.Stmt]


def _run_block(
    warps: Sequence[Sequence[_Thread]], ledger: Ledger, instructions: Mapping[s.Stmt, Run]
) -> None:
    while True:
        ended, waiting = "", []
        ledger.wait()
        for warp in warps:
            for thread, barrier in zip(warp, _run_warp(warp, ledger, instructions), strict=True):
                if barrier is None:
                    ended = thread.name
                else:
                    waiting.append((thread.name, barrier))
        if not waiting:
            return
        first, at = waiting[0]
        if ended:
            raise InterpreterError(f"thread {first} waits at a barrier, thread {ended} has ended")
        for name, barrier in waiting:
            if barrier is not at:
                raise InterpreterError(
                    f"threads {first} and {name} wait at different barriers: not all threads of "
                    f"the block come to the same one"
                )


def _run_warp(
    warp: Sequence[_Thread], ledger: Ledger, instructions: Mapping[s.Stmt, Run]
) -> list[s.Stmt | None]:
    """Run the threads of a warp; return the barrier at which each waits, None if it has ended."""
    while True:
        found = [
            _located(thread.name, ledger, partial(next, thread.steps, None)) for thread in warp
        ]
        at = next((node for node in found if node in instructions), None)
        if at is None:
            return found
        for thread, node in zip(warp, found, strict=True):
            if node is not at:
                raise InterpreterError(
                    f"thread {thread.name} does not come to `{in_one_line(at)}`, which all threads "
                    f"of a warp have to run together (in block {ledger.block})"
                )
        name, env, _ = warp[0]
        _located(f"{name} to {warp[-1].name}", ledger, partial(instructions[at], env))


def _located(thread: str, ledger: Ledger, run: Callable[[], R]) -> R:
    """Run a part of a thread; its errors say in which thread of which block."""
    ledger.thread = thread
    try:
        return run()
    except InterpreterError as error:
        where = f"in thread {thread} of block {ledger.block}"
        raise InterpreterError(f"{error} ({where})") from error


# ------------------------------------------------------------------------- statements with barriers


def _steps(c: FunctionCompiler, node: s.Stmt) -> Steps:
    """Return a generator function that runs a statement in one thread."""
    if _is_meeting(node):
        return lambda env: iter((node,))
    handler = _HANDLERS.get(type(node))
    if handler is not None and any(_is_meeting(part) for part in statements(node)):
        return handler(c, node)
    run = c.stmt(node)

    def whole(env: Env) -> Iterator[s.Stmt]:
        run(env)
        yield from ()

    return whole


def _is_barrier(node: s.Stmt) -> bool:
    return isinstance(node, s.Evaluate) and isinstance(node.value, Call) and node.value.op is _SYNC


def _instruction(node: s.Stmt) -> s.AttrStmt | None:
    """Return a statement that is an instruction of tensor cores, None for others."""
    if not isinstance(node, s.AttrStmt) or not isinstance(node.value, Call):
        return None
    return node if node.value.op is _TENSOR_CORE else None


def _is_meeting(node: s.Stmt) -> bool:
    return _is_barrier(node) or _instruction(node) is not None


def _sequence(c: FunctionCompiler, node: s.SeqStmt) -> Steps:
    parts = [_steps(c, part) for part in node.seq]

    def run(env: Env) -> Iterator[s.Stmt]:
        for part in parts:
            yield from part(env)

    return run


def _loop(c: FunctionCompiler, node: s.For) -> Steps:
    low, extent, body = c.expr(node.min), c.expr(node.extent), _steps(c, node.body)

    def run(env: Env) -> Iterator[s.Stmt]:
        first = low(env)
        for value in range(first, first + extent(env)):
            env[node.loop_var] = value
            yield from body(env)

    return run


def _while(c: FunctionCompiler, node: s.While) -> Steps:
    condition, body = c.expr(node.condition), _steps(c, node.body)

    def run(env: Env) -> Iterator[s.Stmt]:
        while condition(env):
            yield from body(env)

    return run


def _branch(c: FunctionCompiler, node: s.IfThenElse) -> Steps:
    condition, yes = c.expr(node.condition), _steps(c, node.then_case)
    no = None if node.else_case is None else _steps(c, node.else_case)

    def run(env: Env) -> Iterator[s.Stmt]:
        if condition(env):
            yield from yes(env)
        elif no is not None:
            yield from no(env)

    return run


def _let(c: FunctionCompiler, node: s.LetStmt) -> Steps:
    value, body = c.expr(node.value), _steps(c, node.body)

    def run(env: Env) -> Iterator[s.Stmt]:
        env[node.var] = value(env)
        yield from body(env)

    return run


def _allocate(c: FunctionCompiler, node: s.Allocate) -> Steps:
    extents: list[Callable[[Env], int]] = [c.expr(n) for n in node.extents]
    body = _steps(c, node.body)

    kind = node.buffer_var.type_annotation
    is_fragment = isinstance(kind, PointerType) and kind.storage_scope.startswith("wmma.")

    def run(env: Env) -> Iterator[s.Stmt]:
        memory = unwritten(math.prod(n(env) for n in extents), node.dtype)
        if is_fragment:
            memory = env[_FRAGMENTS].setdefault(node.buffer_var, memory)
        env[node.buffer_var] = memory
        yield from body(env)

    return run


def _declare(c: FunctionCompiler, node: s.DeclBuffer) -> Steps:
    return _steps(c, node.body)


def _attribute(c: FunctionCompiler, node: s.AttrStmt) -> Steps:
    body, ledger = _steps(c, node.body), c.ledger
    assert ledger is not None
    start = ledger.attribute(node, lambda env: None)

    def run(env: Env) -> Iterator[s.Stmt]:
        start(env)
        yield from body(env)

    return run


_HANDLERS: Final[dict[type, Callable[[Any, Any], Steps]]] = {
    s.SeqStmt: _sequence,
    s.For: _loop,
    s.While: _while,
    s.IfThenElse: _branch,
    s.LetStmt: _let,
    s.Allocate: _allocate,
    s.AttrStmt: _attribute,
    s.DeclBuffer: _declare,
}
