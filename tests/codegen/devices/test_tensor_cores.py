"""Products on the tensor cores of NVIDIA's GPUs: scheduled, interpreted, refused, and assembled."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import codegen
from codegen.devices.compile import assembly_of, compile_for_gpu
from codegen.devices.ptxas import assemble, ptxas_path
from codegen.lower import LoweringError
from schedule import LoopRV, Schedule
from tensorir.function import PrimFunc
from tensorir.interp import InterpreterError, interpret
from tensorir.nodes import stmt as s
from tensorir.nodes.dtype import DataType
from tensorir.rewriting.visit import rewrite, statements
from tensorir.script import parse
from tensorir.semantics.conversions import stored
from tensorir.tensor_intrin import TensorIntrin

DTYPES = {"f16": "float16", "bf16": "bfloat16", "s8": "int8", "f32": "float32", "s32": "int32"}
A100 = codegen.Target("cuda -arch=sm_80")


def matmul(n: int, dtype: str, sums: str, right: str = "B[vk, vj]") -> PrimFunc:
    wide = DTYPES[sums]
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer(({n}, {n}), "{DTYPES[dtype]}"), B: T.Buffer(({n}, {n}), "{DTYPES[dtype]}"), C: T.Buffer(({n}, {n}), "{wide}")):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
    for i, j, k in T.grid({n}, {n}, {n}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.{wide}(0)
            C[vi, vj] = C[vi, vj] + T.Cast("{wide}", A[vi, vk]) * T.Cast("{wide}", {right})
""")
    assert isinstance(func, PrimFunc)
    return func


def bind(sch: Schedule, loops: dict[str, LoopRV]) -> None:
    for axis, loop in loops.items():
        sch.bind(loop, axis)


def on_tensor_cores(
    func: PrimFunc,
    kind: str = "f16f16f32",
    *,
    trans: str = "",
    load_trans: str | None = None,
    place: str = "global",
    padding: int = 0,
    warps: int = 1,
    tiles: int = 1,
    lanes: int = 32,
    skip: str = "",
) -> Schedule:
    """Return a schedule: `warps` x `warps` warps in a block, `tiles` x `tiles` tiles in a warp.

    Tiles of both factors are fetched into shared memory by all threads, with vectors.
    """
    dtype, sums = next((d, kind.removeprefix(d + d)) for d in DTYPES if kind.startswith(d + d))
    sch = Schedule(func)
    block = sch.get_block("C")
    loops = [sch.split(loop, [None, 16]) for loop in sch.get_loops(block)]
    (i, i2), (j, j2), (k, k2) = loops
    sch.reorder(i, j, k, i2, j2, k2)
    tile = sch.blockize(i2)
    by, ty, i1 = sch.split(i, [None, warps, tiles])
    bx, tz, j1 = sch.split(j, [None, warps, tiles])
    k0, k1 = sch.split(k, [None, 2])
    sch.reorder(by, bx, ty, tz, k0, k1, i1, j1)
    bind(sch, {"blockIdx.y": by, "blockIdx.x": bx, "threadIdx.y": ty, "threadIdx.z": tz})
    moves = []
    load_trans = trans if load_trans is None else load_trans
    for index, matrix in enumerate("ab"):
        shared = sch.cache_read(tile, index, "shared")
        fragment = sch.cache_read(tile, index, f"wmma.matrix_{matrix}")
        sch.compute_at(fragment, k1)
        sch.compute_at(shared, k0)
        if padding:
            sch.storage_align(shared, 0, 0, 16, padding)
        fused = sch.fuse(*sch.get_loops(shared)[-2:])
        _, y, z, x, vector = sch.split(fused, [None, warps, warps, lanes, 4])
        bind(sch, {"threadIdx.y": y, "threadIdx.z": z, "threadIdx.x": x})
        sch.vectorize(vector)
        order = load_trans if matrix == "b" else ""
        moves.append((fragment, f"wmma_load_16x16x16_{dtype}_{matrix}{order}_shared"))
    if place == "shared":
        staged = sch.cache_write(tile, 0, "shared")
    result = sch.cache_write(tile, 0, "wmma.accumulator")
    sch.reverse_compute_at(result, tz)
    if place == "shared":
        sch.reverse_compute_at(staged, bx)
        *_, x, y = sch.get_loops(staged)
        _, lane = sch.split(sch.fuse(x, y), [None, lanes])
        bind(sch, {"threadIdx.x": lane})
    init = sch.decompose_reduction(tile, k0)
    moves.append((result, f"wmma_store_16x16x16_{sums}_{place}"))
    for move, intrin in moves:
        if skip and skip in intrin:
            continue
        x, y = sch.get_loops(move)[-2:]
        (x, x1), (y, y1) = sch.split(x, [None, 16]), sch.split(y, [None, 16])
        sch.reorder(x, y, x1, y1)
        sch.tensorize(x1, intrin)
    sch.tensorize(init, f"wmma_fill_16x16x16_{sums}")
    sch.tensorize(tile, f"wmma_sync_16x16x16_{kind}{trans}")
    return sch


