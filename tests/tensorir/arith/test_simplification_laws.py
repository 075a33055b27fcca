"""Forms that the simplifier gives, and the conditions it knows."""

from __future__ import annotations

import pytest
from test_random_expressions import points

from tensorir import Range, T, Var, parse, simplify
from tensorir.arith import Analyzer, ModularSet
from tensorir.interp.expressions import ExpressionCompiler
from tensorir.interp.memory import InterpreterError
from tensorir.nodes import expr as e
from tensorir.nodes.buffer import decl_buffer
from tensorir.nodes.expr import Let

# --------- The laws of the simplifier, each with the form that it gives and checked for every value

PARAMETERS = {
    "x": "int32", "y": "int32", "z": "int32", "k": "int32", "l": "int64", "w": "int32",
    "a": "uint8", "b": "uint8", "i": "int8", "j": "int8", "p": "bool", "q": "bool",
}  # fmt: skip
DOMAINS = {
    "x": range(-9, 10), "y": range(-5, 7), "z": range(-3, 4), "k": range(8), "l": range(-9, 10),
    "w": (-(1 << 31), -(1 << 31) + 1, -17, -8, -1, 0, 1, 7, 8, 1 << 30, (1 << 31) - 1),
    "a": range(256), "b": (0, 1, 2, 7, 100, 128, 255),
    "i": range(-128, 128), "j": (-128, -127, -5, -1, 0, 1, 6, 100, 127),
    "p": (False, True), "q": (False, True),
}  # fmt: skip
"""x, y, z, l are indices, known to be in no range; k is an index in 0..7; w, a, b, i, j values."""

