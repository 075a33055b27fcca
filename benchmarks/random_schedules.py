"""Random sequences of schedule primitives, and everything that must hold for them.

A sequence is a list of lines of Python such as `sch.split(loop("C", 1), [None, 3])`. Lines name
blocks and count loops, so a sequence stays meaningful when some of its lines are left out, which is
how a failing one is made small, and a failing sequence is a test as it stands.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import codegen
from benchmarks.fuzz_programs import CALLED, arguments, program
from benchmarks.random_lines import NoOperand, Writer
from schedule import BlockRV, LoopRV, Schedule, ScheduleError, Trace, TraceError
from tensorir import (
    IRModule,
    PrimFunc,
    assert_structural_equal,
    parse,
    verify_well_formed,
)
from tensorir.interp import interpret
from tensorir.nodes.expr import IntImm
from tensorir.nodes.stmt import Block, BlockRealize, For, Stmt
from tensorir.rewriting.visit import children

UNSAFE = ("unsafe_", "annotate_buffer_access", "disable_predication=True")
"""Calls by which a user takes responsibility: their results are not compared."""


class Failure(Exception):
    """Something that must hold does not."""

    def __init__(self, what: str, detail: str) -> None:
        super().__init__(f"{what}: {detail}")
        self.what = what
        self.detail = detail


@dataclass
class Case:
    """A program and the lines applied to it; `accepted` tells which had an effect."""

    name: str
    seed: int
    lines: list[str] = field(default_factory=list)
    accepted: list[bool] = field(default_factory=list)


@cache
def _reference(name: str) -> tuple[PrimFunc, list[NDArray[Any]], list[NDArray[Any]], list[int]]:
    """Return a program, arguments for it, what it makes of them, and what it calls on the way."""
    func = program(name)
    given = arguments(func)
    expected = [array.copy() for array in given]
    called = _calls_of(lambda: interpret(func, *expected))
    return func, given, expected, called


def _calls_of(run: Callable[[], object]) -> list[int]:
    """Return what a library function was called with while something ran, in ascending order."""
    CALLED.clear()
    run()
    return sorted(CALLED)


def prepare(names: Sequence[str]) -> None:
    """Do once what all sequences need: run the programs, load the compiler."""
    for name in names:
        _reference(name)
    codegen.build(program("chain"), "llvm -num-cores=1")


class Session:
    """A schedule to which lines are applied, each one watched.

    `program` is a function, or the name of one of `fuzz_programs`, of which `check` knows what it
    computes.
    """

    def __init__(self, program: str | PrimFunc, seed: int) -> None:
        self._name = program if isinstance(program, str) else None
        self.func = _reference(program)[0] if isinstance(program, str) else program
        debug_mask = "all" if seed % 2 else "none"
        self.sch = Schedule(
            self.func, seed=seed + 1, error_render_level="fast", debug_mask=debug_mask
        )

    def apply(self, line: str) -> bool:
        """Run a line; return whether it was accepted.

        Raises Failure if it is refused otherwise than by ScheduleError, if a refused call changed
        the program or recorded itself, or if the result of an accepted one is not well-formed.
        """
        name, _, argument = line.partition("(")
        if name in _CHANGES:
            return self._replay_changed(_CHANGES[name], int(argument[:-1]))
        sch = self.sch
        before, method = sch.mod, line.partition("(")[0].removeprefix("sch.")

        def block(name: str) -> BlockRV:
            try:
                return sch.get_block(name)
            except ScheduleError:
                raise NoOperand from None

        def loop(name: str, k: int) -> LoopRV:
            try:
                return sch.get_loops(block(name))[k]
            except (ScheduleError, IndexError):
                raise NoOperand from None

        def at(moved: BlockRV) -> None:
            sch.compute_at(moved, sch.sample_compute_location(moved))

        def tensorized(dot: BlockRV) -> None:
            loops = sch.get_loops(dot)
            if len(loops) < 2:
                raise NoOperand
            (outer, lanes), (steps, group) = (
                sch.split(loops[-2], [None, 16]),
                sch.split(loops[-1], [None, 4]),
            )
            sch.reorder(outer, steps, lanes, group)
            sch.tensorize(lanes, "dot_16x4_portable")

        def partitioned(whole: LoopRV, factor: int) -> None:
            sch.split(whole, sch.sample_partitioned_tile(whole, 2, 1, factor))

        names = {"block": block, "loop": loop, "at": at}
        names |= {"tensorized": tensorized, "partitioned": partitioned}
        try:
            eval(line, {"sch": sch, **names})
        except NoOperand:
            return False
        except ScheduleError as error:
            if sch.mod is not before and line.startswith("sch."):
                raise Failure("a refused call changed the program", line) from error
            insts = sch.trace.insts
            if insts and insts[-1].kind.method == method and not insts[-1].kind.is_pure:
                raise Failure("a refused call is in the trace", line) from error
            return False
        except Exception as error:
            raise Failure(
                f"{type(error).__name__} instead of ScheduleError", f"{line}: {error}"
            ) from error
        _holds("the program is not well-formed", lambda: verify_well_formed(sch.mod))
        return True

    def _replay_changed(self, change: Callable[[list[Any], random.Random], Any], seed: int) -> bool:
        """Go on with a replay of the trace in which something is changed.

        What does not make sense any more is refused by ScheduleError, or by TraceError where the
        JSON is malformed.
        """
        data = change(json.loads(json.dumps(self.sch.trace.as_json())), random.Random(seed))
        other = Schedule(IRModule({"main": self.func}), seed=7, error_render_level="fast")
        try:
            Trace.apply_json_to_schedule(data, other)
        except (TraceError, ScheduleError):
            return False
        except Exception as error:
            what = f"{type(error).__name__} from a malformed trace"
            raise Failure(what, f"{json.dumps(data)}: {error}") from error
        self.sch = other
        return True

    def check(self, lines: Sequence[str]) -> None:
        """Check everything that must hold for what was accepted, raising Failure otherwise."""
        sch = self.sch
        whole = "\n".join((*lines, *(line for line in sch.trace.as_python())))
        _holds(
            "its text reads back differently", lambda: _assert_equal(parse(sch.mod.script()), sch)
        )
        _holds("the trace's JSON replays differently", lambda: self._replay_json())
        _holds("the trace's Python text replays differently", lambda: self._replay_text())
        if any(word in whole for word in UNSAFE) or _parameters_moved(self.func, sch.mod["main"]):
            return
        if self._name is None:
            return
        _, given, expected, called = _reference(self._name)
        interpreted = [array.copy() for array in given]
        compiled = [array.copy() for array in given]
        # A block that was moved far in may be computed very often, too often to interpret.
        if instances(sch.mod["main"].body) < 30_000:
            calls: list[int] = []
            _holds(
                "the interpreter fails",
                lambda: calls.extend(_calls_of(lambda: interpret(sch.mod, *interpreted))),
            )
            _holds("other calls are made", lambda: _assert_close([calls], [called]))
            _holds("the interpreter's result differs", lambda: _assert_close(interpreted, expected))
        # Threads are for GPUs, and library functions are not called from parallel loops.
        if ".bind(" in whole or (called and ".parallel(" in whole):
            return

        def run() -> None:
            compiled_module = codegen.build(sch.mod, "llvm -num-cores=2", guard_pages=True)
            calls[:] = _calls_of(lambda: compiled_module["main"](*compiled))

        calls = []
        _holds("machine code fails", run)
        # It ran twice, with guard pages at either end of the arrays.
        _holds("machine code makes other calls", lambda: _assert_close([calls[::2]], [called]))
        _holds("machine code's result differs", lambda: _assert_close(compiled, expected))

    def _replay_json(self) -> None:
        stored = json.dumps(self.sch.trace.as_json())
        replayed = Schedule(IRModule({"main": self.func}), seed=7)
        Trace.from_json(json.loads(stored)).apply_to_schedule(replayed, remove_postproc=False)
        _assert_equal(replayed.mod, self.sch)
        assert json.dumps(replayed.trace.as_json()) == stored

    def _replay_text(self) -> None:
        written = Schedule(IRModule({"main": self.func}), seed=7)
        text = self.sch.trace.script()
        names: dict[str, Any] = {}
        exec(text, names)
        names["apply_trace"](written)
        _assert_equal(written.mod, self.sch)
        assert Trace.from_python(text).as_json() == self.sch.trace.as_json()


def mutated(data: list[Any], rng: random.Random) -> list[Any]:
    """Return the JSON of a trace with an instruction left out or moved, or a value changed."""
    insts, decisions = data
    if not insts:
        return data
    kind = rng.randrange(5)
    if kind == 0:
        del insts[rng.randrange(len(insts))]
    elif kind == 1:
        insts.insert(rng.randrange(len(insts)), insts.pop(rng.randrange(len(insts))))
    elif kind == 2 and decisions:
        entry = rng.choice(decisions)
        entry[1] = _changed(entry[1], rng)
    else:
        inst = rng.choice(insts)
        operands = inst[rng.choice((1, 2, 2))]
        if operands:
            place = rng.randrange(len(operands))
            operands[place] = _changed(operands[place], rng)
    return data


def _changed(value: Any, rng: random.Random) -> Any:
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = rng.randrange(len(value))
        return [*value[:place], _changed(value[place], rng), *value[place + 1 :]]
    if isinstance(value, str) and value[1:].isdigit() and rng.random() < 0.8:
        return f"{value[0]}{max(0, int(value[1:]) + rng.choice((-2, -1, 1, 2)))}"
    return rng.choice((-1, 0, 1, 2, 3, 7, 1 << 40, 1.5, None, "x", "", [], [1, 2], True))


def scrambled(data: Any, rng: random.Random) -> Any:
    """Return JSON in which anything, at any depth, is left out, doubled, swapped or replaced."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = _scrambled_once(data, rng)
    return data