def operands(n: int, dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    if dtype == "s8":
        return [rng.integers(-128, 128, (n, n), "int8") for _ in range(2)]
    return [stored(rng.uniform(-1, 1, (n, n)), DataType(DTYPES[dtype])) for _ in range(2)]


def lowered(sch: Schedule, target: codegen.Target = A100) -> PrimFunc:
    func = sch.mod["main"]
    assert isinstance(func, PrimFunc)
    return codegen.lower(func, target)


@pytest.mark.parametrize("kind", ["f16f16f32", "f16f16f16", "s8s8s32"])
@pytest.mark.parametrize("trans", ["", "_trans"])
def test_products_of_each_dtype_in_lock_step(kind: str, trans: str) -> None:
    dtype = "s8" if kind.startswith("s8") else "f16"
    func = matmul(32, dtype, kind.removeprefix(dtype * 2), "B[vj, vk]" if trans else "B[vk, vj]")
    sch = on_tensor_cores(func, kind, trans=trans, tiles=2)
    a, b = operands(32, dtype)
    right = b.T if trans else b
    wide = "float32" if dtype == "f16" else "int32"
    expected = a.astype(wide) @ right.astype(wide)
    c = np.zeros((32, 32), DTYPES[kind.removeprefix(dtype * 2)])
    interpret(lowered(sch), a, b, c)
    np.testing.assert_allclose(
        c.astype(wide), expected, rtol=3e-3, atol=3e-2 if kind.endswith("f16") else 1e-4
    )


def test_bfloat16_serially_by_the_definitions() -> None:
    """The program before lowering means the same, without warps."""
    func = matmul(32, "bf16", "f32")
    a, b = operands(32, "bf16")
    c, expected = np.zeros((2, 32, 32), "float32")
    interpret(func, a, b, expected)
    interpret(on_tensor_cores(func, "bf16bf16f32").mod["main"], a, b, c)
    np.testing.assert_array_equal(c, expected)


def test_several_warps_and_blocks() -> None:
    sch = on_tensor_cores(matmul(64, "f16", "f32"), warps=2)
    a, b = operands(64, "f16")
    c = np.zeros((64, 64), "float32")
    interpret(lowered(sch), a, b, c)
    np.testing.assert_allclose(c, a.astype("float32") @ b.astype("float32"), rtol=3e-3, atol=1e-4)


def test_tiles_are_copied_while_others_are_multiplied() -> None:
    sch = on_tensor_cores(matmul(64, "f16", "f32"), warps=2)
    multiply = sch.get_loops(sch.get_block("C_o_update"))
    (loop,) = [x for x in multiply if "k_0_0" in sch.get(x).loop_var.name]
    sch.annotate(loop, "software_pipeline_stage", [0, 0, 1])
    sch.annotate(loop, "software_pipeline_order", [0, 1, 2])
    sch.annotate(loop, "software_pipeline_async_stages", [0])
    a, b = operands(64, "f16")
    c = np.zeros((64, 64), "float32")
    func = lowered(sch)
    assert "async_wait_inflight_count" in func.script()
    interpret(func, a, b, c)
    np.testing.assert_allclose(c, a.astype("float32") @ b.astype("float32"), rtol=3e-3, atol=1e-4)


def test_sums_are_staged_in_shared_memory() -> None:
    sch = on_tensor_cores(matmul(32, "f16", "f32"), tiles=2, place="shared")
    a, b = operands(32, "f16")
    c = np.zeros((32, 32), "float32")
    func = lowered(sch)
    interpret(func, a, b, c)
    np.testing.assert_allclose(c, a.astype("float32") @ b.astype("float32"), rtol=3e-3, atol=1e-4)
    after = func.script().rsplit("wmma.store", 1)[1]
    assert after.count("T.tvm_storage_sync") == 1


def test_missing_barriers_are_found() -> None:
    func = lowered(on_tensor_cores(matmul(32, "f16", "f32")))
    assert func.script().count("T.tvm_storage_sync") == 2

    def dropped(node: s.Evaluate) -> s.Stmt | None:
        return s.sequence([]) if "tvm_storage_sync" in str(node) else None

    faulty = func.with_body(rewrite(func.body, {s.Evaluate: dropped}))
    with pytest.raises(InterpreterError, match=r"access element .* of A_shared without a barrier"):
        interpret(faulty, *operands(32, "f16"), np.zeros((32, 32), "float32"))


def test_a_warp_that_is_divided_is_found() -> None:
    func = lowered(on_tensor_cores(matmul(32, "f16", "f32")))
    loops = [n for n in statements(func.body) if isinstance(n, s.For)]
    (lane,) = [n.loop_var for n in loops if n.thread_tag == "threadIdx.x"]

    def half(node: s.AttrStmt) -> s.Stmt | None:
        return s.IfThenElse(lane < 16, node) if "wmma.store" in str(node.value) else None

    faulty = func.with_body(rewrite(func.body, {s.AttrStmt: half}))
    with pytest.raises(InterpreterError, match=r"thread \(threadIdx.x = 16.* does not come to"):
        interpret(faulty, *operands(32, "f16"), np.zeros((32, 32), "float32"))


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("opencl", {}, "has no tensor cores; choose a target such as 'cuda -arch=sm_80'"),
        ("cuda -arch=sm_60", {}, "has no tensor cores"),
        ("cuda -arch=sm_75", {"kind": "bf16bf16f32"}, "has tensor cores only for f16, s8"),
        ("llvm", {}, "a CPU does not"),
        ("cuda", {"lanes": 64}, "threads of a warp, but the loop bound to threadIdx.x has 64"),
        ("cuda", {"skip": "store"}, "single elements of C_wmma.accumulator"),
        ("cuda", {"padding": 8}, "a tile of A_shared in .* no multiple of 32 bytes"),
        ("cuda", {"load_trans": "_trans"}, "B_shared_wmma.matrix_b and multiplies it in two layouts"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused(target: str, options: dict[str, object], message: str) -> None:
    dtype = "bf16" if "kind" in options else "f16"
    sch = on_tensor_cores(matmul(64, dtype, "f32"), **options)  # type: ignore[arg-type]
    with pytest.raises(LoweringError, match=message):
        lowered(sch, codegen.Target(target))


@pytest.mark.parametrize(
    "call", ['"wmma.fold.f32", A[0], 16', "", "1, A[0], 16", '"wmma.fill.f32"']
)
def test_an_invalid_instruction_is_refused(call: str) -> None:
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((256,), "float32")):
    for t in T.thread_binding(32, thread="threadIdx.x"):
        with T.attr(0, "tensor_core", T.tensor_core({call})):
            for i in range(256):
                A[i] = T.float32(0)
""")
    assert isinstance(func, PrimFunc)
    with pytest.raises(LoweringError, match=r"an invalid instruction of tensor cores, `T\.tensor"):
        codegen.lower(func, A100)


@cache
def script_of_a_product() -> str:
    func = on_tensor_cores(matmul(32, "f16", "f32"), tiles=2).mod["main"]
    codegen.lower(func, A100)
    return func.script()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("C_1[i, j] = A_1[i, j]", "C_1[j, i] = A_1[i, j]"),
        ("C_1[i, j] = T.float32(0.0)", "C_1[i, j] = T.float32(1.0)"),
        ("A_1[i, k]) *", "A_1[k, i]) *"),
        ("C_1[i, j] + T.Cast", "C_1[i, j] - T.Cast"),
        ("j, k in T.grid(16, 16, 16)", "j, k in T.grid(16, 16, 8)"),
        ("A_1[0, 0], A_1.strides[0])", "A_1[0, 0], 16)"),
        ("B_1[0, 0], B_1.strides[0], A_1[0, 0]", "B_1[0, 0], B_1.strides[0], A_1[1, 0]"),
        ("wmma.load.a.row.f16", "wmma.load.b.row.f16"),
        ("wmma.mma.row.row.f16.f32", "wmma.mma.row.col.f16.f32"),
    ],
)
def test_loops_that_are_not_those_of_the_instruction_are_refused(right: str, wrong: str) -> None:
    text = script_of_a_product()
    assert right in text
    changed = parse(text.replace(right, wrong))
    assert isinstance(changed, PrimFunc)
    with pytest.raises(
        LoweringError, match=r"runs wmma\.\S+ on tensor cores for loops that compute"
    ):
        codegen.lower(changed, A100)


@pytest.mark.parametrize("kind", ["f16f16f32", "f16f16f16", "bf16bf16f32", "s8s8s32"])
def test_instructions_and_registers_of_a_large_product(kind: str) -> None:
    dtype = next(d for d in ("bf16", "f16", "s8") if kind.startswith(d))
    func = matmul(1024, dtype, kind.removeprefix(dtype * 2))
    sch = on_tensor_cores(func, kind, warps=2, tiles=4)
    for arch in ("sm_80", "sm_90"):
        target = codegen.Target(f"cuda -arch={arch}")
        (function,) = compile_for_gpu({"main": sch.mod["main"]}, target).functions  # type: ignore[dict-item]
        ((name, ptx),) = function.kernels.items()
        text = ptx.decode()
        assert text.count("wmma.mma.sync") == 16  # 4 x 4 tiles
        assert ".local" not in text
        if ptxas_path() is not None:
            resources = assemble(ptx, arch)[name]
            assert (resources.spill_bytes, resources.stack_bytes) == (0, 0)
    assert "main_kernel" in str(codegen.explain(sch.mod["main"], target))
    assert "wmma.load.a.sync.aligned.row.m16n16k16.shared" in assembly_of(function.units.values())


def test_the_names_are_those_of_the_reference() -> None:
    names = {name for name in TensorIntrin.names() if name.startswith("wmma_")}
    assert {
        "wmma_sync_16x16x16_f16f16f32", "wmma_sync_16x16x16_f16f16f16_trans",
        "wmma_load_16x16x16_f16_a_shared", "wmma_load_16x16x16_s8_b_trans_shared_dyn",
        "wmma_fill_16x16x16_s32", "wmma_store_16x16x16_f32_shared",
        "wmma_store_16x16x16_f16_global",
    } <= names  # fmt: skip
    for name in names:
        intrin = TensorIntrin.get(name)
        assert intrin is not None
        assert "T.tensor_core" in intrin.impl.script()
