"""Compiled modules: functions to call by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codegen.compile import Compilable, Compiled, Source, compile_functions, functions_of
from codegen.errors import CodegenError
from codegen.history import with_history
from codegen.runtime import export
from codegen.runtime.function import Function
from codegen.runtime.jit import LoadedCode, load_object
from codegen.runtime.timing import TimedFunctions
from codegen.signature import ModuleInfo, read_object_code
from codegen.target import Target, as_target
from tensorir.errors import IRValueError
from tensorir.paths import as_path

if TYPE_CHECKING:
    from codegen.devices.module import GpuModule


class Module(TimedFunctions[Function]):
    """A compiled module: `module["main"](a, b, c)`.

    Made by `build`, by `load_module` from a library, or by `from_object`.
    """

    def __init__(
        self,
        code: LoadedCode,
        functions: Mapping[str, Function] | None = None,
        *,
        source: Source | Callable[[], Source] | None = None,
        object_code: bytes | None = None,
        guard_pages: bool = False,
    ) -> None:
        if functions is None:
            functions = {s.name: Function(code, s, guard_pages) for s in code.info.public}
        super().__init__(functions)
        self._code = code
        self._source = source
        self._object = object_code

    @staticmethod
    def of(compiled: Compiled, *, guard_pages: bool = False) -> Module:
        """Load compiled code; LinkError for functions that are missing in this process."""
        return Module(
            load_object(compiled.object_code),
            source=compiled.source,
            object_code=compiled.object_code,
            guard_pages=guard_pages,
        )

    @staticmethod
    def from_object(
        data: bytes,
        *,
        source: Callable[[], Source] | None = None,
        guard_pages: bool = False,
    ) -> Module:
        """Load the result of `compile_object`, possibly from another process.

        For a GPU the result is a `GpuModule`. `source` is called when the LLVM IR is needed.

        Raises LinkError for other data, and for code that calls C or library functions that this
        process does not have.
        """
        if Target(read_object_code(data)[0].target).gpu is not None:
            from codegen.devices.compile import DeviceCode  # noqa: PLC0415 - for GPUs only
            from codegen.devices.module import GpuModule  # noqa: PLC0415

            return GpuModule(DeviceCode.from_bytes(data))
        return Module(load_object(data), source=source, object_code=data, guard_pages=guard_pages)

    # ---------------------------------------------------------------------------------- functions

    def _unknown_message(self, name: str) -> str:
        graphs = "; its graph functions are called by codegen.VirtualMachine(module)"
        return (
            f"the module has no function {name!r}; it has {list(self._functions)}"
            f"{graphs if self.embedded_program else ''}"
        )

    @property
    def entry_func(self) -> Function:
        """The function called `main`, or the only one; IRValueError if there is neither."""
        if len(self._functions) == 1:
            return next(iter(self._functions.values()))
        if "main" not in self._functions:
            names = list(self._functions)
            raise IRValueError(
                f"the module has {len(names)} functions and none is called main: {names}; choose "
                f'one, for example module["{names[0]}"](...)'
            )
        return self.get_function("main")

    def __call__(self, *args: Any) -> Any:
        """Call the entry function."""
        return self.entry_func(*args)

    # ------------------------------------------------------------------------------------- inside

    @property
    def embedded_program(self) -> tuple[str, int] | None:
        """The graph functions of a library as JSON, and the address of their constants, if any."""
        return export.embedded_program(self._code)

    @property
    def info(self) -> ModuleInfo:
        """The description of the compiled functions."""
        return self._code.info

    @property
    def target(self) -> Target:
        """The target that the module was compiled for."""
        return Target(self._code.info.target)

    @property
    def object_code(self) -> bytes:
        """The result of `compile_object`; CodegenError for a module loaded from a library."""
        if self._object is None:
            raise CodegenError("a module loaded from a shared library has no object code left")
        return self._object

    def inspect_llvm(self, optimized_form: bool = True) -> str:
        """Return the LLVM IR, after or before optimisation."""
        source = self.source
        return source.optimized() if optimized_form else source.text

    def inspect_asm(self) -> str:
        """Return the machine code as assembly text."""
        return self.source.assembly()

    def get_source(self, fmt: str = "ll") -> str:
        """Return the LLVM IR (`"ll"`) or assembly (`"asm"`, `"s"`)."""
        if fmt not in ("ll", "asm", "s"):
            raise CodegenError(f"unknown source format {fmt!r}; the formats are 'll' and 'asm'")
        return self.inspect_llvm() if fmt == "ll" else self.inspect_asm()

    @property
    def source(self) -> Source:
        """The LLVM IR; CodegenError if only the machine code is left."""
        if callable(self._source):
            self._source = self._source()
        if self._source is None:
            raise CodegenError(
                "the module was loaded from machine code and has no LLVM IR; inspect the module "
                "that codegen.build returned"
            )
        return self._source

    def export_library(
        self, path: str | Path, embedded: Mapping[str, Sequence[bytes | memoryview]] | None = None
    ) -> None:
        """Link the module into a shared library that C programs and `load_module` can use.

        Each function f becomes `int32_t f(...)` with a pointer for each buffer and scalars by
        value, in parameter order, then symbolic extents, then a pointer for the result if there is
        one; `c_header` writes the prototypes. It returns 0, or a status if it failed. Functions
        whose names are invalid in C, or exist in the C library, can be called through `load_module`
        only. `embedded` are additional data by symbol. Raises LinkError without a linker and for a
        GPU, CodegenError for a module that calls library functions.
        """
        export.check_target(self.target)
        calls = self._code.info.library.values()
        called = sorted({call.function for of_one in calls for call in of_one})
        if called:
            raise CodegenError(
                f"the module calls library function(s) {', '.join(map(repr, called))}, which are "
                "Python functions; a shared library cannot contain them. Keep "
                "Module.object_code, or pickle "
                f"the module, and register the functions in the process that loads it"
            )
        export.link_library(self.object_code, as_path(path), embedded)

    def c_header(self) -> str:
        """Return the C prototypes of the functions that the library exports."""
        export.check_target(self.target)
        return export.embedded_header(self._code) or export.c_header(self._code.info)

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        """Pickle as object code; only for the same kind of machine."""
        return (Module.from_object, (self.object_code,))

    def __repr__(self) -> str:
        functions = ", ".join(str(f.signature) for f in self._functions.values())
        return f"<compiled module for {self._code.info.target}: {functions}>"


def build(
    mod: Compilable,
    target: str | Mapping[str, Any] | Target | None = None,
    *,
    guard_pages: bool = False,
) -> Module:
    """Compile a module or function; `target` defaults to the current one, else this machine.

    For a GPU the result is a `GpuModule`, which is called and timed in the same way, with arrays of
    `codegen.array(x, codegen.device(target))`.

    Inside `with database:` of `search`, unscheduled functions get the best schedule in the
    database.

    With `guard_pages` every call runs on copies of its arrays that end at inaccessible memory, so
    that an access out of bounds stops the process; outputs are copied back.

    Raises WellFormedError for an ill-formed program, CodegenError for one without a compiled form
    (also what LLVM rejects), TargetError for a bad target, LinkError for C functions and library
    functions that this process does not have. Library functions are looked up once, by this call:
    the module does not use a function that is registered later under the same name.
    """
    chosen = as_target(target)
    if chosen.gpu is not None:
        return _build_for_gpu(mod, chosen, guard_pages)
    compiled = compile_functions(functions_of(with_history(mod, chosen)), chosen)
    return Module.of(compiled, guard_pages=guard_pages)


def _build_for_gpu(mod: Compilable, target: Target, guard_pages: bool) -> GpuModule:
    from codegen.devices.compile import compile_for_gpu  # noqa: PLC0415 - for GPUs only
    from codegen.devices.module import GpuModule  # noqa: PLC0415

    if guard_pages:
        raise CodegenError("guard_pages is for CPUs; a GPU has no pages without access")
    return GpuModule(compile_for_gpu(functions_of(with_history(mod, target)), target))


def load_module(path: str | Path) -> Module:
    """Load a library that `export_library` wrote; LinkError for other files."""
    return Module(export.load_library(as_path(path)))
