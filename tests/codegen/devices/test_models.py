"""Models on a device: what a CPU computes, with arena and weights in the memory of the device."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from devices.ladder import OPENCL, needs_opencl

import codegen
from codegen.devices.array import DeviceArray, GpuDevice
from codegen.errors import CodegenError, ExecutionError, LibraryFunctionError
from codegen.lower.gpu.bind_unbound import bind_unbound
from tensorir import IRModule, parse, transform
from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import PrimFunc
from tensorir.nodes.dtype import DataType

MLP = """
@R.function
def main(x: R.Tensor((2, 16), "float32"), w: R.Tensor((16, 32), "float32"),
         b: R.Tensor((32,), "float32"), v: R.Tensor((32, 4), "float32")):
    with R.dataflow():
        h = R.nn.relu(R.add(R.matmul(x, w), b))
        y = R.nn.softmax(R.matmul(h, v), axis=-1)
        R.output(y)
    return y
"""
CONVOLUTIONS = """
@R.function
def main(x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32"),
         v: R.Tensor((64, 5), "float32"), b: R.Tensor((5,), "float32")):
    with R.dataflow():
        h = R.nn.relu(R.nn.conv2d(x, w, padding=[1, 1, 1, 1]))
        pooled = R.nn.max_pool2d(h, pool_size=[2, 2], strides=[2, 2])
        y = R.add(R.matmul(R.reshape(pooled, (1, 64)), v), b)
        R.output(y)
    return y
"""
ATTENTION = """
@R.function
def main(x: R.Tensor((6, 16), "float32"), w: R.Tensor((16, 16), "float32")):
    with R.dataflow():
        keys = R.permute_dims(R.matmul(x, w))
        scores = R.nn.softmax(R.matmul(x, keys), axis=-1)
        y = R.add(x, R.matmul(scores, x))
        R.output(y)
    return y
"""
ONE_PASS_ATTENTION = """
@R.function
def main(x: R.Tensor((2, 5, 4, 8), "float32"), w: R.Tensor((2, 7, 4, 8), "float32")):
    with R.dataflow():
        y = R.nn.attention(x, w, w)
        R.output(y)
    return y
"""
MODELS = {
    "mlp": (MLP, (2, 16)),
    "convolutions": (CONVOLUTIONS, (1, 3, 8, 8)),
    "attention": (ATTENTION, (6, 16)),
    "attention in one pass": (ONE_PASS_ATTENTION, (2, 5, 4, 8)),
}
OF_ANY_SIZE = """
@R.function
def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 4), "float32")):
    n = T.int64()
    with R.dataflow():
        y = R.matmul(x, w)
        R.output(y)
    return y
"""
ON_THE_HOST = """
@R.function
def main(x: R.Tensor((4, 8), "float32"), c: R.Tensor((), "bool")):
    first = R.sort(x, axis=-1)
    h = R.multiply(first, R.const(2.0, "float32"))
    s = R.sort(h, axis=-1, descending=True)
    if c:
        a = R.add(s, x)
        y = a
    else:
        b = R.subtract(s, x)
        y = b
    z = R.nn.relu(y)
    return (z, x, h)
"""
KERNEL = """
@I.ir_module
class Module:
    @T.prim_func
    def kernel(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), by: T.int32):
        for k in T.parallel(8):
            {}

    @R.function
    def main(x: R.Tensor((8,), "int32")):
        cls = Module
        y = R.call_tir(
            cls.kernel, (x,), out_sinfo=R.Tensor((8,), "int32"), tir_vars=R.shape([3])
        )
        return y
