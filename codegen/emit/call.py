"""Calls of intrinsics, of C functions and of other functions of the module.

Functions of a real variable are in `codegen.vector_math`; all others are here.
"""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import Final

from codegen.abi import kernel_symbol
from codegen.emit.context import INTRINSICS, FunctionEmitter, emits, emits_call, mangled
from codegen.emit.convert import convert, half_to_float32
from codegen.emit.expr import may_not_run
from codegen.emit.integer import shift
from codegen.emit.library_call import reaches_library, refuse_in_parallel
from codegen.emit.llvm_text import global_name, is_half, memory_type, register_type
from codegen.emit.memory import element_address, flat_index
from codegen.signature import symbolic_vars
from codegen.target import machine_intrinsics
from tensorir.arith.const_interval import exact_interval
from tensorir.errors import IRValueError
from tensorir.function import PrimFunc
from tensorir.nodes.dtype import INT32, INT64, DataType
from tensorir.nodes.expr import BufferLoad, Call, GlobalVar, IntImm, PrimExpr, StringImm, Var
from tensorir.nodes.intrin import Op
from tensorir.nodes.llvm_intrinsics import check_llvm_intrinsic
from tensorir.nodes.ops import cast

_C_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")


@emits(Call)
def _call(f: FunctionEmitter, node: Call) -> str:
    if isinstance(node.op, GlobalVar):
        return _call_function(f, node, node.op.name)
    handler = INTRINSICS.get(node.op.short_name)
    if handler is None:
        f.fail(f"intrinsic T.{node.op.short_name} has no compiled form")
    return handler(f, node)


# -------------------------------------------------------------------------------------- functions


def _call_function(f: FunctionEmitter, node: Call, name: str) -> str:
    callee = f.module.functions.get(name)
    if callee is None:
        f.fail(f"it calls {name}, which is not a function of the module")
    extents = symbolic_vars(callee)
    if len(node.args) != len(callee.params) + len(extents):
        sizes = (
            f", followed by the sizes {[v.name for v in extents]} of its shapes" if extents else ""
        )
        f.fail(
            f"it calls {name} with {len(node.args)} arguments, but {name} has "
            f"{len(callee.params)} parameters{sizes}"
        )
    if f.in_parallel and (library := reaches_library(f, name)) is not None:
        refuse_in_parallel(f, f"it calls {name}, which calls library function {library!r},")
    known = f.module.signatures.get(name)
    parameters = known.parameters if known is not None else ()
    arguments = []
    for parameter, arg in zip_longest(parameters, node.args):
        written = set(f.written)
        arguments.append(_typed_argument(f, arg))
        if parameter is not None and not parameter.written:
            f.written = written
    result = ""
    if has_result(callee):
        result = f.stack(register_type(node.dtype), 16)
        arguments.append(("ptr", result))
    symbol = global_name(kernel_symbol(name))
    if name != f.module.name:
        types = ", ".join(kind for kind, _ in arguments)
        f.module.text.declare(symbol, f"declare i32 {symbol}({types})")
    f.forget_loads()
    status = f.op(f"call i32 {symbol}({', '.join(map(' '.join, arguments))})")
    f.leave_unless(f.op(f"icmp eq i32 {status}, 0"), status)
    return f.op(f"load {register_type(node.dtype)}, ptr {result}") if result else "0"


def has_result(func: PrimFunc) -> bool:
    """Return whether a function returns a value."""
    dtype = getattr(func.ret_type, "dtype", None)
    return dtype is not None and dtype != "void"


def _typed_argument(f: FunctionEmitter, arg: PrimExpr) -> tuple[str, str]:
    if isinstance(arg, Var) and arg.dtype.is_handle:
        f.written.add(arg)
    if arg.dtype.lanes > 1:
        f.fail("a vector cannot be passed to a function")
    extension = ""
    if arg.dtype.is_integral and arg.dtype.bits < 32:
        extension = " signext" if arg.dtype.is_int else " zeroext"
    return register_type(arg.dtype) + extension, f.expr(arg)