def _scrambled_once(data: Any, rng: random.Random) -> Any:
    if isinstance(data, list) and data and rng.random() < 0.85:
        place = rng.randrange(len(data))
        kind = rng.random()
        if kind < 0.05:
            return data[:place] + data[place + 1 :]
        if kind < 0.1:
            return [*data[: place + 1], *data[place:]]
        if kind < 0.15:
            other = rng.randrange(len(data))
            swapped = list(data)
            swapped[place], swapped[other] = data[other], data[place]
            return swapped
        return [*data[:place], _scrambled_once(data[place], rng), *data[place + 1 :]]
    if isinstance(data, str) and data and rng.random() < 0.6:
        place = rng.randrange(len(data))
        return data[:place] + rng.choice(_PIECES) + data[place + rng.randint(0, 2) :]
    return rng.choice(_JUNK)


_PIECES = (*"\n\0 ()[{\"',0-x\u00e9", "", "", "lambda", "//")
_JUNK: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 1 << 31, 1 << 63, 10**40, -(10**40),
    0.0, 2.5, float("nan"), float("inf"),
    "", "x", "b0", "l1", "v3", "None", "inline", "root", '"', '""', '"b0"', "_", "((((",
    "b0 + 1", "v3 // 0", "1 << 70", "lambda i: i", "lambda i, j: (j, i)", "lambda: ()",
    "lambda i: i // 0", "lambda i: x", "{", "{}", '{"root": 1, "nodes": []}',
    [], [[]], [0], [1, 2], [None], ["b0"], [["l1"]], [[[[[]]]]], {}, {"a": 1}, {"a": {"b": [None]}},
)  # fmt: skip
_CHANGES = {"mutate": mutated, "scramble": scrambled}


