"""The tasks of a network: its tensor functions, each once."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from codegen import Target
from codegen.target import as_target
from search.arg_info import ArgInfo
from search.auto_scheduler.hardware_params import HardwareParams
from search.auto_scheduler.search_task import SearchTask
from search.auto_scheduler.steps.compute_dag import LayoutRewriteOption
from search.auto_scheduler.workload_registry import register_program
from search.database.module_equality import anchor_block
from search.errors import TuningError
from search.networks.extract_tasks import tasks_of_functions
from tensorir.function import IRModule

logger = logging.getLogger("auto_scheduler")


def extract_tasks(
    mod: IRModule,
    target: str | Mapping[str, Any] | Target | None = None,
    hardware_params: HardwareParams | None = None,
    include_simple_tasks: bool = False,
) -> tuple[list[SearchTask], list[int]]:
    """Return the tasks of a module, and how often its graph runs each of them.

    The functions of the module are registered as workloads under the hash of what they compute, so
    that functions which compute the same are one task. A log of them is applied where this was
    called with the same module. In a module without a graph each function counts once.

    Left out are functions without a reduction, unless `include_simple_tasks`, and those with
    arguments of unknown shape, which the log `auto_scheduler` says at level INFO. TuningError for
    what is no module.
    """
    if not isinstance(mod, IRModule):
        raise TuningError(f"tasks are extracted from an IRModule, got {type(mod).__name__}")
    tasks: list[SearchTask] = []
    weights: list[int] = []
    for found in tasks_of_functions(mod, target):
        func = found.mod.prim_func("main")
        if not include_simple_tasks and anchor_block(found.mod) is None:
            continue
        try:
            ArgInfo.from_prim_func(func)
        except TuningError as error:
            logger.info('Function "%s" is not tuned: %s', found.task_name, error)
            continue
        task = SearchTask(
            workload_key=register_program(func),
            target=as_target(target),
            hardware_params=hardware_params,
            layout_rewrite_option=LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED,
            desc=found.task_name,
        )
        tasks.append(task)
        weights.append(int(found.weight))
    return tasks, weights
