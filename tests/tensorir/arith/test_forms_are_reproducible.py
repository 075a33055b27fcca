"""Simplified programs are the same in every process: names order terms, addresses do not."""

import os
import subprocess
import sys
from pathlib import Path

from tensorir import Range, Var, parse, simplify
from tensorir.arith import Analyzer
from tensorir.nodes import expr as e
from tensorir.nodes.buffer import decl_buffer

HERE = Path(__file__).parent


def test_forms_and_hashes_of_random_programs_agree_between_processes():
    printed = []
    for seed in ("1", "2"):
        command = [sys.executable, str(HERE / "print_simplified_programs.py"), seed]
        paths = {"PYTHONPATH": str(HERE.parents[2]), "PYTHONHASHSEED": seed}
        printed.append(
            subprocess.Popen(
                command, env={**os.environ, **paths}, stdout=subprocess.PIPE, text=True
            )
        )
    first, second = [process.communicate()[0].splitlines() for process in printed]
    assert len(first) == 300
    assert first == second


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
