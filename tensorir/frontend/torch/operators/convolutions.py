"""Convolutions over one to three axes, with the channels before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tensorir.errors import IRTypeError
from tensorir.frontend.torch.dtypes import tensor_info
from tensorir.frontend.torch.operators.arithmetic import named
from tensorir.frontend.torch.operators.shapes import in_shape, listed
from tensorir.frontend.torch.table import aten
from tensorir.nodes.expr import IntImm
from tensorir.relax import op
from tensorir.relax.struct_info import TensorStructInfo

DATA: Final = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
_KERNEL: Final = {1: "OIW", 2: "OIHW", 3: "OIDHW"}
_TRANSPOSED: Final = {1: "IOW", 2: "IOHW", 3: "IODHW"}


def each_axis(values: Any, rank: int) -> list[int]:
    """Return a number for each axis; a single number is repeated."""
    given = listed(values)
    return given * rank if len(given) == 1 else given


def _biased(value: Any, bias: Any, rank: int) -> Any:
    if bias is None:
        return value
    return value + in_shape(bias, [1, tensor_info(bias).shape[0], *[1] * rank])  # type: ignore[index]


@aten("convolution.default")
def convolution(
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    result: TensorStructInfo,
) -> Any:
    """A convolution or a transposed one; the batch may be missing."""
    rank = tensor_info(weight).ndim - 2
    data = input
    if tensor_info(input).ndim == rank + 1:
        data = op.expand_dims(input, 0)
    around = each_axis(padding, rank)
    options: dict[str, Any] = {
        "strides": each_axis(stride, rank),
        "padding": around * 2,
        "dilation": each_axis(dilation, rank),
        "groups": groups,
        "data_layout": DATA[rank],
    }
    if transposed:
        options["output_padding"] = each_axis(output_padding, rank)
        value = named(f"nn.conv{rank}d_transpose")(
            data, weight, kernel_layout=_TRANSPOSED[rank], **options
        )
    else:
        value = named(f"nn.conv{rank}d")(data, weight, kernel_layout=_KERNEL[rank], **options)
    made = _biased(value, bias, rank)
    return made if data is input else op.squeeze(made, 0)


def _declare(rank: int) -> None:
    @aten(f"conv{rank}d.default")
    def conv(
        input: Any,
        weight: Any,
        bias: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        result: TensorStructInfo,
    ) -> Any:
        return convolution(input, weight, bias, stride, padding, dilation, False, 0, groups, result)

    @aten(f"conv{rank}d.padding")
    def conv_padded(
        input: Any,
        weight: Any,
        bias: Any,
        stride: Any,
        padding: str,
        dilation: Any,
        groups: int,
        result: TensorStructInfo,
    ) -> Any:
        if padding == "valid":
            return convolution(input, weight, bias, stride, 0, dilation, False, 0, groups, result)
        begin, end = _same_padding(weight, each_axis(dilation, rank))
        if begin == end:
            return convolution(
                input, weight, bias, stride, begin, dilation, False, 0, groups, result
            )
        ndim = tensor_info(input).ndim
        width = [0, 0] * (ndim - rank)
        for b, e in zip(begin, end, strict=True):
            width += [b, e]
        padded = op.nn.pad(input, width)
        return convolution(padded, weight, bias, stride, 0, dilation, False, 0, groups, result)

    @aten(f"conv_transpose{rank}d.{'default' if rank == 1 else 'input'}")
    def conv_transposed(
        input: Any,
        weight: Any,
        bias: Any,
        stride: Any,
        padding: Any,
        output_padding: Any,
        groups: int,
        dilation: Any,
        result: TensorStructInfo,
    ) -> Any:
        return convolution(
            input, weight, bias, stride, padding, dilation, True, output_padding, groups, result
        )


def _same_padding(weight: Any, dilation: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the padding before and after each axis that keeps the size."""
    kernel = (tensor_info(weight).shape or ())[2:]
    totals = []
    for extent, step in zip(kernel, dilation, strict=True):
        if not isinstance(extent, IntImm):
            raise IRTypeError(f"padding='same' needs a kernel of a known size, got {extent}")
        totals.append(step * (extent.value - 1))
    return [t // 2 for t in totals], [t - t // 2 for t in totals]


for _rank in (1, 2, 3):
    _declare(_rank)
