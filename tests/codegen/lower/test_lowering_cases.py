"""Passes of lowering: each text file has the bodies of functions before and after a pass.

A value is the same before and after, as the interpreter says with n = 5. `programs.txt` has whole
programs, with the sizes of their arguments: each pass and the machine code keep what they compute.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from text_cases import TextCase, each_case

import codegen
from benchmarks.fuzz.lowering_steps import Case
from codegen.lower.contiguous_accesses import contiguous_accesses
from codegen.lower.transpose_tiles import transpose_tiles
from codegen.target import Target
from tensorir import parse, structural_equal
from tensorir.function import PrimFunc
from tensorir.interp import interpret

HERE = Path(__file__).parent
AVX2, AVX512 = "llvm -mcpu=znver3 -num-cores=1", "llvm -mcpu=znver4 -num-cores=1"
OLD, ARM = "llvm -mcpu=x86-64-v2", "llvm -mtriple=aarch64-linux-gnu"
MATRICES = '(A: T.Buffer((4096,), "float32"), C: T.Buffer((4096,), "float32"), n: T.int32)'
VECTORS = '(A: T.Buffer((64,), "{0}"), B: T.Buffer((64,), "{0}"), n: T.int32)'
TILES = '(A: T.Buffer((256,)), B: T.Buffer((256,)), I: T.Buffer((4,), "int32"), n: T.int32)'
ROWS = '(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32"), n: T.int32)'
HEADERS = {
    "split_tails": MATRICES,
    "contiguous_accesses": VECTORS,
    "transpose_tiles": TILES,
    "accumulators": ROWS,
    "unmask_tiles": ROWS,
}
NOALIAS = '    T.func_attr({"tir.noalias": True})\n'


def lowered(func: PrimFunc, target: str, name: str, before: str) -> PrimFunc:
    """Return a function lowered until a pass, `func` if the pass changes nothing."""
    after = codegen.lower(func, target, until=name)
    is_same = structural_equal(after, codegen.lower(func, target, until=before))
    return func if is_same else after


def contiguous(func: PrimFunc, target: str = AVX2) -> PrimFunc:
    with Target(target):
        return contiguous_accesses(func)


def transpose(func: PrimFunc, target: str = AVX2) -> PrimFunc:
    with Target(target):
        return transpose_tiles(func)


def program(case: TextCase) -> PrimFunc:
    dtype = re.search(r"dtype=(\w+)", case.call)
    attributes = (
        NOALIAS if case.path.stem != "contiguous_accesses" and "alias" not in case.call else ""
    )
    header = HEADERS[case.path.stem].replace("{0}", dtype[1] if dtype else "float32")
    body = "".join(f"    {line}\n" for line in case.before.splitlines())
    func = parse(f"@T.prim_func\ndef main{header}:\n{attributes}{body}")
    assert isinstance(func, PrimFunc)
    return func


def body_of(func: PrimFunc) -> str:
    lines = func.script().splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("def ")) + 1
    return "\n".join(line[4:] for line in lines[start:] if "func_attr" not in line)


def results(func: PrimFunc) -> list[np.ndarray]:  # type: ignore[type-arg]
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(0, 4, [int(n) for n in buffer.shape]).astype(buffer.dtype.to_numpy())  # type: ignore[call-overload]
        for buffer in func.buffer_map.values()
    ]
    interpret(func, *arrays, 5)
    return arrays


STEPS: dict[str, Callable[..., PrimFunc]] = {
    "split_tails": lambda func: lowered(
        func, "llvm -mcpu=skylake-avx512 -num-cores=1", "split_tails", "mark_unrolled"
    ),
    "accumulators": lambda func: lowered(func, AVX2, "promote_accumulators", "unmask_tiles"),
    "unmask": lambda func: lowered(func, AVX2, "unmask_tiles", "unroll"),
    "contiguous": contiguous,
    "transpose": transpose,
}


@each_case(HERE / "cases")
def test_passes(case: TextCase, pytestconfig: pytest.Config) -> None:
    """The call is a step, and after it: a target, `dtype=...`, or that arguments may `alias`."""
    name, *options = case.call.split()
    func = program(case)
    targets = {"AVX512": AVX512, "OLD": OLD, "ARM": ARM}
    given = [targets[option] for option in options if option in targets]
    after = STEPS[name](func, *given)
    case.check("the same" if after is func else body_of(after), pytestconfig)
    if after is not func:
        for old, new in zip(results(func), results(after), strict=True):
            np.testing.assert_array_equal(old, new)


@each_case(HERE / "programs.txt")
def test_programs(case: TextCase) -> None:
    sizes = {name: int(n) for name, n in re.findall(r"(\w+)=(-?\d+)", case.call)}
    Case(f"@T.prim_func\ndef main({case.before}\n", sizes, data=1).check()
