"""Loops of graph functions: a library function that is given a function of the module."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import codegen
from tensorir import IRModule, IRTypeError, IRValueError, assert_structural_equal, parse, relax
from tensorir.interp.graphs import interpret_graph
from tensorir.nodes.expr import GlobalVar
from tensorir.relax.callee import is_pure_call
from tensorir.relax.library.loop import call_loop, run_loop
from tensorir.transform import DeadCodeElimination, LegalizeOps
from tensorir.verify import verify_well_formed

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