def _extend_argument(arg: PrimExpr) -> PrimExpr:
    """Return an argument of a C function, which expects narrow integers as 32 bits.

    They are extended here and not by attributes, because calls of one function have one
    declaration, whether their arguments have a sign or not.
    """
    dtype = arg.dtype
    narrow = dtype.is_integral and dtype.bits < 32 and dtype.lanes == 1
    return cast(INT32, arg) if narrow else arg


@emits_call("call_extern", "call_pure_extern")
def _extern(f: FunctionEmitter, node: Call) -> str:
    name = node.args[0]
    if not isinstance(name, StringImm):
        f.fail("the first argument of T.call_extern must be the name of a C function")
    arguments = [_typed_argument(f, _extend_argument(arg)) for arg in node.args[1:]]
    result = "void" if node.dtype.bits == 0 else register_type(node.dtype)
    if not _C_NAME.match(name.value):
        f.fail(f"T.call_extern: {name.value!r} is not a valid name of a C function")
    f.module.externs.add(name.value)
    f.forget_loads()
    return f.call_intrinsic(name.value, result, arguments) or "null"


@emits_call("call_llvm_intrin", "call_llvm_pure_intrin")
def _llvm_intrinsic(f: FunctionEmitter, node: Call) -> str:
    name, operands = node.args[0], list(node.args[1:])
    if not isinstance(name, StringImm):
        f.fail("the first argument of T.call_llvm_intrin must be the name of an LLVM intrinsic")
    if operands and type(operands[0]) is IntImm and operands[0].dtype == "uint32":
        del operands[0]  # the number of overloaded operands, which LLVM infers
    arguments = [(register_type(a.dtype), f.expr(a)) for a in operands]
    result = "void" if node.dtype.bits == 0 else register_type(node.dtype)
    f.forget_loads()
    if name.value.startswith(machine_intrinsics.PREFIXES):
        reason = machine_intrinsics.refusal(
            name.value, f.module.target
        ) or machine_intrinsics.misuse(name.value, node.dtype, operands)
        if reason is not None:
            f.fail(reason)
        arguments = [
            _instruction_operand(f, a.dtype, v)
            for a, (_, v) in zip(operands, arguments, strict=True)
        ]
        return f.call_intrinsic(name.value, result, arguments)
    try:
        check_llvm_intrinsic(name.value)
    except IRValueError as error:
        f.fail(str(error))
    # Two overloads of a name need two declarations; LLVM corrects the suffix when it parses them.
    suffix = "".join(f".{mangled(a.dtype)}" for a in operands[:1])
    full = name.value if suffix and name.value.endswith(suffix) else name.value + suffix
    return f.call_intrinsic(full, result, arguments)


def _instruction_operand(f: FunctionEmitter, dtype: DataType, value: str) -> tuple[str, str]:
    """Return an operand with its type, bfloat16 under LLVM's own type and not as integers."""
    kind = register_type(dtype)
    if dtype.code != "bfloat":
        return kind, value
    own = f"<{dtype.lanes} x bfloat>"
    return own, f.op(f"bitcast {kind} {value} to {own}")


# ----------------------------------------------------------------------------- control, hints


@emits_call("if_then_else")
def _if_then_else(f: FunctionEmitter, node: Call) -> str:
    condition, yes, no = node.args
    kind = register_type(node.dtype)
    if condition.dtype.lanes > 1:
        f.fail("the condition of T.if_then_else must be a scalar; T.Select chooses lane by lane")
    test = f.expr(condition)
    if not may_not_run(yes) and not may_not_run(no):
        chosen = f.expr(yes)
        return f.op(f"select i1 {test}, {kind} {chosen}, {kind} {f.expr(no)}")
    return f.emit_select(test, kind, lambda: f.expr(yes), lambda: f.expr(no))


