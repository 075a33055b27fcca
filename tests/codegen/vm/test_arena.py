"""The memory of calls: what is shared, where results are computed, what is not copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import codegen
from codegen.vm import program as p
from tensorir import IRModule, parse
from tensorir.errors import IRValueError
from tests.codegen.vm.models import module

X = np.arange(6, dtype="float32").reshape(2, 3)
LONG = np.arange(3000, dtype="float32").reshape(1000, 3)


def built(body: str) -> codegen.Executable:
    return codegen.vm_build(module(body), "llvm")


def frame_bytes(executable: codegen.Executable, *args: Any) -> int:
    """Return the bytes of temporaries that a call holds."""
    main = codegen.VirtualMachine(executable).function("main")
    main(*args)
    return main.held_bytes()


def test_tensors_of_symbolic_shape_share_memory() -> None:
    calls = "\n".join(
        f"    v{k + 1} = R.call_tir(cls.twice, (v{k},), R.Tensor((n, 3), 'float32'))"
        for k in range(20)
    )
    executable = built(f"""
@R.function
def main(v0: R.Tensor(("n", 3), "float32")):
    n = T.int64()
    cls = Module
{calls}
    return v20
""")
    main = codegen.VirtualMachine(executable)["main"]
    for rows in (X, LONG, X[:0], X[:1]):
        np.testing.assert_array_equal(main(rows), rows * 2**20)
    assert frame_bytes(executable, LONG) < 2.1 * LONG.nbytes


def test_tensors_whose_sizes_a_match_cast_defines_share_memory() -> None:
    codegen.register_func("tests.memory.rows", lambda x: x[1:].copy(), override=True)
    executable = built("""
@R.function(pure=False)
def main(x: R.Tensor(("n", 3), "float32")):
    m = T.int64()
    cls = Module
    a = R.call_packed("tests.memory.rows", x, sinfo_args=[R.Tensor(ndim=2, dtype="float32")])
    b = R.match_cast(a, R.Tensor((m, 3), "float32"))
    c = R.call_tir(cls.twice, (b,), R.Tensor((m, 3), "float32"))
    d = R.call_tir(cls.twice, (c,), R.Tensor((m, 3), "float32"))
    e = R.call_tir(cls.twice, (d,), R.Tensor((m, 3), "float32"))
    return e
""")
    (program,) = executable.description.programs
    assert sum(isinstance(step, p.Allocate) for step in program.steps) == 1  # all in the result
    main = codegen.VirtualMachine(executable)["main"]
    for rows in (X, LONG, X[:1]):
        np.testing.assert_array_equal(main(rows), rows[1:] * 8)


def test_library_functions_get_tensors_of_symbolic_shape_in_shared_memory() -> None:
    def add_one(x: codegen.NDArray, out: codegen.NDArray) -> None:
        out[...] = x + 1

    codegen.register_func("tests.memory.add_one", add_one, override=True)
    calls = "\n".join(
        f"    v{k + 1} = R.call_dps_packed('tests.memory.add_one', (v{k},), {info})"
        for k, info in enumerate(["R.Tensor((n, 3), 'float32')"] * 5)
    )
    main = codegen.VirtualMachine(
        built(f"""
@R.function
def main(v0: R.Tensor(("n", 3), "float32")):
    n = T.int64()
{calls}
    return v5
""")
    )["main"]
    for rows in (X, LONG, X):
        np.testing.assert_array_equal(main(rows), rows + 5)


SUM = """
@R.function(private=True)
def layer(x: R.Tensor({shape}, "float32")) -> R.Tensor({shape}, "float32"):
    {sizes}
    cls = Module
    a = R.call_tir(cls.twice, (x,), R.Tensor({extents}, "float32"))
    b = R.call_tir(cls.twice, (a,), R.Tensor({extents}, "float32"))
    return b

@R.function
def main(v0: R.Tensor({shape}, "float32")):
    {sizes}
    cls = Module
{calls}
    return v10
"""


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_results_of_graph_calls_share_memory(is_dynamic: bool) -> None:
    executable = built(
        SUM.format(
            shape='("n", 3)' if is_dynamic else "(1000, 3)",
            extents="(n, 3)" if is_dynamic else "(1000, 3)",
            sizes="n = T.int64()" if is_dynamic else "pass",
            calls="\n".join(f"    v{k + 1} = cls.layer(v{k})" for k in range(10)),
        ).replace("    pass\n", "")
    )
    main = codegen.VirtualMachine(executable)["main"]
    for rows in (LONG, LONG[:7]) if is_dynamic else (LONG,):
        np.testing.assert_array_equal(main(rows), rows * 2**20)
    assert frame_bytes(executable, LONG) < 3.1 * LONG.nbytes


def test_values_of_branches_share_memory_and_are_not_copied() -> None:
    branches = "\n".join(
        f"""
    if flag:
        a{k} = R.call_tir(cls.twice, (v{k},), R.Tensor((2, 3), "float32"))
        v{k + 1} = R.call_tir(cls.twice, (a{k},), R.Tensor((2, 3), "float32"))
    else:
        v{k + 1} = R.call_tir(cls.twice, (v{k},), R.Tensor((2, 3), "float32"))"""
        for k in range(10)
    )
    executable = built(f"""
