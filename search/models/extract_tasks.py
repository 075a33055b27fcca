"""The tasks of a model: its different tensor functions, and how often a call runs each."""

from __future__ import annotations

import html
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from codegen import Target
from codegen.history import can_be_scheduled
from codegen.target import as_target
from codegen.vm.build import as_looked_up
from search.database.module_equality import ModuleEquality, ModuleIndex, unnamed
from search.database.program_lengths import compatible_factor
from search.errors import TuningError
from search.history.symbolic_sizes import (
    Sizes,
    check_sizes,
    open_sizes,
    representative_sizes,
    with_sizes,
)
from search.task import as_module, functions_to_tune, normalize_mod, with_num_cores
from tensorir import transform
from tensorir.function import BaseFunc, IRModule, PrimFunc
from tensorir.relax.call_graph import all_callees, run_counts
from tensorir.relax.expr import GraphVar
from tensorir.relax.function import graph_functions


@dataclass(eq=False)
class ExtractedTask:
    """A program to tune for a model, and how often a call of the model runs it."""

    task_name: str
    """The name of its first function."""
    mod: IRModule
    """The program: one function, called `main`."""
    target: Target
    dispatched: list[IRModule]
    """The programs that use its records: it, and with `include_compatible` longer ones."""
    weight: float = 0
    """The number of runs; a run of a longer program counts by its ratio of iterations."""
    names: list[str] = field(default_factory=list)
    """All functions of the model that are this task."""

    def __str__(self) -> str:
        return f"{self.task_name} x {self.weight:g}"

    def __repr__(self) -> str:
        return f"<ExtractedTask {self} for {self.target}>"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>{self.mod._repr_html_()}"


def extract_tasks(
    mod: IRModule | BaseFunc,
    target: str | Mapping[str, Any] | Target | None = None,
    *,
    module_equality: str | ModuleEquality = "structural",
    include_compatible: bool = False,
    sizes: Sizes | None = None,
) -> list[ExtractedTask]:
    """Return the tasks of a model, in the order in which its graph calls them.

    Functions that are equal under `module_equality` are one task, whatever their names. Its weight
    is the number of times that they run, if each graph function that no other one calls runs once:
    through calls of graph functions, and with both branches of an `if`; a loop runs once. With
    `include_compatible` a function that is another one with longer loops (`compatible_factor`) is
    not a separate task: records of the shortest function serve both, if a build has that option.

    A function with symbolic sizes is one task for each of its `representative_sizes`, with numbers
    for the sizes. `sizes` has other ones, by the names of the symbolic sizes: with
    `{"n": [1, 16, 256]}` three schedules are made, and each call of the function runs that of the
    smallest `n` that is not below its own, or else the last one.

    The functions are those that `codegen.vm_build` looks up: constants that they read may have any
    layout, and graph operators are legalised and fused by `transform.default_pipeline`. Functions
    without a caller, without blocks, and with `tir.is_scheduled` are left out. In a module without
    graph functions each function runs once.

    Raises IRTypeError if `mod` is not a module or a function, and TuningError for unknown names and
    invalid numbers in `sizes`.
    """
    functions = as_looked_up(as_module(mod))
    if not isinstance(sizes, Mapping | None):
        raise TuningError(
            f"sizes has numbers by the names of symbolic sizes, as in {{'n': [1, 16]}}, got "
            f"{type(sizes).__name__}"
        )
    if sizes:
        check_sizes(sizes, functions.prim_funcs())
    tasks = tasks_of_functions(functions, target, module_equality, sizes=sizes or {})
    return _shortest(tasks) if include_compatible else tasks


def with_params(mod: IRModule | BaseFunc, params: Mapping[str, Any] | None) -> IRModule:
    """Return a model as a module with `params` bound to its `main`.

    Raises IRTypeError for a model and TuningError for `params` of another type.
    """
    mod = as_module(mod)
    if not isinstance(params, Mapping | None):
        raise TuningError(
            f"params has arrays by the names of parameters of main, as in {{'w': array}}, got "
            f"{type(params).__name__}"
        )
    named: dict[str | GraphVar, Any] = dict((params or {}).items())
    return transform.BindParams("main", named)(mod) if named else mod


def tasks_of_functions(
    mod: IRModule,
    target: str | Mapping[str, Any] | Target | None = None,
    module_equality: str | ModuleEquality = "structural",
    apart: Collection[str] = (),
    sizes: Sizes | None = None,
) -> list[ExtractedTask]:
    """Return the tasks of the functions of a module, which is not transformed.

    Each function named in `apart` is a separate task, even if it equals another one. With `sizes`,
    which may be empty, symbolic sizes are replaced as by `extract_tasks`.
    """
    chosen = with_num_cores(as_target(target))
    index: ModuleIndex[ExtractedTask] = ModuleIndex(ModuleEquality.create(module_equality))
    tasks: list[ExtractedTask] = []
    for name, func, runs in _functions_that_run(mod):
        for task_name, program in _programs(name, func, sizes):
            known = [] if name in apart else index.like(unnamed(program))
            if not known:
                known = [ExtractedTask(task_name, program, chosen, [program])]
                tasks += known
                if name not in apart:
                    index.add(unnamed(program), known[0])
            known[0].weight += runs
            known[0].names.append(name)
    return tasks


def _programs(name: str, func: PrimFunc, sizes: Sizes | None) -> Iterator[tuple[str, IRModule]]:
    """Yield the programs of a function, which are several if it has symbolic sizes, with names."""
    if sizes is None or not open_sizes(func):
        yield name, normalize_mod(func)
        return
    for numbers in representative_sizes(func, sizes):
        text = "".join(f"_{var.name}_{number}" for var, number in numbers.items())
        yield f"{name}{text}", with_sizes(func, numbers)


def _functions_that_run(mod: IRModule) -> Iterator[tuple[str, PrimFunc, int]]:
    """Yield the functions to tune, each with how often it runs."""
    runs = run_counts(mod.functions)
    functions = functions_to_tune(mod)
    for name in all_callees(mod.functions, [*graph_functions(mod), *mod.functions]):
        if name in functions and can_be_scheduled(functions[name]):
            yield name, functions[name], runs[name]


def _shortest(tasks: list[ExtractedTask]) -> list[ExtractedTask]:
    """Merge each task that is another one with longer loops into that one; return the rest."""
    kept: list[ExtractedTask] = []
    alike: ModuleIndex[ExtractedTask] = ModuleIndex(ModuleEquality.create("ignore-lengths"))
    for task in tasks:
        alike.add(unnamed(task.mod), task)
    for task in tasks:
        factors = {
            other: compatible_factor(other.mod, task.mod)
            for other in alike.like(unnamed(task.mod))
            if other is not task
        }
        shorter = {other: factor for other, factor in factors.items() if factor and factor > 1}
        if not shorter:
            kept.append(task)
            continue
        best = max(shorter, key=lambda other: shorter[other])
        best.weight += task.weight * shorter[best]
        best.names += task.names
        best.dispatched += task.dispatched
    return kept
