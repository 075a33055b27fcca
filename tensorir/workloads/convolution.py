"""Convolutions with the channels last, as tensor expressions."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir import te
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.te import Tensor


def conv1d_nlc(
    n: int, l: int, ci: int, co: int, kernel: int,  # noqa: E741
    stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Convolve `inputs[n, l, ci]` with `weight[k, ci // groups, co]`."""
    return _convolution("l", n, [l], ci, co, kernel, stride, padding, dilation, groups)


def conv2d_nhwc(
    n: int, h: int, w: int, ci: int, co: int, kernel: int,
    stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Convolve `inputs[n, h, w, ci]` with `weight[k, k, ci // groups, co]`."""
    return _convolution("hw", n, [h, w], ci, co, kernel, stride, padding, dilation, groups)


def conv3d_ndhwc(
    n: int, d: int, h: int, w: int, ci: int, co: int, kernel: int,
    stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Convolve `inputs[n, d, h, w, ci]` with `weight[k, k, k, ci // groups, co]`."""
    return _convolution("dhw", n, [d, h, w], ci, co, kernel, stride, padding, dilation, groups)


def _convolution(
    letters: str,
    n: int,
    sizes: Sequence[int],
    ci: int,
    co: int,
    kernel: int,
    stride: int,
    padding: int,
    dilation: int,
    groups: int,
) -> tuple[Tensor, ...]:
    rank = len(letters)
    inputs = te.placeholder((n, *sizes, ci), name="inputs")
    weight = te.placeholder((*[kernel] * rank, ci // groups, co), name="weight")
    padded = _pad(inputs, [0, *[padding] * rank, 0], "PadInput")
    taps = [te.reduce_axis((0, kernel), f"r{letter}") for letter in letters]
    rc = te.reduce_axis((0, ci // groups), "rc")

    def element(*indices: Var) -> PrimExpr:
        batch, *places, channel = indices
        steps = [p * stride + tap * dilation for p, tap in zip(places, taps, strict=True)]
        group = channel // (co // groups)
        value = padded(batch, *steps, group * (ci // groups) + rc)
        return te.sum(value * weight(*taps, rc, channel), axis=[*taps, rc])

    output = te.compute(
        (n, *(convolved(size, kernel, stride, padding, dilation) for size in sizes), co),
        element,
        name=f"conv{rank}d_n{letters}c",
        varargs_names=["n", *letters, "co"],
    )
    return inputs, weight, output


def convolved(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Return the size of a convolution's output along a dimension of `size`."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _pad(tensor: Tensor, margins: Sequence[int], name: str) -> Tensor:
    """Return a tensor with zeros around it, `margins` on both sides of each dimension."""

    def element(*indices: Var) -> PrimExpr:
        places = list(zip(indices, margins, tensor.shape, strict=True))
        value = tensor(*(i - margin for i, margin, _ in places))
        inside = [
            bound
            for i, margin, size in places
            if margin
            for bound in (i >= margin, i < size + margin)
        ]
        return te.if_then_else(te.all(*inside), value, 0.0) if inside else value

    sizes = [n + 2 * margin for n, margin in zip(tensor.shape, margins, strict=True)]
    return te.compute(sizes, element, name=name)


def depthwise_conv2d_nhwc(
    n: int, h: int, w: int, c: int, kernel: int,
    stride: int = 1, padding: int = 0, dilation: int = 1, factor: int = 1,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Convolve each channel separately: `[n, h, w, c]` with a filter `[factor, k, k, c]`.

    Channel `x` of the output is computed from channel `x // factor` of the input.
    """
    inputs = te.placeholder((n, h, w, c))
    weight = te.placeholder((factor, kernel, kernel, c))
    padded = _pad(inputs, [0, padding, padding, 0], "PadInput")
    rh, rw = te.reduce_axis((0, kernel), "rh"), te.reduce_axis((0, kernel), "rw")
    shape = [convolved(size, kernel, stride, padding, dilation) for size in (h, w)]
    output = te.compute(
        (n, *shape, c * factor),
        lambda n, h, w, c: te.sum(
            padded[n, h * stride + rh * dilation, w * stride + rw * dilation, c // factor]
            * weight[c % factor, rh, rw, c // factor],
            axis=[rh, rw],
        ),
        name="depth_conv2d_nhwc",
    )
    return inputs, weight, output


def conv2d_transpose_nhwc(
    n: int, h: int, w: int, ci: int, co: int, kernel: int, stride: int = 1, padding: int = 0
) -> tuple[Tensor, ...]:
    """Compute the transposed convolution of `inputs[n, h, w, ci]` with `weight[k, k, ci, co]`.

    It is a convolution with the mirrored kernel; its input has `stride - 1` zeros between elements.
    The zeros are a condition inside the sum, so that unrolling can remove them.
    """
    inputs = te.placeholder((n, h, w, ci), name="inputs")
    weight = te.placeholder((kernel, kernel, ci, co), name="weight")
    border = kernel - 1 - padding
    margin = -(-border // stride)
    surplus = margin * stride - border
    padded = _pad(inputs, [0, margin, margin, 0], "PadInput")
    rh, rw = te.reduce_axis((0, kernel), "rh"), te.reduce_axis((0, kernel), "rw")
    rc = te.reduce_axis((0, ci), "rc")

    def spread(batch: Var, y: PrimExpr, x: PrimExpr) -> PrimExpr:
        value = padded[batch, y // stride, x // stride, rc]
        if stride == 1:
            return value
        on_element = te.all((y % stride) == 0, (x % stride) == 0)
        return te.if_then_else(on_element, value, 0.0)

    output = te.compute(
        (n, *((size - 1) * stride - 2 * padding + kernel for size in (h, w)), co),
        lambda n, h, w, co: te.sum(
            spread(n, h + rh + surplus, w + rw + surplus)
            * weight[kernel - 1 - rh, kernel - 1 - rw, rc, co],
            axis=[rh, rw, rc],
        ),
        name="conv2d_transpose_nhwc",
    )
    return inputs, weight, output


def conv2d_capsule_nhwijc(
    n: int, h: int, w: int, ci: int, co: int, kernel: int,
    stride: int = 1, padding: int = 0, capsule: int = 4,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Convolve an image whose elements are square matrices with `capsule` rows.

    `inputs[n, h, w, i, k, ci]` and `weight[y, x, k, j, ci, co]` give `[n, h, w, i, j, co]`.
    """
    inputs = te.placeholder((n, h, w, capsule, capsule, ci), name="inputs")
    weight = te.placeholder((kernel, kernel, capsule, capsule, ci, co), name="weight")
    padded = _pad(inputs, [0, padding, padding, 0, 0, 0], "PadInput")
    rh, rw = te.reduce_axis((0, kernel), "rh"), te.reduce_axis((0, kernel), "rw")
    cap_k = te.reduce_axis((0, capsule), "cap_k")
    rc = te.reduce_axis((0, ci), "rc")
    shape = [convolved(size, kernel, stride, padding, 1) for size in (h, w)]
    output = te.compute(
        (n, *shape, capsule, capsule, co),
        lambda n, h, w, cap_i, cap_j, co: te.sum(
            padded[n, h * stride + rh, w * stride + rw, cap_i, cap_k, rc]
            * weight[rh, rw, cap_k, cap_j, rc, co],
            axis=[rh, rw, cap_k, rc],
        ),
        name="conv2d_capsule_nhwijc",
    )
    return inputs, weight, output


def conv2d_nhwc_bn_relu(
    n: int, h: int, w: int, ci: int, co: int, kernel: int,
    stride: int = 1, padding: int = 0, dilation: int = 1,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Convolve, add `bias`, multiply by `bn_scale`, add `bn_offset`, and apply ReLU."""
    data = te.placeholder((n, h, w, ci), name="data")
    weight = te.placeholder((kernel, kernel, ci, co), name="kernel")
    bias = te.placeholder((co,), name="bias")
    bn_scale = te.placeholder((co,), name="bn_scale")
    bn_offset = te.placeholder((co,), name="bn_offset")
    padded = _pad(data, [0, padding, padding, 0], "PaddedInput")
    ry, rx = te.reduce_axis((0, kernel), "ry"), te.reduce_axis((0, kernel), "rx")
    rc = te.reduce_axis((0, ci), "rc")
    shape = (n, *(convolved(size, kernel, stride, padding, dilation) for size in (h, w)), co)
    product = te.compute(
        shape,
        lambda nn, yy, xx, ff: te.sum(
            padded[nn, yy * stride + ry * dilation, xx * stride + rx * dilation, rc]
            * weight[ry, rx, rc, ff],
            axis=[ry, rx, rc],
        ),
        name="Conv2dOutput",
    )
    biased = te.compute(
        shape, lambda i, j, k, l: product[i, j, k, l] + bias[l], name="bias_add"  # noqa: E741
    )  # fmt: skip
    scaled = te.compute(
        shape, lambda i, j, k, l: biased[i, j, k, l] * bn_scale[l], name="bn_mul"  # noqa: E741
    )  # fmt: skip
    shifted = te.compute(
        shape, lambda i, j, k, l: scaled[i, j, k, l] + bn_offset[l], name="bn_add"  # noqa: E741
    )  # fmt: skip
    output = te.compute(shape, lambda *i: te.max(shifted(*i), 0.0), name="compute")
    return data, weight, bias, bn_offset, bn_scale, output
