"""The passes in front of the executor, in order."""

from __future__ import annotations

from typing import Final

from tensorir.function import IRModule
from tensorir.transform.call_tir_rewrite import CallTIRRewrite
from tensorir.transform.canonicalize_bindings import CanonicalizeBindings
from tensorir.transform.dataflow_use_inplace_calls import DataflowUseInplaceCalls
from tensorir.transform.dead_code_elimination import DeadCodeElimination
from tensorir.transform.fold_constant import FoldConstant
from tensorir.transform.pass_context import Pass, Sequential
from tensorir.transform.static_plan_block_memory import StaticPlanBlockMemory

SIMPLIFICATION: Final[tuple[Pass, ...]] = (
    CanonicalizeBindings(),
    FoldConstant(),
    DeadCodeElimination(),
)
MEMORY: Final[tuple[Pass, ...]] = (
    DataflowUseInplaceCalls(),
    CallTIRRewrite(),
    StaticPlanBlockMemory(),
)
LOWERING: Final[tuple[Pass, ...]] = (*SIMPLIFICATION, *MEMORY)


def simplify_graph(mod: IRModule) -> IRModule:
    """Return a module without needless bindings in its graph functions, still of values."""
    return Sequential(SIMPLIFICATION, name="simplify_graph")(mod)


def place_memory(mod: IRModule) -> IRModule:
    """Return a module whose graph functions have explicit memory: the end of `lower_graph`."""
    return Sequential(MEMORY, name="place_memory")(mod)


def lower_graph(mod: IRModule) -> IRModule:
    """Return a module whose graph functions have explicit memory and no needless bindings.

    To look at what lies between:

        with PassContext(instruments=[PrintAfterAll()]):
            lower_graph(mod)
    """
    return Sequential(LOWERING, name="lower_graph")(mod)
