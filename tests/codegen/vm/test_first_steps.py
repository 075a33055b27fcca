"""What programs written for TVM do, and what is tried first: it works, or the error says how."""

from __future__ import annotations

import copy
import pickle
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import codegen
from codegen.errors import CodegenError, LibraryFunctionError
from tensorir import IRModule, relax, renew_defs, transform
from tensorir.errors import DiagnosticError, IRTypeError, IRValueError, WellFormedError
from tests.codegen.vm.models import module

CHAIN = module("""
@R.function
def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
    cls = Module
    with R.dataflow():
        a = R.call_tir(cls.add, (x, y), R.Tensor((2, 3), "float32"))
        b = R.call_tir(cls.twice, (a,), R.Tensor((2, 3), "float32"))
        R.output(b)
    return b
""")
CALLS = module("""
@R.function
def main(x: R.Tensor((2, 3), "float32")):
    y = R.call_dps_packed("first_steps.f", (x,), out_sinfo=R.Tensor((2, 3), "float32"))
    return y
""")
X = np.arange(6, dtype="float32").reshape(2, 3)
Y = X - 2


@pytest.fixture
def vm() -> codegen.VirtualMachine:
    return codegen.VirtualMachine(codegen.vm_build(CHAIN, "llvm"), codegen.cpu())


def test_arguments_may_be_given_by_name(vm: codegen.VirtualMachine) -> None:
    np.testing.assert_array_equal(vm["main"](X, y=Y), 2 * (X + Y))
    np.testing.assert_array_equal(vm["main"](**{"y": Y, "x": X}), 2 * (X + Y))
    takes = r"main takes 2 argument\(s\) \(x, y\), got 1 by position and 1 by name; "
    for name, text in [("x", "given twice: x; missing: y"), ("z", "no parameter is called z")]:
        with pytest.raises(IRTypeError, match=takes + text):
            vm["main"](X, **{name: Y})
    with pytest.raises(IRTypeError, match="got 3 by position and 1 by name; given twice: y"):
        vm["main"](X, Y, Y, y=Y)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, r"got NoneType$"),
        ("1.0", r"got str$"),
        ([["1.0"]], r"'y': expected numbers, got <U3$"),
    ],
)
def test_what_is_no_number_is_refused(vm: codegen.VirtualMachine, value: object, text: str) -> None:
    with pytest.raises(IRTypeError, match=text):
        vm["main"](X, value)


@pytest.mark.parametrize("device", ["cpu", [codegen.cpu()]])
def test_what_is_no_device_is_refused_by_name(
    vm: codegen.VirtualMachine, device: codegen.Device
) -> None:
    takers: list[Callable[[], object]] = [
        lambda: codegen.VirtualMachine(vm.executable, device),
        lambda: vm.time_evaluator("main", device),
        lambda: vm.executable.module.time_evaluator("main", device),
        lambda: codegen.array(X, device),
    ]
    for call in takers:
        with pytest.raises(IRTypeError, match=r"a device is codegen.cpu\(\), got "):
            call()
    with pytest.raises(IRValueError, match=r"unknown device cuda\(0\)"):
        codegen.VirtualMachine(vm.executable, codegen.Device("cuda"))


def test_machines_copy_and_pickle_as_their_executables(vm: codegen.VirtualMachine) -> None:
    vm.save_function("main", "saved", X, Y)
    for again in (copy.deepcopy(vm), pickle.loads(pickle.dumps(vm))):
        np.testing.assert_array_equal(again["main"](X, Y), vm["main"](X, Y))


def test_names_of_tvm(vm: codegen.VirtualMachine) -> None:
    assert relax.transform is transform
    executable = codegen.vm.build(CHAIN, "llvm", {"y": Y})
    machine = codegen.vm.VirtualMachine(executable, codegen.cpu(0))
    np.testing.assert_array_equal(machine["main"](X), 2 * (X + Y))
    result = vm.time_evaluator("main", codegen.cpu(), 2, 3)(X, Y)
    assert len(result.results) == 3
    with pytest.raises(AttributeError, match=r"'build'; it is codegen\.vm_build"):
        relax.build  # noqa: B018


def test_a_result_that_is_returned_instead_of_written_is_refused() -> None:
    def called(function: Callable[..., object]) -> np.ndarray[object, np.dtype[np.float32]]:
        codegen.register_func("first_steps.f", function, override=True)
        return codegen.VirtualMachine(codegen.vm_build(CALLS, "llvm"))["main"](X)  # type: ignore[no-any-return]

    with pytest.raises(LibraryFunctionError, match=r"main: y = first_steps.f.* a new array.*out\["):
        called(lambda x, out: x + 1)
    np.testing.assert_array_equal(called(lambda x, out: np.add(x, 1, out=out)), X + 1)
    np.testing.assert_array_equal(called(lambda x, out: out.copyfrom(x + 1)), X + 1)
    codegen.remove_global_func("first_steps.f")


