"""Compiled code of another architecture, run by an emulator of its CPU.

`build` is like `codegen.build` for a target of aarch64: its functions are called with arrays of
this process. A program of the other architecture is linked from the objects of a module and a
small harness, which LLVM and the assembler make: it reads arguments from its standard input, calls one
function and writes what lies in memory then. No C library is needed: the harness asks the system
itself, and has the few functions that kernels call (not those of `math.h`, so that a kernel that
calls one does not link). With `threads`, an OpenMP runtime of the harness runs the shares of a
parallel loop one after the other.
"""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

from codegen.abi import entry_symbol
from codegen.compile import Compilable, compile_object
from codegen.emit.llvm_text import global_name
from codegen.emit.optimize import object_code
from codegen.runtime.arguments import BoundArguments
from codegen.runtime.function import Function
from codegen.runtime.jit import LoadedCode
from codegen.signature import ModuleInfo, Signature, read_object_code
from codegen.target import Target

EMULATOR = "qemu-aarch64"
ASSEMBLER = "aarch64-linux-gnu-as"
LINKER = "aarch64-linux-gnu-ld"

_MEMORY = 64 << 20
_PAGE = 64
_HARNESS = """
@slots = internal global [{slots} x i64] zeroinitializer, align 64
@places = internal global [{slots} x i64] zeroinitializer, align 64
@memory = internal global [{memory} x i8] zeroinitializer, align 64
@heap = internal global [{memory} x i8] zeroinitializer, align 64
@taken = internal global i64 0
@thread = internal global i32 0
@answer = internal global i64 0

declare i32 {entry}(ptr)

declare i64 @system(i64, i64, ptr, i64)

; Move bytes by read (63) or write (64) until all are, or there are no more; return how many.
define internal i64 @move(i64 %number, i64 %file, ptr %data, i64 %bytes) noinline #0 {{
entry:
  br label %test
test:
  %done = phi i64 [0, %entry], [%next, %part]
  %more = icmp slt i64 %done, %bytes
  br i1 %more, label %part, label %end
part:
  %at = getelementptr i8, ptr %data, i64 %done
  %left = sub i64 %bytes, %done
  %moved = call i64 @system(i64 %number, i64 %file, ptr %at, i64 %left)
  %next = add i64 %done, %moved
  %any = icmp sgt i64 %moved, 0
  br i1 %any, label %test, label %end
end:
  ret i64 %done
}}

define void @_start() noreturn #0 {{
entry:
  %r0 = call i64 @move(i64 63, i64 0, ptr @places, i64 {slot_bytes})
  %r1 = call i64 @move(i64 63, i64 0, ptr @slots, i64 {slot_bytes})
  %used = call i64 @move(i64 63, i64 0, ptr @memory, i64 {memory})
  %base = ptrtoint ptr @memory to i64
  br label %place
place:
  %k = phi i64 [0, %entry], [%next, %place]
  %slot.at = getelementptr i64, ptr @slots, i64 %k
  %place.at = getelementptr i64, ptr @places, i64 %k
  %slot = load i64, ptr %slot.at
  %is.place = load i64, ptr %place.at
  %offset = mul i64 %is.place, %base
  %address = add i64 %slot, %offset
  store i64 %address, ptr %slot.at
  %next = add i64 %k, 1
  %again = icmp slt i64 %next, {slots}
  br i1 %again, label %place, label %run
run:
  %status = call i32 {entry}(ptr @slots)
  %wide = sext i32 %status to i64
  store i64 %wide, ptr @answer
  %w0 = call i64 @move(i64 64, i64 1, ptr @answer, i64 8)
  %w1 = call i64 @move(i64 64, i64 1, ptr @memory, i64 %used)
  %e = call i64 @system(i64 93, i64 0, ptr null, i64 0)
  unreachable
}}

define ptr @aligned_alloc(i64 %alignment, i64 %bytes) #0 {{
  %start = load i64, ptr @taken
  %up = add i64 %start, 4095
  %first = and i64 %up, -4096
  %end = add i64 %first, %bytes
  %fits = icmp ule i64 %end, {memory}
  %kept = select i1 %fits, i64 %end, i64 %start
  store i64 %kept, ptr @taken
  %there = getelementptr i8, ptr @heap, i64 %first
  %result = select i1 %fits, ptr %there, ptr null
  ret ptr %result
}}

define void @free(ptr %data) #0 {{
  ret void
}}

define ptr @memset(ptr %to, i32 %value, i64 %bytes) #0 {{
entry:
  %byte = trunc i32 %value to i8
  br label %test
test:
  %k = phi i64 [0, %entry], [%next, %one]
  %more = icmp ult i64 %k, %bytes
  br i1 %more, label %one, label %end
one:
  %at = getelementptr i8, ptr %to, i64 %k
  store volatile i8 %byte, ptr %at
  %next = add i64 %k, 1
  br label %test
end:
  ret ptr %to
}}

define ptr @memmove(ptr %to, ptr %from, i64 %bytes) #0 {{
entry:
  %up = icmp ult ptr %to, %from
  %last = sub i64 %bytes, 1
  br label %test
test:
  %k = phi i64 [0, %entry], [%next, %one]
  %more = icmp ult i64 %k, %bytes
  br i1 %more, label %one, label %end
one:
  %mirrored = sub i64 %last, %k
  %at = select i1 %up, i64 %k, i64 %mirrored
  %source = getelementptr i8, ptr %from, i64 %at
  %byte = load volatile i8, ptr %source
  %goal = getelementptr i8, ptr %to, i64 %at
  store volatile i8 %byte, ptr %goal
  %next = add i64 %k, 1
  br label %test
end:
  ret ptr %to
}}

define ptr @memcpy(ptr %to, ptr %from, i64 %bytes) #0 {{
  %result = call ptr @memmove(ptr %to, ptr %from, i64 %bytes)
  ret ptr %result
}}
attributes #0 = {{ nounwind "no-builtins" }}
"""
_SYSTEM = """
.globl system
system:
    mov x8, x0
    mov x0, x1
    mov x1, x2
    mov x2, x3
    svc #0
    ret
"""
_OPENMP = """
define i32 @omp_get_thread_num() #0 {{
  %k = load i32, ptr @thread
  ret i32 %k
}}

define i32 @omp_get_num_threads() #0 {{
  ret i32 {threads}
}}

define void @GOMP_parallel(ptr %share, ptr %closure, i32 %threads, i32 %flags) #0 {{
entry:
  br label %one
one:
  %k = phi i32 [0, %entry], [%next, %one]
  store i32 %k, ptr @thread
  call void %share(ptr %closure)
  %next = add i32 %k, 1
  %more = icmp slt i32 %next, {threads}
  br i1 %more, label %one, label %end
end:
  ret void
}}
"""


