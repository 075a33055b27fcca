"""Random sequences of schedule primitives, and everything that must hold for them.

A sequence is a list of lines of Python such as `sch.split(loop("C", 1), [None, 3])`. Lines name
blocks and count loops, so a sequence keeps its meaning when some of its lines are left out, which
is how a failing one is made small, and a failing sequence is a test as it stands.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import codegen
from benchmarks.forked_runs import Outcome
from benchmarks.fuzz.campaign import Failure, Fuzzer, Note, attempt, shortest
from benchmarks.fuzz.programs import CALLED, arguments, program, program_names
from schedule import BlockRV, LoopRV, Schedule, ScheduleError, Trace, TraceError
from schedule.sref import loops_above
from tensorir import IRModule, PrimFunc, assert_structural_equal, parse, verify_well_formed
from tensorir.interp import interpret
from tensorir.nodes.expr import IntImm
from tensorir.nodes.stmt import Block, BlockRealize, For, Stmt
from tensorir.rewriting.visit import children, walk

MOST_LINES = 14
UNSAFE = ("unsafe_", "annotate_buffer_access", "disable_predication=True")
"""Calls that trust their user: the results after them are not compared."""

# -------------------------------------------------------------------------------- random lines

CHOICES: Mapping[str, tuple[object, ...]] = {
    "position": (0, 0, 0, 0, 1, 1, 1, 2, -1),
    "scope": (*['"global"'] * 20, *['"local"'] * 10, '"nowhere"'),
    "index_map": (
        "lambda i: (i // 3, i % 3)",
        "lambda i: i + 1",
        "lambda i, j: (j, i)",
        "lambda i, j: (i // 2, j, i % 2)",
        "lambda i, j: i * 7 + j",
        "lambda i, j: (i,)",
        "lambda i, j, k: (k, i * 8 + j)",
        "lambda *a: a[::-1]",
        "lambda *a: (*a[:-1], *(x // 4 for x in a[-1:]), *(x % 4 for x in a[-1:]))",
        "lambda *a: (*a[1:], *a[:1])",
        "lambda *a: (*(x * 2 for x in a[:1]), *a[1:])",
    ),
    "buffer": ("('read', 0)", "('read', 1)", "('read', -1)", "('write', 0)", "('write', 1)"),
    "flag": (True, False),
    "index": (-1, -1, -2, 0, 0, 1, 2),
    "few": (0, 1, 2, 2, 3, 4),
    "value": ("1", "2.0", "2.5", "'x'", "[1, 2]", "True", "{'a': 1}"),
    "intrin": ("'dot_16x4_portable'", "'nothing'"),
    "pad_value": ("None", "0.0", "3"),
    "separators": ("[1]", "[]", "[9]"),
    "query": ("get_producers", "get_consumers", "get_output_blocks", "get_child_blocks"),
}
"""The operands of each kind; one is chosen."""

LINES: tuple[tuple[float, str], ...] = (
    (4, "sch.split({loop}, {factors}, preserve_unit_iters={flag})"),
    (0.3, "partitioned({loop}, {few})"),
    (2, "sch.fuse({loops}, preserve_unit_iters={flag})"),
    (3, "sch.reorder({loops})"),
    (0.7, "sch.reorder_by({order_knob})"),
    (0.7, "sch.mark_loops({mark_knob})"),
    (0.7, "sch.merge({loop}, {loop})"),
    (1, "sch.loop_partition({loop}, [{few}, None])"),
    (0.5, "sch.reorder_block_iter_var({block}, {permutation})"),
    (0.7, "sch.add_unit_loop({target})"),
    (1, "sch.parallel({loop})"),
    (1, "sch.vectorize({loop})"),
    (1, "sch.unroll({loop})"),
    (0.1, "sch.bind({loop}, 'threadIdx.x')"),
    (0.5, "sch.annotate({target}, 'note', {value})"),
    (0.2, "sch.unannotate({target}, 'note')"),
    (2, "sch.cache_read({block}, {position}, {scope})"),
    (0.5, "sch.cache_read({block}, {position}, {scope}, {siblings})"),
    (2, "sch.cache_write({block}, {position}, {scope})"),
    (0.5, "sch.cache_inplace({block}, {position}, {scope})"),
    (0.5, "sch.cache_index({block}, {scope}, {few})"),
    (1, "sch.reindex({block}, {buffer})"),
    (0.7, "sch.reindex_cache_read({block}, {position}, {scope}, {index_map})"),
    (0.7, "sch.reindex_cache_write({block}, {position}, {scope}, {index_map})"),
    (0.7, "sch.read_at({loop}, {block}, {position}, {scope})"),
    (0.7, "sch.write_at({loop}, {block}, {position}, {scope})"),
    (2.5, "sch.compute_at({block}, {loop}, {flag}, {index})"),
    (2.5, "sch.reverse_compute_at({block}, {loop}, {flag}, {index})"),
    (1, "at({block})"),
    (1, "sch.compute_inline({block})"),
    (1, "sch.reverse_compute_inline({block})"),
    (1.5, "sch.decompose_reduction({block}, {loop})"),
    (1.5, "sch.rfactor({loop}, {index})"),
    (0.5, "sch.offset_factor({block}, 0, 'uint8')"),
    (0.3, "sch.storage_align({block}, {position}, -1, {few}, 1)"),
    (0.3, "sch.set_scope({block}, {position}, {scope})"),
    (0.1, "sch.unsafe_set_dtype({block}, 0, 'float16')"),
    (0.05, "sch.unsafe_hide_buffer_access({block}, 'read', [{position}])"),
    (
        0.05,
        "sch.annotate_buffer_access("
        "{block}, {position}, 'read', lambda *a: [(x, x + 1) for x in a])",
    ),
    (1, "sch.blockize({loop}, preserve_unit_iters={flag})"),
    (0.4, "sch.blockize({siblings})"),
    (0.3, "sch.tensorize({loop}, {intrin})"),
    (0.4, "tensorized({block})"),
    (1.5, "sch.transform_layout({block}, {buffer}, {index_map}, pad_value={pad_value})"),
    (1, "sch.transform_block_layout({block}, {index_map})"),
    (0.2, "sch.set_axis_separator({block}, {buffer}, {separators})"),
    (1, "sch.decompose_padding({block}, {loop})"),
    (0.7, "sch.pad_einsum({block}, {paddings})"),
    (0.3, "sch.skip_neutral_terms({loop})"),
    (0.7, "sch.rolling_buffer({block}, {position})"),
    (0.3, "sch.{query}({block})"),
    (0.6, "changed({number})"),
)
"""The weight and the form of each kind of line.

