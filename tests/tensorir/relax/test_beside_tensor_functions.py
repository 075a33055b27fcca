"""Modules of both kinds of functions, where only the tensor functions are meant."""

import numpy as np
import pytest

import codegen
import search
from codegen.errors import CodegenError
from search.arg_info import ArgInfo
from search.runner.flops import estimate_tir_flops
from search.runner.measure_candidate import without_layout_rewrite
from tensorir import IRModule, simplify, structural_equal, verify_well_formed
from tensorir.errors import IRTypeError, IRValueError
from tensorir.interp import interpret
from tests.mixed_module import kernels, scaled_and_shifted, with_main


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
