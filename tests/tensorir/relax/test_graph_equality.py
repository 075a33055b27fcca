"""Structural equality, hashes and fresh copies of graph functions."""

import copy
import pickle

import numpy as np
import pytest

from tensorir import (
    IRModule,
    get_first_structural_mismatch,
    relax,
    renew_defs,
    structural_equal,
    structural_hash,
)
from tensorir.nodes.expr import GlobalVar, Var
from tensorir.relax.expr import (
    BindingBlock,
    DataflowBlock,
    GraphCall,
    If,
    MatchCast,
    SeqExpr,
    VarBinding,
)
from tensorir.rewriting.visit import walk
from tests.mixed_module import scaled_and_shifted, with_main


def same(a, b, **options):
    """Say whether two programs are equal; equal programs have equal hashes."""
    equal = structural_equal(a, b, **options)
    assert equal == structural_equal(b, a, **options)
    hashes = [structural_hash(x, **options) for x in (a, b)]
    assert (hashes[0] == hashes[1]) == equal
    return equal


def chain(names=("x", "lv", "gv"), *, shape=("n", 4), dtype="float32", first="f", attr=None):
    """Return `main(x) = g(f(x))` with variables and sizes of its own."""
    sizes = [Var(s, "int64") if isinstance(s, str) else s for s in shape]
    info = relax.TensorStructInfo(sizes, dtype)
    x, lv, gv = (
        relax.Var(names[0], info),
        relax.DataflowVar(names[1], info),
        relax.Var(names[2], info),
    )
    block = DataflowBlock(
        [
            VarBinding(lv, relax.call_tir(GlobalVar(first), [x], info)),
            VarBinding(gv, relax.call_dps_packed("g", [lv], info)),
        ]
    )
    attrs = {"global_symbol": "main"} if attr is None else {"global_symbol": "main", **attr}
    return relax.Function([x], SeqExpr([block], gv), attrs=attrs)


def test_names_do_not_count():
    assert same(chain(), chain(("y", "a", "b"), shape=("m", 4)))


@pytest.mark.parametrize(
    "other",
    [
        {"shape": (8, 4)},
        {"shape": ("n", 5)},
        {"shape": ("n", "k")},
        {"dtype": "float16"},
        {"first": "h"},
        {"attr": {"num_input": 1}},
    ],
)
def test_differences(other):
    assert not same(chain(), chain(**other))


def test_kinds_of_variables_and_blocks_count():
    func = chain()
    plain = func.with_(body=SeqExpr([BindingBlock(func.body.bindings)], func.body.body))
    assert not same(func, plain)


def test_a_size_is_one_size():
    """`(n, n)` is not `(n, m)`."""
    n, m = Var("n", "int64"), Var("m", "int64")

    def identity(*shape):
        x = relax.Var("x", relax.TensorStructInfo(shape, "float32"))
        return relax.Function([x], SeqExpr([], x))

    assert same(identity(n, n), identity(m, m))
    assert not same(identity(n, n), identity(n, m))
    assert same(identity(n + 1, n), identity(m + 1, m))


def test_which_variable_is_used_counts():
    def first_or_second(k):
        info = relax.TensorStructInfo((4,), "float32")
        params = [relax.Var("a", info), relax.Var("a", info)]
        return relax.Function(params, SeqExpr([], params[k]))

    assert same(first_or_second(0), first_or_second(0))
    assert not same(first_or_second(0), first_or_second(1))


def test_free_variables_are_equal_only_if_they_are_the_same():
    x, y = relax.Var("x"), relax.Var("x")
    assert structural_equal(relax.Tuple([x]), relax.Tuple([x]))
    assert not structural_equal(relax.Tuple([x]), relax.Tuple([y]))
    assert structural_equal(relax.Tuple([x]), relax.Tuple([y]), map_free_vars=True)
    n, m = Var("n", "int64"), Var("m", "int64")
    assert not structural_equal(relax.ShapeExpr([n]), relax.ShapeExpr([m]))


