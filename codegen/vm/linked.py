"""From an executable to functions: its library functions are looked up, its steps made to run."""

from __future__ import annotations

from collections.abc import Callable

from codegen.errors import LinkError
from codegen.library_functions import get_global_func, missing_text
from codegen.vm.executable import Executable
from codegen.vm.graph_function import GraphFunction, Link
from codegen.vm.steps import Linker


def functions_of(
    executable: Executable, watch: Callable[[Link], Link] | None = None
) -> dict[str, GraphFunction]:
    """Return the functions of an executable; `watch` may change how steps are run."""
    library = {}
    missing: dict[str, list[str]] = {}
    for name, bindings in executable.library_calls().items():
        found = get_global_func(name, allow_missing=True)
        if found is None:
            missing[name] = bindings
        else:
            library[name] = found
    if missing:
        calls = "; ".join(f"{name} by {', '.join(where)}" for name, where in missing.items())
        raise LinkError(f"{missing_text(list(missing))}. They are called: {calls}")
    functions: dict[str, GraphFunction] = {}
    link: Link = Linker(executable.module, library, functions)
    if watch is not None:
        link = watch(link)
    for program in executable.description.programs:
        functions[program.name] = GraphFunction(
            program, executable.constants, link, executable.guard_pages
        )
    return functions
