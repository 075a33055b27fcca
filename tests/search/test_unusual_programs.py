"""Programs that rules cannot do much with are tuned as far as that goes, or named with a reason."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import search as ms
from schedule import Schedule
from search.errors import TuningError
from search.schedule_rule import MultiLevelTiling, ReuseType
from search.search_strategy.trace_application import TraceApplication
from tensorir import parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret, random_arguments
from tensorir.nodes.stmt import For, ForKind
from tensorir.rewriting.visit import walk
from tests.matmul import matmul

MATMUL = matmul(8, 8, 8)
ELEMENTWISE = """
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i in range(8):
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
"""
UNDER_A_CONDITION = """
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8)), C: T.Buffer((8, 8))):
    for i, j, k in T.grid(8, 8, 8):
        if i < 4:
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
BETWEEN_CONDITIONS = """
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8)), C: T.Buffer((8, 8))):
    for i in range(8):
        if i < 4:
            for j, k in T.grid(8, 8):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
WHILE = """
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
            while B[vi] < T.float32(10):
                B[vi] = B[vi] + T.float32(3)
"""
OPAQUE_AXIS = """
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi = T.axis.opaque(8, i)
            vj = T.axis.spatial(8, j)
            B[vi, vj] = A[vi, vj] + T.float32(1)
"""
SCAN = """
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.scan(8, i)
            T.reads(A[vi], B[0:8])
            T.writes(B[vi])
            B[vi] = A[vi] + T.if_then_else(vi > 0, B[vi - 1], T.float32(0))
"""
OPAQUE_BLOCK = """
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i in range(8):
        with T.block("B"):
            T.reads(A[0:8, 0:8])
            T.writes(B[0:8, 0:8])
            for j in range(8):
                B[i, j] = A[i, j] + T.float32(1)
"""
LAST_ONE_WINS = """
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            T.reads(A[0:8])
            T.writes(B[0])
            B[0] = A[i]
