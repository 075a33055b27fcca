"""Tensor expressions: tensors, axes, reductions, and what is refused."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys

import numpy as np
import pytest

from tensorir import IRTypeError, IRValueError, TensorIRError, te
from tensorir.interp import interpret

A = te.placeholder((4, 8), name="A")


def elements(tensor, *inputs):
    """Return the elements of `tensor`, given arrays for the placeholders it comes from."""
    placeholders, arrays = [p for p, _ in inputs], [a for _, a in inputs]
    shape = [int(n) for n in tensor.shape]
    out = np.zeros(shape, tensor.dtype.to_numpy())
    interpret(te.create_prim_func([*placeholders, tensor]), *arrays, out)
    return out


def ramp(*shape, dtype="float32"):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype) - 5


def test_the_example_of_the_package_runs():
    result = doctest.testmod(te)
    assert result.attempted >= 6
    assert result.failed == 0


def test_the_rest_of_the_package_does_not_need_it():
    """Importing the IR does not load tensor expressions."""
    code = "import sys, tensorir; sys.exit('tensorir.te' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -------------------------------------------------------------------------------------------- axes


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda k: k + 1, "k + 1"),
        (lambda k: 8 // k, "8 // k"),
        (lambda k: -k, "k * -1"),
        (lambda k: k < 3, "k < 3"),
        (lambda k: te.Select(k == 3, k % 2, k & 1), "T.Select(k == 3, k % 2, T.bitwise_and(k, 1))"),
        (lambda k: k.astype("float32") * 0.5, 'T.Cast("float32", k) * T.float32(0.5)'),
    ],
)
def test_axes_are_operands(build, text):
    assert str(build(te.reduce_axis((0, 8), "k"))) == text


def test_axes_are_themselves_only():
    i, j = te.reduce_axis((0, 8), "k"), te.reduce_axis((0, 8), "k")
    assert i == i
    assert i != j
    assert {i: 1, j: 2}[i] == 1
    assert (i, j).index(j) == 1


# ----------------------------------------------------------------------------------------- tensors


def test_tensor():
    assert [int(n) for n in A.shape] == [4, 8]
    assert (A.name, A.dtype, A.ndim, A.value_index) == ("A", "float32", 2, 0)
    assert repr(A) == "Tensor(A, shape=(4, 8), dtype=float32)"
    assert repr(A.op) == "PlaceholderOp(A)"


def test_scalar_shape_is_rank_one():
    assert te.placeholder(3).ndim == 1
    assert te.placeholder(te.var("n")).ndim == 1
    assert te.compute(5, lambda i: i).ndim == 1


def test_elements():
    i, j = te.var("i"), te.var("j")
    assert str(A[i, j + 1]) == str(A(i, j + 1)) == str(A(*[i, j + 1]))
    assert A[i, j].dtype == "float32"
    scalar = te.placeholder((), name="s")
    assert scalar[()].indices == scalar().indices == ()


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: A[1], r"tensor A has 2 dimension\(s\) but is accessed with 1 index"),
        (lambda: A(1, 2, 3), r"tensor A has 2 dimension\(s\) but is accessed with 3 index"),
    ],
)
def test_wrong_number_of_indices(read, message):
    with pytest.raises(IRValueError, match=message):
        read()


def test_indices_that_are_no_integers():
    with pytest.raises(IRTypeError, match="an index of tensor A is float32, not an integer"):
        A[0, 1.5]
    with pytest.raises(IRTypeError, match="tensor A cannot be indexed by the slice"):
        A[0, 0:4]


def test_shapes_that_are_none():
    with pytest.raises(IRTypeError, match="dimension 1 of tensor B is float32"):
        te.placeholder((2, 1.5), name="B")
    with pytest.raises(IRValueError, match="dimension 0 of tensor B is -1, which is negative"):
        te.placeholder((-1,), name="B")


# ----------------------------------------------------------------------------------------- compute


def axis_names(tensor):
    return [axis.var.name for axis in tensor.op.axis]


def test_axes_are_named_after_parameters():
    assert axis_names(te.compute((2, 3), lambda x, y: x + y)) == ["x", "y"]
    assert axis_names(te.compute((2, 3), lambda *i: i[0])) == ["i0", "i1"]
    assert axis_names(te.compute((2, 3, 4), lambda n, *i: n)) == ["n", "i0", "i1"]
    assert axis_names(te.compute((2, 3, 4), lambda n, *i: n, varargs_names="hw")) == ["n", "h", "w"]
    assert axis_names(te.compute((2, 3), lambda: 1.0)) == ["i0", "i1"]


@pytest.mark.parametrize(
    ("shape", "function", "options", "message"),
    [
        ((2, 3), lambda i: i, {}, r"'f' has 2 dimension\(s\), its function takes 1 index"),
        ((2,), lambda i, j: i, {}, r"'f' has 1 dimension\(s\), its function takes 2 index"),
        ((2, 3), lambda *i: i[0], {"varargs_names": ["a"]}, r"1 varargs_names for 2 remaining"),
        ((2,), lambda i, *, j: i, {}, "takes j, but indices are passed by position"),
        ((2,), lambda i, **rest: i, {}, r"takes \*\*rest, but indices are passed by position"),
        ((2,), lambda i=0: i, {}, "parameter i of the function of te.compute 'f' has a default"),
        ((2,), lambda i: A, {}, "cannot use a Tensor as an expression"),
    ],
)
def test_functions_that_do_not_fit(shape, function, options, message):
    with pytest.raises(TensorIRError, match=message):
        te.compute(shape, function, name="f", **options)


def test_dtype_is_that_of_the_expression():
    assert te.compute((2,), lambda i: i).dtype == "int32"
    assert te.compute((2,), lambda i: i > 0).dtype == "bool"
    assert te.compute((te.const(2, "int64"),), lambda i: i).dtype == "int64"
    assert te.compute((2,), lambda i: te.const(1, "float16") + i).dtype == "float16"


def test_several_outputs():
    both = te.compute((4, 8), lambda i, j: (A[i, j] + 1, j), name="both")
    assert [t.name for t in both] == ["both.v0", "both.v1"]
    assert [t.dtype for t in both] == ["float32", "int32"]
    assert [t.value_index for t in both] == [0, 1]
    assert te.compute((2,), lambda i: [i], name="one")[0].name == "one"


# -------------------------------------------------------------------------------------- reductions


def test_reduce_axis():
    k = te.reduce_axis((2, te.const(8, "int64")), "k")
    assert (k.var.name, k.var.dtype) == ("k", "int64")
    assert (int(k.dom.min), int(k.dom.extent)) == (2, 6)
    assert k.dom.min.dtype == "int64"
    with pytest.raises(IRTypeError, match="the domain of axis k is float32"):
        te.reduce_axis((0, 1.5), "k")


@pytest.mark.parametrize(
    ("reducer", "numpy"),
    [(te.sum, np.sum), (te.prod, np.prod), (te.min, np.min), (te.max, np.max)],
)
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_reductions_of_numbers(reducer, numpy, dtype):
    data = te.placeholder((4, 3), dtype, name="data")
    k = te.reduce_axis((0, 3), "k")
    out = te.compute((4,), lambda i: reducer(data[i, k], axis=k))
    values = ramp(4, 3, dtype=dtype)
    np.testing.assert_array_equal(elements(out, (data, values)), numpy(values, axis=1))


@pytest.mark.parametrize(("reducer", "numpy"), [(te.all, np.all), (te.any, np.any)])
def test_reductions_of_truth(reducer, numpy):
    data = te.placeholder((4, 3), name="data")
    k = te.reduce_axis((0, 3), "k")
    out = te.compute((4,), lambda i: reducer(data[i, k] > 0, k))
    assert out.dtype == "bool"
    values = ramp(4, 3)
    np.testing.assert_array_equal(elements(out, (data, values)), numpy(values > 0, axis=1))


def test_several_axes_and_a_domain_that_starts_elsewhere():
    i, j = te.reduce_axis((1, 4), "i"), te.reduce_axis((2, 7), "j")
    out = te.compute((), lambda: te.sum(A[i, j], axis=[i, j]))
    values = ramp(4, 8)
    assert elements(out, (A, values))[()] == values[1:4, 2:7].sum()


def test_where_and_init():
    k = te.reduce_axis((0, 8), "k")
    out = te.compute((4,), lambda i: te.sum(A[i, k], axis=k, where=A[i, k] > 0, init=100.0))
    values = ramp(4, 8)
    expected = 100 + np.where(values > 0, values, 0).sum(1)
    np.testing.assert_array_equal(elements(out, (A, values)), expected)


def test_where_and_init_by_position():
    k = te.reduce_axis((0, 8), "k")
    out = te.compute((4,), lambda i: te.max(A[i, k], k, A[i, k] < 0, -4.0))
    values = ramp(4, 8)
    np.testing.assert_array_equal(elements(out, (A, values)), [-1, -4, -4, -4])


def argmax():
    return te.comm_reducer(
        lambda x, y: (te.Select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda index, value: (te.const(-1, index), te.min_value(value)),
        name="argmax",
    )


def test_reducer_of_ones_own():
    hypot = te.comm_reducer(lambda x, y: te.sqrt(x * x + y * y), lambda dtype: 0, name="hypot")
    k = te.reduce_axis((0, 8), "k")
    out = te.compute((4,), lambda i: hypot(A[i, k], axis=k))
    values = ramp(4, 8)
    np.testing.assert_allclose(elements(out, (A, values)), np.linalg.norm(values, axis=1), 1e-6)


def test_reductions_inside_of_expressions_are_refused():
    k = te.reduce_axis((0, 8), "k")
    message = re.escape(
        "te.compute 'C' has a reduction inside of an expression; compute the reduction as a "
        "separate tensor, and use that"
    )
    with pytest.raises(IRValueError, match=message):
        te.compute((4,), lambda i: te.sum(A[i, k], axis=k) / 8.0, name="C")
    with pytest.raises(IRValueError, match=message):
        te.compute((4,), lambda i: te.max(te.sum(A[i, k], axis=k), axis=k), name="C")


def test_outputs_must_be_reduced_together():
    k = te.reduce_axis((0, 8), "k")
    with pytest.raises(IRValueError, match=r"2 output\(s\), 1 of them reductions"):
        te.compute((4,), lambda i: (te.sum(A[i, k], axis=k), A[i, 0]))
    with pytest.raises(IRValueError, match="all components of one reduction, in order"):
        te.compute((4,), lambda i: (te.sum(A[i, k], axis=k), te.max(A[i, k], axis=k)))
    with pytest.raises(IRValueError, match=r"1 output\(s\), .* has 2 component\(s\)"):
        te.compute((4,), lambda i: argmax()((k.var, A[i, k]), axis=k)[0])
    with pytest.raises(IRValueError, match="in order"):
        te.compute((4,), lambda i: argmax()((k.var, A[i, k]), axis=k)[::-1])


def test_what_reducers_refuse():
    i, k = te.compute((4,), lambda i: i).op.axis[0], te.reduce_axis((0, 8), "k")
    with pytest.raises(IRTypeError, match=r"along axes made by te.reduce_axis, got i"):
        te.sum(A[0, i], axis=i)
    with pytest.raises(IRTypeError, match=r"along axes made by te.reduce_axis, got 3"):
        te.sum(A[0, 0], axis=3)
    with pytest.raises(IRTypeError, match=r"`where` of te.sum is float32, not bool"):
        te.sum(A[0, k], axis=k, where=A[0, k])
    with pytest.raises(IRTypeError, match="accepts where and init only with an axis"):
        te.sum(A[0, 0], A[0, 1], init=1.0)
    with pytest.raises(IRTypeError, match=r"a value, an axis, where and init; got 1"):
        te.sum(A[0, k], k, A[0, k] > 0, 1.0, 2.0)
    wide = te.comm_reducer(lambda x, y: x + y, lambda dtype: te.const(0, "float64"), name="wide")
    with pytest.raises(
        IRTypeError,
        match=r"dtype mismatch in te.wide: the identity element is float64, the values are float32",
    ):
        wide(A[0, k], axis=k)
    single = te.comm_reducer(lambda x, y: x[0], lambda a, b: (0, 0), name="single")
    with pytest.raises(
        IRValueError, match=r"the combination of te.single has 1 component\(s\), the"
    ):
        single((A[0, k], A[0, k]), axis=k)


@pytest.mark.parametrize("name", ["isinf", "isfinite", "isnan"])
def test_kinds_of_floats(name):
    values = np.array([1, np.inf, -np.inf, np.nan], "float32")
    x = te.placeholder((4,), name="x")
    out = te.compute((4,), lambda i: getattr(te, name)(x[i]))
    np.testing.assert_array_equal(elements(out, (x, values)), getattr(np, name)(values))


def test_integers_are_finite():
    i = te.var("i")
    assert int(te.isinf(i)) == 0
    assert int(te.isfinite(i)) == 1


def test_tags_mean_nothing():
    @te.tag_scope("injective")
    def doubled(x):
        with te.tag_scope(tag="inner"):
            return te.compute((4, 8), lambda i, j: te.multiply(x[i, j], 2.0), tag="broadcast")

    np.testing.assert_array_equal(elements(doubled(A), (A, ramp(4, 8))), ramp(4, 8) * 2)


@pytest.mark.parametrize("name", ["scan", "thread_axis", "create_schedule", "hybrid"])
def test_what_is_elsewhere(name):
    with pytest.raises(AttributeError, match=rf"tensorir.te has no {name}; .*(schedule|script)"):
        getattr(te, name)
