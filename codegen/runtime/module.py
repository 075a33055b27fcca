"""Compiled modules: functions to call by name."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from codegen.abi import OUT_OF_MEMORY
from codegen.compile import Program, Source, llvm_source
from codegen.emit.optimize import assembly, optimized
from codegen.errors import AssertionFailedError, CodegenError, ExecutionError
from codegen.runtime import export
from codegen.runtime.arguments import ArgumentChecker, BoundArguments
from codegen.runtime.guard import run_guarded
from codegen.runtime.jit import LoadedCode, load_object
from codegen.runtime.timing import Batch, TimeEvaluator, flush, time_calls
from codegen.signature import Signature
from codegen.target import Target
from tensorir.dtype import DataType
from tensorir.errors import IRValueError

_ENTRY: Final = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


class Device:
    """Where a function runs; there is only the CPU."""

    def __init__(self, kind: str = "cpu", index: int = 0) -> None:
        self.kind = kind
        self.index = index

    @property
    def exist(self) -> bool:
        """Whether the device is there."""
        return self.kind == "cpu"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f"{self.kind}({self.index})"


def cpu(index: int = 0) -> Device:
    """Return the CPU as a device, for the signatures that take one."""
    return Device("cpu", index)


class PreparedCall:
    """A function with arguments that are checked already; calling it again costs a microsecond.

    The arrays must stay as they are: their addresses are part of the call.
    """

    __slots__ = ("_bound", "_function")

    def __init__(self, function: Function, bound: BoundArguments) -> None:
        self._function = function
        self._bound = bound

    def __call__(self) -> Any:
        """Run the function; return what it returns."""
        return self._function.run(self._bound)

    def time(self, number: int = 1, limit_seconds: float = 0.0) -> Batch:
        """Run the function up to `number` times in a compiled loop and time the whole batch.

        With a positive `limit_seconds` no run starts after so long. Raises ExecutionError if a run
        fails.
        """
        batch = time_calls(self._function.entry, self._bound.slots, number, limit_seconds)
        if batch.status:
            self._function.fail(batch.status)
        return batch

    def flush_from_caches(self, skip_first: bool = False) -> None:
        """Drop the argument arrays from all caches (x86 only)."""
        for view in self._bound.views[1 if skip_first else 0 :]:
            if view is not None:
                low, high = view.extent_bytes()
                flush(low, high - low)


class Function:
    """A compiled function; call it with arrays (outputs are written in place) and scalars."""

    def __init__(self, code: LoadedCode, signature: Signature, guard_pages: bool = False) -> None:
        self._code = code
        self.signature = signature
        self.entry: int = code.entries[signature.symbol]
        """Address of the entry that takes its arguments from an array of slots."""
        self.address: int = code.addresses[signature.symbol]
        """Address of the C function."""
        self._call = _ENTRY(self.entry)
        self._checker = ArgumentChecker(signature)
        self._guard_pages = guard_pages

    @property
    def name(self) -> str:
        """The name in the module."""
        return self.signature.name

    def __call__(self, *args: Any) -> Any:
        """Check the arguments, run, and return the value of `T.ret` (None without).

        Raises IRTypeError or IRValueError for arguments that do not fit, before anything runs;
        AssertionFailedError for an assertion of the program; ExecutionError when memory runs out.
        """
        return self.run(self._checker.bind(args))

    def prepare(self, *args: Any) -> PreparedCall:
        """Check the arguments once, for many calls."""
        return PreparedCall(self, self._checker.bind(args))

    def run(self, bound: BoundArguments) -> Any:
        """Run on checked arguments."""
        if self._guard_pages:
            status = run_guarded(self.signature, bound, self._call)
        else:
            status = self._call(bound.slots)
        if status:
            self.fail(status)
        if self.signature.result is None:
            return None
        return _decoded(self.signature.result, bound.result.value)

    def fail(self, status: int) -> None:
        """Raise the error that a status other than 0 stands for."""
        if status == OUT_OF_MEMORY:
            raise ExecutionError(
                f"{self.name}: memory for a temporary buffer could not be allocated"
            )
        messages = self._code.info.messages
        if 0 < status <= len(messages):
            raise AssertionFailedError(f"{self.name}: {messages[status - 1]}")
        raise ExecutionError(f"{self.name} stopped with status {status}")

    def __repr__(self) -> str:
        return f"<compiled function {self.signature}>"


def _decoded(dtype: DataType, slot: int) -> Any:
    raw = struct.pack("<q", slot)
    if dtype.is_bool:
        return bool(raw[0] & 1)
    value = np.frombuffer(raw, dtype.to_numpy(), 1)[0]
    return value.item()


class Module:
    """A compiled module: `module["main"](a, b, c)`.

    Made by `build`, by `load_module` from a library, or by `from_object`.
    """

    def __init__(
        self,
        code: LoadedCode,
        *,
        source: Source | None = None,
        object_data: bytes | None = None,
        guard_pages: bool = False,
    ) -> None:
        self._code = code
        self._source = source
        self._object = object_data
        self._functions = {s.name: Function(code, s, guard_pages) for s in code.info.functions}

    @staticmethod
    def from_object(data: bytes, *, guard_pages: bool = False) -> Module:
        """Load what `compile_object` returned, perhaps in another process.

        Raises LinkError if it is no such object or calls C functions this process does not have.
        """
        return Module(load_object(data), object_data=data, guard_pages=guard_pages)

    # ---------------------------------------------------------------------------------- functions

    def __getitem__(self, name: str) -> Function:
        return self.get_function(name)

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def get_function(self, name: str) -> Function:
        """Return a function; IRValueError if the module has none of that name."""
        found = self._functions.get(name)
        if found is None:
            raise IRValueError(
                f"the module has no function {name!r}; it has {list(self._functions)}"
            )
        return found

    @property
    def entry_func(self) -> Function:
        """The function called `main`, or the only one."""
        if len(self._functions) == 1:
            return next(iter(self._functions.values()))
        return self.get_function("main")

    def __call__(self, *args: Any) -> Any:
        """Call the entry function."""
        return self.entry_func(*args)

    def time_evaluator(
        self,
        func_name: str,
        dev: Device | None = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: Any = "",
    ) -> TimeEvaluator:
        """Return an evaluator: called with arguments, it gives a BenchmarkResult in seconds.

        It calls the function once unmeasured, then times `repeat` batches of `number` calls back to
        back; a batch shorter than `min_repeat_ms` is repeated with a larger number, which later
        batches keep. `cache_flush_bytes` copies so many bytes before each batch, `f_preproc` (a
        callable, or "cache_flush_cpu_non_first_arg") runs before each repeat, and the evaluator
        sleeps `cooldown_interval_ms` after every `repeats_to_cooldown` repeats.
        """
        if dev is not None and not dev.exist:
            raise CodegenError(f"there is no device {dev}")
        return TimeEvaluator(
            self.get_function(func_name),
            number,
            repeat,
            min_repeat_ms,
            limit_zero_time_iterations,
            cooldown_interval_ms,
            repeats_to_cooldown,
            cache_flush_bytes,
            f_preproc,
        )

    # ------------------------------------------------------------------------------------- inside

    @property
    def target(self) -> Target:
        """What the module was compiled for."""
        return Target(self._code.info.target)

    @property
    def object_code(self) -> bytes:
        """The relocatable object; CodegenError for a module loaded from a library."""
        if self._object is None:
            raise CodegenError("a module loaded from a shared library has no object code left")
        return self._object

    def inspect_llvm(self, optimized_form: bool = True) -> str:
        """Return the LLVM IR, after optimisation or as it was written."""
        source = self._need_source()
        if not optimized_form:
            return source.text
        return str(optimized(source.text, source.target, source.has_scalar_loop))

    def inspect_asm(self) -> str:
        """Return the machine code as assembly text."""
        source = self._need_source()
        return assembly(source.text, source.target, source.has_scalar_loop)

    def get_source(self, fmt: str = "ll") -> str:
        """Return the LLVM IR (`"ll"`) or assembly (`"asm"`, `"s"`)."""
        if fmt not in ("ll", "asm", "s"):
            raise CodegenError(f"there is no source in format {fmt!r}; formats are 'll' and 'asm'")
        return self.inspect_llvm() if fmt == "ll" else self.inspect_asm()

    def _need_source(self) -> Source:
        if self._source is None:
            raise CodegenError(
                "the module was loaded from machine code, its LLVM IR is gone; inspect the module "
                "that codegen.build returned"
            )
        return self._source

    def export_library(self, path: str | Path) -> None:
        """Link the module into a shared library that C programs and `load_module` can use.

        Each function f becomes `int32_t f(...)` with a pointer for each buffer and scalars by
        value, in parameter order, then symbolic extents, then a pointer for the result if there is
        one; `c_header` writes the prototypes. It returns 0, or a status if it failed. Raises
        LinkError if there is no linker.
        """
        export.link_library(self.object_code, Path(path))

    def c_header(self) -> str:
        """Return the C prototypes of the functions, as the library exports them."""
        return export.c_header(self._code.info)

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        """Pickle as object code; only for the same kind of machine."""
        return (Module.from_object, (self.object_code,))

    def __repr__(self) -> str:
        functions = ", ".join(str(f.signature) for f in self._functions.values())
        return f"<compiled module for {self._code.info.target}: {functions}>"


def build(
    mod: Program,
    target: str | Mapping[str, Any] | Target | None = None,
    *,
    guard_pages: bool = False,
) -> Module:
    """Compile a module or function; `target` defaults to the current one, else this machine.

    With `guard_pages` every call runs on copies of its arrays that end where memory without access
    begins, so that an access out of bounds stops the process; outputs are copied back.

    Raises CodegenError for a program without a compiled form (also what LLVM rejects), TargetError
    for a bad target, LinkError for a C function that this process does not have.
    """
    source = llvm_source(mod, target)
    data = source.compile()
    return Module(load_object(data), source=source, object_data=data, guard_pages=guard_pages)


def load_module(path: str | Path) -> Module:
    """Load a library that `export_library` wrote; LinkError if it is none."""
    return Module(export.load_library(Path(path)))