LAWS = {
    "minima and maxima in sums": {
        "T.min(x, y - z) + z": "T.min(x + z, y)",
        "T.max(y - x, 0) + x": "T.max(y, x)",
        "x - T.min(x, y)": "T.max(0, x - y)",
        "T.min(x, y) + T.max(x, y)": "x + y",
        "T.min(x, y) * T.max(y, x)": "x * y",
        "T.max(x, y) - T.max(y + 3, x + 3)": "-3",
        "T.min(T.max(x, y) + z, 3) - T.max(x, y)": "T.min(z, 3 - T.max(x, y))",
        "T.min(x * 4, y * 4) // 4": "T.min(x, y)",
        "T.min(x // 4, y // 4)": "T.min(x, y) // 4",
        "T.min(x + z, y + z)": "z + T.min(x, y)",
        "T.max(x - y, x - z)": "x - T.min(y, z)",
        "T.min(3 - x, 2)": "T.min(3 - x, 2)",
        "T.min(x, y) - y": "T.min(x - y, 0)",
        "y - T.max(x, y)": "T.min(y - x, 0)",
    },
    "the lattice of minima and maxima": {
        "T.min(T.max(x, y), x)": "x",
        "T.min(T.max(x, y), T.min(y, x))": "T.min(y, x)",
        "T.min(T.max(x, y), T.max(z, x))": "T.max(T.min(y, z), x)",
        "T.min(T.min(x, 11), 10)": "T.min(x, 10)",
        "T.max(T.min(x, 3), 5)": "5",
        "T.min(x * 2, T.max(x, y) * 2)": "x * 2",
        "T.min((x + 3) // 4 * 4, x)": "x",
    },
    "quotients rounded down": {
        "x // 2 // 3": "x // 6",
        "(x * 8 + k) // 16": "x // 2",
        "(x * 8 + k) % 8": "k",
        "x // 4 * 4 + x % 4": "x",
        "(x + 1) % 4 + 1": "(x + 1) % 4 + 1",
        "(x % 12) % 4": "x % 4",
        "x * 4 % 12": "x % 3 * 4",
        "x * 4 // ((k + 1) * 4)": "x // (k + 1)",
    },
    "quotients by symbols": {
        "(y + x + z) // x": "(y + z) // x + 1",
        "(x + 1) % y": "(x + 1) % y",
        "(x + 1) // y * y + (x + 1) % y": "x + 1",
        "x * 32 * x % (x * y)": "x * (x * 32 % y)",
        "z * (x % y) * y": "z * (y * (x % y))",
    },
    "quotients by negative numbers": {
        "x // -9": "x // -9",
        "(x - x % -9) % 9": "0",
        "x % -9 + x // -9 * -9": "x",
        "x // -9 * y": "x // -9 * y",
        "(x + y * 2) % -8 * 2": "(x + y * 2) % -8 * 2",
        "y - x * -1 % 8": "y + x % -8",
        "k // -3": "k * -1 // 3",
        "x % -9 < 1": "T.bool(True)",
    },
    "common factors": {
        "x * y + x": "x * (y + 1)",
        "y * x + x * 10": "x * (y + 10)",
        "x - x * y * 3": "x * (1 - y * 3)",
        "x * y * -2 - x * 4": "x * (y + 2) * -2",
        "x * (y % 4)": "x * (y % 4)",
        "x % 4 * (y % 4) + x // 4 * (y % 4) * 4": "x * (y % 4)",
        "x * y < x": "x * y < x",
        "x * (y % 4) < 5": "x * (y % 4) < 5",
        "w * y + w": "w * (y + 1)",
    },
    "quotients rounded toward zero": {
        "T.truncdiv(T.truncdiv(x, 2), 3)": "T.Div(x, 6)",
        "T.truncdiv(x * 6, 4)": "T.Div(x * 3, 2)",
        "T.truncdiv(x * 4, 2)": "x * 2",
        "T.truncdiv(x, 1)": "x",
        "T.truncmod(x, -1)": "0",
        "T.truncmod(x * 10, -2)": "0",
        "T.truncdiv(x, 8) * 8 + T.truncmod(x, 8)": "x",
        "x * 3 - T.truncdiv(x, 2) * 6": "T.truncmod(x, 2) * 3",
        "T.truncmod(T.truncmod(x, 12), 4)": "T.truncmod(x, 4)",
        "T.truncmod(T.truncmod(x, 4), 12)": "T.truncmod(x, 4)",
        "T.truncdiv(k, 4)": "k // 4",
        "T.truncdiv(x, 4) + T.truncdiv(-x, 4)": "0",
        "T.truncdiv(x * (k + 1), k + 1)": "x",
        "T.truncmod(x * (k + 1) * 6, (k + 1) * 3)": "0",
        "T.truncdiv(T.truncdiv(T.truncmod(x, 16), 2) * 2, 4)": "T.Div(T.truncmod(x, 16), 4)",
        "T.truncdiv(T.truncdiv(T.truncmod(x, 16), 2) * 2, 6)": "T.Div(T.truncmod(x, 16), 6)",
        "T.truncmod(T.truncdiv(T.truncmod(x, 20), 2) * 2, 4)": "T.Div(T.truncmod(x, 4), 2) * 2",
        "T.truncdiv(x, 6) * 6 + T.truncmod(T.truncdiv(x, 3), 2) * 3 + T.truncmod(x, 3)": "x",
        "T.truncmod(x + 1, y)": "T.truncmod(x + 1, y)",
        "T.truncdiv(x, y) * y + T.truncmod(x, y)": "x",
        "T.truncmod(x * 32 * x, x * y)": "x * T.truncmod(x * 32, y)",
        "T.truncdiv(y + x + z, x)": "T.Div(y + x + z, x)",
    },
    "inequalities": {
        "x * 8 + k < 16": "x < 2",
        "x * 8 + k < y * 8": "x < y",
        "x * 8 + k + 1 < y * 8 + 8": "x * 8 + k < y * 8 + 7",
        "x * 8 - k > 16": "3 <= x",
        "x * 6 + y * 3 < 8": "x * 2 + y < 3",
        "x * 2 > -3": "-1 <= x",
        "x * -2 < 4": "-1 <= x",
        "x // 2 < 3": "x < 6",
        "3 < x // 2": "8 <= x",
        "x // 4 * 8 < 17": "x < 12",
        "x // 4 * 4 < x": "0 < x % 4",
        "T.truncdiv(x, 2) < 3": "x < 6",
        "T.truncdiv(x, 2) < 0": "x < -1",
        "T.truncdiv(x, 3) >= 0": "-2 <= x",
        "T.truncmod(x, 4) < 4": "T.bool(True)",
        "T.min(x, 11) < 10": "x < 10",
        "T.max(8, x) > 10": "11 <= x",
        "T.max(x, y) <= y": "x <= y",
        "x + 1 < T.max(8, x)": "x < 7",
        "x + y < z + x": "y < z",
        "x * 8 + k - 4 < 16": "x * 8 + k < 20",
        "x * 8 + k - y < 16": "x * 8 + k < y + 16",
        "x * 8 + k - k % 2 < 16": "x < 2",
        "(k + 1) * (k // 2 + 3) < (k + k // 2 + 4) * 8": "T.bool(True)",
        "x < -2147483648": "T.bool(False)",
        "x >= -2147483648": "T.bool(True)",
        "x + -2147483648 < 0": "T.bool(True)",
    },
    "equations": {
        "x * 3 == 6": "x == 2",
        "x * 3 + 10 == 0": "T.bool(False)",
        "0 - x * 3 != 0": "x != 0",
        "x // 2 + 3 == 0": "x // 2 == -3",
        "T.max(x, 5) == 5": "x < 6",
        "T.min(x, y) != x": "y < x",
        "T.truncmod(x, 2) + 10 == 1": "T.bool(False)",
        "x + -2147483648 == 0": "T.bool(False)",
        "0 != x + -2147483648": "T.bool(True)",
        "-2147483648 - x == 0": "x == -2147483648",
    },
    "conjunctions": {
        "x < 5 and x < 7": "x < 5",
        "x > 1 and not x > 1": "T.bool(False)",
        "x <= y and y <= x": "x == y",
        "x <= y and x != y": "x < y",
        "x == 1 and x != 2": "x == 1",
        "x == 1 and x == 2": "T.bool(False)",
        "x >= 0 and x < 8 and x < 4": "0 <= x and x < 4",
        "x <= 3 and x >= 3": "x == 3",
        "p and T.Not(p)": "T.bool(False)",
        "p and (p or q)": "p",
        "p and (T.Not(p) or q)": "p and q",
        "(p or q) and (p or T.Not(q))": "p",
        "x < 3 and (x < 5 or y < 2)": "x < 3",
        "x < 3 and (x >= 3 or y < 2)": "x < 3 and y < 2",
        "(x >= 3 or y < 2) and x < 3": "(3 <= x or y < 2) and x < 3",
    },
    "disjunctions": {
        "x < 5 or x < 7": "x < 7",
        "x < y or y < x": "x != y",
        "x == y or x < y": "x <= y",
        "x < 3 or x == 3": "x < 4",
        "x != 1 or x != 2": "T.bool(True)",
        "x < 1 or 0 < x": "T.bool(True)",
        "p or T.Not(p)": "T.bool(True)",
        "p or (p and q)": "p",
        "p or (T.Not(p) and q)": "p or q",
        "(p and q) or (p and T.Not(q))": "p",
    },
    "negations": {
        "not (x < 4 and y < 4)": "4 <= x or 4 <= y",
        "not (x < 4 or p)": "4 <= x and not p",
        "T.Not(p == q)": "p != q",
        "p == T.bool(False)": "not p",
        "p != T.bool(False)": "p",
    },
    "choices": {
        "T.Select(p, T.Select(p, x, y), z)": "T.Select(p, x, z)",
        "T.Select(x < 3, T.min(x, 3), 0)": "T.Select(x < 3, x, 0)",
        "T.Select(p, x + 1, 1 + x)": "x + 1",
        "T.Select(x * 3 + 1 == 0, y, z)": "z",
        "T.Select(p, q, T.bool(False))": "p and q",
        "T.Select(x != 3, T.Cast(\"int32\", x == 3), 5)": "T.Select(x != 3, 0, 5)",
        "T.if_then_else(p, T.if_then_else(q, x, x), x)": "x",
        "T.if_then_else(x % 4 == 0, x % 4, 7)": "T.if_then_else(x % 4 == 0, 0, 7)",
    },
    "multiples leave quotients": {
        "(x * 360 + k) // 16 - x * 22": "x // 2",
        "x * 3 // 2 - x // 2": "x",
        "x * 9600 % 6400": "x % 2 * 3200",
        "(x * 360 + y) % 16": "(x * 8 + y) % 16",
        "(x * -9 + y) // 4": "(y - x) // 4 - x * 2",
        "x * -9600 % 6400 - x * 3200 % 6400": "0",
        "w * 3 // 2": "w * 3 // 2",
        "a * T.uint8(9) // T.uint8(4)": "a * T.uint8(9) // T.uint8(4)",
    },
    "quotients of minima and maxima": {
        "T.min(x * 6, y) // 2": "T.min(x * 3, y // 2)",
        "T.max(y, x * 6 + 3) // 3": "T.max(y // 3, x * 2 + 1)",
        "T.min(x * 6 + 1, y) // 2": "T.min(x * 3, y // 2)",
        "T.truncdiv(T.min(k * 6, k + 9), 2)": "T.min(k * 3, (k + 1) // 2 + 4)",
        "T.min(i * T.int8(2), j) // T.int8(2)": "T.min(i * T.int8(2), j) // T.int8(2)",
    },
    "remainders do not carry": {
        "x * 2 + y % 2 < 8": "x < 4",
        "x * 4 + y % 4 >= 8": "2 <= x",
        "x * 8 + y % 4 * 2 + z % 2 < 16": "x < 2",
        "x * 4 + y % 8 < 16": "x * 4 + y % 8 < 16",
    },
    "what makes a sum 0": {
        "T.min(x, 5) == 3": "x == 3",
        "T.max(x, 5) == 7": "x == 7",
        "T.min(x, 5) != 3": "x != 3",
        "T.max(x, 5) == 4": "T.bool(False)",
        "T.min(x, y) == 3": "T.min(x, y) == 3",
        "x * y == 0": "x == 0 or y == 0",
        "x * y != 0": "x != 0 and y != 0",
        "x * x == 0": "x == 0",
        "i * j == T.int8(0)": "i * j == T.int8(0)",
        "T.min(i, T.int8(5)) == T.int8(3)": "i == T.int8(3)",
    },
    "choices by one condition": {
        "T.Select(x < 0, y, 0) + T.Select(x < 0, 1, z)": "T.Select(x < 0, y + 1, z)",
        "T.Select(x < 0, y, 1) - T.Select(x < 0, 1, z)": "T.Select(x < 0, y - 1, 1 - z)",
        "T.Select(x < 0, y, z) - y": "T.Select(x < 0, 0, z - y)",
        "z - T.Select(x < 0, y, z)": "T.Select(x < 0, z - y, 0)",
        "T.Select(x >= 0, x + 2, x + 3) - x": "T.Select(0 <= x, 2, 3)",
        "T.min(T.Select(p, y, 0), T.Select(p, 1, z))": "T.Select(p, T.min(y, 1), T.min(0, z))",
        "T.max(T.Select(p, y, 0), T.Select(q, 1, z))": "T.max(T.Select(p, y, 0), T.Select(q, 1, z))",
        "T.Select(p, w, 0) - w": "T.Select(p, 0, w * -1)",
        "T.if_then_else(x < 5, T.if_then_else(x > 1, 1, 0), 0)": "T.if_then_else(x < 5 and 2 <= x, 1, 0)",
        "T.if_then_else(x > 2, T.if_then_else(x > 1, 1, 0), 0)": "T.if_then_else(3 <= x, 1, 0)",
        "T.if_then_else(p, 1, T.if_then_else(q, 1, y))": "T.if_then_else(p or q, 1, y)",
        "T.if_then_else(p, T.if_then_else(q, x, y), z)": "T.if_then_else(p, T.if_then_else(q, x, y), z)",
    },
    "casts and bits": {
        "T.Cast(\"int64\", x) * 4 - T.Cast(\"int64\", x * 4)": "T.int64(0)",
        "T.Cast(\"int8\", T.Cast(\"int16\", w))": "T.Cast(\"int8\", w)",
        "T.Cast(\"int32\", T.Cast(\"int16\", i))": "T.Cast(\"int32\", i)",
        "T.Cast(\"uint8\", T.Cast(\"int8\", a))": "a",
        "T.Cast(\"float32\", x - x + 2)": "T.float32(2.0)",
        "T.clz(x - x + 8)": "28",
        "T.popcount(x - x + 7)": "3",
        "T.bitwise_and(x, 7) < 8": "T.bool(True)",
    },
    "values of 8 bits, without a sign": {
        "a - a": "T.uint8(0)",
        "a + T.uint8(1) - T.uint8(1)": "a",
        "a + T.uint8(200) + T.uint8(100)": "a + T.uint8(44)",
        "a == a": "T.bool(True)",
        "a + T.uint8(1) > a": "a < a + T.uint8(1)",
        "a * T.uint8(4) // T.uint8(4)": "a * T.uint8(4) // T.uint8(4)",
        "a // T.uint8(4) * T.uint8(4) // T.uint8(4)": "a // T.uint8(4)",
        "a // T.uint8(2) < T.uint8(3)": "a < T.uint8(6)",
        "T.min(a, b) + T.max(b, a)": "b + a",
        "T.Cast(\"int32\", a) * 8 + k < 16": "T.Cast(\"int32\", a) < 2",
    },
    "values of 8 bits, with a sign": {
        "i - i": "T.int8(0)",
        "i + T.int8(100) + T.int8(100)": "i - T.int8(56)",
        "i // T.int8(2) - j // T.int8(2) < T.int8(100)": "i // T.int8(2) - j // T.int8(2) < T.int8(100)",
        "T.truncdiv(i, T.int8(-1))": "i * T.int8(-1)",
        "T.truncdiv(i * T.int8(2), T.int8(2))": "T.Div(i * T.int8(2), T.int8(2))",
        "T.max(i, j) <= j": "i <= j",
        "i < j and j < i": "T.bool(False)",
    },
    "values of 32 bits": {
        "w + 1 > w": "w < w + 1",
        "w + 1 - w": "1",
        "w * 2 // 2": "w * 2 // 2",
        "w // 2 * 2 < w + 1": "w // 2 * 2 < w + 1",
        "w < x % -16": "w < x % -16",
        "T.min(w, 0) + 1 <= 1": "T.bool(True)",
        "w < 5 or w >= 5": "T.bool(True)",
    },
    "vectors": {
        "T.Ramp(x, 1, 4) + T.Ramp(y, 2, 4)": "T.Ramp(x + y, 3, 4)",
        "T.Broadcast(y, 4) - T.Ramp(x, 1, 4)": "T.Ramp(y - x, -1, 4)",
        "T.Broadcast(3, 4) * T.Ramp(x, 4, 4)": "T.Ramp(x * 3, 12, 4)",
        "T.Broadcast(y, 4) * T.Broadcast(x, 4)": "T.Broadcast(y * x, 4)",
        "T.Ramp(x * 8, 2, 4) // T.Broadcast(64, 4)": "T.Broadcast(x // 8, 4)",
        "T.Ramp(x * 8 + 1, 1, 4) % T.Broadcast(8, 4)": "T.Ramp(1, 1, 4)",
        "T.Ramp(x * 4, 1, 4) % T.Broadcast(64, 4)": "T.Ramp(x % 16 * 4, 1, 4)",
        "T.Ramp(x * 4, 1, 4) < T.Broadcast(64, 4)": "T.Broadcast(x < 16, 4)",
        "T.Ramp(x, 1, 4) < T.Broadcast(x + 4, 4)": "T.Broadcast(T.bool(True), 4)",
        "T.min(T.Ramp(x, 1, 4), T.Ramp(x + 1, 1, 4))": "T.Ramp(x, 1, 4)",
        "T.Select(T.Broadcast(p, 4), T.Ramp(x, 1, 4), T.Ramp(x, 1, 4))": "T.Ramp(x, 1, 4)",
        "T.Ramp(w, 1, 4) + T.Broadcast(1, 4) - T.Ramp(w, 1, 4)": "T.Broadcast(1, 4)",
        "T.Ramp(i, T.int8(1), 4) < T.Ramp(i, T.int8(1), 4)": "T.Broadcast(T.bool(False), 4)",
        "T.min(T.min(T.Ramp(w, 3, 4), T.Broadcast(y, 4)), T.Broadcast(z, 4))": "T.min(T.Ramp(w, 3, 4), T.Broadcast(T.min(y, z), 4))",
        "T.max(T.Broadcast(y, 4), T.max(T.Ramp(w, 3, 4), T.Broadcast(z, 4)))": "T.max(T.Broadcast(T.max(y, z), 4), T.Ramp(w, 3, 4))",
        "T.truncmod(T.Ramp(k * 8 + 1, 1, 4), T.Broadcast(8, 4))": "T.Ramp(1, 1, 4)",
        "T.truncdiv(T.Ramp(k, 4, 4), T.Broadcast(2, 4))": "T.Ramp(k // 2, 2, 4)",
        "T.Ramp(x, 8, 5) // T.Broadcast(4, 5)": "T.Ramp(x // 4, 2, 5)",
        "T.Ramp(x, 7, 4) % T.Broadcast(4, 4)": "T.Ramp(x, 3, 4) % T.Broadcast(4, 4)",
        "T.Ramp(x * 8 + 1, 15, 4) % T.Broadcast(8, 4)": "T.Ramp(1, 7, 4) % T.Broadcast(8, 4)",
    },
}  # fmt: skip


