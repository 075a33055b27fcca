"""Steps of graph functions, in order and by hand."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import codegen
from codegen.errors import CodegenError, ExecutionError, LibraryFunctionError, LinkError
from codegen.vm import program as p
from tensorir import relax, renew_defs, transform
from tensorir.errors import DiagnosticError, IRTypeError, IRValueError, WellFormedError
from tests.codegen.vm.models import module

# ----------------------------------------- Graph functions with Python between runs of machine code

X = np.arange(6, dtype="float32").reshape(2, 3)
MIXED = module("""
@R.function
def main(x: R.Tensor((2, 3), "float32")):
    cls = Module
    with R.dataflow():
        a = R.call_tir(cls.twice, (x,), R.Tensor((2, 3), "float32"))
        b = R.call_tir(cls.add, (a, x), R.Tensor((2, 3), "float32"))
        c = R.call_dps_packed("tests.negate", (b,), R.Tensor((2, 3), "float32"))
        d = R.call_tir(cls.add, (c, a), R.Tensor((2, 3), "float32"))
        R.output(d)
    return d
""")
OPAQUE = module("""
@R.function(pure=False)
def main(x: R.Tensor((2, 3), "float32")):
    cls = Module
    a = R.call_tir(cls.twice, (x,), R.Tensor((2, 3), "float32"))
    b = R.call_packed("tests.returns", a, sinfo_args=[R.Tensor((2, 3), "float32")])
    c = R.call_tir(cls.add, (a, b), R.Tensor((2, 3), "float32"))
    return (c, b)
