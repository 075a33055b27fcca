"""Small programs that random schedules are tried on: the operator suite, and others."""

from __future__ import annotations

from functools import cache
from typing import Any

from numpy.typing import NDArray

import codegen
from benchmarks.script_texts import allocated, buffers, function, nest, placed
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

ZERO = "T.float32(0)"
PROGRAMS = {
    "chain": function(
        buffers("A D", 8, 6),
        allocated("B C", 8, 6),
        nest("B", "S i 8, S j 6", "B[vi, vj] = A[vi, vj] * T.float32(2)"),
        nest("C", "S i 8, S j 6", "C[vi, vj] = B[vi, vj] + T.float32(1)"),
        nest("D", "S i 8, S j 6", "D[vi, vj] = C[vi, vj] * B[vi, vj]"),
    ),
    "stencil": function(
        f"{buffers('A', 13)}, {buffers('C', 11)}",
        allocated("B", 13),
        nest("B", "S i 13", "B[vi] = A[vi] + T.float32(3)"),
        nest("C", "S i 11", "C[vi] = B[vi] + B[vi + 1] * B[vi + 2]"),
    ),
    "window": function(
        f"{buffers('A', 12, 10)}, {buffers('C', 10, 10)}",
        allocated("B", 12, 10),
        nest("B", "S i 12, S j 10", "B[vi, vj] = A[vi, vj] + T.float32(1)"),
        nest(
            "C", "S i 10, S j 10, R k 3", "C[vi, vj] += B[vi + vk, vj]", init=f"C[vi, vj] = {ZERO}"
        ),
    ),
    "padded": function(
        f"{buffers('A', 7)}, {buffers('C', 9)}",
        allocated("P", 11),
        nest("P", "S i 11", f"P[vi] = T.if_then_else(2 <= vi and vi < 9, A[vi - 2], {ZERO})"),
        nest("C", "S i 9, R k 3", "C[vi] += P[vi + vk]", init=f"C[vi] = {ZERO}"),
    ),
    "transpose": function(
        f"{buffers('A', 4, 6, dtype='int32')}, {buffers('C', 6, 4, dtype='int32')}",
        allocated("B", 6, 4, dtype="int32"),
        nest("B", "S i 6, S j 4", "B[vi, vj] = A[vj, vi] * 3"),
        nest("C", "S i 6, S j 4", "C[vi, vj] = B[vi, vj] + vi"),
    ),
    "flattened": function(
        f"{buffers('A', 24)}, {buffers('C', 4, 6)}",
        allocated("B", 24),
        nest("B", "S i 24", "B[vi] = A[vi] + T.float32(1)"),
        nest("C", "S i 4, S j 6", "C[vi, vj] = B[vi * 6 + vj]"),
    ),
    "argmax": function(
        f"{buffers('A', 5, 12)}, {buffers('I', 5, dtype='int32')}, {buffers('V', 5)}",
        nest(
            "argmax",
            "S i 5, R k 12",
            "v_i: T.int32 = T.Select(V[vi] >= A[vi, vk], I[vi], vk)\n"
            "v_v: T.float32 = T.Select(V[vi] >= A[vi, vk], V[vi], A[vi, vk])\n"
            "I[vi] = v_i\nV[vi] = v_v",
            init='I[vi] = -1\nV[vi] = T.min_value("float32")',
        ),
    ),
    "dot_product": function(
        f"{buffers('A', 6, 12, dtype='uint8')}, {buffers('B', 16, 12, dtype='int8')}, "
        f"{buffers('C', 6, 16, dtype='int32')}",
        nest(
            "C",
            "S i 6, S j 16, R k 12",
            'C[vi, vj] += T.cast(A[vi, vk], "int32") * T.cast(B[vj, vk], "int32")',
            init="C[vi, vj] = 0",
        ),
    ),
    "in_place": function(
        buffers("A C", 9),
        nest("scale", "S i 9", "A[vi] = A[vi] * T.float32(2)"),
        nest("C", "S i 9", "C[vi] = A[8 - vi]"),
    ),
    "dynamic_matmul": function(
        "a: T.handle, b: T.handle, c: T.handle",
        """
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (n, 8), "float32")
        B = T.match_buffer(b, (8, m), "float32")
        D = T.match_buffer(c, (n, m), "float32")
        """,
        allocated("C", "n", "m"),
        nest(
            "C",
            "S i n, S j m, R k 8",
            "C[vi, vj] += A[vi, vk] * B[vk, vj]",
            init=f"C[vi, vj] = {ZERO}",
        ),
        nest("D", "S i n, S j m", f"D[vi, vj] = T.max(C[vi, vj] - T.float32(14), {ZERO})"),
    ),
    "dynamic_rows": function(
        "a: T.handle, c: T.handle",
        """
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (n, m), "float32")
        C = T.match_buffer(c, (n,), "float32")
        """,
        allocated("B", "n", "m"),
        nest("B", "S i n, S j m", "B[vi, vj] = A[vi, vj] * T.float32(2)"),
        nest("C", "S i n, R k m", "C[vi] += B[vi, vk]", init=f"C[vi] = {ZERO}"),
    ),
    "bindings": function(
        f"{buffers('A D', 8, 6)}, {buffers('N', 4, dtype='int32')}",
        """
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
                D[vi, vj] = T.Let(
                    half * half + T.float32(2), where={half: B[vi, vj] * T.float32(0.5)}
                )
        """,
    ),
    "allocations": function(
        buffers("A D", 6, 8),
        """
        p = T.allocate([48], "float32", "global")
        B = T.decl_buffer((6, 8), data=p)
        w = T.allocate_const([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], "float32", [8])
        W = T.decl_buffer((8,), data=w)
        C = T.alloc_buffer((6, 8))
        """,
        nest("B", "S i 6, S j 8", "B[vi, vj] = A[vi, vj] * W[vj]"),
        nest("C", "S i 6, S j 8", "C[vi, vj] = B[vi, vj] + T.float32(1)"),
        """
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
    ),
    "aliases": function(
        buffers("A D", 6, 4),
        """
        B = T.alloc_buffer((6, 4))
        F = T.decl_buffer((24,), data=B.data)
        X = T.decl_buffer((24,), data=D.data)
        """,
        nest("B", "S i 6, S j 4", "B[vi, vj] = A[vi, vj] * T.float32(2)"),
        nest("F", "S i 24", "F[vi] = F[vi] + T.float32(1)"),
        nest("X", "S i 24", "X[23 - vi] = F[vi]"),
        nest("D", "S i 6, S j 4", "D[vi, vj] = D[vi, vj] * B[vi, vj]"),
    ),
    "conditions": function(
        f"{buffers('A D', 8, 6)}, {buffers('S', 8)}, {buffers('N', 8, dtype='int32')}",
        allocated("B C", 8, 6),
        'assert N[0] == N[0], "impossible"',
        nest("B", "S i 8, S j 6", "B[vi, vj] = A[vi, vj] + T.float32(1)"),
        """
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
        """,
        placed(
            "if N[1] > N[2]:",
            nest("B_again", "S i 8, S j 6", "B[vi, vj] = C[vi, vj] - T.float32(1)"),
        ),
        nest("D", "S i 8, S j 6", "D[vi, vj] = B[vi, vj] * C[vi, vj]"),
        """
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
    ),
    "repeated": function(
        buffers("A D", 8),
        'S = T.alloc_buffer((1,), "int32")',
        allocated("B", 8),
        "S[0] = 0",
        nest("B", "S i 8", "B[vi] = A[vi]"),
        placed(
            "while S[0] < 3:",
            nest("double", "S i 8", "B[vi] = B[vi] * T.float32(2)"),
            nest("D", "S i 8", 'D[vi] = B[vi] + T.cast(vi, "float32")'),
            "S[0] = S[0] + 1",
        ),
        nest("last", "S i 8", "D[vi] = D[vi] + B[vi]"),
    ),
    "bare": function(
        buffers("A D", 7, 4),
        allocated("B", 7, 4),
        allocated("R", 7),
        """
        for i in range(7):
            for j in range(4):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * T.float32(3)
            R[i] = B[i, 0] + T.exp(B[i, 1] * T.float32(0.001))
            T.evaluate(R[i])
        B[0, 0] = T.float32(7)
        """,
        nest("D", "S i 7, S j 4", "D[vi, vj] = B[vi, vj] + R[vi]"),
    ),
    "nested": function(
        buffers("A D", 4, 8),
        """
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
    ),
    "no_steps": function(
        "a: T.handle, d: T.handle",
        """
        none = T.int32()
        A = T.match_buffer(a, (6, none))
        D = T.match_buffer(d, (6,))
        """,
        allocated("P", 6, "none"),
        allocated("C", 6),
        nest("P", "S i 6, S k none", "P[vi, vk] = A[vi, vk] * T.float32(2)"),
        nest("C", "S i 6, R k none", "C[vi] += P[vi, vk]", init=f"C[vi] = {ZERO}"),
        nest("D", "S i 6", "D[vi] = C[vi] + T.float32(1)"),
    ),
    "few_steps": function(
        f"{buffers('A', 6, 8)}, {buffers('D', 6)}",
        allocated("B C", 6),
        nest("B", "S i 6, R k i:8", "B[vi] += A[vi, vk]", init=f"B[vi] = {ZERO}"),
        nest("C", "S i 6, R k 8", "C[vi] += A[vi, vk]", init=f"C[vi] = {ZERO}", where="k + 2 < i"),
        nest("D", "S i 6", "D[vi] = B[vi] + C[vi]"),
    ),
    "continued": function(
        f"{buffers('A', 6, 8)}, {buffers('D', 6)}",
        nest("D", "S i 6, R k 8", "D[vi] += A[vi, vk]", init="D[vi] = D[vi] * T.float32(0.5)"),
    ),
    "narrow": function(
        f"{buffers('A', 100, 3, dtype='int32')}, {buffers('D', 100, dtype='int32')}",
        allocated("B", 100, 3, dtype="int32"),
        nest("B", "S i T.int8(100), S j T.int8(3)", "B[vi, vj] = A[vi, vj] + 1"),
        nest("D", "S i T.int16(100), R j T.int16(3)", "D[vi] += B[vi, vj]", init="D[vi] = 0"),
    ),
    "calls": function(
        f"{buffers('A', 12)}, {buffers('D', 4)}",
        allocated("B C", 12),
        nest(
            "B",
            "S i 12",
            'B[vi] = A[vi] + T.Cast("float32", T.call_packed("fuzz.called", vi, dtype="int32"))',
        ),
        nest("C", "S i 12", "C[vi] = B[vi] * T.float32(2) + B[11 - vi]"),
        nest(
            "D",
            "S i 4, R k 3",
            'D[vi] += C[vi * 3 + vk] * T.Cast("float32", '
            'T.call_packed("fuzz.called", 100 + vi * 3 + vk, dtype="int32"))',
            init=f"D[vi] = {ZERO}",
        ),
    ),
    "dependent": function(
        f"{buffers('A', 12, 4)}, {buffers('D', 13, 4)}",
        allocated("B", 12, 4),
        allocated("C", 3, 4),
        nest("B", "S i 12, S j 4", "B[vi, vj] = A[vi, vj] + T.float32(1)"),
        nest("C", "S i 12, S j 4", "C[vi % 3, vj] = B[vi, vj]"),
        nest("D", "S i 12, S j 4", "D[vi + 1, vj] = D[vi, vj] * T.float32(0.5) + C[vi % 3, vj]"),
        nest("E", "R i 1, S j 4", "D[0, vj] = D[12, vj] - D[0, vj]"),
        nest("F", "R i 12, S j 4", "D[1, vj] = D[1, vj] * T.float32(0.25) + A[vi, vj]"),
    ),
    "opaque": function(
        f"{buffers('A', 4, 3, 5)}, {buffers('D', 4, 5)}",
        allocated("B", 4, 5),
        allocated("C", 4),
        """
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
    ),
    "pieces": function(
        f"{buffers('A', 4, 3, 8)}, {buffers('C D', 4)}",
        allocated("P", 4, 3, 8),
        nest("P", "S i 4, S k 3, S r 8", "P[vi, vk, vr] = A[vi, vk, vr] + T.float32(1)"),
        nest("C", "S i 4, R k 3, R r 8", "C[vi] += P[vi, vk, vr]", init=f"C[vi] = {ZERO}"),
        nest(
            "D",
            "S i 4, R k i * 2:6",
            "D[vi] = T.max(D[vi], C[vi] * P[vi, 1, vk])",
            init="D[vi] = T.float32(1)",
        ),
    ),
    "triangles": function(
        f"{buffers('A C', 8, 8)}, {buffers('D', 8)}",
        allocated("B", 8, 8),
        nest("B", "S i 8, S j 8", "B[vi, vj] = A[vi, vj] + T.float32(1)"),
        nest(
            "C",
            "S i 8, S j i + 1, R k 3",
            "C[vi, vj] += B[vi, (vj + vk) % 8]",
            init=f"C[vi, vj] = {ZERO}",
        ),
        nest(
            "D",
            "S i 8, R j i + 1",
            "D[vi] = T.max(D[vi], B[vi, vj] * A[vj, vi])",
            init="D[vi] = T.float32(1)",
        ),
    ),
    "guarded": function(
        f"{buffers('A', 9)}, {buffers('S', 6, dtype='int32')}, {buffers('W', 4)}, "
        f"{buffers('D F', 16)}",
        allocated("B C E", 16),
        nest(
            "B",
            "S i 16",
            f"B[vi] = T.if_then_else(0 < vi and vi < 9, A[30 // vi % 9] + A[vi], {ZERO})",
        ),
        nest(
            "C",
            "S h 16, R r 4",
            "C[vh] += W[vr] * T.if_then_else("
            f"vh < 6 and (S[vh] + vr) % 2 == 0, A[vh + vr], {ZERO})",
            init=f"C[vh] = {ZERO}",
        ),
        nest(
            "D",
            "S h 16, R r 4",
            f"D[vh] += W[vr] * T.if_then_else(0 < vh and (30 // vh + vr) % 4 == 1, C[vh], {ZERO})",
            init=f"D[vh] = {ZERO}",
        ),
        nest("E", "S i 16", "E[vi] = A[S[vi] % 8] * C[vi]", where="i < 6"),
        nest("F", "S i 16", "F[vi] = T.if_then_else(vi < 6, E[vi], B[15 - vi])"),
    ),
    "wrapping": function(
        f"{buffers('D', 16, dtype='int32')}, {buffers('F', 16)}",
        allocated("B C", 16, dtype="int32"),
        nest("B", "S i 16", "B[vi] = vi + 2147483640"),
        nest("C", "S i 16", "C[vi] = (B[vi] + 1) // 2"),
        nest("D", "S i 16", "D[vi] = C[vi] * 3 + B[vi] // 7"),
        nest("F", "S i 16", 'F[vi] = T.cast(B[vi] + vi, "float32")'),
    ),
}
"""Programs with every kind of statement around blocks, and with what is easily got wrong:
reductions without steps, inits that read, narrow loops, axes that are longer than their loops,
blocks without axes inside reductions, guarded loads and divisions."""
CALLED: list[int] = []
"""The arguments of the library function of the program `calls` in the last run."""


@codegen.register_func("fuzz.called", override=True)
def _called(number: int) -> int:
    CALLED.append(int(number))
    return int(number) % 5


SIZES = {"n": 7, "m": 5, "none": 0}
"""The values of the variables in the shapes of programs."""


@cache
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
    sizes = {
        var: const(SIZES[var.name], var.dtype)
        for buffer in func.buffer_map.values()
        for extent in buffer.shape
        for var in collect_vars(extent)
    }
    known = {
        param: buffer.with_(shape=tuple(substitute(n, sizes) for n in buffer.shape))
        for param, buffer in func.buffer_map.items()
    }
    return random_arguments(func.with_(buffer_map=known) if sizes else func)
