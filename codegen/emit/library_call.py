"""Calls of library functions, which are Python functions: `T.call_packed(name, ...)`."""

from __future__ import annotations

from codegen.abi import LIBRARY_FAILED, library_symbol
from codegen.emit.context import FunctionEmitter, emits_call
from codegen.emit.convert import convert
from codegen.emit.llvm_text import global_name, memory_type
from codegen.signature import (
    Argument,
    ArrayArgument,
    LibraryCall,
    ScalarArgument,
    TextArgument,
)
from tensorir.errors import IRTypeError
from tensorir.nodes.dtype import FLOAT64, INT64, DataType
from tensorir.nodes.expr import Call, IntImm, PrimExpr, StringImm, Var
from tensorir.nodes.packed_call import CALL_PACKED, PackedArray, packed_arguments
from tensorir.relax.call_graph import all_callees
from tensorir.rewriting.visit import walk


@emits_call("tvm_call_packed")
def _with_result(f: FunctionEmitter, node: Call) -> str:
    return emit_library_call(f, node, wants_result=True)


@emits_call("tvm_call_cpacked")
def _of_c(f: FunctionEmitter, node: Call) -> str:
    f.fail(
        "T.call_cpacked calls a C function of TVM's runtime, which does not exist here; call a C "
        "function by T.call_extern, a Python function by T.call_packed"
    )


def emit_library_call(f: FunctionEmitter, node: Call, wants_result: bool) -> str:
    """Write a call of a library function; return its result, an int32."""
    try:
        name, arguments = packed_arguments(node)
    except IRTypeError as problem:
        f.fail(str(problem))
    if f.in_parallel:
        refuse_in_parallel(f, f"it calls library function {name!r}")
    slots = _Slots(f)
    described = tuple(slots.add(argument) for argument in arguments)
    f.module.library.append(LibraryCall(name, described, wants_result))
    symbol = global_name(library_symbol(f.module.name))
    f.module.text.declare(symbol, f"declare i32 {symbol}(i32, ptr)")
    array = slots.store()
    number = len(f.module.library) - 1
    f.forget_loads()
    went_well = f.op(f"call i32 {symbol}(i32 {number}, ptr {array})")
    f.leave_unless(f.op(f"icmp ne i32 {went_well}, 0"), str(LIBRARY_FAILED))
    return f.op(f"load i32, ptr {array}") if wants_result else "0"


class _Slots:
    """The values that a call passes, computed before the first of them is stored."""

    def __init__(self, f: FunctionEmitter) -> None:
        self._f = f
        self._values: list[str] = []
        """The values with their types, as LLVM operands."""

    def add(self, argument: PackedArray | PrimExpr) -> Argument:
        if isinstance(argument, PackedArray):
            return self._array(argument)
        if isinstance(argument, StringImm):
            return TextArgument(argument.value)
        return self._scalar(argument)

    def _array(self, array: PackedArray) -> ArrayArgument:
        f, dtype = self._f, array.dtype
        if isinstance(array.data, Var):
            f.written.add(array.data)
        pointer, offset = f.expr(array.data), f.index(array.elem_offset)
        if offset != "0":
            if dtype.lanes > 1:
                offset = f.op(f"mul nsw i64 {offset}, {dtype.lanes}")
            element = memory_type(dtype.element)
            pointer = f.op(f"getelementptr inbounds {element}, ptr {pointer}, i64 {offset}")
        self._values.append(f"ptr {pointer}")
        shape = tuple(self._extent(n) for n in array.shape)
        strides = tuple(self._extent(n) for n in array.strides)
        return ArrayArgument(dtype, shape, strides or None)

    def _extent(self, node: PrimExpr) -> int | None:
        if type(node) is IntImm:
            return node.value
        self._values.append(f"i64 {self._f.index(node)}")
        return None

    def _scalar(self, node: PrimExpr) -> ScalarArgument:
        f, dtype = self._f, node.dtype
        if not dtype.is_integral:
            self._values.append(f"double {convert(f, f.expr(node), dtype, FLOAT64)}")
            return ScalarArgument("float")
        wide = INT64 if dtype.is_int else DataType("uint64")
        self._values.append(f"i64 {convert(f, f.expr(node), dtype, wide)}")
        if dtype.is_bool:
            return ScalarArgument("bool")
        return ScalarArgument("int" if dtype.is_int else "uint")

    def store(self) -> str:
        f = self._f
        array = f.stack(f"[{1 + len(self._values)} x i64]", 8)
        for k, value in enumerate(self._values, start=1):
            slot = f.op(f"getelementptr inbounds i64, ptr {array}, i64 {k}")
            f.do(f"store {value}, ptr {slot}")
        return array


def refuse_in_parallel(f: FunctionEmitter, what: str) -> None:
    """Raise CodegenError: threads cannot run Python at the same time."""
    f.fail(
        f"{what} in a parallel loop, where threads cannot run Python concurrently; make the loop "
        "serial, or move the call out of it"
    )


def reaches_library(f: FunctionEmitter, name: str) -> str | None:
    """Return a library function that function `name` of the module calls directly or indirectly."""
    functions = f.module.functions
    for other in all_callees(functions, [name]):
        for node in walk(functions[other].body) if other in functions else ():
            if type(node) is Call and node.op is CALL_PACKED:
                return packed_arguments(node)[0]
    return None
