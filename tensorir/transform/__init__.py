"""Passes over modules with graph functions, and the contexts in which passes run."""

from tensorir.transform.bind_params import BindParams, bind_params
from tensorir.transform.call_tir_rewrite import CallTIRRewrite
from tensorir.transform.canonicalize_bindings import CanonicalizeBindings
from tensorir.transform.check_memory_plan import check_memory_plan
from tensorir.transform.combine_transposes import CombineTransposes
from tensorir.transform.concat_in_place import ConcatInPlace
from tensorir.transform.convert_layout import ConvertLayout
from tensorir.transform.convert_to_dataflow import ConvertToDataflow
from tensorir.transform.dataflow_use_inplace_calls import DataflowUseInplaceCalls
from tensorir.transform.dead_code_elimination import DeadCodeElimination
from tensorir.transform.eliminate_common_subexpr import EliminateCommonSubexpr
from tensorir.transform.fold_batch_norm import FoldBatchNorm
from tensorir.transform.fold_constant import FoldConstant
from tensorir.transform.fuse_ops import AnnotateTIROpPattern, FuseOps
from tensorir.transform.fuse_tir import FuseTIR
from tensorir.transform.instruments import (
    PassInstrument,
    PassTimingInstrument,
    PrintAfter,
    PrintAfterAll,
    PrintBefore,
    PrintBeforeAll,
    VerifyAfterEach,
)
from tensorir.transform.layout_free_buffers import (
    AttachAttrLayoutFreeBuffers,
    SplitLayoutRewritePreproc,
)
from tensorir.transform.legalize_ops import DecomposeOps, LegalizeOps
from tensorir.transform.lift_transform_params import LiftTransformParams
from tensorir.transform.pass_context import (
    FunctionPass,
    ModulePass,
    Pass,
    PassContext,
    PassInfo,
    PrimFuncPass,
    Sequential,
    function_pass,
    module_pass,
    prim_func_pass,
)
from tensorir.transform.pipelines import default_pipeline, lower_graph, place_memory, simplify_graph
from tensorir.transform.rewrite_dataflow_reshape import RewriteDataflowReshape, SinkViews
from tensorir.transform.separate_outputs import SeparateOutputs
from tensorir.transform.static_plan_block_memory import StaticPlanBlockMemory

__all__ = [
    "AnnotateTIROpPattern",
    "AttachAttrLayoutFreeBuffers",
    "BindParams",
    "CallTIRRewrite",
    "CanonicalizeBindings",
    "CombineTransposes",
    "ConcatInPlace",
    "ConvertLayout",
    "ConvertToDataflow",
    "DataflowUseInplaceCalls",
    "DeadCodeElimination",
    "DecomposeOps",
    "EliminateCommonSubexpr",
    "FoldBatchNorm",
    "FoldConstant",
    "FunctionPass",
    "FuseOps",
    "FuseTIR",
    "LegalizeOps",
    "LiftTransformParams",
    "ModulePass",
    "Pass",
    "PassContext",
    "PassInfo",
    "PassInstrument",
    "PassTimingInstrument",
    "PrimFuncPass",
    "PrintAfter",
    "PrintAfterAll",
    "PrintBefore",
    "PrintBeforeAll",
    "RewriteDataflowReshape",
    "SeparateOutputs",
    "Sequential",
    "SinkViews",
    "SplitLayoutRewritePreproc",
    "StaticPlanBlockMemory",
    "VerifyAfterEach",
    "bind_params",
    "check_memory_plan",
    "default_pipeline",
    "function_pass",
    "lower_graph",
    "module_pass",
    "place_memory",
    "prim_func_pass",
    "simplify_graph",
]
