"""Random calls of schedule primitives, as lines of Python for the present state of a schedule."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from schedule import Schedule
from schedule.sref import loops_above
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import walk

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


class NoOperand(Exception):
    """A line names a block or a loop that the program does not have; the line is passed over."""


class Writer:
    """Writes random lines for the present state of a schedule."""

    def __init__(self, current: Callable[[], Schedule], rng: random.Random) -> None:
        self._current = current
        self._rng = rng
        self.choice = rng.choice
        self.chance: Callable[[float], bool] = lambda p: rng.random() < p

    def line(self) -> str:
        """Return a call of a random primitive with random operands; NoOperand if there are none."""
        (form,) = self._rng.choices([f for _, f in LINES], [weight for weight, _ in LINES])
        return form.format_map(self)

    def __getitem__(self, name: str) -> str:
        """Return an operand of the kind that a form names."""
        return str(getattr(self, name)())

    def _blocks(self) -> list[Block]:
        found = [n for n in walk(self._current().mod["main"].body) if isinstance(n, Block)]
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
        """Return how many loops are around a block; 0 where several blocks have the name."""
        state = self._current().state
        found = [sref for sref in state.blocks("main") if sref.block.name_hint == name]
        return len(loops_above(found[0])) if len(found) == 1 else 0

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
        if self.chance(0.1):
            extent = self.choice((4, 7, 12, 16))
            return f"sch.sample_knob_split('tile', {extent}, 3, 'verbose', no_tail=False)"
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

    def target(self) -> str:
        """Return a block or a loop."""
        return self.block() if self.chance(0.5) else self.loop()

    def index(self) -> str:
        """Return a place among a few."""
        return self.choice(("-1", "-1", "-2", "0", "0", "1", "2"))

    def few(self) -> str:
        """Return a small number."""
        return self.choice(("0", "1", "2", "2", "3", "4"))

    def value(self) -> str:
        """Return the value of an annotation."""
        return self.choice(("1", "2.0", "2.5", "'x'", "[1, 2]", "True", "{'a': 1}"))

    def ranges(self) -> str:
        """Return what gives the ranges of a region."""
        return "lambda *a: [(x, x + 1) for x in a]"

    def intrin(self) -> str:
        """Return the name of a tensor intrinsic, or of none."""
        return self.choice(("'dot_16x4_portable'", "'nothing'"))

    def pad_value(self) -> str:
        """Return what new places of a buffer hold."""
        return self.choice(("None", "0.0", "3"))

    def separators(self) -> str:
        """Return axis separators."""
        return self.choice(("[1]", "[]", "[9]"))

    def query(self) -> str:
        """Return the name of a primitive that finds blocks."""
        return self.choice(
            ("get_producers", "get_consumers", "get_output_blocks", "get_child_blocks")
        )

    def permutation(self) -> str:
        """Return an order of few axes."""
        numbers = list(range(self.choice((1, 2, 3, 4))))
        self._rng.shuffle(numbers)
        return str(numbers)

    def order_knob(self) -> str:
        """Return several loops in a list, and a sampled order of them."""
        loops = self.loops()
        return f"[{loops}], sch.sample_knob_reorder('order', {loops.count('loop(')})"

    def mark_knob(self) -> str:
        """Return several loops in a list, and sampled marks of them."""
        loops = self.loops()
        count = loops.count("loop(")
        return f"[{loops}], sch.sample_knob_annotate('marks', {count}, 'try_unroll_vec')"


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
    (0.05, "sch.annotate_buffer_access({block}, {position}, 'read', {ranges})"),
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
    (0.3, "mutate({number})"),
    (0.3, "scramble({number})"),
)
"""How often a kind of line is written, relative to the others, and its form.

What stands in braces is a method of `Writer`, called for each occurrence.
"""
