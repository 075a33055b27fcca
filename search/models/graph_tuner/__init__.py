"""Layouts of the tensors between the kernels of a graph.

    tuning = search.graph_tuner.tune_layouts(mod, database, "llvm -num-cores=1")
    print(tuning)
    codegen.vm_build(tuning.mod, "llvm -num-cores=1")

The individually fastest kernels may not make the fastest graph: a kernel that reads its input in
blocks needs a producer that writes blocks, or a transform between the two.
"""

from search.models.graph_tuner.candidates import blocked_kernels
from search.models.graph_tuner.kernel_times import KernelTimes, Measure
from search.models.graph_tuner.layout_choice import Assignment, least_cost
from search.models.graph_tuner.tune_layouts import (
    KernelRow,
    LayoutTuning,
    TransformRow,
    tune_layouts,
)

__all__ = [
    "Assignment",
    "KernelRow",
    "KernelTimes",
    "LayoutTuning",
    "Measure",
    "TransformRow",
    "blocked_kernels",
    "least_cost",
    "tune_layouts",
]
