"""Operators of graphs: declarations, library functions, axes at run time, loops."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import codegen
from tensorir import IRModule, IRTypeError, IRValueError, assert_structural_equal, parse, relax
from tensorir.interp.graphs import interpret_graph
from tensorir.nodes.expr import GlobalVar, PrimExpr, Var
from tensorir.relax import op
from tensorir.relax.callee import is_pure_call
from tensorir.relax.declaration import composite, operator
from tensorir.relax.library.loop import call_loop, run_loop
from tensorir.relax.operator import Operator
from tensorir.te import Tensor, compute
from tensorir.transform import DeadCodeElimination, DecomposeOps, LegalizeOps
from tensorir.verify import verify_well_formed
from tests.operator_cases import Case, check

# --------------------------- Operators: what a call takes, what it gives, and what it is lowered to


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
    vm = codegen.VirtualMachine(
        codegen.vm_build(after, "llvm", default_schedules=False), codegen.cpu()
    )
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
        built = codegen.vm_build(LegalizeOps()(IRModule({"main": mod})), default_schedules=False)
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


# ------------------------------------------------ Operators that NumPy computes when the model runs

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 6)).astype("float32")
FEW = np.array([[3, 1, 2, 1, 3, 3], [0, 0, 2, 1, 2, 0]], "int64")


def test_sorting() -> None:
    nans = np.array([[1, np.nan, 0, np.nan, 2, -1]], "float32")
    check(
        [
            Case("sort", lambda x: op.sort(x), lambda x: np.sort(x), X),
            Case("descending", lambda x: op.sort(x, 0, True), lambda x: np.sort(x, 0)[::-1], X, shapes=[("n", 6)]),
            Case("argsort", lambda x: op.argsort(x), lambda x: np.argsort(x, kind="stable").astype("int32"), FEW),
            Case("argsort, descending", lambda x: op.argsort(x, 1, True, "int64"), lambda x: np.argsort(-x, 1, kind="stable"), FEW),
            Case("topk", lambda x: op.topk(x, 2, dtype="int64"), lambda x: (-np.sort(-x)[:, :2], np.argsort(-x, kind="stable")[:, :2]), FEW),
            Case("topk, least", lambda x: op.topk(x, 3, 0, "values", False), lambda x: np.sort(x, 0)[:3], X, shapes=[("n", 6)]),
            Case("topk, NaN", lambda x: op.topk(x, 3, ret_type="indices"), lambda x: np.array([[1, 3, 4]], "int32"), nans),
            Case("topk, symbolic", lambda x, y, sizes: op.topk(x, sizes["k"], ret_type="values"), lambda x, y: -np.sort(-x)[:, :3], X, X, shapes=[(3, 6), ("k", 6)]),
            Case("bfloat16", lambda x: op.astype(op.sort(op.astype(x, "bfloat16")), "float32"), lambda x: np.sort(x), X.round()),
            Case("topk, bfloat16", lambda x: op.astype(op.topk(op.astype(x, "bfloat16"), 2)[0], "float32"), lambda x: -np.sort(-x)[:, :2], FEW.astype("float32")),
            Case("extremes so far", lambda x: op.cumulative_extreme(x, 0), lambda x: (np.maximum.accumulate(x), np.array([[0, 0, 0], [1, 0, 1], [1, 0, 2]])), np.array([[1, 5, -2], [3, 2, 0], [2, 4, 0]], "float32")),
            Case("topk, all", lambda x: op.topk(x, -1, ret_type="values"), lambda x: -np.sort(-x), X),
            Case("median", lambda x: op.median(x, 1), lambda x: np.sort(x, 1)[:, 2], X),
            Case("median of all", lambda x: op.median(x, keepdims=True), lambda x: np.sort(x, None)[8].reshape(1, 1), X),
            Case("bucketize", lambda x, b: op.bucketize(x, b), lambda x, b: np.searchsorted(b, x), FEW, np.array([1, 2])),
            Case("bucketize right", lambda x, b: op.bucketize(x, b, True, True), lambda x, b: np.searchsorted(b, x, "right").astype("int32"), FEW, np.array([1, 2])),
            Case("searchsorted", lambda x, v: op.searchsorted(op.sort(x), v), lambda x, v: np.stack([np.searchsorted(np.sort(r), w) for r, w in zip(x, v, strict=True)]), X, -X[:, :2]),
        ]
    )  # fmt: skip


@pytest.mark.parametrize("largest", [True, False])
def test_the_first_of_equal_elements_comes_first(largest: bool) -> None:
    many = RNG.integers(0, 9, (40, 30)).astype("float32")
    many[:20] += RNG.random((20, 30))
    order = np.argsort(-many if largest else many, kind="stable")

    def expected(x: Any) -> Any:
        return order[:, :7].astype("int32")

    check(
        [
            Case("rows", lambda x: op.topk(x, 7, 1, "indices", largest), expected, many),
            Case("columns", lambda x: op.topk(x, 7, 0, "indices", largest), lambda x: expected(x).T, many.T),
            Case("a vector", lambda x: op.topk(x, 7, -1, "indices", largest), lambda x: expected(x)[-1], many[-1]),
        ]
    )  # fmt: skip


def test_shapes_that_data_decide() -> None:
    def unique(x: Any) -> Any:
        return np.unique(x, return_index=True, return_inverse=True, return_counts=True)

    check(
        [
            Case("nonzero", lambda x: op.nonzero(x), lambda x: np.stack(np.nonzero(x)), FEW),
            Case("nonzero of a scalar", lambda x: op.nonzero(x), lambda x: np.empty((0, 1), "int64"), np.float32(2)),
            Case("unique", lambda x: op.unique(x), np.unique, FEW),
            Case("unique and more", lambda x: op.unique(x, True, True, True, True), unique, FEW.reshape(-1)),
            Case("unique in order", lambda x: op.unique(x, False, return_inverse=True), lambda x: (np.array([3, 1, 2, 0]), np.array([0, 1, 2, 1, 0, 0, 3, 3, 2, 1, 2, 3])), FEW),
            Case("unique columns", lambda x: op.unique(x, axis=1), lambda x: np.unique(x, axis=1), FEW),
            Case("compress", lambda x, c: op.compress(x, c, 1), lambda x, c: x[:, :3][:, c], FEW, np.array([True, False, True])),
            Case("masked_select", lambda x, m: op.masked_select(x, m), lambda x, m: x[m], FEW, FEW > 1),
            Case("slices", lambda x, b, e, s: op.dynamic_strided_slice(x, b, e, s), lambda x, b, e, s: x[1:2, 5:0:-2], FEW, np.array([1, 5]), np.array([2, 0]), np.array([1, -2])),
        ]
    )  # fmt: skip


def test_known_results_have_known_shapes() -> None:
    x = relax.Var("x", relax.TensorStructInfo((3, 6), "float32"))
    assert str(op.topk(x, 2).struct_info) == (
        'R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((3, 2), dtype="int32"))'
    )
    assert str(op.unique(x).struct_info) == 'R.Tensor(dtype="float32", ndim=1)'


def test_non_max_suppression() -> None:
    boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [1, 0.9, 0, -0.1], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]]], "float32")  # fmt: skip
    centers = np.array([[[0.5, 0.5, 1, 1], [0.6, 0.5, 1, 1], [0.4, 0.5, 1, 1], [10.5, 0.5, 1, 1], [10.6, 0.5, 1, 1], [100.5, 0.5, 1, 1]]], "float32")  # fmt: skip
    scores = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3]]], "float32")
    most, overlap, least = np.int64(3), np.float32(0.5), np.float32(0.4)

    def call(b: Any, s: Any, m: Any, o: Any, t: Any) -> Any:
        return op.vision.non_max_suppression(b, s, m, o, t)

    def of_centers(b: Any, s: Any, m: Any, o: Any) -> Any:
        return op.vision.non_max_suppression(b, s, m, o, center_point_box=True)

    check(
        [
            Case("corners", call, lambda *_: np.array([[0, 0, 3], [0, 0, 0]]), boxes, scores, most, overlap, least),
            Case("one", call, lambda *_: np.array([[0, 0, 3]]), boxes, scores, np.int64(1), overlap, least),
            Case("centers", of_centers, lambda *_: np.array([[0, 0, 3], [0, 0, 0], [0, 0, 5]]), centers, scores, most, overlap),
            Case("none", lambda b, s: op.vision.non_max_suppression(b, s), lambda *_: np.empty((0, 3), "int64"), boxes, scores),
        ]
    )  # fmt: skip


def test_random_numbers() -> None:
    def close(mean: float, deviation: float) -> Callable[[Any], Any]:
        return lambda x: np.array([mean, deviation], "float32")

    def statistics(x: Any) -> Any:
        whole = op.astype(x, "float32")
        return op.stack([op.mean(whole), op.std(whole)])

    shape = (100, 400)
    biased = np.full(shape, 0.3, "float32")
    odds = np.log(np.array([[1, 1, 2, 0]] * 50, "float32") + 1e-20)
    with np.errstate(divide="ignore"):
        check(
            [
                Case("uniform", lambda x: statistics(op.random.uniform(shape, -1.0, 3.0, 7)), close(1, 4 / 12**0.5), biased, atol=0.02),
                Case("normal", lambda x: statistics(op.random.normal(shape, 2.0, 3.0, 7)), close(2, 3), biased, atol=0.05),
                Case("randint", lambda x: statistics(op.random.randint(shape, 0, 10)), close(4.5, (99 / 12) ** 0.5), biased, atol=0.05),
                Case("bernoulli", lambda x: statistics(op.random.bernoulli(x, 3)), close(0.3, 0.21**0.5), biased, atol=0.01),
                Case("multinomial", lambda x: statistics(op.equal(op.random.multinomial(x, 400, 5), 2)), close(0.5, 0.5), odds, atol=0.02),
                Case("any n", lambda x, sizes: op.random.uniform((sizes["n"], 2)), lambda x: np.random.default_rng(0).uniform(0, 1, (100, 2)).astype("float32"), biased, shapes=[("n", 400)]),
            ]
        )  # fmt: skip


# ------------------------- Operators along axes, and with sizes, that are known when the model runs

RUN_X = np.arange(24, dtype="float32").reshape(2, 3, 4)[:, :, ::-1].copy()


def run_tensor(name: str, *shape: int, dtype: str = "int64") -> relax.Var:
    return relax.Var(name, relax.TensorStructInfo(shape, dtype))


def run(build: Callable[..., list[Any]], *arrays: Any) -> list[Any]:
    """Return what calls of operators give for arrays, which are parameters."""
    params = [run_tensor(f"p{k}", *a.shape, dtype=str(a.dtype)) for k, a in enumerate(arrays)]
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(build(*params))
    vm = codegen.VirtualMachine(
        codegen.vm_build(LegalizeOps()(bb.finalize()), "llvm"), codegen.cpu()
    )
    return [value.numpy() for value in vm["main"](*arrays)]


def test_axes() -> None:
    axes, one = np.array([0, -1]), np.array([1])

    def build(x: Any, axes: Any, one: Any) -> list[Any]:
        return [
            op.reduce_at(x, axes, kind="sum"),
            op.reduce_at(x, axes, kind="max", keepdims=True),
            op.reduce_at(x, one, kind="log_sum_exp"),
            op.cumulated_at(x, one, kind="cumsum"),
            op.cumulated_at(x, one, kind="cumprod", exclusive=True, reverse=True),
            op.expand_dims_at(x, axes),
            op.slice_at(x, one, one + 1, one, one),
        ]

    sum_, max_, log, cumsum, cumprod, wide, part = run(build, RUN_X, axes, one)
    np.testing.assert_array_equal(sum_, RUN_X.sum((0, 2)))
    np.testing.assert_array_equal(max_, RUN_X.max((0, 2), keepdims=True))
    np.testing.assert_allclose(log, np.log(np.exp(RUN_X.astype("float64")).sum(1)), rtol=1e-6)
    np.testing.assert_array_equal(cumsum, RUN_X.cumsum(1))
    np.testing.assert_array_equal(
        cumprod, np.stack([RUN_X[:, 1] * RUN_X[:, 2], RUN_X[:, 2], np.ones((2, 4))], 1)
    )
    assert wide.shape == (1, 2, 3, 4, 1)
    np.testing.assert_array_equal(part, RUN_X[:, 1:2])


def test_ranks_follow_from_the_number_of_axes() -> None:
    x, axes = run_tensor("x", 2, 3, 4, dtype="float32"), run_tensor("axes", 2)
    assert str(op.reduce_at(x, axes, kind="sum").struct_info) == 'R.Tensor(dtype="float32", ndim=1)'
    assert str(op.expand_dims_at(x, axes).struct_info) == 'R.Tensor(dtype="float32", ndim=5)'
    with pytest.raises(IRTypeError, match="reduce_at: run-time axes are not supported"):
        op.reduce_at(run_tensor("x", 2, dtype="bfloat16"), axes, kind="sum")


def test_sizes() -> None:
    target, limits, sides = np.array([0, -1, 2]), np.array(7, "int32"), np.array([4, 5])

    def build(x: Any, target: Any, limits: Any, sides: Any) -> list[Any]:
        return [
            op.reshape_target(target, [2, 3, 4]),
            op.arange_between(limits - 7, limits, limits - 4),
            op.pad_width_at(sides, relax.const(np.array([-1]), "int64"), count=3),
            op.nn.dynamic_pad(x, [0, 0, 1, -1, 0, 2], pad_value=5.0),
        ]

    shape, numbers, widths, padded = run(build, RUN_X, target, limits, sides)
    np.testing.assert_array_equal(shape, [2, 6, 2])
    np.testing.assert_array_equal(numbers, [0, 3, 6])
    np.testing.assert_array_equal(widths, [0, 0, 4, 0, 0, 5])
    expected = np.pad(RUN_X, [(0, 0), (1, 0), (0, 2)], constant_values=5)[:, :-1]
    np.testing.assert_array_equal(padded, expected)


# -------------- Loops of graph functions: a library function that is given a function of the module

RUNNING_SUM = """
@I.ir_module
class Module:
    @R.function(private=True)
    def step(k: R.Tensor((), "int64"), total: R.Tensor((2,), "float32"), scale: R.Tensor((2,), "float32")):
        with R.dataflow():
            more = R.add(total, scale)
            R.output(more)
        return (R.const(True, "bool"), more, more)

    @R.function
    def main(x: R.Tensor((2,), "float32"), rounds: R.Tensor((), "int64")):
        cls = Module
        loop: R.Tuple(R.Tensor((2,), "float32"), R.Tensor(dtype="float32", ndim=2)) = R.call_pure_packed("tensorir.op.loop", cls.step, R.str("[\\"float32\\"]"), (R.shape([2]),), rounds, R.prim_value(True), (x,), (x,), sinfo_args=(R.Tuple(R.Tensor((2,), "float32"), R.Tensor(dtype="float32", ndim=2)),))
        return loop
