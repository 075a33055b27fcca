"""Rewriting: rules, fresh copies, simplification, specialization."""

import numpy as np
import pytest

from tensorir import (
    IRModule,
    IRTypeError,
    IRValueError,
    T,
    TensorIntrin,
    Var,
    assert_structural_equal,
    decl_buffer,
    parse,
    renew_defs,
    simplify,
    substitute,
    te,
    verify_well_formed,
)
from tensorir.interp import interpret
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import BufferLoad, FloatImm
from tensorir.nodes.node import Node
from tensorir.nodes.ops import const
from tensorir.nodes.stmt import BufferStore, DeclBuffer, Evaluate, For, Stmt
from tensorir.rewriting.visit import collect_vars, rewrite, ruled, walk
from tensorir.workloads import WORKLOADS, create

# ---------------------------------------- Rewriting by rules, which are functions by class of nodes

BODY = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        if i < 4:
            B[i] = A[i] * T.float32(2) + T.float32(3)
        else:
            B[i] = A[i + 1 - 1]
""").body


def kinds(node: Node) -> list[str]:
    return [type(part).__name__ for part in walk(node)]


def test_what_no_rule_changes_stays() -> None:
    assert rewrite(BODY, {FloatImm: lambda _: None}) is BODY
    assert rewrite(BODY, before={For: lambda node, r: r.generic(node)}) is BODY
    assert rewrite(BODY) is BODY


def test_a_rule_before_that_gives_none_leaves_the_node_to_the_others() -> None:
    new = rewrite(
        BODY, {BufferStore: lambda _: Evaluate(const(0))}, before={Node: lambda n, r: None}
    )
    assert "BufferStore" not in kinds(new)


def test_used_buffers_are_replaced() -> None:
    load = next(node for node in walk(BODY) if isinstance(node, BufferLoad))
    other = load.buffer.with_(name="other")
    new = rewrite(BODY, buffer=lambda buffer: other if buffer is load.buffer else buffer)
    assert {n.buffer.name for n in walk(new) if isinstance(n, BufferLoad)} == {"other"}


@pytest.mark.parametrize("times", [1, 2])
def test_one_rewriter_serves_several_programs(times: int) -> None:
    rewriter = ruled({FloatImm: lambda n: FloatImm(n.dtype, n.value * 2)})
    new: Stmt = BODY
    for _ in range(times):
        new = rewriter(new)
    assert f"T.float32({2.0 * 2**times})" in str(new)


# ----------------------------------- Copies of functions that share no definition with the original

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


# -------------------- Canonical index arithmetic in whole programs, and in expressions over tensors

A = te.placeholder((8, 8), name="A")


def test_reductions_are_simplified_within_their_axes():
    k, i = te.reduce_axis((0, 8), "k"), te.var("i")
    total = simplify(te.sum(A[k + i - i, k % 8], axis=k, where=k < 100))
    assert [str(part) for part in total.source] == ["A[k, k]"]
    assert int(total.condition) == 1
    assert total.axis == (k,)


@pytest.mark.parametrize(
    ("expr", "simplified"),
    [
        (te.min_value("int32"), "-2147483648"),
        (te.max_value("int64") - te.const(1, "int64"), "T.int64(9223372036854775806)"),
        (te.max_value("uint64"), "T.uint64(18446744073709551615)"),
        (te.min_value("int8") + te.const(-1, "int8"), "T.int8(127)"),
        (te.max_value("bool"), "T.bool(True)"),
        (te.max_value("e4m3_float8"), "T.e4m3_float8(448.0)"),
    ],
)
def test_extreme_values(expr, simplified):
    assert str(simplify(expr)) == simplified


def test_sums_with_extreme_values_keep_their_parts():
    i = Var("i", "int32")
    for extreme in (T.min_value("int32"), T.max_value("int32")):
        assert_structural_equal(simplify(simplify(i - extreme)), simplify(i - extreme))
        assert "i" in str(simplify(i - extreme))


# ---------------------------------------------- Functions with symbolic parameters and shapes fixed

SYMBOLIC = """
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32, scale: T.float32):
    A = T.match_buffer(a, (n * 2, 8))
    B = T.match_buffer(b, (n * 2, 8))
    staged = T.alloc_buffer((n * 2, 8), strides=(n + 5, 1))
    for i, j in T.grid(n * 2, 8):
        with T.block("stage"):
            vi, vj = T.axis.remap("SS", [i, j])
            staged[vi, vj] = A[vi, vj] * scale
    for i in range(n):
        with T.block("pair"):
            vi = T.axis.spatial(n, i)
            T.reads(staged[vi * 2:vi * 2 + 2, 0:8])
            T.writes(B[vi * 2:vi * 2 + 2, 0:8])
            V = T.match_buffer(staged[vi * 2:vi * 2 + 2, 0:8], (2, 8), strides=(n + 5, 1))
            for k, j in T.grid(2, 8):
                B[vi * 2 + k, j] = V[k, j] + T.Cast("float32", n // 2)
"""


def test_everything_with_the_variable_in_its_layout_follows():
    func = parse(SYMBOLIC)
    special = func.specialize({func.params[2]: 3})
    assert_structural_equal(
        special,
        parse(
            """
@T.prim_func
def main(a: T.handle, b: T.handle, scale: T.float32):
    A = T.match_buffer(a, (6, 8))
    B = T.match_buffer(b, (6, 8))
    staged = T.alloc_buffer((6, 8), strides=(8, 1))
    for i, j in T.grid(6, 8):
        with T.block("stage"):
            vi, vj = T.axis.remap("SS", [i, j])
            staged[vi, vj] = A[vi, vj] * scale
    for i in range(3):
        with T.block("pair"):
            vi = T.axis.spatial(3, i)
            T.reads(staged[vi * 2:vi * 2 + 2, 0:8])
            T.writes(B[vi * 2:vi * 2 + 2, 0:8])
            V = T.match_buffer(staged[vi * 2:vi * 2 + 2, 0:8], (2, 8), strides=(8, 1))
            for k, j in T.grid(2, 8):
                B[vi * 2 + k, j] = V[k, j] + T.float32(1)
"""
        ),
    )
    verify_well_formed(special)
    a, b = np.random.default_rng(0).random((6, 8), "float32"), np.zeros((6, 8), "float32")
    interpret(special, a, b, 2.0)
    np.testing.assert_allclose(b, a * 2 + 1)


def test_a_buffer_gives_the_variables_of_the_layout():
    func = parse(
        """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n, s = T.int64(), T.int64()
    A = T.match_buffer(a, (n * T.int64(2),))
    B = T.match_buffer(b, (n,), strides=(s,))
    for i in range(n):
        B[i] = A[i * T.int64(2)]
"""
    )
    given = decl_buffer((5,), strides=(3,), name="given")
    special = func.specialize({func.params[1]: given})
    assert special.buffer_map[func.params[1]] is given
    assert [int(n) for n in special.buffer_map[func.params[0]].shape] == [10]
    used = {node.buffer for node in walk(special.body) if hasattr(node, "buffer")}
    assert used == set(special.buffer_map.values())


def test_what_is_divided_by_zero_may_never_run():
    func = parse(
        """
@T.prim_func
def main(b: T.handle, n: T.int32):
    B = T.match_buffer(b, (8,), "int32")
    if n > 0:
        B[0] = 8 // n
"""
    )
    verify_well_formed(func.specialize({func.params[1]: 0}))


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"b": 3}, IRValueError, "b is not a parameter that 3 can specialize"),
        ({"other": 3}, IRValueError, "other is not a parameter"),
        ({"n": decl_buffer((6, 8), name="X")}, IRValueError, "n is not a parameter"),
        ({"b": decl_buffer((6,), name="X")}, IRValueError, "it has 1 dimension(s)"),
        ({"b": decl_buffer((6, 8), "int8", "X")}, IRTypeError, "it is int8 in scope global"),
        ({"b": decl_buffer((6, 8), scope="shared")}, IRTypeError, "in scope shared"),
        ({"b": decl_buffer((6, 8), name="X")}, IRValueError, "it has 6, expected n * 2"),
        ({"n": 4, "b": decl_buffer((6, 8), name="X")}, IRValueError, "it has 6, expected n * 2"),
        ({"n": T.int64(4)}, None, ""),
        ({"n": T.float32(4)}, IRTypeError, "n is int32, but its value T.float32(4.0) is float32"),
    ],
)
def test_values_that_do_not_fit(values, error, message):
    func = parse(SYMBOLIC)
    names = {param.name: param for param in func.params}
    given = {names.get(name, Var(name, "int32")): value for name, value in values.items()}
    if error is None:
        func.specialize(given)
        return
    with pytest.raises(error) as raised:
        func.specialize(given)
    assert message in str(raised.value)


def test_a_pointer_gives_way_to_a_variable_only():
    func = parse(
        """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    A[0] = T.float32(1)
"""
    )
    (buffer,) = func.buffer_map.values()
    with pytest.raises(
        IRTypeError, match="pointer A of buffer A can only be replaced by a variable"
    ):
        substitute(func.body, {buffer.data: T.call_extern("handle", "f")})


@pytest.mark.parametrize(
    ("number", "sum_"), [(5, "5 + vi"), (2147483640, 'T.reinterpret("int32", 2147483640) + vi')]
)
def test_arithmetic_that_wraps_on_a_scalar_still_does(number, sum_):
    text = """
@T.prim_func
def main(n: T.int32, C: T.Buffer((16,), "int32")):
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = (n + vi) // 2
"""
    func = parse(text)
    special = func.specialize({func.params[0]: number})
    assert_structural_equal(
        special, parse(text.replace("n: T.int32, ", "").replace("n + vi", sum_))
    )
    before, after = np.zeros(16, "int32"), np.zeros(16, "int32")
    interpret(func, number, before)
    interpret(special, after)
    np.testing.assert_array_equal(after, before)


POINTERS = """
@T.prim_func
def main(A_data: T.handle("float32"), B_data: T.handle("float32")):
    A = T.decl_buffer((32,), data=A_data)
    B = T.decl_buffer((16,), data=B_data)
    for i in range(16):
        B[i] = A[i] * T.float32(2)
"""


def test_a_pointer_is_the_address_of_an_element():
    func = parse(POINTERS)
    (memory, _) = (node.buffer for node in walk(func.body) if isinstance(node, DeclBuffer))
    special = func.specialize({func.params[1]: T.address_of(memory[16])})
    expected = """
@T.prim_func
def main(A_data: T.handle("float32")):
    A = T.decl_buffer((32,), data=A_data)
    B_data: T.let[T.handle("float32")] = T.address_of(A[16])
    B = T.decl_buffer((16,), data=B_data)
    for i in range(16):
        B[i] = A[i] * T.float32(2)
"""
    assert_structural_equal(special, parse(expected))
    assert_structural_equal(parse(special.script()), special)
    verify_well_formed(special)


def test_a_pointer_is_another_parameter():
    func = parse(POINTERS)
    special = func.specialize({func.params[1]: func.params[0]})
    assert [param.name for param in special.params] == ["A_data"]
    assert "B = T.decl_buffer((16,), data=A_data)" in special.script()


def test_a_name_is_no_variable():
    with pytest.raises(IRTypeError, match=r"got the key 'n'; parameters are in func\.params"):
        parse(SYMBOLIC).specialize({"n": 3})
