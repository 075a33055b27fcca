"""Kernels in the form that lowering for a GPU leaves, written by hand, on all rungs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from devices.ladder import check_kernels, device_program, needs_opencl

from tensorir.interp import interpret
from tensorir.nodes.dtype import DataType
from tensorir.semantics.conversions import stored

pytestmark = needs_opencl


def random(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(dtype)


def test_vector_add_with_a_guard():
    func = device_program("""
def main(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32"), C: T.Buffer((1000,), "float32")):
    T.func_attr({"tir.noalias": True})
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(256, thread="threadIdx.x"):
            if bx * 256 + tx < 1000:
                C[bx * 256 + tx] = A[bx * 256 + tx] + B[bx * 256 + tx]
""")
    a, b = random(1000), random(1000, seed=1)
    resources = check_kernels(func, [a, b], [a + b])
    assert resources is None or resources.spill_bytes == 0


@pytest.mark.parametrize("n", [0, 1, 64, 1001])
def test_any_size_and_a_scalar(n):
    func = device_program("""
def main(a: T.handle, scale: T.float32, flag: T.bool, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    C = T.match_buffer(c, (n,), "float32")
    for bx in T.thread_binding((n + 63) // 64, thread="blockIdx.x"):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            if bx * 64 + tx < n and flag:
                C[bx * 64 + tx] = A[bx * 64 + tx] * scale
""")
    a = random(n)
    check_kernels(func, [a, 0.3, True], [a * np.float32(0.3)])


def test_matmul_of_tiles_in_shared_memory():
    func = device_program("""
def main(A: T.Buffer((1024,), "float32"), B: T.Buffer((2048,), "float32"), C: T.Buffer((2048,), "float32")):
    T.func_attr({"tir.noalias": True})
    for by in T.thread_binding(1, thread="blockIdx.y"):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            As = T.allocate([512], "float32", "shared")
            Bs = T.allocate([512], "float32", "shared")
            for ty in T.thread_binding(8, thread="threadIdx.y"):
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    a = T.Buffer((512,), data=As, scope="shared")
                    b = T.Buffer((512,), data=Bs, scope="shared")
                    acc_data = T.allocate([16], "float32", "local")
                    acc = T.Buffer((16,), data=acc_data, scope="local")
                    for i in T.unroll(16):
                        acc[i] = T.float32(0)
                    for ko in range(2):
                        for v in T.unroll(2):
                            a[T.Ramp(v * 256 + (ty * 8 + tx) * 4, 1, 4)] = A[T.Ramp((by * 32 + v * 16 + ty * 2 + tx // 4) * 32 + ko * 16 + tx % 4 * 4, 1, 4)]
                            b[T.Ramp(v * 256 + (ty * 8 + tx) * 4, 1, 4)] = B[T.Ramp((ko * 16 + v * 8 + ty) * 64 + bx * 32 + tx * 4, 1, 4)]
                        T.tvm_storage_sync("shared")
                        for k in range(16):
                            for i in T.unroll(4):
                                for j in T.unroll(4):
                                    acc[i * 4 + j] = acc[i * 4 + j] + a[(ty * 4 + i) * 16 + k] * b[k * 32 + tx * 4 + j]
                        T.tvm_storage_sync("shared")
                    for i in T.unroll(4):
                        C[T.Ramp((by * 32 + ty * 4 + i) * 64 + bx * 32 + tx * 4, 1, 4)] = acc[T.Ramp(i * 4, 1, 4)]
""")
    a, b = random(32, 32), random(32, 64, seed=1)
    resources = check_kernels(func, [a.ravel(), b.ravel()], [(a @ b).ravel()], atol=1e-5)
    if resources is not None:
        assert (resources.shared_bytes, resources.spill_bytes) == (4096, 0)


def test_softmax_of_rows_by_a_tree_in_shared_memory():
    func = device_program("""
def main(A: T.Buffer((1000,), "float32"), C: T.Buffer((1000,), "float32")):
    T.func_attr({"tir.noalias": True})
    for bx in T.thread_binding(10, thread="blockIdx.x"):
        red_data = T.allocate([32], "float32", "shared")
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            red = T.Buffer((32,), data=red_data, scope="shared")
            own_data = T.allocate([1], "float32", "local")
            own = T.Buffer((1,), data=own_data, scope="local")
            own[0] = T.float32(-3.4e38)
            for k in range(4):
                if k * 32 + tx < 100:
                    own[0] = T.max(own[0], A[bx * 100 + k * 32 + tx])
            red[tx] = own[0]
            T.tvm_storage_sync("shared")
            for s in T.unroll(5):
                if tx < T.shift_right(16, s):
                    red[tx] = T.max(red[tx], red[tx + T.shift_right(16, s)])
                T.tvm_storage_sync("shared")
            with T.LetStmt(red[0]) as top:
                T.tvm_storage_sync("shared")
                own[0] = T.float32(0)
                for k in range(4):
                    if k * 32 + tx < 100:
                        own[0] = own[0] + T.exp(A[bx * 100 + k * 32 + tx] - top)
                red[tx] = own[0]
                T.tvm_storage_sync("shared")
                for s in T.unroll(5):
                    if tx < T.shift_right(16, s):
                        red[tx] = red[tx] + red[tx + T.shift_right(16, s)]
                    T.tvm_storage_sync("shared")
                for k in range(4):
                    if k * 32 + tx < 100:
                        C[bx * 100 + k * 32 + tx] = T.exp(A[bx * 100 + k * 32 + tx] - top) / red[0]
""")
    a = random(10, 100)
    e = np.exp(a - a.max(1, keepdims=True))
    check_kernels(func, [a.ravel()], [(e / e.sum(1, keepdims=True)).ravel()], rtol=1e-5)


def test_transposition_through_shared_memory_by_vectors_with_a_stride():
    func = device_program("""
def main(A: T.Buffer((1024,), "int32"), C: T.Buffer((1024,), "int32")):
    T.func_attr({"tir.noalias": True})
    for by in T.thread_binding(2, thread="blockIdx.y"):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            tile_data = T.allocate([272], "int32", "shared")
            for ty in T.thread_binding(16, thread="threadIdx.y"):
                for tx in T.thread_binding(4, thread="threadIdx.x"):
                    tile = T.Buffer((272,), data=tile_data, scope="shared")
                    tile[T.Ramp(ty * 17 + tx * 4, 1, 4)] = A[T.Ramp((by * 16 + ty) * 32 + bx * 16 + tx * 4, 1, 4)]
                    T.tvm_storage_sync("shared")
                    C[T.Ramp((bx * 16 + ty) * 32 + by * 16 + tx * 4, 1, 4)] = tile[T.Ramp(tx * 68 + ty, 17, 4)]
""")
    a = np.arange(1024, dtype="int32").reshape(32, 32)
    check_kernels(func, [a.ravel()], [a.T.ravel()])


def test_two_kernels_with_memory_between_in_a_loop_of_the_host():
    func = device_program("""
def main(A: T.Buffer((256,), "float32"), rounds: T.int32, C: T.Buffer((256,), "float32")):
    T.func_attr({"tir.noalias": True})
    between_data = T.allocate([256], "float32", "global")
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            C[bx * 64 + tx] = A[bx * 64 + tx]
    for k in range(rounds):
        between = T.Buffer((256,), data=between_data)
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for tx in T.thread_binding(64, thread="threadIdx.x"):
                between[255 - bx * 64 - tx] = C[bx * 64 + tx] + T.Cast("float32", k)
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for tx in T.thread_binding(64, thread="threadIdx.x"):
                C[bx * 64 + tx] = between[bx * 64 + tx]
""")
    a = random(256)
    expected = a
    for k in range(3):
        expected = (expected + np.float32(k))[::-1]
    check_kernels(func, [a, 3], [expected.copy()])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_arithmetic_of_16_bits_rounds_after_each_operation(dtype):
    func = device_program(f"""
def main(A: T.Buffer((256,), "{dtype}"), B: T.Buffer((256,), "{dtype}"), C: T.Buffer((256,), "{dtype}"), D: T.Buffer((256,), "float32")):
    T.func_attr({{"tir.noalias": True}})
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        C[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)] * B[T.Ramp(tx * 4, 1, 4)] + B[T.Ramp(tx * 4, 1, 4)]
        for k in T.unroll(4):
            D[tx * 4 + k] = T.Cast("float32", T.exp(A[tx * 4 + k]))
""")
    a, b = (stored(random(256, seed=k), DataType(dtype)) for k in (0, 1))
    c, d = np.zeros_like(a), np.zeros(256, "float32")
    interpret(func, a, b, c, d)
    check_kernels(func, [a, b], [c, d], rtol=0 if dtype == "bfloat16" else 1e-3)


def test_dot_of_int8_vectors():
    func = device_program("""
def main(A: T.Buffer((1024,), "int8"), B: T.Buffer((1024,), "uint8"), C: T.Buffer((64,), "int32")):
    T.func_attr({"tir.noalias": True})
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        acc_data = T.allocate([4], "int32", "local")
        acc = T.Buffer((4,), data=acc_data, scope="local")
        acc[T.Ramp(0, 1, 4)] = T.Broadcast(0, 4)
        for k in range(4):
            acc[T.Ramp(0, 1, 4)] = acc[T.Ramp(0, 1, 4)] + T.Cast("int32x4", A[T.Ramp(tx * 16 + k * 4, 1, 4)]) * T.Cast("int32x4", B[T.Ramp(tx * 16 + k * 4, 1, 4)])
        C[tx] = acc[0] + acc[1] + acc[2] + acc[3]
""")
    rng = np.random.default_rng(0)
    a, b = rng.integers(-128, 128, 1024, "int8"), rng.integers(0, 256, 1024, "uint8")
    expected = (a.astype("int32") * b.astype("int32")).reshape(64, 16).sum(1, dtype="int32")
    check_kernels(func, [a, b], [expected])


def test_argmax_of_rows_by_pairs_in_shared_memory():
    func = device_program("""
def main(A: T.Buffer((512,), "float32"), C: T.Buffer((8,), "int64")):
    T.func_attr({"tir.noalias": True})
    for bx in T.thread_binding(8, thread="blockIdx.x"):
        val_data = T.allocate([64], "float32", "shared")
        idx_data = T.allocate([64], "int64", "shared")
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            val = T.Buffer((64,), data=val_data, scope="shared")
            idx = T.Buffer((64,), "int64", data=idx_data, scope="shared")
            val[tx] = A[bx * 64 + tx]
            idx[tx] = T.Cast("int64", tx)
            T.tvm_storage_sync("shared")
            for s in T.unroll(6):
                if tx < T.shift_right(32, s):
                    if val[tx] < val[tx + T.shift_right(32, s)]:
                        val[tx] = val[tx + T.shift_right(32, s)]
                        idx[tx] = idx[tx + T.shift_right(32, s)]
                T.tvm_storage_sync("shared")
            if tx == 0:
                C[bx] = idx[0]
""")
    a = random(8, 64)
    check_kernels(func, [a.ravel()], [a.argmax(1)])


MATHS = {
    "exp": np.exp, "exp2": np.exp2, "tanh": np.tanh, "log": lambda x: np.log(np.abs(x)),
    "log1p": lambda x: np.log1p(np.abs(x)), "sqrt": lambda x: np.sqrt(np.abs(x)),
    "rsqrt": lambda x: 1 / np.sqrt(np.abs(x)), "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "round": np.round, "erf": np.vectorize(math.erf), "fabs": np.abs,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "sin": np.sin, "cos": np.cos, "tan": np.tan,
}  # fmt: skip
POSITIVE = {"log", "log1p", "sqrt", "rsqrt"}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_a_real_variable(dtype):
    count = len(MATHS)
    stores = "\n".join(
        f"            C[{k * 64} + tx] = T.{name}({'T.fabs(A[tx])' if name in POSITIVE else 'A[tx]'})"
        for k, name in enumerate(MATHS)
    )
    func = device_program(f"""
def main(A: T.Buffer((64,), "{dtype}"), C: T.Buffer(({count * 64},), "{dtype}")):
    for bx in T.thread_binding(1, thread="blockIdx.x"):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
{stores}
""")
    a = random(64, dtype=dtype) * 4
    wide = a.astype("float64")
    expected = np.concatenate([of(wide) for of in MATHS.values()]).astype(dtype)
    check_kernels(func, [a], [expected], rtol=2e-6 if dtype == "float32" else 1e-14)


def test_power_minimum_and_conversions_by_vectors():
    func = device_program("""
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), P: T.Buffer((64,), "float32"), M: T.Buffer((64,), "int32"), N: T.Buffer((64,), "bool")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        P[T.Ramp(tx * 8, 1, 8)] = T.pow(A[T.Ramp(tx * 8, 1, 8)], B[T.Ramp(tx * 8, 1, 8)])
        M[T.Ramp(tx * 8, 1, 8)] = T.Cast("int32x8", T.min(A[T.Ramp(tx * 8, 1, 8)], B[T.Ramp(tx * 8, 1, 8)]) * T.Broadcast(T.float32(100), 8)) // T.Broadcast(7, 8)
        N[T.Ramp(tx * 8, 1, 8)] = A[T.Ramp(tx * 8, 1, 8)] < B[T.Ramp(tx * 8, 1, 8)]
""")
    a, b = np.abs(random(64)), random(64, seed=1)
    integers = (np.minimum(a, b) * np.float32(100)).astype("int32") // 7
    check_kernels(func, [a, b], [a**b, integers, a < b], rtol=1e-6)


def test_windows_of_padding_whose_conditions_share_parts():
    """LLVM's pass NewGVN takes one padded element for another here, so it is not run."""
    element = (
        "            C[(rh * 7 + rw) * 25 + {at}] = T.if_then_else(3 <= {r} and {r} < 15 and 3 <= {c} and "
        "{c} < 15, A[rh * 96 + rw * 8 + {start}], T.float32(0.0))"
    )
    stores = "\n".join(
        element.format(
            at=a * 5 + b, r=f"rh * 2 + {a}", c=f"rw * 2 + {b}", start=48 * a + 4 * b - 156
        )
        for a in range(5)
        for b in range(5)
    )
    func = device_program(f"""
def main(A: T.Buffer((576,), "float32"), C: T.Buffer((1225,), "float32")):
    T.func_attr({{"tir.noalias": True}})
    for tx in T.thread_binding(1, thread="threadIdx.x"):
        for rh, rw in T.grid(7, 7):
{stores}
""")
    a = random(12, 12, 4)
    padded = np.pad(a[:, :, 0], 3)
    windows = [
        [padded[2 * r + i, 2 * c + j] for i in range(5) for j in range(5)]
        for r in range(7)
        for c in range(7)
    ]
    check_kernels(func, [a.ravel()], [np.array(windows, "float32").ravel()])


def test_tiles_that_live_one_after_the_other():
    func = device_program("""
def main(A: T.Buffer((4, 256)), B: T.Buffer((4, 256)), C: T.Buffer((4, 256))):
    T.func_attr({"tir.noalias": True})
    S = T.alloc_buffer((4, 256), scope="shared")
    R = T.alloc_buffer((4, 256), scope="shared")
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(256, thread="threadIdx.x"):
            with T.block("S"):
                vi, vj = T.axis.remap("SS", [bx, tx])
                S[vi, vj] = A[vi, vj]
        for tx in T.thread_binding(256, thread="threadIdx.x"):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [bx, tx])
                B[vi, vj] = S[vi, 255 - vj]
        for tx in T.thread_binding(256, thread="threadIdx.x"):
            with T.block("R"):
                vi, vj = T.axis.remap("SS", [bx, tx])
                R[vi, vj] = A[vi, vj] * T.float32(2)
        for tx in T.thread_binding(256, thread="threadIdx.x"):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [bx, tx])
                C[vi, vj] = R[vi, 255 - vj]
""")
    a = np.random.default_rng(1).random((4, 256), "float32")
    resources = check_kernels(func, [a], [a[:, ::-1], a[:, ::-1] * 2], is_lowered=False)
    if resources is not None:
        assert resources.shared_bytes == 1024


def test_shared_memory_of_a_kernel_without_blocks():
    func = device_program("""
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    S = T.alloc_buffer((8,), "int32", scope="shared")
    for t in T.thread_binding(8, thread="threadIdx.x"):
        with T.block("S"):
            v = T.axis.spatial(8, t)
            S[v] = A[v]
    for t in T.thread_binding(8, thread="threadIdx.x"):
        with T.block("B"):
            v = T.axis.spatial(8, t)
            B[v] = S[7 - v]
""")
    a = np.arange(8, dtype="int32")
    check_kernels(func, [a], [a[::-1].copy()], is_lowered=False)