def read(text, variables):
    """Return the expression that `text` says, over these parameters."""
    declared = ", ".join(f"{name}: T.{dtype}" for name, dtype in PARAMETERS.items())
    func = parse(f"@T.prim_func\ndef main({declared}):\n    T.evaluate({text})\n")
    variables.update({var.name: var for var in func.params})
    return func.body.value


def computed(expr, values):
    return ExpressionCompiler(set(values)).stored(expr)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(text, form, id=f"{kind}: {text}")
        for kind, laws in LAWS.items()
        for text, form in laws.items()
    ],
)
def test_law(text, expected):
    variables: dict[str, Var] = {}
    expr = read(text, variables)
    values = [variables["w"]]
    analyzer = Analyzer(values=values)
    analyzer.bind(variables["k"], Range(8))
    simple = analyzer.simplify(expr)
    assert str(simple) == expected
    assert str(analyzer.simplify(simple)) == expected
    before, after = computed(expr, values), computed(simple, values)
    for env in points(expr, DOMAINS):
        expected_value = value_of(before, env)
        if expected_value is not None:
            assert expected_value == after(env), env


def value_of(compute, env):
    """Return a value; None for a division by 0."""
    try:
        return compute(env)
    except InterpreterError:
        return None


@pytest.mark.parametrize("dtype", ["int32x4", "int64x4", "boolx4"])
def test_vectors_of_floats_as_integers_stay(dtype):
    expr = read(
        f'T.Cast("{dtype}", T.Broadcast(T.float32(2.5), 4) * T.Broadcast(T.Cast("float32", y), 4))',
        {},
    )
    assert Analyzer().simplify(expr) is expr


