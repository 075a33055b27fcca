"""Small programs that random schedules are tried on: the operator suite, and others."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

import codegen
from tensorir import PrimFunc, parse, workloads
from tensorir.interp import random_arguments
from tensorir.nodes.ops import const
from tensorir.rewriting.visit import collect_vars, substitute

WORKLOADS: dict[str, tuple[tuple[int, ...], ...]] = {
    "C1D": ((1, 7, 3, 4, 3, 2, 1), (1, 8, 2, 5, 3, 1, 1), (2, 5, 1, 2, 1, 1, 0)),
    "C2D": ((1, 5, 4, 2, 3, 3, 1, 1), (1, 6, 5, 1, 4, 2, 2, 0), (1, 4, 4, 2, 2, 1, 1, 0)),
    "C3D": ((1, 3, 3, 4, 1, 2, 2, 1, 1), (1, 2, 3, 2, 2, 1, 1, 1, 0)),
    "GRP": ((1, 4, 5, 4, 4, 3, 1, 1, 1, 2),),
    "DIL": ((1, 7, 5, 2, 2, 2, 1, 1, 2),),
    "DEP": ((1, 5, 6, 3, 3, 1, 1), (1, 7, 4, 2, 3, 2, 1)),
    "T2D": ((1, 2, 3, 2, 2, 4, 2, 1),),
    "CAP": ((1, 3, 3, 2, 2, 2, 1, 0),),
    "GMM": ((1, 5, 7, 6), (2, 4, 4, 8), (1, 8, 11, 3), (1, 16, 16, 4)),
    "NRM": ((1, 5, 7), (2, 4, 6)),
    "SFM": ((5, 7), (4, 8)),
    "CBR": ((1, 5, 4, 2, 3, 3, 1, 1),),
    "TBG": ((1, 5, 2, 3), (1, 4, 3, 2)),
}
"""Small sizes of the operator suite, primes among them."""

_HEADER = "@T.prim_func\ndef main({}):\n"
PROGRAMS = {
    "chain": _HEADER.format('A: T.Buffer((8, 6), "float32"), D: T.Buffer((8, 6), "float32")')
    + """
    B = T.alloc_buffer((8, 6))
    C = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 6):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] * B[vi, vj]
""",
    "stencil": _HEADER.format('A: T.Buffer((13,), "float32"), C: T.Buffer((11,), "float32")')
    + """
    B = T.alloc_buffer((13,))
    for i in T.grid(13):
        with T.block("B"):
            vi = T.axis.spatial(13, i)
            B[vi] = A[vi] + T.float32(3)
    for i in T.grid(11):
        with T.block("C"):
            vi = T.axis.spatial(11, i)
            C[vi] = B[vi] + B[vi + 1] * B[vi + 2]
""",
    "window": _HEADER.format('A: T.Buffer((12, 10), "float32"), C: T.Buffer((10, 10), "float32")')
    + """
    B = T.alloc_buffer((12, 10))
    for i, j in T.grid(12, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j, k in T.grid(10, 10, 3):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += B[vi + vk, vj]
""",
    "padded": _HEADER.format('A: T.Buffer((7,), "float32"), C: T.Buffer((9,), "float32")')
    + """
    P = T.alloc_buffer((11,))
    for i in T.grid(11):
        with T.block("P"):
            vi = T.axis.spatial(11, i)
            P[vi] = T.if_then_else(2 <= vi and vi < 9, A[vi - 2], T.float32(0))
    for i, k in T.grid(9, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0.0
            C[vi] += P[vi + vk]
""",
    "transpose": _HEADER.format('A: T.Buffer((4, 6), "int32"), C: T.Buffer((6, 4), "int32")')
    + """
    B = T.alloc_buffer((6, 4), "int32")
    for i, j in T.grid(6, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi] * 3
    for i, j in T.grid(6, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + vi
""",
    "flattened": _HEADER.format('A: T.Buffer((24,), "float32"), C: T.Buffer((4, 6), "float32")')
    + """
    B = T.alloc_buffer((24,))
    for i in T.grid(24):
        with T.block("B"):
            vi = T.axis.spatial(24, i)
            B[vi] = A[vi] + T.float32(1)
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi * 6 + vj]
""",
    "argmax": _HEADER.format(
        'A: T.Buffer((5, 12), "float32"), I: T.Buffer((5,), "int32"), V: T.Buffer((5,), "float32")'
    )
    + """
    for i, k in T.grid(5, 12):
        with T.block("argmax"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                I[vi] = -1
                V[vi] = T.min_value("float32")
            v_i: T.int32 = T.Select(V[vi] >= A[vi, vk], I[vi], vk)
            v_v: T.float32 = T.Select(V[vi] >= A[vi, vk], V[vi], A[vi, vk])
            I[vi] = v_i
            V[vi] = v_v
""",
    "dot_product": _HEADER.format(
        'A: T.Buffer((6, 12), "uint8"), B: T.Buffer((16, 12), "int8"), '
        'C: T.Buffer((6, 16), "int32")'
    )
    + """
    for i, j, k in T.grid(6, 16, 12):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += T.cast(A[vi, vk], "int32") * T.cast(B[vj, vk], "int32")
""",
    "in_place": _HEADER.format('A: T.Buffer((9,), "float32"), C: T.Buffer((9,), "float32")')
    + """
    for i in T.grid(9):
        with T.block("scale"):
            vi = T.axis.spatial(9, i)
            A[vi] = A[vi] * T.float32(2)
    for i in T.grid(9):
        with T.block("C"):
            vi = T.axis.spatial(9, i)
            C[vi] = A[8 - vi]
""",
    "dynamic_matmul": """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, 8), "float32")
    B = T.match_buffer(b, (8, m), "float32")
    D = T.match_buffer(c, (n, m), "float32")
    C = T.alloc_buffer((n, m))
    for i, j, k in T.grid(n, m, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += A[vi, vk] * B[vk, vj]
    for i, j in T.grid(n, m):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(C[vi, vj] - T.float32(14), T.float32(0))
""",
    "dynamic_rows": """
@T.prim_func
def main(a: T.handle, c: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m), "float32")
    C = T.match_buffer(c, (n,), "float32")
    B = T.alloc_buffer((n, m))
    for i, j in T.grid(n, m):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, k in T.grid(n, m):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] += B[vi, vk]
