"""Weights: arrays as parameters, folded constants, and what depends only on weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from graph_modules import is_same, module_of
from text_cases import cases_of

from tensorir import (
    IRModule,
    IRTypeError,
    IRValueError,
    assert_structural_equal,
    parse,
    relax,
    verify_well_formed,
)
from tensorir.interp.graphs import interpret_graph
from tensorir.relax import op
from tensorir.relax.expr import Constant
from tensorir.relax.function import Function
from tensorir.rewriting.visit import walk
from tensorir.transform import (
    AttachAttrLayoutFreeBuffers,
    BindParams,
    DeadCodeElimination,
    FoldBatchNorm,
    FoldConstant,
    LegalizeOps,
    LiftTransformParams,
    SplitLayoutRewritePreproc,
    bind_params,
)
from tensorir.transform.kernel_runner import interpreted

GRAPHS = Path(__file__).parent / "graphs"

# --------------------------------------------------------------------------------------- BindParams

MODEL = module_of("""
    @R.function
    def main(x: F4, w: F4, b: F4):
        R.func_attr({"num_input": 1})
        cls = Module
        with R.dataflow():
            lv = R.call_tir(cls.add, (x, w), out_sinfo=F4)
            gv = R.call_tir(cls.add, (lv, b), out_sinfo=F4)
            R.output(gv)
        return gv
""")
SYMBOLIC = module_of("""
    @R.function
    def main(x: R.Tensor(("n",), "float32"), w: R.Tensor(("n",), "float32"), v: R.Tensor(("n * 2",), "float32")):
        n = T.int64()
        cls = Module
        y = R.call_tir(cls.double_any, (w,), out_sinfo=R.Tensor((n,), "float32"))
        return (x, y, v)
