"""Functions that update parameters: what is written in place, what is copied, and in which order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_modules import module_of

import codegen
import tensorir
from codegen.vm.build import as_kernels
from tensorir import IRModule, IRValueError, WellFormedError, transform, verify_well_formed
from tensorir.interp.graphs import interpret_graph

SHAPE = (64, 128)


def model(body: str, updates: str, params: str = "a b") -> IRModule:
    """Return a module over float32 matrices; `r` is its result, new contents are named `new_...`."""
    names = updates.split()
    given = ", ".join(f'{name}: R.Tensor({SHAPE}, "float32")' for name in params.split())
    lines = "\n".join(f"            {line.strip()}" for line in body.strip().splitlines())
    new = [f"new_{name}" for name in names]
    return tensorir.parse(
        f"@I.ir_module\nclass Module:\n    @R.function\n    def main({given}):\n"
        f'        R.func_attr({{"updates": {names!r}}})\n        with R.dataflow():\n{lines}\n'
        f"            R.output(r, {', '.join(new)})\n        return (r, ({', '.join(new)},))\n"
    )


def run(mod: IRModule, *names: str) -> IRModule:
    """Compare a compiled model with its value; return the lowered module."""
    executable = codegen.vm_build(mod, "llvm -opt-level=1")
    rng = np.random.default_rng(0)
    arrays = {p.name: rng.random(SHAPE, "float32") for p in mod["main"].params}
    kernels = as_kernels(mod)
    result, contents = interpret_graph(kernels, "main", *arrays.values())
    given = {name: array.copy() for name, array in arrays.items()}
    np.testing.assert_allclose(codegen.VirtualMachine(executable)["main"](**given), result, 1e-5)
    for name, expected in zip(mod["main"].updates, contents, strict=True):
        np.testing.assert_allclose(given[name.name], expected, 1e-5)
        given.pop(name.name)
    for name, array in given.items():
        np.testing.assert_array_equal(array, arrays[name])
    return executable.mod


def copies(mod: IRModule) -> list[str]:
    """Return the copies of a lowered module, as `source -> target`."""
    lines = (line.strip() for line in mod["main"].script().splitlines() if "copy_into(" in line)
    return [line.partition("(")[2].rstrip(")").replace(", ", " -> ") for line in lines]


def test_new_contents_are_computed_in_place() -> None:
    mod = run(
        model(
            """
            c = R.slice_scatter(a, R.strided_slice(b, [0], [0], [2]), 5, 7, 1, 0)
            new_a = R.exp(c)
            r = R.sum(new_a)
            """,
            "a",
        )
    )
    assert copies(mod) == []
    assert {"slice_scatter_inplace", "exp_inplace"} <= set(mod.functions)


def test_old_contents_that_are_needed_are_kept() -> None:
    mod = run(
        model(
            """
            new_a = R.exp(a)
            r = R.add(a, new_a)
            """,
            "a",
        )
    )
    assert copies(mod) == ["new_a -> a"]


def test_a_result_is_copied_before_its_memory_is_written() -> None:
    run(model("new_a = R.exp(b)\nr = R.permute_dims(R.permute_dims(a))", "a"))
    run(model("new_a = R.add(a, b)\nr = R.reshape(new_a, R.shape([128, 64]))", "a"))


def test_parameters_may_change_places() -> None:
    mod = run(model("new_a = R.reshape(b, R.shape([64, 128]))\nnew_b = a\nr = R.sum(a)", "a b"))
    assert len(copies(mod)) == 4


def test_one_value_may_update_two_parameters() -> None:
    run(model("new_a = R.add(a, b)\nnew_b = new_a\nr = new_a", "a b"))
    run(model("new_a = R.const(2.0, 'float32') * a\nnew_b = R.exp(new_a)\nr = R.sum(a)", "a b"))


def test_a_source_that_overlaps_is_read_first() -> None:
    mod = run(
        model("new_a = R.slice_scatter(a, R.strided_slice(a, [0], [0], [4]), 2, 6, 1, 0)\nr = R.sum(new_a)", "a")
    )  # fmt: skip
    assert "slice_scatter_inplace" in mod.functions  # the slice is a separate tensor


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"updates": ["z"]', r"updates must be different names of parameters, x, got \['z'\]"),
        ('"updates": ["x", "x"]', "updates must be different names of parameters"),
        ('"updates": ["x"]', "it updates 1 parameter"),
        ('"state": (R.const([0, 1], "int32"),)', "the parameter x is .*, its state"),
    ],
)
def test_updates_and_state_are_verified(text: str, message: str) -> None:
    module = f"""
    @R.function
    def main(x: F4):
        R.func_attr({{{text}}})
        return x
    """
    with pytest.raises((WellFormedError, tensorir.DiagnosticError), match=message):
        verify_well_formed(module_of(module))


def test_an_array_that_is_written_is_no_other_argument() -> None:
    mod = model("new_a = R.add(R.flip(b, 0), a)\nr = R.sum(new_a)", "a")
    main: Any = codegen.VirtualMachine(codegen.vm_build(mod, "llvm -opt-level=1"))["main"]
    memory = np.zeros((2 * SHAPE[0], SHAPE[1]), "float32")
    first, second = np.split(memory, 2)
    main(first, second)
    for other in (first, memory[1 : 1 + SHAPE[0]]):
        with pytest.raises(IRValueError, match=r"'a' and 'b' share memory.* writes to one"):
            main(first, other)
    np.testing.assert_array_equal(memory, 0)


def test_lifted_weights_come_before_the_state() -> None:
    mod = tensorir.parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32"), s: R.Tensor((4,), "float32")):
        R.func_attr({"num_input": 1, "state": (R.const([1.0, 2.0, 3.0, 4.0], "float32"),), "updates": ["s"]})
        with R.dataflow():
            v = R.exp(w)
            new = R.add(s, v)
            y = R.add(x, new)
            R.output(y, new)
        return (y, (new,))
""")
    lifted = transform.LiftTransformParams()(mod)
    main = lifted["main"]
    assert [p.name for p in main.arguments[1:]] != ["w"]
    assert main.params[-1].name == "s"
    vm: Any = codegen.VirtualMachine(codegen.vm_build(mod, "llvm -opt-level=1"))["main"]
    x, w = np.zeros(4, "float32"), np.zeros(4, "float32")
    for k in (1, 2):
        np.testing.assert_array_equal(vm(x, w), np.arange(1, 5) + k)
