"""Lowering for GPUs: each text file has functions before and after a pass.

What a function computes is what the interpreter says of it, and of the lowered function, whose
threads run in lock step: no race, no barrier that some threads miss, no shared memory unwritten.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded import recorded
from text_cases import TextCase, each_case

import codegen
from codegen.lower import ADD_LOWER_PASS, passes_for
from codegen.target import Target
from tensorir import IRValueError, parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret
from tensorir.nodes.expr import IntImm
from tensorir.transform import PassContext, PassInstrument, prim_func_pass

HERE = Path(__file__).parent
TARGET = Target("cuda -arch=sm_80")
PASSES = [name for name, _ in passes_for(TARGET)]
SIZE = 37
"""The value of each size that a program has as a parameter."""


def program(case: TextCase) -> PrimFunc:
    func = parse(f"@T.prim_func\ndef main({case.before}\n")
    assert isinstance(func, PrimFunc)
    return func


def body_of(func: PrimFunc) -> str:
    lines = func.script().splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("def ")) + 1
    return "\n".join(line[4:] for line in lines[start:] if "func_attr" not in line)


def arguments_of(func: PrimFunc) -> list[Any]:
    rng = np.random.default_rng(0)
    found: list[Any] = []
    for param in func.params:
        if buffer := func.buffer_map.get(param):
            shape = [n.value if isinstance(n, IntImm) else SIZE for n in buffer.shape]
            found.append(rng.integers(-9, 9, shape).astype(buffer.dtype.to_numpy()))  # type: ignore[call-overload]
        else:
            found.append(SIZE)
    return found


def results(func: PrimFunc) -> list[Any]:
    arguments = arguments_of(func)
    interpret(func, *arguments)
    return arguments


def check_lowered(func: PrimFunc, rtol: float = 0, target: Target = TARGET) -> None:
    for old, new in zip(results(func), results(codegen.lower(func, target)), strict=True):
        np.testing.assert_allclose(new, old, rtol=rtol)


@each_case(HERE / "cases")
def test_passes(case: TextCase, pytestconfig: pytest.Config) -> None:
    """The call is a pass, and a target after `@`; the program before is lowered up to it."""
    func = program(case)
    name, _, kind = case.call.partition(" @ ")
    target = Target(kind) if kind else TARGET
    try:
        after = codegen.lower(func, target, until=name)
    except codegen.CodegenError as error:
        case.check(f"{type(error).__name__}: {error}", pytestconfig)
        return
    case.check(body_of(after), pytestconfig)
    check_lowered(func, target=target)


@each_case(HERE / "programs.txt")
def test_programs(case: TextCase) -> None:
    """The call says how far rounding may go."""
    check_lowered(program(case), rtol=float(case.call))


def test_recorded_programs_are_lowered() -> None:
    """One of each workload, in a pipeline or not."""
    for entry in {entry["workload"][:3]: entry for entry in recorded("gpu_spaces")}.values():
        func = parse(entry["after"])
        lowered = codegen.lower(func, entry["target"], verify=False)
        waits = lowered.script().count("T.tvm_storage_sync")
        stages = re.search(r'software_pipeline_stage": \[0, 0, (\d)\]', entry["after"])
        if stages is not None:
            # In a pipeline, the last uses are outside of the loop, which may have no iterations.
            assert waits - int(stages[1]) in (0, 2)
        else:
            # One barrier before a tile is staged, one before it is used; warps that combine sums have 1.
            assert waits in ((2, 0) if entry["workload"][:3] not in ("NRM", "SFM") else (0, 1))


COPY = """
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            with T.block("B"):
                vi = T.axis.spatial(8, bx * 4 + tx)
                B[vi] = A[vi]
"""


def test_the_passes_of_a_gpu_run_in_the_context() -> None:
    seen: list[str] = []

    class Names(PassInstrument):
        def run_after_pass(self, mod: object, info: Any) -> None:
            seen.append(info.name)

    @prim_func_pass(name="Mark")
    def mark(func: PrimFunc, mod: object, ctx: object) -> PrimFunc:
        return func.with_attr("seen", len(seen))

    added = {ADD_LOWER_PASS: [("place_barriers", mark), (2, mark), (3, mark)]}
    with PassContext(instruments=[Names()], config=added):
        lowered = codegen.lower(parse(COPY), TARGET)
    assert lowered.attrs["seen"] == len(seen) - 1
    assert [name for name in seen if name != "Mark"] == PASSES
    assert seen[seen.index("place_barriers") + 1] == seen[seen.index("unroll") + 1] == "Mark"


def test_a_pass_of_the_other_list_is_unknown() -> None:
    with pytest.raises(
        IRValueError, match="unknown pass 'transpose_tiles'; the passes are check_b"
    ):
        codegen.lower(parse(COPY), TARGET, until="transpose_tiles")


def test_a_cpu_refuses_threads() -> None:
    with pytest.raises(codegen.CodegenError, match="loop bx of function main is bound to block"):
        codegen.lower(parse(COPY), "llvm")