""")
W = np.arange(4, dtype="float32")
X = np.ones(4, "float32")


def constants(func: Function) -> list[Constant]:
    return [node for node in walk(func) if isinstance(node, Constant)]


def test_parameters_are_named_by_variables_too():
    _, w, b = MODEL["main"].params
    by_name = BindParams("main", {"w": W, "b": W})(MODEL)
    assert_structural_equal(BindParams("main", {w: W, "b": W})(MODEL), by_name)
    assert_structural_equal(BindParams("main", {w: W, b: W})(MODEL), by_name)


def test_bound_one_after_another_is_bound_at_once():
    twice = BindParams("main", {"b": W})(BindParams("main", {"w": W})(MODEL))
    assert_structural_equal(twice, BindParams("main", {"w": W, "b": W})(MODEL))


def test_inputs_that_are_left_are_counted():
    assert BindParams("main", {"w": W})(MODEL)["main"].attrs["num_input"] == 1
    assert BindParams("main", {"x": W})(MODEL)["main"].attrs["num_input"] == 0


def test_without_arrays_nothing_changes():
    assert is_same(BindParams("main", {})(MODEL), MODEL)


def test_sizes_follow_from_the_arrays_and_are_replaced_everywhere():
    bound = BindParams("main", {"w": W})(SYMBOLIC)
    expected = module_of("""
        @R.function
        def main(x: F4, w: F4, v: R.Tensor((8,), "float32")):
            cls = Module
            y = R.call_tir(cls.double_any, (w,), out_sinfo=F4)
            return (x, y, v)
    """)
    assert_structural_equal(bound, BindParams("main", {"w": W})(expected))


class Dlpack:
    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class Arraylike:
    def __array__(self, dtype=None, copy=None):
        return W


@pytest.mark.parametrize("value", [Dlpack(W.copy()), Arraylike(), Constant(W), W[::-1][::-1]])
def test_anything_that_is_an_array_is_taken(value):
    bound = bind_params(MODEL["main"], {"w": value})
    (constant,) = constants(bound)
    assert constant.data.tolist() == W.tolist()


def test_what_is_not_contiguous_is_copied():
    spread = np.arange(8, dtype="float32")[::2]
    (constant,) = constants(bind_params(MODEL["main"], {"w": spread}))
    assert constant.data.tolist() == [0.0, 2.0, 4.0, 6.0]


def test_the_function_is_chosen_by_its_public_name_else_by_its_key():
    mod = MODEL.clone()
    mod["private"] = MODEL["main"].without_attr("global_symbol")
    assert len(BindParams("private", {"w": W})(mod)["private"].params) == 2
    mod["key"] = MODEL["main"].with_attr("global_symbol", "public")
    assert len(BindParams("public", {"w": W})(mod)["key"].params) == 2


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"v": W}, IRValueError, r"unknown parameter v; .*the function has \['x', 'w', 'b'\]"),
        ({"ww": W}, IRValueError, r"unknown parameter ww; did you mean w\?"),
        ({"w": W.astype("float64")}, IRTypeError, 'w of "main" is .*float32.* convert the array'),
        ({"w": W[:3]}, IRTypeError, r'w of "main" is .*4,.*the array is R.Tensor\(\(3,\)'),
        ({"w": W.reshape(2, 2)}, IRTypeError, r"the array is R.Tensor\(\(2, 2\)"),
        ({"w": [1.0, 2.0]}, IRTypeError, r"w is bound to an array, got list"),
        ({MODEL["main"].params[1]: W, "w": W}, IRValueError, "w is given twice"),
        ({SYMBOLIC["main"].params[1]: W}, IRValueError, "the variable w is not a parameter"),
    ],
)
def test_what_does_not_fit_is_named(params, error, message):
    with pytest.raises(error, match=message) as raised:
        BindParams("main", params)(MODEL)
    assert raised.value.__notes__ == ["in the function main", "in the pass BindParams"]


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        (
            {"x": X, "w": X[:3]},
            IRTypeError,
            r"\(with n = T.int64\(4\) by x\), but the array is .*\(3,\)",
        ),
        ({"v": X}, IRValueError, r"the parameter v is .*, which leaves the value of n open"),
    ],
)
def test_sizes_that_contradict_are_named(params, error, message):
    with pytest.raises(error, match=message):
        BindParams("main", params)(SYMBOLIC)


def test_a_function_that_is_not_there_is_named():
    with pytest.raises(
        IRValueError, match=r"unknown graph function mian; the module has \['main'\]"
    ):
        BindParams("mian", {"w": W})(MODEL)
    with pytest.raises(IRTypeError, match="add is a tensor function"):
        BindParams("add", {"A": W})(MODEL)


def test_an_array_meets_a_parameter_of_the_same_symbolic_shape_in_an_if():
    mod = module_of("""
        @R.function
        def main(flag: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32"), w: R.Tensor(("n",), "float32")):
            n = T.int64()
            if flag:
                y = x
            else:
                y = w
            z: R.Tensor((n, 1), "float32") = R.memory.view(y, R.shape([n, 1]))
            return z
    """)
    bound = BindParams("main", {"w": W})(mod)
    assert bound["main"].ret_struct_info.static_shape == (4, 1)
    assert interpret_graph(bound, "main", np.array(False), X).ravel().tolist() == W.tolist()


# ------------------------------------------------------------------------------ LiftTransformParams


def lifted(graph: str) -> IRModule:
    mod = module_of(graph)
    after = LiftTransformParams()(mod)
    assert verify_well_formed(after)
    return after


def test_layouts_that_a_schedule_wants_are_rewritten_once() -> None:
    mod = parse("""
        @I.ir_module
        class Module:
            @T.prim_func
            def dense(X: T.Buffer((2, 4), "float32"), W: T.Buffer((2, 4), "float32"), Y: T.Buffer((2, 4), "float32")):
                P = T.alloc_buffer((4, 2))
                for i, j in T.grid(2, 4):
                    with T.block("pack"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                        P[vj, vi] = W[vi, vj]
                for i, j in T.grid(2, 4):
                    with T.block("use"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        Y[vi, vj] = X[vi, vj] * P[vj, vi]

            @R.function
            def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((2, 4), "float32")):
                R.func_attr({"num_input": 1})
                cls = Module
                y = R.call_tir(cls.dense, (x, w), out_sinfo=R.Tensor((2, 4), "float32"))
                return y
    """)
    mod = LiftTransformParams()(SplitLayoutRewritePreproc()(mod))
    x = np.arange(8, dtype="float32").reshape(2, 4)
    w = x[::-1].copy()
    (packed,) = interpret_graph(mod, "main_transform_params", (w,))
    assert packed.shape == (4, 2)
    assert interpret_graph(mod, "main", x, packed).tolist() == (x * w).tolist()


def test_weights_are_lifted_once() -> None:
    mod = lifted("""
        @R.function
        def main(x: F4, w: F4):
            R.func_attr({"num_input": 1})
            return (x, w)
    """)
    with pytest.raises(IRValueError, match="has a function main_transform_params already"):
        LiftTransformParams()(mod)


@pytest.mark.parametrize("count", ["3", "-1", '"all"'])
def test_a_number_of_inputs_that_cannot_be_is_refused(count: str) -> None:
    mod = parse(f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")):
        R.func_attr({{"num_input": {count}}})
        return x
""")
    with pytest.raises(
        IRValueError, match="num_input must be the number of parameters before the weights"
    ):
        LiftTransformParams()(mod)


# ------------------------------------------------------------------------ SplitLayoutRewritePreproc


def test_constants_are_packed_while_the_module_is_transformed() -> None:
    (case,) = (c for c in cases_of(GRAPHS / "split_layout_rewrite.txt") if "becomes two" in c.title)
    mod = module_of(case.before)
    x = np.arange(24, dtype="float32").reshape(4, 6)
    w = x[::-1].copy()
    after = FoldConstant()(SplitLayoutRewritePreproc()(BindParams("main", {"w": w})(mod)))
    (constant,) = constants(after["main"])
    np.testing.assert_array_equal(constant.data, w.T)
    assert len(after["main"].body.bindings) == 1
    np.testing.assert_array_equal(interpret_graph(after, "main", x), x * w)


# ---------------------------------------------------------------------- AttachAttrLayoutFreeBuffers

ATTACH_W = np.arange(4, dtype="float32")


def free(mod: IRModule, name: str) -> list[int] | None:
    positions = mod[name].attrs.get("layout_free_buffers")
    return None if positions is None else [int(k) for k in positions]


def test_what_a_function_states_stays() -> None:
    graph = """
        @R.function
        def main(x: F4, w: F4):
            cls = Module
            y = R.call_tir(cls.add, (x, w), out_sinfo=F4)
            return y
        """
    mod = module_of(graph)
    mod["add"] = mod["add"].with_attr("layout_free_buffers", [0])
    assert free(AttachAttrLayoutFreeBuffers()(mod), "add") == [0]
    bound = BindParams("main", {"w": ATTACH_W})(mod)
    assert free(AttachAttrLayoutFreeBuffers()(bound), "add") == [0, 1]


# ------------------------------------------------------------------------------------- FoldConstant


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch):
    """The interpreter runs functions, whether a package that compiles them is installed or not."""
    monkeypatch.setattr("tensorir.transform.kernel_runner._runner", lambda: interpreted)