"""


def parsed(text: str) -> IRModule:
    mod = parse(text)
    assert isinstance(mod, IRModule)
    return mod


def machine(mod: IRModule) -> codegen.VirtualMachine:
    return codegen.VirtualMachine(codegen.vm_build(mod, "llvm"), codegen.cpu())


def test_a_loop_carries_values_and_stacks_parts() -> None:
    mod = parsed(RUNNING_SUM)
    verify_well_formed(mod)
    assert_structural_equal(parse(mod.script()), mod)
    main = machine(LegalizeOps()(mod))["main"]
    x = np.array([1, 2], "float32")
    for rounds in (0, 1, 20, 500):
        total, parts = main(x, np.array(rounds))
        np.testing.assert_array_equal(total, x * (rounds + 1))
        assert parts.shape == (rounds, 2)
        np.testing.assert_array_equal(parts, np.outer(np.arange(2, rounds + 2), x))


def test_the_interpreter_runs_loops() -> None:
    mod = LegalizeOps()(parsed(RUNNING_SUM))
    x = np.array([1, 2], "float32")
    total, parts = interpret_graph(
        mod, "main", x, np.array(3), library={"tensorir.op.loop": run_loop}
    )
    assert total.tolist() == [4, 8]
    assert parts.tolist() == [[2, 4], [3, 6], [4, 8]]


def test_functions_that_loops_run_are_not_dead() -> None:
    mod = parsed(RUNNING_SUM)
    assert list(DeadCodeElimination()(mod).functions) == ["step", "main"]


GROWING = """
@I.ir_module
class Module:
    @R.function(private=True)
    def step(k: R.Tensor((), "int64"), x: R.Tensor(("n",), "float32")):
        n = T.int64()
        with R.dataflow():
            more = R.add(x, R.astype(k, "float32"))
            again = R.not_equal(k, R.const(2, "int64"))
            R.output(more, again)
        twice = R.call_pure_packed("tests.twice", more, sinfo_args=(R.Tensor(dtype="float32", ndim=1),))
        return (again, twice)

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        cls = Module
        loop = R.call_pure_packed("tensorir.op.loop", cls.step, R.str("[]"), R.tuple(), R.tuple(), R.prim_value(True), (x,), R.tuple(), sinfo_args=(R.Tuple(R.Tensor(dtype="float32", ndim=1)),))
        return loop
