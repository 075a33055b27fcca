"""Instructions that the threads of a warp run together: tensor cores, and shuffles of values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeGuard, TypeVar

from tensorir.interp.arguments import Env
from tensorir.interp.ledger import Ledger
from tensorir.interp.memory import InterpreterError, in_one_line
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import Call, IntImm, PrimExpr
from tensorir.nodes.intrin import Op

if TYPE_CHECKING:
    from tensorir.interp.statements import FunctionCompiler

_TENSOR_CORE: Final = Op.get("tensor_core")
_SOURCES: Final[dict[Op, Callable[[int, int, int], int]]] = {
    Op.get("tvm_warp_shuffle"): lambda lane, number, width: number % width,
    Op.get("tvm_warp_shuffle_up"): lambda lane, distance, width: lane - distance,
    Op.get("tvm_warp_shuffle_down"): lambda lane, distance, width: lane + distance,
}
"""The lane of a segment of `width` lanes whose value a lane of it gets, by its operand."""

R = TypeVar("R")


@dataclass(eq=False, slots=True)
class Thread:
    """A thread of a block."""

    name: str
    """Its indices in words."""
    number: int
    """Its number in the block; threadIdx.x is the fastest axis."""
    env: Env
    steps: Iterator[s.Stmt]
    at: s.Stmt | None = None
    """The barrier or instruction at which it waits; None once it has ended."""


@dataclass(frozen=True, eq=False, slots=True)
class Instruction:
    """An instruction of a warp."""

    lanes: int | None
    """The number of threads in a warp; None for the extent of threadIdx.x."""
    run: Callable[[Sequence[Thread]], None]
    """Runs it for the threads of a warp."""


def is_instruction(node: s.Stmt) -> bool:
    """Return True for a statement that starts with an instruction of a warp."""
    return _is_tensor_core(node) or _is_exchange(node)


def value_to_exchange(node: s.LetStmt) -> PrimExpr | None:
    """Return a thread's own value in a shuffle to which a variable is bound, None without one."""
    call = node.value
    return call.args[1] if isinstance(call, Call) and call.op in _SOURCES else None


def _is_tensor_core(node: s.Stmt) -> TypeGuard[s.AttrStmt]:
    if not isinstance(node, s.AttrStmt) or not isinstance(node.value, Call):
        return False
    return node.value.op is _TENSOR_CORE


def _is_exchange(node: s.Stmt) -> TypeGuard[s.LetStmt]:
    return isinstance(node, s.LetStmt) and value_to_exchange(node) is not None


def compile_instructions(c: FunctionCompiler, nodes: Iterable[s.Stmt]) -> dict[s.Stmt, Instruction]:
    """Return the instructions of warps among statements."""
    found: dict[s.Stmt, Instruction] = {}
    for node in nodes:
        if _is_tensor_core(node):
            body = c.stmt(node.body)
            found[node] = Instruction(None, lambda warp, body=body: body(warp[0].env))  # type: ignore[misc]
        elif _is_exchange(node):
            found[node] = _exchange(c, node)
    return found


def _exchange(c: FunctionCompiler, node: s.LetStmt) -> Instruction:
    """Return a shuffle, before which the variable has each thread's own value.

    A lane whose source is outside of its segment keeps its own value. It has none if the block has
    no such thread.
    """
    assert isinstance(node.value, Call)
    assert isinstance(node.value.op, Op)
    mask, _, operand, *sizes = node.value.args
    width, lanes = map(_constant, sizes)
    if _constant(mask) not in (-1, (1 << lanes) - 1) or width < 1 or lanes % width:
        raise InterpreterError(
            f"`{node.value}` is interpreted with the mask -1, for all lanes of a warp, and a width "
            f"that divides the size of the warp"
        )
    number, source_of = c.expr(operand), _SOURCES[node.value.op]

    def exchange(warp: Sequence[Thread]) -> None:
        own = [thread.env.pop(node.var) for thread in warp]
        for lane, thread in enumerate(warp):
            source = source_of(lane % width, number(thread.env), width)
            at = lane - lane % width + source if 0 <= source < width else lane
            if at < len(own):
                thread.env[node.var] = own[at]

    return Instruction(lanes, exchange)


def _constant(node: PrimExpr) -> int:
    if not isinstance(node, IntImm):
        raise InterpreterError(f"the mask and the sizes of a shuffle must be constant, got {node}")
    return node.value


class Threads:
    """The threads of a block. Those of a warp have consecutive numbers."""

    def __init__(
        self,
        threads: Sequence[Thread],
        width: int,
        ledger: Ledger,
        instructions: Mapping[s.Stmt, Instruction],
    ) -> None:
        """`width` is the extent of threadIdx.x."""
        self._threads = threads
        self._ledger = ledger
        self._instructions = instructions
        self._warps: dict[Instruction, list[Sequence[Thread]]] = {}
        ordered = sorted(threads, key=lambda thread: thread.number)
        for instruction in instructions.values():
            lanes = instruction.lanes or width
            starts = range(0, len(ordered), lanes)
            self._warps[instruction] = [ordered[k : k + lanes] for k in starts]

    def __iter__(self) -> Iterator[Thread]:
        return iter(self._threads)

    def run_to_barrier(self) -> None:
        """Run the threads until each waits at a barrier, or has ended."""
        running = self._threads
        while running:
            for thread in running:
                thread.at = self._located(thread.name, partial(next, thread.steps, None))
            running = [
                thread
                for instruction, warp in self._waiting()
                if all(thread.at is warp[0].at for thread in warp)
                for thread in self._run(instruction, warp)
            ]
        for _, warp in self._waiting():
            self._refuse(warp)

    def _waiting(self) -> Iterator[tuple[Instruction, Sequence[Thread]]]:
        """Yield the instructions at which threads wait, with each of their warps."""
        for at in dict.fromkeys(thread.at for thread in self._threads):
            instruction = None if at is None else self._instructions.get(at)
            if instruction is not None:
                for warp in self._warps[instruction]:
                    if any(thread.at is at for thread in warp):
                        yield instruction, warp

    def _run(self, instruction: Instruction, warp: Sequence[Thread]) -> Sequence[Thread]:
        """Run an instruction, and return the threads that have passed it."""
        self._located(f"{warp[0].name} to {warp[-1].name}", partial(instruction.run, warp))
        return warp

    def _refuse(self, warp: Sequence[Thread]) -> None:
        at = next(t.at for t in warp if t.at is not None and t.at in self._instructions)
        other = next(thread for thread in warp if thread.at is not at)
        raise InterpreterError(
            f"thread {other.name} does not come to `{in_one_line(at)}`, which all threads of a "
            f"warp have to run together (in block {self._ledger.block})"
        )

    def _located(self, thread: str, run: Callable[[], R]) -> R:
        """Run a part of a thread; its errors say in which thread of which block."""
        self._ledger.thread = thread
        try:
            return run()
        except InterpreterError as error:
            where = f"in thread {thread} of block {self._ledger.block}"
            raise InterpreterError(f"{error} ({where})") from error
