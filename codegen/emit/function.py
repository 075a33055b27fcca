"""Whole functions and modules.

A function `f` of the program becomes a C function

    int f(A*, B*, ..., scalars by value, int64/int32 symbolic extents, result*)

that returns 0, the number of a failed assertion, -1 when memory ran out, or -2
when a library function raised. The data pointers of
a function with `tir.noalias` are `noalias`. They are assumed aligned to their elements only:
measured on AVX2 and AVX-512, code for pointers known to be 64-byte aligned is no faster, because
what costs is an access that really crosses a cache line. Arrays the toolkit allocates are aligned.

Beside it stands `__tensorir_call_f(int64*)`, which takes the same arguments from an array of
8-byte slots; Python calls that one, whatever the signature.
"""

from __future__ import annotations

from codegen.abi import CALL_PREFIX, INFO_SYMBOL
from codegen.emit import (  # noqa: F401 - entering their handlers is what these imports are for
    call,
    convert,
    expr,
    library_call,
    memory,
    stmt,
)
from codegen.emit.call import has_result
from codegen.emit.context import FunctionEmitter, ModuleEmitter
from codegen.emit.llvm_text import bytes_constant, global_name
from codegen.emit.llvm_types import register_type
from codegen.signature import ModuleInfo, Signature, signature_of, symbolic_vars
from codegen.target import Target
from tensorir.buffer import Buffer
from tensorir.expr import IntImm
from tensorir.function import PrimFunc
from tensorir.value_variables import scalar_values


def emit_module(functions: dict[str, PrimFunc], target: Target) -> tuple[str, bool]:
    """Return LLVM IR for lowered functions, and whether LLVM's loop vectoriser may help it."""
    symbols = _symbols(functions)
    module = ModuleEmitter(target, functions, symbols)
    exported: list[Signature] = []
    for name, func in functions.items():
        symbol = symbols[name]
        written = _emit_function(module, func, symbol, public=_is_public(functions, name))
        module.only_read[name] = frozenset(
            p
            for p in func.params
            if p in func.buffer_map and func.buffer_map[p].data not in written
        )
        if _is_public(functions, name):
            exported.append(signature_of(func, name, symbol, written))
            _emit_packed(module, func, symbol)
    info = ModuleInfo(
        str(target),
        tuple(exported),
        tuple(module.messages),
        tuple(sorted(module.externs)),
        tuple(sorted(module.needed_features)),
        tuple(module.library),
    )
    data = info.to_json().encode() + b"\0"
    module.text.declare(
        INFO_SYMBOL, f"@{INFO_SYMBOL} = constant [{len(data)} x i8] {bytes_constant(data)}"
    )
    width = max(target.vector_bits, 128)
    attributes = (
        f'attributes #0 = {{ nounwind "min-legal-vector-width"="{width}" '
        f'"prefer-vector-width"="{width}" }}\n'
    )
    return module.text.text() + attributes, module.has_scalar_loop


def _symbols(functions: dict[str, PrimFunc]) -> dict[str, str]:
    return {name: str(func.attrs.get("global_symbol") or name) for name, func in functions.items()}


def _is_public(functions: dict[str, PrimFunc], name: str) -> bool:
    return len(functions) == 1 or "global_symbol" in functions[name].attrs


def _emit_function(module: ModuleEmitter, func: PrimFunc, symbol: str, public: bool) -> set:  # type: ignore[type-arg]
    f = FunctionEmitter(module, symbol)
    noalias = bool(func.attrs.get("tir.noalias", False))
    header = []
    f.value_variables |= scalar_values(func)
    for k, param in enumerate(func.params):
        buffer = func.buffer_map.get(param)
        f.values[param] = f"%p{k}"
        if buffer is None:
            header.append(f"{_parameter_type(register_type(param.dtype))} noundef %p{k}")
            continue
        f.values[buffer.data] = f"%p{k}"
        attributes = _pointer_attributes(buffer)
        if noalias:
            attributes += " noalias"
            f.local_pointers.add(buffer.data)
        header.append(f"ptr {attributes} %p{k}")
    for k, var in enumerate(symbolic_vars(func)):
        f.values[var] = f"%n{k}"
        f.ranges[var] = (0, (1 << (var.dtype.bits - 1)) - 1)
        header.append(f"{register_type(var.dtype)} noundef %n{k}")
    if has_result(func):
        f.result = "%result"
        header.append("ptr noundef %result")
    _widen_scalars(f)
    f.calls_stay = bool(func.attrs.get("tir.calls_stay_calls", False))
    f.contracts = not func.attrs.get("tir.no_contraction", False)
    f.stmt(func.body)
    f.return_status("0")
    linkage = "" if public else "internal "
    definition = f"define {linkage}i32 {global_name(symbol)}({', '.join(header)}) #0"
    module.text.functions.append(f.finish(definition))
    return f.written


def _parameter_type(kind: str) -> str:
    return f"{kind} zeroext" if kind == "i1" else kind


def _pointer_attributes(buffer: Buffer) -> str:
    attributes = f"noundef nonnull align {buffer.dtype.element.nbytes}"
    sizes = [int(n) for n in buffer.shape if isinstance(n, IntImm)]
    if len(sizes) == len(buffer.shape) and not buffer.strides and 0 not in sizes:
        nbytes = buffer.dtype.nbytes
        for size in sizes:
            nbytes *= size
        attributes += f" dereferenceable({nbytes})"
    return attributes


def _widen_scalars(f: FunctionEmitter) -> None:
    for var, value in list(f.values.items()):
        dtype = var.dtype
        if dtype.is_integral and not dtype.is_bool and dtype.lanes == 1:
            wide = value
            if dtype.bits < 64:
                extend = "sext" if dtype.is_int else "zext"
                wide = f.op(f"{extend} {register_type(dtype)} {value} to i64")
            f.wide[var] = wide


def _emit_packed(module: ModuleEmitter, func: PrimFunc, symbol: str) -> None:
    lines = [f"define i32 {global_name(CALL_PREFIX + symbol)}(ptr noundef %slots) #0 {{", "entry:"]
    types = ["ptr" if p in func.buffer_map else register_type(p.dtype) for p in func.params]
    types += [register_type(var.dtype) for var in symbolic_vars(func)]
    if has_result(func):
        types.append("ptr")
    arguments = []
    for k, kind in enumerate(types):
        stored = "i8" if kind == "i1" else kind
        lines.append(f"  %s{k} = getelementptr inbounds i64, ptr %slots, i64 {k}")
        lines.append(f"  %a{k} = load {stored}, ptr %s{k}, align 8")
        value = f"%a{k}"
        if kind == "i1":
            lines.append(f"  %b{k} = icmp ne i8 %a{k}, 0")
            value = f"%b{k}"
        arguments.append(f"{_parameter_type(kind)} {value}")
    lines.append(f"  %status = call i32 {global_name(symbol)}({', '.join(arguments)})")
    lines += ["  ret i32 %status", "}"]
    module.text.functions.append("\n".join(lines))