"""
LET_BETWEEN_LOOPS = """
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i in range(8):
        x = T.float32(3)
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * x
"""
EXTERN = """
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8)), C: T.Buffer((8, 8))):
    D = T.alloc_buffer((8, 8))
    for i, j, k in T.grid(8, 8, 8):
        with T.block("D"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                D[vi, vj] = T.float32(0)
            D[vi, vj] = D[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.call_extern("float32", "fabsf", D[vi, vj])
"""
PROGRAMS = {
    "a reduction under a condition": UNDER_A_CONDITION,
    "a condition between the loops": BETWEEN_CONDITIONS,
    "a let between the loops": LET_BETWEEN_LOOPS,
    "a while loop in a block": WHILE,
    "an opaque axis": OPAQUE_AXIS,
    "an opaque block": OPAQUE_BLOCK,
    "a block that overwrites its own result": LAST_ONE_WINS,
    "a scan": SCAN,
    "a loop that starts at 1": MATMUL.replace(
        "    for i, j, k in T.grid(8, 8, 8):",
        "    for i in range(1, 8):\n     for j, k in T.grid(8, 8):",
    ),
    "spatial loops that start at 1": ELEMENTWISE.replace("range(8)", "range(1, 8)"),
    "an annotated loop": ELEMENTWISE.replace(
        "for i in range(8)", 'for i in T.serial(8, annotations={"mine": 1})'
    ),
    "an annotated loop of a reduction": MATMUL.replace(
        "    for i, j, k in T.grid(8, 8, 8):",
        '    for i in T.serial(8, annotations={"mine": 1}):\n     for j, k in T.grid(8, 8):',
    ),
    "no iterations": MATMUL.replace("i, j, k in T.grid(8, 8, 8)", "i, j, k in T.grid(0, 8, 8)"),
    "an unused reduction": MATMUL.replace("T.grid(8, 8, 8)", "T.grid(8, 8, 0)"),
}


def function(text: str) -> PrimFunc:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


def task(text: str, **parts: object) -> ms.TuneContext:
    space = ms.space_generator.PostOrderApply(**parts)  # type: ignore[arg-type]
    return ms.TuneContext(
        function(text),
        target="llvm -num-cores=2",
        space_generator=space,
        search_strategy="replay-trace",
        rand_state=3,
    )


def candidates(text: str) -> list[Schedule]:
    """Return a random candidate of each design space."""
    context = task(text)
    application = TraceApplication(context)
    made = [application.apply(s.trace, resample=True) for s in context.generate_design_space()]
    assert made
    assert application.failure_summary() is None
    return [sch for sch in made if sch is not None]


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_what_rules_cannot_handle_stays(text: str) -> None:
    func = function(text)
    expected = random_arguments(func, 1)
    given = [array.copy() for array in expected]
    interpret(func, *expected)
    for sch in candidates(text):
        actual = [array.copy() for array in given]
        interpret(sch.mod, *actual)
        for got, wanted in zip(actual, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5)


def kinds_of(sch: Schedule) -> set[ForKind]:
    return {node.kind for node in walk(sch.mod["main"].body) if isinstance(node, For)}


def test_loops_whose_order_matters_stay_serial() -> None:
    for text in (SCAN, OPAQUE_BLOCK, LAST_ONE_WINS):
        for sch in candidates(text):
            assert kinds_of(sch) == {ForKind.SERIAL}
    for sch in candidates(OPAQUE_AXIS):
        assert sch.get(sch.get_loops("B")[0]).kind is ForKind.SERIAL


def test_loops_over_updates_in_place_are_tuned() -> None:
    """Each iteration has its own element, also if a loop in the block updates it."""
    assert any(ForKind.VECTORIZED in kinds_of(sch) for sch in candidates(WHILE))


def test_what_can_be_tuned_is_tuned() -> None:
    """The reduction is tiled, whatever becomes of the call."""
    names = [[i.kind.name for i in sch.trace.insts] for sch in candidates(EXTERN)]
    assert all(n.count("SamplePerfectTile") == 3 for n in names)
    assert all("Vectorize" in n for n in names)
    tiled = [[i.kind.name for i in s.trace.insts] for s in candidates(UNDER_A_CONDITION)]
    assert [n.count("SamplePerfectTile") for n in tiled] == [3]


def test_a_write_cache_that_must_be_is_asked_for_in_vain() -> None:
    rule = MultiLevelTiling("SSRSRS", reuse_write=ReuseType("must", (1, 2), "global"))
    context = task(UNDER_A_CONDITION, sch_rules=[rule])
    with pytest.raises(
        TuningError, match="block 'C' cannot have the required write cache at the tile levels"
    ):
        context.generate_design_space()


def test_a_function_without_blocks_is_named(caplog: pytest.LogCaptureFixture) -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in range(8):
        B[i] = A[i]
"""
    logger = logging.getLogger("tensorir.search")
    logger.addHandler(caplog.handler)
    try:
        assert len(task(text).generate_design_space()) == 1
    finally:
        logger.removeHandler(caplog.handler)
    assert "Function 'main' has no block: nothing to schedule" in caplog.text


SYMBOLIC = """
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n, 8))
    B = T.match_buffer(b, (n, 8))
    for i, j in T.grid(n, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
"""
TRIANGLE = """
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8,))):
    for i in range(8):
        for k in range(i + 1):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.reduce(8, k)
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
"""
RAGGED = """
@T.prim_func
def main(A: T.Buffer((8, 8)), L: T.Buffer((8,), "int32"), B: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:8], L[vi])
            T.writes(B[vi])
            B[vi] = T.float32(0)
            for k in range(L[vi]):
                B[vi] = B[vi] + A[vi, k]
"""


def test_a_size_that_is_left_open_is_named_with_a_remedy() -> None:
    context = task(SYMBOLIC)
    application = TraceApplication(context)
    for space in context.generate_design_space():
        assert application.apply(space.trace, resample=True) is None
    said = application.failure_summary()
    assert said is not None
    assert "loop i is not constant: n; fix the sizes with PrimFunc.specialize" in said


@pytest.mark.parametrize("text", [TRIANGLE, RAGGED], ids=["triangle", "ragged"])
def test_loops_whose_extent_the_program_says_stay_as_they_are(text: str) -> None:
    context = task(text)
    application = TraceApplication(context)
    (space,) = context.generate_design_space()
    sch = application.apply(space.trace, resample=True)
    assert sch is not None
    func = parse(text)
    assert isinstance(func, PrimFunc)
    arguments = [np.arange(64, dtype=np.float32).reshape(8, 8), np.zeros(8, np.float32)]
    if text is RAGGED:
        arguments.insert(1, np.arange(8, dtype=np.int32))
    expected = [array.copy() for array in arguments]
    interpret(func, *expected)
    interpret(sch.mod, *arguments)
    np.testing.assert_array_equal(arguments[-1], expected[-1])