CONSTANT = """
        @R.function
        def main():
            cls = Module
            y = R.call_tir(cls.ones, (), out_sinfo=R.Tensor((64, 64), "float32"))
            return y

        @T.prim_func(private=True)
        def ones(A: T.Buffer((64, 64), "float32")):
            for i, j in T.grid(64, 64):
                with T.block("ones"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    A[vi, vj] = T.float32(1)
"""


def test_a_program_does_not_grow_beyond_a_limit():
    mod = module_of(CONSTANT)
    assert is_same(FoldConstant(small=64 * 64 * 4 - 1)(mod), mod)
    assert "call_tir" not in FoldConstant(small=64 * 64 * 4)(mod)["main"].script()


# ------------------------------------------------------------------------------------ FoldBatchNorm

RNG = np.random.default_rng(0)


def constant(*shape):
    return relax.const(RNG.random(shape).astype("float32") + 0.5)


def graph(shape, formula):
    """Return the module of `formula(bb, x)`, where `bb.emit` binds what is used several times."""
    x = relax.Var("x", relax.TensorStructInfo(shape, "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit_output(formula(bb, x))
        bb.emit_func_output(y)
    return bb.get()


def operators(mod):
    values = [binding.value for binding in mod["main"].body.bindings]
    return [v.op.short_name for v in values if isinstance(v, relax.Call)]


def folded(mod):
    """Return the module after folding, which gives what it gave before."""
    after = DeadCodeElimination()(FoldBatchNorm()(mod))
    x = RNG.random([int(n) for n in mod["main"].params[0].struct_info.static_shape])
    old, new = (
        interpret_graph(LegalizeOps()(m), "main", x.astype("float32")) for m in (mod, after)
    )
    np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-5)
    return after


IMAGE = (1, 3, 4, 4)


def conv(x, **attrs):
    return op.nn.conv2d(x, constant(4, 3, 3, 3), **attrs)


@pytest.mark.parametrize(
    ("shape", "formula", "expected"),
    [
        (IMAGE, lambda _, x: conv(x) * constant(4, 1, 1), ["nn.conv2d"]),
        (IMAGE, lambda _, x: constant(1, 4, 1, 1) * conv(x), ["nn.conv2d"]),
        (IMAGE, lambda _, x: conv(x) * constant(1), ["nn.conv2d"]),
        (
            IMAGE,
            lambda _, x: (conv(x) + constant(4, 1, 1)) * constant(4, 1, 1) + constant(4, 1, 1),
            ["nn.conv2d", "add"],
        ),
        ((2, 3), lambda _, x: op.matmul(x, constant(3, 5)) * constant(5), ["matmul"]),
        ((2, 3), lambda _, x: op.nn.dense(x, constant(5, 3), constant(5)) * constant(5), ["nn.dense"]),
        (
            (1, 4, 4, 3),
            lambda _, x: op.nn.conv2d(
                x, constant(3, 3, 3, 4), data_layout="NHWC", kernel_layout="HWIO"
            )
            * constant(4),
            ["nn.conv2d"],
        ),
    ],
)  # fmt: skip
def test_factors_of_channels_go_into_the_weights(shape, formula, expected):
    assert operators(folded(graph(shape, formula))) == expected


def normed(x, channels, **attrs):
    weights = [constant(channels) for _ in range(4)]
    return op.nn.batch_norm(x, *weights, **attrs)[0]


@pytest.mark.parametrize(
    ("shape", "formula", "expected"),
    [
        (IMAGE, lambda _, x: normed(conv(x), 4), ["nn.conv2d", "add"]),
        (IMAGE, lambda _, x: normed(conv(x) + constant(4, 1, 1), 4), ["nn.conv2d", "add"]),
        (IMAGE, lambda _, x: op.nn.relu(normed(x, 3)), ["multiply", "add", "nn.relu"]),
        (IMAGE, lambda _, x: normed(x, 4, axis=-1, epsilon=0.1), ["multiply", "add"]),
        (IMAGE, lambda _, x: normed(normed(conv(x), 4), 4), ["nn.conv2d", "add"]),
        ((2, 3), lambda _, x: normed(op.matmul(x, constant(3, 5)), 5, center=False), ["matmul", "add"]),
    ],
)  # fmt: skip
def test_batch_norms_with_constant_statistics(shape, formula, expected):
    assert operators(folded(graph(shape, formula))) == expected


def test_statistics_of_the_data_and_results_that_somebody_needs_stay():
    def training(bb, x):
        return normed(conv(x), 4, training=True)

    def whole(bb, x):
        return bb.emit(op.nn.batch_norm(x, *(constant(3) for _ in range(4))))

    for formula in (training, whole):
        assert "nn.batch_norm" in operators(FoldBatchNorm()(graph(IMAGE, formula)))


def used_twice(bb, x):
    y = bb.emit(conv(x))
    return y * constant(4, 1, 1) + y


@pytest.mark.parametrize(
    ("shape", "formula"),
    [
        (IMAGE, lambda _, x: conv(x) * constant(2)),  # differs along the width
        (IMAGE, used_twice),
        (IMAGE, lambda _, x: op.nn.relu(conv(x)) * constant(4, 1, 1)),
        ((2, 3), lambda _, x: (op.matmul(x, constant(3, 1)) + constant(5)) * constant(5)),
    ],
    ids=["another axis", "used twice", "not linear", "stretched"],
)
def test_other_factors_stay(shape, formula):
    mod = graph(shape, formula)
    assert "multiply" in operators(folded(mod))


def test_constant_operators_are_folded_by_what_they_are_legalized_to():
    mod = graph((2,), lambda bb, x: x + op.exp(op.nn.softmax(constant(2) * constant(1))))
    after = FoldConstant()(mod)
    assert operators(after) == ["add"]
    x = np.ones(2, "float32")
    old, new = (interpret_graph(LegalizeOps()(m), "main", x) for m in (mod, after))
    np.testing.assert_array_equal(old, new)


def test_a_constant_that_would_be_large_is_not_folded():
    mod = graph((1024,), lambda bb, x: x + op.add(constant(1024, 1), constant(1024)))
    assert operators(FoldConstant(small=1024)(mod)) == ["add", "add"]
