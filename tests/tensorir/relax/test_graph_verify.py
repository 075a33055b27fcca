"""What is well-formed, and what the verifier says of what is not."""

import pytest

from tensorir import (
    IRModule,
    WellFormedError,
    relax,
    renew_defs,
    verify_well_formed,
)
from tensorir.nodes.expr import GlobalVar, Var
from tensorir.relax.expr import (
    BindingBlock,
    DataflowBlock,
    ExternFunc,
    GraphCall,
    If,
    MatchCast,
    SeqExpr,
    VarBinding,
)
from tensorir.relax.struct_info import VOID
from tests.mixed_module import TENSOR, kernels, scaled_and_shifted, with_main

SCALE = GlobalVar("scale")


def x_of(*shape, name="x", kind=relax.Var):
    return kind(name, relax.TensorStructInfo(shape, "float32"))


def function(params, bindings, body, *, dataflow=False, ret=None):
    block = (DataflowBlock if dataflow else BindingBlock)(bindings)
    return relax.Function(params, SeqExpr([block], body), ret)


def refusal(func, **others):
    """Return what is said of a function `main` beside the tensor functions and other functions."""
    mod = IRModule({**kernels().functions, "main": func, **others})
    assert not verify_well_formed(mod, assert_mode=False)
    with pytest.raises(WellFormedError) as caught:
        verify_well_formed(mod)
    return str(caught.value)


def test_what_is_well_formed():
    assert verify_well_formed(with_main())
    assert verify_well_formed(scaled_and_shifted())


# ------------------------------------------------------------------------------------- A-normal form


def test_calls_do_not_nest():
    x, y = x_of(8, 4), x_of(8, 4, name="y")
    inner = relax.call_tir(SCALE, [x], TENSOR)
    nested = VarBinding(y, relax.call_tir(SCALE, [inner], TENSOR))
    assert refusal(function([x], [nested], y)) == (
        'binding "y" of function "main": field 0 of argument 1 is a call; functions are in A-normal '
        "form, so bind it to a separate variable first (relax.BlockBuilder does)\n"
        '    y = R.call_tir(I.GlobalVar("scale"), '
        '(R.call_tir(I.GlobalVar("scale"), (x,), out_sinfo=R.Tensor((8, 4), dtype="float32")),), '
        'out_sinfo=R.Tensor((8, 4), dtype="float32"))'
    )


def test_what_is_no_leaf():
    x, c = x_of(8, 4), relax.Var("c", relax.TensorStructInfo((), "bool"))
    pair = relax.Tuple([x, x])
    field = relax.TupleGetItem(pair, 0)
    y = x_of(8, 4, name="y")
    assert "the tuple is a Tuple" in refusal(function([x], [VarBinding(y, field)], y))
    assert "the result of the body is a field of a tuple" in refusal(
        relax.Function([x], SeqExpr([], field))
    )
    choice = If(relax.call_tir(SCALE, [x], TENSOR), SeqExpr([], x), SeqExpr([], x))
    assert "the condition is a call" in refusal(function([x], [VarBinding(y, choice)], y))
    suite = VarBinding(y, SeqExpr([], x))
    assert "the value is a SeqExpr" in refusal(function([x], [suite], y))
    inside = VarBinding(y, relax.call_packed("f", If(c, SeqExpr([], x), SeqExpr([], x))))
    assert "argument 0 is a choice" in refusal(function([c, x], [inside], y))
    assert verify_well_formed(function([c, x], [], relax.Tuple([relax.Tuple([x]), c])))


# ---------------------------------------------------------------------------------- variables, scopes


def test_variables_are_bound_once_and_before_they_are_used():
    x, y, other = x_of(4), x_of(4, name="y"), x_of(4, name="other")
    assert "other is used before it is bound" in refusal(function([x], [VarBinding(y, other)], y))
    assert "y is bound again; every variable is bound once" in refusal(
        function([x], [VarBinding(y, x), VarBinding(y, x)], y)
    )
    assert "x is bound again" in refusal(function([x], [VarBinding(x, x)], x))
    assert 'parameter "x" of function "main": x is bound again' in refusal(function([x, x], [], x))


