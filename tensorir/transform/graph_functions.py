"""The graph functions of a module, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tensorir.function import IRModule
from tensorir.relax.function import Function


def graph_functions(mod: IRModule) -> dict[str, Function]:
    """Return the graph functions of a module by name."""
    return {name: func for name, func in mod.functions.items() if isinstance(func, Function)}


@contextmanager
def naming_function(name: str) -> Iterator[None]:
    """Let errors say in which function they arose."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in the function {name}")
        raise
