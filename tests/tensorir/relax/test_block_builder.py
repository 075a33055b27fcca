"""`BlockBuilder`: A-normal form, names, functions made of formulas, and steps out of order."""

import functools

import numpy as np
import pytest

from tensorir import (
    IRModule,
    IRTypeError,
    IRValueError,
    relax,
    renew_defs,
    te,
    verify_well_formed,
)
from tensorir.interp import interpret
from tensorir.nodes.expr import GlobalVar, Var
from tensorir.relax.expr import BindingBlock, GraphCall, If, SeqExpr
from tests.mixed_module import TENSOR, kernels

SCALE, SHIFT = GlobalVar("scale"), GlobalVar("shift")


def x_of(*shape, name="x", dtype="float32"):
    return relax.Var(name, relax.TensorStructInfo(shape, dtype))


def call(gvar, *args):
    return relax.call_tir(gvar, args, TENSOR)


def names(func):
    return [binding.var.name for binding in func.body.bindings]


def double(A, factor=2):
    return te.compute(A.shape, lambda *i: A(*i) * float(factor), name="double")


def matmul(A, B):
    k = te.reduce_axis((0, A.shape[1]), name="k")
    shape = (A.shape[0], B.shape[0])
    return te.compute(shape, lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="matmul")


# ------------------------------------------------------------------------------------- A-normal form


def test_fields_of_tuples_that_are_written_out_are_the_values_themselves():
    bb = relax.BlockBuilder()
    x, y = x_of(4), x_of(4, name="y")
    both = relax.Var("both", relax.TupleStructInfo([x.struct_info, y.struct_info]))
    with bb.function("main", [x, y, both]):
        pair = bb.emit((x, y))
        bb.emit_func_output([pair[1], both[0]])
    main = bb.get()["main"]
    result = main.body.body
    assert result.elements[0] is y
    assert main.body.bindings[-1].var is result.elements[1]


def test_fields_that_only_a_block_sees_are_read_from_the_tuple():
    bb = relax.BlockBuilder(kernels())
    x = x_of(8, 4)
    with bb.function("main", [x]):
        with bb.dataflow():
            pair = bb.emit_output((bb.emit(call(SCALE, x)), x))
        bb.emit_func_output(pair[0])
    last = bb.get()["main"].body.bindings[-1]
    assert isinstance(last.value, relax.TupleGetItem)
    assert last.value.tuple_value is pair


def test_branches():
    bb = relax.BlockBuilder(kernels())
    c, x = x_of(name="c", dtype="bool"), x_of(8, 4)
    with bb.function("main", [c, x]):
        y = bb.emit_if(c, lambda: bb.emit(call(SCALE, x)), lambda: call(SHIFT, x))
        bb.emit_func_output(y)
    (binding,) = bb.get()["main"].body.bindings
    assert isinstance(binding.value, If)
    assert binding.var.struct_info.static_shape == (8, 4)
    for branch in (binding.value.true_branch, binding.value.false_branch):
        assert branch.body is branch.bindings[-1].var


def test_what_a_branch_binds_stays_there():
    bb = relax.BlockBuilder(kernels())
    c, x = x_of(name="c", dtype="bool"), x_of(8, 4)
    inside = []

    def then():
        inside.append(bb.emit(call(SCALE, x)))
        return inside[0]

    def otherwise():
        return inside[0]

    with (
        pytest.raises(IRValueError, match=r"uses gv, which .* only in a branch"),
        bb.function("main", [c, x]),
    ):
        bb.emit_if(c, then, otherwise)
    assert "main" not in bb.get()


def test_match_cast_and_lookup():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo(None, "float32", 2))
    n = Var("n", "int64")
    with bb.function("main", [x]):
        y = bb.match_cast(x, relax.TensorStructInfo((n, 4), "float32"))
        z = bb.emit_te(double, y)
        assert bb.lookup_binding(y) is x
        assert bb.lookup_binding(x) is None
        with pytest.raises(IRTypeError, match=r"match_cast to .* can never succeed, the value is"):
            bb.match_cast(z, relax.TensorStructInfo((n, 5), "float32"))
        bb.emit_func_output(z)
    assert isinstance(bb.get()["main"].body.bindings[0], relax.MatchCast)


def test_calls_without_a_result_are_not_named():
    bb = relax.BlockBuilder()
    x = x_of(4)
    with bb.function("main", [x], pure=False):
        bb.emit(relax.call_packed("show", x, sinfo_args=relax.TupleStructInfo()))
        bb.emit_func_output(x)
    assert names(bb.get()["main"]) == ["_"]


def test_a_call_of_a_graph_function_gets_what_that_gives():
    bb = relax.BlockBuilder(kernels())
    n, m = Var("n", "int64"), Var("m", "int64")
    x, y = x_of(n), x_of(m + 1, name="y")
    with bb.function("twice", [x], private=True):
        bb.emit_func_output(bb.emit_te(double, x))
    with bb.function("main", [y]):
        got = bb.emit(GraphCall(GlobalVar("twice"), [y]))
        bb.emit_func_output(got)
    assert relax.is_base_of(got.struct_info, y.struct_info)
    mod = bb.finalize()
    assert "global_symbol" not in mod["twice"].attrs
    assert mod["main"].attrs["global_symbol"] == "main"


