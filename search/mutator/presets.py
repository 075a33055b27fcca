"""The mutators that suit a kind of target, with their probabilities."""

from __future__ import annotations

from search.mutator.mutator import (
    MutateComputeLocation,
    MutateParallel,
    MutateRegisterTile,
    MutateTileSize,
    MutateUnroll,
    Mutator,
)


@Mutator.kinds.register("llvm", "amx", "vnni", "avx512", "avx2", "asimd", "dotprod")
def cpu_mutators() -> dict[Mutator, float]:
    """Return the mutators for CPUs."""
    return {
        MutateTileSize(): 0.88,
        MutateComputeLocation(): 0.05,
        MutateUnroll(): 0.03,
        MutateRegisterTile(): 0.02,
        MutateParallel(max_jobs_per_core=16): 0.02,
    }