"""


def module(text: str) -> IRModule:
    found = parse(text)
    return found if isinstance(found, IRModule) else IRModule.from_expr(found)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).uniform(-1, 1, shape).astype("float32")


def with_weights(text: str) -> IRModule:
    mod = module(text)
    weights = {p.name: random(*p.struct_info.static_shape) for p in mod["main"].params[1:]}
    return transform.BindParams("main", weights)(mod)


def machine(mod: IRModule, **options: Any) -> codegen.VirtualMachine:
    return codegen.VirtualMachine(codegen.vm_build(mod, OPENCL, **options))


def on_cpu(mod: IRModule) -> Callable[..., Any]:
    return codegen.VirtualMachine(codegen.vm_build(mod, "llvm", default_schedules=False))["main"]


def requests(monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]) -> list[tuple[Any, ...]]:
    """Return the requests to the process of the device during a call."""
    process = codegen.device(OPENCL).process
    found: list[tuple[Any, ...]] = []
    original = process.request

    def request(name: str, *args: Any, **options: Any) -> Any:
        found.append((name, *args))
        return original(name, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(process, "request", request)
        call()
    return found


@needs_opencl
@pytest.mark.parametrize("name", MODELS)
def test_a_model_computes_what_it_computes_on_a_cpu(name, monkeypatch):
    text, shape = MODELS[name]
    mod = with_weights(text)
    main, expected, x = machine(mod)["main"], on_cpu(mod), random(*shape)
    first = requests(monkeypatch, lambda: main(x))
    (arena,) = [frame.device_memory for frame in main._free]
    planned = main.program.arena_bytes
    assert arena.nbytes == planned + x.nbytes + expected(x).nbytes
    assert ("allocate", planned) in [(name, *rest[1:]) for name, *rest in first]
    # A later call copies its argument and its result, and starts all kernels by one request.
    again = requests(monkeypatch, lambda: main(2 * x))
    assert [name for name, *_ in again] == ["write", "run", "read"]
    for value in (x, 2 * x):
        np.testing.assert_allclose(main(value), expected(value), rtol=1e-4, atol=1e-6)


@needs_opencl
def test_sizes_of_a_call():
    mod = with_weights(OF_ANY_SIZE)
    main, expected = machine(mod)["main"], on_cpu(mod)
    for n in (1, 5, 5, 150):
        np.testing.assert_allclose(main(random(n, 8)), expected(random(n, 8)), rtol=1e-5, atol=1e-6)


@needs_opencl
def test_a_scalar_chooses_between_grids():
    mod = parse("""
@I.ir_module
class Module:
    @T.prim_func
    def kernel(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), by: T.int32):
        T.func_attr({"tir.noalias": True})
        if by * by < 10:
            for bx in T.thread_binding(8, thread="blockIdx.x"):
                with T.block("B"):
                    v = T.axis.spatial(8, bx)
                    B[v] = A[v] + by
        else:
            for bx in T.thread_binding(2, thread="blockIdx.x"):
                for tx in T.thread_binding(4, thread="threadIdx.x"):
                    with T.block("C"):
                        v = T.axis.spatial(8, bx * 4 + tx)
                        B[v] = A[v] - by

    @R.function
    def main(x: R.Tensor((8,), "int32"), s: R.Shape(["k"])):
        k = T.int64()
        cls = Module
        y = R.call_tir(
            cls.kernel, (x,), out_sinfo=R.Tensor((8,), "int32"), tir_vars=R.shape([k])
        )
        return y
""")
    main = machine(mod)["main"]
    x = np.arange(8, dtype="int32")
    for k, expected in ((3, x + 3), (4, x - 4), (1 << 16, x + (1 << 16))):
        np.testing.assert_array_equal(main(x, (k,)), expected)


@needs_opencl
def test_library_functions_and_branches_run_on_the_host():
    mod, x = module(ON_THE_HOST), random(4, 8)
    vm = machine(mod, default_schedules=False)
    assert (
        vm.executable.as_text()
        == """\
main(x, c):
    copy r5, r0 to the host
    call library tensorir.op.sort(r5, r0)
    copy r5, r0 to the device
    launch multiply
    copy r7, r4 to the host
    call library tensorir.op.sort(r7, r4)
    copy r7, r4 to the device
    copy r1 to the host
    if r1:
        launch add
    else:
        launch subtract
    launch relu
    launch copy
    copy r2, r3, r4 to the host"""
    )
    expected = on_cpu(mod)
    for condition in (True, False):
        found = vm["main"](x, np.array(condition))
        for one, other in zip(found, expected(x, np.array(condition)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)
    assert "sort" in str(vm.profile("main", x, np.array(True)))


@needs_opencl
def test_a_kernel_that_hangs_costs_the_process_and_a_later_call_works():
    text = KERNEL.format(
        "B[k] = A[k] * by\n            while B[k] == 21:\n                B[k] = 21"
    )
    mod = module(text)
    executable = pickle.loads(pickle.dumps(codegen.vm_build(mod, OPENCL)))
    main = codegen.VirtualMachine(executable, codegen.device(OPENCL, timeout=0.5))["main"]
    x = np.arange(3, 11, dtype="int32")
    x[4] = 0
    np.testing.assert_array_equal(main(x), x * 3)
    with pytest.raises(ExecutionError, match=r"did not answer within 0.5 s and was ended"):
        main(np.arange(3, 11, dtype="int32"))
    np.testing.assert_array_equal(main(x), x * 3)


@needs_opencl
def test_first_calls_in_several_threads():
    text, shape = MODELS["mlp"]
    mod = with_weights(text)
    x, expected = random(*shape), on_cpu(mod)(random(*shape))
    main = machine(mod, default_schedules=False)["main"]
    with ThreadPoolExecutor(3) as threads:
        for found in threads.map(lambda _: main(x), range(6)):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@needs_opencl
def test_a_prepared_run_after_a_library_function_raised():
    fails = []

    def give_back(source: np.ndarray, result: np.ndarray) -> None:
        if fails:
            raise ValueError(fails.pop())
        result[...] = source

    codegen.register_func("test.give_back", give_back, override=True)
    mod = module("""
