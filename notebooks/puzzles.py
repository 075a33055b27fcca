"""The twelve puzzles of notebook 07: a program, and what a schedule of it must have.

`show(3)` returns the program of puzzle 3, `check(3, solve)` applies a function to a schedule of it
and says in a sentence what is still missing, and `schedule(3, solve)` returns that schedule, for
`.explore(X86)`. Nothing runs on the machine: programs are interpreted, and compiled for a processor
that need not be there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

import numpy as np

import codegen
from codegen.explanation.explain import Explanation
from codegen.explanation.facts import Access
from codegen.explanation.gpu import GpuExplanation
from codegen.explanation.listing import assembly_listing
from schedule import Schedule
from search.explorer.accesses import block_accesses
from search.explorer.program_view import Parts, program_view
from tensorir import parse, te
from tensorir.errors import TensorIRError
from tensorir.function import PrimFunc
from tensorir.interp import interpret, random_arguments
from tensorir.nodes.expr import IntImm
from tensorir.nodes.stmt import Allocate, BlockRealize, For
from tensorir.rewriting.visit import walk

X86 = "llvm -mcpu=x86-64-v3 -num-cores=1"
"""16 vector registers, each of 8 numbers of 32 bits."""
X86_WITH_DOT = "llvm -mcpu=cascadelake -num-cores=1"
GPU = "opencl"

_ALL = 10**6
"""More iterations than any puzzle has."""


@dataclass(frozen=True)
class Attempt:
    """A scheduled program, and what analyses say about it for a target."""

    sch: Schedule
    target: str

    @property
    def func(self) -> PrimFunc:
        return self.sch.mod["main"]

    @cached_property
    def facts(self) -> Explanation:
        return codegen.explain(self.sch.mod, self.target)

    @cached_property
    def parts(self) -> Parts:
        return Parts(self.func)

    @cached_property
    def allocated(self) -> dict[str, int]:
        """The elements of each buffer that the lowered program allocates."""
        lowered = codegen.lower(self.func, self.target)
        found = [node for node in walk(lowered.body) if isinstance(node, Allocate)]
        return {node.buffer_var.name: prod(map(_number, node.extents)) for node in found}

    @cached_property
    def evaluations(self) -> dict[str, int]:
        """How often each block runs, by its name."""
        counts = block_accesses(self.func, most=_ALL)
        return {
            block.name_hint: len(counts[key][-1]["at"])
            for block in self.parts.blocks
            if (key := self.parts.key(block)) in counts
        }


Requirement: TypeAlias = Callable[[Attempt], str | None]


def _number(extent: object) -> int:
    assert isinstance(extent, IntImm)
    return extent.value


def _first(sentences: Iterable[str]) -> str | None:
    return next(iter(sentences), None)


def _accesses(attempt: Attempt) -> list[Access]:
    """Return the accesses to memory, without those to sums in registers."""
    return [access for access in attempt.facts.accesses if not access.in_register]


def _named(access: Access) -> str:
    return f"the {access.kind} of {access.buffer}"


# ------------------------------------------------------------------------------------- requirements


def a_vectorized_loop(attempt: Attempt) -> str | None:
    """A loop is vectorized by the schedule."""
    if any(loop.mark == "vectorized" for loop in attempt.facts.loops):
        return None
    return "no loop is vectorized by the schedule"


def vectors_of(lanes: int) -> Requirement:
    """Each load and store takes `lanes` neighbouring elements."""

    def check(attempt: Attempt) -> str | None:
        return _first(
            f"{_named(a)} takes {_taken(a)} at a time; {lanes} neighbours are wanted"
            for a in _accesses(attempt)
            if (a.pattern, a.lanes) != ("contiguous", lanes)
        )

    return check


def _taken(access: Access) -> str:
    if access.pattern == "strided":
        return f"{access.lanes} elements that are {access.stride} apart (a gather)"
    if access.pattern == "irregular":
        return f"{access.lanes} elements from anywhere (a gather)"
    return "1 element" if access.lanes == 1 else f"{access.lanes} elements"


def sums_in_registers(buffer: str, vectors: int, lanes: int = 8) -> Requirement:
    """A loop sums into so many vectors in registers, for a buffer or its partial sums."""

    def check(attempt: Attempt) -> str | None:
        found = [s for s in attempt.facts.accumulators if s.buffer.startswith(buffer)]
        if not found:
            return f"nothing sums into {buffer}"
        best = max(found, key=lambda s: (s.home == "registers", s.lanes, s.count))
        if best.home == "registers" and best.lanes >= lanes and best.count >= vectors:
            return None
        kind = "numbers" if best.lanes == 1 else f"vectors of {best.lanes}"
        kept = "one number" if best.lanes * best.count == 1 else f"{best.count} {kind}"
        return (
            f"loop {best.loop} sums into {best.buffer}, {kept} in {best.home}; "
            f"{vectors} vectors of {lanes} in registers are wanted"
        )

    return check


def loads_per_update(most: float) -> Requirement:
    """The innermost loops with sums load at most so often for each multiply-add."""

    def check(attempt: Attempt) -> str | None:
        return _first(
            f"loop {loop.loop} has {loop.loads} loads for {loop.updates} multiply-adds, "
            f"{loop.loads / loop.updates:.2g} each; at most {most:g} are wanted"
            for loop in attempt.facts.inner_loops
            if loop.loads > most * loop.updates
        )

    return check


def streams(attempt: Attempt) -> str | None:
    """Updates read their operands as streams: each iteration starts where the last one ended."""
    loops = {loop.loop for loop in attempt.facts.inner_loops}
    return _first(
        f"{_named(a)} takes {a.lanes * a.times} elements in each iteration of loop {a.loop} and "
        f"moves by {a.step}; a stream moves by what it takes"
        for a in _accesses(attempt)
        if a.kind == "load" and a.lanes > 1 and a.loop in loops and a.step != a.lanes * a.times
    )


def allocates_at_most(elements: int, buffer: str | None = None) -> Requirement:
    """A buffer, or all of them together, keep at most so many elements in memory."""

    def check(attempt: Attempt) -> str | None:
        kept = attempt.allocated
        if buffer is not None:
            kept = {name: size for name, size in kept.items() if name == buffer}
        if sum(kept.values()) <= elements:
            return None
        sizes = " and ".join(f"{name} ({size})" for name, size in kept.items())
        return f"the program allocates elements for {sizes}; at most {elements} are wanted"

    return check


def evaluations_at_most(count: int, block: str) -> Requirement:
    """A block is still there, and runs at most so often."""

    def check(attempt: Attempt) -> str | None:
        runs = attempt.evaluations.get(block)
        if runs is None:
            return f"block {block} is gone; its values are computed again wherever they are read"
        if runs <= count:
            return None
        return f"block {block} runs {runs} times; at most {count} are wanted"

    return check


def a_tile(block: str, runs: int, nbytes: int) -> Requirement:
    """A loop runs a block at least so often, and touches at most so many bytes meanwhile."""

    def check(attempt: Attempt) -> str | None:
        facts = program_view(attempt.func, codegen.Target(attempt.target))["parts"]
        tiles = []
        for stmt, around in attempt.parts.around.items():
            if not isinstance(stmt, BlockRealize) or stmt.block.name_hint not in names:
                continue
            inside = 1
            for loop in reversed([node for node in around if isinstance(node, For)]):
                inside *= _number(loop.extent)
                if inside >= runs:
                    tiles.append((facts[attempt.parts.key(loop)]["bytes"], loop.loop_var.name))
        if not tiles:
            return f"block {block} is gone"
        touched, name = min(tiles)
        if touched <= nbytes:
            return None
        return (
            f"of the loops that run block {block} {runs} times and more, loop {name} touches the "
            f"fewest bytes, {touched:.0f}; at most {nbytes} are wanted"
        )

    names = (block, f"{block}_update")  # without or with a start value of its own
    return check


def instruction(name: str) -> Requirement:
    """The machine code has an instruction."""

    def check(attempt: Attempt) -> str | None:
        lines = assembly_listing(attempt.func, attempt.target)
        if any(name in line.text for line in lines):
            return None
        return f"the machine code has no instruction {name}"

    return check


def good_for_warps(attempt: Attempt) -> str | None:
    """The threads of a warp access neighbours in global memory, and different banks of shared."""
    assert isinstance(attempt.facts, GpuExplanation)
    for access in attempt.facts.gpu_accesses:
        if access.efficiency is not None and access.efficiency < 1:
            return (
                f"the {access.kind} of {access.buffer} uses {access.efficiency:.0%} of the bytes "
                "that a warp moves; neighbouring threads are to access neighbouring elements"
            )
        if access.conflicts is not None and access.conflicts > 1:
            return (
                f"{access.conflicts} threads of a warp want one bank of shared memory for the "
                f"{access.kind} of {access.buffer}; each is to have another bank"
            )
    return None


def primitives_at_most(count: int) -> Requirement:
    """The trace changes the program at most so often; looking up is free."""

    def check(attempt: Attempt) -> str | None:
        used = [i.kind.name for i in attempt.sch.trace.insts if not i.kind.is_pure]
        if len(used) <= count:
            return None
        return f"the schedule has {len(used)} primitives ({', '.join(used)}); {count} are enough"

    return check


# --------------------------------------------------------------------------------------- the result


def the_same_result(program: PrimFunc) -> Requirement:
    """The interpreter computes the same as before; it runs the threads of a GPU in lock step."""

    def check(attempt: Attempt) -> str | None:
        for before, after in zip(program.params, attempt.func.params, strict=True):
            was, now = program.buffer_map[before], attempt.func.buffer_map[after]
            if list(map(str, was.shape)) != list(map(str, now.shape)):
                return (
                    f"the argument {was.name} has become {_size(now.shape)}, but callers have "
                    f"{_size(was.shape)}; change a copy of it (cache_read)"
                )
        expected = random_arguments(program)
        found = [np.copy(array) for array in expected]
        interpret(program, *expected)
        interpret(attempt.sch.mod, *found)
        for param, want, have in zip(program.params, expected, found, strict=True):
            wrong = ~np.isclose(want, have, rtol=1e-4, atol=1e-5)
            if wrong.any():
                name = program.buffer_map[param].name
                return f"{wrong.sum()} of the {wrong.size} elements of {name} differ from before"
        return None

    return check


def _size(shape: Iterable[object]) -> str:
    return " x ".join(map(str, shape))


# ----------------------------------------------------------------------------------------- programs


def _function(*tensors: Any) -> PrimFunc:
    return te.create_prim_func(tensors)


def _copy() -> PrimFunc:
    A = te.placeholder((1024,), name="A")
    return _function(A, te.compute((1024,), lambda i: A[i], name="B"))


_COLUMNS = parse("""
@T.prim_func
def main(A: T.Buffer((64, 64)), B: T.Buffer((64, 64))):
    T.func_attr({"tir.noalias": True})
    for j, i in T.grid(64, 64):
        with T.block("B"):
            vj, vi = T.axis.remap("SS", [j, i])
            B[vi, vj] = A[vi, vj] * T.float32(2)
