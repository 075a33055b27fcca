"""What programs mean where it is easily got wrong: interpreter and compiled code agree."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from kernels import elementwise

import codegen
import tensorir
from tensorir.errors import IRValueError
from tensorir.function import PrimFunc
from tensorir.interp import InterpreterError, interpret
from tensorir.memory.value_variables import value_variables
from tensorir.nodes import expr as e
from tensorir.nodes import ops
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import FloatImm, Let, PrimExpr, Var
from tensorir.nodes.index_arithmetic import is_index_arithmetic

# ----------------------------------------------------------------------------------------- values


@pytest.mark.parametrize("lanes", [1, 8])
def test_a_shift_by_a_bound_variable_has_every_case_defined(lanes: int) -> None:
    def make(x: PrimExpr, y: PrimExpr) -> PrimExpr:
        amount = Var("amount", x.dtype)
        four = ops.const(4, x.dtype)
        by = Let(amount, four, amount + y)
        return e.Call(x.dtype, ops.Op.get("shift_left"), [x, by])

    x, y = np.full(8, 3, np.int32), np.array([0, 1, 28, 100, -5, -4, 27, 2], np.int32)
    (made,) = elementwise(make, ["int32", "int32"], lanes)(x, y)
    assert made.tolist() == [48, 96, 0, 0, 0, 3, -(2**31), 192]


# ------------------------------------------------------------------------------------------- laws

X = Var("x", "float32")
INF = FloatImm("float32", math.inf)
LOW = FloatImm("float32", -math.inf)
ZERO, MINUS_ZERO = FloatImm("float32", 0.0), FloatImm("float32", -0.0)


@pytest.mark.parametrize(
    ("build", "simple"),
    [
        (lambda: ops.add(X, ZERO), None),
        (lambda: ops.add(X, MINUS_ZERO), X),
        (lambda: ops.sub(X, ZERO), X),
        (lambda: ops.sub(X, MINUS_ZERO), None),
        (lambda: ops.mul(X, ZERO), None),
        (lambda: ops.mul(X, FloatImm("float32", 1.0)), X),
        (lambda: ops.div(ZERO, X), None),
        (lambda: ops.max_(X, INF), INF),
        (lambda: ops.max_(INF, X), None),
        (lambda: ops.max_(LOW, X), X),
        (lambda: ops.max_(X, LOW), None),
        (lambda: ops.min_(INF, X), X),
        (lambda: ops.min_(X, INF), None),
        (lambda: ops.min_(X, LOW), LOW),
        (lambda: ops.max_(X, X), X),
    ],
)
def test_laws_hold_for_nan_infinities_and_zeros(build: Any, simple: PrimExpr | None) -> None:
    made = build()
    assert (made is simple) if simple is not None else isinstance(made, e.BinaryOp)


def test_a_constant_divisor_of_zero_is_refused_for_integers_only() -> None:
    with pytest.raises(IRValueError, match="Divide by zero"):
        ops.floordiv(Var("n"), 0)
    folded = ops.div(FloatImm("float32", -1.0), ZERO)
    assert isinstance(folded, FloatImm)
    assert folded.value == -math.inf


def test_a_cast_of_a_sum_is_not_always_the_sum_of_casts() -> None:
    load = tensorir.decl_buffer((4,), "int8", "A")[0]
    ramp = e.Ramp(load, ops.const(1, "int8"), 4)
    assert isinstance(ops.cast("int32x4", ramp), e.Cast)
    assert isinstance(ops.cast("int8x4", e.Ramp(Var("i"), ops.as_expr(1), 4)), e.Ramp)
    assert isinstance(ops.cast("int64x4", e.Ramp(Var("i"), ops.as_expr(1), 4)), e.Ramp)


# ------------------------------------------------------------------------------------ contraction

FUSABLE = """
@T.prim_func
def f(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    T.func_attr({ATTRS})
    for i in T.vectorized(16):
        B[i] = A[i] * A[i] + B[i]
"""
APART = """
@T.prim_func
def f(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    T.func_attr({ATTRS})
    for i in T.vectorized(16):
        B[i] = T.Cast("float32", T.Cast("float64", A[i] * A[i]) + T.Cast("float64", B[i]))
"""


def llvm_of(text: str, **attrs: bool) -> str:
    names = {"global_symbol": "f", **{f"tir.{name}": value for name, value in attrs.items()}}
    return codegen.build(tensorir.parse(text.replace("{ATTRS}", repr(names)))).inspect_llvm()


def test_a_product_and_its_sum_are_fused_unless_the_function_forbids_it() -> None:
    assert "fmul contract" in llvm_of(FUSABLE)
    assert "contract" not in llvm_of(FUSABLE, no_contraction=True)


def test_nothing_is_fused_across_a_conversion() -> None:
    assert "contract" not in llvm_of(APART)


def test_without_contraction_both_operations_round() -> None:
    value = np.float32(1 + 2**-12)
    a, b = np.full(16, value), np.full(16, -(value * value))
    func = tensorir.parse(FUSABLE.replace("{ATTRS}", repr({"tir.no_contraction": True})))
    codegen.build(func)["f"](a, b)
    assert set(b.tolist()) == {0.0}


# ------------------------------------------------------------------------------------- evaluation


def test_a_choice_by_lanes_is_a_select() -> None:
    func = vector_program(
        lambda a, m: e.Call("int32x8", ops.Op.get("if_then_else"), [LANES < 4, LANES, LANES])
    )
    with pytest.raises(InterpreterError, match="needs a scalar condition"):
        interpret(func, np.zeros(8, np.int32), np.zeros(8, np.int32), 0)


def test_a_fault_in_the_value_not_selected_is_an_error() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    for i in range(4):
        B[i] = CHOICE(i < 3, A[i + 1], 0)
"""
    a, b = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    with pytest.raises(InterpreterError, match="index 4 of dimension 0 is not in"):
        interpret(tensorir.parse(text.replace("CHOICE", "T.Select")), a, b)
    interpret(tensorir.parse(text.replace("CHOICE", "T.if_then_else")), a, b)
    assert b.tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("i < 4 and A[i] > 1", [0, 0, 1, 1, 0, 0, 0, 0]),
        ("i >= 4 or A[i] > 1", [0, 0, 1, 1, 1, 1, 1, 1]),
    ],
)
@pytest.mark.parametrize("kind", ["range", "T.vectorized"])
def test_the_right_operand_is_evaluated_only_if_it_decides(
    condition: str, wanted: list[int], kind: str
) -> None:
    text = f"""
@T.prim_func
def f(A: T.Buffer((4,), "int32"), B: T.Buffer((8,), "int32")):
    for i in {kind}(8):
        B[i] = T.Select({condition}, 1, 0)
"""
    func = tensorir.parse(text)
    for lower in (lambda f: f, codegen.lower):
        b = np.zeros(8, np.int32)
        interpret(lower(func), np.arange(4, dtype=np.int32), b)
        assert b.tolist() == wanted
    b = np.zeros(8, np.int32)
    codegen.build(func, guard_pages=True)["f"](np.arange(4, dtype=np.int32), b)
    assert b.tolist() == wanted


