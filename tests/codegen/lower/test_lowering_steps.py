"""What a program computes stays the same from pass to pass, and in machine code."""

from __future__ import annotations

import numpy as np
import pytest
from recorded import recorded

import codegen
import search as ms
from benchmarks.fuzz import lowering_steps
from benchmarks.fuzz.lowering_steps import (
    Case,
    IllDefined,
    LoweringFault,
    check_lowering,
    first_difference,
)
from benchmarks.fuzz.programs import SIZES, program, program_names
from benchmarks.fuzz.schedules import instances
from tensorir import IRModule, IRTypeError, PrimFunc, parse
from tensorir.nodes.ops import const
from tensorir.nodes.stmt import BufferStore
from tensorir.rewriting.visit import rewrite

SCALE = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] * 3
"""


@pytest.mark.parametrize("name", program_names())
def test_programs_as_they_are_written(name: str) -> None:
    Case(program(name).script(), SIZES, data=1).check()


@pytest.mark.parametrize("name", ["dynamic_matmul", "dynamic_rows"])
@pytest.mark.parametrize("sizes", [{"n": 0, "m": 3}, {"n": 3, "m": 0}, {"n": 1, "m": 1}])
def test_extents_of_zero_and_one(name: str, sizes: dict[str, int]) -> None:
    Case(program(name).script(), sizes).check()


SCHEDULED = ("DIL-0", "GMM-0", "NRM-1", "CBR-0", "TBG-0")


@pytest.mark.parametrize("name", SCHEDULED)
def test_programs_that_auto_scheduling_makes(name: str) -> None:
    context = ms.TuneContext(
        IRModule({"main": program(name)}),
        target="llvm -num-cores=2",
        space_generator="post-order-apply",
        rand_state=1,
    )
    for sch in context.generate_design_space()[-1:]:
        assert all(postproc.apply(sch) for postproc in context.space_generator.postprocs)
        assert not Case(sch.mod["main"].script(), data=1).check().refusal


def small_walks() -> list[str]:
    """Return the recorded programs that are small enough to interpret after each pass."""
    after = [entry["after"] for entry in recorded("walks") if entry["after"]]
    return [text for text in after if instances(parse(text).body) < 1500][::4]


@pytest.mark.parametrize("text", small_walks())
def test_recorded_programs(text: str) -> None:
    assert not Case(text, data=1).check().refusal


# ------------------------------------------------------------------------------- the check itself


def add_one_to_stores(func: PrimFunc) -> PrimFunc:
    """Return a function that stores values greater by one."""

    def greater(node: BufferStore) -> BufferStore:
        return BufferStore(node.buffer, node.value + const(1, node.value.dtype), node.indices)

    return func.with_(body=rewrite(func.body, {BufferStore: greater}))


def crash(func: PrimFunc) -> PrimFunc:
    raise KeyError("lost")


def with_pass(monkeypatch: pytest.MonkeyPatch, place: int, step: object) -> None:
    passes = [*codegen.PASSES[:place], ("broken", step), *codegen.PASSES[place:]]
    monkeypatch.setattr(lowering_steps, "PASSES", passes)


ARRAYS = [np.arange(4, dtype=np.int32), np.zeros(4, np.int32)]


def test_only_functions_are_lowered() -> None:
    for wrong in (IRModule({}), 3):
        with pytest.raises(IRTypeError, match=r'lower takes a PrimFunc, got .*as in mod\["main"\]'):
            codegen.lower(wrong)  # type: ignore[arg-type]


def test_the_passes_that_change_something_are_told() -> None:
    steps = check_lowering(parse(SCALE), ARRAYS)
    assert "remove_blocks" in steps.interpreted
    assert "unroll" not in steps.interpreted
    assert ARRAYS[1].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("place", [0, 8, len(codegen.PASSES)])
def test_a_wrong_pass_is_named(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    with_pass(monkeypatch, place, add_one_to_stores)
    with pytest.raises(LoweringFault, match=r"broken: another result: B\[0\] is 1, expected 0"):
        check_lowering(parse(SCALE), [*map(np.copy, ARRAYS)])


def test_the_program_is_shown_before_and_after_the_wrong_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_pass(monkeypatch, 0, add_one_to_stores)
    with pytest.raises(LoweringFault) as fault:
        check_lowering(parse(SCALE), ARRAYS)
    before, after = str(fault.value).split("after broken:")
    assert "B[vi] = A[vi] * 3\n" in before
    assert "B[vi] = A[vi] * 3 + 1" in after


def test_a_pass_that_raises_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with_pass(monkeypatch, 3, crash)
    with pytest.raises(LoweringFault, match="broken: KeyError: 'lost'"):
        check_lowering(parse(SCALE), ARRAYS)


def test_wrong_machine_code_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    build = codegen.build

    def wrong(program: IRModule, target: object, **options: bool) -> codegen.Module:
        return build(IRModule({"main": add_one_to_stores(program["main"])}), target, **options)

    monkeypatch.setattr(codegen, "build", wrong)
    with pytest.raises(LoweringFault, match="machine code: another result"):
        check_lowering(parse(SCALE), ARRAYS)


def test_a_refusal_is_no_fault() -> None:
    on_gpu = SCALE.replace("range(4)", 'T.thread_binding(4, thread="threadIdx.x")')
    assert "bound to threadIdx.x" in check_lowering(parse(on_gpu), ARRAYS).refusal


def differ(dtype: str, got: list[float], wanted: list[float], rtol: float = 0.0) -> str:
    func = parse(
        f'@T.prim_func\ndef main(A: T.Buffer(({len(got)},), "{dtype}")):\n    T.evaluate(0)'
    )
    arrays = [[np.array(values, dtype)] for values in (got, wanted)]
    return first_difference(func, *arrays, rtol)


def test_floats_are_compared_bit_for_bit_but_nan_with_nan() -> None:
    nan = float("nan")
    assert differ("float32", [nan, 1.0], [-nan, 1.0]) == ""
    assert differ("float32", [0.0, 1.0], [-0.0, 1.0]).startswith("A[0] is ")
    assert differ("float32", [1.0, nan], [1.0, 2.0]).startswith("A[1] is ")
    assert differ("float64", [1.0 + 1e-9], [1.0]).startswith("A[0] is ")
    assert differ("float64", [1.0 + 1e-9], [1.0], rtol=1e-6) == ""


@pytest.mark.parametrize(
    "body",
    [
        "    C = T.alloc_buffer((4,))\n    for i in range(4):\n        B[i] = C[i]",
        "    for i in T.parallel(4):\n        B[0] = T.Cast('float32', i)",
        "    for i in T.vectorized(1, 4):\n        B[i] = B[i - 1] + T.float32(1)",
        "    for i in range(4):\n        B[i] = B[i + 1]",
    ],
    ids=["undefined memory", "writes in any order", "a vector that depends on itself", "outside"],
)
def test_programs_without_one_meaning_are_not_checked(body: str) -> None:
    with pytest.raises(IllDefined):
        Case(f'@T.prim_func\ndef main(B: T.Buffer((4,), "float32")):\n{body}\n').check()


def test_strided_arrays_are_passed_with_their_strides() -> None:
    text = """
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        n, s = T.int32(), T.int32()
        A = T.match_buffer(a, (n, 3), "int32", strides=(s, 2))
        B = T.match_buffer(b, (n, 3), "int32")
        for i, j in T.grid(n, 3):
            B[i, j] = A[i, j] + 1
    """
    Case(text, {"n": 2, "s": 9}).check()
