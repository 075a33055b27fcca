"""Lowering of random programs: no pass may change their results.

A case is a random program, or one of `fuzz.programs`, mostly with random tiles or primitives. A
failing program is made small and printed as a test.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import codegen
from benchmarks.forked_runs import Outcome
from benchmarks.fuzz.campaign import Failure, Fuzzer, Note, attempt
from benchmarks.fuzz.lowering_steps import Case, IllDefined
from benchmarks.fuzz.programs import SIZES, program, program_names
from benchmarks.fuzz.random_programs import SYMBOL_VALUES, random_program
from benchmarks.fuzz.schedules import UNSAFE, NoOperand, Session, Writer, instances
from benchmarks.fuzz.shrink_program import shrunk
from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from tensorir import PrimFunc, parse
from tensorir.errors import DiagnosticError
from tensorir.nodes.expr import IterVar

Result = TypeVar("Result")
FACTORS = (2, 3, 3, 4, 4, 5, 7, 8, 16)
MOST_INSTANCES = 1500
"""Programs that run blocks more often than this take too long to interpret after each pass."""
TARGETS = (
    "llvm -num-cores=2",
    "llvm -num-cores=1",
    "llvm -mcpu=skylake-avx512",
    "llvm -mcpu=haswell",
    "llvm -mcpu=x86-64",
)


def random_case(seed: int) -> Case:
    """Return the case of a seed.

    Raises DiagnosticError for a text that is refused as it is read, for example because a constant
    divisor is 0, and Failure for a primitive that fails.
    """
    rng = random.Random(seed)
    if rng.random() < 0.25:
        func = program(rng.choice(program_names()))
        if rng.random() < 0.5:
            func = tiled(func, rng)
        case = Case(func.script(), {name: rng.choice(SYMBOL_VALUES) for name in SIZES}, seed)
    else:
        made = random_program(seed)
        case = Case(made.text, made.sizes, seed)
    if rng.random() < 0.5:
        case = replace(case, text=scheduled(case.text, rng))
    case.module()
    target = rng.choice(TARGETS)
    if "avx512" in target and "avx512f" not in codegen.Target("llvm").features:
        target = "llvm"
    return replace(case, target=target)


def scheduled(text: str, rng: random.Random) -> str:
    """Apply random primitives to a program; a module of several functions stays unchanged."""
    func = parse(text)
    if not isinstance(func, PrimFunc):
        return text
    session = Session(func, rng.randrange(1 << 30))
    writer = Writer(lambda: session.sch, rng)
    left_out = (*UNSAFE, ".bind(", "changed(")
    for _ in range(rng.randint(1, 10)):
        try:
            line = writer.line()
        except NoOperand:
            continue
        if not any(word in line for word in left_out):
            session.apply(line)
    return session.sch.mod.prim_func("main").script()


# ------------------------------------------------------------------------------ random tiles


def tiled(func: PrimFunc, rng: random.Random) -> PrimFunc:
    """Return a program in which one or several blocks have random tiles, as a search makes them.

    The loops have several levels, most of which divide nothing: the reduction is inside, then
    unrolled rows and lanes; the init may be apart, and the result in a buffer of the tile.
    """
    sch = Schedule(func, seed=rng.randrange(1 << 30))
    blocks = sch.get_child_blocks(sch.get_block("root"))
    for block in rng.sample(blocks, rng.randint(1, len(blocks))):
        _tile(sch, block, rng)
    return sch.mod.prim_func("main")


def _tile(sch: Schedule, block: BlockRV, rng: random.Random) -> None:
    loops, axes = sch.get_loops(block), sch.get(block).iter_vars
    spatial = [k for k, axis in enumerate(axes) if axis.iter_type != IterVar.COMM_REDUCE]
    if len(axes) != len(loops) or not spatial:
        return
    written = None
    if rng.random() < 0.3:
        written = _attempt(lambda: sch.cache_write(block, 0, "local"))
    outer: list[LoopRV] = []
    steps: list[LoopRV] = []
    tile: list[LoopRV] = []

    def parts(loop: LoopRV, levels: int) -> list[LoopRV]:
        factors = [None, *rng.choices(FACTORS, k=levels)]
        return list(sch.split(loop, factors)) if levels else [loop]

    for k, loop in enumerate(loops):
        if k not in spatial:
            steps += parts(loop, rng.choice([0, 0, 1]))
        elif k == spatial[-1]:
            levels = rng.choice([1, 2, 2, 3])
            *others, lanes = parts(loop, levels)
            outer += others if levels == 1 else others[:-1]
            tile += [] if levels == 1 else others[-1:]
        else:
            first, *rest = parts(loop, rng.choice([0, 1, 1, 2]))
            outer += [first, *rest[:-1]]
            tile += rest[-1:]
    _attempt(lambda: sch.reorder(*outer, *steps, *tile, lanes))
    for loop in [*tile, *steps[1:]]:
        if loop in tile or rng.random() < 0.3:
            _attempt(lambda loop=loop: sch.unroll(loop))
    _attempt(lambda: sch.vectorize(lanes))
    if written is not None:
        _attempt(lambda: sch.reverse_compute_at(written, rng.choice(outer)))
    if steps and rng.random() < 0.7:
        _attempt(lambda: sch.decompose_reduction(block, steps[0]))
    if len(outer) > 1 and rng.random() < 0.3:
        fused = _attempt(lambda: sch.fuse(*outer[:2]))
        outer = [fused] if fused is not None else outer
    if rng.random() < 0.3:
        _attempt(lambda: sch.parallel(outer[0]))


def _attempt(call: Callable[[], Result]) -> Result | None:
    """Return the result of a primitive, None if it is refused."""
    try:
        return call()
    except ScheduleError:
        return None


# --------------------------------------------------------------------------------- the fuzzer


class Lowering(Fuzzer):
    """Programs that are interpreted after every pass, and run as machine code."""

    time_limit = 30.0

    def prepare(self) -> None:
        codegen.build(program("chain"), "llvm -num-cores=1")  # loads the compiler

    def check(self, case: int, note: Note) -> Mapping[str, int]:
        try:
            made = random_case(case)
        except (DiagnosticError, Failure) as error:
            return {f"not made: {type(error).__name__}": 1}
        return self._checked(made)

    def _checked(self, made: Case) -> Mapping[str, int]:
        if instances(made.module().prim_func("main").body) > MOST_INSTANCES:
            return {"too long": 1}
        try:
            steps = made.check()
        except IllDefined:
            return {"ill-defined": 1}
        return {"passes": len(steps.interpreted), "refused": bool(steps.refusal)}

    def described(self, case: int, outcome: Outcome, lines: Sequence[str]) -> str:
        def fails(tried: Case) -> bool:
            return attempt(lambda _: self._checked(tried), 30.0)[0].what == outcome.what

        small = shrunk(random_case(case), fails)
        body = "".join(f"    {line}\n" if line else "\n" for line in small.text.splitlines())
        return (
            f'Case(\n    """\n{body}    """,\n    sizes={dict(small.sizes)!r},\n'
            f"    data={small.data},\n    target={small.target!r},\n).check()"
        )
