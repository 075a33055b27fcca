"""From modules with graph functions to executables: `vm_build`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codegen.compile import compile_functions
from codegen.errors import CodegenError
from codegen.runtime.module import Module
from codegen.schedules import Schedules
from codegen.target import Target, as_target
from codegen.vm import program as p
from codegen.vm.constants import ConstantPool
from codegen.vm.executable import Executable
from codegen.vm.kernel_schedules import as_kernels, with_schedules
from codegen.vm.translate import Translation
from tensorir import transform
from tensorir.function import IRModule
from tensorir.recursion import any_depth
from tensorir.relax.call_graph import callees_first
from tensorir.relax.expr import GraphVar
from tensorir.relax.function import Function, graph_functions
from tensorir.verify import verify_well_formed


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
    code; others become steps. Tensor functions that no graph function calls are left out. Those of
    which `database`, or else the current one, knows a schedule are built with it; others get a
    default schedule, unless `default_schedules` is False, they are small, or somebody has scheduled
    them. A schedule may read constants in a layout of its own: they are brought there now, not in
    each call. With `guard_pages` arguments, results and temporaries of every call end where memory
    without access begins.

    Raises CodegenError for a module without graph functions, for one without a compiled form, and
    what verification, binding and lowering raise.
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
    kernels = as_kernels(mod)
    scheduled = with_schedules(kernels, chosen, database, make_missing=default_schedules)
    packed = _with_packed_constants(scheduled)
    return compile_lowered(transform.place_memory(packed), chosen, guard_pages=guard_pages)


def _with_packed_constants(mod: IRModule) -> IRModule:
    """Return a module with the constants in the layouts that schedules ask for."""
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
    for name in callees_first(graphs):
        translation = Translation(name, graphs[name], mod, programs, constants, one_by_one)
        programs[name] = translation.translate()
        translations.append(translation)
    functions = mod.prim_funcs()
    for translation in translations:
        functions.update(translation.functions(constants.nbytes))
    module = Module.of(compile_functions(functions, as_target(target)))
    description = p.Description(tuple(programs[name] for name in graphs), constants.nbytes)
    return Executable(module, description, constants.constants(), mod=mod, guard_pages=guard_pages)
