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
from typing import Any

import numpy as np

import codegen
from schedule import BlockRV, LoopRV, Schedule, ScheduleError, Trace
from tensorir import (
    IRModule,
    PrimFunc,
    T,
    assert_structural_equal,
    parse,
    verify_well_formed,
    workloads,
)
from tensorir.index_map import IndexMap
from tensorir.interp import interpret, random_arguments
from tensorir.stmt import Block
from tensorir.visit import walk

WORKLOADS: dict[str, tuple[tuple[int, ...], ...]] = {
    "C1D": ((1, 7, 3, 4, 3, 2, 1), (1, 8, 2, 5, 3, 1, 1), (2, 5, 1, 2, 1, 1, 0)),
    "C2D": ((1, 5, 4, 2, 3, 3, 1, 1), (1, 6, 5, 1, 4, 2, 2, 0), (1, 4, 4, 2, 2, 1, 1, 0)),
    "C3D": ((1, 3, 3, 4, 1, 2, 2, 1, 1), (1, 2, 3, 2, 2, 1, 1, 1, 0)),
    "GRP": ((1, 4, 5, 4, 4, 3, 1, 1, 1, 2),),
    "DIL": ((1, 7, 5, 2, 2, 2, 1, 1, 2),),
    "DEP": ((1, 5, 6, 3, 3, 1, 1), (1, 7, 4, 2, 3, 2, 1)),
    "T2D": ((1, 2, 3, 2, 2, 4, 2, 1),),
    "CAP": ((1, 3, 3, 2, 2, 2, 1, 0),),
    "GMM": ((1, 5, 7, 6), (2, 4, 4, 8), (1, 8, 11, 3), (1, 16, 16, 4)),
    "NRM": ((1, 5, 7), (2, 4, 6)),
    "SFM": ((5, 7), (4, 8)),
    "CBR": ((1, 5, 4, 2, 3, 3, 1, 1),),
    "TBG": ((1, 5, 2, 3), (1, 4, 3, 2)),
}
"""Small sizes of the operator suite, primes among them."""

_HEADER = "@T.prim_func\ndef main({}):\n"
PROGRAMS = {
    "chain": _HEADER.format('A: T.Buffer((8, 6), "float32"), D: T.Buffer((8, 6), "float32")')
    + """
    B = T.alloc_buffer((8, 6))
    C = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 6):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] * B[vi, vj]
""",
    "stencil": _HEADER.format('A: T.Buffer((13,), "float32"), C: T.Buffer((11,), "float32")')
    + """
    B = T.alloc_buffer((13,))
    for i in T.grid(13):
        with T.block("B"):
            vi = T.axis.spatial(13, i)
            B[vi] = A[vi] + T.float32(3)
    for i in T.grid(11):
        with T.block("C"):
            vi = T.axis.spatial(11, i)
            C[vi] = B[vi] + B[vi + 1] * B[vi + 2]
""",
    "window": _HEADER.format('A: T.Buffer((12, 10), "float32"), C: T.Buffer((10, 10), "float32")')
    + """
    B = T.alloc_buffer((12, 10))
    for i, j in T.grid(12, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j, k in T.grid(10, 10, 3):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += B[vi + vk, vj]
""",
    "padded": _HEADER.format('A: T.Buffer((7,), "float32"), C: T.Buffer((9,), "float32")')
    + """
    P = T.alloc_buffer((11,))
    for i in T.grid(11):
        with T.block("P"):
            vi = T.axis.spatial(11, i)
            P[vi] = T.if_then_else(2 <= vi and vi < 9, A[vi - 2], T.float32(0))
    for i, k in T.grid(9, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0.0
            C[vi] += P[vi + vk]
""",
    "transpose": _HEADER.format('A: T.Buffer((4, 6), "int32"), C: T.Buffer((6, 4), "int32")')
    + """
    B = T.alloc_buffer((6, 4), "int32")
    for i, j in T.grid(6, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi] * 3
    for i, j in T.grid(6, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + vi
""",
    "flattened": _HEADER.format('A: T.Buffer((24,), "float32"), C: T.Buffer((4, 6), "float32")')
    + """
    B = T.alloc_buffer((24,))
    for i in T.grid(24):
        with T.block("B"):
            vi = T.axis.spatial(24, i)
            B[vi] = A[vi] + T.float32(1)
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi * 6 + vj]
""",
    "argmax": _HEADER.format(
        'A: T.Buffer((5, 12), "float32"), I: T.Buffer((5,), "int32"), V: T.Buffer((5,), "float32")'
    )
    + """
    for i, k in T.grid(5, 12):
        with T.block("argmax"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                I[vi] = -1
                V[vi] = T.min_value("float32")
            v_i: T.int32 = T.Select(V[vi] >= A[vi, vk], I[vi], vk)
            v_v: T.float32 = T.Select(V[vi] >= A[vi, vk], V[vi], A[vi, vk])
            I[vi] = v_i
            V[vi] = v_v
""",
    "dot_product": _HEADER.format(
        'A: T.Buffer((6, 12), "uint8"), B: T.Buffer((16, 12), "int8"), C: T.Buffer((6, 16), "int32")'
    )
    + """
    for i, j, k in T.grid(6, 16, 12):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += T.cast(A[vi, vk], "int32") * T.cast(B[vj, vk], "int32")
""",
    "in_place": _HEADER.format('A: T.Buffer((9,), "float32"), C: T.Buffer((9,), "float32")')
    + """
    for i in T.grid(9):
        with T.block("scale"):
            vi = T.axis.spatial(9, i)
            A[vi] = A[vi] * T.float32(2)
    for i in T.grid(9):
        with T.block("C"):
            vi = T.axis.spatial(9, i)
            C[vi] = A[8 - vi]
""",
}
"""Programs of other kinds, as scripts."""

