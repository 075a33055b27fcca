"""Maps from indices to indices."""

import numpy as np
import pytest

from tensorir import IndexMap, IRTypeError, IRValueError, T, Var
from tensorir.indices.index_values import index_values
from tensorir.nodes.buffer import Range
from tensorir.nodes.dtype import INT32, INT64
from tensorir.nodes.expr import Call
from tensorir.nodes.ops import const
from tensorir.rewriting.visit import walk


def tiled(index_dtype):
    return IndexMap.from_func(lambda i, j: (i // 4, j, i % 4), index_dtype=index_dtype)


LARGE = 2**33


def test_indices_are_mapped_in_their_own_type_where_it_is_wider():
    x, y = Var("x", INT64), Var("y", INT64)
    assert str(tiled("int32").map_indices([x, y])) == "[x // T.int64(4), y, x % T.int64(4)]"
    mapped = tiled("int32").map_indices([const(LARGE + 5), const(1, INT64)])
    assert [(int(m), m.dtype) for m in mapped] == [(LARGE // 4 + 1, INT64), (1, INT64), (1, INT64)]


def test_indices_are_mapped_in_the_type_of_the_map_where_that_is_wider():
    x = Var("x", INT32)
    first, second, third = tiled("int64").map_indices([x, x])
    assert {first.dtype, second.dtype, third.dtype} == {INT64}


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda i: T.if_then_else(i < 4, i, 0), "T.if_then_else(i < 4, i, 0)"),
        (lambda i: T.Select(i < 4, i, i // 2), "T.Select(i < 4, i, i // 2)"),
        (lambda i: T.popcount(i) * 2, 'T.popcount(T.Cast("int64", i)) * T.int64(2)'),
    ],
)
def test_retyping_reaches_all_of_an_expression(function, text):
    (final,) = IndexMap.from_func(function).retyped([INT32]).final_indices
    assert str(final) == text
    for node in walk(final):
        parts = node.args[1:] if isinstance(node, Call) and len(node.args) == 3 else ()
        assert {part.dtype for part in parts} <= {final.dtype}


def test_shapes_and_ranges_are_mapped_in_their_own_type():
    shape = tiled("int32").map_shape([const(LARGE), const(3, INT64)])
    assert [int(n) for n in shape] == [LARGE // 4, 3, 4]
    ranges = tiled("int32").map_ranges([Range(const(LARGE)), Range(const(3, INT64))])
    assert [int(r.extent) for r in ranges] == [LARGE // 4, 3, 4]
    plain = tiled("int32").bijective_ranges([Range(const(LARGE)), Range(const(3, INT64))])
    assert [int(r.extent) for r in plain] == [LARGE // 4, 3, 4]


def test_the_map_back_has_the_type_of_the_shape():
    inverse = tiled("int32").inverse([const(LARGE), const(3, INT64)])
    expected = IndexMap.from_func(lambda a, b, c: (a * 4 + c, b))
    assert inverse.is_equivalent_to(expected)
    assert {f.dtype for f in inverse.final_indices} == {INT64}


SAME = [
    (lambda i, j: (i, j), lambda a, b: (a, b)),
    (lambda i: (i // 4, i % 4), lambda i: (i * 2 // 8, (i + 8) % 4)),
    (lambda i, j: (i * 4 + j,), lambda i, j: (j + i * 2 + i + i,)),
]
OTHER = [
    (lambda i, j: (i, j), lambda i, j: (j, i)),
    (lambda i, j: (i, j), lambda i, j: (i,)),
    (lambda i: (i,), lambda i, j: (i,)),
    (lambda i: (i,), lambda i: (i % 128,)),
]


@pytest.mark.parametrize("dtypes", [("int32", "int32"), ("int32", "int64"), ("int64", "int32")])
def test_equivalence_is_symmetric_and_takes_any_types(dtypes):
    for pairs, expected in ((SAME, True), (OTHER, False)):
        for one, other in pairs:
            maps = [
                IndexMap.from_func(f, index_dtype=d)
                for f, d in zip((one, other), dtypes, strict=True)
            ]
            assert maps[0].is_equivalent_to(maps[1]) is expected
            assert maps[1].is_equivalent_to(maps[0]) is expected


def test_arrays_are_laid_out_as_the_map_says():
    array = np.arange(6 * 3, dtype="float32").reshape(6, 3)
    mapped = tiled("int64").map_ndarray(array)
    assert mapped.shape == (2, 3, 4)
    for i, j in np.ndindex(6, 3):
        assert mapped[i // 4, j, i % 4] == array[i, j]
    assert (mapped[1, :, 2:] == 0).all()


@pytest.mark.parametrize(
    "function",
    [
        lambda i, j: (j, i),
        lambda i, j: (i * 8 + j,),
        lambda i, j: (5 - i, j // 4, j % 4),
        lambda i, j: (i, T.max(j, 0)),
    ],
)
def test_bijections_of_arrays_lose_nothing(function):
    array = np.random.default_rng(0).integers(0, 1000, (6, 8))
    mapped = IndexMap.from_func(function).map_ndarray(array)
    assert sorted(mapped.flat) == sorted(array.flat)


def test_arrays_that_a_map_cannot_lay_out():
    halves = IndexMap.from_func(lambda i: (i // 2,))
    with pytest.raises(IRValueError, match="several elements to the same index"):
        halves.map_ndarray(np.zeros(4))
    with pytest.raises(IRValueError, match="takes 1 indices, but the shape has 2"):
        halves.map_ndarray(np.zeros((4, 4)))
    with pytest.raises(IRValueError, match="no constant shape"):
        IndexMap.from_func(lambda i: (i * Var("n", "int64"),)).map_ndarray(np.zeros(2))


def test_index_arithmetic_on_arrays():
    i, j = Var("i", "int64"), Var("j", "int64")
    values = {i: np.arange(-4, 5)[:, None], j: np.array([-3, 2, 5])}
    quotient = index_values(T.truncdiv(i, j) * j + T.truncmod(i, j), values)
    assert (quotient == np.broadcast_to(values[i], (9, 3))).all()
    assert (index_values(T.truncdiv(i, 3), values) == np.trunc(values[i] / 3)).all()
    chosen = index_values(T.Select(T.And(i < j, T.Not(i == 0)), T.min(i, j), T.max(i, j)), values)
    lower = (values[i] < values[j]) & (values[i] != 0)
    assert (chosen == np.where(lower, values[i], np.maximum(values[i], values[j]))).all()
    with pytest.raises(IRTypeError, match="is not arithmetic on the indices"):
        index_values(T.popcount(i), values)