""")


COUNTED = module("""
@R.function
def main(n: R.Tensor((), "int32"), x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    cls = Module
    if n:
        m = R.call_tir(cls.decrement, (n,), R.Tensor((), "int32"))
        y = R.call_tir(cls.twice, (x,), R.Tensor((2, 3), "float32"))
        z = main(m, y)
    else:
        z = x
    return z
""")


def negate(x: codegen.NDArray, out: codegen.NDArray) -> None:
    np.negative(x, out=out)


@pytest.fixture(autouse=True)
def library() -> Iterator[None]:
    codegen.register_func("tests.negate", negate)
    codegen.register_func("tests.returns", lambda x: x)
    yield
    for name in ("tests.negate", "tests.returns"):
        codegen.remove_global_func(name)


def machine(mod: Any, **options: Any) -> codegen.VirtualMachine:
    return codegen.VirtualMachine(codegen.vm_build(mod, "llvm", **options), codegen.cpu())


def test_kernels_between_library_calls_are_one_run() -> None:
    executable = codegen.vm_build(MIXED, "llvm")
    (program,) = executable.description.programs
    assert [type(step) for step in program.steps] == [p.Run, p.CallLibrary, p.Run]
    assert executable.library_calls() == {"tests.negate": ["main: c = tests.negate"]}
    np.testing.assert_array_equal(codegen.VirtualMachine(executable)["main"](X), -X)


def test_library_functions_get_arrays_of_the_arena_without_a_copy() -> None:
    seen: list[int] = []

    def record(x: codegen.NDArray, out: codegen.NDArray) -> None:
        assert isinstance(x, codegen.NDArray)
        assert isinstance(out, codegen.NDArray)
        seen.extend([id(x), id(out)])
        out[:] = np.from_dlpack(x)

    codegen.register_func("tests.negate", record, override=True)
    main = machine(MIXED)["main"]
    main(X)
    main(X)
    assert seen[:2] == seen[2:]  # made once for the frame, not for each call


def test_a_library_function_that_raises_is_named_and_the_machine_stays_usable() -> None:
    def fail(x: codegen.NDArray, out: codegen.NDArray) -> None:
        if x[0, 1] > 100:
            raise ZeroDivisionError("too large")
        negate(x, out)

    codegen.register_func("tests.negate", fail, override=True)
    main = machine(MIXED)["main"]
    with pytest.raises(LibraryFunctionError) as info:
        main(X * 100)
    assert "'tests.negate'(float32[2, 3], float32[2, 3]), called for main: c = tests.negate" in str(
        info.value
    )
    assert isinstance(info.value.__cause__, ZeroDivisionError)
    np.testing.assert_array_equal(main(X), -X)


def test_all_missing_library_functions_are_named_with_their_bindings() -> None:
    executable = codegen.vm_build(
        module("""
@R.function
def main(x: R.Tensor((2, 3), "float32")):
    a = R.call_dps_packed("tests.nagate", (x,), R.Tensor((2, 3), "float32"))
    b = R.call_dps_packed("tests.unknown", (a,), R.Tensor((2, 3), "float32"))
    return b
"""),
        "llvm",
    )
    with pytest.raises(LinkError) as info:
        codegen.VirtualMachine(executable)
    assert "'tests.nagate' (near it: tests.negate" in str(info.value)
    assert "tests.unknown by main: b" in str(info.value)


def test_what_a_library_function_returns_is_checked_and_never_an_alias() -> None:
    main = machine(OPAQUE)["main"]
    c, b = main(X)
    np.testing.assert_array_equal(c, 4 * X)
    np.testing.assert_array_equal(b, 2 * X)
    kept = b.copy()
    main(X + 1)
    np.testing.assert_array_equal(b, kept)


@pytest.mark.parametrize(
    ("returned", "error", "text"),
    [
        (None, IRTypeError, "'b': expected an array of float32, got NoneType"),
        (np.zeros((2, 3)), IRTypeError, "'b': expected an array of float32, got float64"),
        (np.zeros((3, 3), "float32"), IRValueError, "'b': dimension 0 is 3, expected 2"),
    ],
)
def test_a_wrong_value_of_a_library_function_is_refused(
    returned: object, error: type[Exception], text: str
) -> None:
    codegen.register_func("tests.returns", lambda x: returned, override=True)
    with pytest.raises(error) as info:
        machine(OPAQUE)["main"](X)
    assert "main: b = tests.returns" in str(info.value)
    assert text in str(info.value)


def test_values_without_a_tensor_go_through_library_functions() -> None:
    seen: list[object] = []
    codegen.register_func("tests.returns", lambda *a: seen.append(a), override=True)
    machine(
        module("""
@R.function(pure=False)
def main(x: R.Tensor(("n", 3), "float32"), s: R.Shape(["m", 4]), k: R.Prim("int64")):
    n = T.int64()
    m = T.int64()
    a = R.call_packed("tests.returns", R.shape([n, 2 * m]), R.str("text"), R.dtype("int8"),
                      R.prim_value(n + 1), (x, s), k, sinfo_args=[R.Object])
    return x
""")
    )["main"](X, (5, 4), 7)
    ((shape, text, dtype, number, (x, s), k),) = seen  # type: ignore[misc]
    assert (shape, text, dtype, number, s, k) == ((2, 10), "text", "int8", 3, (5, 4), 7)  # type: ignore[has-type]
    np.testing.assert_array_equal(x, X)  # type: ignore[has-type]


def test_a_model_of_library_calls_alone() -> None:
    main = machine(
        module("""
@R.function
def main(x: R.Tensor((2, 3), "float32")):
    a = R.call_dps_packed("tests.negate", (x,), R.Tensor((2, 3), "float32"))
    return a
""")
    )["main"]
    np.testing.assert_array_equal(main(X), -X)


def test_match_cast_defines_sizes_from_values() -> None:
    codegen.register_func("tests.returns", lambda x: x[:1].copy(), override=True)
    main = machine(
        module("""
@R.function(pure=False)
def main(x: R.Tensor((2, 3), "float32")):
    m = T.int64()
    cls = Module
    a = R.call_packed("tests.returns", x, sinfo_args=[R.Tensor(ndim=2, dtype="float32")])
    b = R.match_cast(a, R.Tensor((m, 3), "float32"))
    c = R.call_tir(cls.twice, (b,), R.Tensor((m, 3), "float32"))
    return c
""")
    )["main"]
    np.testing.assert_array_equal(main(X), 2 * X[:1])
    np.testing.assert_array_equal(main(X), 2 * X[:1])


def test_a_size_may_be_used_before_the_parameter_that_defines_it() -> None:
    main = machine(
        module("""
@R.function
def main(y: R.Tensor(("2 * n",), "float32"), x: R.Tensor(("n", 3), "float32")):
    n = T.int64()
    cls = Module
    a = R.call_tir(cls.twice, (x,), R.Tensor((n, 3), "float32"))
    return (a, y)
""")
    )["main"]
    a, y = main(np.arange(4, dtype="float32"), X)
    np.testing.assert_array_equal(a, 2 * X)
    np.testing.assert_array_equal(y, np.arange(4))
    with pytest.raises(IRValueError, match="'y': dimension 0 is 5, expected 4"):
        main(np.arange(5, dtype="float32"), X)


def test_match_cast_that_does_not_hold_is_an_error() -> None:
    codegen.register_func("tests.returns", lambda x: x[:, :2].copy(), override=True)
    main = machine(
        module("""
@R.function(pure=False)
def main(x: R.Tensor((2, 3), "float32")):
    a = R.call_packed("tests.returns", x, sinfo_args=[R.Object])
    b = R.match_cast(a, R.Tensor((2, 3), "float32"))
    return b
""")
    )["main"]
    with pytest.raises(IRValueError, match="main: b: value of 'b': dimension 1 is 2, expected 3"):
        main(X)


COUNTDOWN = module("""
@R.function(pure=False)
def main(n: R.Tensor((), "int32"), x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    cls = Module
    if n:
        m = R.call_tir(cls.decrement, (n,), R.Tensor((), "int32"))
        y = R.call_tir(cls.twice, (x,), R.Tensor((2, 3), "float32"))
        r = cls.main(m, y)
    else:
        r = x
    return r
""")


def test_a_function_calls_itself_until_an_if_ends_it() -> None:
    main = machine(COUNTDOWN)["main"]
    for count in (0, 1, 5):
        np.testing.assert_array_equal(main(np.int32(count), X), 2**count * X)
    np.testing.assert_array_equal(main(np.int32(900), 0 * X), 0 * X)


def test_recursion_without_end_is_an_error_that_names_the_chain() -> None:
    main = machine(COUNTDOWN)["main"]
    with pytest.raises(ExecutionError, match=r"main was called at depth 1000: main <- main"):
        main(np.int32(-1), X)
    np.testing.assert_array_equal(main(np.int32(2), X), 4 * X)


OPEN = module("""
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    n = T.int64()
    m = T.int64()
    cls = Module
    a = R.call_tir(cls.twice, (x,), R.Tensor((n, 3), "float32"))
    return a
""")


def test_what_a_kernel_takes_is_checked_where_sizes_leave_it_open() -> None:
    main = machine(OPEN)["main"]
    np.testing.assert_array_equal(main(X), 2 * X)
    with pytest.raises(IRValueError) as info:
        main(np.ones((2, 4), "float32"))
    assert "main: a: value of 'x for A of twice': extent 1 is 4, expected 3" in str(info.value)


def test_a_check_in_a_branch_is_made_where_the_branch_is_taken() -> None:
    main = machine(
        module("""
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor(("n", "m"), "float32")):
    n = T.int64()
    m = T.int64()
    cls = Module
    if c:
        r = R.call_tir(cls.twice, (x,), R.Tensor((n, 3), "float32"))
    else:
        r = x
    return r
""")
    )["main"]
    wide = np.ones((2, 4), "float32")
    np.testing.assert_array_equal(main(np.bool_(False), wide), wide)
    np.testing.assert_array_equal(main(np.bool_(True), X), 2 * X)
    with pytest.raises(IRValueError, match="extent 1 is 4, expected 3"):
        main(np.bool_(True), wide)


def test_library_calls_in_a_branch() -> None:
    main = machine(
        module("""
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor((2, 3), "float32")):
    cls = Module
    if c:
        a = R.call_dps_packed("tests.negate", (x,), R.Tensor((2, 3), "float32"))
        r = (a, x)
    else:
        b = R.call_tir(cls.twice, (x,), R.Tensor((2, 3), "float32"))
        r = (b, b)
    s = r[1]
    d = R.call_tir(cls.add, (s, x), R.Tensor((2, 3), "float32"))
    return (r, d)
