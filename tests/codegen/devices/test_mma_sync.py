"""Products by `ldmatrix` and `mma.sync`: scheduled, interpreted, emulated, refused, assembled."""

from __future__ import annotations

import re

import numpy as np
import pytest

import codegen
from codegen.devices.compile import compile_for_gpu
from codegen.devices.ptxas import assemble, ptxas_path
from codegen.lower import LoweringError
from schedule import Schedule, ScheduleError, Trace
from search.feature_extractor.gpu_kernels import kernels_of
from search.feature_extractor.gpu_shared_memory import shared_bytes
from tensorir.errors import IRValueError
from tensorir.function import PrimFunc
from tensorir.interp import interpret
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import PrimExpr
from tensorir.script import parse
from tensorir.semantics.conversions import stored
from tensorir.tensor_intrin import TensorIntrin
from tensorir.tensor_intrin.tensor_core import get_mma_intrin_group
from tests.codegen.devices.ptx_emulator import run_ptx
from tests.codegen.devices.tensor_core_schedules import DTYPES, matmul, on_tensor_cores, operands
from tests.recorded import recorded

A100 = codegen.Target("cuda -arch=sm_80")
KINDS = [
    (kind, trans_a, trans_b)
    for kind in ("f16f16f32", "f16f16f16", "bf16bf16f32", "s8s8s32")
    for trans_a in ("", "_trans")
    for trans_b in ("", "_trans")
    if not (kind == "s8s8s32" and trans_a)
]


def split_kind(kind: str) -> tuple[str, str]:
    """Return the dtypes of factors and sums."""
    dtype = re.fullmatch(r"(.*)\1(.*)", kind)
    assert dtype is not None
    return dtype[1], dtype[2]


def product(n: int, kind: str, trans_a: str = "", trans_b: str = "") -> PrimFunc:
    left = "A[vk, vi]" if trans_a else "A[vi, vk]"
    return matmul(n, *split_kind(kind), "B[vj, vk]" if trans_b else "B[vk, vj]", left)