def test_graph_functions_are_not_built_as_tensor_functions() -> None:
    for program in (CHAIN, CHAIN["main"]):
        with pytest.raises(CodegenError, match=r'"main" is a graph function.*codegen.vm_build'):
            codegen.build(program)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("R.adds(x, x)", "unknown name R.adds"),
        (
            'R.call_tir(twise, (x,), R.Tensor((2, 3), "float32"))',
            r"Undefined variable: twise; did you mean twice\?",
        ),
        ("R.qq.relu(x)", "unknown name R.qq; R.call_tir calls"),
        (
            'R.call_dps_packed(cls.add, (x,), R.Tensor((2, 3), "float32"))',
            'called by its name in quotes, got the function "add"',
        ),
    ],
)
def test_calls_of_what_is_not_there(value: str, text: str) -> None:
    with pytest.raises(DiagnosticError, match=text):
        module(f"""
@R.function
def main(x: R.Tensor((2, 3), "float32")):
    cls = Module
    y = {value}
    return y
""")


def test_wrong_kinds_of_python_values_are_named() -> None:
    with pytest.raises(IRTypeError, match=r"the variable x must be a struct info such as R.Tensor"):
        relax.Var("x", (2, 3))  # type: ignore[arg-type]
    with pytest.raises(IRTypeError, match=r"numpy.maximum needs arrays.*R.call_dps_packed"):
        np.maximum(relax.Var("x"), 0)  # type: ignore[call-overload]
    with pytest.raises(
        IRTypeError, match="params must map names of parameters to arrays, got list"
    ):
        transform.BindParams("main", [X])  # type: ignore[arg-type]
    with pytest.raises(IRTypeError, match="an instrument must be a PassInstrument, got 'timing'"):
        transform.PassContext(instruments=["timing"])  # type: ignore[list-item]


def test_a_function_that_is_used_twice_needs_variables_of_its_own() -> None:
    mod = CHAIN.clone()
    mod["plus"] = mod["add"]
    with pytest.raises(WellFormedError, match=r"by tensorir.renew_defs\(func\)"):
        codegen.vm_build(mod, "llvm")
    mod["plus"] = renew_defs(mod["add"])
    np.testing.assert_array_equal(
        codegen.VirtualMachine(codegen.vm_build(mod, "llvm"))["main"](X, Y), 2 * (X + Y)
    )


def test_text_of_steps_says_what_sizes_are_matched() -> None:
    mod = module("""
@R.function
def main(x: R.Tensor("float32", ndim=2)):
    n = T.int64()
    y = R.match_cast(x, R.Tensor((n, 3), "float32"))
    return y
""")
    assert "y: float32[n, 3]" in codegen.vm_build(mod, "llvm").as_text()


def test_a_c_program_calls_an_exported_model(tmp_path: Path) -> None:
    bound: IRModule = transform.BindParams("main", {"y": Y})(CHAIN)
    executable = codegen.vm_build(bound, "llvm")
    executable.export_library(tmp_path / "model.so")
    loaded = codegen.load_module(tmp_path / "model.so")
    assert loaded.c_header() == executable.c_header()
    (tmp_path / "model.h").write_text(executable.c_header())
    (tmp_path / "caller.c").write_text(CALLER)
    compiler = shutil.which("cc")
    assert compiler is not None
    subprocess.run(
        [compiler, "-Wall", "-Werror", "caller.c", "-o", "caller", "-ldl"], cwd=tmp_path, check=True
    )
    output = subprocess.run(
        [tmp_path / "caller", tmp_path / "model.so"], capture_output=True, text=True, check=True
    ).stdout
    np.testing.assert_array_equal(np.array(output.split(), "float32").reshape(2, 3), 2 * (X + Y))
    with pytest.raises(IRValueError, match=r"called by codegen.VirtualMachine\(module\)"):
        loaded["model"]


CALLER = """
#include <dlfcn.h>
#include <stdio.h>
#include "model.h"

int main(int argc, char** argv) {
    void* library = dlopen(argv[1], RTLD_NOW);
    main_function* model = (main_function*)dlsym(library, "main");
    _Alignas(64) float x[6] = {0, 1, 2, 3, 4, 5}, result[6];
    _Alignas(64) uint8_t arena[128];
    int status = model(x, result, arena, dlsym(library, "__tensorir_constants"));
    for (int i = 0; i < 6; ++i) printf("%g ", result[i]);
    return status;
}
"""