""")
    )["main"]
    (first, second), total = main(np.bool_(True), X)
    np.testing.assert_array_equal([first, second, total], [-X, X, 2 * X])
    (first, second), total = main(np.bool_(False), X)
    np.testing.assert_array_equal([first, second, total], [2 * X, 2 * X, 3 * X])


def test_arrays_that_a_library_function_keeps_outlive_the_machine() -> None:
    kept: list[codegen.NDArray] = []
    codegen.register_func("tests.negate", lambda x, out: kept.append(x), override=True)
    mod = module("""
@R.function
def main(w: R.Tensor((2, 3), "float32")):
    a = R.call_dps_packed("tests.negate", (w,), R.Tensor((2, 3), "float32"))
    return a
""")
    machine(mod, params={"w": X})["main"]()
    gc.collect()
    np.testing.assert_array_equal(kept[0], X)


KEEPERS = {
    "the array": lambda x: x,
    "a plain array over it": np.asarray,
    "a part of it": lambda x: x[1:],
    "what DLPack gives": np.from_dlpack,
}


@pytest.mark.parametrize("keeper", KEEPERS)
@pytest.mark.parametrize("rows", ["2", '"n"'])
def test_what_a_library_function_keeps_is_not_changed_by_later_calls(
    keeper: str, rows: str
) -> None:
    kept: list[Any] = []
    mod = module(f"""