def test_functions_do_not_share_variables_and_sizes():
    func = scaled_and_shifted()
    assert refusal(func, twin=func.without_attr("global_symbol")).startswith(
        'parameter "x" of function "twin": x is a variable of function "main", too; '
    )
    x, y = x_of(4), x_of(4, name="y")
    message = refusal(function([x], [], x), other=function([y], [], relax.Tuple([x, y])))
    assert 'x is used, which is a variable of function "main"; pass it as an argument' in message
    n = Var("n", "int64")
    message = refusal(function([x_of(n)], [], relax.const(1)), g=function([x_of(n)], [], y))
    assert 'the size n is one of function "main", too' in message
    twin = renew_defs(func).without_attr("global_symbol")
    assert verify_well_formed(IRModule({**with_main().functions, "main": func, "twin": twin}))


def test_what_only_a_dataflow_block_sees():
    x, lv = x_of(4), x_of(4, name="lv", kind=relax.DataflowVar)
    binding = VarBinding(lv, x)
    message = refusal(function([x], [binding], lv, dataflow=True))
    assert "lv is used outside of its dataflow block; name it in R.output(...)" in message
    message = refusal(function([x], [binding], x))
    assert 'binding "lv" of function "main": a DataflowVar is bound outside' in message
    message = refusal(function([lv], [], x))
    assert 'parameter "lv" of function "main": a parameter must be a relax.Var' in message


def test_what_only_a_branch_sees():
    c, x = relax.Var("c", relax.TensorStructInfo((), "bool")), x_of(4)
    inner, y = x_of(4, name="inner"), x_of(4, name="y")
    then = SeqExpr([BindingBlock([VarBinding(inner, x)])], inner)
    choice = VarBinding(y, If(c, then, SeqExpr([], inner)))
    message = refusal(function([c, x], [choice], y))
    assert "inner is used outside of the branch that binds it; return it from the If" in message
    choice = VarBinding(y, If(c, then, SeqExpr([], x)))
    assert verify_well_formed(function([c, x], [choice], y))
    assert "inner is used outside of the branch" in refusal(function([c, x], [choice], inner))


@pytest.mark.parametrize(("shape", "dtype"), [((), "float32"), ((4,), "int32")])
def test_conditions_are_scalars(shape, dtype):
    c = relax.Var("c", relax.TensorStructInfo(shape, dtype))
    x, y = x_of(4), x_of(4, name="y")
    choice = VarBinding(y, If(c, SeqExpr([], x), SeqExpr([], x)))
    message = refusal(function([c, x], [choice], y))
    assert "the condition must be a bool or an integer of no dimensions, not R.Tensor" in message


# ------------------------------------------------------------------------------------- symbolic sizes


def test_sizes_are_defined_before_they_are_used():
    n, m = Var("n", "int64"), Var("m", "int64")
    x, y = x_of(n), x_of(m, name="y")
    message = refusal(
        function([x], [VarBinding(y, relax.call_dps_packed("f", x, y.struct_info))], y)
    )
    assert (
        'binding "y" of function "main": the size m is used before it is defined; define '
        "it by a parameter or R.match_cast whose shape has m as a dimension" in message
    )
    assert "the size m is used" in refusal(function([x_of(m + 1)], [], relax.const(1)))
    assert "the size m is used" in refusal(
        function([x], [], x, ret=relax.TensorStructInfo((m,), "float32"))
    )
    known = relax.Var("y", relax.TensorStructInfo(None, "float32", 1))
    cast = MatchCast(y, known, y.struct_info)
    assert verify_well_formed(function([known], [cast], y))
    assert verify_well_formed(function([x_of(m + 1), x_of(m, name="y")], [], relax.const(1)))


def test_sizes_of_a_branch_stay_there():
    m = Var("m", "int64")
    c, x = relax.Var("c", relax.TensorStructInfo((), "bool")), relax.Var("x")
    info = relax.TensorStructInfo((m,), "float32")
    z = relax.Var("z")

    def cast():
        inner = relax.Var("inner", info)
        return SeqExpr([BindingBlock([MatchCast(inner, x, info)])], inner)

    choice = VarBinding(z, If(c, cast(), cast()))
    assert verify_well_formed(function([c, x], [choice], z))
    shape = relax.Tuple([relax.ShapeExpr([m])])
    assert "the size m is used" in refusal(function([c, x], [choice], shape))


def test_sizes_of_a_function_that_is_a_value_are_its_own():
    n = Var("n", "int64")
    info = relax.TensorStructInfo((n,), "float32")
    f = relax.Var("f", relax.FuncStructInfo([info], info))
    assert verify_well_formed(function([f], [], f))


