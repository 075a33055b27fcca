"""Scripts parse, print and parse again to the same program."""

from __future__ import annotations

import pytest

from tensorir import (
    DiagnosticError,
    I,
    PrimFunc,
    T,
    assert_structural_equal,
    parse,
    structural_equal,
    structural_hash,
)
from tests.recorded import RECORDED, recorded

SAMPLE = """\
from tensorir import I, T

@I.ir_module
class Module:
    @T.prim_func
    def main(X: T.Buffer((64, 32), "float32"), W: T.Buffer((48, 32), "float32"), Y: T.Buffer((64, 48), "float32")):
        T.func_attr({"tir.noalias": True})
        # with T.block("root"):
        acc = T.alloc_buffer((64, 48))
        for i, j, k_0, k_1 in T.grid(64, 48, 8, 4):
            with T.block("dense"):
                vi, vj = T.axis.remap("SS", [i, j])
                vk = T.axis.reduce(32, k_0 * 4 + k_1)
                T.reads(X[vi, vk], W[vj, vk])
                T.writes(acc[vi, vj])
                T.block_attr({"meta_schedule.tiling_structure": "SSRSRS"})
                with T.init():
                    acc[vi, vj] = T.float32(0.0)
                acc[vi, vj] = acc[vi, vj] + X[vi, vk] * W[vj, vk]
        for i in T.parallel(64, annotations={"pragma_auto_unroll_max_step": 16}):
            for j in T.vectorized(48):
                with T.block("relu"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.reads(acc[vi, vj])
                    T.writes(Y[vi, vj])
                    Y[vi, vj] = T.max(acc[vi, vj], T.float32(0.0))"""


def test_printing_gives_back_the_text():
    assert parse(SAMPLE).script() == SAMPLE


def test_both_buffer_forms_are_one():
    modern = SAMPLE
    older = SAMPLE.replace('T.Buffer((64, 32), "float32")', 'T.Buffer[(64, 32), "float32"]')
    newest = SAMPLE.replace("T.block(", "T.sblock(").replace("T.block_attr", "T.sblock_attr")
    newest = newest.replace("T.alloc_buffer", "T.sblock_alloc_buffer")
    newest = newest.replace("@T.prim_func", "@T.prim_func(s_tir=True)")
    assert_structural_equal(parse(older), parse(modern))
    assert_structural_equal(parse(newest), parse(modern))


@I.ir_module
class Decorated:
    @T.prim_func
    def main(A: T.Buffer((8, 32), "float32"), S: T.Buffer((8,), "float32"), s: T.float32):
        for i, k in T.grid(8, 32):
            with T.block("rowsum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = 0.0
                S[vi] += A[vi, vk] * s


def test_decorated_module_is_completed():
    text = Decorated.script()
    assert "T.reads(A[vi, vk])" in text
    assert "T.writes(S[vi])" in text
    assert_structural_equal(parse(text), Decorated)


def test_decorated_function_captures_outer_names():
    size, dtype = 16, "float32"

    @T.prim_func
    def scale(A: T.Buffer((size,), dtype), B: T.Buffer((size,), dtype)):
        for i in range(size):
            with T.block("B"):
                vi = T.axis.spatial(size, i)
                B[vi] = A[vi] * T.float32(size)

    assert 'A: T.Buffer((16,), "float32")' in scale.script()
    assert "A[vi] * T.float32(16.0)" in scale.script()


def test_names_do_not_count_for_equality_and_hash():
    renamed = SAMPLE.replace("vk", "reduced").replace("acc", "buffer")
    assert structural_equal(parse(SAMPLE), parse(renamed))
    assert structural_hash(parse(SAMPLE)) == structural_hash(parse(renamed))
    other = SAMPLE.replace("T.float32(0.0)", "T.float32(1.0)")
    assert not structural_equal(parse(SAMPLE), parse(other))


def test_hash_is_the_same_in_every_process():
    assert structural_hash(parse(SAMPLE)) == 5150229554741542772


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        (
            "@T.prim_func\ndef f(A: T.Buffer((4,))):\n    for i in range(4)\n        pass\n",
            3,
            22,
            "':'",
        ),
        (
            "@T.prim_func\ndef f(A: T.Buffer((4,))):\n    A[0] = B[0]\n",
            3,
            12,
            "Undefined variable: B",
        ),
        (
            "@T.prim_func\ndef f(A: T.Buffer((4,))):\n    A[0] = __import__('os').system('x')\n",
            3,
            12,
            "Undefined variable: __import__",
        ),
        ("@T.prim_func\ndef f(A: T.Buffer((4,))):\n    A[0] = T.nothing(1)\n", 3, 12, "nothing"),
        ("@T.prim_func\ndef f(A: T.Buffer((4,))):\n    A[0, 1] = 2.0\n", 3, 5, "1 dimension"),
        ("@T.prim_func\ndef f(A: T.Buffer((4,))):\n    break\n", 3, 5, "not supported"),
    ],
)
def test_errors_show_the_place(text, line, column, message):
    with pytest.raises(DiagnosticError) as caught:
        parse(text, filename="demo.py")
    error = caught.value
    assert (error.line, error.column) == (line, column)
    assert message in error.message
    assert text.splitlines()[line - 1] in str(error)
    assert "^" in str(error)


@pytest.mark.parametrize("name", RECORDED)
def test_every_reference_program_round_trips(name):
    for entry in recorded(name):
        for field in ("before", "mid", "after"):
            if entry.get(field):
                program = parse(entry[field])
                assert program.script(dialect="tvm").strip() == entry[field].strip()
                assert_structural_equal(parse(program.script()), program)


def test_parameters_on_lines_of_their_own() -> None:
    func = parse(
        """
@T.prim_func
def main(
    A: T.Buffer((4,), "float32"),
    B: T.Buffer((4,), "float32"),  # a closing bracket at the start of a line follows
):
    T.evaluate(
        0
    )
"""
    )
    assert isinstance(func, PrimFunc)
    assert [func.buffer_map[p].name for p in func.params] == ["A", "B"]