MAPS = (
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
)
UNSAFE = ("unsafe_", "annotate_buffer_access", "disable_predication=True")
"""Calls by which a user takes responsibility: their results are not compared."""


def program(name: str) -> PrimFunc:
    """Return the program of a name like `C2D-1` (a workload and its size) or `chain`."""
    if name in PROGRAMS:
        func = parse(PROGRAMS[name])
    else:
        workload, _, size = name.partition("-")
        known = workloads.get(workload)
        sizes = dict(zip(known.parameters(), WORKLOADS[workload][int(size)], strict=False))
        func = known.create(**sizes)
    assert isinstance(func, PrimFunc)
    return func


def program_names() -> list[str]:
    """Return the names of all programs."""
    sizes = [f"{name}-{k}" for name, all_ in WORKLOADS.items() for k in range(len(all_))]
    return [*sizes, *PROGRAMS]


class NoOperand(Exception):
    """A line names a block or a loop that the program does not have; the line is passed over."""


class Failure(Exception):
    """Something that must hold does not."""

    def __init__(self, what: str, detail: str) -> None:
        super().__init__(f"{what}: {detail}")
        self.what = what
        self.detail = detail


# ----------------------------------------------------------------------------------- random lines


class Writer:
    """Writes random lines for the present state of a schedule."""

    def __init__(self, session: Session, rng: random.Random) -> None:
        self._session = session
        self._rng = rng
        self.choice = rng.choice
        self.chance: Callable[[float], bool] = lambda p: rng.random() < p

    def line(self) -> str:
        """Return a call of a random primitive with random operands."""
        names = list(LINES)
        (name,) = self._rng.choices(names, [LINES[n][0] for n in names])
        return LINES[name][1](self)

    def _blocks(self) -> list[Block]:
        found = [n for n in walk(self._session.sch.mod["main"].body) if isinstance(n, Block)]
        return found if self.chance(0.05) else found[1:]

    def block(self) -> str:
        """Return a block of the program."""
        return f"block({self._name()!r})"

    def _name(self) -> str:
        blocks = self._blocks()
        if not blocks:
            raise NoOperand
        return self.choice(blocks).name_hint

    def _depth(self, name: str) -> int:
        try:
            silent = self._session.sch.copy()
            return len(silent.get_loops(silent.get_block(name)))
        except ScheduleError:
            return 0

    def loop(self, name: str | None = None) -> str:
        """Return a loop around a block."""
        name = name or self._name()
        depth = self._depth(name)
        if depth == 0:
            raise NoOperand
        return f"loop({name!r}, {self._rng.randrange(depth)})"

    def loops(self) -> str:
        """Return several loops around one block: neighbours, or in any order."""
        name = self._name()
        depth = self._depth(name)
        if depth == 0:
            raise NoOperand
        numbers = list(range(depth))
        if self.chance(0.5):
            first = self._rng.randrange(depth)
            numbers = numbers[first : first + self.choice((2, 2, 3))]
        else:
            numbers = self._rng.sample(numbers, self._rng.randint(1, depth))
        return ", ".join(f"loop({name!r}, {k})" for k in numbers)

    def siblings(self) -> str:
        """Return a list of blocks."""
        names = [block.name_hint for block in self._blocks()]
        first = self._rng.randrange(len(names)) if names else 0
        chosen = names[first : first + self.choice((1, 2, 2, 3))]
        return f"[{', '.join(f'block({name!r})' for name in chosen)}]"

    def factors(self) -> str:
        """Return factors of a split."""
        sampled = f"sch.sample_perfect_tile({self.loop()}, {self.choice((2, 3))})"
        some: list[Any] = [
            None,
            *(self.choice((1, 2, 3, 4, 5, 8)) for _ in range(self.choice((1, 1, 2)))),
        ]
        self._rng.shuffle(some)
        if self.chance(0.03):
            some[0] = self.choice((0, -1, None))
        return sampled if self.chance(0.3) else repr(some)

    def position(self) -> str:
        """Return the place of a buffer among those that a block reads or writes."""
        return str(self.choice((0, 0, 0, 0, 1, 1, 2, -1) if self.chance(0.3) else (0, 1)))

    def scope(self) -> str:
        """Return a storage scope."""
        return repr("nowhere" if self.chance(0.02) else self.choice(("global", "global", "local")))

    def index_map(self) -> str:
        """Return an index map."""
        return self.choice(MAPS)

    def buffer(self) -> str:
        """Return a buffer as layout primitives take it."""
        kind = self.choice(("read", "write"))
        return f"({kind!r}, {self.position()})"

    def flag(self) -> str:
        """Return a truth value."""
        return str(self.chance(0.5))

    def number(self) -> int:
        """Return a seed."""
        return self._rng.randrange(1 << 20)

    def paddings(self) -> str:
        """Return a padding for each of few axes."""
        return str([self.choice((1, 1, 2, 4, 5)) for _ in range(self.choice((1, 2, 3, 3, 4, 5)))])

    def permutation(self) -> str:
        """Return an order of few axes."""
        numbers = list(range(self.choice((1, 2, 3, 4))))
        self._rng.shuffle(numbers)
        return str(numbers)


