"""The features of AutoTVM's cost model: a few numbers for each loop, and for what it touches.

Or numbers that do not depend on how many loops a program has: how accesses grow along the nest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field, replace
from math import log2, prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from search.arg_info import entry_name
from search.feature_extractor.stored_program import Access, Bindings, ProgramReader, loop_vars
from tensorir.function import IRModule
from tensorir.nodes import expr as e
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.stmt import Block, BufferStore, For, ForKind
from tensorir.rewriting.visit import walk

LOOP_KINDS: Final = (
    "blockIdx.x",
    "blockIdx.y",
    "blockIdx.z",
    "threadIdx.x",
    "threadIdx.y",
    "threadIdx.z",
    "unrolled",
    "vectorized",
    "parallel",
    "serial",
    "vthread",
)
"""The kinds of loops, in the order that features have them."""

_KIND_OF: Final = {
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorized",
    ForKind.UNROLLED: "unrolled",
}
_ARITHMETIC: Final = ((e.Add, e.Sub), (e.Mul,), (e.Div, e.Mod))


def get_itervar_feature(mod: IRModule, take_log: bool = False) -> list[list[Any]]:
    """Return for each loop of a scheduled program its features, by name, outermost first.

    A loop is a list of rows that begin with a name: `_itervar_` and the loop variable; `_attr_`
    with length, depth, iterations of it and around it, of it and under it, and a one-hot of how it
    runs (`LOOP_KINDS`); `_arith_` with the additions, multiplications and divisions of floats
    directly under it; then for each access under it, by name: stride, modulus, elements touched,
    times each is, and the latter two of parallel loops. With `take_log`, numbers are
    sign(x) * log2(1 + |x|), but for the one-hot.
    """
    scaled: Callable[[Sequence[float]], list[float]] = _logs if take_log else list
    return [
        [
            ["_itervar_", loop.name],
            [
                "_attr_",
                *scaled([loop.length, loop.depth, loop.topdown, loop.bottomup]),
                *(float(loop.kind == kind) for kind in LOOP_KINDS),
            ],
            ["_arith_", *scaled(loop.arithmetic)],
            *([name, *scaled(astuple(touch))] for name, touch in sorted(loop.touches.items())),
        ]
        for loop in _loops_of(mod)
    ]


def get_itervar_feature_flatten(mod: IRModule, take_log: bool = True) -> NDArray[np.float32]:
    """Return the features of all loops in one row, float32; its length is that of the program."""
    rows = [rows[1:] for rows in get_itervar_feature(mod, take_log)]
    return np.array([n for of_loop in rows for row in of_loop for n in row[1:]], np.float32)


def get_buffer_curve_sample_flatten(mod: IRModule, sample_n: int = 20) -> NDArray[np.float32]:
    """Return relations of accesses along the loops around them in one row, float32.

    For the last access to each buffer among those in the deepest loops, by name: how often an
    element is touched as a function of how many are, the other way round, and the iterations as a
    function of the latter and the other way round. All numbers are log2. Each relation is sampled
    at 0, 1, ... `sample_n` - 1, as the value at the last loop not beyond and the distance to it:
    8 * `sample_n` numbers for each access.
    """
    loops = _loops_of(mod)
    row: list[float] = []
    for name in sorted(_innermost(loops)):
        around = [(loop, loop.touches[name]) for loop in loops if name in loop.touches]
        count, reuse, topdown = (
            sorted([0.0, *map(log2, numbers)])
            for numbers in (
                [touch.count for _, touch in around],
                [touch.reuse for _, touch in around],
                [loop.topdown for loop, _ in around],
            )
        )
        for x, y in ((count, reuse), (reuse, count), (count, topdown), (topdown, count)):
            for at in range(sample_n):
                last = max(k for k, knot in enumerate(x) if knot < at + 1e-6)
                row += [y[last], at - x[last]]
    return np.array(row, np.float32)


def _innermost(loops: Sequence[_Loop]) -> list[str]:
    """Return the accesses in the deepest loops, of several to a buffer the last one."""
    deepest = max((loop.depth for loop in loops), default=0)
    chosen: dict[str, str] = {}
    for loop in reversed(loops):
        if loop.depth == deepest:
            for name in reversed(loop.touches):
                chosen.setdefault(name.rpartition("_")[0].partition(".")[0], name)
    return list(chosen.values())


def _logs(numbers: Sequence[float]) -> list[float]:
    values = np.asarray(numbers, np.float64)
    logs: list[float] = (np.sign(values) * np.log2(1 + np.abs(values))).tolist()
    return logs


@dataclass(slots=True)
class _Touch:
    """The dependence of one access on a loop.

    `stride` is by how many elements an iteration moves it in memory, 0 if not at all; `mod` after
    how many it comes back, -1 for never. In all iterations of the loop, and of those under it, it
    touches `count` elements `reuse` times each. The last two are the same, of the loops that are
    parallel, if those were innermost.
    """

    stride: int
    mod: int
    count: float
    reuse: float
    thread_count: float = 0
    thread_reuse: float = 0


@dataclass(slots=True)
class _Loop:
    """A loop: its number of iterations, 1 for an unknown one, and its depth from 1.

    `topdown` is the product of its length and those of the loops around it. `arithmetic` are the
    additions, multiplications and divisions of floats directly under it. `touches` has the accesses
    under it: the k-th of the buffer A is called A_k.
    """

    var: Var
    name: str
    length: int
    kind: str
    depth: int
    topdown: int
    arithmetic: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    touches: dict[str, _Touch] = field(default_factory=dict)

    @property
    def bottomup(self) -> float:
        """The iterations of the loop and those under it."""
        return max((t.count * t.reuse for t in self.touches.values()), default=0)

    @property
    def level(self) -> int:
        """2 for blocks of threads, 1 for threads, 0 for what one thread does."""
        if self.kind.startswith("blockIdx"):
            return 2
        return int(self.kind == "parallel" or self.kind.startswith("threadIdx"))


def _loops_of(mod: IRModule) -> list[_Loop]:
    """Return the loops of the entry function, in the order of the text; unit loops are loops.

    The blocks are open: an index is one of loop variables. What initialises a reduction is left
    out.
    """
    reader = _Reader()
    reader.stmt(mod.prim_func(entry_name(mod)).body, Bindings(), [])
    return reader.loops


class _Reader(ProgramReader[_Loop]):
    def __init__(self) -> None:
        super().__init__()
        self.loops: list[_Loop] = []
        self._accesses: dict[str, int] = {}

    def block(self, block: Block, bindings: Bindings, loops: list[_Loop]) -> None:
        self.stmt(block.body, bindings, loops)

    def loop(self, node: For, bindings: Bindings, loops: list[_Loop]) -> None:
        length = node.extent.value if isinstance(node.extent, IntImm) else 1
        kind = _KIND_OF.get(node.kind, "serial")
        if node.thread_binding is not None:
            tag = node.thread_binding.thread_tag
            kind = "vthread" if tag.startswith("vthread") else tag
        around = loops[-1].topdown if loops else 1
        name = node.loop_var.name
        loop = _Loop(node.loop_var, name, length, kind, len(loops) + 1, around * length)
        self.loops.append(loop)
        self.stmt(node.body, bindings, [*loops, loop])

    def store(self, node: BufferStore, bindings: Bindings, loops: list[_Loop]) -> None:
        for access in self.accesses(node, bindings):
            name = access.buffer.name
            number = self._accesses[name] = self._accesses.get(name, -1) + 1
            for loop, touch in zip(loops, _touches(access, loops), strict=True):
                loop.touches[f"{name}_{number}"] = touch
        for part in walk(node.value):
            if loops and isinstance(part, PrimExpr) and part.dtype.is_float:
                for place, kinds in enumerate(_ARITHMETIC):
                    loops[-1].arithmetic[place] += isinstance(part, kinds)


def _touches(access: Access, loops: Sequence[_Loop]) -> list[_Touch]:
    """Return the dependence of an access on each of the loops around it."""
    strides: dict[Var, int] = {}
    moduli: dict[Var, int] = {}
    shape = [n.value if isinstance(n, IntImm) else 1 for n in access.buffer.shape]
    for dim, index in enumerate(access.indices):
        step = prod(shape[dim + 1 :])
        for var, factor in index.of.items():
            strides[var] = strides.get(var, 0) + factor * step
        for part, factor in index.parts:
            for var in loop_vars(part, access.scope):
                strides[var] = strides.get(var, 0) + factor * step
                if isinstance(part, e.FloorMod) and isinstance(part.b, IntImm):
                    moduli[var] = part.b.value
    touches: list[_Touch] = []
    for place, loop in enumerate(loops):
        moved = [strides.get(one.var, 0) != 0 for one in loops[place:]]
        lengths = [one.length for one in loops[place:]]
        touches.append(
            _Touch(
                strides.get(loop.var, 0),
                moduli.get(loop.var, -1),
                prod(n for n, moves in zip(lengths, moved, strict=True) if moves),
                prod(n for n, moves in zip(lengths, moved, strict=True) if not moves),
            )
        )
    return [_with_threads(touches, loops, place) for place in range(len(loops))]


def _with_threads(touches: Sequence[_Touch], loops: Sequence[_Loop], place: int) -> _Touch:
    """Return a touch with what its threads share: all that there is, by what one of them does."""
    whole, level = touches[place], loops[place].level
    for inner in range(place + 1, len(loops)):
        if loops[inner - 1].level == level == loops[inner].level + 1:
            own = touches[inner]
            shared = (whole.count / own.count, whole.reuse / own.reuse)
            return replace(whole, thread_count=shared[0], thread_reuse=shared[1])
    return whole
