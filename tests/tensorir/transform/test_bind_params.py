"""Arrays in the place of parameters."""

from __future__ import annotations

import numpy as np
import pytest
from graph_modules import is_same, module_of

from tensorir import IRTypeError, IRValueError, assert_structural_equal
from tensorir.interp.graphs import interpret_graph
from tensorir.relax.expr import Constant
from tensorir.relax.function import Function
from tensorir.rewriting.visit import walk
from tensorir.transform import BindParams, bind_params

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


def test_arrays_take_the_place_of_parameters_without_a_copy():
    kept = MODEL.clone()
    bound = BindParams("main", {"w": W, "b": W})(MODEL)
    assert is_same(MODEL, kept)
    assert [p.name for p in bound["main"].params] == ["x"]
    assert all(np.shares_memory(c.data, W) for c in constants(bound["main"]))
    assert interpret_graph(bound, "main", X).tolist() == [1.0, 3.0, 5.0, 7.0]
    assert '(x, R.const([0.0, 1.0, 2.0, 3.0], "float32"))' in bound["main"].script()


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
