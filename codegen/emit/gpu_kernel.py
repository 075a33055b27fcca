"""Kernels of GPUs, each an LLVM module of its own.

A kernel is a nest of thread-bound loops, as `codegen.devices.launches` takes them out of a lowered
program. Its data pointers point into global memory and are aligned as widely as a thread accesses
memory: a device allocates whole arrays.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from codegen.emit import (  # noqa: F401 - entering their handlers is what these imports are for
    call,
    convert,
    expr,
    memory,
    stmt,
)
from codegen.emit.context import FunctionEmitter, ModuleEmitter
from codegen.emit.gpu_dialects import ALIGNMENT, GPU_DIALECTS
from codegen.emit.index import extend_index
from codegen.emit.index_width import fits_32_bits
from codegen.emit.llvm_text import register_type
from codegen.errors import CodegenError
from codegen.kernel import Unit
from codegen.target import Target
from tensorir.function import PrimFunc
from tensorir.memory.written_parameters import written_pointers
from tensorir.nodes.dtype import INT32, DataType
from tensorir.nodes.expr import Call, PrimExpr, Var
from tensorir.nodes.intrin import Op
from tensorir.rewriting.visit import walk_once

LANES: Final = (1, 2, 3, 4, 8, 16)
"""The lengths of vectors that all dialects have."""
_INTEGERS: Final = (1, 8, 16, 32, 64)
_HOST_ONLY: Final = frozenset(
    {
        *("call_extern", "call_pure_extern", "tvm_call_packed", "tvm_call_cpacked", "assume"),
        *("address_of", "tvm_access_ptr", "tvm_stack_alloca", "isnullptr", "ret"),
    }
)


def emit_gpu_kernel(
    name: str,
    func: PrimFunc,
    block: tuple[int, int, int],
    shared_bytes: int,
    target: Target,
    values: Collection[Var],
    extents: Collection[Var],
) -> Unit:
    """Return LLVM IR for a kernel of `block` threads and some bytes of shared memory a block.

    Of its scalar parameters, `values` are those on which arithmetic wraps, and `extents` those that
    are never negative. Raises CodegenError for what GPUs, or those of the target, do not have.
    """
    dialect = GPU_DIALECTS[target.kind]
    _check(name, func)
    module = ModuleEmitter(name, target, dialect, {}, {})
    f = FunctionEmitter(module, name)
    f.stack_space = dialect.stack_space
    f.ranges |= {v: (0, (1 << (v.dtype.bits - 1)) - 1) for v in extents}
    if fits_32_bits(func, f.ranges):
        f.index_dtype = INT32
    if shared_bytes > dialect.static_shared_bytes:
        f.shared_bytes = 0
    noalias = " noalias" if func.attrs.get("tir.noalias", False) else ""
    written = written_pointers(func)
    header = []
    for k, param in enumerate(func.params):
        f.values[param] = f"%p{k}"
        if param.dtype.is_handle:
            reads = "" if param in written else " readonly"
            header.append(f"{f.pointer(param)}{noalias}{reads} align {ALIGNMENT} %p{k}")
            if noalias:
                f.local_pointers.add(param)
        elif param.dtype.is_bool:
            header.append(f"i8 %p{k}")
            f.values[param] = f.op(f"icmp ne i8 %p{k}, 0")
        else:
            header.append(f"{register_type(param.dtype)} %p{k}")
            if param.dtype.is_integral:
                f.wide[param] = extend_index(f, f"%p{k}", param.dtype)
    f.value_variables |= set(values)
    f.contracts = not func.attrs.get("tir.no_contraction", False)
    f.stmt(func.body)
    f.return_status("0")
    head, attached = dialect.define(name, ", ".join(header), block)
    module.text.functions.append(f.finish(head))
    return Unit(f"{module.text.text()}attributes #0 = {{ nounwind }}\n{attached}", target)


def _check(name: str, func: PrimFunc) -> None:
    for node in walk_once(func.body):
        if isinstance(node, Call) and isinstance(node.op, Op) and node.op.short_name in _HOST_ONLY:
            raise CodegenError(f"cannot compile {name}: a GPU has no T.{node.op.short_name}")
        if isinstance(node, PrimExpr) and (problem := _problem_with(node.dtype)):
            raise CodegenError(f"cannot compile {name}: {problem}, as in {node}")


def _problem_with(dtype: DataType) -> str | None:
    if dtype.lanes not in LANES:
        known = ", ".join(map(str, LANES[1:]))
        return f"a GPU has vectors of {known} lanes and none of {dtype.lanes}"
    if dtype.is_integral and dtype.bits not in _INTEGERS:
        return f"a GPU has integers of 8, 16, 32 and 64 bits and none of {dtype.bits}"
    return None