def numbers(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return stored numbers, those of float types as float32."""
    if dtype == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype("int32" if dtype.startswith("s") else "float32")


def expected(kind: str, a: np.ndarray, b: np.ndarray, trans_a: str, trans_b: str) -> np.ndarray:
    dtype, _ = split_kind(kind)
    a, b = numbers(a, dtype), numbers(b, dtype)
    return (a.T if trans_a else a) @ (b.T if trans_b else b)


def ptx_of(func: PrimFunc, target: codegen.Target = A100) -> tuple[str, bytes]:
    (function,) = compile_for_gpu({"main": func}, target).functions
    ((name, ptx),) = function.kernels.items()
    return name, ptx


def scheduled(sch: Schedule) -> PrimFunc:
    func = sch.mod["main"]
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize(("kind", "trans_a", "trans_b"), KINDS)
def test_intrinsics_compute_a_product(kind: str, trans_a: str, trans_b: str) -> None:
    """Fill, load, multiply and store, of one tile, by the programs of the intrinsics alone."""
    dtype, sums = (name.replace("s", "i") for name in split_kind(kind))
    short = DTYPES[split_kind(kind)[0]], DTYPES[split_kind(kind)[1]]
    group = get_mma_intrin_group(
        "shared", "global", short[0], short[0], short[1], bool(trans_a), bool(trans_b), False
    )
    steps = 32 if dtype == "i8" else 16
    a, b = (x[:16, :steps].copy() for x in operands(32, split_kind(kind)[0]))
    a, b = (a.T.copy() if trans_a else a), (b if trans_b else b.T.copy())
    held = {
        key: stored(np.zeros((32, n)), DataType(which))
        for key, n, which in (
            ("a", steps // 2, short[0]),
            ("b", steps // 2, short[0]),
            ("c", 8, short[1]),
        )
    }
    c = np.zeros((16, 16), held["c"].dtype)
    for key, arrays in (
        ("init", [held["c"]]),
        ("load_a", [a, held["a"]]),
        ("load_b", [b, held["b"]]),
        ("compute", [held["a"], held["b"], held["c"]]),
        ("store", [held["c"], c]),
    ):
        intrin = TensorIntrin.get(group[key])
        assert intrin is not None
        if key != "compute":
            before = [x.copy() for x in arrays]
            interpret(intrin.desc, *before)
        interpret(intrin.impl, *arrays)
        if key != "compute":
            np.testing.assert_array_equal(before[-1], arrays[-1])
    wanted = expected(kind, a, b, trans_a, trans_b)
    tolerance = 3e-2 if sums == "f16" else 1e-5
    np.testing.assert_allclose(numbers(c, split_kind(kind)[1]), wanted, rtol=3e-3, atol=tolerance)


@pytest.mark.parametrize("entry", recorded("mma"), ids=lambda entry: entry["workload"])
def test_traces_of_tvm_replay(entry: dict[str, str]) -> None:
    """The result in lock step, and that of the PTX with the places that hardware has."""
    before = parse(entry["before"])
    assert isinstance(before, PrimFunc)
    sch = Schedule(before)
    Trace.from_python(entry["trace_py"]).apply_to_schedule(sch, remove_postproc=False)
    kind = entry["workload"].replace("i", "s").removesuffix("_trans_b")
    trans_b = "_trans" * entry["workload"].endswith("_trans_b")
    dtype, sums = split_kind(kind)
    a, b = operands(32, dtype)
    serial, emulated = np.zeros((2, 32, 32), DTYPES[sums])
    interpret(codegen.lower(scheduled(sch), A100), a, b, serial)
    _, ptx = ptx_of(scheduled(sch))
    run_ptx(ptx.decode(), [a, b, emulated], (32, 1, 1))
    wanted = expected(kind, a, b, "", trans_b)
    for found in (serial, emulated):
        np.testing.assert_allclose(found, wanted, rtol=3e-3, atol=3e-2 if sums == "f16" else 1e-5)


@pytest.mark.parametrize(("kind", "trans_a", "trans_b"), KINDS)
def test_what_is_emitted_computes_a_product(kind: str, trans_a: str, trans_b: str) -> None:
    """Four warps of 2 x 2 tiles each multiply 64 x 64 numbers by the PTX."""
    dtype, sums = split_kind(kind)
    sch = on_tensor_cores(
        product(64, kind, trans_a, trans_b), kind, family="mma", trans_a=trans_a, trans=trans_b,
        warps=2, tiles=2, padding=16 if dtype == "s8" else 8,
    )  # fmt: skip
    name, ptx = ptx_of(scheduled(sch))
    text = ptx.decode()
    a, b = operands(64, dtype)
    c = np.zeros((64, 64), DTYPES[sums])
    run_ptx(text, [a, b, c], (32, 2, 2))
    wanted = expected(kind, a, b, trans_a, trans_b)
    np.testing.assert_allclose(c, wanted, rtol=3e-3, atol=5e-2 if sums == "f16" else 1e-4)
    assert ("ldmatrix" in text, "mma.sync" in text, ".local" in text) == (True, True, False)
    if ptxas_path() is not None:
        resources = assemble(ptx, "sm_80")[name]
        assert (resources.spill_bytes, resources.stack_bytes) == (0, 0)


def test_a_product_of_several_warps_in_lock_step() -> None:
    sch = on_tensor_cores(product(32, "s8s8s32"), "s8s8s32", family="mma", warps=2, padding=16)
    a, b = operands(32, "s8")
    c = np.zeros((32, 32), "int32")
    interpret(codegen.lower(scheduled(sch), A100), a, b, c)
    np.testing.assert_array_equal(c, expected("s8s8s32", a, b, "", ""))


def test_what_a_kernel_uses_is_counted() -> None:
    """Of each thread 4 tiles of sums in 8 registers, and 2 of each factor in 4."""
    sch = on_tensor_cores(product(64, "f16f16f32"), family="mma", warps=2, tiles=2, padding=8)
    (kernel,) = kernels_of(scheduled(sch))
    assert kernel.local_words == 4 * 8 + 2 * 4 + 2 * 4
    report = codegen.explain(sch.mod, A100)
    (facts,) = report.kernels  # type: ignore[attr-defined]
    assert shared_bytes(kernel) == facts.shared_bytes == 2 * (64 * (32 + 8) + 32 * (64 + 8))
    if ptxas_path() is not None:
        assert facts.resources.registers >= kernel.local_words


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("cuda -arch=sm_75", {}, r"on tensor cores, but cuda .* has no mma\.sync; choose a target"),
        ("opencl", {}, "has no tensor cores"),
        ("cuda", {"padding": 4}, "rows of 36, which is no multiple of 16 bytes"),
        ("cuda", {"lanes": 64}, "threads of a warp, but the loop bound to threadIdx.x has 64"),
        ("cuda", {"skip": "store"}, "accesses single elements of C_warp"),
        ("cuda", {"load_trans": "_trans"}, "B_shared_warp as b.col and as b.row"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused(target: str, options: dict[str, object], message: str) -> None:
    sch = on_tensor_cores(product(64, "f16f16f32"), family="mma", **options)  # type: ignore[arg-type]
    with pytest.raises(LoweringError, match=message):
        codegen.lower(scheduled(sch), codegen.Target(target))


def other_places(
    rows: int, columns: int, is_turned: bool, i: PrimExpr, j: PrimExpr
) -> tuple[PrimExpr, ...]:
    return i // rows, j // columns, i % 16 * 2 + j % 16 // 8, j % 8


def test_another_layout_is_no_match() -> None:
    with pytest.raises(ScheduleError, match="the indices of A_shared_warp differ") as caught:
        on_tensor_cores(product(32, "f16f16f32"), family="mma", layout=other_places)
    assert "does not match the tensor intrin 'mma_ldmatrix_f16_a'" in str(caught.value)


TILE = """
@T.prim_func
def main(A: T.Buffer((256,), "float16")):
    for t in T.thread_binding(32, thread="threadIdx.x"):
        C = T.allocate([512], "float16", "warp")
        C_1 = T.Buffer((512,), "float16", data=C)
        with T.attr(0, "tensor_core", T.tensor_core("mma.load.a.row.f16", C_1[START], ROW, A[0], 16)):
            for i, j in T.grid(16, 16):
                C_1[START + (i % 8 * 4 + j % 8 // 2) * ROW + j // 8 * 4 + i // 8 * 2 + j % 2] = A[i * 16 + j]
"""


@pytest.mark.parametrize(
    ("start", "row", "message"),
    [
        (0, 8, r"mma\.load\.a\.row\.f16 from global memory, but ldmatrix reads shared memory only"),
        (0, 16, r"begins at element 0 and has 16 elements of a thread; it must .* have 8, so"),
        (
            8,
            8,
            r"begins at element 8 and has 8 elements of a thread; it must begin at a multiple of",
        ),
    ],
)
def test_a_tile_in_the_wrong_place_is_refused(start: int, row: int, message: str) -> None:
    func = parse(TILE.replace("START", str(start)).replace("ROW", str(row)))
    assert isinstance(func, PrimFunc)
    with pytest.raises(LoweringError, match=message):
        codegen.lower(func, A100)


def test_names_of_a_group() -> None:
    group = get_mma_intrin_group(
        "shared.dyn", "shared.dyn", "float16", "float16", "float32", False, True
    )
    assert group == {
        "init": "mma_fill_16x16_f32",
        "load_a": "mma_ldmatrix_f16_a_dyn",
        "load_b": "mma_ldmatrix_f16_b_trans_dyn",
        "compute": "mma_f16f16f32_trans_b",
        "store": "mma_store_16x16_f32_shared_dyn_simple_",
    }
    with pytest.raises(IRValueError, match="no intrinsic 'mma_ldmatrix_i8_a_trans'; factors are"):
        get_mma_intrin_group("shared", "global", "int8", "int8", "int32", True, False)
