"""Tuning of models, under the module name, the names and the orders of arguments that TVM has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import codegen
from codegen import Target
from search.database import Database, ModuleEquality
from search.errors import TuningError
from search.models.extract_tasks import ExtractedTask
from search.models.extract_tasks import extract_tasks as _extract_tasks
from search.models.tune_model import tune_model
from search.run import PathLike
from tensorir import transform
from tensorir.function import BaseFunc, IRModule
from tensorir.relax.expr import GraphVar

__all__ = ["compile_relax", "extract_tasks", "tune_relax"]


def extract_tasks(
    mod: IRModule | BaseFunc,
    target: str | Target,
    params: Mapping[str, Any] | None = None,
    module_equality: str | ModuleEquality = "structural",
) -> list[ExtractedTask]:
    """Return the tasks of a model whose `main` gets `params`; see `search.extract_tasks`."""
    return _extract_tasks(_bound(mod, params), target, module_equality=module_equality)


def tune_relax(
    mod: IRModule | BaseFunc,
    params: Mapping[str, Any] | None,
    target: str | Target,
    work_dir: PathLike,
    max_trials_global: int,
    max_trials_per_task: int | None = None,
    op_names: Sequence[str] | None = None,
    **options: Any,
) -> Database:
    """Tune a model; `options` are those of `search.tune_model`, which this is."""
    return tune_model(
        mod,
        target,
        work_dir,
        params=params,
        max_trials_global=max_trials_global,
        max_trials_per_task=max_trials_per_task,
        op_names=op_names,
        **options,
    )


def compile_relax(
    database: Database,
    mod: IRModule | BaseFunc,
    target: str | Target,
    params: Mapping[str, Any] | None = None,
    enable_warning: bool = False,
) -> codegen.Executable:
    """Build a model with what a database has of it, as `codegen.vm_build(database=...)` does.

    `enable_warning` is for programs written for TVM: what is missing is said in any case.
    """
    del enable_warning
    return codegen.vm_build(_bound(mod, params), target, database=database)


def _bound(mod: IRModule | BaseFunc, params: Mapping[str, Any] | None) -> IRModule:
    if isinstance(mod, BaseFunc):
        mod = IRModule.from_expr(mod)
    if not isinstance(mod, IRModule):
        raise TuningError(f"a model is an IRModule, got {type(mod).__name__}")
    named: dict[str | GraphVar, Any] = dict((params or {}).items())
    return transform.BindParams("main", named)(mod) if named else mod
