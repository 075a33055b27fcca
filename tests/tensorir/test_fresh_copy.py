"""Copies of functions that share no definition with the original."""

import pytest

from tensorir import (
    IRModule,
    TensorIntrin,
    assert_structural_equal,
    parse,
    renew_defs,
    verify_well_formed,
)
from tensorir.nodes import stmt as s
from tensorir.nodes.ops import TRUE, const
from tensorir.rewriting.visit import collect_vars, walk
from tensorir.workloads import WORKLOADS, create

PROGRAMS = {
    "blocks": """
@T.prim_func
def main(a: T.handle, n: T.int32):
    A = T.match_buffer(a, (n + 1, 8))
    T.func_attr({"limit": n})
    B = T.alloc_buffer((n * 2, 8))
    for i, j in T.grid(n, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.block_attr({"of": vi})
            B[vi, vj] = A[vi, vj]
    for t in T.thread_binding(n, "threadIdx.x"):
        with T.block("view"):
            vt = T.axis.spatial(n, t)
            T.reads(B[vt, 0:8])
            T.writes(A[vt, 0:8])
            s0, s1 = T.int32(), T.int32()
            V = T.match_buffer(A[vt, 0:8], (1, 8), strides=(s0, s1), offset_factor=1)
            V[0, 0] = B[vt, 0] + T.Cast("float32", s0)
""",
    "pointers": """
@T.prim_func
def main(b: T.handle, n: T.int32):
    B = T.match_buffer(b, (n,))
    p = T.allocate([n * 4], "float32", "global", annotations={"size": n})
    whole = T.Buffer((n * 4,), data=p)
    part = T.decl_buffer((n,), data=p, elem_offset=n)
    table = T.allocate_const([1.0, 2.0], "float32", [2])
    known = T.Buffer((2,), data=table)
    x: T.float32 = known[n % 2]
    for i in range(n * 4):
        whole[i] = x
    while B[0] < x:
        B[0] = part[T.Let(k + 1, where={k: n // 2})]
""",
}
PROGRAMS["expressions before variables"] = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n * 8,), strides=(n + 1,))
    B = T.match_buffer(b, (n,))
    B[0] = A[n]
"""
PROGRAMS["pointers"] = PROGRAMS["pointers"].replace("    x: T", "    k = T.int32()\n    x: T")


def defined(func):
    """The variables of a program, and its buffers."""
    parts = list(walk(func.body))
    buffers = {node.buffer for node in parts if hasattr(node, "buffer")}
    buffers |= {b for node in parts if isinstance(node, s.Block) for b in node.alloc_buffers}
    buffers |= set(func.buffer_map.values())
    pointers = {buffer.data for buffer in buffers}
    return {*func.params, *collect_vars(func.body), *pointers, *buffers}


def check_copy(func):
    copy = renew_defs(func)
    assert_structural_equal(copy, func)
    assert not defined(copy) & defined(func)
    sizes = [size for buffer in func.buffer_map.values() for size in buffer.layout]
    copied = [size for buffer in copy.buffer_map.values() for size in buffer.layout]
    for old, new in zip(sizes, copied, strict=True):
        assert not set(collect_vars(old)) & set(collect_vars(new))
    verify_well_formed(IRModule({"first": func, "second": copy}))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_definition_is_new(name):
    check_copy(parse(PROGRAMS[name]))


@pytest.mark.parametrize("name", WORKLOADS)
def test_copies_of_operators(name):
    check_copy(create(name))


@pytest.mark.parametrize("name", TensorIntrin.names())
def test_copies_of_intrinsics(name):
    intrin = TensorIntrin.get(name)
    check_copy(intrin.desc)
    check_copy(intrin.impl)


def test_a_copied_statement_keeps_what_is_outside():
    func = parse(PROGRAMS["pointers"])
    (declared,) = [node for node in walk(func.body) if isinstance(node, s.DeclBuffer)]
    copy = renew_defs(func.with_body(declared)).body
    assert isinstance(copy, s.DeclBuffer)
    assert copy.buffer is not declared.buffer
    assert copy.buffer.data is declared.buffer.data


def test_attributes_of_thread_axes_bind_their_variables():
    func = parse("@T.prim_func\ndef main(A: T.Buffer((8,), 'float32')):\n    A[0] = 1.0\n")
    (buffer,) = func.buffer_map.values()
    axis = s.IterVar(None, "tx", s.IterVar.THREAD_INDEX, "threadIdx.x")
    store = s.BufferStore(buffer, const(1, "float32"), [axis.var])
    body = s.AttrStmt(axis, "thread_extent", const(8), s.IfThenElse(TRUE, store))
    func = func.with_body(body)
    copy = renew_defs(func)
    assert_structural_equal(copy, func)
    assert copy.body.node.var is not axis.var
    assert copy.body.node.var in collect_vars(copy.body.body)
