"""The passes that bring a model into the form that is tuned and compiled."""

from __future__ import annotations

from tensorir.transform.annotate_tir_op_pattern import AnnotateTIROpPattern
from tensorir.transform.canonicalize_bindings import CanonicalizeBindings
from tensorir.transform.combine_transposes import CombineTransposes
from tensorir.transform.convert_layout import ConvertLayout
from tensorir.transform.dead_code_elimination import DeadCodeElimination
from tensorir.transform.decompose_ops import DecomposeOps
from tensorir.transform.eliminate_common_subexpr import EliminateCommonSubexpr
from tensorir.transform.fold_batch_norm import FoldBatchNorm
from tensorir.transform.fold_constant import FoldConstant
from tensorir.transform.fuse_ops import FuseOps
from tensorir.transform.fuse_tir import FuseTIR
from tensorir.transform.legalize_ops import LegalizeOps
from tensorir.transform.pass_context import Sequential
from tensorir.transform.rewrite_dataflow_reshape import RewriteDataflowReshape
from tensorir.transform.separate_outputs import SeparateOutputs
from tensorir.transform.sink_views import SinkViews


def default_pipeline() -> Sequential:
    """Return the passes from operators to tensor functions that each are worth a call.

    Convolutions get their channels last, and what lies between them. Operators become tensor
    functions, what depends on constants only is computed, what is equal is computed once, reshapes
    become views, and calls are fused. The parameters of a model are bound before (`BindParams`), or
    else nothing can be computed of them. To look at what lies between:

        with PassContext(instruments=[PrintAfterAll()]):
            mod = default_pipeline()(mod)
    """
    return Sequential(
        [
            CanonicalizeBindings(),
            FoldConstant(),
            FoldBatchNorm(),
            DecomposeOps(),
            CanonicalizeBindings(),
            DeadCodeElimination(),
            ConvertLayout(),
            LegalizeOps(),
            SeparateOutputs(),
            CanonicalizeBindings(),
            FoldConstant(),
            EliminateCommonSubexpr(),
            RewriteDataflowReshape(),
            CombineTransposes(),
            CanonicalizeBindings(),
            SinkViews(),
            RewriteDataflowReshape(),
            CanonicalizeBindings(),
            DeadCodeElimination(),
            AnnotateTIROpPattern(),
            FuseOps(),
            FuseTIR(),
            DeadCodeElimination(),
        ],
        name="default_pipeline",
    )