@R.function
def main(flag: R.Tensor((), "bool"), v0: R.Tensor((2, 3), "float32")):
    cls = Module
{branches}
    return v10
""")
    assert "memcpy" not in executable.module.inspect_llvm(optimized_form=False)
    assert executable.description.programs[0].is_native
    main = codegen.VirtualMachine(executable)["main"]
    np.testing.assert_array_equal(main(np.bool_(True), X), X * 2**20)
    np.testing.assert_array_equal(main(np.bool_(False), X), X * 2**10)
    assert frame_bytes(executable, np.bool_(True), X) <= 3 * 64


def test_a_view_is_no_step_and_no_copy() -> None:
    executable = built("""
@R.function
def main(x: R.Tensor((6,), "float32")):
    cls = Module
    a: R.Tensor((2, 3), "float32") = R.memory.view(x, R.shape([2, 3]))
    b = R.call_tir(cls.add, (a, a), R.Tensor((2, 3), "float32"))
    c: R.Tensor((3, 2), "float32") = R.memory.view(b, R.shape([3, 2]))
    return c
""")
    assert executable.description.programs[0].is_native
    assert "memcpy" not in executable.module.inspect_llvm(optimized_form=False)
    result = codegen.VirtualMachine(executable)["main"](X.ravel())
    np.testing.assert_array_equal(result, 2 * X.reshape(3, 2))


def test_a_library_function_gets_a_view_in_its_shape() -> None:
    seen: list[tuple[int, ...]] = []

    def record(x: codegen.NDArray, out: codegen.NDArray) -> None:
        seen.append(x.shape)
        out[...] = x

    codegen.register_func("tests.memory.record", record, override=True)
    main = codegen.VirtualMachine(
        built("""
@R.function
def main(x: R.Tensor(("n", 3), "float32")):
    n = T.int64()
    a: R.Tensor((3, n), "float32") = R.memory.view(x, R.shape([3, n]))
    b = R.call_dps_packed("tests.memory.record", (a,), R.Tensor((3, n), "float32"))
    c: R.Tensor((n, 1, 3), "float32") = R.memory.view(b, R.shape([n, 1, 3]))
    d = R.call_dps_packed("tests.memory.record", (c,), R.Tensor((n, 1, 3), "float32"))
    return d
""")
    )["main"]
    for rows in (X, LONG, X):
        np.testing.assert_array_equal(main(rows), rows.reshape(-1, 1, 3))
    assert seen == [(3, 2), (2, 1, 3), (3, 1000), (1000, 1, 3), (3, 2), (2, 1, 3)]


def test_a_view_of_another_number_of_elements_is_refused_before_anything_runs() -> None:
    main = codegen.VirtualMachine(
        built("""
@R.function
def main(x: R.Tensor(("n", 3), "float32"), y: R.Tensor(("m",), "float32")):
    n = T.int64()
    m = T.int64()
    a: R.Tensor((m,), "float32") = R.memory.view(x, R.shape([m]))
    return a
""")
    )["main"]
    np.testing.assert_array_equal(main(X, np.zeros(6, "float32")), X.ravel())
    with pytest.raises(IRValueError, match=r"the view of float32\[n, 3\].* is 6, expected 5"):
        main(X, np.zeros(5, "float32"))


def test_large_tensors_are_written_over_in_place() -> None:
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((64, 128), "float32"), y: R.Tensor((128, 128), "float32")):
        with R.dataflow():
            a = R.matmul(x, y)
            b = R.matmul(a, y)
            c = R.add(R.matmul(b, y), a)
            d = R.matmul(c, y)
            R.output(d)
        return d
""")
    assert isinstance(mod, IRModule)
    executable = codegen.vm_build(mod, "llvm", default_schedules=False)
    x = np.random.default_rng(0).integers(-2, 3, (64, 128)).astype("float32")
    y = np.eye(128, k=1, dtype="float32")
    c = x @ y @ y @ y + x @ y
    np.testing.assert_array_equal(codegen.VirtualMachine(executable)["main"](x, y), c @ y)
    assert any(name.endswith("_inplace") for name in executable.mod.functions)
    assert frame_bytes(executable, x, y) <= 2 * x.nbytes