""")


def _chain() -> PrimFunc:
    A, scale = te.placeholder((32, 64), name="A"), te.placeholder((64,), name="scale")
    scaled = te.compute((32, 64), lambda i, j: A[i, j] * scale[j], name="scaled")
    shifted = te.compute((32, 64), lambda i, j: scaled[i, j] - 1.0, name="shifted")
    relu = te.compute((32, 64), lambda i, j: te.max(shifted[i, j], 0.0), name="relu")
    return _function(A, scale, relu)


def _sum() -> PrimFunc:
    A, k = te.placeholder((1024,), name="A"), te.reduce_axis((0, 1024), name="k")
    return _function(A, te.compute((1,), lambda i: te.sum(A[k], axis=k), name="S"))


def _matmul(n: int, m: int, depth: int) -> PrimFunc:
    A, B = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return _function(A, B, C)


def _blur() -> PrimFunc:
    A = te.placeholder((18, 18), name="A")
    H = te.compute((18, 16), lambda y, x: A[y, x] + A[y, x + 1] + A[y, x + 2], name="H")
    V = te.compute((16, 16), lambda y, x: H[y, x] + H[y + 1, x] + H[y + 2, x], name="V")
    return _function(A, V)


def _bytes_product() -> PrimFunc:
    A, B = te.placeholder((4, 16), "uint8", "A"), te.placeholder((32, 16), "int8", "B")
    k = te.reduce_axis((0, 16), name="k")

    def element(i: Any, j: Any) -> Any:
        return te.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k)

    return _function(A, B, te.compute((4, 32), element, name="C"))


def _transposition() -> PrimFunc:
    A = te.placeholder((64, 64), name="A")
    return _function(A, te.compute((64, 64), lambda i, j: A[j, i], name="B"))


def _attention(n: int = 16, width: int = 4) -> PrimFunc:
    """Return softmax(Q K^T) V, with the maximum and the sum of a row as parts of one reduction.

    Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018.
    """
    Q, K, V = (te.placeholder((n, width), name=name) for name in "QKV")
    k, j = te.reduce_axis((0, width), name="k"), te.reduce_axis((0, n), name="j")
    S = te.compute((n, n), lambda i, j: te.sum(Q[i, k] * K[j, k], axis=k), name="S")

    def joined(x: Any, y: Any) -> Any:
        top = te.max(x[0], y[0])
        a, b = te.exp(x[0] - top), te.exp(y[0] - top)
        return top, x[1] * a + y[1] * b, x[2] * a + y[2] * b

    def nothing(top: Any, total: Any, value: Any) -> Any:
        return te.min_value(top), te.const(0, total), te.const(0, value)

    online = te.comm_reducer(joined, nothing)
    _, total, value = te.compute(
        (n, width), lambda i, c: online((S[i, j], te.const(1.0), V[j, c]), axis=j), name="attend"
    )
    out = te.compute((n, width), lambda i, c: value[i, c] / total[i, c], name="out")
    return _function(Q, K, V, out)


# ------------------------------------------------------------------------------------------ puzzles

Solve = Callable[[Schedule], object]


@dataclass(frozen=True)
class Puzzle:
    """A program, and the requirements to its schedule."""

    title: str
    program: PrimFunc
    requirements: tuple[Requirement, ...]
    target: str = X86


@dataclass(frozen=True)
class Verdict:
    """What a check says; a notebook shows its text."""

    number: int
    missing: str | None
    """What a schedule lacks, in a sentence; None if the puzzle is solved."""

    def __repr__(self) -> str:
        name = f"Puzzle {self.number}, {puzzle(self.number).title}"
        return f"{name}: solved." if self.missing is None else f"{name}: {self.missing}."


def puzzle(number: int) -> Puzzle:
    """Return a puzzle; ValueError for a number other than 1 to 12."""
    if not 1 <= number <= len(PUZZLES):
        raise ValueError(f"there is no puzzle {number}; puzzles are 1 to {len(PUZZLES)}")
    return PUZZLES[number - 1]


def show(number: int) -> PrimFunc:
    """Return the program of a puzzle, which a notebook shows."""
    return puzzle(number).program


def schedule(number: int, solve: Solve = lambda sch: None) -> Schedule:
    """Return a schedule of the program of a puzzle, to which `solve` was applied."""
    sch = Schedule(puzzle(number).program)
    solve(sch)
    return sch


def check(number: int, solve: Solve) -> Verdict:
    """Apply a function to a schedule of a puzzle, and say what is missing, in a sentence."""
    chosen = puzzle(number)
    try:
        attempt = Attempt(schedule(number, solve), chosen.target)
        for requirement in (*chosen.requirements, the_same_result(chosen.program)):
            missing = requirement(attempt)
            if missing is not None:
                return Verdict(number, missing)
    except TensorIRError as error:  # a refused primitive, or a program that cannot be lowered
        return Verdict(number, str(error).split("\n", 1)[0].rstrip("."))
    return Verdict(number, None)


PUZZLES = (
    Puzzle(
        "vectorise a copy",
        _copy(),
        (a_vectorized_loop, vectors_of(8)),
    ),
    Puzzle("walk along the rows", _COLUMNS, (vectors_of(8),)),
    Puzzle("nothing in between", _chain(), (allocates_at_most(0),)),
    Puzzle("a sum that does not wait", _sum(), (sums_in_registers("S", vectors=4),)),
    Puzzle(
        "sums in registers",
        _matmul(16, 32, 16),
        (sums_in_registers("C", vectors=8), loads_per_update(0.75)),
    ),
    Puzzle("a tile for the cache", _matmul(32, 32, 32), (a_tile("C", runs=512, nbytes=768),)),
    Puzzle(
        "a blur in strips", _blur(), (evaluations_at_most(384, "H"), allocates_at_most(96, "H"))
    ),
    Puzzle(
        "a blur that rolls", _blur(), (evaluations_at_most(288, "H"), allocates_at_most(48, "H"))
    ),
    Puzzle(
        "panels",
        _matmul(16, 64, 16),
        (sums_in_registers("C", vectors=8), loads_per_update(0.75), streams),
    ),
    Puzzle("one instruction", _bytes_product(), (instruction("vpdpbusd"),), X86_WITH_DOT),
    Puzzle("a transposition on a GPU", _transposition(), (good_for_warps,), GPU),
    Puzzle(
        "flash attention in four primitives",
        _attention(),
        (primitives_at_most(4), evaluations_at_most(1024, "S"), allocates_at_most(16, "S")),
    ),
)
