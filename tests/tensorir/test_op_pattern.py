"""The kinds of tensor functions, found by what they read and write."""

from __future__ import annotations

import pytest

from tensorir import parse, te, topi
from tensorir.memory.op_pattern import OpPattern, op_pattern
from tensorir.memory.reshaping import is_reshape, permutation

X = te.placeholder((4, 8), name="X")
ROW = te.placeholder((8,), name="R")
PLACES = te.placeholder((5,), "int64", name="I")
IMAGE = te.placeholder((1, 3, 8, 8), name="D")
FILTER = te.placeholder((6, 3, 3, 3), name="W")
N = te.var("n", "int64")


def kernel(*tensors):
    return te.create_prim_func(list(tensors), "int64")


def reduced(combine, of=X):
    k = te.reduce_axis((0, of.shape[1]), "k")
    return te.compute(of.shape[:1], lambda i: combine(of[i, k], axis=k))


def product(a, b, dtype="float32"):
    k = te.reduce_axis((0, a.shape[1]), "k")
    return te.compute(
        (a.shape[0], b.shape[1]),
        lambda i, j: te.sum(a[i, k].astype(dtype) * b[k, j].astype(dtype), axis=k),
    )


WEIGHT = te.placeholder((8, 16), name="W")
SUM = reduced(te.sum)
SYMBOLIC = te.placeholder((N, 8), name="S")
SCALAR = te.placeholder((), name="Z")
BYTES = te.placeholder((4, 8), "int8", name="B"), te.placeholder((8, 2), "int8", name="C")


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (kernel(X, topi.exp(X)), OpPattern.ELEMENTWISE),
        (kernel(X, ROW, topi.add(X, ROW)), OpPattern.ELEMENTWISE),
        (kernel(SYMBOLIC, topi.exp(SYMBOLIC)), OpPattern.ELEMENTWISE),
        (kernel(SCALAR, topi.exp(SCALAR)), OpPattern.ELEMENTWISE),
        (kernel(te.compute((4,), lambda i: te.const(1.0))), OpPattern.ELEMENTWISE),
        (kernel(ROW, te.compute((4, 8), lambda i, j: ROW[j])), OpPattern.BROADCAST),
        (kernel(X, te.compute((8, 4), lambda i, j: X[j, i])), OpPattern.INJECTIVE),
        (kernel(X, te.compute((4, 3), lambda i, j: X[i, j * 2 + 1])), OpPattern.INJECTIVE),
        (kernel(X, PLACES, te.compute((5, 8), lambda i, j: X[PLACES[i], j])), OpPattern.INJECTIVE),
        (kernel(X, SUM), OpPattern.REDUCTION),
        (kernel(X, te.compute((4,), lambda i: SUM[i] / 8.0)), OpPattern.OUT_ELEMENTWISE_FUSABLE),
        (kernel(X, WEIGHT, product(X, WEIGHT)), OpPattern.OUT_ELEMENTWISE_FUSABLE),
        (kernel(*BYTES, product(*BYTES, "int32")), OpPattern.OUT_ELEMENTWISE_FUSABLE),
        (kernel(X, topi.nn.softmax(X)), OpPattern.OUT_ELEMENTWISE_FUSABLE),
        (kernel(IMAGE, topi.nn.max_pool2d(IMAGE, (2, 2))), OpPattern.OUT_ELEMENTWISE_FUSABLE),
        (
            kernel(IMAGE, FILTER, topi.nn.conv2d(IMAGE, FILTER, padding=1)),
            OpPattern.OUT_ELEMENTWISE_FUSABLE,
        ),
    ],
    ids=lambda value: value.name if isinstance(value, OpPattern) else "",
)
def test_kinds(function, kind):
    assert op_pattern(function) is kind


def function(body):
    buffers = 'A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")'
    return parse(f"@T.prim_func\ndef f({buffers}):\n{body}")


COPY = """
    for i in {loop}:
        with T.block("b"):
            v = T.axis.spatial(8, i)
            C[v] = A[v]
"""


@pytest.mark.parametrize(
    "func",
    [
        function(COPY.format(loop="T.vectorized(8)")),
        function(COPY.format(loop="T.parallel(8)")),
        function('    T.func_attr({"tir.is_scheduled": True})' + COPY.format(loop="range(8)")),
        function("    for i in range(8):\n        C[i] = A[i]"),
        function('    T.evaluate(T.call_packed("copy", A, C))'),
    ],
    ids=["vectorized", "parallel", "scheduled", "no block", "library"],
)
def test_what_somebody_scheduled_or_nobody_knows_is_opaque(func):
    assert op_pattern(func) is OpPattern.OPAQUE


def moved(shape, target, place):
    source = te.placeholder(shape, name="A")
    return kernel(source, te.compute(target, lambda *i: source[place(*i)]))


def test_reshapes_are_proved_by_their_indices():
    assert is_reshape(moved((2, 3, 4), (6, 4), lambda i, j: (i // 3, i % 3, j)))
    assert is_reshape(moved((6, 4), (2, 3, 4), lambda i, j, k: (i * 3 + j, k)))
    assert is_reshape(moved((2, 1, 4), (1, 2, 4), lambda i, j, k: (j, i, k)))
    assert is_reshape(moved((N, 12, 64), (N, 768), lambda i, j: (i, j // 64, j % 64)))
    assert is_reshape(moved((1,), (), lambda: (0,)))
    assert not is_reshape(moved((2, 3), (3, 2), lambda i, j: (j, i)))
    assert not is_reshape(moved((4, 4), (2, 4), lambda i, j: (i, j)))
    assert not is_reshape(moved((8,), (8,), lambda i: (7 - i,)))
    assert not is_reshape(kernel(X, topi.exp(X)))


def test_transposes_are_known_by_the_order_of_their_dimensions():
    cube = te.placeholder((2, 3, N), name="A")
    made = kernel(cube, te.compute((N, 2, 3), lambda i, j, k: cube[j, k, i]))
    assert permutation(made) == (2, 0, 1)
    assert permutation(moved((4, 4), (4, 4), lambda i, j: (i, j))) == (0, 1)
    assert permutation(moved((4, 4), (4, 4), lambda i, j: (i, i))) is None
    assert permutation(moved((4, 4), (2, 4), lambda i, j: (i, j))) is None
    assert permutation(moved((6, 4), (2, 3, 4), lambda i, j, k: (i * 3 + j, k))) is None
    assert permutation(kernel(X, topi.exp(X))) is None
