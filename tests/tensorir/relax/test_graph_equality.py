"""Equality of graph functions, modules with both kinds of functions, deferred arrays."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import codegen
import search
from codegen.errors import CodegenError
from search.arg_info import ArgInfo
from search.runner.flops import estimate_tir_flops
from search.runner.measure_candidate import without_layout_rewrite
from tensorir import (
    IRModule,
    get_first_structural_mismatch,
    relax,
    renew_defs,
    simplify,
    structural_equal,
    structural_hash,
    verify_well_formed,
)
from tensorir.errors import IRTypeError, IRValueError
from tensorir.interp import interpret
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import GlobalVar, Var
from tensorir.relax.deferred_array import LARGE, DeferredArray
from tensorir.relax.expr import (
    BindingBlock,
    Constant,
    DataflowBlock,
    GraphCall,
    If,
    MatchCast,
    SeqExpr,
    VarBinding,
)
from tensorir.rewriting.visit import walk
from tests.mixed_module import kernels, scaled_and_shifted, with_main

# ---------------------------------- Structural equality, hashes and fresh copies of graph functions


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


# -------------------- Modules of both kinds of functions, where only the tensor functions are meant


def test_functions_by_kind():
    mod = with_main()
    assert list(mod.prim_funcs()) == ["scale", "shift"]
    assert list(mod.graph_funcs()) == ["main"]
    assert mod.prim_func("scale") is mod["scale"]
    with pytest.raises(IRTypeError, match=r'"main" is a graph function; the tensor functions'):
        mod.prim_func("main")
    with pytest.raises(IRValueError, match='Cannot find global var "other"'):
        mod.prim_func("other")


def test_a_module_of_one_graph_function():
    func = scaled_and_shifted().with_attr({"global_symbol": "net", "num_input": 1})
    mod = IRModule.from_expr(func)
    assert list(mod) == ["net"]
    assert list(IRModule.from_expr(func.without_attr("global_symbol"))) == ["main"]
    assert mod["net"].without_attr("num_input").attrs == {"global_symbol": "net"}


def test_names_of_functions_of_both_kinds():
    mod = with_main()
    assert [g.name for g in mod.get_global_vars()] == ["main", "scale", "shift"]
    assert [name for name, _ in mod.functions_items()] == ["main", "scale", "shift"]
    assert mod[mod.get_global_var("main")] is mod["main"]
    with pytest.raises(IRValueError, match='Cannot find global var "other"'):
        mod.get_global_var("other")


def test_changes_of_a_module_stay_in_it():
    mod = with_main()
    twin = mod.clone()
    twin.update_func(twin.get_global_var("main"), twin["main"].with_attr("num_input", 1))
    twin.update(IRModule({"more": kernels()["scale"]}))
    del twin["shift"]
    assert list(twin) == ["main", "scale", "more"]
    assert structural_equal(mod, with_main())


def test_attributes_of_a_module():
    mod = with_main().with_attr("stage", "built").with_attrs({"target": "llvm"})
    assert mod.attrs == {"stage": "built", "target": "llvm"}
    assert mod.without_attr("stage").attrs == {"target": "llvm"}
    assert mod.without_attr("stage")["main"] is mod["main"]


def test_notebooks_show_both_kinds():
    html = with_main()._repr_html_()
    assert "call_tir" in html
    assert "scaled" in html


def test_simplification_leaves_graph_functions_alone():
    mod = with_main()
    assert simplify(mod)["main"] is mod["main"]
    assert verify_well_formed(mod)


def test_arithmetic_is_that_of_the_tensor_functions():
    assert estimate_tir_flops(with_main()) == estimate_tir_flops(kernels()) == 64


def test_the_interpreter_runs_tensor_functions():
    x, y = np.ones((8, 4), np.float32), np.empty((8, 4), np.float32)
    interpret(with_main(), x, y, func_name="shift")
    assert (y == 2).all()
    with pytest.raises(TypeError, match='"main" is a graph function'):
        interpret(with_main(), x, y)


def test_a_build_names_what_builds_graph_functions():
    with pytest.raises(CodegenError, match=r'"main" is a graph function.*codegen\.vm_build'):
        codegen.build(with_main(), target="llvm")


def test_the_search_takes_the_tensor_functions():
    mod = with_main("scale")
    assert [str(info) for info in ArgInfo.from_entry_func(mod)] == [
        str(info) for info in ArgInfo.from_prim_func(mod.prim_func("scale"))
    ]
    assert without_layout_rewrite(mod) is mod


def test_a_task_is_no_graph_function():
    with pytest.raises(search.TuningError, match="function"):
        search.TuneContext(IRModule({"main": scaled_and_shifted()}), target="llvm --num-cores=1")


# -------------------- Elements of constants that are made when they are read, and that nobody keeps

SHAPE = (128, 256)
FLOAT = DataType("float32")


class Counted:
    """Makes an array, and counts how often."""

    def __init__(self, shape: tuple[int, ...] = SHAPE) -> None:
        self.calls = 0
        self._shape = shape

    def __call__(self) -> np.ndarray[Any, Any]:
        self.calls += 1
        return np.arange(np.prod(self._shape), dtype="float32").reshape(self._shape)


def test_a_large_array_is_made_for_each_reader_that_comes_after_the_last_one_left() -> None:
    make = Counted()
    constant = Constant.made_by(make, SHAPE, FLOAT)
    assert (constant.source.shape, constant.source.nbytes, make.calls) == (SHAPE, 128 << 10, 0)
    first = constant.data
    assert constant.data is first
    assert make.calls == 1
    assert not first.flags.writeable
    del first
    np.testing.assert_array_equal(constant.data, Counted()())
    assert make.calls == 2


def test_a_small_array_is_made_once() -> None:
    make = Counted((4,))
    constant = Constant.made_by(make, (4,), FLOAT)
    assert constant.data.tolist() == constant.data.tolist() == [0, 1, 2, 3]
    assert make.calls == 1
    assert constant.source.nbytes < LARGE


def test_what_is_kept_is_not_made_again() -> None:
    make = Counted()
    constant = Constant.made_by(make, SHAPE, FLOAT)
    assert isinstance(constant.source, DeferredArray)
    kept = constant.data
    constant.source.keep(kept)
    del kept
    assert constant.data.shape == SHAPE
    assert make.calls == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.reshaped((256, 128)).data.reshape(SHAPE),
        lambda c: c.transposed((1, 0)).data.T,
        lambda c: c.reshaped((2, 64, 256)).transposed((2, 0, 1)).data.transpose(1, 2, 0),
    ],
)
@pytest.mark.parametrize("later", [True, False])
def test_other_forms_have_the_same_elements(
    change: Callable[[Constant], np.ndarray[Any, Any]], later: bool
) -> None:
    make = Counted()
    constant = Constant.made_by(make, SHAPE, FLOAT) if later else Constant(make())
    np.testing.assert_array_equal(change(constant).reshape(SHAPE), make())
    assert change(constant).dtype == np.float32


def test_a_reshaped_array_in_memory_shares_it() -> None:
    array = Counted()()
    assert np.shares_memory(Constant(array).reshaped((256, 128)).data, array)


def test_equality_and_pickling_read_the_elements() -> None:
    constant = Constant.made_by(Counted(), SHAPE, FLOAT)
    assert structural_equal(constant, Constant(Counted()()))
    assert not structural_equal(constant, Constant(Counted()() + 1))
    assert structural_equal(pickle.loads(pickle.dumps(constant)), constant)


def test_types_that_numpy_lacks_are_held_by_their_bits() -> None:
    constant = Constant.made_by(
        lambda: np.zeros((256, 256), "uint16"), (256, 256), DataType("bfloat16")
    )
    assert str(constant.transposed((1, 0)).struct_info) == str(constant.struct_info)
