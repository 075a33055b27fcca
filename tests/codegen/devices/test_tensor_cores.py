"""Products on the tensor cores of NVIDIA's GPUs: scheduled, interpreted, refused, and assembled."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import codegen
from codegen.devices.compile import assembly_of, compile_for_gpu
from codegen.devices.ptxas import assemble, ptxas_path
from codegen.lower import LoweringError
from schedule import Schedule
from tensorir.function import PrimFunc
from tensorir.interp import InterpreterError, interpret
from tensorir.nodes import stmt as s
from tensorir.rewriting.visit import rewrite, statements
from tensorir.script import parse
from tensorir.tensor_intrin import TensorIntrin
from tests.codegen.devices.tensor_core_schedules import DTYPES, matmul, on_tensor_cores, operands

A100 = codegen.Target("cuda -arch=sm_80")


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
        ("cuda", {"padding": 4}, "A_shared in .* has rows of 36, which is no multiple of 16 bytes"),
        ("cuda", {"load_trans": "_trans"}, "B_shared_wmma.matrix_b as b.col and as b.row"),
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