@R.function(pure=False)
def main(x: R.Tensor(({rows}, 3), "float32")):
    n = T.int64()
    cls = Module
    a = R.call_tir(cls.twice, (x,), R.Tensor(({rows.strip('"')}, 3), "float32"))
    R.call_packed("tests.keep", a, sinfo_args=R.Tuple)
    b = R.call_tir(cls.twice, (a,), R.Tensor(({rows.strip('"')}, 3), "float32"))
    return b
""")
    codegen.register_func("tests.keep", lambda x: kept.append(KEEPERS[keeper](x)))
    main = machine(mod)["main"]
    codegen.remove_global_func("tests.keep")
    for k in range(3):
        main(X + k)
    for k, array in enumerate(kept):
        np.testing.assert_array_equal(array, (2 * (X + k))[-len(array) :])


def test_threads_share_a_machine() -> None:
    main, counted = machine(MIXED)["main"], machine(COUNTED)["main"]
    wrong: list[int] = []

    def work(seed: int) -> None:
        x = X + seed
        for _ in range(100):
            right = np.array_equal(main(x), -x)
            if not right or not np.array_equal(counted(np.int32(seed), x), x * 2**seed):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_library_function_may_call_the_machine_again() -> None:
    def again(x: codegen.NDArray, out: codegen.NDArray) -> None:
        if x[0, 1] > 20:
            out[:] = -x
        else:
            out[:] = -main(10 * x)

    codegen.register_func("tests.negate", again, override=True)
    main = machine(MIXED)["main"]
    # Outside: a = 2 x, b = 3 x; the inner call sees 30 x and gives -30 x.
    np.testing.assert_array_equal(main(X), 30 * X + 2 * X)


def test_memory_does_not_grow_with_calls() -> None:
    main = machine(MIXED)["main"]
    rows = machine(
        module("""
@R.function
def main(x: R.Tensor(("n", 3), "float32")):
    n = T.int64()
    cls = Module
    a = R.call_tir(cls.twice, (x,), R.Tensor((n, 3), "float32"))
    b = R.call_tir(cls.twice, (a,), R.Tensor((n, 3), "float32"))
    return b
""")
    )["main"]
    arrays = [np.ones((k, 3), "float32") for k in range(1, 5)]

    def calls(count: int) -> None:
        for k in range(count):
            main(X)
            rows(arrays[k % 4])

    calls(100)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    calls(600)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 10_000


def test_steps_run_between_guard_pages() -> None:
    np.testing.assert_array_equal(machine(MIXED, guard_pages=True)["main"](X), -X)


def test_time_evaluator_times_steps_as_well() -> None:
    assert machine(MIXED).module.time_evaluator("main", codegen.cpu(), number=3)(X).mean > 0


def test_a_module_without_graph_functions_is_refused() -> None:
    with pytest.raises(
        CodegenError, match=r"no graph function.*compile tensor functions with codegen.build"
    ):
        codegen.vm_build(module("").__class__({"add": MIXED["add"]}), "llvm")


# What programs written for TVM do, and what is tried first: it works, or the error says how

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
            'by its name in quotes, got the function "add"',
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
