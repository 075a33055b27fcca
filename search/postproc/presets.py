"""The presets of postprocessors, by target kind."""

from __future__ import annotations

from search.postproc.disallow_dynamic_loop import DisallowDynamicLoop
from search.postproc.postproc import Postproc
from search.postproc.rewrite_blocks import RewriteReductionBlock, RewriteTensorize
from search.postproc.rewrite_layout import RewriteLayout
from search.postproc.rewrite_panels import RewritePanels
from search.postproc.rewrite_parallel_vectorize_unroll import RewriteParallelVectorizeUnroll
from search.postproc.rewrite_register_tile import RewriteRegisterTile


@Postproc.kinds.register("llvm")
def cpu_postprocs() -> list[Postproc]:
    """Return the postprocessors for any CPU."""
    return [
        DisallowDynamicLoop(keep_program_loops=True),
        RewriteParallelVectorizeUnroll(),
        RewriteRegisterTile(),
        RewritePanels(),
        RewriteReductionBlock(),
        RewriteLayout(),
    ]


@Postproc.kinds.register("amx", "vnni", "avx512", "avx2", "asimd", "dotprod")
def cpu_postprocs_with_intrinsics() -> list[Postproc]:
    """Return the postprocessors for CPUs whose blocks may be tiled for an intrinsic."""
    *first, layout = cpu_postprocs()
    return [*first, RewriteTensorize(vectorize_init_loop=True), layout]
