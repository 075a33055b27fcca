"""Passes of lowering: each text file has functions, or their bodies, before and after a pass.

A value is the same before and after, as the interpreter says with n = 5, and whole functions are
compiled. `programs.txt` has programs with the sizes of their arguments: each pass and the machine
code keep what they compute.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

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
from tensorir.nodes.expr import IntImm

HERE = Path(__file__).parent
AVX2, AVX512 = "llvm -mcpu=znver3 -num-cores=1", "llvm -mcpu=znver4 -num-cores=1"
OLD, ARM = "llvm -mcpu=x86-64-v2", "llvm -mtriple=aarch64-linux-gnu"
SKYLAKE, TWO_CORES = "llvm -mcpu=skylake-avx512 -num-cores=1", "llvm -mcpu=znver3 -num-cores=2"
PASSES = [name for name, _ in codegen.PASSES]
MATRICES = 'A: T.Buffer((4096,), "float32"), C: T.Buffer((4096,), "float32"), n: T.int32)'
VECTORS = 'A: T.Buffer((64,), "{0}"), B: T.Buffer((64,), "{0}"), n: T.int32)'
TILES = 'A: T.Buffer((256,)), B: T.Buffer((256,)), I: T.Buffer((4,), "int32"), n: T.int32)'
ROWS = 'A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32"), n: T.int32)'
HEADERS = {
    "split_tails": MATRICES,
    "contiguous_accesses": VECTORS,
    "transpose_tiles": TILES,
    "accumulators": ROWS,
    "unmask_tiles": ROWS,
}
NOALIAS = '    T.func_attr({"tir.noalias": True})\n'


def lowered(func: PrimFunc, target: str, name: str) -> PrimFunc:
    """Return a function lowered until a pass, `func` if the pass changes nothing."""
    after = codegen.lower(func, target, until=name)
    before = codegen.lower(func, target, until=PASSES[PASSES.index(name) - 1])
    return func if structural_equal(after, before) else after


def contiguous(func: PrimFunc, target: str) -> PrimFunc:
    with Target(target):
        return contiguous_accesses(func)


def transpose(func: PrimFunc, target: str) -> PrimFunc:
    with Target(target):
        return transpose_tiles(func)


def program(case: TextCase) -> PrimFunc:
    """Return the program of a case: a body, or all that follows `def main(`."""
    text = case.before
    if header := HEADERS.get(case.path.stem):
        dtype = re.search(r"dtype=(\w+)", case.call)
        restrict = case.path.stem != "contiguous_accesses" and "alias" not in case.call
        body = textwrap.indent(text, "    ")
        text = header.replace("{0}", dtype[1] if dtype else "float32")
        text += f":\n{NOALIAS if restrict else ''}{body}"
    func = parse(f"@T.prim_func\ndef main({text}\n")
    assert isinstance(func, PrimFunc)
    return func


def body_of(func: PrimFunc) -> str:
    lines = func.script().splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("def ")) + 1
    return "\n".join(line[4:] for line in lines[start:] if "func_attr" not in line)


def arguments_of(func: PrimFunc) -> list[Any]:
    """Return small numbers for a function; each size is 5."""
    rng = np.random.default_rng(0)
    found: list[Any] = []
    for param in func.params:
        if buffer := func.buffer_map.get(param):
            shape = [n.value if isinstance(n, IntImm) else 5 for n in buffer.shape]
            found.append(rng.integers(0, 4, shape).astype(buffer.dtype.to_numpy()))  # type: ignore[call-overload]
        else:
            found.append(5)
    return found


def results(func: PrimFunc, run: Callable[..., object]) -> list[Any]:
    arguments = arguments_of(func)
    run(*arguments)
    return arguments


STEPS = {"contiguous": contiguous, "transpose": transpose}
TARGETS = {"AVX512": AVX512, "OLD": OLD, "ARM": ARM, "SKYLAKE": SKYLAKE, "TWO_CORES": TWO_CORES}


@each_case(HERE / "cases")
def test_passes(case: TextCase, pytestconfig: pytest.Config) -> None:
    """The call is a pass, and after it: a target, `dtype=...`, or that arguments may `alias`."""
    name, *options = case.call.split()
    func = program(case)
    (target,) = [TARGETS[option] for option in options if option in TARGETS] or [AVX2]
    try:
        if name == "lower":
            after = codegen.lower(func, target)
        elif name in STEPS:
            after = STEPS[name](func, target)
        else:
            after = lowered(func, target, name)
    except codegen.CodegenError as error:
        case.check(f"{type(error).__name__}: {error}", pytestconfig)
        return
    case.check("the same" if after is func else body_of(after), pytestconfig)
    if after is not func:
        expected = results(func, partial(interpret, func))
        runs = [partial(interpret, after)]
        if case.path.stem not in HEADERS:
            runs.append(codegen.build(func)["main"])
        for run in runs:
            for old, new in zip(expected, results(func, run), strict=True):
                np.testing.assert_array_equal(old, new)


@each_case(HERE / "programs.txt")
def test_programs(case: TextCase) -> None:
    sizes = {name: int(n) for name, n in re.findall(r"(\w+)=(-?\d+)", case.call)}
    Case(f"@T.prim_func\ndef main({case.before}\n", sizes, data=1).check()
