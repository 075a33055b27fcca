"""The preset of postprocessors for GPUs."""

from __future__ import annotations

from search.postproc.disallow_dynamic_loop import DisallowDynamicLoop
from search.postproc.postproc import Postproc
from search.postproc.rewrite_blocks import RewriteReductionBlock, RewriteTensorize
from search.postproc.rewrite_cooperative_fetch import RewriteCooperativeFetch
from search.postproc.rewrite_parallel_vectorize_unroll import RewriteParallelVectorizeUnroll
from search.postproc.rewrite_unbound_block import RewriteUnboundBlock
from search.postproc.verify_gpu_code import VerifyGPUCode


@Postproc.kinds.register("cuda")
def gpu_postprocs() -> list[Postproc]:
    """Return the postprocessors for GPUs of any kind."""
    return [
        DisallowDynamicLoop(keep_program_loops=True),
        RewriteCooperativeFetch(),
        RewriteUnboundBlock(max_threadblocks=256),
        RewriteParallelVectorizeUnroll(),
        RewriteReductionBlock(),
        VerifyGPUCode(),
    ]


@Postproc.kinds.register("cuda-tensorcore")
def tensor_core_postprocs() -> list[Postproc]:
    """Return the postprocessors for GPUs with tensor cores."""
    return [*gpu_postprocs(), RewriteTensorize()]
