"""Well-formedness: every name is defined once, before its use, and in scope."""

import numpy as np
import pytest

from tensorir import PrimFunc, Var, WellFormedError, parse, verify_ssa, verify_well_formed
from tensorir.nodes.buffer import decl_buffer
from tensorir.nodes.expr import EQ, BufferLoad, IterVar, StringImm
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