# ----------- What follows from conditions that are known to hold: forms, bounds and residue classes

KNOWN_DOMAINS = {
    "x": range(-13, 14), "y": range(-9, 12), "z": range(-3, 6), "k": range(8),
}  # fmt: skip

FORMS = [
    # quotients
    ("0 <= y and y < 8", "(x * 8 + y) // 16", "x // 2"),
    ("0 <= x and x < 2 and 0 <= y and y < 8", "(x * 360 + y) // 25", "x * 14"),
    ("0 <= y and y < 4 and 0 <= z and z < 4", "(x * 16 + y * 4 + z) % 16", "y * 4 + z"),
    ("0 <= x and 0 <= z - y", "T.truncdiv(x * 4 - y + z, 2)", "x * 2 + (z - y) // 2"),
    ("0 <= x", "T.truncdiv(x + 4, 4)", "x // 4 + 1"),
    # symbols that are not 0, or nothing is divided
    ("x != 0", "x * y * 8 // (x * 16)", "y // 2"),
    ("x != 0", "x * y * 10 // (x * 3)", "y * 3 + y // 3"),
    ("x != 0", "(x * y * 6 + x * z * 6) // (x * 3)", "y * 2 + z * 2"),
    ("x != 0", "T.truncdiv(x * y * 10, x * 3)", "T.Div(y * 10, 3)"),
    ("x != 0", "x * y * 3 % (x * 2) - y % 2 * x", "0"),
    ("z > 0", "(x * z + y) // z", "y // z + x"),
    ("z > 0", "(x * z * 2 + y * z * 2 + z) // (z * 2)", "x + y"),
    # comparisons and choices
    ("0 <= y and y < 8 and 0 <= z and z < 2", "x * 16 + y * 2 + z < 32", "x < 2"),
    ("x > 0", "T.min((x + 3) // 4 * 4, T.max(x, 4))", "T.max(x, 4)"),
    ("x < y", "T.if_then_else(x <= y, z, k)", "z"),
    ("T.max(x, y) < 5", "T.Select(x < 7, y, z)", "y"),
    ("T.min(x, y) >= 5", "x > 4 and y > 3", "T.bool(True)"),
    ("x // 4 < 3", "T.min(x, 20)", "x"),
    ("x >= 0 and x != 0", "T.max(x, 1)", "x"),
]  # fmt: skip

