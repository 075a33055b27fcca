"""Graph functions that are one run of machine code."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from codegen.history import KnownSchedules
from codegen.vm import program as p
from tensorir import IRModule, parse
from tensorir.function import PrimFunc
from tests.codegen.vm.models import module

CHAIN = module("""
@R.function
def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
    cls = Module
    with R.dataflow():
        a = R.call_tir(cls.add, (x, y), R.Tensor((2, 3), "float32"))
        b = R.call_tir(cls.twice, (a,), R.Tensor((2, 3), "float32"))
        c = R.call_tir(cls.add, (a, b), R.Tensor((2, 3), "float32"))
        R.output(c)
    return c
""")
X = np.arange(6, dtype="float32").reshape(2, 3)
Y = X - 2


def machine(mod: IRModule, **options: object) -> codegen.VirtualMachine:
    return codegen.VirtualMachine(codegen.vm_build(mod, "llvm", **options), codegen.cpu())  # type: ignore[arg-type]


def test_a_model_of_kernels_is_one_function_of_machine_code() -> None:
    executable = codegen.vm_build(CHAIN, "llvm")
    (program,) = executable.description.programs
    assert program.is_native
    assert [type(s) for s in program.steps] == [p.Run]
    text = executable.module.inspect_llvm(optimized_form=False)
    assert text.count("call i32 @tensorir.kernel.add(") == 2


def test_the_result_is_that_of_numpy() -> None:
    np.testing.assert_array_equal(machine(CHAIN)["main"](X, Y), 3 * (X + Y))


def test_the_entry_takes_tensors_results_arena_and_constants() -> None:
    executable = codegen.vm_build(CHAIN, "llvm")
    entry = executable.module["main"]
    names = [parameter.name for parameter in entry.signature.parameters]
    assert names == ["x", "y", "result", "arena", "constants"]
    written = [parameter.written for parameter in entry.signature.parameters]
    assert written == [False, False, True, True, False]
    arena, result = codegen.empty((128,), "uint8"), codegen.empty((2, 3))
    entry(X, Y, result, arena, codegen.empty((64,), "uint8"))
    np.testing.assert_array_equal(result, 3 * (X + Y))
    assert "main(" in executable.module.c_header()


def test_a_lone_graph_function_is_a_model() -> None:
    mod = module("""
@R.function
def main(x: R.Tensor((2, 3), "float32")):
    return x
""")
    vm = machine(mod["main"])  # type: ignore[arg-type]
    result = vm["main"](X)
    np.testing.assert_array_equal(result, X)
    assert not np.may_share_memory(result, X)


def test_results_share_no_memory_with_arguments_or_one_another() -> None:
    mod = module("""
@R.function
def main(x: R.Tensor((2, 3), "float32")):
    cls = Module
    a = R.call_tir(cls.twice, (x,), R.Tensor((2, 3), "float32"))
    return (a, x, (a, a))
""")
    vm = machine(mod)
    first, second = vm["main"](X), vm["main"](X)
    arrays = [X, *first[:2], *first[2], *second[:2], *second[2]]
    for k, left in enumerate(arrays):
        assert not any(np.may_share_memory(left, right) for right in arrays[k + 1 :])
    for result in (first[0], *first[2]):
        np.testing.assert_array_equal(result, 2 * X)
    np.testing.assert_array_equal(first[1], X)


def test_graph_functions_call_one_another_within_machine_code() -> None:
    mod = module("""
@R.function(private=True)
def inner(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    cls = Module
    a = R.call_tir(cls.twice, (x,), R.Tensor((2, 3), "float32"))
    b = R.call_tir(cls.add, (a, x), R.Tensor((2, 3), "float32"))
    return b

@R.function
def main(x: R.Tensor((2, 3), "float32")):
    cls = Module
    a = cls.inner(x)
    b = cls.inner(a)
    return b
""")
    executable = codegen.vm_build(mod, "llvm")
    assert all(program.is_native for program in executable.description.programs)
    np.testing.assert_array_equal(codegen.VirtualMachine(executable)["main"](X), 9 * X)


def test_branches_compute_where_the_result_is_wanted() -> None:
    mod = module("""
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor((2, 3), "float32")):
    cls = Module
    if c:
        a = R.call_tir(cls.twice, (x,), R.Tensor((2, 3), "float32"))
        r = R.call_tir(cls.add, (a, x), R.Tensor((2, 3), "float32"))
    else:
        r = R.call_tir(cls.twice, (x,), R.Tensor((2, 3), "float32"))
    return r
""")
    executable = codegen.vm_build(mod, "llvm")
    assert "memcpy" not in executable.module.inspect_llvm(optimized_form=False)
    main = codegen.VirtualMachine(executable)["main"]
    np.testing.assert_array_equal(main(np.bool_(True), X), 3 * X)
    np.testing.assert_array_equal(main(np.bool_(False), X), 2 * X)


@pytest.mark.parametrize("dtype", ["bool", "int32", "int8"])
def test_an_if_is_decided_in_machine_code(dtype: str) -> None:
    mod = module(f"""
