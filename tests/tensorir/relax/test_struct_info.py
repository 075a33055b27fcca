"""Struct infos: what they describe, which contain which, what two have in common."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorir import Analyzer, IRTypeError, IRValueError, Var, relax
from tensorir.nodes.ops import const
from tensorir.relax.relations import Fits, common_base, fits, is_base_of
from tensorir.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tensorir.rewriting.visit import substitute

SHAPES = [(), (1,), (2,), (1, 1), (1, 2), (2, 1)]
DTYPES = ["float32", "int8"]


# ---------------------------------------------------------------- relations by listing all values
#
# A small world: tensors (their shape and dtype), shapes, scalars, and tuples of two tensors. A
# struct info stands for the values that it describes, so that the relations are those of sets.

TENSORS = frozenset(("tensor", shape, dtype) for shape in SHAPES for dtype in DTYPES)
OF_SHAPE = frozenset(("shape", shape) for shape in SHAPES)
SCALARS = frozenset(("scalar", dtype, n) for dtype in ("int64", "bool") for n in (0, 1))
PAIRS = frozenset(("pair", a, b) for a in TENSORS for b in TENSORS)
WORLD = TENSORS | OF_SHAPE | SCALARS | PAIRS

TENSOR_INFOS = [
    *(TensorStructInfo(shape, dtype) for shape in SHAPES for dtype in (*DTYPES, None)),
    *(TensorStructInfo(None, dtype, ndim) for ndim in (-1, 0, 1, 2) for dtype in (*DTYPES, None)),
]
FEW_TENSORS = [TENSOR_INFOS[k] for k in (0, 4, 9, 18, 21, 29)]
INFOS: list[StructInfo] = [
    ObjectStructInfo(),
    *TENSOR_INFOS,
    *(ShapeStructInfo(shape) for shape in SHAPES),
    *(ShapeStructInfo(ndim=ndim) for ndim in (-1, 0, 1, 2)),
    *(PrimStructInfo(dtype) for dtype in ("int64", "bool")),
    *(TupleStructInfo(pair) for pair in product(FEW_TENSORS, FEW_TENSORS)),
]


def described(info):
    """Return the values of the small world that a struct info describes."""
    if isinstance(info, TensorStructInfo):
        return frozenset(t for t in TENSORS if is_described(info, t[1], t[2]))
    if isinstance(info, ShapeStructInfo):
        return frozenset(s for s in OF_SHAPE if is_described(info, s[1], None))
    if isinstance(info, PrimStructInfo):
        return frozenset(s for s in SCALARS if s[1] == info.dtype)
    if isinstance(info, TupleStructInfo):
        first, second = map(described, info.elements)
        return frozenset(p for p in PAIRS if p[1] in first and p[2] in second)
    return WORLD


def is_described(info, shape, dtype):
    if isinstance(info, TensorStructInfo) and info.dtype not in (None, dtype):
        return False
    known = info.shape if isinstance(info, TensorStructInfo) else info.values
    if known is not None:
        return tuple(n.value for n in known) == shape
    return info.ndim in (-1, len(shape))


VALUES = [(info, described(info)) for info in INFOS]


def test_fits_is_inclusion_and_its_no_is_that_no_value_is_both():
    for (base, of_base), (value, of_value) in product(VALUES, VALUES):
        expected = (
            Fits.YES if of_value <= of_base else Fits.UNKNOWN if of_value & of_base else Fits.NO
        )
        assert fits(base, value) is expected, (base, value)


def test_the_common_base_is_the_least_that_contains_both():
    for (a, of_a), (b, of_b) in product(VALUES[::2], VALUES[::3]):
        found = described(common_base(a, b))
        both = of_a | of_b
        assert both <= found, (a, b)
        if isinstance(a, TupleStructInfo) and isinstance(b, TupleStructInfo):
            continue  # other pairs of the small world may describe less
        assert not any(both <= other < found for _, other in VALUES), (a, b)


# ------------------------------------------------------------------------------------ symbolic sizes

N, M = Var("n", "int64"), Var("m", "int64")
EXTENTS = [
    N,
    M,
    N + 1,
    N + M,
    M + N,
    N * 2,
    N + N,
    N - N + 3,
    N // 2,
    relax.ShapeExpr([3]).values[0],
]


@given(st.sampled_from(EXTENTS), st.sampled_from(EXTENTS))
def test_answers_about_sizes_hold_for_all_their_values(a, b):
    answer = fits(TensorStructInfo((a,)), TensorStructInfo((b,)))
    sizes = [[value(e, n, m) for e in (a, b)] for n, m in product(range(5), range(5))]
    if answer is Fits.YES:
        assert all(x == y for x, y in sizes)
    if answer is Fits.NO:
        assert all(x != y for x, y in sizes)


def value(extent, n, m):
    numbers = {N: const(n, "int64"), M: const(m, "int64")}
    return Analyzer().simplify(substitute(extent, numbers)).value


def test_equal_sizes_are_recognized():
    assert is_base_of(TensorStructInfo((N + M,)), TensorStructInfo((M + N,)))
    assert is_base_of(TensorStructInfo((N * 2,)), TensorStructInfo((N + N,)))
    assert fits(TensorStructInfo((N,)), TensorStructInfo((N + 1,))) is Fits.NO
    assert fits(TensorStructInfo((N,)), TensorStructInfo((M,))) is Fits.UNKNOWN
    same = common_base(TensorStructInfo((N + M, 4)), TensorStructInfo((M + N, 4)))
    assert same.shape is not None
    other = common_base(TensorStructInfo((N, 4)), TensorStructInfo((M, 4)))
    assert (other.shape, other.ndim) == (None, 2)


# ----------------------------------------------------------------------------------------- functions


def function(params, ret, pure=True):
    return FuncStructInfo(params, ret, pure)


def test_functions_take_more_and_give_less():
    any_tensor, row = TensorStructInfo(None, None), TensorStructInfo((4,), "float32")
    general, special = function([any_tensor], row), function([row], any_tensor)
    assert fits(special, general) is Fits.YES
    assert fits(general, special) is Fits.UNKNOWN
    assert fits(function([row, row], row), general) is Fits.NO
    assert fits(general, function([any_tensor], row, pure=False)) is Fits.NO
    assert fits(function([any_tensor], row, pure=False), general) is Fits.YES
    assert fits(FuncStructInfo.opaque_func(), general) is Fits.YES
    assert fits(general, FuncStructInfo.opaque_func(ret=row, purity=True)) is Fits.UNKNOWN


def test_what_functions_have_in_common():
    row, column = TensorStructInfo((4,), "float32"), TensorStructInfo((4, 1), "float32")
    f, g = function([row], row), function([row], column, pure=False)
    base = common_base(f, g)
    assert is_base_of(base, f)
    assert is_base_of(base, g)
    assert base.ret.dtype == "float32"


# ------------------------------------------------------------------------------------- construction


def test_what_a_tensor_says():
    info = TensorStructInfo((2, N), "float16")
    assert (info.ndim, info.static_shape, info.dtype) == (2, None, "float16")
    assert all(extent.dtype == "int64" for extent in info.shape)
    assert TensorStructInfo((2, 3)).static_shape == (2, 3)
    assert TensorStructInfo(()).static_shape == ()
    assert TensorStructInfo(ndim=0).static_shape == ()
    assert TensorStructInfo(None, "void").dtype is None


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: TensorStructInfo((2,), ndim=3), IRValueError, "1 dimension.* given with ndim=3"),
        (lambda: TensorStructInfo((-1,)), IRValueError, "at least 0, got -1"),
        (
            lambda: TensorStructInfo(ndim=-2),
            IRValueError,
            r"at least 0, or -1 for unknown, got ndim=-2",
        ),
        (lambda: ShapeStructInfo([1, 2], ndim=1), IRValueError, "given with ndim=1"),
        (
            lambda: ShapeStructInfo(ndim=-2),
            IRValueError,
            "at least 0, or -1 for unknown, got ndim=-2",
        ),
        (
            lambda: TensorStructInfo((Var("k", "int32"),)),
            IRTypeError,
            r"must be an int64, got k of int32; declare its variables by T\.int64",
        ),
        (lambda: ShapeStructInfo([1.5]), IRTypeError, "must be an int64, got .* of float32"),
    ],
)
def test_what_describes_nothing(build, error, message):
    with pytest.raises(error, match=message):
        build()
