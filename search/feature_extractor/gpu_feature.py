"""The feature extractor for GPUs: one row of features for a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from codegen.lower.forms import PIPELINE_STAGE
from codegen.target import as_target
from search.errors import TuningError
from search.feature_extractor.feature_extractor import EstimatingExtractor, FeatureExtractor
from search.feature_extractor.gpu_estimate import KernelEstimate, estimate
from search.feature_extractor.gpu_kernels import kernels_of
from search.space_generator.annotations import (
    PRAGMA_AUTO_UNROLL_MAX_STEP,
    UNROLL_EXPLICIT,
)
from tensorir.function import IRModule
from tensorir.nodes.expr import IntImm
from tensorir.nodes.stmt import Block, For
from tensorir.rewriting.visit import statements

if TYPE_CHECKING:
    from search.runner.measure_candidate import MeasureCandidate
    from search.task import Task

_COLUMNS: Final = (
    "arithmetic",
    "shared",
    "global_",
    "dram",
    "occupancy",
    "waves",
    "threads",
    "blocks",
    "shared_bytes",
    "registers",
    "sectors",
    "conflicts",
    "intensity",
    "steps",
)


@FeatureExtractor.kinds.register("gpu-feature")
class GpuFeature(EstimatingExtractor):
    """Features of the speed of the kernels of a program on a GPU.

    A candidate has one row. It consists of the base-2 logarithms of the quantities of
    `KernelEstimate` for the kernel with the longest estimated time, of the estimated cycles of all
    kernels, the number of kernels, and the limits of unrolling and pipelining.
    """

    names: ClassVar = (*_COLUMNS, "longest", "kernels", "unroll", "stages", "time")
    """The columns; `time` is that of all kernels."""

    def extract_from(
        self, context: Task, candidates: Sequence[MeasureCandidate]
    ) -> list[NDArray[np.float64]]:
        """Return an array [1, columns] for each candidate, without a row if nothing is stored.

        TuningError for a target that is not a GPU.
        """
        gpu = as_target(context.target).gpu
        if gpu is None:
            raise TuningError(f"{self} needs a GPU as the target, got {context.target}")
        found = []
        for candidate in candidates:
            mod = candidate.sch.mod
            kernels = [k for func in mod.prim_funcs().values() for k in kernels_of(func)]
            found.append(_row([estimate(kernel, gpu) for kernel in kernels], mod))
        return found


def _row(kernels: Sequence[KernelEstimate], mod: IRModule) -> NDArray[np.float64]:
    if not kernels:
        return np.zeros((0, len(GpuFeature.names)))
    longest = max(kernels, key=lambda kernel: kernel.cycles)
    values = [getattr(longest, name) for name in _COLUMNS]
    unroll, stages = _limits(mod)
    total = sum(kernel.cycles for kernel in kernels)
    values += [longest.cycles, len(kernels), unroll + 1, stages + 1, total]
    return np.asarray(np.log2(np.maximum(np.array([values], np.float64), 2.0**-20)))


def _limits(mod: IRModule) -> tuple[int, int]:
    """Return the limit of unrolling and the number of pipelined steps of a program."""
    unroll = stages = 0
    for func in mod.prim_funcs().values():
        for node in statements(func.body):
            if isinstance(node, (Block, For)):
                marks = node.annotations
                for key in (UNROLL_EXPLICIT, PRAGMA_AUTO_UNROLL_MAX_STEP):
                    unroll = max(unroll, _number(marks.get(key, 0)))
                stages = max(stages, *map(_number, marks.get(PIPELINE_STAGE, (0,))))
    return unroll, stages


def _number(value: object) -> int:
    return value.value if isinstance(value, IntImm) else value if isinstance(value, int) else 0