# --------------------------------------------------------------------------------------- what is stated


@pytest.mark.parametrize(
    "stated",
    [
        relax.TensorStructInfo((8, 5), "float32"),
        relax.TensorStructInfo((8, 4), "float16"),
        relax.TensorStructInfo((8, 4, 1), "float32"),
        relax.TupleStructInfo([TENSOR]),
    ],
)
def test_annotations_follow_from_the_value(stated):
    x, y = x_of(8, 4), relax.Var("y", stated)
    call = relax.call_tir(SCALE, [x], TENSOR)
    message = refusal(function([x], [VarBinding(y, call)], y))
    assert f"{stated} is stated, but the value is {TENSOR}" in message


def test_annotations_may_say_less_than_is_known():
    x, y = x_of(8, 4), relax.Var("y", relax.TensorStructInfo(None, None))
    assert verify_well_formed(function([x], [VarBinding(y, x)], y, ret=relax.ObjectStructInfo()))


def test_what_nobody_knows_is_checked_by_match_cast():
    x = relax.Var("x", relax.TensorStructInfo(None, "float32", 2))
    y = x_of(8, 4, name="y")
    message = refusal(function([x], [VarBinding(y, x)], y))
    assert "which may differ; use R.match_cast for a check at run time" in message
    assert verify_well_formed(function([x], [MatchCast(y, x, y.struct_info)], y))
    message = refusal(function([x], [], x, ret=y.struct_info))
    assert message.startswith('the result of function "main": R.Tensor((8, 4), dtype="float32")')


def test_a_match_cast_that_never_succeeds():
    x, y = x_of(8, 4), x_of(8, 5, name="y")
    message = refusal(function([x], [MatchCast(y, x, y.struct_info)], y))
    assert 'match_cast to R.Tensor((8, 5), dtype="float32") can never succeed' in message


# ---------------------------------------------------------------------------------------------- calls


def test_dataflow_blocks_have_no_effects_and_no_branches():
    x, c = x_of(4), relax.Var("c", relax.TensorStructInfo((), "bool"))
    y = relax.Var("y")
    message = refusal(function([x], [VarBinding(y, relax.call_packed("f", x))], y, dataflow=True))
    assert (
        "may have effects, which a dataflow block must not have; move it out of the block"
        in message
    )
    choice = VarBinding(y, If(c, SeqExpr([], x), SeqExpr([], x)))
    message = refusal(function([c, x], [choice], y, dataflow=True))
    assert "a dataflow block cannot contain branches; move the If out of the block" in message


def test_calls_fit_their_functions():
    x, y = x_of(8, 5), x_of(8, 4, name="y")
    message = refusal(function([x], [VarBinding(y, relax.call_tir(SCALE, [x], TENSOR))], y))
    assert message.startswith('binding "y" of function "main": parameter A of "scale" is')
    message = refusal(function([x], [VarBinding(y, GraphCall(GlobalVar("scal"), [x]))], y))
    assert 'the module has no function "scal"' in message
    message = refusal(
        function([x], [VarBinding(y, relax.call_tir(GlobalVar("scal"), [x], TENSOR))], y)
    )
    assert 'argument 0 is "scal", but the module has no such function' in message


def test_calls_of_graph_functions_give_what_those_say():
    x, y = x_of(8, 4), x_of(8, 4, name="y")
    told = GraphCall(GlobalVar("g"), [x], struct_info=x_of(8, 5).struct_info)
    g = function([y], [], y)
    message = refusal(function([x], [VarBinding(relax.Var("z"), told)], x), g=g)
    assert 'R.Tensor((8, 5), dtype="float32") is stated, but the call gives' in message


@pytest.mark.parametrize(
    ("count", "gives"), [(3, VOID), (0, VOID), ("x", VOID), (1, x_of(8, 4).struct_info)]
)
def test_a_call_that_writes_outputs_has_as_many_and_gives_nothing(count, gives):
    x = x_of(8, 4)
    call = GraphCall(ExternFunc("f"), [x, x], {"num_outputs": count}, [gives])
    message = refusal(function([x], [VarBinding(relax.Var("y", gives), call)], x))
    assert f"it is {count} for a call with 2 argument(s)" in message
