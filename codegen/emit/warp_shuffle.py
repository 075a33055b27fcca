"""Exchanges of values between the lanes of a warp, in words of 32 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from codegen.emit.context import FunctionEmitter
from codegen.emit.convert import convert
from codegen.emit.llvm_text import register_type
from codegen.target.gpu import WARP
from tensorir.nodes.dtype import INT32, DataType
from tensorir.nodes.expr import Call, IntImm
from tensorir.nodes.intrin import Op

_WORD: Final = 32


def shuffle_by_nvptx(f: FunctionEmitter, node: Call) -> str:
    """Write a shuffle as PTX has it (`shfl.sync`)."""
    mode, width = _mode(node), _width(f, node)
    mask, value, lane, *_ = node.args
    members = convert(f, f.expr(mask), mask.dtype, INT32)
    number = convert(f, f.expr(lane), lane.dtype, INT32)
    clamp = ((WARP - width) << 8) | (0 if mode == "up" else WARP - 1)

    def move(word: str) -> str:
        operands = [members, word, number, str(clamp)]
        name = f"llvm.nvvm.shfl.sync.{mode}.i32"
        return f.call_intrinsic(name, "i32", [("i32", operand) for operand in operands])

    return _by_words(f, f.expr(value), value.dtype, move)


def shuffle_by_amdgpu(f: FunctionEmitter, node: Call) -> str:
    """Write a shuffle as a read of another lane's register (`ds_bpermute_b32`).

    The mask is ignored: all lanes of a warp have to come.
    """
    mode, width = _mode(node), _width(f, node)
    _, value, lane, *_ = node.args
    operand = convert(f, f.expr(lane), lane.dtype, INT32)
    below = f.call_intrinsic("llvm.amdgcn.mbcnt.lo", "i32", [("i32", "-1"), ("i32", "0")])
    own = f.call_intrinsic("llvm.amdgcn.mbcnt.hi", "i32", [("i32", "-1"), ("i32", below)])
    if mode == "idx":
        first, other = (f.op(f"and i32 {x}, {y}") for x, y in ((own, -width), (operand, width - 1)))
        source = f.op(f"or i32 {first}, {other}")
    else:
        source = f.op(f"{'sub' if mode == 'up' else 'add'} i32 {own}, {operand}")
        moved = f.op(f"xor i32 {own}, {source}")
        is_inside = f.op(f"icmp ult i32 {moved}, {width}")
        source = f.op(f"select i1 {is_inside}, i32 {source}, i32 {own}")
    address = f.op(f"shl i32 {source}, 2")

    def move(word: str) -> str:
        name = "llvm.amdgcn.ds.bpermute"
        return f.call_intrinsic(name, "i32", [("i32", address), ("i32", word)])

    return _by_words(f, f.expr(value), value.dtype, move)


def _mode(node: Call) -> str:
    assert isinstance(node.op, Op)
    return node.op.short_name.removeprefix("tvm_warp_shuffle").removeprefix("_") or "idx"


def _width(f: FunctionEmitter, node: Call) -> int:
    width = node.args[3]
    if not isinstance(width, IntImm) or width.value < 1 or width.value & (width.value - 1):
        f.fail(f"a warp shuffle has a constant power of two as its width, got {width}")
    return width.value


def _by_words(f: FunctionEmitter, value: str, dtype: DataType, move: Callable[[str], str]) -> str:
    """Write the exchange of a scalar whose words are moved by a function."""
    if dtype.lanes > 1 or dtype.is_handle:
        f.fail(f"a warp shuffle exchanges scalars, got {dtype}")
    kind, bits = register_type(dtype), f"i{dtype.bits}"
    if dtype.bits < _WORD:
        moved = move(f.op(f"zext {bits} {value} to i32"))
        return f.op(f"trunc i32 {moved} to {bits}")
    words = f"<{dtype.bits // _WORD} x i32>"
    vector = f.op(f"bitcast {kind} {value} to {words}")
    result = "poison"
    for k in range(dtype.bits // _WORD):
        moved = move(f.op(f"extractelement {words} {vector}, i32 {k}"))
        result = f.op(f"insertelement {words} {result}, i32 {moved}, i32 {k}")
    return f.op(f"bitcast {words} {result} to {kind}")