LANES = e.Ramp(ops.as_expr(0), ops.as_expr(1), 8)


def vector_program(make: Any) -> PrimFunc:
    """Return `B[0:8] = make(A, m)` for arrays A and B of 8 int32 and a scalar m."""
    a, b = (tensorir.decl_buffer((8,), "int32", name) for name in "AB")
    m = Var("m")
    body = tensorir.nodes.stmt.BufferStore(b, make(a, m), [LANES])
    return PrimFunc([a, b, m], body, attrs={"global_symbol": "f", "tir.noalias": True})


def lanes_from(a: Any, m: Var) -> PrimExpr:
    """Return 1 in the lanes from `m` on if the element that all of them ask for is positive."""
    positive = e.Broadcast(tensorir.nodes.expr.BufferLoad(a, [m]) > 0, 8)
    found = e.And(e.GE(LANES, e.Broadcast(m, 8)), positive)
    return e.Select(found, ops.const(1, "int32x8"), ops.const(0, "int32x8"))


def positive_ahead(a: Any, m: Var) -> PrimExpr:
    """Return 1 in the lanes whose element `m` further on exists and is positive."""
    element = tensorir.nodes.expr.BufferLoad(a, [e.Ramp(m, ops.as_expr(1), 8)])
    found = e.And(LANES + m < 8, element > 0)
    return e.Select(found, ops.const(1, "int32x8"), ops.const(0, "int32x8"))


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lanes_from, lambda a, m: [int(k >= m > 0) for k in range(8)]),
        (positive_ahead, lambda a, m: [int(k + m < 8 and k + m > 0) for k in range(8)]),
    ],
)
@pytest.mark.parametrize("m", [0, 3, 8])
def test_lanes_that_are_not_taken_load_nothing(make: Any, wanted: Any, m: int) -> None:
    func = vector_program(make)
    a = np.arange(8, dtype=np.int32)
    for run in (partial(interpret, func), codegen.build(func, guard_pages=True)["f"]):
        b = np.zeros(8, np.int32)
        run(a, b, m)
        assert b.tolist() == wanted(a, m)


def test_a_division_by_zero_is_an_error_of_the_interpreter() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    for i in range(4):
        B[i] = 6 // A[i]
"""
    func = tensorir.parse(text)
    with pytest.raises(InterpreterError, match=r"division by zero in `6 // A\[i\]`"):
        interpret(func, np.arange(4, dtype=np.int32), np.zeros(4, np.int32))
    codegen.build(func)["f"](np.arange(4, dtype=np.int32), np.zeros(4, np.int32))


def test_what_is_assumed_is_checked() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((4,), "int32")):
    for i in range(4):
        T.evaluate(T.assume(A[i] < 3))
"""
    interpret(tensorir.parse(text), np.zeros(4, np.int32))
    with pytest.raises(InterpreterError, match=r"a T\.assume does not hold"):
        interpret(tensorir.parse(text), np.arange(4, dtype=np.int32))


