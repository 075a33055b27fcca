"""The dialect of CPUs: functions that return a status, memory on the stack or heap, no threads."""

from __future__ import annotations

from typing import Final, NoReturn

from codegen.emit.context import FunctionEmitter
from codegen.emit.dialect import Dialect
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

    def thread_index(self, f: FunctionEmitter, tag: str) -> NoReturn:
        f.fail(f"a loop that is bound to {tag} should have been lowered")

    def barrier(self, f: FunctionEmitter, scope: str) -> NoReturn:
        f.fail("T.tvm_storage_sync waits for threads, which a CPU does not have")

    def shuffle(self, f: FunctionEmitter, node: Call) -> NoReturn:
        f.fail("a warp shuffle exchanges values of threads, which a CPU does not have")

    def call_library(
        self, f: FunctionEmitter, name: str, bits: int, lanes: int, operands: list[tuple[str, str]]
    ) -> str:
        """Call the C library's function (of doubles; `namef` for float32) for each lane.

        LLVM must not treat it as the C function of that name: from the error cases of
        `fmod` it concludes that other NaN are impossible, and drops `fmod(x, NaN)` as undefined.
        """
        symbol = name if bits == 64 else name + "f"
        result = "double" if bits == 64 else "float"
        kinds = [kind if lanes == 1 else kind.split(" x ")[1][:-1] for kind, _ in operands]
        f.module.text.declare(
            symbol,
            f"declare {result} @{symbol}({', '.join(kinds)}) nounwind willreturn memory(none)",
        )
        if lanes == 1:
            arguments = ", ".join(f"{kind} {value}" for kind, value in operands)
            return f.op(f"call {result} @{symbol}({arguments}) nobuiltin")
        total = "poison"
        for lane in range(lanes):
            arguments = ", ".join(
                f"{kind} {f.op(f'extractelement {vector} {value}, i64 {lane}')}"
                for kind, (vector, value) in zip(kinds, operands, strict=True)
            )
            one = f.op(f"call {result} @{symbol}({arguments}) nobuiltin")
            total = f.op(f"insertelement <{lanes} x {result}> {total}, {result} {one}, i64 {lane}")
        return total


CPU: Final[Dialect] = _Cpu()
"""The dialect of all CPUs."""
