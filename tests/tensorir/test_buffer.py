"""Buffers: vector accesses, offsets and flattened buffers."""

import pytest

from tensorir import IRTypeError, IRValueError, T, Var, assert_structural_equal, decl_buffer, parse
from tensorir.nodes.ops import const

ACCESSES = """
@T.prim_func
def main(A: T.Buffer((8, 16), "float32")):
    {}
"""


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda a: a.vstore([0, 4], a.vload([1, 8], "float32x4")), "A[0, 4:8] = A[1, 8:12]"),
        (lambda a: a.vstore((0, 4), a.vload((1, 8))), "A[0, 4] = A[1, 8]"),
        (lambda a: a.vstore([0, 4], 1.0), "A[0, 4] = T.float32(1)"),
        (
            lambda a: a.vstore(
                [0, T.Ramp(0, 2, 4)], T.Broadcast(T.float32(1), 4), T.Broadcast(T.bool(True), 4)
            ),
            "A.vstore([0, T.Ramp(0, 2, 4)], T.Broadcast(T.float32(1), 4), "
            "predicate=T.Broadcast(T.bool(True), 4))",
        ),
    ],
)
def test_vector_accesses(build, text):
    func = parse(ACCESSES.format(text))
    (buffer,) = func.buffer_map.values()
    assert_structural_equal(func.with_body(build(buffer)), func)


def test_vector_accesses_are_of_the_elements():
    buffer = decl_buffer((8, 16), name="A")
    with pytest.raises(
        IRTypeError, match="A holds float32, so an access cannot have the type int32x4"
    ):
        buffer.vload([0, 0], "int32x4")
    with pytest.raises(
        IRTypeError, match="A holds float32, so an access cannot have the type float16"
    ):
        buffer.vstore([0, 0], T.float16(1))


@pytest.mark.parametrize(
    ("layout", "indices", "offset", "flat"),
    [
        ({}, (2, 3), ["35"], ["128"]),
        ({"strides": (20, 1)}, (2, 3), ["43"], ["156"]),
        ({"strides": (1, 8)}, (2, 3), ["26"], ["128"]),
        ({"elem_offset": 5}, (2, 3), ["40"], ["128"]),
        ({"axis_separators": [1]}, (2, 3), ["2", "3"], ["8", "16"]),
    ],
)
def test_offsets_index_the_flattened_buffer(layout, indices, offset, flat):
    buffer = decl_buffer((8, 16), name="A", **layout)
    assert [str(n) for n in buffer.offset_of(indices)] == offset
    flattened = buffer.get_flattened_buffer()
    assert [str(n) for n in flattened.shape] == flat
    assert flattened.data is buffer.data
    assert not flattened.strides
    assert flattened.get_flattened_buffer() is flattened


def test_offsets_of_variables_and_of_rank_0():
    n, i, j = Var("n", "int32"), Var("i", "int32"), Var("j", "int32")
    assert str(decl_buffer((8, n)).offset_of([i, j])) == "[i * n + j]"
    assert str(decl_buffer(n, name="A").offset_of(i)) == "[i]"
    scalar = decl_buffer((), name="A")
    assert str(scalar.offset_of(())) == "[T.int64(0)]"
    assert [int(n) for n in scalar.get_flattened_buffer().shape] == [1]
    assert [int(n) for n in decl_buffer((0, 4), strides=(9, 1)).get_flattened_buffer().shape] == [0]


def test_offsets_that_are_none():
    with pytest.raises(IRValueError, match=r"has 2 dimension\(s\), but offset_of got 1 index"):
        decl_buffer((8, 16), name="A").offset_of([0])
    split = decl_buffer((8, 16), name="A", axis_separators=[1], elem_offset=const(3))
    with pytest.raises(IRValueError, match="cannot be told apart"):
        split.offset_of([0, 0])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("r",), 'T.tvm_access_ptr(T.type_annotation("float32"), A.data, 5, 128, 1)'),
        (("rw", "handle", 4), 'T.tvm_access_ptr(T.type_annotation("float32x4"), A.data, 1, 32, 3)'),
        ((2, "handle", 1, 8), 'T.tvm_access_ptr(T.type_annotation("float32"), A.data, 13, 120, 2)'),
        (
            ("w", "handle", 1, 8, 4),
            'T.tvm_access_ptr(T.type_annotation("float32"), A.data, 13, 4, 2)',
        ),
    ],
)
def test_access_pointers(options, text):
    func = parse(
        f"""
@T.prim_func
def main(a: T.handle):
    A = T.match_buffer(a, (8, 16), elem_offset=5)
    T.call_extern("int32", "f", {text})
"""
    )
    (buffer,) = func.buffer_map.values()
    call = func.body.value
    pointer = buffer.access_ptr(*options)
    assert_structural_equal(pointer, call.args[-1])
    with pytest.raises(IRValueError, match="access_mask of A must be 'r', 'w' or 'rw', got 'x'"):
        buffer.access_ptr("x")


def test_a_quotient_and_its_remainder_are_one_index_of_the_offset():
    x, y, n, s = (Var(name, "int32") for name in "xyns")
    matrix, image = decl_buffer((4, 8)), decl_buffer((1, 14, 14, 1024))
    assert str(matrix.offset_of((x // 8, x % 8))) == "[x]"
    assert str(matrix.offset_of((x // 8 + y, x % 8))) == "[y * 8 + x]"
    assert str(matrix.offset_of((x // 4, x % 8))) == "[x // 4 * 8 + x % 8]"
    place = x * 50176 + y * 28672 + n
    pixel = place // 1024
    split = (pixel // 14 // 14, pixel // 14 % 14, pixel % 14, place % 1024)
    assert str(image.offset_of(split)) == "[y * 28672 + x * 50176 + n]"
    assert str(decl_buffer((s, n)).offset_of((x // n, x % n))) == "[x]"
    strided = decl_buffer((8, 8), strides=(s, 1))
    assert str(strided.offset_of((x % y // s, x % y % s + x // y * y))) == "[x]"


def test_offsets_and_pointers_are_in_their_simplest_form():
    n, x = Var("n", "int32"), Var("x", "int32")
    square = decl_buffer((n, n), "float32", "A", strides=(n, 1), elem_offset=x * 2)
    assert str(square.offset_of([x + 1, x - 1])) == "[x * (n + 3) + n - 1]"
    pointer = square.access_ptr("r", offset=n * n - n + x - x)
    assert [str(arg) for arg in pointer.args[2:4]] == ["x * 2 + n * (n - 1)", "n"]


def test_calls_with_effects_are_not_put_together():
    def drawn():
        return T.call_extern("int32", "rand")

    (offset,) = decl_buffer((4, 8)).offset_of((drawn() // 8, drawn() % 8))
    assert str(offset).count("rand") == 2
