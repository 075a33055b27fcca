"""Structural equality and hashes; verification of functions."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorir import (
    I,
    PrimFunc,
    R,
    T,
    WellFormedError,
    expr_deep_equal,
    get_first_structural_mismatch,
    parse,
    structural_equal,
    structural_hash,
    verify_ssa,
    verify_well_formed,
)
from tensorir.errors import DiagnosticError
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.buffer import decl_buffer
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import (
    EQ,
    BufferLoad,
    FloatImm,
    IntImm,
    IterVar,
    PointerType,
    PrimType,
    StringImm,
    TupleType,
    Var,
)
from tensorir.nodes.node import Attrs
from tensorir.nodes.ops import TRUE, const
from tensorir.nodes.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    While,
)

# ------------------------------------------------------ Structural equality and hashes, up to names

SHAPES = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, {first})
    B = T.match_buffer(b, {second})
    for i in range(n):
        B[i] = A[i]
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("(n * T.int64(8),)", "(n,)"),
        ("((n + T.int64(7)) // T.int64(8) * T.int64(8),)", "(n,)"),
        ("(T.int64(64),), strides=(n + T.int64(1),)", "(n,)"),
        ("(T.int64(64),), elem_offset=T.min(n, T.int64(3))", "(n,)"),
    ],
)
def test_layouts_bind_the_variables_inside_their_expressions(first, second):
    a, b = (parse(SHAPES.format(first=first, second=second)) for _ in range(2))
    assert get_first_structural_mismatch(a, b) is None
    assert structural_hash(a) == structural_hash(b)


def test_what_is_bound_in_a_shape_is_bound_once():
    text = """
@T.prim_func
def main(a: T.handle, b: T.handle, m: T.int64, n: T.int64):
    A = T.match_buffer(a, ({x} * T.int64(8),))
    B = T.match_buffer(b, (m * n,))
    B[m] = A[n]