""",
    "bindings": _HEADER.format(
        'A: T.Buffer((8, 6), "float32"), D: T.Buffer((8, 6), "float32"), N: T.Buffer((4,), "int32")'
    )
    + """
    T.attr(A.data, "note", 1)
    B = T.alloc_buffer((8, 6))
    n: T.int32 = N[0] * 2 + 1
    for i in range(8):
        x: T.int32 = i * 2
        T.attr(N.data, "inner", x)
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.cast(vi + vj, "float32")
    for i, j in T.grid(8, 6):
        y: T.int32 = n + i
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(y < 100)
            half = T.float32()
            D[vi, vj] = T.Let(half * half + T.float32(2), where={half: B[vi, vj] * T.float32(0.5)})
""",
    "allocations": _HEADER.format('A: T.Buffer((6, 8), "float32"), D: T.Buffer((6, 8), "float32")')
    + """
    p = T.allocate([48], "float32", "global")
    B = T.decl_buffer((6, 8), data=p)
    w = T.allocate_const([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], "float32", [8])
    W = T.decl_buffer((8,), data=w)
    C = T.alloc_buffer((6, 8))
    for i, j in T.grid(6, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * W[vj]
    for i, j in T.grid(6, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
    for i in range(6):
        q = T.allocate([8], "float32", "global")
        E = T.decl_buffer((8,), data=q)
        for j in range(8):
            with T.block("E"):
                vi, vj = T.axis.remap("SS", [i, j])
                E[vj] = C[vi, vj] * B[vi, vj]
        for j in range(8):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = E[7 - vj] + W[vj]
""",
    "aliases": _HEADER.format('A: T.Buffer((6, 4), "float32"), D: T.Buffer((6, 4), "float32")')
    + """
    B = T.alloc_buffer((6, 4))
    F = T.decl_buffer((24,), data=B.data)
    X = T.decl_buffer((24,), data=D.data)
    for i, j in T.grid(6, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i in range(24):
        with T.block("F"):
            vi = T.axis.spatial(24, i)
            F[vi] = F[vi] + T.float32(1)
    for i in range(24):
        with T.block("X"):
            vi = T.axis.spatial(24, i)
            X[23 - vi] = F[vi]
    for i, j in T.grid(6, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = D[vi, vj] * B[vi, vj]
""",
    "conditions": _HEADER.format(
        'A: T.Buffer((8, 6), "float32"), D: T.Buffer((8, 6), "float32"), '
        'S: T.Buffer((8,), "float32"), N: T.Buffer((8,), "int32")'
    )
    + """
    B = T.alloc_buffer((8, 6))
    C = T.alloc_buffer((8, 6))
    assert N[0] == N[0], "impossible"
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i in range(8):
        if N[i] % 2 == 0:
            for j in range(6):
                with T.block("even"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] * T.float32(2)
        else:
            for j in range(6):
                with T.block("odd"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, 5 - vj]
    if N[1] > N[2]:
        for i, j in T.grid(8, 6):
            with T.block("B_again"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = C[vi, vj] - T.float32(1)
    for i, j in T.grid(8, 6):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] * C[vi, vj]
    for i in range(8):
        if N[i] < N[7 - i]:
            for k in range(6):
                if k < 4:
                    with T.block("S"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            S[vi] = T.float32(1)
                        S[vi] += D[vi, vk]
""",
    "repeated": _HEADER.format('A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")')
    + """
    S = T.alloc_buffer((1,), "int32")
    B = T.alloc_buffer((8,))
    S[0] = 0
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    while S[0] < 3:
        for i in range(8):
            with T.block("double"):
                vi = T.axis.spatial(8, i)
                B[vi] = B[vi] * T.float32(2)
        for i in range(8):
            with T.block("D"):
                vi = T.axis.spatial(8, i)
                D[vi] = B[vi] + T.cast(vi, "float32")
        S[0] = S[0] + 1
    for i in range(8):
        with T.block("last"):
            vi = T.axis.spatial(8, i)
            D[vi] = D[vi] + B[vi]
""",
    "bare": _HEADER.format('A: T.Buffer((7, 4), "float32"), D: T.Buffer((7, 4), "float32")')
    + """
    B = T.alloc_buffer((7, 4))
    R = T.alloc_buffer((7,))
    for i in range(7):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(3)
        R[i] = B[i, 0] + T.exp(B[i, 1] * T.float32(0.001))
        T.evaluate(R[i])
    B[0, 0] = T.float32(7)
    for i, j in T.grid(7, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] + R[vi]
""",
    "nested": _HEADER.format('A: T.Buffer((4, 8), "float32"), D: T.Buffer((4, 8), "float32")')
    + """
    for o in range(4):
        with T.block("outer"):
            vo = T.axis.spatial(4, o)
            T.reads(A[vo, 0:8])
            T.writes(D[vo, 0:8])
            V = T.match_buffer(A[vo, 0:8], (8,), offset_factor=1)
            B = T.alloc_buffer((8,))
            x: T.int32 = vo * 2
            T.attr(B.data, "note", x)
            for i in range(8):
                with T.block("B"):
                    vi = T.axis.spatial(8, i)
                    B[vi] = V[vi] * T.float32(2)
            if x < 5:
                for i in range(8):
                    with T.block("low"):
                        vi = T.axis.spatial(8, i)
                        D[vo, vi] = B[7 - vi]
            else:
                for i in range(8):
                    with T.block("high"):
                        vi = T.axis.spatial(8, i)
                        D[vo, vi] = B[vi] + V[vi]
""",
    "no_steps": """
@T.prim_func
def main(a: T.handle, d: T.handle):
    none = T.int32()
    A = T.match_buffer(a, (6, none))
    D = T.match_buffer(d, (6,))
    P = T.alloc_buffer((6, none))
    C = T.alloc_buffer((6,))
    for i, k in T.grid(6, none):
        with T.block("P"):
            vi, vk = T.axis.remap("SS", [i, k])
            P[vi, vk] = A[vi, vk] * T.float32(2)
    for i, k in T.grid(6, none):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] += P[vi, vk]
    for i in range(6):
        with T.block("D"):
            vi = T.axis.spatial(6, i)
            D[vi] = C[vi] + T.float32(1)
""",
    "few_steps": _HEADER.format('A: T.Buffer((6, 8), "float32"), D: T.Buffer((6,), "float32")')
    + """
    B = T.alloc_buffer((6,))
    C = T.alloc_buffer((6,))
    for i in range(6):
        for k in range(i):
            with T.block("B"):
                vi = T.axis.spatial(6, i)
                vk = T.axis.reduce(8, k)
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] += A[vi, vk]
    for i, k in T.grid(6, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(k + 2 < i)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] += A[vi, vk]
    for i in range(6):
        with T.block("D"):
            vi = T.axis.spatial(6, i)
            D[vi] = B[vi] + C[vi]
""",
    "continued": _HEADER.format('A: T.Buffer((6, 8), "float32"), D: T.Buffer((6,), "float32")')
    + """
    for i, k in T.grid(6, 8):
        with T.block("D"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                D[vi] = D[vi] * T.float32(0.5)
            D[vi] += A[vi, vk]
""",
    "narrow": _HEADER.format('A: T.Buffer((100, 3), "int32"), D: T.Buffer((100,), "int32")')
    + """
    B = T.alloc_buffer((100, 3), "int32")
    for i in range(T.int8(100)):
        for j in range(T.int8(3)):
            with T.block("B"):
                vi = T.axis.spatial(T.int8(100), i)
                vj = T.axis.spatial(T.int8(3), j)
                B[vi, vj] = A[vi, vj] + 1
    for i in range(T.int16(100)):
        for j in range(T.int16(3)):
            with T.block("D"):
                vi = T.axis.spatial(T.int16(100), i)
                vj = T.axis.reduce(T.int16(3), j)
                with T.init():
                    D[vi] = 0
                D[vi] += B[vi, vj]
""",
    "calls": _HEADER.format('A: T.Buffer((12,), "float32"), D: T.Buffer((4,), "float32")')
    + """
    B = T.alloc_buffer((12,))
    C = T.alloc_buffer((12,))
    for i in range(12):
        with T.block("B"):
            vi = T.axis.spatial(12, i)
            B[vi] = A[vi] + T.Cast(
                "float32", T.call_packed("fuzz_schedule.called", vi, dtype="int32")
            )
    for i in range(12):
        with T.block("C"):
            vi = T.axis.spatial(12, i)
            C[vi] = B[vi] * T.float32(2) + B[11 - vi]
    for i, k in T.grid(4, 3):
        with T.block("D"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                D[vi] = T.float32(0)
            D[vi] += C[vi * 3 + vk] * T.Cast(
                "float32", T.call_packed("fuzz_schedule.called", 100 + vi * 3 + vk, dtype="int32")
            )
""",
    "dependent": _HEADER.format('A: T.Buffer((12, 4), "float32"), D: T.Buffer((13, 4), "float32")')
    + """
    B = T.alloc_buffer((12, 4))
    C = T.alloc_buffer((3, 4))
    for i, j in T.grid(12, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(12, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi % 3, vj] = B[vi, vj]
    for i, j in T.grid(12, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi + 1, vj] = D[vi, vj] * T.float32(0.5) + C[vi % 3, vj]
    for i, j in T.grid(1, 4):
        with T.block("E"):
            vi, vj = T.axis.remap("RS", [i, j])
            D[0, vj] = D[12, vj] - D[0, vj]
    for i, j in T.grid(12, 4):
        with T.block("F"):
            vi, vj = T.axis.remap("RS", [i, j])
            D[1, vj] = D[1, vj] * T.float32(0.25) + A[vi, vj]
""",
    "opaque": _HEADER.format('A: T.Buffer((4, 3, 5), "float32"), D: T.Buffer((4, 5), "float32")')
    + """
    B = T.alloc_buffer((4, 5))
    C = T.alloc_buffer((4,))
    for i, j in T.grid(4, 5):
        with T.block("B"):
            T.reads(A[i, 0, j])
            T.writes(B[i, j])
            B[i, j] = A[i, 0, j] * T.float32(2)
    for i in range(4):
        with T.block("outer"):
            T.reads(A[i, 0:3, 0:5])
            T.writes(C[i])
            for k in range(3):
                with T.block("middle"):
                    T.reads(C[i], A[i, k, 0:5])
                    T.writes(C[i])
                    for r in range(5):
                        with T.block("C"):
                            vi, vk, vr = T.axis.remap("SRR", [i, k, r])
                            with T.init():
                                C[vi] = T.float32(0)
                            C[vi] += A[vi, vk, vr]
    for i in range(4):
        with T.block("row"):
            T.reads(B[i, 0:5], C[i])
            T.writes(D[i, 0:5])
            for j in range(5):
                with T.block("D"):
                    T.reads(B[i, 4 - j], C[i])
                    T.writes(D[i, j])
                    D[i, j] = B[i, 4 - j] + C[i]
""",
    "pieces": _HEADER.format(
        'A: T.Buffer((4, 3, 8), "float32"), C: T.Buffer((4,), "float32"), '
        'D: T.Buffer((4,), "float32")'
    )
    + """
    P = T.alloc_buffer((4, 3, 8))
    for i, k, r in T.grid(4, 3, 8):
        with T.block("P"):
            vi, vk, vr = T.axis.remap("SSS", [i, k, r])
            P[vi, vk, vr] = A[vi, vk, vr] + T.float32(1)
    for i, k, r in T.grid(4, 3, 8):
        with T.block("C"):
            vi, vk, vr = T.axis.remap("SRR", [i, k, r])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] += P[vi, vk, vr]
    for i in range(4):
        for k in range(i * 2):
            with T.block("D"):
                vi = T.axis.spatial(4, i)
                vk = T.axis.reduce(6, k)
                with T.init():
                    D[vi] = T.float32(1)
                D[vi] = T.max(D[vi], C[vi] * P[vi, 1, vk])
""",
    "triangles": _HEADER.format(
        'A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32"), '
        'D: T.Buffer((8,), "float32")'
    )
    + """
    B = T.alloc_buffer((8, 8))
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i in range(8):
        for j in range(i + 1):
            for k in range(3):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] += B[vi, (vj + vk) % 8]
    for i in range(8):
        for j in range(i + 1):
            with T.block("D"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    D[vi] = T.float32(1)
                D[vi] = T.max(D[vi], B[vi, vj] * A[vj, vi])
""",
    "guarded": _HEADER.format(
        'A: T.Buffer((9,), "float32"), S: T.Buffer((6,), "int32"), W: T.Buffer((4,), "float32"), '
        'D: T.Buffer((16,), "float32"), F: T.Buffer((16,), "float32")'
    )
    + """
    B = T.alloc_buffer((16,))
    C = T.alloc_buffer((16,))
    E = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = T.if_then_else(0 < vi and vi < 9, A[30 // vi % 9] + A[vi], T.float32(0))
    for h, r in T.grid(16, 4):
        with T.block("C"):
            vh, vr = T.axis.remap("SR", [h, r])
            with T.init():
                C[vh] = T.float32(0)
            C[vh] += W[vr] * T.if_then_else(
                vh < 6 and (S[vh] + vr) % 2 == 0, A[vh + vr], T.float32(0)
            )
    for h, r in T.grid(16, 4):
        with T.block("D"):
            vh, vr = T.axis.remap("SR", [h, r])
            with T.init():
                D[vh] = T.float32(0)
            D[vh] += W[vr] * T.if_then_else(
                0 < vh and (30 // vh + vr) % 4 == 1, C[vh], T.float32(0)
            )
    for i in range(16):
        with T.block("E"):
            vi = T.axis.spatial(16, i)
            T.where(i < 6)
            E[vi] = A[S[vi] % 8] * C[vi]
    for i in range(16):
        with T.block("F"):
            vi = T.axis.spatial(16, i)
            F[vi] = T.if_then_else(vi < 6, E[vi], B[15 - vi])
""",
    "wrapping": _HEADER.format('D: T.Buffer((16,), "int32"), F: T.Buffer((16,), "float32")')
    + """
    B = T.alloc_buffer((16,), "int32")
    C = T.alloc_buffer((16,), "int32")
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = vi + 2147483640
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = (B[vi] + 1) // 2
    for i in range(16):
        with T.block("D"):
            vi = T.axis.spatial(16, i)
            D[vi] = C[vi] * 3 + B[vi] // 7
    for i in range(16):
        with T.block("F"):
            vi = T.axis.spatial(16, i)
            F[vi] = T.cast(B[vi] + vi, "float32")
""",
}
"""Programs of other kinds, as scripts: with all kinds of statements around blocks, and with what
is easily got wrong (reductions without steps, inits that read, narrow loops, axes that lie, axes
as long as a loop says, blocks without axes in the middle of reductions, guarded loads and
divisions)."""
CALLED: list[int] = []
"""What the library function of the program `calls` was called with, by whoever ran it last."""


@codegen.register_func("fuzz_schedule.called", override=True)
def _called(number: int) -> int:
    CALLED.append(int(number))
    return int(number) % 5


SIZES = {"n": 7, "m": 5, "none": 0}
"""What the variables in the shapes of programs are."""


def program(name: str) -> PrimFunc:
    """Return the program of a name like `C2D-1` (a workload and its size) or `chain`."""
    if name in PROGRAMS:
        func = parse(PROGRAMS[name])
    else:
        workload, _, size = name.partition("-")
        known = workloads.get(workload)
        sizes = dict(zip(known.parameters(), WORKLOADS[workload][int(size)], strict=False))
        func = known.create(**sizes)
    assert isinstance(func, PrimFunc)
    return func


def program_names() -> list[str]:
    """Return the names of all programs."""
    sizes = [f"{name}-{k}" for name, all_ in WORKLOADS.items() for k in range(len(all_))]
    return [*sizes, *PROGRAMS]


def arguments(func: PrimFunc) -> list[NDArray[Any]]:
    """Return random arrays for a function; variables in its shapes have the values of `SIZES`."""
    buffers = func.buffer_map
    sizes = {
        var: const(SIZES[var.name], var.dtype)
        for param in func.params
        for dim in buffers[param].shape
        for var in collect_vars(dim)
    }
    if not sizes:
        return random_arguments(func)
    known = {
        param: buffers[param].with_(shape=tuple(substitute(n, sizes) for n in buffers[param].shape))
        for param in func.params
    }
    return random_arguments(func.with_(buffer_map=known))