"""


def test_values_that_change_shape_and_a_condition_that_ends_the_loop() -> None:
    codegen.register_func("tests.twice", lambda x: np.concatenate([x, x]))
    try:
        main = machine(LegalizeOps()(parsed(GROWING)))["main"]
        (y,) = main(np.array([0, 10], "float32"))
    finally:
        codegen.remove_global_func("tests.twice")
    expected: Any = np.array([0, 10], "float32")
    for k in range(3):
        expected = np.tile(expected + np.float32(k), 2)
    np.testing.assert_array_equal(y, expected)


def test_a_call_that_is_given_a_function_with_effects_has_them() -> None:
    mod = parsed(RUNNING_SUM)
    call = mod["main"].body.bindings[0].value
    assert is_pure_call(call, mod)
    text = RUNNING_SUM.replace("R.function(private=True)", "R.function(private=True, pure=False)")
    assert not is_pure_call(call, parsed(text))


def test_a_library_function_is_given_graph_functions_only() -> None:
    kernels = """
@I.ir_module
class Module:
    @T.prim_func
    def copy(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
        for i in range(2):
            with T.block("copy"):
                v = T.axis.spatial(2, i)
                B[v] = A[v]

    @R.function
    def main(x: R.Tensor((2,), "float32")):
        cls = Module
        y = R.call_pure_packed("f", cls.copy, x, sinfo_args=(R.Tensor((2,), "float32"),))
        return y
"""
    with pytest.raises(Exception, match='"copy" is a tensor function, and a library function'):
        verify_well_formed(parsed(kernels))


def test_parts_have_to_be_of_one_shape() -> None:
    with pytest.raises(IRValueError, match="round 1 of a loop returns an array of shape"):
        run_loop(
            lambda k: (True, np.zeros(int(k), "float32")), '["float32"]', ((0,),), 3, True, (), ()
        )


def test_stated_results_have_to_be_as_many_as_there_are() -> None:
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))
    with pytest.raises(IRValueError, match="stacks 0 returns 1, but out_sinfo states 0"):
        call_loop(GlobalVar("step"), [x], out_sinfo=[])
    unknown = relax.TensorStructInfo(None, "float32")
    with pytest.raises(IRTypeError, match="dtype and rank are known"):
        call_loop(GlobalVar("step"), [], out_sinfo=[unknown], scans=[unknown])
