"""Operators to schedule, search and measure, in sizes from known networks.

`create("C2D")` returns the function of a workload in its first configuration, `create("C2D", 1)` in
another configuration, and `create("C2D", h=8, w=8)` with changed parameters.

| name | operator | configurations from |
| --- | --- | --- |
| C1D, C2D, C3D | convolution over 1, 2, 3 dimensions | ResNet-18 (2D); the others are derived |
| GRP, DIL | grouped, dilated 2D convolution | ResNet-18 |
| DEP | depthwise 2D convolution | MobileNet |
| T2D | transposed 2D convolution | DCGAN |
| CAP | 2D convolution of capsules (small matrices) | matrix capsules with EM routing |
| CBR | 2D convolution, bias, batch norm, ReLU | ResNet-18 |
| GMM | batched matrix product | |
| TBG | product of transposed heads | BERT |
| NRM, SFM | Frobenius norm; softmax of rows | |
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.function import PrimFunc
from tensorir.te import Tensor
from tensorir.workloads import convolution, matmul


@dataclass(frozen=True)
class Workload:
    """An operator with several configurations (sizes)."""

    name: str
    tensors: Callable[..., tuple[Tensor, ...]]
    """Returns the tensors of inputs and output, in the order of the function's parameters."""
    configurations: tuple[tuple[int, ...], ...]
    """Arguments of `tensors`, by position."""

    def parameters(self, idx: int = 0, **changes: int) -> dict[str, int]:
        """Return the parameters of configuration `idx` by name, with `changes` applied.

        Raises IRValueError for an unknown index or name.
        """
        if not 0 <= idx < len(self.configurations):
            raise IRValueError(
                f"workload {self.name} has configurations 0 to {len(self.configurations) - 1}, "
                f"got {idx}"
            )
        signature = inspect.signature(self.tensors)
        unknown = sorted(set(changes) - set(signature.parameters))
        if unknown:
            raise IRValueError(
                f"workload {self.name} has no parameter {', '.join(unknown)}; "
                f"it has {', '.join(signature.parameters)}"
            )
        bound = signature.bind(*self.configurations[idx])
        bound.apply_defaults()
        return {**bound.arguments, **changes}

    def create(self, idx: int = 0, **changes: int) -> PrimFunc:
        """Return the function of configuration `idx`, with some parameters changed."""
        return te.create_prim_func(self.tensors(**self.parameters(idx, **changes)))


_ALL = (
    Workload("C1D", convolution.conv1d_nlc, (
        (1, 256, 64, 128, 3, 2, 1),
        (1, 128, 128, 256, 1, 2, 0),
        (1, 64, 256, 256, 5, 1, 2),
        (1, 32, 512, 512, 3, 1, 1),
    )),
    Workload("C2D", convolution.conv2d_nhwc, (
        (1, 224, 224, 3, 64, 7, 2, 3),
        (1, 56, 56, 64, 64, 1, 1, 0),
        (1, 28, 28, 128, 256, 3, 2, 1),
        (1, 14, 14, 256, 256, 3, 1, 1),
        (1, 7, 7, 512, 512, 3, 1, 1),
    )),
    Workload("C3D", convolution.conv3d_ndhwc, (
        (1, 16, 224, 224, 3, 64, 7, 2, 3),
        (1, 16, 56, 56, 64, 64, 1, 1, 0),
        (1, 16, 28, 28, 128, 256, 3, 2, 1),
        (1, 16, 14, 14, 256, 256, 3, 1, 1),
        (1, 16, 7, 7, 512, 512, 3, 1, 1),
    )),
    Workload("GMM", matmul.batch_matmul, (
        (1, 128, 128, 128),
        (1, 512, 32, 512),
        (1, 512, 512, 512),
        (1, 1024, 1024, 1024),
    )),
    Workload("GRP", convolution.conv2d_nhwc, (
        (1, 56, 56, 64, 128, 3, 2, 1, 1, 4),
        (1, 28, 28, 128, 256, 1, 2, 0, 1, 4),
        (1, 14, 14, 256, 256, 3, 1, 1, 1, 4),
        (1, 7, 7, 512, 512, 3, 1, 1, 1, 4),
    )),
    Workload("DIL", convolution.conv2d_nhwc, (
        (1, 224, 224, 3, 64, 7, 2, 3, 2),
        (1, 56, 56, 64, 64, 1, 1, 0, 2),
        (1, 28, 28, 128, 256, 3, 2, 1, 2),
        (1, 14, 14, 256, 256, 3, 1, 1, 2),
        (1, 7, 7, 512, 512, 3, 1, 1, 2),
    )),
    Workload("DEP", convolution.depthwise_conv2d_nhwc, (
        (1, 112, 112, 32, 3, 1, 1),
        (1, 112, 112, 64, 3, 2, 1),
        (1, 14, 14, 512, 3, 2, 1),
        (1, 7, 7, 1024, 3, 1, 1),
    )),
    Workload("T2D", convolution.conv2d_transpose_nhwc, (
        (1, 4, 4, 512, 256, 4, 2, 1),
        (1, 8, 8, 256, 128, 4, 2, 1),
        (1, 16, 16, 128, 64, 4, 2, 1),
        (1, 32, 32, 64, 3, 4, 2, 1),
    )),
    Workload("CAP", convolution.conv2d_capsule_nhwijc, (
        (1, 16, 16, 32, 32, 3, 2, 1),
        (1, 8, 8, 32, 32, 3, 1, 1),
        (1, 16, 16, 8, 16, 3, 2, 1),
        (1, 8, 8, 16, 16, 3, 1, 1),
    )),
    Workload("NRM", matmul.norm_bmn, (
        (1, 256, 256),
        (1, 512, 512),
        (1, 1024, 1024),
        (1, 4096, 1024),
    )),
    Workload("SFM", matmul.softmax_mn, (
        (256, 256),
        (512, 512),
        (1024, 1024),
        (2048, 2048),
    )),
    Workload("CBR", convolution.conv2d_nhwc_bn_relu, (
        (1, 224, 224, 3, 64, 7, 2, 3),
        (1, 56, 56, 64, 128, 3, 2, 1),
        (1, 28, 28, 128, 256, 1, 2, 0),
        (1, 7, 7, 512, 512, 3, 1, 1),
    )),
    Workload("TBG", matmul.transpose_batch_matmul, (
        (1, 128, 12, 64),
        (1, 128, 16, 64),
        (1, 64, 12, 128),
        (1, 128, 12, 128),
    )),
)  # fmt: skip
WORKLOADS = {workload.name: workload for workload in _ALL}
"""The workloads by name."""


def get(name: str) -> Workload:
    """Return the workload `name`.

    Raises IRValueError, which lists the names, for an unknown name.
    """
    if name not in WORKLOADS:
        raise IRValueError(f"unknown workload {name!r}; the workloads are {', '.join(WORKLOADS)}")
    return WORKLOADS[name]


def create(name: str, idx: int = 0, **changes: int) -> PrimFunc:
    """Return the function of configuration `idx` of a workload, with some parameters changed."""
    return get(name).create(idx, **changes)


__all__ = ["WORKLOADS", "Workload", "create", "get"]
