"""Results for particular values, and other things that the text of a case cannot say."""

from __future__ import annotations

import ast

import numpy as np

import codegen
from schedule import Schedule
from tensorir import parse
from tensorir.interp import interpret
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import walk
from tests.schedule import cases
from tests.schedule.cases import FOLDER, cases_of, program
from tests.schedule.programs import NARROW_STAGES, SYMBOLIC


def test_pad_einsum_of_a_maximum_of_what_is_minus_infinity():
    text = """\
@T.prim_func
def main(A: T.Buffer((3, 6)), C: T.Buffer((3,))):
    for i, k in T.grid(3, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            C[vi] = T.max(C[vi], A[vi, vk])
"""
    sch = Schedule(parse(text))
    sch.pad_einsum("C", [1, 4])
    a, c = np.full((3, 6), -np.inf, "float32"), np.full(3, -np.inf, "float32")
    interpret(sch.mod, a, c)
    assert np.all(c == -np.inf)


def test_zeros_are_skipped_whatever_they_are_multiplied_with():
    before = parse(program("TRANSPOSED", "skip_neutral_terms"))
    sch = Schedule(before)
    sch.skip_neutral_terms(sch.get_loops("C")[1])
    a, w = np.ones(10, "float32"), np.array([1, np.inf, 2, 4], "float32")
    plain, skipped = np.zeros(16, "float32"), np.zeros(16, "float32")
    codegen.build(before)["main"](a, w, plain)
    codegen.build(sch.mod)["main"](a, w, skipped)
    assert np.isnan(plain).any()
    np.testing.assert_array_equal(skipped, [np.inf, 3] * 8)


def test_unsafe_set_dtype_converts():
    a = np.linspace(-3, 3, 32, dtype="float32").reshape(8, 4)
    for dtype in ("float16", "int8"):
        sch = Schedule(parse(NARROW_STAGES))
        sch.unsafe_set_dtype("B", 0, dtype)
        c = np.zeros((8, 4), "float32")
        interpret(sch.mod, a.copy(), c)
        np.testing.assert_array_equal(c, (a * 2).astype(dtype).astype("float32") + 1)


def test_disable_predication_promises_that_a_symbolic_extent_is_a_multiple():
    sch = Schedule(parse(SYMBOLIC))
    sch.split(sch.get_loops("B")[0], [None, 4], disable_predication=True)
    a, b = np.arange(12, dtype="float32"), np.zeros(12, "float32")
    interpret(sch.mod, a, b, 12)
    np.testing.assert_array_equal(b, a * 2)


def test_views_of_pieces_bind_variables_of_their_own():
    text = """\
@T.prim_func
def main(a: T.handle, C: T.Buffer((8,), "float32")):
    n = T.int32()
    A = T.match_buffer(a, (8, n))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:n])
            T.writes(C[vi])
            V = T.match_buffer(A[vi, 0:n], (1, n), strides=("s", 1), offset_factor=1)
            C[vi] = V[0, n - 1]
"""
    sch = Schedule(parse(text), debug_mask="all")
    sch.loop_partition(sch.get_loops("B")[0], [2])
    views = [v for b in walk(sch.mod["main"].body) if isinstance(b, Block) for v in b.match_buffers]
    assert len({v.buffer.strides[0] for v in views}) == 2
    assert len({v.buffer.shape[1] for v in views}) == 1


def test_buffers_by_index_by_name_and_as_objects():
    texts = set()
    for choose in (lambda b: 0, lambda b: "A", lambda b: b.reads[0].buffer):
        sch = Schedule(parse(program("ADD", "cache_read")))
        block = sch.get_block("B")
        sch.cache_read(block, choose(sch.get(block)), "local")
        texts.add(str(sch.trace))
    assert len(texts) == 1


def test_can_decompose_padding_says_what_the_primitive_does():
    answers = []
    for case in cases_of(FOLDER / "decompose_padding.txt"):
        *others, last = ast.parse(case.calls).body
        call = last.value
        if call.func.id == "decompose_padding" and cases.UNCHECKED not in case.calls:
            sch, calls = cases.started(case)
            calls.run(others)
            call.func.id = "can_decompose_padding"
            run = calls.prepared(last)
            before, length = sch.mod["main"], len(sch.trace.insts)
            answers.append((run(), case.refusal is None))
            assert sch.mod["main"] is before
            assert len(sch.trace.insts) == length
    assert all(asked == done for asked, done in answers)
    assert {asked for asked, _ in answers} == {True, False}
