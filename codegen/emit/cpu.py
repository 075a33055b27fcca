"""The dialect of CPUs: functions that return a status, memory on the stack or heap, no threads."""

from __future__ import annotations

from typing import Final, NoReturn

from codegen.emit.context import FunctionEmitter
from codegen.emit.dialect import Dialect, call_each_lane
from codegen.emit.memory import allocate_for_cpu
from tensorir.nodes.expr import Call, Var
from tensorir.nodes.stmt import Allocate


class _Cpu(Dialect):
    def pointer(self, data: Var) -> str:
        return "ptr"

    def leave(self, f: FunctionEmitter, status: str) -> None:
        """Free the memory on the heap and return."""
        for pointer in reversed(f.cleanups):
            f.do(f"call void @free(ptr {pointer})")
        f.do(f"ret i32 {status}")

    def allocate(self, f: FunctionEmitter, node: Allocate) -> None:
        allocate_for_cpu(f, node)

    def thread_index(self, f: FunctionEmitter, tag: str, count: int) -> NoReturn:
        f.fail(f"a loop that is bound to {tag} should have been lowered")

    def barrier(self, f: FunctionEmitter, scope: str) -> NoReturn:
        f.fail("T.tvm_storage_sync waits for threads, which a CPU does not have")

    def shuffle(self, f: FunctionEmitter, node: Call) -> NoReturn:
        f.fail("a warp shuffle exchanges values of threads, which a CPU does not have")

    def call_library(
        self, f: FunctionEmitter, name: str, bits: int, lanes: int, operands: list[tuple[str, str]]
    ) -> str:
        """Call the C library's function (of doubles; `namef` for float32) for each lane."""
        return call_each_lane(f, name if bits == 64 else name + "f", bits, lanes, operands)


CPU: Final[Dialect] = _Cpu()
"""The dialect of all CPUs."""