@R.function
def main(c: R.Tensor((), "{dtype}"), x: R.Tensor((2, 3), "float32")):
    cls = Module
    if c:
        a = R.call_tir(cls.twice, (x,), R.Tensor((2, 3), "float32"))
        r = a
    else:
        r = x
    return r
""")
    executable = codegen.vm_build(mod, "llvm")
    assert executable.description.programs[0].is_native
    main = codegen.VirtualMachine(executable)["main"]
    np.testing.assert_array_equal(main(np.array(1, dtype), X), 2 * X)
    np.testing.assert_array_equal(main(np.array(0, dtype), X), X)


def test_the_condition_of_an_if_may_be_computed() -> None:
    mod = module("""
@R.function
def main(c: R.Tensor((), "int32"), x: R.Tensor((2, 3), "float32")):
    cls = Module
    less = R.call_tir(cls.decrement, (c,), R.Tensor((), "int32"))
    if less:
        r = R.call_tir(cls.twice, (x,), R.Tensor((2, 3), "float32"))
    else:
        r = x
    return r
""")
    main = machine(mod)["main"]
    np.testing.assert_array_equal(main(np.int32(257), X), 2 * X)  # the lowest byte is 0
    np.testing.assert_array_equal(main(np.int32(1), X), X)


def test_equal_constants_are_kept_once() -> None:
    mod = module("""
@R.function
def main(x: R.Tensor((2, 3), "float32"), v: R.Tensor((2, 3), "float32"),
         w: R.Tensor((2, 3), "float32")):
    cls = Module
    a = R.call_tir(cls.add, (x, v), R.Tensor((2, 3), "float32"))
    b = R.call_tir(cls.add, (a, w), R.Tensor((2, 3), "float32"))
    return b
""")
    executable = codegen.vm_build(mod, "llvm", params={"v": Y, "w": Y.copy()})
    assert executable.constants.nbytes == 64
    np.testing.assert_array_equal(codegen.VirtualMachine(executable)["main"](X), X + Y + Y)


def test_an_assertion_of_a_kernel_names_the_model_and_leaves_it_usable() -> None:
    main = machine(module("""
@R.function
def main(x: R.Tensor((2, 3), "float32")):
    cls = Module
    a = R.call_tir(cls.checked, (x,), R.Tensor((2, 3), "float32"))
    return a
"""))["main"]  # fmt: skip
    with pytest.raises(codegen.AssertionFailedError, match="main: values are small"):
        main(X + 1000)
    np.testing.assert_array_equal(main(X), X)


def test_models_run_between_guard_pages() -> None:
    main = machine(CHAIN, guard_pages=True)["main"]
    np.testing.assert_array_equal(main(X, Y), 3 * (X + Y))


def test_time_evaluator_times_machine_code() -> None:
    vm = machine(CHAIN)
    result = vm.module.time_evaluator("main", codegen.cpu(), number=10, repeat=3)(X, Y)
    assert len(result.results) == 3
    assert result.mean > 0
    assert vm.time_evaluator("main", number=2)(X, Y).mean > 0
    with pytest.raises(codegen.CodegenError, match="integers of at least 1, got '2' and 1"):
        vm.time_evaluator("main", number="2")(X, Y)  # type: ignore[arg-type]


def test_kernels_are_built_with_the_schedules_that_are_known() -> None:
    asked: list[str] = []

    class OfAdd(KnownSchedules):
        def scheduled(self, name: str, func: PrimFunc, target: codegen.Target) -> PrimFunc | None:
            asked.append(name)
            marks = {"tir.is_scheduled": True, "note": "known"}
            return func.with_attr(marks) if name == "add" else None

    with OfAdd():
        executable = codegen.vm_build(CHAIN, "llvm")
    assert sorted(asked) == ["add", "twice"]
    assert executable.mod["add"].attrs["note"] == "known"
    np.testing.assert_array_equal(codegen.VirtualMachine(executable)["main"](X, Y), 3 * (X + Y))


def test_kernels_get_the_strides_of_their_arguments() -> None:
    mod = parse("""
@I.ir_module
class Module:
    @T.prim_func
    def doubled(a: T.handle, B: T.Buffer((2, 3), "float32")):
        s = T.int64()
        A = T.match_buffer(a, (2, 3), "float32", strides=(s, 1))
        for i, j in T.grid(2, 3):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)

    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        cls = Module
        y = R.call_tir(cls.doubled, (x,), R.Tensor((2, 3), "float32"))
        return y
""")
    assert isinstance(mod, IRModule)
    np.testing.assert_array_equal(machine(mod)["main"](X), 2 * X)
