"""A short loop around a large tile loads its operand again instead of copying it to the stack."""

from __future__ import annotations

import re

import numpy as np
import pytest

import codegen
from codegen.lower import lower
from codegen.lower.forms import REPEATED_LOADS
from codegen.lower.repeat_loads import repeat_loads
from codegen.target import Target
from schedule import Schedule
from tensorir import parse
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes import stmt as s
from tensorir.rewriting.visit import walk

AVX2, AVX512 = "llvm -mcpu=znver3 -num-cores=1", "llvm -mcpu=znver4 -num-cores=1"


def repeated(body: str, target: str = AVX2) -> list[list[str]]:
    """Return the names of the pointers that each innermost loop loads through again."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    func = parse(
        "@T.prim_func\n"
        "def main(A: T.Buffer((64,)), B: T.Buffer((512,)), C: T.Buffer((512,))):\n"
        '    T.func_attr({"tir.noalias": True})\n'
        f"    R = T.allocate([8], 'float32', 'local')\n    S = T.Buffer((8,), data=R)\n{lines}"
    )
    assert isinstance(func, PrimFunc)
    with Target(target):
        loops = [n for n in walk(repeat_loads(func).body) if isinstance(n, s.For)]
    return [[p.name for p in loop.annotations.get(REPEATED_LOADS, ())] for loop in loops]


def updates(operand: str, count: int) -> str:
    """Return a loop with some updates of one accumulator by vectors of B times `operand`."""
    lines = [f"    S[0:8] = S[0:8] + B[{8 * k}:{8 * k + 8}] * {operand}" for k in range(count)]
    return "\n".join(["for i in range(4):", *lines])


MOVES = "T.Broadcast(A[i], 8)"


@pytest.mark.parametrize(
    ("body", "target", "expected"),
    [
        (updates(MOVES, 13), AVX2, []),
        (updates(MOVES, 14), AVX2, ["B"]),
        (updates(MOVES, 14), AVX512, []),
        (updates(MOVES, 30), AVX512, ["B"]),
    ],
)
def test_what_fits_into_the_registers_is_left_to_llvm(
    body: str, target: str, expected: list[str]
) -> None:
    assert repeated(body, target) == [expected]


def test_memory_with_few_places_is_kept_first() -> None:
    assert repeated(updates("(T.Broadcast(A[0], 8) + T.Broadcast(A[1], 8))", 20)) == [["B"]]


OTHERS = {
    "a long loop, beside which a copy is cheap": updates(MOVES, 20).replace("(4)", "(17)"),
    "places that move": "for i in range(4):\n"
    + "\n".join(f"    S[0:8] = S[0:8] + B[i * 8 + {8 * k}:i * 8 + {8 * k + 8}]" for k in range(20)),
    "memory that the loop stores to": updates(MOVES, 20) + "\n    B[i] = T.float32(1)",
    "what is converted after it is loaded": "for i in range(4):\n"
    + "\n".join(
        f'    S[0:8] = S[0:8] + T.Cast("float32x8", T.Cast("float64x8", B[{8 * k}:{8 * k + 8}]))'
        for k in range(20)
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_left_to_llvm(name: str) -> None:
    assert repeated(OTHERS[name]) == [[]]


def product() -> IRModule:
    """Return a product whose innermost loop, over rows, does not change 32 vectors of B."""
    sch = Schedule(
        parse(
            """
@T.prim_func
def main(A: T.Buffer((32, 64)), B: T.Buffer((64, 64)), C: T.Buffer((32, 64))):
    T.func_attr({"tir.noalias": True})
    for i, j, k in T.grid(32, 64, 64):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += A[vi, vk] * B[vk, vj]
"""
        )
    )
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1, i2 = sch.split(i, [None, 8, 2])
    j0, j1 = sch.split(j, [None, 32])
    k0, k1 = sch.split(k, [None, 8])
    sch.reorder(i0, j0, k0, i1, k1, i2, j1)
    for loop in (k1, i2):
        sch.unroll(loop)
    sch.vectorize(j1)
    sch.decompose_reduction(block, k0)
    return sch.mod


def test_nothing_is_copied_to_the_stack() -> None:
    module = product()
    (loop,) = [
        node
        for node in walk(lower(module["main"], AVX2).body)  # type: ignore[arg-type]
        if isinstance(node, s.For) and REPEATED_LOADS in node.annotations
    ]
    assert [pointer.name for pointer in loop.annotations[REPEATED_LOADS]] == ["B"]
    text = codegen.build(module, AVX2).inspect_asm()
    body = text[text.index("tensorir.kernel.main:") :].split("retq")[0]
    assert not re.search(r"vmov[au]ps\s+%ymm\d+, -?\d*\(%rsp\)", body)


def test_the_result_stays() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, 64)).astype(np.float32) for n in (32, 64))
    c = np.zeros((32, 64), np.float32)
    codegen.build(product())["main"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
