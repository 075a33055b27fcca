"""Whole functions, each in its own LLVM module.

A function `f` of the program becomes a C function

    int f(A*, B*, ..., scalars by value, int64/int32 symbolic extents, result*)

that returns 0, the number of a failed assertion, -1 when memory ran out, or -2
when a library function raised. The data pointers of
a function with `tir.noalias` are `noalias`. They are assumed aligned to their elements only:
measured on AVX2 and AVX-512, code for pointers declared as 64-byte aligned is not faster, because
only accesses that cross a cache line at run time are slow. Arrays that the toolkit allocates are
aligned.

A separate object has an entry `int(int64*)`, which takes the same arguments
from an array of 8-byte slots; Python calls this entry for every signature. `codegen.abi` defines
the symbols of both.
"""

from __future__ import annotations

from collections.abc import Mapping

from codegen.abi import entry_symbol, kernel_symbol
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
from codegen.emit.cpu import CPU
from codegen.emit.index import extend_index
from codegen.emit.llvm_text import global_name, parameter_type, register_type
from codegen.kernel import Kernel, Unit
from codegen.signature import ModuleInfo, Signature, signature_of, symbolic_vars
from codegen.target import Target
from tensorir.function import PrimFunc
from tensorir.memory.value_variables import scalar_values
from tensorir.memory.written_parameters import written_pointers
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import IntImm, Var


def emit_kernel(
    name: str,
    c_name: str | None,
    func: PrimFunc,
    functions: Mapping[str, PrimFunc],
    target: Target,
    signatures: Mapping[str, Signature],
) -> Kernel:
    """Return LLVM IR for the function `name` of a module, which is `func` after lowering.

    `c_name` is its name in C, None if it is not public. `functions` are all functions of the
    module, lowered or not, for calls between them. `signatures` has the signatures of functions
    that were written before; if another function is called, all its arguments count as written to.
    """
    module = ModuleEmitter(name, target, CPU, functions, signatures)
    written = _emit_function(module, func, name) | written_pointers(func, functions)
    info = ModuleInfo(
        str(target),
        target.architecture,
        (signature_of(func, name, c_name, written),),
        tuple(module.messages),
        tuple(sorted(module.externs)),
        tuple(sorted(target.required_features)),
        {name: tuple(module.library)} if module.library else {},
    )
    width = max(target.vector_bits, 128)
    attributes = (
        f'attributes #0 = {{ nounwind "min-legal-vector-width"="{width}" '
        f'"prefer-vector-width"="{width}" }}\n'
    )
    code = Unit(module.text.text() + attributes, target, module.has_scalar_loop)
    entry = None if c_name is None else Unit(_entry(info.functions[0]) + attributes, target)
    return Kernel(info, code, entry)


def _emit_function(module: ModuleEmitter, func: PrimFunc, name: str) -> set[Var]:
    f = FunctionEmitter(module, name)
    noalias = bool(func.attrs.get("tir.noalias", False))
    header = []
    f.value_variables |= scalar_values(func)
    for k, param in enumerate(func.params):
        buffer = func.buffer_map.get(param)
        f.values[param] = f"%p{k}"
        if buffer is None:
            header.append(f"{parameter_type(param.dtype)} noundef %p{k}")
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
    for var, value in f.values.items():
        if var.dtype.is_integral and not var.dtype.is_bool and var.dtype.lanes == 1:
            f.wide[var] = extend_index(f, value, var.dtype)
    f.contracts = not func.attrs.get("tir.no_contraction", False)
    f.stmt(func.body)
    f.return_status("0")
    # Protected: exported, but calls from the same library never bind to a function of another
    # library.
    symbol = global_name(kernel_symbol(name))
    definition = f"define protected i32 {symbol}({', '.join(header)}) #0"
    if module.statements is not None:
        definition += f" !dbg {module.text.scope()}"
    module.text.functions.append(f.finish(definition))
    return f.written


def _pointer_attributes(buffer: Buffer) -> str:
    attributes = f"noundef nonnull align {buffer.dtype.element.nbytes}"
    sizes = [int(n) for n in buffer.shape if isinstance(n, IntImm)]
    if len(sizes) == len(buffer.shape) and not buffer.strides and 0 not in sizes:
        nbytes = buffer.dtype.nbytes
        for size in sizes:
            nbytes *= size
        attributes += f" dereferenceable({nbytes})"
    return attributes


def _entry(signature: Signature) -> str:
    """Return LLVM IR of the entry of a function: it depends on the types of the arguments only."""
    symbol = global_name(entry_symbol(signature.name))
    lines = [f"define protected i32 {symbol}(ptr noundef %slots) #0 {{", "entry:"]
    passed = signature.passed
    arguments = []
    for k, dtype in enumerate(passed):
        stored = "i8" if dtype.is_bool else register_type(dtype)
        lines.append(f"  %s{k} = getelementptr inbounds i64, ptr %slots, i64 {k}")
        lines.append(f"  %a{k} = load {stored}, ptr %s{k}, align 8")
        value = f"%a{k}"
        if dtype.is_bool:
            lines.append(f"  %b{k} = icmp ne i8 %a{k}, 0")
            value = f"%b{k}"
        arguments.append(f"{parameter_type(dtype)} {value}")
    callee = global_name(kernel_symbol(signature.name))
    types = ", ".join(map(parameter_type, passed))
    lines.append(f"  %status = tail call i32 {callee}({', '.join(arguments)})")
    lines += ["  ret i32 %status", "}", ""]
    return "\n".join([f"declare i32 {callee}({types})", *lines])