BOUNDS = [
    ("k < 9", "x % 64 // 4 + x % 4", 0, 18),
    ("-9 <= x and x <= 4", "x * x", 0, 81),
    ("2 <= x and x <= 5", "x * x * x", 8, 125),
    ("-10 <= y and y <= -4", "x % y", -9, 0),
    ("0 <= x and x <= 4 and 4 <= y", "T.truncmod(x, y)", 0, 4),
    ("x <= 9", "T.Select(x > 1, x, 2)", 2, 9),
    ("-9 <= x and x <= 4", "T.Select(x < 0, 0 - x, x)", 0, 9),
    ("x <= 9", "T.if_then_else(x > 1, x, 2)", 2, 9),
    ("0 <= k", "T.clz(k)", 29, 32),
    ("0 <= k", "T.popcount(k)", 0, 3),
    ("x // 4 < 3 and x >= 0", "x", 0, 11),
    ("x >= 0 and x != 0 and x < 9", "x", 1, 8),
    ("x <= 0 and x != 0 and x > -9", "x", -8, -1),
    ("T.max(x, y) < 10 and x > 2", "x", 3, 9),
    ("T.min(x, y) >= 5 and x <= 6", "x", 5, 6),
    ("x * 8 + y % 8 >= 0 and x < 3", "x", 0, 2),
]  # fmt: skip
"""Conditions, expressions, and what these are at least and at most."""

