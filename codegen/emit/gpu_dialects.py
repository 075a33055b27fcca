"""The dialects of GPUs: SPIR-V for OpenCL, NVPTX for CUDA, AMDGPU for ROCm."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, Final

from codegen.emit.context import FunctionEmitter
from codegen.emit.dialect import Dialect, call_each_lane
from codegen.emit.index import extend_index
from codegen.emit.llvm_text import memory_type
from codegen.emit.tensor_core import allocate_fragments, emit_tensor_core
from codegen.emit.warp_shuffle import shuffle_by_amdgpu, shuffle_by_nvptx
from codegen.lower.thread_axes import TILE_ALIGNMENT, padded_bytes
from tensorir.arith.analyzer import Analyzer
from tensorir.memory.storage_scopes import is_fragment, memory_of
from tensorir.nodes.dtype import INT32, INT64
from tensorir.nodes.expr import Call, IntImm, PrimExpr, Var
from tensorir.nodes.stmt import Allocate

ALIGNMENT: Final = 16
"""The alignment in bytes of memory of a kernel: that of the widest access of a thread."""
STATIC_SHARED_BYTES: Final = 48 << 10
"""The shared memory that a kernel of CUDA may declare."""
_SPACES: Final = {"global": "ptr addrspace(1)", "shared": "ptr addrspace(3)", "local": "ptr"}
_AXES: Final = "xyz"


class _Gpu(Dialect):
    """What the three dialects share: address spaces, and kernels that return nothing."""

    kind: ClassVar[str]
    """The kind of targets."""
    has_gathers = False
    needs_alignment = True
    static_shared_bytes: ClassVar[int] = 1 << 30
    """The shared memory that a kernel may declare; more than this is allocated by the launch."""
    stack_space: ClassVar[int] = 0
    """The address space of a thread's own memory; pointers into it are generic all the same."""

    @abstractmethod
    def define(self, name: str, parameters: str, block: tuple[int, int, int]) -> tuple[str, str]:
        """Return the head of a kernel's definition, and attributes and metadata it refers to."""

    def pointer(self, data: Var) -> str:
        return _SPACES[memory_of(data)]

    def leave(self, f: FunctionEmitter, status: str) -> None:
        if status != "0":
            f.fail("a kernel cannot report a failed assertion; leave T.Assert out of kernels")
        f.do("ret void")

    def allocate(self, f: FunctionEmitter, node: Allocate) -> None:
        scope, data = memory_of(node.buffer_var), node.buffer_var
        count = 1
        for extent in node.extents:
            if type(extent) is not IntImm:
                f.fail(f"{data.name} has {extent} elements; memory of a kernel has a constant size")
            count *= extent.value
        if scope == "global":
            f.fail(
                f"a kernel cannot allocate {data.name}, which has scope global; "
                "use scope local or shared"
            )
        if is_fragment(data):
            self.allocate_fragments(f, node, count)
            return
        array = f"[{max(1, count * node.dtype.lanes)} x {memory_type(node.dtype.element)}]"
        f.local_pointers.add(data)
        if scope == "local":
            f.values[data] = f.stack(array, ALIGNMENT)
        elif f.shared_bytes is not None:
            name = f"@{f.name}.shared"
            kind = f"external addrspace(3) global [0 x i8], align {TILE_ALIGNMENT}"
            f.module.text.declare(name, f"{name} = {kind}")
            start = f.shared_bytes
            f.values[data] = f.op(f"getelementptr i8, ptr addrspace(3) {name}, i64 {start}")
            f.shared_bytes = start + padded_bytes(count * node.dtype.nbytes)
        else:
            # Named after the kernel, which tells tools whose memory it is.
            name = f"@{f.name}.{f.new_label(_plain(data.name))}"
            f.module.text.declare(
                name, f"{name} = internal addrspace(3) global {array} undef, align {TILE_ALIGNMENT}"
            )
            f.values[data] = name
        f.stmt(node.body)

    def allocate_fragments(self, f: FunctionEmitter, node: Allocate, count: int) -> None:
        """Write the allocation of fragments of tensor cores with `count` elements, and its body."""
        f.fail(f"{node.buffer_var.name} is a fragment, but {self.kind} has no tensor cores")

    def alignment(self, index: PrimExpr, nbytes: int) -> int:
        """Return what is proved: a thread accesses a vector at once only if it is aligned."""
        known = Analyzer().modular_set(index)
        divisor = math.gcd(known.coeff, known.base) * nbytes or ALIGNMENT
        return min(ALIGNMENT, divisor & -divisor)

    def shuffle(self, f: FunctionEmitter, node: Call) -> str:
        f.fail(f"{self.kind} has no exchange of values in a warp; use shared memory")

    def call_library(
        self, f: FunctionEmitter, name: str, bits: int, lanes: int, operands: list[tuple[str, str]]
    ) -> str:
        f.fail(f"T.{name} has no compiled form for {self.kind}; compute it from T.exp and T.log")

    def call_id(self, f: FunctionEmitter, name: str, count: int) -> str:
        """Call a function without operands that returns an index of 32 bits, below `count`."""
        f.module.text.declare(name, f"declare i32 @{name}()")
        return extend_index(f, f.op(f"call range(i32 0, {count}) i32 @{name}()"), INT32)


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in name)