"""
    one, other = parse(text.format(x="m")), parse(text.format(x="n"))
    assert not structural_equal(one, other)
    assert structural_hash(one) != structural_hash(other)


def test_free_variables_are_bound_by_layouts_only():
    func = parse(SHAPES.format(first="(n * T.int64(8),)", second="(n,)"))
    other = parse(func.script())
    assert not structural_equal(func.body, other.body)
    assert structural_equal(func.body, other.body, map_free_vars=True)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("T.evaluate(0)", "T.evaluate(1)"),
        ("T.evaluate(1)", "T.evaluate(2)"),
        ("for i in range(3):\n        T.evaluate(1)", "for i in range(3):\n        T.evaluate(0)"),
        ("A[0] = 1\n    T.evaluate(1)", "A[0] = 1"),
    ],
)
def test_constants_that_are_evaluated_count(first, second):
    text = "@T.prim_func\ndef main(A: T.Buffer((4,), 'int32')):\n    {}"
    a, b = (parse(text.format(body)) for body in (first, second))
    assert not structural_equal(a, b)
    assert structural_equal(a, parse(a.script()))


# Equality and hashes agree: what is equal hashes alike, and what is not equal differs somewhere

NAN_BITS = np.array([0x7FC00000, 0xFFC00001], "uint32").view("float32")
VALUES = [
    *(0, 1, True, False, 1.0, 0.0, -0.0, 1e-12, math.nan, float("nan"), math.inf, None),
    *("1", "", "int8", DataType("int8"), (1,), [1], [1.0], (), [], [[1]], [[True]], {}, Attrs()),
    *({"a": 1}, Attrs({"a": 1}), {"a": True}, {"a": [1, {"b": -0.0}]}, {"a": (1, {"b": -0.0})}),
    *(np.float32(1), np.float64(1), np.int64(1), np.bool_(True)),
    *(IntImm("int32", 1), IntImm("int64", 1), IntImm("bool", 1), StringImm("1")),
    *(FloatImm("float32", v) for v in (0.0, -0.0, 1e-12, 1.0, math.nan)),
    *(FloatImm("float64", v) for v in (0.0, math.nan)),
    *(np.zeros(2), -np.zeros(2), np.zeros((2, 1)), np.zeros(4)[::2], np.zeros(2, ">f8")),
    *(NAN_BITS, NAN_BITS[::-1], NAN_BITS.view("int32"), [np.zeros(2)], {"a": np.zeros(2)}),
    *(IndexMap([i], [i]) for i in (Var("i"), Var("i"), Var("j"))),
    *(Var("x", kind) for kind in ("handle", PointerType(PrimType("int8")), TupleType())),
    *(Var("x", kind) for kind in ("int8", PrimType("int8"))),
]


@pytest.mark.parametrize("map_free_vars", [False, True])
def test_equal_values_are_those_of_one_hash(map_free_vars):
    for a, b in itertools.combinations_with_replacement(VALUES, 2):
        if isinstance(a, Var) and isinstance(b, Var) and a is not b and not map_free_vars:
            assert not structural_equal(a, b)
            continue
        same = structural_equal(a, b, map_free_vars)
        assert same is structural_equal(b, a, map_free_vars)
        assert same is (structural_hash(a) == structural_hash(b)), (a, b)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [(0.0, -0.0, False), (1e-12, 0.0, False), (math.nan, -math.nan, True), (0.1, 0.1, True)],
)
def test_floats_are_equal_that_are_one_number(a, b, same):
    x, y = FloatImm("float64", a), FloatImm("float64", b)
    assert structural_equal(x, y) is expr_deep_equal(x, y) is same
    assert (structural_hash(x) == structural_hash(y)) is same


@T.prim_func
def tensor(a: T.handle, B: T.Buffer((8,), "float32"), n: T.int64):
    T.func_attr({"flags": [1, True, 1.0], "nested": {"scale": -0.0}})
    m = T.int32()
    A = T.match_buffer(a, (8, m), "float32", strides=["s", 1], elem_offset=4)
    for i in T.serial(8, annotations={"pragma": 1}):
        for k in range(m):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.block_attr({"note": "text"})
                with T.init():
                    B[vi] = T.float32(0)
                x: T.float32 = A[vi, vk] * T.float32(0.5)
                B[vi] = T.Select(n > T.int64(3), B[vi] + x, T.exp(x))


@I.ir_module
class Graph:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), c: R.Prim("bool")):
        n = T.int64()
        weights = R.const([0.5, -0.0, 1.0, 1e-12], "float32")
        with R.dataflow():
            y = R.call_dps_packed("f", (x, weights), out_sinfo=R.Tensor((n, 4), "float32"))
            z = R.match_cast(y, R.Tensor((n, 4), "float32"))
            R.output(z)
        return R.call_packed("g", z, R.prim_value(T.int64(1)), R.str("s"), sinfo_args=R.Object)


TEXTS = [tensor.script(), Graph.script(show_meta=True)]
LITERAL = re.compile(r'(?<![\w.])(?:\d+(?:\.\d+)?|True|False|"\w+"|[a-z]\b)')
CHANGES = ["0", "1", "1.0", "-0.0", "True", "T.int64(1)", "T.float32(-0.0)", "n", "8", '"s"']


@given(st.sampled_from(TEXTS), st.data())
def test_changed_programs(text, data):
    program = parse(text)
    found = data.draw(st.sampled_from(list(LITERAL.finditer(text))))
    new = data.draw(st.sampled_from([*CHANGES, *LITERAL.findall(text)]))
    try:
        changed = parse(text[: found.start()] + new + text[found.end() :], check_well_formed=False)
    except DiagnosticError:
        return
    same = structural_equal(program, changed)
    assert same is structural_equal(changed, program)
    assert same is (structural_hash(program) == structural_hash(changed))


# ------------------------ Well-formedness: every name is defined once, before its use, and in scope

ZERO, EIGHT = const(0), const(8)
FREE = Var("free", "int32")
IS_FREE = EQ(FREE, ZERO)
A = decl_buffer((8,), "int32", "A")
VIEW = decl_buffer((4,), "int32", "V", data=A.data)
OF_FREE = decl_buffer((FREE,), "int32", "F", data=A.data)
OWN = decl_buffer((8,), "int32", "O")
STORE = BufferStore(A, ZERO, [ZERO])


def function(body):
    return PrimFunc([A], body)


def read(buffer):
    return Evaluate(BufferLoad(buffer, [ZERO]))


@pytest.mark.parametrize(
    "body",
    [
        BufferStore(A, FREE, [ZERO]),
        BufferStore(A, ZERO, [FREE]),
        For(Var("i", "int32"), FREE, EIGHT, ForKind.SERIAL, STORE),
        For(Var("i", "int32"), ZERO, FREE, ForKind.SERIAL, STORE),
        While(IS_FREE, STORE),
        IfThenElse(IS_FREE, STORE),
        IfThenElse(EQ(BufferLoad(A, [ZERO]), ZERO), STORE, read(OF_FREE)),
        LetStmt(Var("x", "int32"), FREE, STORE),
        AssertStmt(IS_FREE, StringImm("no"), STORE),
        Allocate(OWN.data, "int32", [FREE], TRUE, STORE),
        Allocate(OWN.data, "int32", [EIGHT], IS_FREE, STORE),
        AllocateConst(OWN.data, "int32", [EIGHT], np.zeros(8, "int32"), BufferStore(A, FREE, [ZERO])),
        DeclBuffer(OF_FREE, STORE),
        AttrStmt(FREE, "pragma", ZERO, STORE),
        AttrStmt(OF_FREE, "pragma", ZERO, STORE),
        AttrStmt("pragma", "pragma", FREE, STORE),
        Block([], [], [], "block", STORE, alloc_buffers=[decl_buffer((FREE,), "int32")]),
        Block([], [], [], "block", STORE, init=BufferStore(A, FREE, [ZERO])),
    ],
)  # fmt: skip
def test_undefined_variables_are_found_in_every_statement(body):
    with pytest.raises(WellFormedError, match="undefined variable free"):
        verify_well_formed(function(body))
    assert not verify_well_formed(function(body), assert_mode=False)
    assert verify_ssa(function(body))
    known = PrimFunc([A, FREE], body)
    assert verify_well_formed(known)


@pytest.mark.parametrize(
    ("wrap", "used"),
    [
        (lambda body: Allocate(OWN.data, "int32", [EIGHT], TRUE, body), OWN),
        (lambda body: AllocateConst(OWN.data, "int32", [EIGHT], np.zeros(8), body), OWN),
        (lambda body: DeclBuffer(VIEW, body), VIEW),
        (lambda body: Block([], [], [], "block", body, alloc_buffers=[OWN]), OWN),
    ],
)
def test_buffers_are_used_in_the_scope_that_gives_them(wrap, used):
    verify_well_formed(function(wrap(read(used))))
    message = "outside of the T.|undefined variable O"
    with pytest.raises(WellFormedError, match=message):
        verify_well_formed(function(SeqStmt([wrap(STORE), read(used)])))
    with pytest.raises(WellFormedError, match=message):
        verify_well_formed(function(SeqStmt([read(used), wrap(STORE)])))


def test_a_view_of_a_pointer_needs_no_declaration():
    verify_well_formed(function(SeqStmt([read(VIEW), BufferStore(VIEW, ZERO, [ZERO])])))


def test_a_match_is_used_in_its_block_and_the_block_is_named():
    text = """
