"""Products of matrices, norms and softmax, as tensor expressions."""

from __future__ import annotations

from tensorir import te
from tensorir.te import Tensor


def batch_matmul(b: int, n: int, m: int, k: int) -> tuple[Tensor, ...]:
    """Multiply `X[b, n, k]` with `Y[b, k, m]`."""
    x = te.placeholder((b, n, k), name="X")
    y = te.placeholder((b, k, m), name="Y")
    r = te.reduce_axis((0, k), "k")
    z = te.compute(
        (b, n, m), lambda b, i, j: te.sum(x[b, i, r] * y[b, r, j], axis=r), name="Z"
    )  # fmt: skip
    return x, y, z


def transpose_batch_matmul(batch: int, length: int, heads: int, dim: int) -> tuple[Tensor, ...]:
    """Multiply the heads of `query[b, l, h, d]` with those of `value[b, l, h, d]`, transposed."""
    query = te.placeholder((batch, length, heads, dim), name="query")
    value = te.placeholder((batch, length, heads, dim), name="value")
    rows = te.compute(
        (batch, heads, length, dim),
        lambda b, h, l, d: query[b, l, h, d],  # noqa: E741
        name="query_T",
    )
    columns = te.compute(
        (batch, heads, dim, length),
        lambda b, h, d, l: value[b, l, h, d],  # noqa: E741
        name="value_T",
    )
    k = te.reduce_axis((0, dim), "k")
    c = te.compute(
        (batch, heads, length, length),
        lambda b, h, i, j: te.sum(rows[b, h, i, k] * columns[b, h, k, j], axis=k),
        name="C",
    )
    return query, value, c


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