class _Spirv(_Gpu):
    """OpenCL kernels. Functions that need wide integers, or an instruction, are OpenCL's own."""

    kind = "opencl"
    library_functions = frozenset({"sin", "cos", "tan", "ldexp"})
    converts_nan = False  # Intel's runtime makes the largest uint32 of it

    def define(self, name: str, parameters: str, block: tuple[int, int, int]) -> tuple[str, str]:
        sizes = ", ".join(f"i32 {n}" for n in block)
        head = f"define spir_kernel void @{name}({parameters}) #0 !reqd_work_group_size !9000"
        return head, f"attributes #1 = {{ convergent nounwind }}\n!9000 = !{{{sizes}}}\n"

    def thread_index(self, f: FunctionEmitter, tag: str, count: int) -> str:
        kind, axis = tag.split(".")
        name = "_Z12get_group_idj" if kind == "blockIdx" else "_Z12get_local_idj"
        f.module.text.declare(
            name, f"declare spir_func i64 @{name}(i32) nounwind willreturn memory(none)"
        )
        call = f"call spir_func range(i64 0, {count}) i64 @{name}(i32 {_AXES.index(axis)})"
        return extend_index(f, f.op(call), INT64)

    def barrier(self, f: FunctionEmitter, scope: str) -> None:
        f.module.text.declare("barrier", "declare spir_func void @_Z7barrierj(i32) #1")
        f.do("call spir_func void @_Z7barrierj(i32 1) #1")

    def call_library(
        self, f: FunctionEmitter, name: str, bits: int, lanes: int, operands: list[tuple[str, str]]
    ) -> str:
        codes = [_mangled(kind) for kind, _ in operands]
        # The second of two equal vector types is spelled as a reference to the first.
        rest = ["S_" if c == codes[0] and lanes > 1 else c for c in codes[1:]]
        symbol = f"_Z{len(name)}{name}{''.join([codes[0], *rest])}"
        result = operands[0][0]
        kinds = ", ".join(kind for kind, _ in operands)
        f.module.text.declare(
            symbol, f"declare spir_func {result} @{symbol}({kinds}) nounwind memory(none)"
        )
        arguments = ", ".join(f"{kind} {value}" for kind, value in operands)
        return f.op(f"call spir_func {result} @{symbol}({arguments})")


_OPENCL_CODES: Final = {"float": "f", "double": "d", "i32": "i"}


def _mangled(kind: str) -> str:
    if kind[0] != "<":
        return _OPENCL_CODES[kind]
    lanes, element = kind[1:-1].split(" x ")
    return f"Dv{lanes}_{_OPENCL_CODES[element]}"


class _Nvptx(_Gpu):
    kind = "cuda"
    static_shared_bytes = STATIC_SHARED_BYTES

    def define(self, name: str, parameters: str, block: tuple[int, int, int]) -> tuple[str, str]:
        sizes = ",".join(map(str, block))
        head = f'define ptx_kernel void @{name}({parameters}) #0 "nvvm.reqntid"="{sizes}"'
        return head, ""

    def thread_index(self, f: FunctionEmitter, tag: str, count: int) -> str:
        kind, axis = tag.split(".")
        register = "ctaid" if kind == "blockIdx" else "tid"
        return self.call_id(f, f"llvm.nvvm.read.ptx.sreg.{register}.{axis}", count)

    def barrier(self, f: FunctionEmitter, scope: str) -> None:
        if scope == "warp":
            f.call_intrinsic("llvm.nvvm.bar.warp.sync", "void", [("i32", "-1")])
        else:
            f.call_intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", "void", [("i32", "0")])

    def allocate_fragments(self, f: FunctionEmitter, node: Allocate, count: int) -> None:
        allocate_fragments(f, node, count)

    def tensor_core(self, f: FunctionEmitter, node: Call) -> None:
        emit_tensor_core(f, node)

    def asynchronous(self, f: FunctionEmitter, name: str, operands: list[tuple[str, str]]) -> None:
        f.call_intrinsic(f"llvm.nvvm.cp.async.{name}", "void", operands)

    def call_library(
        self, f: FunctionEmitter, name: str, bits: int, lanes: int, operands: list[tuple[str, str]]
    ) -> str:
        """Call the function of NVIDIA's libdevice for each lane."""
        return call_each_lane(f, f"__nv_{name}{'f' if bits == 32 else ''}", bits, lanes, operands)

    def shuffle(self, f: FunctionEmitter, node: Call) -> str:
        return shuffle_by_nvptx(f, node)


class _Amdgpu(_Gpu):
    kind = "rocm"
    stack_space = 5

    def define(self, name: str, parameters: str, block: tuple[int, int, int]) -> tuple[str, str]:
        threads = block[0] * block[1] * block[2]
        head = f"define amdgpu_kernel void @{name}({parameters}) #0"
        return f'{head} "amdgpu-flat-work-group-size"="{threads},{threads}"', ""

    def thread_index(self, f: FunctionEmitter, tag: str, count: int) -> str:
        kind, axis = tag.split(".")
        register = "workgroup" if kind == "blockIdx" else "workitem"
        return self.call_id(f, f"llvm.amdgcn.{register}.id.{axis}", count)

    def barrier(self, f: FunctionEmitter, scope: str) -> None:
        f.do('fence syncscope("workgroup") release')
        f.call_intrinsic("llvm.amdgcn.s.barrier", "void", [])
        f.do('fence syncscope("workgroup") acquire')

    def shuffle(self, f: FunctionEmitter, node: Call) -> str:
        return shuffle_by_amdgpu(f, node)


GPU_DIALECTS: Final[dict[str, _Gpu]] = {d.kind: d for d in (_Spirv(), _Nvptx(), _Amdgpu())}
"""The dialects by the kind of the target."""
