"""The tasks of a network: its tensor functions, each once."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

from codegen import Target
from codegen.history import can_be_scheduled
from codegen.target import as_target
from search.arg_info import ArgInfo
from search.auto_scheduler.hardware_params import HardwareParams
from search.auto_scheduler.search_task import SearchTask
from search.auto_scheduler.steps.compute_dag import LayoutRewriteOption
from search.auto_scheduler.workload_registry import register_program
from search.database.module_equality import anchor_block
from search.errors import TuningError
from tensorir.function import IRModule
from tensorir.nodes.expr import GlobalVar
from tensorir.relax.function import graph_functions
from tensorir.rewriting.visit import walk

logger = logging.getLogger("auto_scheduler")


def extract_tasks(
    mod: IRModule,
    target: str | Mapping[str, Any] | Target | None = None,
    hardware_params: HardwareParams | None = None,
    include_simple_tasks: bool = False,
) -> tuple[list[SearchTask], list[int]]:
    """Return the tasks of a module, and how often its graph calls each of them.

    The functions of the module are registered as workloads under the hash of what they compute, so
    that functions which compute the same are one task. A log of them is applied where this was
    called with the same module. In a module without a graph each function counts once.

    Left out are functions without a reduction, unless `include_simple_tasks`, and those with
    arguments of unknown shape, which the log `auto_scheduler` says at level INFO. TuningError for
    what is no module.
    """
    if not isinstance(mod, IRModule):
        raise TuningError(f"tasks are extracted from an IRModule, got {type(mod).__name__}")
    target = as_target(target)
    calls = _calls(mod)
    tasks: dict[str, SearchTask] = {}
    weights: Counter[str] = Counter()
    for name, func in sorted(mod.prim_funcs().items()):
        if not can_be_scheduled(func):
            continue
        if not include_simple_tasks and anchor_block(IRModule({"main": func})) is None:
            continue
        try:
            ArgInfo.from_prim_func(func)
        except TuningError as error:
            logger.info('Function "%s" is no task: %s', name, error)
            continue
        key = register_program(func)
        if key not in tasks:
            tasks[key] = SearchTask(
                workload_key=key,
                target=target,
                hardware_params=hardware_params,
                layout_rewrite_option=LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED,
                desc=name,
            )
        weights[key] += calls[name] if calls else 1
    return list(tasks.values()), [weights[key] for key in tasks]


def _calls(mod: IRModule) -> Counter[str]:
    """Return how often the functions of a module are named in its graph; a loop counts once."""
    graphs = graph_functions(mod).values()
    return Counter(
        node.name for graph in graphs for node in walk(graph.body) if isinstance(node, GlobalVar)
    )
