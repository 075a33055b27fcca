"""Graphs of tensor operations for tests of steps, and what checks a schedule of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import codegen
from schedule import Schedule, Trace
from search.compat.auto_scheduler import ComputeDAG
from tensorir import assert_structural_equal, te

Arrays = Sequence[NDArray[Any]]


@dataclass(frozen=True)
class Program:
    """A graph and what it computes, with numpy, from the arrays of all its arguments."""

    dag: ComputeDAG
    expected: Callable[..., list[NDArray[Any]]]

    def stage(self, name: str) -> int:
        """Return the stage of an operation before all steps."""
        return [op.name for op in self.dag.ops].index(name)

    def check(self, steps: Sequence[list[Any]]) -> Schedule:
        """Assert that the program of steps computes the right thing, and that its trace replays.

        Sums of at most some hundred products of standard normal float32 are off by less than 1e-4.
        """
        sch = self.dag.schedule(steps)
        self.check_results(sch)
        again = Schedule(self.dag.func)
        Trace.from_json(sch.trace.as_json()).apply_to_schedule(again, remove_postproc=False)
        assert_structural_equal(again.mod, sch.mod)
        return sch

    def check_results(self, sch: Schedule) -> None:
        """Assert that a schedule of the program computes the right thing."""
        rng = np.random.default_rng(0)
        arrays = [
            rng.standard_normal([int(n) for n in t.shape]).astype(str(t.dtype))
            for t in self.dag.tensors
        ]
        results = self.expected(*arrays)
        codegen.build(sch.mod, target="llvm -num-cores=2")["main"](*arrays)
        for got, wanted in zip(arrays[-len(results) :], results, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def matmul(n: int = 64, m: int = 64, k: int = 64) -> Program:
    """`C = A @ B`: stages A, B, C."""
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    rk = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, rk] * b[rk, j], axis=rk), name="C")
    return Program(ComputeDAG([a, b, c]), lambda a, b, c: [a @ b])


def matmul_relu(n: int, m: int, k: int) -> Program:
    """`D = max(A @ B, 0)`: stages A, B, C, D."""
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    rk = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, rk] * b[rk, j], axis=rk), name="C")
    d = te.compute((n, m), lambda i, j: te.max(c[i, j], 0.0), name="D")
    return Program(ComputeDAG([a, b, d]), lambda a, b, d: [np.maximum(a @ b, 0)])


def two_matmuls(n: int = 32) -> Program:
    """`E = (A @ B) @ D`: stages A, B, C, D, E."""
    a, b, d = (te.placeholder((n, n), name=name) for name in "ABD")
    k, r = te.reduce_axis((0, n), name="k"), te.reduce_axis((0, n), name="r")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    e = te.compute((n, n), lambda i, j: te.sum(c[i, r] * d[r, j], axis=r), name="E")
    return Program(ComputeDAG([a, b, d, e]), lambda a, b, d, e: [a @ b @ d])


def softmax(n: int = 4, m: int = 64) -> Program:
    """Stages A, M (maxima), X (exponentials), S (sums), N."""
    a = te.placeholder((n, m), name="A")
    k, r = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, m), name="k")
    top = te.compute((n,), lambda i: te.max(a[i, k], axis=k), name="M")
    x = te.compute((n, m), lambda i, j: te.exp(a[i, j] - top[i]), name="X")
    s = te.compute((n,), lambda i: te.sum(x[i, r], axis=r), name="S")
    y = te.compute((n, m), lambda i, j: x[i, j] / s[i], name="N")

    def expected(a: NDArray[Any], _: NDArray[Any]) -> list[NDArray[Any]]:
        e = np.exp(a - a.max(axis=1, keepdims=True))
        return [e / e.sum(axis=1, keepdims=True)]

    return Program(ComputeDAG([a, y]), expected)


def conv2d_bias_relu(c: int = 4, h: int = 14, o: int = 8) -> Program:
    """A 3 x 3 convolution with padding: stages X, pad, W, conv, bias, add, relu."""
    x, w = te.placeholder((1, c, h, h), name="X"), te.placeholder((o, c, 3, 3), name="W")
    bias = te.placeholder((o,), name="bias")
    padded = te.compute(
        (1, c, h + 2, h + 2),
        lambda b, c, y, z: te.if_then_else(
            te.all(y >= 1, y <= h, z >= 1, z <= h), x[b, c, y - 1, z - 1], 0.0
        ),
        name="pad",
    )
    rc = te.reduce_axis((0, c), name="rc")
    ry, rx = te.reduce_axis((0, 3), name="ry"), te.reduce_axis((0, 3), name="rx")
    shape = (1, o, h, h)
    conv = te.compute(
        shape,
        lambda b, f, y, z: te.sum(
            padded[b, rc, y + ry, z + rx] * w[f, rc, ry, rx], axis=[rc, ry, rx]
        ),
        name="conv",
    )
    add = te.compute(shape, lambda b, f, y, z: conv[b, f, y, z] + bias[f], name="add")
    relu = te.compute(shape, lambda b, f, y, z: te.max(add[b, f, y, z], 0.0), name="relu")

    def expected(x: NDArray[Any], w: NDArray[Any], bias: NDArray[Any], _: Any) -> list[Any]:
        p = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(p, (3, 3), axis=(2, 3))
        conv = np.einsum("bcyzij,fcij->bfyz", windows, w)
        return [np.maximum(conv + bias[None, :, None, None], 0)]

    return Program(ComputeDAG([x, w, bias, relu]), expected)


def tiled(stage: int, *tiles: tuple[int, list[int]]) -> list[list[Any]]:
    """Return the steps that tile a stage with two spatial loops and one of a reduction: SSRSRS.

    `tiles` has the extent of each loop and the lengths of its inner parts.
    """
    (n, i), (m, j), (r, k) = tiles
    return [
        ["SP", stage, 0, n, i, 1],
        ["SP", stage, 4, m, j, 1],
        ["SP", stage, 8, r, k, 1],
        ["RE", stage, [0, 4, 1, 5, 8, 2, 6, 9, 3, 7]],
    ]
