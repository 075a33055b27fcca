"""The postprocessors that suit a kind of target."""

from __future__ import annotations

from search.postproc.disallow_dynamic_loop import DisallowDynamicLoop
from search.postproc.postproc import Postproc
from search.postproc.rewrite_layout import RewriteLayout
from search.postproc.rewrite_parallel_vectorize_unroll import RewriteParallelVectorizeUnroll
from search.postproc.rewrite_reduction_block import RewriteReductionBlock


@Postproc.kinds.register("llvm", "vnni", "avx512", "asimd", "dotprod")
def cpu_postprocs() -> list[Postproc]:
    """Return the postprocessors for CPUs.

    No preset tiles for an intrinsic, so none has a postprocessor that puts intrinsics in.
    """
    return [
        DisallowDynamicLoop(),
        RewriteParallelVectorizeUnroll(),
        RewriteReductionBlock(),
        RewriteLayout(),
    ]
