"""Pooling over one to three axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorir.errors import IRTypeError
from tensorir.frontend.torch.dtypes import tensor_info
from tensorir.frontend.torch.operators.arithmetic import named
from tensorir.frontend.torch.operators.convolutions import DATA, each_axis
from tensorir.frontend.torch.operators.shapes import listed
from tensorir.frontend.torch.table import aten
from tensorir.relax import op
from tensorir.relax.struct_info import TensorStructInfo


def _batched(self: Any, rank: int, pool: Callable[[Any], Any]) -> Any:
    """Return the pooling of a tensor whose batch may be missing."""
    if tensor_info(self).ndim == rank + 2:
        return pool(self)
    return op.squeeze(pool(op.expand_dims(self, 0)), 0)


def _windows(rank: int, kernel: Any, stride: Any, padding: Any, ceil_mode: bool) -> dict[str, Any]:
    sizes = each_axis(kernel, rank)
    return {
        "pool_size": sizes,
        "strides": each_axis(stride, rank) if listed(stride) else sizes,
        "padding": each_axis(padding, rank) * 2,
        "ceil_mode": ceil_mode,
        "layout": DATA[rank],
    }


def _declare(rank: int) -> None:
    def maximum(
        self: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> Any:
        options = _windows(rank, kernel_size, stride, padding, ceil_mode)
        options["dilation"] = each_axis(dilation, rank)
        return _batched(self, rank, lambda x: named(f"nn.max_pool{rank}d")(x, **options))

    aten(f"max_pool{rank}d.default")(maximum)

    @aten(f"max_pool{rank}d_with_indices.default")
    def with_indices(
        self: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> Any:
        options = _windows(rank, kernel_size, stride, padding, ceil_mode)
        options["dilation"] = each_axis(dilation, rank)
        index = _batched(
            self, rank, lambda x: named(f"nn.max_pool{rank}d_with_argmax")(x, **options)[1]
        )
        return maximum(self, kernel_size, stride, padding, dilation, ceil_mode), index

    @aten(f"avg_pool{rank}d.default")
    def average(
        self: Any,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: Any = None,
    ) -> Any:
        if divisor_override is not None:
            raise IRTypeError("divisor_override is not supported")
        options = _windows(rank, kernel_size, stride, padding, ceil_mode)
        options["count_include_pad"] = count_include_pad
        return _batched(self, rank, lambda x: named(f"nn.avg_pool{rank}d")(x, **options))

    @aten(f"adaptive_avg_pool{rank}d.default", f"_adaptive_avg_pool{rank}d.default")
    def adaptive(self: Any, output_size: Any, result: TensorStructInfo) -> Any:
        sizes = each_axis(output_size, rank)
        if all(size == 1 for size in sizes):
            ndim = tensor_info(self).ndim
            return op.mean(self, list(range(ndim - rank, ndim)), keepdims=True)
        return _batched(
            self,
            rank,
            lambda x: named(f"nn.adaptive_avg_pool{rank}d")(x, sizes, layout=DATA[rank]),
        )

    @aten(f"adaptive_max_pool{rank}d.default")
    def adaptive_maximum(self: Any, output_size: Any) -> Any:
        sizes = each_axis(output_size, rank)
        pooled = _batched(
            self,
            rank,
            lambda x: named(f"nn.adaptive_max_pool{rank}d")(x, sizes, layout=DATA[rank]),
        )
        return pooled, None


for _rank in (1, 2, 3):
    _declare(_rank)