def _holds(what: str, check: Callable[[], object]) -> None:
    try:
        check()
    except Exception as error:
        raise Failure(what, f"{type(error).__name__}: {str(error)[:2000]}") from error


def _assert_equal(program: Any, sch: Schedule) -> None:
    assert_structural_equal(program, sch.mod)


def _assert_close(actual: Sequence[Any], expected: Sequence[Any]) -> None:
    # Sums may be taken in another order, and multiplications and additions fused.
    for got, wanted in zip(actual, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=1e-5)


def instances(stmt: Stmt) -> int:
    """Return how often blocks run at most; loops whose extents are not constant count as 8."""
    if isinstance(stmt, For):
        extent = stmt.extent.value if isinstance(stmt.extent, IntImm) else 8
        return extent * instances(stmt.body)
    inner = sum(instances(child) for child in children(stmt) if isinstance(child, (Stmt, Block)))
    return inner + isinstance(stmt, BlockRealize)


def _parameters_moved(before: PrimFunc, after: PrimFunc) -> bool:
    """Whether a buffer of the signature is another one now: its layout may have changed."""
    return any(
        before.buffer_map[a] is not after.buffer_map[b]
        for a, b in zip(before.params, after.params, strict=True)
    )


def run_random(
    name: str, seed: int, length: int, on_line: Callable[[str], None] = lambda line: None
) -> Case:
    """Apply random lines to a program, telling each to `on_line` before; check them all.

    Raises Failure.
    """
    rng = random.Random(f"{name} {seed}")
    session = Session(name, seed)
    case = Case(name, seed)
    writer = Writer(lambda: session.sch, rng)
    for _ in range(length):
        try:
            line = writer.line()
        except NoOperand:
            continue
        on_line(line)
        case.lines.append(line)
        case.accepted.append(session.apply(line))
    session.check([line for line, ok in zip(case.lines, case.accepted, strict=True) if ok])
    return case


def run_lines(name: str, seed: int, lines: Sequence[str]) -> None:
    """Apply given lines to a program and check them; raises Failure."""
    session = Session(name, seed)
    accepted = [line for line in lines if session.apply(line)]
    session.check(accepted)