The names in braces are methods of `Writer` or keys of `CHOICES`, replaced at each occurrence.
"""


class NoOperand(Exception):
    """A line names a block or a loop that the program lacks; the line is skipped."""


class Writer:
    """Writes random lines for the present state of a schedule."""

    def __init__(self, current: Callable[[], Schedule], rng: random.Random) -> None:
        self._current = current
        self._rng = rng

    def line(self) -> str:
        """Return a call of a random primitive; raises NoOperand without operands for it."""
        (form,) = self._rng.choices([f for _, f in LINES], [weight for weight, _ in LINES])
        return form.format_map(self)

    def __getitem__(self, name: str) -> str:
        """Return an operand of the kind that a form names."""
        if name in CHOICES:
            return str(self._rng.choice(CHOICES[name]))
        return str(getattr(self, name)())

    def _names(self) -> list[str]:
        found = [n for n in walk(self._current().mod["main"].body) if isinstance(n, Block)]
        names = [block.name_hint for block in found[self._rng.random() >= 0.05 :]]
        if not names:
            raise NoOperand
        return names

    def _block_of_loops(self) -> tuple[str, int]:
        """Return a block and the number of loops around it."""
        name = self._rng.choice(self._names())
        found = [s for s in self._current().state.blocks("main") if s.block.name_hint == name]
        depth = len(loops_above(found[0])) if len(found) == 1 else 0
        if not depth:
            raise NoOperand
        return name, depth

    def block(self) -> str:
        return f"block({self._rng.choice(self._names())!r})"

    def loop(self) -> str:
        name, depth = self._block_of_loops()
        return f"loop({name!r}, {self._rng.randrange(depth)})"

    def loops(self) -> str:
        """Return several loops around one block: neighbours, or in any order."""
        name, depth = self._block_of_loops()
        numbers = list(range(depth))
        if self._rng.random() < 0.5:
            first = self._rng.randrange(depth)
            numbers = numbers[first : first + self._rng.choice((2, 2, 3))]
        else:
            numbers = self._rng.sample(numbers, self._rng.randint(1, depth))
        return ", ".join(f"loop({name!r}, {k})" for k in numbers)

    def target(self) -> str:
        """Return a block or a loop."""
        return self.block() if self._rng.random() < 0.5 else self.loop()

    def siblings(self) -> str:
        """Return a list of blocks."""
        names = self._names()
        first = self._rng.randrange(len(names))
        chosen = names[first : first + self._rng.choice((1, 2, 2, 3))]
        return f"[{', '.join(f'block({name!r})' for name in chosen)}]"

    def factors(self) -> str:
        """Return factors of a split."""
        rng, kind = self._rng, self._rng.random()
        if kind < 0.3:
            return f"sch.sample_perfect_tile({self.loop()}, {rng.choice((2, 3))})"
        if kind < 0.4:
            extent = rng.choice((4, 7, 12, 16))
            return f"sch.sample_knob_split('tile', {extent}, 3, 'verbose', no_tail=False)"
        numbers = rng.choices((1, 2, 3, 4, 5, 8), k=rng.choice((1, 1, 2)))
        some: list[int | None] = [None, *numbers]
        rng.shuffle(some)
        if rng.random() < 0.03:
            some[0] = rng.choice((0, -1, None))
        return repr(some)

    def number(self) -> int:
        return self._rng.randrange(1 << 20)

    def paddings(self) -> str:
        """Return a padding for each of few axes."""
        return str(self._rng.choices((1, 1, 2, 4, 5), k=self._rng.choice((1, 2, 3, 3, 4, 5))))

    def permutation(self) -> str:
        """Return an order of few axes."""
        count = self._rng.choice((1, 2, 3, 4))
        return str(self._rng.sample(range(count), count))

    def order_knob(self) -> str:
        """Return several loops in a list, and a sampled order of them."""
        loops = self.loops()
        return f"[{loops}], sch.sample_knob_reorder('order', {loops.count('loop(')})"

    def mark_knob(self) -> str:
        """Return several loops in a list, and sampled marks of them."""
        loops = self.loops()
        count = loops.count("loop(")
        return f"[{loops}], sch.sample_knob_annotate('marks', {count}, 'try_unroll_vec')"


def operands(sch: Schedule) -> dict[str, Callable[..., Any]]:
    """Return the functions that lines call, next to the methods of `sch`."""

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
        outer, lanes = sch.split(loops[-2], [None, 16])
        steps, group = sch.split(loops[-1], [None, 4])
        sch.reorder(outer, steps, lanes, group)
        sch.tensorize(lanes, "dot_16x4_portable")

    def partitioned(whole: LoopRV, factor: int) -> None:
        sch.split(whole, sch.sample_partitioned_tile(whole, 2, 1, factor))

    return {
        "block": block, "loop": loop, "at": at, "tensorized": tensorized,
        "partitioned": partitioned,
    }  # fmt: skip


# ----------------------------------------------------------------------------- changed traces

_PIECES = (*"\n\0 ()[{\"',0-x\u00e9", "", "", "lambda", "//")
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 1 << 31, 1 << 40, 1 << 63, 10**40, -(10**40),
    0.0, 1.5, float("nan"), float("inf"),
    "", "x", "b0", "l1", "v3", "None", "inline", "root", '"', '""', '"b0"', "_", "((((",
    "b0 + 1", "v3 // 0", "1 << 70", "lambda i: i", "lambda i, j: (j, i)", "lambda: ()",
    "lambda i: i // 0", "lambda i: x", "{", "{}", '{"root": 1, "nodes": []}',
    [], [[]], [0], [1, 2], [None], ["b0"], [["l1"]], [[[[[]]]]], {}, {"a": 1}, {"a": {"b": [None]}},
)  # fmt: skip


def changed(data: Any, rng: random.Random) -> Any:
    """Return the JSON of a trace with parts left out, repeated, swapped or replaced, at any depth.

    References to other instructions mostly become references to neighbours of these.
    """
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = _changed_once(data, rng)
    return data


def _changed_once(data: Any, rng: random.Random) -> Any:
    if isinstance(data, list) and data and rng.random() < 0.85:
        place, kind = rng.randrange(len(data)), rng.random()
        if kind < 0.06:
            return data[:place] + data[place + 1 :]
        if kind < 0.1:
            return [*data[: place + 1], *data[place:]]
        if kind < 0.18:
            other, swapped = rng.randrange(len(data)), list(data)
            swapped[place], swapped[other] = data[other], data[place]
            return swapped
        return [*data[:place], _changed_once(data[place], rng), *data[place + 1 :]]
    if isinstance(data, str) and data[1:].isdigit() and rng.random() < 0.5:
        return f"{data[0]}{max(0, int(data[1:]) + rng.choice((-2, -1, 1, 2)))}"
    if isinstance(data, str) and data and rng.random() < 0.5:
        place = rng.randrange(len(data))
        return data[:place] + rng.choice(_PIECES) + data[place + rng.randint(0, 2) :]
    return rng.choice(_VALUES)


# -------------------------------------------------------------------------------- the checks


@dataclass(frozen=True)
class Expected:
    """A program, arguments for it, their contents after a run, and the calls that it made."""

    func: PrimFunc
    arguments: list[NDArray[Any]]
    results: list[NDArray[Any]]
    called: list[int]


@cache
def _expected(name: str) -> Expected:
    func = program(name)
    given = arguments(func)
    results = [array.copy() for array in given]
    return Expected(func, given, results, _calls_of(lambda: interpret(func, *results)))


def _calls_of(run: Callable[[], object]) -> list[int]:
    """Return the arguments of the library function during a run, in ascending order."""
    CALLED.clear()
    run()
    return sorted(CALLED)


class Session:
    """A schedule to which lines are applied, each one watched.

    `program` is a function, or the name of a program of `fuzz.programs`, whose results are known.
    """

    def __init__(self, program: str | PrimFunc, seed: int) -> None:
        self._expected = _expected(program) if isinstance(program, str) else None
        self.func = program if isinstance(program, PrimFunc) else _expected(program).func
        debug_mask = "all" if seed % 2 else "none"
        self.sch = Schedule(
            self.func, seed=seed + 1, error_render_level="fast", debug_mask=debug_mask
        )

    def apply(self, line: str) -> bool:
        """Run a line; return whether it was accepted.

        Raises Failure for an error other than ScheduleError, for a refused call that changed the
        program or recorded itself, and for an accepted call whose result is not well-formed.
        """
        if line.startswith("changed("):
            return self._replay_changed(int(line[len("changed(") : -1]))
        sch = self.sch
        before, method = sch.mod, line.partition("(")[0].removeprefix("sch.")
        try:
            eval(line, {"sch": sch, **operands(sch)})
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

    def _replay_changed(self, seed: int) -> bool:
        """Continue with a replay of a changed trace.

        A replay that fails must raise ScheduleError, or TraceError where the JSON is malformed.
        """
        data = changed(json.loads(json.dumps(self.sch.trace.as_json())), random.Random(seed))
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
        """Check everything that must hold after the accepted lines; raises Failure."""
        sch, known = self.sch, self._expected
        whole = "\n".join((*lines, *(line for line in sch.trace.as_python())))
        _holds(
            "its text reads back differently",
            lambda: assert_structural_equal(parse(sch.mod.script()), sch.mod),
        )
        _holds("the trace's JSON replays differently", self._replay_json)
        _holds("the trace's Python text replays differently", self._replay_text)
        moved = _parameters_moved(self.func, sch.mod["main"])
        if known is None or moved or any(word in whole for word in UNSAFE):
            return
        interpreted = [array.copy() for array in known.arguments]
        compiled = [array.copy() for array in known.arguments]
        calls: list[int] = []

        def compare(kind: str, run: Callable[[], object], results: Sequence[Any]) -> None:
            _holds(f"{kind} fails", lambda: calls.__setitem__(slice(None), _calls_of(run)))
            _holds(f"{kind} makes other calls", lambda: _assert_close([calls], [known.called]))
            _holds(f"the result of {kind} differs", lambda: _assert_close(results, known.results))

        # A block that was moved far in may be computed very often, too often to interpret.
        if instances(sch.mod["main"].body) < 30_000:
            compare("the interpreter", lambda: interpret(sch.mod, *interpreted), interpreted)
        # Threads are for GPUs, and library functions are not called from parallel loops.
        if ".bind(" in whole or (known.called and ".parallel(" in whole):
            return

        def run_compiled() -> None:
            module = codegen.build(sch.mod, "llvm -num-cores=2", guard_pages=True)
            CALLED.clear()
            module["main"](*compiled)
            # It ran twice, with guard pages at either end of the arrays.
            CALLED[:] = sorted(CALLED)[::2]

        compare("machine code", run_compiled, compiled)

    def _replay_json(self) -> None:
        stored = json.dumps(self.sch.trace.as_json())
        replayed = Schedule(IRModule({"main": self.func}), seed=7)
        Trace.from_json(json.loads(stored)).apply_to_schedule(replayed, remove_postproc=False)
        assert_structural_equal(replayed.mod, self.sch.mod)
        assert json.dumps(replayed.trace.as_json()) == stored

    def _replay_text(self) -> None:
        written = Schedule(IRModule({"main": self.func}), seed=7)
        text = self.sch.trace.script()
        names: dict[str, Any] = {}
        exec(text, names)
        names["apply_trace"](written)
        assert_structural_equal(written.mod, self.sch.mod)
        assert Trace.from_python(text).as_json() == self.sch.trace.as_json()


def _holds(what: str, check: Callable[[], object]) -> None:
    try:
        check()
    except Exception as error:
        raise Failure(what, f"{type(error).__name__}: {str(error)[:2000]}") from error


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
    """Return True if a buffer of the signature was replaced: its layout may have changed."""
    return any(
        before.buffer_map[a] is not after.buffer_map[b]
        for a, b in zip(before.params, after.params, strict=True)
    )


@dataclass
class Applied:
    """Lines that were applied to a program; `accepted` has a flag for each."""

    lines: list[str] = field(default_factory=list)
    accepted: list[bool] = field(default_factory=list)


def random_lines(session: Session, rng: random.Random, length: int, note: Note) -> Applied:
    """Apply random lines, each noted before; Failure as for `Session.apply`."""
    writer, done = Writer(lambda: session.sch, rng), Applied()
    for _ in range(length):
        try:
            line = writer.line()
        except NoOperand:
            continue
        note(line)
        done.lines.append(line)
        done.accepted.append(session.apply(line))
    return done


def run_random(name: str, seed: int, length: int, note: Note = lambda line: None) -> Applied:
    """Apply random lines to a program and check them all; raises Failure."""
    session = Session(name, seed)
    done = random_lines(session, random.Random(f"{name} {seed}"), length, note)
    session.check([line for line, ok in zip(done.lines, done.accepted, strict=True) if ok])
    return done


def run_lines(name: str, seed: int, lines: Sequence[str]) -> None:
    """Apply given lines to a program and check them; raises Failure."""
    session = Session(name, seed)
    accepted = [line for line in lines if session.apply(line)]
    session.check(accepted)


class Schedules(Fuzzer):
    """Random primitives applied to programs; a failing sequence is printed as a test."""

    def prepare(self) -> None:
        for name in program_names():
            _expected(name)
        codegen.build(program("chain"), "llvm -num-cores=1")

    def check(self, case: int, note: Note) -> Mapping[str, int]:
        rng = random.Random(case)
        done = run_random(rng.choice(program_names()), case, rng.randint(1, MOST_LINES), note)
        return {"accepted": sum(done.accepted), "refused": done.accepted.count(False)}

    def described(self, case: int, outcome: Outcome, lines: Sequence[str]) -> str:
        name = random.Random(case).choice(program_names())

        def fails(tried: Sequence[str]) -> bool:
            return attempt(lambda _: run_lines(name, case, tried))[0].what == outcome.what

        few = shortest(lines, fails, seconds=120)
        body = "\n".join(f"        {line!r}," for line in few)
        return f"run_lines(\n    {name!r},\n    {case},\n    [\n{body}\n    ],\n)"