@emits_call("assume")
def _assume(f: FunctionEmitter, node: Call) -> str:
    condition = f.expr(node.args[0])
    f.call_intrinsic("llvm.assume", "void", [("i1", condition)])
    return condition


INTRINSICS.update(
    {
        "likely": lambda f, node: f.expr(node.args[0]),
        "undef": lambda f, node: f.op(f"freeze {register_type(node.dtype)} poison"),
        "ret": lambda f, _: f.fail("T.ret is a statement, not a part of an expression"),
        "isnullptr": lambda f, node: f.op(f"icmp eq ptr {f.expr(node.args[0])}, null"),
        "popcount": lambda f, n: f.math_intrinsic("ctpop", n.dtype, f.expr(n.args[0])),
    }
)


# -------------------------------------------------------------------------------------- threads


@emits_call("tvm_storage_sync")
def _storage_sync(f: FunctionEmitter, node: Call) -> str:
    scope = node.args[0]
    if not isinstance(scope, StringImm) or scope.value not in ("shared", "warp"):
        f.fail('T.tvm_storage_sync takes the scope "shared" or "warp"')
    f.module.dialect.barrier(f, scope.value)
    f.forget_loads()
    return "0"


@emits_call("tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down")
def _warp_shuffle(f: FunctionEmitter, node: Call) -> str:
    return f.module.dialect.shuffle(f, node)


# ----------------------------------------------------------------------------------- pointers


@emits_call("address_of")
def _address_of(f: FunctionEmitter, node: Call) -> str:
    load = node.args[0]
    if not isinstance(load, BufferLoad):
        f.fail("the argument of T.address_of must be an element of a buffer")
    f.written.add(load.buffer.data)
    return element_address(f, load.buffer, flat_index(f, load.buffer, load.indices))


@emits_call("tvm_access_ptr")
def _access_pointer(f: FunctionEmitter, node: Call) -> str:
    kind, data, offset, _, mode = node.args
    if not isinstance(data, Var):
        f.fail("the first operand of T.tvm_access_ptr must be the data pointer of a buffer")
    if type(mode) is not IntImm or mode.value & 2:
        f.written.add(data)
    element = memory_type(kind.dtype.element)
    start = f.index(offset)
    return f.op(f"getelementptr inbounds {element}, ptr {f.expr(data)}, i64 {start}")


@emits_call("reinterpret")
def _reinterpret(f: FunctionEmitter, node: Call) -> str:
    value, source, target = f.expr(node.args[0]), node.args[0].dtype, node.dtype
    if source.is_bool:  # it takes a byte
        byte = DataType("uint8").with_lanes(source.lanes)
        value, source = convert(f, value, source, byte), byte
    if target.is_bool:
        byte = DataType("uint8").with_lanes(target.lanes)
        value = _reinterpreted(f, value, source, byte)
        kind = register_type(byte)
        return f.op(f"trunc {kind} {value} to {register_type(target)}")
    return _reinterpreted(f, value, source, target)


def _reinterpreted(f: FunctionEmitter, value: str, source: DataType, target: DataType) -> str:
    from_type, to_type = register_type(source), register_type(target)
    if from_type == to_type:
        return value
    instruction = "bitcast"
    if source.is_handle:
        instruction = "ptrtoint"
    elif target.is_handle:
        instruction = "inttoptr"
    return f.op(f"{instruction} {from_type} {value} to {to_type}")


# -------------------------------------------------------------------------------- bits, lanes


@emits_call("bitwise_and", "bitwise_or", "bitwise_xor")
def _bitwise(f: FunctionEmitter, node: Call) -> str:
    assert isinstance(node.op, Op)
    left = f.expr(node.args[0])
    name = node.op.short_name.removeprefix("bitwise_")
    return f.op(f"{name} {register_type(node.dtype)} {left}, {f.expr(node.args[1])}")