def test_a_call_of_a_value_gives_its_result_in_the_sizes_of_the_caller():
    bb = relax.BlockBuilder()
    n, m = Var("n", "int64"), Var("m", "int64")
    longer = relax.FuncStructInfo([x_of(n).struct_info], x_of(n + 1).struct_info)
    f, y = relax.Var("f", longer), x_of(m, name="y")
    with bb.function("main", [f, y]):
        got = bb.emit(GraphCall(f, [y]))
        bb.emit_func_output(got)
    assert relax.is_base_of(got.struct_info, x_of(m + 1).struct_info)
    assert verify_well_formed(bb.get())
    assert verify_well_formed(renew_defs(bb.get()["main"]))


# ------------------------------------------------------------------------------- functions of formulas


def test_equal_formulas_are_one_function_others_get_a_number():
    bb = relax.BlockBuilder()
    x = x_of(8, 4)
    calls = [bb.call_te(double, x), bb.call_te(double, x), bb.call_te(double, x, factor=3)]
    assert [c.args[0].name for c in calls] == ["double", "double", "double1"]
    assert list(bb.get()) == ["double", "double1"]


def test_arguments_in_the_order_met():
    bb = relax.BlockBuilder()
    a, b, c = x_of(4, name="a"), x_of(4, name="b"), x_of(4, name="c")

    def total(tensors, *, options):
        p, q = tensors
        (r,) = options["more"]
        return te.compute((4,), lambda i: p[i] + q[i] * r[i], name="total")

    made = bb.call_te(total, [b, a], options={"more": (c,)})
    assert list(made.args[1].elements) == [b, a, c]
    arrays = [np.float32([k, k + 1, 5, 7]) for k in range(3)]
    out = np.zeros(4, np.float32)
    interpret(bb.get(), *arrays, out, func_name="total")
    np.testing.assert_array_equal(out, arrays[0] + arrays[1] * arrays[2])


def test_sizes_come_from_shapes_and_what_they_do_not_say_is_passed():
    bb = relax.BlockBuilder()
    n, m = Var("n", "int64"), Var("m", "int64")
    x, w = x_of(n, 16), x_of(8, 16, name="w")
    made = bb.call_te(matmul, x, w)
    assert len(made.args) == 2
    assert relax.is_base_of(made.struct_info, x_of(n, 8).struct_info)

    def padded(A, extent):
        return te.compute((extent,), lambda i: te.if_then_else(i < 16, A[0, i], 0.0))

    made = bb.call_te(padded, x, relax.PrimValue(m))
    assert list(made.args[2].values) == [m]
    assert [p.name for p in bb.get()["padded"].params][-1] == "m"


def test_formulas_without_a_name():
    bb = relax.BlockBuilder()
    made = bb.call_te(lambda A: double(A), x_of(4))
    assert made.args[0].name == "te_func"
    made = bb.call_te(functools.partial(double, factor=5), x_of(4))
    assert made.args[0].name == "te_func1"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (relax.Var("x"), "argument 0, x, of call_te is .*state them by match_cast"),
        (relax.Var("x", relax.TensorStructInfo(None, "float32")), "argument 0, x, of call_te is"),
        ([{1, 2}], r"argument 0\[0\] of call_te is a set; a formula accepts"),
        ({1: 2}, "argument 0 of call_te is a dict with keys other than strings"),
    ],
)
def test_arguments_that_are_no_parts_of_formulas(argument, message):
    with pytest.raises(IRTypeError, match=message):
        relax.BlockBuilder().call_te(double, argument)


def test_a_formula_gives_tensors():
    with pytest.raises(IRTypeError, match="must return a te tensor or a list of them, got int"):
        relax.BlockBuilder().call_te(lambda A: 3, x_of(4))


# ------------------------------------------------------------------------------------------ the module


def test_functions_with_other_weights_are_not_merged():
    def with_table(value):
        x, y = x_of(2), x_of(2, name="y")
        table = relax.Constant(np.float32([1, value]))
        call = relax.call_pure_packed("add", x, table, sinfo_args=x.struct_info)
        return relax.Function([x], SeqExpr([BindingBlock([relax.VarBinding(y, call)])], y))

    bb = relax.BlockBuilder()
    added = [bb.add_func(with_table(value), "f").name for value in (1, 2, 1)]
    assert added == ["f", "f1", "f"]


def test_update_func_replaces_and_is_found_again():
    mod = kernels()
    bb = relax.BlockBuilder(IRModule({"f": mod["scale"]}))
    bb.update_func("f", mod["shift"])
    assert bb.add_func(mod["shift"], "g").name == "f"
    assert bb.add_func(mod["scale"], "f").name == "f1"
    with pytest.raises(IRValueError, match='Cannot find global var "h"'):
        bb.update_func("h", mod["scale"])


