"""Postprocessors, which complete or reject a sampled schedule."""

from typing import TYPE_CHECKING

from search.postproc import presets
from search.postproc.disallow_dynamic_loop import DisallowDynamicLoop
from search.postproc.postproc import Postproc, PyPostproc
from search.postproc.rewrite_blocks import RewriteReductionBlock, RewriteTensorize
from search.postproc.rewrite_layout import RewriteLayout
from search.postproc.rewrite_panels import RewritePanels
from search.postproc.rewrite_parallel_vectorize_unroll import RewriteParallelVectorizeUnroll
from search.postproc.rewrite_register_tile import RewriteRegisterTile
from tensorir.lazy_names import names_on_use

if TYPE_CHECKING:
    from search.postproc.rewrite_cooperative_fetch import RewriteCooperativeFetch
    from search.postproc.rewrite_unbound_block import RewriteUnboundBlock
    from search.postproc.verify_gpu_code import VerifyGPUCode

__all__ = [
    "DisallowDynamicLoop",
    "Postproc",
    "PyPostproc",
    "RewriteCooperativeFetch",
    "RewriteLayout",
    "RewritePanels",
    "RewriteParallelVectorizeUnroll",
    "RewriteReductionBlock",
    "RewriteRegisterTile",
    "RewriteTensorize",
    "RewriteUnboundBlock",
    "VerifyGPUCode",
    "presets",
]

if not TYPE_CHECKING:
    __getattr__ = names_on_use(__name__)
