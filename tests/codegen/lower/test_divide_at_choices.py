"""Loops run in pieces, in each of which the same values are chosen."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from codegen.lower.divide_at_choices import MOST, divide_at_choices
from tensorir import assert_structural_equal, parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret
from tensorir.nodes import stmt as s
from tensorir.rewriting.visit import statements

PROGRAM = """
@T.prim_func
def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), C: T.Buffer((96,), "float32")):
    T.func_attr({{"tir.noalias": True}})
{body}
"""


def program(body: str) -> PrimFunc:
    indented = "\n".join("    " + line for line in body.strip("\n").splitlines())
    func = parse(PROGRAM.format(body=indented))
    assert isinstance(func, PrimFunc)
    return func


def pieces(func: PrimFunc) -> list[tuple[int, int]]:
    """Return where the loops of a program begin, and their extents."""
    loops = [node for node in statements(func.body) if isinstance(node, s.For)]
    return [(int(loop.min), int(loop.extent)) for loop in loops]  # type: ignore[call-overload]


CONCAT = "for i in range(64): C[i] = T.if_then_else(i >= 32, B[i - 32], A[i])"


def test_each_piece_has_its_choice_made() -> None:
    after = """
for i in range(32): C[i] = A[i]
for i in range(32, 64): C[i] = B[i - 32]
"""
    assert_structural_equal(divide_at_choices(program(CONCAT)), program(after))


@pytest.mark.parametrize(
    ("condition", "borders"),
    [
        ("i >= 5", [5]),
        ("i > 5", [6]),
        ("5 > i", [5]),
        ("i <= 5", [6]),
        ("i * 3 < 10", [4]),
        ("10 - i * 3 > 0", [4]),
        ("i * -3 + 9 >= 0", [4]),
        ("i >= 0", []),
        ("i < 32", []),
        ("i == 5", []),
        ("A[i] > T.float32(0)", []),
    ],
)
def test_borders(condition: str, borders: list[int]) -> None:
    func = program(f"for i in range(32): C[i] = T.if_then_else({condition}, A[i], B[i])")
    divided = divide_at_choices(func)
    assert [low for low, _ in pieces(divided)] == [0, *borders]
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 32)).astype("float32")
    found, expected = np.zeros(96, "float32"), np.zeros(96, "float32")
    interpret(func, a, b, expected)
    codegen.build(func, "llvm")["main"](a, b, found)
    np.testing.assert_array_equal(found, expected)


def test_a_choice_in_a_choice_and_loops_in_loops() -> None:
    body = """
for i in range(3):
    for j in range(32):
        C[i * 32 + j] = T.if_then_else(
            i < 1, A[j], T.Select(8 <= j, T.if_then_else(j < 24, B[j], A[j]), T.float32(0)))
"""
    divided = divide_at_choices(program(body))
    assert pieces(divided) == [(0, 1), (0, 32), (1, 2), (0, 8), (8, 16), (24, 8)]


@pytest.mark.parametrize(
    "body",
    [
        CONCAT.replace("range", "T.parallel"),
        CONCAT.replace("range", "T.vectorized"),
        'for i in T.serial(64, annotations={"pragma_unroll_explicit": 1}):\n    '
        "C[i] = T.if_then_else(i >= 32, B[i - 32], A[i])",
        "for i in range(64): C[i] = T.if_then_else(i >= 32, C[i - 32], A[i])",
    ],
    ids=["parallel", "vectorized", "annotated", "reads what it writes"],
)
def test_loops_that_stay(body: str) -> None:
    assert_structural_equal(divide_at_choices(program(body)), program(body))


def test_code_grows_to_a_limit() -> None:
    def divided(count: int) -> int:
        value = "A[0]"
        for k in range(1, count):
            value = f"T.if_then_else(i >= {k}, B[0], {value})"
        return len(pieces(divide_at_choices(program(f"for i in range(96): C[i] = {value}"))))

    assert divided(MOST) == MOST
    assert divided(MOST + 1) == 1