def test_the_module_that_was_given_and_those_that_were_handed_out_do_not_change():
    mod = kernels()
    bb = relax.BlockBuilder(mod)
    before = bb.get()
    with bb.function("main", []):
        bb.emit_func_output(relax.const(1))
    assert "main" not in mod
    assert "main" not in before
    assert isinstance(bb.get()["main"].body.body.struct_info, relax.TensorStructInfo)


# --------------------------------------------------------------------------------- steps out of order


def outside(bb, x):
    bb.emit(x)


def output_without_block(bb, x):
    with bb.function("main", [x]):
        bb.emit_output(x)


def no_result(bb, x):
    with bb.function("main", [x]):
        bb.emit(x)


def two_results(bb, x):
    with bb.function("main", [x]):
        bb.emit_func_output(x)
        bb.emit_func_output(x)


def emit_behind_the_result(bb, x):
    with bb.function("main", [x]):
        bb.emit_func_output(x)
        bb.emit(x)


def result_in_block(bb, x):
    with bb.function("main", [x]), bb.dataflow():
        bb.emit_func_output(x)


def block_in_block(bb, x):
    with bb.function("main", [x]), bb.dataflow(), bb.dataflow():
        pass


def branch_in_block(bb, x):
    with bb.function("main", [x]), bb.dataflow():
        bb.emit_if(x, lambda: x, lambda: x)


def function_in_function(bb, x):
    with bb.function("main", [x]), bb.function("other", [x]):
        pass


def two_functions_of_a_name(bb, x):
    with bb.function("scale", [x]):
        pass


def parameters_twice(bb, x):
    with bb.function("main", [x]):
        bb.emit_func_output(x, [x])


def no_parameters(bb, x):
    with bb.function("main"):
        bb.emit_func_output(relax.const(1))


def variable_of_nothing(bb, x):
    with bb.function("main", [x]):
        bb.emit(x_of(4, name="other"))


def late_parameters_without_one(bb, x):
    with bb.function("main"):
        bb.emit_func_output((x, x_of(4, name="other")), [x])


def variable_of_a_block(bb, x):
    with bb.function("main", [x]):
        with bb.dataflow():
            hidden = bb.emit(call(SCALE, x))
        bb.emit_func_output(hidden)


def effects_in_block(bb, x):
    with bb.function("main", [x], pure=False), bb.dataflow():
        bb.emit(relax.call_packed("f", x))


def half_done(bb, x):
    with bb.function("main", [x]):
        bb.finalize()


def one_variable_twice(bb, x):
    with bb.function("main", [x, x]):
        pass


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (outside, r"emit needs a function: with bb\.function"),
        (output_without_block, "emit_output is for dataflow blocks"),
        (no_result, 'function "main" has no result; call emit_func_output'),
        (two_results, 'function "main" has a result already'),
        (emit_behind_the_result, "emit comes before emit_func_output"),
        (result_in_block, "emit_func_output is called inside of a dataflow block"),
        (block_in_block, "a dataflow block begins inside of another one"),
        (branch_in_block, "a dataflow block cannot contain branches"),
        (function_in_function, 'function "other" begins inside of "main"'),
        (two_functions_of_a_name, 'function "scale" exists already.*update_func'),
        (parameters_twice, 'parameters of "main" are given twice'),
        (no_parameters, 'function "main" has no parameters yet'),
        (variable_of_nothing, 'function "main" uses other, which is not one of its parameters'),
        (
            late_parameters_without_one,
            'function "main" uses other, which is not one of its parameters',
        ),
        (variable_of_a_block, "uses lv, which is local to its dataflow block.*emit_output"),
        (effects_in_block, "may have effects, which a dataflow block must not have"),
        (half_done, 'function "main" is not complete'),
        (one_variable_twice, 'function "main" has one variable as parameter twice'),
    ],
)
def test_steps_out_of_order(steps, message):
    bb = relax.BlockBuilder(kernels())
    with pytest.raises(IRValueError, match=message):
        steps(bb, x_of(8, 4))
    assert list(bb.finalize()) == ["scale", "shift"]


def test_a_call_that_does_not_fit_says_in_which_function():
    bb = relax.BlockBuilder(kernels())
    x = x_of(8, 5)
    with (
        pytest.raises(IRTypeError, match='a call in function "main": parameter A of "scale" is'),
        bb.function("main", [x]),
    ):
        bb.emit(call(SCALE, x))


def test_python_values_are_no_values_of_a_graph_function():
    bb = relax.BlockBuilder()
    with (
        pytest.raises(
            IRTypeError, match=r"got float; convert a number or an array by relax\.const"
        ),
        bb.function("main", []),
    ):
        bb.emit(1.0)


def test_parameters_may_come_last():
    bb = relax.BlockBuilder(kernels())
    x = x_of(8, 4)
    with bb.function("main"):
        y = bb.emit(call(SCALE, x), "y")
        bb.emit_func_output(y, x)
    assert bb.get()["main"].params == (x,)
