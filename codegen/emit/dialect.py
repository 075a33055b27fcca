"""The parts of LLVM IR that are written in another way for each kind of processor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from codegen.emit.context import FunctionEmitter
from tensorir.nodes.expr import Call, PrimExpr, Var
from tensorir.nodes.stmt import Allocate


class Dialect(ABC):
    """LLVM IR for one kind of processor; everything else is the same for all."""

    library_functions: ClassVar[frozenset[str]] = frozenset()
    """The intrinsics that have a formula in `codegen.vector_math`, which this dialect ignores."""

    has_gathers: ClassVar[bool] = True
    """True if instructions access lanes under masks, and lanes that lie anywhere."""
    needs_alignment: ClassVar[bool] = False
    """True if accesses are faster where they are known to be aligned."""
    converts_nan: ClassVar[bool] = True
    """True if LLVM's saturating conversions to integers make 0 of NaN, as they should."""

    @abstractmethod
    def pointer(self, data: Var) -> str:
        """Return the type of pointers into the memory of a data pointer, by its storage scope."""

    @abstractmethod
    def leave(self, f: FunctionEmitter, status: str) -> None:
        """Write the return from a function with a status, which is "0" for success."""

    @abstractmethod
    def allocate(self, f: FunctionEmitter, node: Allocate) -> None:
        """Write an allocation and its body."""

    def alignment(self, index: PrimExpr, nbytes: int) -> int:
        """Return the alignment in bytes of the element of `nbytes` bytes at an index."""
        return nbytes

    @abstractmethod
    def thread_index(self, f: FunctionEmitter, tag: str, count: int) -> str:
        """Write the read of a thread's index, below `count`, on an axis such as `threadIdx.x`.

        Its result has the index type.
        """

    @abstractmethod
    def barrier(self, f: FunctionEmitter, scope: str) -> None:
        """Write a barrier of all threads that share memory of a scope ("shared", "warp")."""

    @abstractmethod
    def shuffle(self, f: FunctionEmitter, node: Call) -> str:
        """Write `tvm_warp_shuffle`, `tvm_warp_shuffle_up` or `tvm_warp_shuffle_down`."""

    def tensor_core(self, f: FunctionEmitter, node: Call) -> None:
        """Write a `T.tensor_core`, an instruction that the threads of a warp run together."""
        f.fail("the target has no tensor cores")

    def asynchronous(self, f: FunctionEmitter, name: str, operands: list[tuple[str, str]]) -> None:
        """Write an asynchronous copy from global to shared memory, or a wait for such copies.

        `name` is that of NVIDIA's instruction behind `cp.async`; operands are types and values.
        """
        f.fail("only CUDA copies asynchronously, from sm_80 on")

    @abstractmethod
    def call_library(
        self, f: FunctionEmitter, name: str, bits: int, lanes: int, operands: list[tuple[str, str]]
    ) -> str:
        """Call a mathematical function that has no formula in `codegen.vector_math`.

        `operands` are types (of vectors, for more than one lane) and values; the result is of the
        type of the first, of floats of `bits` bits.
        """


def call_each_lane(
    f: FunctionEmitter, symbol: str, bits: int, lanes: int, operands: list[tuple[str, str]]
) -> str:
    """Call a function of scalars for each lane of operands, given as types and values.

    LLVM must not treat it as the C function of that name: from the error cases of
    `fmod` it concludes that other NaN are impossible, and drops `fmod(x, NaN)` as undefined.
    """
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