SIGNS = ["T.max(x, y) - T.min(x, y)", "T.max(x, y) - x", "x - T.min(x, y)", "x * x"]


def read_both(condition, text):
    """Return a condition and an expression over the same variables, and these by name."""
    variables: dict[str, Var] = {}
    both = read(f"T.Select({condition}, {text}, {text})", variables)
    return both.condition, both.true_value, variables


def knowing(variables):
    """Return an analyzer that knows the domain of k."""
    analyzer = Analyzer(values=[variables["w"]])
    analyzer.bind(variables["k"], Range(8))
    return analyzer


@pytest.mark.parametrize(("condition", "text", "expected"), FORMS)
def test_forms(condition, text, expected):
    known, expr, variables = read_both(condition, text)
    analyzer = knowing(variables)
    with analyzer.constraint_scope(known):
        simple = analyzer.simplify(expr)
        assert str(simple) == expected
    holds, before, after = (computed(part, []) for part in (known, expr, simple))
    checked = 0
    for env in points(T.Select(known, expr, expr), KNOWN_DOMAINS):
        if holds(env):
            assert before(env) == after(env), env
            checked += 1
    assert checked > 0


@pytest.mark.parametrize(("condition", "text", "low", "high"), BOUNDS)
def test_bounds(condition, text, low, high):
    known, expr, variables = read_both(condition, text)
    analyzer = knowing(variables)
    with analyzer.constraint_scope(known):
        bound = analyzer.const_int_bound(expr)
    assert (bound.min_value, bound.max_value) == (low, high)
    holds, value = computed(known, []), computed(expr, [])
    for env in points(T.Select(known, expr, expr), KNOWN_DOMAINS):
        if holds(env):
            assert low <= value(env) <= high, env


