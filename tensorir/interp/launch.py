"""Launches of kernels: the threads of each block in lock step, with a ledger of their accesses.

A launch is a nest of loops bound to blocks, then to threads, each axis once; shared memory is
allocated in between, and no block statement is inside. The threads of a block run one after the
other from barrier to barrier, and the ledger keeps who accessed which element since the last one.
It is an error if two threads access one element with a store among the accesses, also if they
store the same value; if blocks of one launch do; if not all threads come to the same barrier; and
if memory is read that the kernel allocates and has not written. An asynchronous copy is written
where its thread waits for it.

The threads of a warp meet at its instructions (`tensorir.interp.warp`). One of tensor cores runs
once, by its definition, for threads that differ in `threadIdx.x` only, which have one copy of each
fragment. In a shuffle, the value of a let, each thread gets the value of another one. It is an
error if the threads of a warp do not all come to the same instruction.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tensorir.interp.arguments import Env
from tensorir.interp.ledger import Ledger
from tensorir.interp.memory import InterpreterError, unwritten
from tensorir.interp.warp import (
    Thread,
    Threads,
    compile_instructions,
    is_instruction,
    value_to_exchange,
)
from tensorir.memory.storage_scopes import is_fragment
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import Call, Var
from tensorir.nodes.intrin import Op
from tensorir.rewriting.visit import statements

if TYPE_CHECKING:
    from tensorir.interp.accesses import Eval
    from tensorir.interp.statements import FunctionCompiler, Run

_SYNC: Final = Op.get("tvm_storage_sync")
_BLOCK: Final = "blockIdx."
_THREAD: Final = "threadIdx."
_LANES: Final = "threadIdx.x"
_FRAGMENTS: Final = Var("fragments", "handle")
"""The memory of the fragments of a warp, by the pointers to it."""

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
    fastest_last = sorted(threads, key=lambda axis: axis[0], reverse=True)
    ledger = Ledger(body)
    outer, c.ledger = c.ledger, ledger
    run = _steps(c, body)
    instructions = compile_instructions(c, statements(body))
    c.ledger = outer

    def launch(env: Env) -> None:
        ledger.begin()
        for ledger.block, indices in _each(blocks, env):
            inside = {**env, **indices}
            ledger.begin_block()
            for allocation, extents in memory:
                count = math.prod(n(inside) for n in extents)
                inside[allocation.buffer_var] = unwritten(count, allocation.dtype)
            found: list[Thread] = []
            widths = {axis: extent(env) for axis, _, extent in threads}
            fragments: dict[int, Env] = {}
            for name, at in _each(threads, env):
                number = 0
                for axis, var, _ in fastest_last:
                    number = number * widths[axis] + at[var]
                warp = number // widths.get(_LANES, 1)
                own = {**inside, **at, _FRAGMENTS: fragments.setdefault(warp, {})}
                found.append(Thread(name, number, own, run(own)))
            _run_block(Threads(found, widths.get(_LANES, 1), ledger, instructions), ledger)

    return launch


def _each(axes: Sequence[tuple[str, Var, Eval]], env: Env) -> Iterator[tuple[str, Env]]:
    """Yield the indices along some axes, in words and as values of variables."""
    for indices in itertools.product(*(range(extent(env)) for _, _, extent in axes)):
        at = list(zip(axes, indices, strict=True))
        words = ", ".join(f"{axis} = {index}" for (axis, _, _), index in at)
        yield f"({words})", {var: index for (_, var, _), index in at}


def _run_block(threads: Threads, ledger: Ledger) -> None:
    while True:
        ledger.wait()
        threads.run_to_barrier()
        waiting = [(thread.name, thread.at) for thread in threads if thread.at is not None]
        if not waiting:
            return
        first, at = waiting[0]
        for thread in threads:
            if thread.at is None:
                raise InterpreterError(
                    f"thread {first} waits at a barrier, thread {thread.name} has ended"
                )
        for name, barrier in waiting:
            if barrier is not at:
                raise InterpreterError(
                    f"threads {first} and {name} wait at different barriers: not all threads of "
                    f"the block come to the same one"
                )


# ------------------------------------------------------------------------- statements with barriers


def _steps(c: FunctionCompiler, node: s.Stmt) -> Steps:
    """Return a generator function that runs a statement in one thread."""
    if _is_meeting(node) and not isinstance(node, s.LetStmt):
        return lambda env: iter((node,))
    handler = _HANDLERS.get(type(node))
    if handler is not None and any(map(_is_meeting, statements(node))):
        return handler(c, node)
    run = c.stmt(node)

    def whole(env: Env) -> Iterator[s.Stmt]:
        run(env)
        yield from ()

    return whole


def _is_meeting(node: s.Stmt) -> bool:
    """Return True for a barrier, and for an instruction of a warp."""
    if isinstance(node, s.Evaluate) and isinstance(node.value, Call) and node.value.op is _SYNC:
        return True
    return is_instruction(node)


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
    own = value_to_exchange(node)
    value, body = c.expr(node.value if own is None else own), _steps(c, node.body)

    def run(env: Env) -> Iterator[s.Stmt]:
        env[node.var] = value(env)
        if own is not None:
            yield node
        yield from body(env)

    return run


def _allocate(c: FunctionCompiler, node: s.Allocate) -> Steps:
    extents: list[Callable[[Env], int]] = [c.expr(n) for n in node.extents]
    body = _steps(c, node.body)

    is_of_warp = is_fragment(node.buffer_var)

    def run(env: Env) -> Iterator[s.Stmt]:
        memory = unwritten(math.prod(n(env) for n in extents), node.dtype)
        if is_of_warp:
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
