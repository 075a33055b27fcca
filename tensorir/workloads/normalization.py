"""Norms and softmax, as tensor expressions."""

from __future__ import annotations

from tensorir import te
from tensorir.te import Tensor


def norm_bmn(b: int, m: int, n: int) -> tuple[Tensor, ...]:
    """Return the Frobenius norm of each matrix of `A[b, m, n]`."""
    a = te.placeholder((b, m, n), name="A")
    i, j = te.reduce_axis((0, m), "i"), te.reduce_axis((0, n), "j")
    c = te.compute((b,), lambda b: te.sum(a[b, i, j] * a[b, i, j], axis=[i, j]), name="C")
    d = te.compute((b,), lambda b: te.sqrt(c[b]), name="D")
    return a, d


def softmax_mn(m: int, n: int) -> tuple[Tensor, ...]:
    """Return the softmax of each row of `A[m, n]`."""
    a = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), "k")
    largest = te.compute((m,), lambda *i: te.max(a(*i, k), axis=k), name="T_softmax_maxelem")
    exp = te.compute(
        (m, n), lambda *i: te.exp(a(*i) - largest(*i[:-1])), name="T_softmax_exp"
    )  # fmt: skip
    k = te.reduce_axis((0, n), "k")
    total = te.compute((m,), lambda *i: te.sum(exp(*i, k), axis=k), name="T_softmax_expsum")
    norm = te.compute(
        (m, n),
        lambda *i: exp(*i) / total(*i[:-1]),
        name="T_softmax_norm",
        attrs={"axis": 1},
    )
    return a, norm
