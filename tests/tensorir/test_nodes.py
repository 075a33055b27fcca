"""Nodes: buffers, functions, and what their classes say."""

from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tensorir import (
    IRTypeError,
    IRValueError,
    PrimFunc,
    T,
    Var,
    assert_structural_equal,
    decl_buffer,
    parse,
)
from tensorir.function import VOID_TYPE
from tensorir.nodes.leaves import PrimType
from tensorir.nodes.ops import const, intrinsic
from tensorir.nodes.stmt import Block, Evaluate, For, SeqStmt
from tensorir.rewriting.visit import walk
from tensorir.syntax_trees import syntax_tree

# ------------------------------------------ Buffers: vector accesses, offsets and flattened buffers

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
    with pytest.raises(IRValueError, match="is ambiguous"):
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


# ----------------------------------------------------------- Syntax trees that several threads make


def test_threads_make_trees_at_the_same_time() -> None:
    """A collection of garbage lets another thread run in the middle of a tree."""
    text = "\n".join(
        f"def f{k}(x):\n    return (x + {k}) * [x, (x, {{x: -x}})][0]" for k in range(60)
    )

    def let_others_run(*_: object) -> None:
        time.sleep(0)

    usual = gc.get_threshold()
    gc.callbacks.append(let_others_run)
    gc.set_threshold(100)
    try:
        with ThreadPoolExecutor(4) as threads:
            trees = list(threads.map(lambda _: syntax_tree(text), range(40)))
    finally:
        gc.set_threshold(*usual)
        gc.callbacks.remove(let_others_run)
    assert [len(tree.body) for tree in trees] == [60] * 40


# ---------------------------------------------------------------------- Functions: what they return


def returning(text):
    return parse(
        f"""
@T.prim_func
def main(x: T.int32, y: T.float32) -> T.int32:
    if x > 0:
        {text}
    return x
"""
    )


def test_the_result_has_the_type_of_what_is_returned():
    func = returning("return x + 1")
    untyped = PrimFunc(func.params, func.body, attrs=func.attrs)
    assert_structural_equal(untyped, func)
    assert_structural_equal(untyped.ret_type, PrimType("int32"))


def test_a_function_that_returns_nothing():
    stored = parse("@T.prim_func\ndef main(A: T.Buffer((8,), 'int32')):\n    A[0] = 1\n")
    rebuilt = PrimFunc(stored.params, stored.body, None, stored.buffer_map, stored.attrs)
    assert rebuilt.ret_type is VOID_TYPE
    assert_structural_equal(rebuilt, stored)


def test_a_type_that_is_given_counts():
    func = returning("return x + 1")
    assert PrimFunc(func.params, func.body, VOID_TYPE).ret_type is VOID_TYPE


def test_results_are_of_one_type():
    x, y = Var("x", "int32"), Var("y", "float32")
    returns = [Evaluate(intrinsic("ret", value, dtype=value.dtype)) for value in (x, y)]
    with pytest.raises(
        IRTypeError, match=r"must return values of one type, but this one returns \['float32'"
    ):
        PrimFunc([x, y], SeqStmt(returns))


# -------------------------------- A loop or block that gets another body keeps all else that it has

TEXT = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in T.thread_binding(8, thread="threadIdx.x", annotations={"note": 1}):
        with T.block("B"):
            vi = T.axis.reduce(8, i)
            T.reads(A[vi])
            T.writes(B[vi])
            T.block_attr({"note": 2})
            C = T.alloc_buffer((1,))
            D = T.match_buffer(A[vi], (1,), offset_factor=1)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + D[0]
"""


@pytest.mark.parametrize("kind", [For, Block])
def test_all_else_is_kept(kind: type[For] | type[Block]) -> None:
    node = next(n for n in walk(parse(TEXT).body) if type(n) is kind and n.annotations)
    body = Evaluate(const(7))
    new = node.with_body(body)
    assert type(new) is kind
    assert new.body is body
    for name in set(kind.fields) - {"body"}:
        assert getattr(new, name) is getattr(node, name)
        assert getattr(node, name) not in (None, ()), "the example has it"