LINES: dict[str, tuple[float, Callable[[Writer], str]]] = {
    "split": (4, lambda w: f"sch.split({w.loop()}, {w.factors()}, preserve_unit_iters={w.flag()})"),
    "fuse": (2, lambda w: f"sch.fuse({w.loops()}, preserve_unit_iters={w.flag()})"),
    "reorder": (3, lambda w: f"sch.reorder({w.loops()})"),
    "merge": (0.7, lambda w: f"sch.merge({w.loop()}, {w.loop()})"),
    "loop_partition": (
        1,
        lambda w: f"sch.loop_partition({w.loop()}, [{w.choice((1, 2, 3))}, None])",
    ),
    "reorder_block_iter_var": (
        0.5,
        lambda w: f"sch.reorder_block_iter_var({w.block()}, {w.permutation()})",
    ),
    "add_unit_loop": (
        0.7,
        lambda w: f"sch.add_unit_loop({w.block() if w.chance(0.5) else w.loop()})",
    ),
    "parallel": (1, lambda w: f"sch.parallel({w.loop()})"),
    "vectorize": (1, lambda w: f"sch.vectorize({w.loop()})"),
    "unroll": (1, lambda w: f"sch.unroll({w.loop()})"),
    "bind": (0.1, lambda w: f"sch.bind({w.loop()}, 'threadIdx.x')"),
    "annotate": (
        0.5,
        lambda w: (
            f"sch.annotate({w.loop() if w.chance(0.5) else w.block()}, 'note', {w.choice((1, 2.5, 'x', [1, 2]))!r})"
        ),
    ),
    "unannotate": (0.2, lambda w: f"sch.unannotate({w.block()}, 'note')"),
    "cache_read": (2, lambda w: f"sch.cache_read({w.block()}, {w.position()}, {w.scope()})"),
    "cache_read_for": (
        0.5,
        lambda w: f"sch.cache_read({w.block()}, {w.position()}, {w.scope()}, {w.siblings()})",
    ),
    "cache_write": (2, lambda w: f"sch.cache_write({w.block()}, {w.position()}, {w.scope()})"),
    "cache_inplace": (
        0.5,
        lambda w: f"sch.cache_inplace({w.block()}, {w.position()}, {w.scope()})",
    ),
    "cache_index": (
        0.5,
        lambda w: f"sch.cache_index({w.block()}, {w.scope()}, {w.choice((0, 1, 2))})",
    ),
    "reindex": (1, lambda w: f"sch.reindex({w.block()}, {w.buffer()})"),
    "reindex_cache_read": (
        0.7,
        lambda w: (
            f"sch.reindex_cache_read({w.block()}, {w.position()}, {w.scope()}, {w.index_map()})"
        ),
    ),
    "reindex_cache_write": (
        0.7,
        lambda w: (
            f"sch.reindex_cache_write({w.block()}, {w.position()}, {w.scope()}, {w.index_map()})"
        ),
    ),
    "read_at": (
        0.7,
        lambda w: f"sch.read_at({w.loop()}, {w.block()}, {w.position()}, {w.scope()})",
    ),
    "write_at": (
        0.7,
        lambda w: f"sch.write_at({w.loop()}, {w.block()}, {w.position()}, {w.scope()})",
    ),
    "compute_at": (
        2.5,
        lambda w: (
            f"sch.compute_at({w.block()}, {w.loop()}, {w.flag()}, {w.choice((-1, -1, -2, 0, 1))})"
        ),
    ),
    "reverse_compute_at": (
        2.5,
        lambda w: (
            f"sch.reverse_compute_at({w.block()}, {w.loop()}, {w.flag()}, {w.choice((-1, -1, -2, 0, 1))})"
        ),
    ),
    "sampled_location": (
        1,
        lambda w: f"at({w.block()})",
    ),
    "compute_inline": (1, lambda w: f"sch.compute_inline({w.block()})"),
    "reverse_compute_inline": (1, lambda w: f"sch.reverse_compute_inline({w.block()})"),
    "decompose_reduction": (1.5, lambda w: f"sch.decompose_reduction({w.block()}, {w.loop()})"),
    "rfactor": (1.5, lambda w: f"sch.rfactor({w.loop()}, {w.choice((0, 0, 1, -1, 2))})"),
    "storage_align": (
        0.3,
        lambda w: (
            f"sch.storage_align({w.block()}, {w.position()}, {w.choice((0, -1))}, {w.choice((4, 8))}, 1)"
        ),
    ),
    "set_scope": (0.3, lambda w: f"sch.set_scope({w.block()}, {w.position()}, {w.scope()})"),
    "unsafe_set_dtype": (0.1, lambda w: f"sch.unsafe_set_dtype({w.block()}, 0, 'float16')"),
    "unsafe_hide_buffer_access": (
        0.05,
        lambda w: f"sch.unsafe_hide_buffer_access({w.block()}, 'read', [{w.position()}])",
    ),
    "annotate_buffer_access": (
        0.05,
        lambda w: (
            f"sch.annotate_buffer_access({w.block()}, {w.position()}, 'read', lambda *a: [(x, x + 1) for x in a])"
        ),
    ),
    "blockize": (
        1,
        lambda w: f"sch.blockize({w.loop()}, preserve_unit_iters={w.flag()})",
    ),
    "blockize_blocks": (0.4, lambda w: f"sch.blockize({w.siblings()})"),
    "transform_layout": (
        1.5,
        lambda w: (
            f"sch.transform_layout({w.block()}, {w.buffer()}, {w.index_map()}, pad_value={w.choice(('None', '0.0', '3'))})"
        ),
    ),
    "transform_block_layout": (
        1,
        lambda w: f"sch.transform_block_layout({w.block()}, {w.index_map()})",
    ),
    "set_axis_separator": (
        0.2,
        lambda w: (
            f"sch.set_axis_separator({w.block()}, {w.buffer()}, {w.choice(('[1]', '[]', '[9]'))})"
        ),
    ),
    "decompose_padding": (1, lambda w: f"sch.decompose_padding({w.block()}, {w.loop()})"),
    "tensorize": (
        0.5,
        lambda w: (
            f"sch.tensorize({w.loop()}, {w.choice(('dot_16x4_portable', 'small_dot', 'nothing'))!r})"
        ),
    ),
    "tiled_and_tensorized": (0.3, lambda w: f"tensorized({w.block()})"),
    "rolling_buffer": (0.7, lambda w: f"sch.rolling_buffer({w.block()}, {w.position()})"),
    "pad_einsum": (0.7, lambda w: f"sch.pad_einsum({w.block()}, {w.paddings()})"),
    "mutate": (0.3, lambda w: f"mutate({w.number()})"),
    "lookup": (
        0.3,
        lambda w: (
            f"sch.{w.choice(('get_producers', 'get_consumers', 'get_output_blocks', 'get_child_blocks'))}({w.block()})"
        ),
    ),
    "sample_partitioned_tile": (
        0.3,
        lambda w: (
            f"sch.split({(l := w.loop())}, sch.sample_partitioned_tile({l}, 2, 1, {w.choice((1, 2, 4))}))"
        ),
    ),
}
"""How often a kind of line is written, relative to the others, and what writes it."""