def test_a_function_gives_a_value_and_ends() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "int32")) -> T.int32:
    for i in range(8):
        if A[i] > 3:
            T.ret(i)
    T.ret(-1)
"""
    func = tensorir.parse(text)
    compiled = codegen.build(func)["f"]
    for values in (np.arange(8), np.zeros(8)):
        found = interpret(func, values.astype(np.int32))
        assert found == compiled(values.astype(np.int32)) == (4 if values.any() else -1)


# ------------------------------------------------------------------------------------------ memory


@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_arrays_with_strides_and_an_offset(step: int) -> None:
    text = """
@T.prim_func
def f(a: T.handle, b: T.handle):
    n = T.int32()
    rows = T.int32()
    columns = T.int32()
    A = T.match_buffer(a, (4, n), "float32", strides=[rows, columns], elem_offset=3)
    B = T.match_buffer(b, (4, n), "float32")
    for i in range(4):
        for j in range(n):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
"""
    a = np.arange(240, dtype=np.float32).reshape(12, 20)[::step, ::step][:4, :5]
    func = tensorir.parse(text)
    for name, _ in codegen.PASSES:
        b = np.zeros((4, 5), np.float32)
        interpret(codegen.lower(func, until=name), a, b)
        np.testing.assert_array_equal(b, a * 2, err_msg=name)


def test_memory_between_rows_is_out_of_bounds_for_the_buffer() -> None:
    text = """
@T.prim_func
def f(a: T.handle):
    A = T.match_buffer(a, (4, 4), "float32", strides=[8, 1])
    A[0, 5] = T.float32(1)
"""
    with pytest.raises(InterpreterError, match="index 5 of dimension 1 is not in"):
        interpret(tensorir.parse(text), np.zeros((4, 8), np.float32)[:, :4])


def test_shapes_that_are_expressions_are_checked() -> None:
    text = """
@T.prim_func
def f(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n * 2,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        B[i] = A[i * 2]
"""
    func = tensorir.parse(text)
    b = np.zeros(3, np.float32)
    interpret(func, np.arange(6, dtype=np.float32), b)
    assert b.tolist() == [0, 2, 4]
    with pytest.raises(IRValueError, match="extent 7 in dimension 0, expected 6"):
        interpret(func, np.zeros(7, np.float32), b)


def test_functions_of_a_module_call_one_another() -> None:
    module = tensorir.parse(
        """
@I.ir_module
class Module:
    @T.prim_func
    def scale(A: T.Buffer((4,), "float32"), factor: T.float32):
        for i in range(4):
            A[i] = A[i] * factor

    @T.prim_func
    def main(A: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(2):
            Module.scale(T.address_of(A[i * 4]), T.Cast("float32", i) + T.float32(2))
"""
    )
    interpreted, compiled = (np.ones(8, np.float32) for _ in range(2))
    interpret(module, interpreted)
    codegen.build(module)["main"](compiled)
    assert interpreted.tolist() == compiled.tolist() == [2] * 4 + [3] * 4


# --------------------------------------------------------------------------------- index arithmetic


def test_index_arithmetic_has_no_values_among_its_leaves() -> None:
    text = """
@T.prim_func
def f(a: T.handle, n: T.int32, k: T.int32):
    A = T.match_buffer(a, (n,), "int32")
    for i in range(n):
        x: T.int32 = A[i]
        y: T.int32 = i + n
        with T.block("B"):
            v = T.axis.spatial(n, i)
            w = T.axis.spatial(n, k)
            A[v] = w + x + y
"""
    func = tensorir.parse(text)
    assert isinstance(func, PrimFunc)
    assert {v.name for v in value_variables(func)} == {"k", "x", "w"}


def test_index_arithmetic_does_not_overflow() -> None:
    i, x = Var("i"), Var("x")
    assert is_index_arithmetic(i * 4 // 4 < 7)
    assert not is_index_arithmetic(i * 4 + x, {x})
    assert not is_index_arithmetic(ops.cast("uint8", i))
    assert not is_index_arithmetic(tensorir.decl_buffer((4,), "int32", "A")[i])
    text = """
@T.prim_func
def f(B: T.Buffer((3,), "int32")):
    for i in range(3):
        B[i] = (i + 1) * 1073741824 * 4 // 1073741824
"""
    made = np.zeros(3, np.int32)
    interpret(tensorir.parse(text), made)
    assert made.tolist() == [4, 8, 12]


def test_types_without_arithmetic_are_refused() -> None:
    x = Var("x", DataType("e4m3_float8"))
    func = PrimFunc([x], tensorir.nodes.stmt.Evaluate(e.Add(x, x)))
    with pytest.raises(TypeError, match="e4m3_float8 has no arithmetic"):
        interpret(func, 1.0)