def why_not() -> str | None:
    """Return why nothing can be emulated here, a sentence; None if it can."""
    missing = [name for name in (EMULATOR, ASSEMBLER, LINKER) if shutil.which(name) is None]
    if missing:
        return (
            f"{' and '.join(missing)} not installed (Debian: qemu-user, binutils-aarch64-linux-gnu)"
        )
    return None


def build(
    program: Compilable, target: str | Target, folder: Path, threads: int = 0
) -> dict[str, Function]:
    """Compile a program and return its public functions, which run on the emulated CPU.

    Programs are linked in `folder`. Arguments of a call have 64 MiB together, and so has the heap.
    """
    data = compile_object(program, target)
    info, objects = read_object_code(data)
    system = folder / "system.o"
    subprocess.run([ASSEMBLER, "-o", str(system)], input=_SYSTEM, text=True, check=True)
    files = [system]
    for name, content in objects.items():
        files.append(folder / name)
        files[-1].write_bytes(content)
    functions: dict[str, Function] = {}
    for number, signature in enumerate(info.public):
        harness = folder / f"harness{number}.o"
        text = _harness(signature, threads)
        harness.write_bytes(object_code(text, Target(info.target), has_scalar_loop=False))
        linked = folder / f"program{number}"
        subprocess.run(
            [LINKER, "-static", "-o", str(linked), str(harness), *map(str, files)], check=True
        )
        functions[signature.name] = _Emulated(info, signature, linked)
    return functions


def _harness(signature: Signature, threads: int) -> str:
    slots = max(1, len(signature.passed))
    text = _HARNESS.format(
        entry=global_name(entry_symbol(signature.name)),
        slots=slots,
        slot_bytes=8 * slots,
        memory=_MEMORY,
    )
    return text + (_OPENMP.format(threads=threads) if threads else "")


class _Emulated(Function):
    """A function whose calls start an emulator; arguments are checked as for one that runs here."""

    def __init__(self, info: ModuleInfo, signature: Signature, program: Path) -> None:
        super().__init__(LoadedCode(info, {}, {}, None, refusal="it is emulated"), signature)
        self._program = program

    def run(self, bound: BoundArguments) -> Any:
        """Run on checked arguments."""
        self._call = lambda _: _emulate(self._program, self.signature, bound)
        return super().run(bound)


def _emulate(program: Path, signature: Signature, bound: BoundArguments) -> int:
    """Run a program on arguments and take back what it has written; return the status."""
    image, places = bytearray(), [0] * len(bound.slots)
    slots = list(bound.slots)
    parts: list[tuple[int, int, int]] = []
    for k, view in enumerate(bound.views):
        if view is not None:
            low, high = view.extent_bytes()
            start = _take(image, parts, low, high)
            slots[k], places[k] = start + slots[k] - low, 1
    if bound.result is not None:
        low = ctypes.addressof(bound.result)
        slots[-1], places[-1] = _take(image, parts, low, low + 8), 1
    header = struct.pack(f"<{2 * len(slots)}q", *places, *slots)
    done = subprocess.run(
        [EMULATOR, "-cpu", "max", str(program)],
        input=header + bytes(image),
        capture_output=True,
        check=True,
        timeout=60,
    )
    (status,) = struct.unpack_from("<q", done.stdout)
    written = [p.written for p in signature.parameters if p.kind == "buffer"]
    for (low, high, start), changes in zip(parts, [*written, True], strict=False):
        if changes:
            ctypes.memmove(low, done.stdout[8 + start : 8 + start + high - low], high - low)
    return int(status)


def _take(image: bytearray, parts: list[tuple[int, int, int]], low: int, high: int) -> int:
    """Append a part of this process's memory to an image, and return where it begins there."""
    image += bytes(-len(image) % _PAGE)
    start = len(image)
    image += ctypes.string_at(low, high - low)
    parts.append((low, high, start))
    return start