@T.prim_func(check_well_formed=False)
def main(A: T.Buffer((8, 8), "float32")):
    for i in range(8):
        with T.block("inside"):
            vi = T.axis.spatial(8, i)
            T.reads()
            T.writes(A[vi, 0:8])
            V = T.match_buffer(A[vi, 0:8], (8,))
            V[0] = T.float32(i)
"""
    with pytest.raises(WellFormedError, match="loop variable i") as raised:
        verify_well_formed(parse(text))
    assert 'inside block "inside"' in str(raised.value)
    verify_well_formed(parse(text.replace("T.float32(i)", "T.float32(vi)")))


def test_the_layouts_of_parameters_need_what_they_are_made_of():
    text = """
@T.prim_func(check_well_formed=False)
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n * 2,))
    B = T.match_buffer(b, ({},))
    B[0] = T.float32(1)
"""
    with pytest.raises(WellFormedError, match="undefined variable n"):
        verify_well_formed(parse(text.format(8)))
    verify_well_formed(parse(text.format("n")))


def test_axes_of_a_thread_may_share_a_variable():
    axis = IterVar(None, "tx", IterVar.THREAD_INDEX, "threadIdx.x")
    inner = AttrStmt(axis, "thread_extent", EIGHT, BufferStore(A, ZERO, [axis.var]))
    verify_well_formed(function(SeqStmt([inner, inner])))
    verify_well_formed(function(AttrStmt(axis, "thread_extent", EIGHT, inner)))
    with pytest.raises(WellFormedError, match="undefined variable tx"):
        verify_well_formed(function(SeqStmt([inner, BufferStore(A, ZERO, [axis.var])])))


def test_single_assignment_is_about_definitions():
    x = Var("x", "int32")
    let = LetStmt(x, ZERO, BufferStore(A, FREE, [x]))
    assert verify_ssa(function(let))
    assert not verify_ssa(function(SeqStmt([let, let])))
    assert not verify_ssa(function(LetStmt(x, ZERO, let)))
