"""The tasks of a model: its tensor functions, each once, and how often a call of it runs each."""

from __future__ import annotations

import html
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from codegen import Target
from codegen.history import can_be_scheduled
from codegen.target import as_target
from codegen.vm.kernel_schedules import as_looked_up
from search.database.module_equality import ModuleEquality, ModuleIndex, unnamed
from search.database.program_lengths import compatible_factor
from search.errors import TuningError
from search.task import functions_to_tune, normalize_mod, with_num_cores
from tensorir.function import BaseFunc, IRModule, PrimFunc
from tensorir.relax.call_graph import reached, run_counts
from tensorir.relax.function import Function, graph_functions


@dataclass(eq=False)
class ExtractedTask:
    """A program to tune for a model, and how often a call of the model runs it."""

    task_name: str
    """The name of the first function that it stands for."""
    mod: IRModule
    """The program: one function, called `main`."""
    target: Target
    dispatched: list[IRModule]
    """The programs that its records serve: it, and with `include_compatible` longer ones."""
    weight: float = 0
    """How often it runs; a longer program counts as often as it has as many iterations."""
    names: list[str] = field(default_factory=list)
    """All functions of the model that it stands for."""

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
) -> list[ExtractedTask]:
    """Return the tasks of a model, in the order in which its graph meets them.

    Functions that are the same under `module_equality` are one task, whatever they are called. Its
    weight is how often they run, if each graph function that no other one calls runs once: through
    calls of graph functions, and with both branches of an `if`; a loop runs once. With
    `include_compatible` a function that is another one with longer loops (`compatible_factor`) is
    no task of its own: records of the shortest serve both, where a build has that option, too.

    The functions are as `codegen.vm_build` looks them up: constants that they read may have any
    layout, and graph operators are legalised and fused by `transform.default_pipeline`. Left out
    are functions that nothing calls, those without blocks, and those with `tir.is_scheduled`. In a
    module without graph functions each function runs once.

    TuningError for what is no module.
    """
    if isinstance(mod, (Function, PrimFunc)):
        mod = IRModule.from_expr(mod)
    if not isinstance(mod, IRModule):
        raise TuningError(f"tasks are extracted from an IRModule, got {type(mod).__name__}")
    tasks = tasks_of_functions(as_looked_up(mod), target, module_equality)
    return _shortest(tasks) if include_compatible else tasks


def tasks_of_functions(
    mod: IRModule,
    target: str | Mapping[str, Any] | Target | None = None,
    module_equality: str | ModuleEquality = "structural",
    apart: Collection[str] = (),
) -> list[ExtractedTask]:
    """Return the tasks of the functions of a module, which are taken as they are.

    Those named by `apart` are tasks of their own, whatever is the same as they.
    """
    chosen = with_num_cores(as_target(target))
    index: ModuleIndex[ExtractedTask] = ModuleIndex(ModuleEquality.create(module_equality))
    tasks: list[ExtractedTask] = []
    for name, func, runs in _functions_that_run(mod):
        program = normalize_mod(func)
        known = [] if name in apart else index.like(unnamed(program))
        if not known:
            known = [ExtractedTask(name, program, chosen, [program])]
            tasks += known
            if name not in apart:
                index.add(unnamed(program), known[0])
        known[0].weight += runs
        known[0].names.append(name)
    return tasks


def _functions_that_run(mod: IRModule) -> Iterator[tuple[str, PrimFunc, int]]:
    """Yield the functions to tune, each with how often it runs."""
    runs = run_counts(mod.functions)
    functions = functions_to_tune(mod)
    for name in reached(mod.functions, [*graph_functions(mod), *mod.functions]):
        if name in functions and can_be_scheduled(functions[name]):
            yield name, functions[name], runs[name]


def _shortest(tasks: list[ExtractedTask]) -> list[ExtractedTask]:
    """Return the tasks without those that are others with longer loops, which stand for them."""
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