@emits_call("bitwise_not")
def _bitwise_not(f: FunctionEmitter, node: Call) -> str:
    element = register_type(node.dtype.element)
    ones = f.splat("true" if element == "i1" else "-1", element, node.dtype.lanes)
    return f.op(f"xor {register_type(node.dtype)} {f.expr(node.args[0])}, {ones}")


@emits_call("shift_left", "shift_right")
def _shift(f: FunctionEmitter, node: Call) -> str:
    assert isinstance(node.op, Op)
    value, amount = node.args
    left = f.expr(value)
    amounts = exact_interval(amount, f.ranges)
    return shift(f, node.op.short_name, node.dtype, left, f.expr(amount), amounts)


@emits_call("clz")
def _leading_zeros(f: FunctionEmitter, node: Call) -> str:
    source = node.args[0].dtype
    kind = register_type(source)
    count = f.call_intrinsic(
        f"llvm.ctlz.{mangled(source)}", kind, [(kind, f.expr(node.args[0])), ("i1", "false")]
    )
    return convert(f, count, source, node.dtype)


@emits_call("isnan")
def _is_nan(f: FunctionEmitter, node: Call) -> str:
    dtype = node.args[0].dtype
    value = f.expr(node.args[0])
    if dtype.is_integral:
        return f.splat("false", "i1", dtype.lanes)
    if is_half(dtype):
        value = half_to_float32(f, value, dtype)
        dtype = DataType("float32").with_lanes(dtype.lanes)
    return f.op(f"fcmp uno {register_type(dtype)} {value}, {value}")


@emits_call("large_uint_imm")
def _large_uint(f: FunctionEmitter, node: Call) -> str:
    low, high = node.args
    if type(low) is not IntImm or type(high) is not IntImm:
        f.fail("the operands of large_uint_imm must be two constants")
    value = (high.value << 32) | low.value
    return str(value - (1 << 64) if value >> 63 else value)


@emits_call("vectorlow", "vectorhigh")
def _half_vector(f: FunctionEmitter, node: Call) -> str:
    assert isinstance(node.op, Op)
    source, lanes = node.args[0].dtype, node.dtype.lanes
    start = source.lanes - lanes if node.op.short_name == "vectorhigh" else 0
    kind = register_type(source)
    return f.shuffle(kind, f.expr(node.args[0]), "poison", range(start, start + lanes))


@emits_call("vectorcombine")
def _combine_vectors(f: FunctionEmitter, node: Call) -> str:
    kind = register_type(node.args[0].dtype)
    left, right = map(f.expr, node.args)
    return f.shuffle(kind, left, right, range(node.dtype.lanes))


@emits_call("q_multiply_shift")
def _fixed_point_multiply(f: FunctionEmitter, node: Call) -> str:
    """Multiply by a fixed point number with `q` fractional bits, shift by `s`, round half up."""
    x, y, q, s = node.args
    lanes = node.dtype.lanes
    if type(q) is not IntImm or type(s) is not IntImm:
        f.fail("q and s of T.q_multiply_shift must be constants")
    total = q.value + max(0, -s.value)
    if not (s.value < 64 and 0 <= total < 64):
        f.fail(f"T.q_multiply_shift by q = {q.value} and s = {s.value} would shift out all 64 bits")
    wide, narrow = register_type(INT64.with_lanes(lanes)), register_type(node.dtype)
    left = f.op(f"sext {narrow} {f.expr(x)} to {wide}")
    right = f.op(f"sext {narrow} {f.expr(y)} to {wide}")
    if s.value > 0:
        left = f.op(f"shl {wide} {left}, {f.splat(str(s.value), 'i64', lanes)}")
    product = f.op(f"mul {wide} {left}, {right}")
    if total > 0:
        half = f.splat(str(1 << (total - 1)), "i64", lanes)
        rounded = f.op(f"add {wide} {product}, {half}")
        product = f.op(f"ashr {wide} {rounded}, {f.splat(str(total), 'i64', lanes)}")
    return f.op(f"trunc {wide} {product} to {narrow}")