# ------------------------------------------------------------------------------- running sequences


@dataclass
class Case:
    """A program and the lines applied to it; `accepted` tells which had an effect."""

    name: str
    seed: int
    lines: list[str] = field(default_factory=list)
    accepted: list[bool] = field(default_factory=list)


class Session:
    """A schedule to which lines are applied, each one watched."""

    def __init__(self, name: str, seed: int) -> None:
        self.func = program(name)
        debug_mask = "all" if seed % 2 else "none"
        self.sch = Schedule(
            self.func, seed=seed + 1, error_render_level="fast", debug_mask=debug_mask
        )

    def apply(self, line: str) -> bool:
        """Run a line; return whether it was accepted.

        Raises Failure if it is refused otherwise than by ScheduleError, or if a refused call
        changed the program or recorded itself.
        """
        if line.startswith("mutate("):
            return self._mutate(int(line[len("mutate(") : -1]))
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

        names = {"block": block, "loop": loop, "at": at, "tensorized": tensorized}
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
        return True

    def _mutate(self, seed: int) -> bool:
        """Go on with a replay of the trace in which something is changed.

        What does not make sense any more is refused by ScheduleError, or by ValueError, TypeError
        or IndexError where the JSON is malformed.
        """
        data = mutated(json.loads(json.dumps(self.sch.trace.as_json())), random.Random(seed))
        other = Schedule(IRModule({"main": self.func}), seed=7, error_render_level="fast")
        try:
            Trace.apply_json_to_schedule(data, other)
        except (ValueError, TypeError, IndexError, ScheduleError):
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
        _holds("the program is not well-formed", lambda: verify_well_formed(sch.mod))
        _holds(
            "its text reads back differently", lambda: _assert_equal(parse(sch.mod.script()), sch)
        )
        _holds("the trace's JSON replays differently", lambda: self._replay_json())
        _holds("the trace's Python text replays differently", lambda: self._replay_text())
        changes_parameters = [
            tuple(int(n) for n in self.func.buffer_map[p].shape)  # type: ignore[call-overload]
            for p in self.func.params
        ] != [
            tuple(int(n) for n in sch.mod["main"].buffer_map[p].shape)  # type: ignore[call-overload]
            for p in sch.mod["main"].params
        ]
        if any(word in whole for word in UNSAFE) or changes_parameters:
            return
        if "transform_layout" in whole and _parameters_moved(self.func, sch.mod["main"]):
            return
        expected = random_arguments(self.func)
        interpreted = [array.copy() for array in expected]
        compiled = [array.copy() for array in expected]
        interpret(self.func, *expected)
        _holds("the interpreter fails", lambda: interpret(sch.mod, *interpreted))
        _holds("the interpreter's result differs", lambda: _assert_close(interpreted, expected))
        if ".bind(" in whole:
            return
        _holds(
            "machine code fails",
            lambda: codegen.build(sch.mod, "llvm -num-cores=2", guard_pages=True)["main"](
                *compiled
            ),
        )
        _holds("machine code's result differs", lambda: _assert_close(compiled, expected))

    def _replay_json(self) -> None:
        stored = json.dumps(self.sch.trace.as_json())
        replayed = Schedule(IRModule({"main": self.func}), seed=7)
        Trace.from_json(json.loads(stored)).apply_to_schedule(replayed, remove_postproc=False)
        _assert_equal(replayed.mod, self.sch)
        assert json.dumps(replayed.trace.as_json()) == stored

    def _replay_text(self) -> None:
        written = Schedule(IRModule({"main": self.func}), seed=7)
        exec("\n".join(self.sch.trace.as_python()), {"sch": written, "T": T, "tvm": _Tvm})
        _assert_equal(written.mod, self.sch)


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


class _Tvm:
    """The prefix under which the text of a trace names index maps that carry their inverse."""

    class tir:
        """See above."""

        IndexMap = IndexMap


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
    writer = Writer(session, rng)
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
