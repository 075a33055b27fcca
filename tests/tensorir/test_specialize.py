"""Functions with symbolic parameters and shapes fixed."""

import numpy as np
import pytest

from tensorir import (
    IRTypeError,
    IRValueError,
    T,
    assert_structural_equal,
    decl_buffer,
    parse,
    substitute,
    verify_well_formed,
)
from tensorir.interp import interpret
from tensorir.nodes.expr import Var
from tensorir.nodes.stmt import DeclBuffer
from tensorir.rewriting.visit import walk

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


def test_declared_buffers_and_pointers_follow():
    func = parse(
        """
@T.prim_func
def main(b: T.handle, n: T.int32):
    B = T.match_buffer(b, (n,))
    p = T.allocate([n * 4], "float32", "global")
    whole = T.Buffer((n * 4,), data=p)
    part = T.decl_buffer((n,), data=p, elem_offset=n)
    for i in range(n * 4):
        whole[i] = T.float32(1)
    for i in range(n):
        B[i] = part[i]
"""
    )
    special = func.specialize({func.params[1]: 2})
    assert_structural_equal(
        special,
        parse(
            """
@T.prim_func
def main(b: T.handle):
    B = T.match_buffer(b, (2,))
    p = T.allocate([8], "float32", "global")
    whole = T.Buffer((8,), data=p)
    part = T.decl_buffer((2,), data=p, elem_offset=2)
    for i in range(8):
        whole[i] = T.float32(1)
    for i in range(2):
        B[i] = part[i]
"""
        ),
    )
    verify_well_formed(special)


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
        ({"b": decl_buffer((6, 8), name="X")}, IRValueError, "it has 6 where n * 2 is needed"),
        ({"n": 4, "b": decl_buffer((6, 8), name="X")}, IRValueError, "it has 6 where n * 2"),
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


def test_substitution_gives_a_buffer_one_successor():
    func = parse(
        """
@T.prim_func
def main(n: T.int32):
    p = T.allocate([n], "float32", "global")
    D = T.decl_buffer((n,), data=p)
    for i in range(n):
        D[i] = D[0] + T.float32(1)
"""
    )
    body = substitute(func.body, {func.params[0]: 16})
    (declared,) = [node.buffer for node in walk(body) if isinstance(node, DeclBuffer)]
    assert int(declared.shape[0]) == 16
    assert {node.buffer for node in walk(body) if hasattr(node, "buffer")} == {declared}


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