def match_cast(name):
    x, n = relax.Var("x"), Var(name, "int64")
    info = relax.TensorStructInfo((n, n), "float32")
    y = relax.Var("y", info)
    return relax.Function([x], SeqExpr([BindingBlock([MatchCast(y, x, info)])], y))


def test_match_cast_defines_sizes():
    assert same(match_cast("n"), match_cast("m"))


def branches(flip):
    c, x = relax.Var("c", relax.TensorStructInfo((), "bool")), relax.Var("x")
    sides = [SeqExpr([], x), SeqExpr([], c)]
    y = relax.Var("y")
    value = If(c, *(sides[::-1] if flip else sides))
    return relax.Function([c, x], SeqExpr([BindingBlock([VarBinding(y, value)])], y))


def test_branches_count():
    assert same(branches(False), branches(False))
    assert not same(branches(False), branches(True))


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (np.float32([1, np.nan]), np.float32([1, np.nan]), True),
        (np.float32([0.0]), np.float32([-0.0]), False),
        (np.int32([1, 2]), np.int32([1, 3]), False),
        (np.int32([1, 2]), np.int32([[1, 2]]), False),
        (np.int32([1]), np.float32([1]), False),
        (np.float32(3), np.float32(3), True),
    ],
)
def test_constants_are_compared_by_their_bits(a, b, equal):
    assert same(relax.Constant(a), relax.Constant(b)) is equal
    kinds_are_equal = a.dtype == b.dtype and a.shape == b.shape
    assert same(relax.Constant(a), relax.Constant(b), ignore_ndarray=True) is kinds_are_equal


def test_types_without_a_type_of_numpy():
    bits = np.uint16([16256])
    assert not same(relax.Constant(bits), relax.Constant(bits, "bfloat16"))


def test_calls_are_compared_with_their_attributes_and_operators():
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    two = [x, x]
    out = relax.TensorStructInfo((4,), "float32")
    a = relax.call_tir_inplace(GlobalVar("f"), two, 0, out)
    b = relax.call_tir_inplace(GlobalVar("f"), two, 1, out)
    assert structural_equal(a, a)
    assert not structural_equal(a, b)
    assert not structural_equal(relax.call_packed("f", x), relax.call_pure_packed("f", x))


def test_the_place_of_a_difference():
    path, _ = get_first_structural_mismatch(
        IRModule({"main": chain()}), IRModule({"main": chain(first="h")})
    )
    assert path == ("<root>.functions['main'].body.blocks[0].bindings[0].value.args[0].name")


def test_modules_of_both_kinds():
    assert same(with_main(), with_main())
    assert not same(with_main(), with_main("scale"))
    other = with_main()
    other["main"] = chain(shape=(8, 4))
    assert not same(with_main(), other)


@pytest.mark.parametrize("func", [chain(), match_cast("n"), branches(False), scaled_and_shifted()])
def test_a_fresh_copy_shares_no_definition(func):
    twin = renew_defs(func)
    assert same(func, twin)
    owned = [
        {id(n) for n in walk(f.body) if isinstance(n, (relax.Var, Var))}
        | {id(p) for p in f.params}
        | {id(b.var) for b in f.body.bindings}
        for f in (func, twin)
    ]
    assert not owned[0] & owned[1]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))])
def test_copies_by_pickle_are_equal(duplicate):
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))
    weights = relax.Constant(np.float32([1, np.nan]))
    call = GraphCall(GlobalVar("f"), [x, weights], {"axis": 1}, struct_info=x.struct_info)
    y = relax.Var("y", x.struct_info)
    func = relax.Function([x], SeqExpr([BindingBlock([VarBinding(y, call)])], y), attrs={"a": 1})
    with pytest.raises(ValueError, match="read-only"):
        duplicate(weights).data[0] = 2
    for program in (func, chain(), match_cast("n"), branches(True), with_main()):
        assert same(duplicate(program), program)
