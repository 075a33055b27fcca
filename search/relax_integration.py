"""Tuning of models, with the names and argument orders of TVM's module of this name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import codegen
from codegen import Target
from search.database import Database, ModuleEquality
from search.models.extract_tasks import ExtractedTask, with_params
from search.models.extract_tasks import extract_tasks as _extract_tasks
from search.models.tune_model import tune_model
from tensorir.function import BaseFunc, IRModule
from tensorir.paths import PathLike

__all__ = ["compile_relax", "extract_tasks", "tune_relax"]


def extract_tasks(
    mod: IRModule | BaseFunc,
    target: str | Target,
    params: Mapping[str, Any] | None = None,
    module_equality: str | ModuleEquality = "structural",
) -> list[ExtractedTask]:
    """Return the tasks of a model whose `main` gets `params`; see `search.extract_tasks`."""
    return _extract_tasks(with_params(mod, params), target, module_equality=module_equality)


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
    """Tune a model by `search.tune_model`, which has the `options`."""
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
    """Build a model with its schedules in a database, like `codegen.vm_build(database=...)`.

    `enable_warning` has no effect: missing schedules are always logged.
    """
    del enable_warning
    return codegen.vm_build(with_params(mod, params), target, database=database)
