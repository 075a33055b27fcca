"""Operators: what a call takes, what it gives, and what it is lowered to."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import codegen
from tensorir import IRModule, IRTypeError, IRValueError, assert_structural_equal, parse, relax
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.relax import op
from tensorir.relax.declaration import composite, operator
from tensorir.relax.operator import Operator
from tensorir.te import Tensor, compute
from tensorir.transform import DecomposeOps, LegalizeOps


def tensor(name: str, *shape: int, dtype: str = "float32") -> relax.Var:
    return relax.Var(name, relax.TensorStructInfo(shape, dtype))


def test_a_call_knows_shape_and_dtype_of_its_result() -> None:
    call = op.add(tensor("x", 2, 3), tensor("y", 3))
    assert str(call.struct_info) == 'R.Tensor((2, 3), dtype="float32")'


def test_numbers_have_the_dtype_of_the_tensor_beside_them() -> None:
    call = tensor("x", 2, dtype="int64") + 1
    assert str(call.args[1]) == 'R.const(1, "int64")'


def test_unknown_dimensions_stay_unknown() -> None:
    x = relax.Var("x", relax.TensorStructInfo(dtype="float32", ndim=2))
    assert str(op.nn.relu(x).struct_info) == 'R.Tensor(dtype="float32", ndim=2)'


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: op.add(x), "add needs x2, a tensor or a number: add"),
        (lambda x: op.add(x, x, 1), "add got 3 arguments by position: add"),
        (lambda x: op.add(x, y=x), "add has no argument y: add"),
        (lambda x: op.add(x, x2="a"), "x2 of add must be a tensor or a number, got str 'a'"),
        (lambda x: op.add(x, tensor("y", 4)), r"add: shapes \(2, 3\), \(4\) do not broadcast"),
        (lambda x: op.add(x, op.astype(x, "int8")), "add: operands must have one dtype"),
        (lambda x: op.astype(x), "astype needs dtype"),
        (
            lambda x: op.astype(x, dtype=3),
            "dtype of astype must be a dtype such as 'float32', got 3",
        ),
    ],
)
def test_errors_name_operator_argument_and_remedy(
    call: Callable[[relax.Var], object], message: str
) -> None:
    with pytest.raises((IRTypeError, IRValueError), match=message):
        call(tensor("x", 2, 3))


def test_a_name_that_no_operator_has() -> None:
    with pytest.raises(AttributeError, match=r"there is no operator relax\.nn\.rellu"):
        _ = op.nn.rellu


BEFORE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, "n"), "float32")):
        with R.dataflow():
            y = R.test.swish(R.add(x, 1.0))
            z = R.nonzero(y)
            R.output(y, z)
        return (y, z)
"""


@pytest.fixture
def swish() -> Iterator[None]:
    @composite("test.swish")
    def swish(x: relax.GraphExpr) -> relax.GraphExpr:
        return x * op.sigmoid(x)

    yield
    del Operator.table["relax.test.swish"]


@pytest.mark.usefixtures("swish")
def test_legalize_ops() -> None:
    mod = parse(BEFORE)
    assert isinstance(mod, IRModule)
    assert_structural_equal(parse(mod.script()), mod)
    assert DecomposeOps()(mod).script().count("R.sigmoid") == 1
    after = LegalizeOps()(mod)
    calls = [line.strip().partition(" = ")[2] for line in after.script().splitlines()]
    assert [c.partition(", out_sinfo")[0] for c in calls if c.startswith("R.call")] == [
        "R.call_tir(cls.add, (x,)",
        "R.call_tir(cls.sigmoid, (lv,)",
        "R.call_tir(cls.multiply, (lv, lv1)",
        'R.call_pure_packed("tensorir.op.nonzero", R.str("{}"), y, '
        'sinfo_args=(R.Tensor(dtype="int64", ndim=2),))',
    ]
    vm = codegen.VirtualMachine(codegen.vm_build(after, "llvm"), codegen.cpu())
    x = np.array([[0, 1, -1], [2, 3, -1]], "float32")
    y, z = vm["main"](x)
    np.testing.assert_allclose(y.numpy(), (x + 1) / (1 + np.exp(-x - 1)), rtol=1e-6)
    np.testing.assert_array_equal(z.numpy(), np.stack(np.nonzero(x + 1)))


def test_an_operator_of_ones_own_is_one_function() -> None:
    @operator("test.reversed")
    def reversed_(x: Tensor, axis: int = 0) -> Tensor:
        last = x.shape[axis] - 1
        return compute(x.shape, lambda *i: x[(*i[:axis], last - i[axis], *i[axis + 1 :])])

    try:
        mod = parse("""
@R.function
def main(x: R.Tensor((2, 3), "float32")):
    return R.test.reversed(x, axis=1)
""")
        built = codegen.vm_build(LegalizeOps()(IRModule({"main": mod})), "llvm")
        x = np.arange(6, dtype="float32").reshape(2, 3)
        result = codegen.VirtualMachine(built, codegen.cpu())["main"](x)
        np.testing.assert_array_equal(result.numpy(), x[:, ::-1])
    finally:
        del Operator.table["relax.test.reversed"]


def test_a_kept_formula_does_not_keep_weights() -> None:
    weight = relax.const(np.ones((3, 5), "float32"))
    gone = weakref.ref(weight)
    call = op.matmul(tensor("x", 2, 3), weight)
    assert call.op.formula(call) is not None  # type: ignore[union-attr]
    del weight, call
    gc.collect()
    assert gone() is None


def test_formulas_run_once_for_calls_that_are_alike() -> None:
    runs = []

    @operator("test.counted")
    def counted(x: Tensor, y: Tensor | PrimExpr, axis: int = 0) -> Tensor:
        runs.append(axis)
        return compute(x.shape, lambda *i: x[i], name=f"axis{axis}")

    try:
        n = Var("n", "int64")
        x, y = (relax.Var(name, relax.TensorStructInfo((n, 3), "float32")) for name in "xy")
        for call in [(x, x), (x, y), (y, y)]:
            op.test.counted(*call)
        assert runs == [0]
        op.test.counted(x, y, axis=1)
        op.test.counted(x, 1.0)
        op.test.counted(x, 2.0)
        assert runs == [0, 1, 0, 0]
        other = relax.Var("z", relax.TensorStructInfo((Var("n", "int64"), 3), "float32"))
        op.test.counted(other, 1.0)
        assert runs == [0, 1, 0, 0, 0]

        builder = relax.BlockBuilder()
        with builder.function("main", [x, y]):
            first, second = (builder.emit(op.test.counted(a, b)) for a, b in [(x, y), (y, x)])
            builder.emit_func_output((first, second))
        after = LegalizeOps()(builder.get())
        assert len(runs) == 5  # the formula of the type is that of the function
        assert [name for name in after.functions if name != "main"] == ["counted"]
        assert "R.call_tir(cls.counted, (y, x)" in after.script()
    finally:
        del Operator.table["relax.test.counted"]
