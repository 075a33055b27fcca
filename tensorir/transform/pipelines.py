"""Pipelines: from operators to fused tensor functions, and from these to explicit memory."""

from __future__ import annotations

from typing import Final

from tensorir.function import IRModule
from tensorir.transform.call_tir_rewrite import CallTIRRewrite
from tensorir.transform.canonicalize_bindings import CanonicalizeBindings
from tensorir.transform.combine_transposes import CombineTransposes
from tensorir.transform.concat_in_place import ConcatInPlace
from tensorir.transform.convert_layout import ConvertLayout
from tensorir.transform.dataflow_use_inplace_calls import DataflowUseInplaceCalls
from tensorir.transform.dead_code_elimination import DeadCodeElimination
from tensorir.transform.eliminate_common_subexpr import EliminateCommonSubexpr
from tensorir.transform.fold_batch_norm import FoldBatchNorm
from tensorir.transform.fold_constant import FoldConstant
from tensorir.transform.fuse_ops import FuseOps
from tensorir.transform.fuse_tir import FuseTIR
from tensorir.transform.legalize_ops import DecomposeOps, LegalizeOps
from tensorir.transform.pass_context import Pass, Sequential
from tensorir.transform.rewrite_dataflow_reshape import RewriteDataflowReshape, SinkViews
from tensorir.transform.separate_outputs import SeparateOutputs
from tensorir.transform.static_plan_block_memory import StaticPlanBlockMemory


def default_pipeline() -> Sequential:
    """Return the passes that turn operators into fused tensor functions.

    Convolutions and the operators between them get the layout with channels last.
    Operators become tensor functions, values that depend only on constants are computed, equal
    values are computed once, reshapes become views, and calls are fused. Bind the parameters of a
    model first (`BindParams`), so that values that depend on them can be computed. To print each
    step:

        with PassContext(instruments=[PrintAfterAll()]):
            mod = default_pipeline()(mod)
    """
    return Sequential(
        [
            # Later passes count the uses of a value, so each value must have one name.
            CanonicalizeBindings(),
            DeadCodeElimination(),
            FoldConstant(),  # computes the weights that FoldBatchNorm scales
            FoldBatchNorm(),
            DecomposeOps(),
            ConvertLayout(),
            LegalizeOps(),
            SeparateOutputs(),
            FoldConstant(),  # again: composite operators have expressions of their weights
            EliminateCommonSubexpr(),
            RewriteDataflowReshape(),
            CombineTransposes(),
            SinkViews(),
            # Again, because the passes above replaced values, and FuseOps counts uses.
            CanonicalizeBindings(),
            DeadCodeElimination(),
            FuseOps(),
            FuseTIR(),
            ConcatInPlace(),
        ],
        name="default_pipeline",
    )


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
    """Remove needless bindings from the graph functions of a module, before memory is explicit."""
    return Sequential(SIMPLIFICATION, name="simplify_graph")(mod)


def place_memory(mod: IRModule) -> IRModule:
    """Make the memory of graph functions explicit: the last step of `lower_graph`."""
    return Sequential(MEMORY, name="place_memory")(mod)


def lower_graph(mod: IRModule) -> IRModule:
    """Return a module whose graph functions have explicit memory and no needless bindings.

    To print the steps:

        with PassContext(instruments=[PrintAfterAll()]):
            lower_graph(mod)
    """
    return Sequential(LOWERING, name="lower_graph")(mod)
