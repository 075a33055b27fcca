"""From modules with graph functions to executables: kernels, their schedules, machine code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from codegen.build_workers import build_workers
from codegen.compile import compile_functions, functions_by_name
from codegen.errors import CodegenError
from codegen.history import (
    Schedules,
    can_be_scheduled,
    default_schedules,
    innermost,
    is_small,
    with_history,
)
from codegen.lower.thread_axes import thread_loops
from codegen.runtime.export import linker_for
from codegen.runtime.module import Module, build
from codegen.target import Target, as_target
from codegen.vm import program as p
from codegen.vm.c_library import library_name, python_calls, refuse_python
from codegen.vm.constants import ConstantPool
from codegen.vm.executable import Executable
from codegen.vm.kept_models import kept_or_built
from codegen.vm.translate import Translation
from tensorir import transform
from tensorir.function import BaseFunc, IRModule, PrimFunc
from tensorir.nodes.stmt import For, ForKind
from tensorir.paths import as_path
from tensorir.recursion import any_depth
from tensorir.relax.call_graph import all_callees, callees_first, graph_calls
from tensorir.relax.expr import GraphVar
from tensorir.relax.function import Function, constant_bytes, graph_functions
from tensorir.rewriting.visit import statements
from tensorir.transform.legalize_ops import has_operators
from tensorir.verify import verify_well_formed

_CALLS_A_PROCESS: Final = 16
"""The number of calls in a model whose kernels are worth another process."""


def as_looked_up(mod: IRModule) -> IRModule:
    """Return a module with its tensor functions as `vm_build` looks up their schedules.

    Graph functions are in the form of `as_kernels`, so it is known which arguments are constants;
    the called functions are marked accordingly (`layout_free_buffers`). A search tunes the
    functions of this module, so that a later build finds its records. A module without graph
    functions is returned unchanged.
    """
    return _with_layout_free_buffers(as_kernels(mod)) if mod.graph_funcs() else mod


def as_kernels(mod: IRModule) -> IRModule:
    """Return a module with graph functions and the tensor functions that they call.

    A module with operators goes through `transform.default_pipeline`, another one is simplified.
    Functions that no graph function reaches are dropped.
    """
    reached = _reached_functions(mod)
    if any(map(has_operators, graph_functions(reached).values())):
        return transform.default_pipeline()(reached)
    return transform.simplify_graph(reached)


def _reached_functions(mod: IRModule) -> IRModule:
    """Return a module with its graph functions and the functions that they reach, all private."""
    functions = {
        name: func.without_attr("global_symbol")
        if isinstance(func, PrimFunc) and "global_symbol" in func.attrs
        else func
        for name, func in mod.functions.items()
    }
    found = set(all_callees(functions, mod.graph_funcs()))
    return IRModule({name: f for name, f in functions.items() if name in found}, mod.attrs)


def with_schedules(
    mod: IRModule,
    target: Target,
    database: Schedules | None = None,
    *,
    make_missing: bool = True,
) -> IRModule:
    """Return a module of `as_kernels` with schedules of its tensor functions.

    The schedules come from `database`, or else from the current history. With `make_missing`, other
    functions get default schedules if they run for more than a few microseconds and are not
    scheduled by hand. Functions are looked up with their constants marked (`layout_free_buffers`).
    Functions without a schedule are unchanged.

    Raises CodegenError for a database of another type.
    """
    if database is not None and not isinstance(database, Schedules):
        raise CodegenError(
            f"database has schedules of kernels, got {type(database).__name__}; open the directory "
            "of a search by search.database.JSONDatabase(work_dir=...)"
        )
    asked = _with_layout_free_buffers(mod)
    scheduled = asked
    if database is not None:
        functions = {n: f for n, f in asked.prim_funcs().items() if can_be_scheduled(f)}
        scheduled = _with(asked, database.schedules_of(functions, target))
    else:
        known = with_history(asked, target)
        assert isinstance(known, IRModule)
        scheduled = known
    if make_missing:
        functions = scheduled.prim_funcs()
        missing = {n: f for n, f in functions.items() if _needs_default_schedule(f, target)}
        if missing:
            weight_bytes = constant_bytes(mod)
            made = default_schedules().schedules_of(missing, target, weight_bytes)
            scheduled = _with(scheduled, made)
    return mod if scheduled is asked else scheduled


def _with_layout_free_buffers(mod: IRModule) -> IRModule:
    return transform.AttachAttrLayoutFreeBuffers(constants_only=True)(mod)


def _with(mod: IRModule, found: Mapping[str, PrimFunc]) -> IRModule:
    return IRModule({**mod.functions, **found}, mod.attrs) if found else mod


def _needs_default_schedule(func: PrimFunc, target: Target) -> bool:
    """Return True if a function is unscheduled, and runs long enough to matter: any on a GPU."""
    if not can_be_scheduled(func):
        return False
    if target.gpu is not None:
        return not thread_loops(func.body)
    loops = [node for node in statements(func.body) if isinstance(node, For)]
    if any(loop.kind != ForKind.SERIAL or loop.annotations for loop in loops):
        return False
    return not is_small(func)


@any_depth
def vm_build(
    mod: IRModule | Function,
    target: str | Mapping[str, Any] | Target | None = None,
    params: Mapping[str | GraphVar, Any] | None = None,
    *,
    database: Schedules | None = None,
    default_schedules: bool = True,
    guard_pages: bool = False,
) -> Executable:
    """Compile a module with graph functions; `target` defaults to the current one, else this CPU.

    A module with operators goes through `transform.default_pipeline`. `params` are bound to
    parameters of `main` first; contiguous arrays are not copied, and must not be changed. A graph
    function that calls only kernels, over tensors of fixed shapes, becomes one function of machine
    code; others become steps. Tensor functions without callers are dropped. A tensor function gets
    the schedule that `database`, or else the current one, has for it, otherwise a default schedule,
    unless `default_schedules` is False, the function is small, or it is scheduled by hand.
    Constants are converted to the layouts of schedules now, not in each call. A model without
    records is kept on the disk for later processes (`TENSORIR_CACHE`). With `guard_pages`,
    arguments, results and temporaries of every call end at inaccessible memory.

    For a GPU, weights and temporaries are in its memory, and a call copies arguments and results.
    Branches and library functions run on the host, and the arrays that they use are copied there
    and back. All kernels get schedules, a plain binding of loops if there is no other.

    Raises CodegenError for a module without graph functions, for a value without a compiled form,
    and for kernels of a GPU that call functions of Python (all of them are listed), and the errors
    of verification, binding and lowering.
    """
    if isinstance(mod, Function):
        mod = IRModule.from_expr(mod)
    if not isinstance(mod, IRModule):
        raise CodegenError(f"vm_build takes a module, got {type(mod).__name__}")
    if not mod.graph_funcs():
        raise CodegenError(
            f"the module has no graph function, only {sorted(mod.functions)}; "
            f"compile tensor functions with codegen.build"
        )
    if params:
        mod = transform.BindParams("main", params)(mod)
    verify_well_formed(mod)
    chosen = as_target(target)

    def built() -> Executable:
        with build_workers(sum(1 for _ in graph_calls(mod)) // _CALLS_A_PROCESS):
            kernels = as_kernels(mod)
            if chosen.gpu is not None:
                refuse_python(
                    python_calls(IRModule({**kernels.prim_funcs()})),
                    "kernels of a GPU cannot call Python functions, and some do",
                    "call them from a graph function, where they run on the host",
                )
            scheduled = with_schedules(kernels, chosen, database, make_missing=default_schedules)
            packed = _with_packed_constants(scheduled)
            return compile_lowered(transform.place_memory(packed), chosen, guard_pages=guard_pages)

    # Records and the settings of passes are not part of the key of a kept model.
    has_records = database is not None or innermost() is not None
    if default_schedules and not has_records and not transform.PassContext.is_entered():
        return kept_or_built(mod, chosen, guard_pages, built)
    return built()


def export(
    model: IRModule | BaseFunc | Executable | Module,
    path: str | Path,
    target: str | Mapping[str, Any] | Target | None = None,
    params: Mapping[str | GraphVar, Any] | None = None,
    **options: Any,
) -> Path:
    """Write a model as a shared library and a C header, which need no Python; return the header.

    `path` is that of the library; the header is next to it and describes the functions: for
    `libmodel.so` it is `model.h`, and their names begin with `model_`. A module is built as by
    `vm_build`, with the same `target`, `params` and `options`, tensor functions alone as by
    `build`. Weights, tuned kernels, sizes that become known in a call, branches and loops are in
    the library.

    Raises CodegenError for a model that calls functions of Python, with all of them, and LinkError
    for a place at which no library can be, both before anything is compiled, and the errors of
    `vm_build`.
    """
    place = as_path(path)
    if not isinstance(model, (Executable, Module)):
        functions_by_name(model)  # type: ignore[arg-type]  # refuses other things
        chosen = as_target(target)
        linker_for(chosen, place)
        mod = IRModule.from_expr(model) if isinstance(model, BaseFunc) else model
        mod = transform.BindParams("main", params)(mod) if params else mod
        verify_well_formed(mod)
        is_graph = bool(mod.graph_funcs())
        refuse_python(python_calls(as_kernels(mod) if is_graph else mod))
        model = vm_build(mod, chosen, **options) if is_graph else build(mod, chosen)
    model.export_library(place)
    name = library_name(place)
    text = model.c_header(name) if isinstance(model, Executable) else model.c_header()
    header = place.with_name(f"{name}.h")
    header.write_text(text, encoding="utf-8")
    return header


def _with_packed_constants(mod: IRModule) -> IRModule:
    """Return a module with constants in the layouts of the schedules."""
    split = transform.SplitLayoutRewritePreproc()(mod)
    if all(mod.functions.get(name) is func for name, func in split.functions.items()):
        return mod
    return transform.DeadCodeElimination()(transform.FoldConstant()(split))


def compile_lowered(
    mod: IRModule,
    target: str | Mapping[str, Any] | Target | None = None,
    *,
    guard_pages: bool = False,
    one_by_one: bool = False,
) -> Executable:
    """Compile a lowered module; `one_by_one` gives each call a separate run of machine code."""
    constants = ConstantPool()
    programs: dict[str, p.Program] = {}
    translations: list[Translation] = []
    graphs = graph_functions(mod)
    chosen = as_target(target)
    on_device = chosen.gpu is not None
    for name in callees_first(graphs):
        translation = Translation(
            name, graphs[name], mod, programs, constants, one_by_one, on_device
        )
        programs[name] = translation.translate()
        translations.append(translation)
    functions = mod.prim_funcs()
    for translation in translations:
        functions.update(translation.functions(constants.nbytes))
    if on_device:
        from codegen.lower.gpu.bind_unbound import bind_unbound  # noqa: PLC0415 - for GPUs only

        bound = {name: bind_unbound(func) for name, func in functions.items()}
        module = build(bound, chosen, guard_pages=guard_pages)
    else:
        module = Module.of(compile_functions(functions, chosen))
    description = p.Description(tuple(programs[name] for name in graphs), constants.nbytes)
    return Executable(module, description, constants.constants(), mod=mod, guard_pages=guard_pages)