@R.function
def main(x: R.Tensor((4,), "float32")):
    h = R.multiply(x, R.const(2.0, "float32"))
    s = R.call_dps_packed("test.give_back", (h,), out_sinfo=R.Tensor((4,), "float32"))
    return R.add(s, x)
""")
    x = np.ones(4, "float32")
    run = machine(mod, default_schedules=False)["main"].prepare(x)
    np.testing.assert_array_equal(run(), [3, 3, 3, 3])
    fails.append("not now")
    with pytest.raises(LibraryFunctionError, match="not now"):
        run()
    x[...] = 5
    np.testing.assert_array_equal(run(), [15, 15, 15, 15])


def test_what_is_refused():
    mod = module(KERNEL.format("B[k] = A[k] * by"))
    with pytest.raises(CodegenError, match="guard_pages is for CPUs"):
        codegen.vm_build(mod, OPENCL, guard_pages=True)
    executable = codegen.vm_build(mod, OPENCL)
    with pytest.raises(IRValueError, match=r"unknown device cpu\(0\); the only device is"):
        codegen.VirtualMachine(executable, codegen.cpu())
    for refused in (lambda: executable.c_header(), lambda: executable.export_library("lib.so")):
        with pytest.raises(codegen.LinkError, match="a shared library runs on CPUs"):
            refused()
    calls = module(KERNEL.format('T.call_packed("test.shift", B, by)'))
    with pytest.raises(
        CodegenError,
        match=r"kernels of a GPU cannot call Python functions, and some do: test\.shift \(in kernel",
    ):
        codegen.vm_build(calls, OPENCL)


def copies(requests: list[tuple[Any, ...]]) -> list[str]:
    return [name for name, *_ in requests if name in ("read", "write")]


@needs_opencl
def test_results_are_on_the_device_if_arguments_are(monkeypatch):
    mod, device = module(MLP), codegen.device(OPENCL)
    values = [random(*p.struct_info.static_shape) for p in mod["main"].params]
    main = machine(mod, default_schedules=False)["main"]
    args = [codegen.array(value, device) for value in values]
    first, there = main(*args), on_cpu(mod)
    expected = there(*values)
    np.testing.assert_allclose(first.numpy(), expected, rtol=1e-4, atol=1e-6)
    assert copies(requests(monkeypatch, lambda: main(*args))) == []
    args[0].copyfrom(2 * values[0])
    second = main(args[0], *values[1:])
    assert second.device == device
    np.testing.assert_allclose(second.numpy(), there(2 * values[0], *values[1:]), rtol=1e-4)
    np.testing.assert_allclose(first.numpy(), expected, rtol=1e-4, atol=1e-6)


@needs_opencl
def test_the_host_reads_and_returns_what_is_on_the_device():
    mod, device, x = module(ON_THE_HOST), codegen.device(OPENCL), random(4, 8)
    main = machine(mod, default_schedules=False)["main"]
    given, expected = codegen.array(x, device), on_cpu(mod)
    for condition in (True, False):
        found = main(given, np.array(condition))
        for one, other in zip(found, expected(x, np.array(condition)), strict=True):
            assert one.device == device
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-6)
    np.testing.assert_array_equal(given.numpy(), x)


@needs_opencl
def test_the_results_in_bfloat16_are_arrays_of_bfloat16():
    mod = module("""
@R.function
def main(x: R.Tensor((4,), "bfloat16")):
    with R.dataflow():
        y = R.add(x, x)
        R.output(y)
    return y
""")
    main = machine(mod, default_schedules=False)["main"]
    x = codegen.empty((4,), "bfloat16", codegen.device(OPENCL))
    x.copyfrom(np.full(4, 0x3FC0, "uint16"))
    found = main(x)
    assert str(found.dtype) == "bfloat16"
    np.testing.assert_array_equal(found.numpy(), np.full(4, 0x4040, "uint16"))
    assert isinstance(main(np.full(4, 0x3FC0, "uint16")), codegen.BFloat16Array)


CACHE = parse(
    """
