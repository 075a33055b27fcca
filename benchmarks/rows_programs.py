"""Reductions of the rows of a matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tensorir import te, workloads
from tensorir.function import PrimFunc
from tensorir.te import Tensor

EPSILON: Final = 1e-5
"""What layer norm adds to the variance."""

SHAPES: Final = ((64, 1000), (256, 256), (1, 65536), (1000, 7), (4096, 64))


def program(name: str, m: int, n: int) -> PrimFunc:
    """Return a reduction of the rows of `A[m, n]`, float32; KeyError for a name that is none."""
    if name == "softmax":
        func = workloads.create("SFM", m=m, n=n)
    else:
        func = te.create_prim_func(_TENSORS[name](m, n))
    return func.with_attr("global_symbol", "main").with_attr("tir.noalias", True)


def _norm(m: int, n: int) -> list[Tensor]:
    a, k = te.placeholder((m, n), name="A"), te.reduce_axis((0, n), "k")
    squares = te.compute((m,), lambda i: te.sum(a[i, k] * a[i, k], axis=k), name="squares")
    return [a, te.compute((m,), lambda i: te.sqrt(squares[i]), name="norm")]


def _sum(m: int, n: int) -> list[Tensor]:
    a, k = te.placeholder((m, n), name="A"), te.reduce_axis((0, n), "k")
    return [a, te.compute((m,), lambda i: te.sum(a[i, k], axis=k), name="sum")]


def _max(m: int, n: int) -> list[Tensor]:
    a, k = te.placeholder((m, n), name="A"), te.reduce_axis((0, n), "k")
    return [a, te.compute((m,), lambda i: te.max(a[i, k], axis=k), name="max")]


def _argmax(m: int, n: int) -> list[Tensor]:
    largest = te.comm_reducer(
        lambda x, y: (te.Select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda index, value: (te.const(-1, index), te.min_value(value)),
    )
    a, k = te.placeholder((m, n), name="A"), te.reduce_axis((0, n), "k")
    index, value = te.compute((m,), lambda i: largest((k.var, a[i, k]), axis=k), name="argmax")
    return [a, value, index]


def _layer_norm(m: int, n: int) -> list[Tensor]:
    a = te.placeholder((m, n), name="A")
    gamma, beta = te.placeholder((n,), name="gamma"), te.placeholder((n,), name="beta")
    add = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] + y[1]),
        lambda first, second: (te.const(0, first), te.const(0, second)),
    )
    k = te.reduce_axis((0, n), "k")
    total, squares = te.compute(
        (m,), lambda i: add((a[i, k], a[i, k] * a[i, k]), axis=k), name="sums"
    )
    mean = te.compute((m,), lambda i: total[i] / n, name="mean")
    scale = te.compute(
        (m,), lambda i: te.rsqrt(squares[i] / n - mean[i] * mean[i] + EPSILON), name="scale"
    )
    out = te.compute(
        (m, n), lambda i, j: (a[i, j] - mean[i]) * scale[i] * gamma[j] + beta[j], name="out"
    )
    return [a, gamma, beta, out]


_TENSORS: Final[dict[str, Callable[[int, int], list[Tensor]]]] = {
    "layer_norm": _layer_norm,
    "norm": _norm,
    "sum": _sum,
    "max": _max,
    "argmax": _argmax,
}

NAMES: Final = ("softmax", *_TENSORS)