@pytest.mark.parametrize("text", SIGNS)
def test_what_is_never_negative(text):
    _, expr, variables = read_both("k < 9", text)
    assert knowing(variables).const_int_bound(expr).min_value == 0


def test_values_are_not_squared_without_wrapping():
    variables: dict[str, Var] = {}
    expr = read("w * w", variables)
    bound = knowing(variables).const_int_bound(expr)
    assert (bound.min_value, bound.max_value) == (-(1 << 31), (1 << 31) - 1)


def test_names_for_indices():
    x, v = Var("x"), Var("v")
    analyzer = Analyzer()
    assert str(analyzer.simplify(Let(v, x * 2, v + 1 - x))) == "x + 1"
    assert analyzer.modular_set(Let(v, x * 4, v + 2)) == ModularSet(4, 2)
    loaded = Let(v, T.call_extern("int32", "f", x), v * v)
    assert "where" in str(analyzer.simplify(loaded)), "it is called once"


# ----------- Simplified programs are the same in every process: names order terms, addresses do not


def test_equal_sums_of_loads_have_one_form():
    A, B = decl_buffer((8,), "int32", "A"), decl_buffer((8,), "int32", "B")
    i = Var("i")
    analyzer = Analyzer()
    analyzer.bind(i, Range(8))
    for expr in (B[i] + A[i] + i + A[0], A[0] + i + A[i] + B[i], A[i] + A[0] + B[i] + i):
        assert str(analyzer.simplify(expr, sort=True)) == "i + A[i] + A[0] + B[i]"


def test_zeros_of_both_signs_are_no_equal_values():
    p = Var("p", "bool")
    choice = e.Select(p, e.FloatImm("float32", 0.0), e.FloatImm("float32", -0.0))
    assert Analyzer().simplify(choice) is choice


def test_a_fact_about_a_term_that_its_operands_ask_for_ends():
    program = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "int32"), m: T.int32):
    for i, j in T.grid(8, 8):
        A[i] = T.if_then_else(i + j + 1 < T.bitwise_or(T.if_then_else(m < j, m, j), 4), T.if_then_else(m < i, j, i) % 3, 0)
""")
    assert "T.if_then_else(m < i, j, i) % 3" in simplify(program).script()