@I.ir_module
class Module:
    @R.function
    def main(row: R.Tensor((1, 8), "float32"), place: R.Tensor((1,), "int64"),
             cache: R.Tensor((16, 8), "float32")):
        R.func_attr({"updates": ["cache"], "state": (R.const(zeros, "float32"),)})
        with R.dataflow():
            filled = R.index_put(cache, (place,), row)
            total = R.sum(filled, axis=0)
            R.output(total, filled)
        return (total, (filled,))
""",
    {"zeros": np.zeros((16, 8), "float32")},
)


@needs_opencl
def test_state_stays_on_the_device(monkeypatch):
    main = machine(CACHE, default_schedules=False).function("main")
    row = np.ones((1, 8), "float32")
    found: list[np.ndarray] = []
    for k in range(3):
        made = requests(monkeypatch, lambda k=k: found.append(main(row, np.array([k]))))
        np.testing.assert_array_equal(found[-1], np.full(8, k + 1, "float32"))
    assert copies(made) == ["write", "write", "read"], "row and place, and the result"
    cache = main.state["cache"]
    assert cache.numpy().sum() == 24
    main.reset_state()
    assert main(row, np.array([5]))[0] == 1
    main.state["cache"] = cache
    assert main(row, np.array([5]))[0] == 4


def test_the_array_of_a_device_is_for_that_device():
    class Elsewhere(DeviceArray):
        def __init__(self) -> None:
            self.shape, self.dtype = (8,), DataType("int32")
            self.device = GpuDevice("cuda")

    mod = module(KERNEL.format("B[k] = A[k] * by"))
    with pytest.raises(
        IRTypeError, match=r"Elsewhere on cuda\(0\), but the function runs on the CPU"
    ):
        on_cpu(mod)(Elsewhere())
    main = machine(mod)["main"]
    with pytest.raises(IRTypeError, match=r"on cuda\(0\), but the function runs on opencl\(0\)"):
        main(Elsewhere())


def test_nests_without_a_schedule_get_a_plain_binding():
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4, 8)), B: T.Buffer((4,)), C: T.Buffer((1,))):
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] += A[vi, vk]
    for i in range(4):
        with T.block("C"):
            vk = T.axis.reduce(4, i)
            with T.init():
                C[0] = 0.0
            C[0] += B[vk]
""")
    assert isinstance(func, PrimFunc)
    loops = [x.strip() for x in bind_unbound(func).script().splitlines() if " for " in x]
    assert loops == [
        'for i in T.thread_binding(4, thread="blockIdx.x"):',
        "for k in range(8):",
        'for once in T.thread_binding(1, thread="blockIdx.x"):',
        "for i in range(4):",
    ]


def test_memory_that_a_nest_allocates_belongs_to_its_thread() -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8, 4)), B: T.Buffer((8, 4))):
    for i in range(8):
        with T.block("row"):
            vi = T.axis.spatial(8, i)
            row = T.alloc_buffer((4,))
            for j in T.serial(4):
                row[j] = A[vi, j] + T.float32(1)
            for j in T.serial(4):
                B[vi, j] = row[3 - j]
""")
    assert isinstance(func, PrimFunc)
    lines = [x.strip() for x in bind_unbound(func).script().splitlines()]
    assert 'for i in T.thread_binding(8, thread="blockIdx.x"):' in lines
    assert 'row = T.alloc_buffer((4,), scope="local")' in lines


@pytest.mark.parametrize(
    ("index", "loop"),
    [
        ("vj", 'once in T.thread_binding(1, thread="blockIdx.x")'),
        ("vi * 64 + vj", 'i in T.thread_binding(64, thread="blockIdx.x")'),
    ],
)
def test_iterations_that_share_a_temporary_run_in_order(index, loop):
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((64,)), B: T.Buffer((64,))):
    tmp = T.alloc_buffer((4096,))
    for i in T.parallel(64):
        for j in range(64):
            with T.block("tmp"):
                vi, vj = T.axis.remap("SS", [i, j])
                tmp[{index}] = A[vi] + A[vj]
        for j in range(64):
            with T.block("B"):
                vi, vj = T.axis.remap("SR", [i, j])
                B[vi] = B[vi] + tmp[{index}]
""")
    assert isinstance(func, PrimFunc)
    lines = [x.strip() for x in bind_unbound(func).script().splitlines() if " for " in x]
    assert lines[0] == f"for {loop}:"
