"""Rare functions, which call the C library lane by lane."""

from __future__ import annotations

from codegen.emit.context import FunctionEmitter
from codegen.emit.lanes import Formula, Lane
from codegen.emit.llvm_text import register_type
from tensorir.nodes.dtype import DataType


def call_library(w: Formula, name: str, args: list[Lane]) -> Lane:
    """Return the result of the C library's `name` (`namef` for float32) for each lane."""
    symbol = name if w.bits == 64 else name + "f"
    operands = [(w.types["f"], a.text) for a in args]
    return w.value(each_lane(w.f, symbol, w.elements["f"], w.lanes, operands))


def each_lane(
    f: FunctionEmitter, symbol: str, result: str, lanes: int, operands: list[tuple[str, str]]
) -> str:
    """Call the C function `symbol` for each lane of `(vector type, value)` operands.

    LLVM must not treat the symbol as the C function of that name: from the error cases of `fmod` it
    concludes that no other NaN is possible, and drops `fmod(x, NaN)` as undefined.
    """
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


def ldexp(f: FunctionEmitter, x: str, n: str, dtype: DataType, exponent: DataType) -> str:
    """Write x * 2**n for an integer n."""
    kind = register_type(dtype)
    exponents = register_type(exponent)
    short = "f32" if dtype.bits == 32 else "f64"
    if dtype.lanes == 1:
        return f.call_intrinsic(f"llvm.ldexp.{short}.i32", kind, [(kind, x), (exponents, n)])
    symbol = "ldexp" if dtype.bits == 64 else "ldexpf"
    result = register_type(dtype.element)
    return each_lane(f, symbol, result, dtype.lanes, [(kind, x), (exponents, n)])
