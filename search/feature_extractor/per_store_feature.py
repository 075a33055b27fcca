"""The features of Ansor and MetaSchedule: a row for each buffer that a program stores to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice, pairwise
from math import log2, prod
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from search.feature_extractor.buffer_accesses import (
    BufferAccess,
    Touched,
    memory_behaviour,
)
from search.feature_extractor.feature_extractor import FeatureExtractor
from search.feature_extractor.stored_program import (
    Loop,
    Store,
    StoredProgram,
    stored_program,
)
from tensorir.function import IRModule
from tensorir.indices.accesses import Bindings
from tensorir.nodes import expr as e
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, Call, PrimExpr, Select, Var
from tensorir.nodes.intrin import Effect, Op
from tensorir.nodes.stmt import Block, ForKind
from tensorir.rewriting.visit import children, walk

if TYPE_CHECKING:
    from search.runner.measure_candidate import MeasureCandidate
    from search.task import Task


FLOAT_ADD, FLOAT_MUL, FLOAT_DIV, FLOAT_COMPARE, FLOAT_MATH, FLOAT_CALL = range(1, 7)
INT_OFFSET: Final = 7
BOOL: Final = 14
SELECT: Final = 15
COUNT: Final = 16

_SORTS: Final[dict[type[PrimExpr], int]] = {
    **dict.fromkeys((e.Add, e.Sub), FLOAT_ADD),
    e.Mul: FLOAT_MUL,
    **dict.fromkeys((e.Div, e.Mod, e.FloorDiv, e.FloorMod), FLOAT_DIV),
    **dict.fromkeys((e.Min, e.Max, *e.COMPARISONS), FLOAT_COMPARE),
}

_KINDS: Final = (ForKind.VECTORIZED, ForKind.UNROLLED, ForKind.PARALLEL)
_AXES: Final = (*(f"{k}.{axis}" for k in ("blockIdx", "threadIdx") for axis in "xyz"), "vthread")
_PER_BUFFER: Final = 18
_EMBEDDED: Final = (
    ("softmax",),
    ("max", "min"),
    ("add",),
    ("batch_matmul",),
    ("matmul",),
    ("depthwiseconv2d",),
    ("conv2d_winograd",),
    ("conv2d",),
)


def arithmetic_counts(value: PrimExpr, scope: Bindings) -> list[int]:
    """Return 16 counts of operations: 7 sorts for floats, 7 for integers, logic, selections.

    The sorts are multiply-add (always 0), addition, multiplication, division, comparison,
    mathematical functions and other calls. The indices of loads count, with the bindings of block
    axes inlined.
    """
    counts = [0] * COUNT
    _count(value, scope, counts)
    return counts


def _count(node: PrimExpr, scope: Bindings, counts: list[int]) -> None:
    kind = type(node)
    if kind is BufferLoad:
        assert isinstance(node, BufferLoad)
        for index in node.indices:
            _count_index(index, scope, counts)
        return
    if kind is Select and not any(isinstance(part, BufferLoad) for part in walk(node)):
        return
    sort = _SORTS.get(kind)
    if kind in (e.And, e.Or, e.Not):
        counts[BOOL] += 1
    elif kind is Select:
        counts[SELECT] += 1
    elif isinstance(node, Call):
        is_math = isinstance(node.op, Op) and node.op.effect == Effect.PURE
        sort = FLOAT_MATH if is_math else FLOAT_CALL
    elif isinstance(node, Var):
        _count_index(node, scope, counts)
    if sort is not None:
        counts[sort if node.dtype.is_float else sort + INT_OFFSET] += 1
    for child in children(node):
        if isinstance(child, PrimExpr):
            _count(child, scope, counts)


def _count_index(index: PrimExpr, scope: Bindings, counts: list[int]) -> None:
    """Count the operations of an index, written as a sum over loop variables."""
    total = scope.read(index)
    factors = [f for f in total.of.values() if f != 0] + [f for _, f in total.parts]
    terms = len(factors) + (total.constant != 0)
    counts[INT_OFFSET + FLOAT_ADD] += max(0, terms - 1)
    counts[INT_OFFSET + FLOAT_MUL] += sum(1 for factor in factors if abs(factor) != 1)
    for part, _ in total.parts:
        if not isinstance(part, Var):
            _count(part, scope, counts)


@FeatureExtractor.kinds.register("per-store-feature")
class PerStoreFeature(FeatureExtractor):
    """The features of Ansor's cost model (Zheng et al., OSDI 2020), as MetaSchedule lays them out.

    A row has 57 + 18 * `buffers_per_store` + `arith_intensity_curve_num_samples` + 7 columns, 164
    by default; most are log2(|x| + 1) of a count:

    * 0-15 arithmetic: seven sorts of operations on floats, seven on integers, logic, selections;
    * 16-48 vectorised, unrolled and parallel loops: for each kind number, product of extents,
      innermost extent and a one-hot of eight positions;
    * 49-56 GPU: 1 if loops are bound to threads, and the extents of blockIdx.x, .y, .z,
      threadIdx.x, .y, .z and vthread, each 1 without such a loop;
    * then for each buffer (most cache lines first): kind of access, bytes and cache lines, unique
      bytes and lines, kind and distance of reuse, the sizes per reuse, stride;
    * arithmetic intensity along the loop nest;
    * size and position of the allocation;
    * iterations, number of loops, unroll limit.

    Stores of constants are left out. Of several stores to a buffer, the last one has the row. With
    `extract_workload`, eight flags for block names of the unscheduled program follow.
    """

    def __init__(
        self,
        buffers_per_store: int = 5,
        arith_intensity_curve_num_samples: int = 10,
        cache_line_bytes: int = 64,
        extract_workload: bool = False,
    ) -> None:
        self.buffers_per_store = buffers_per_store
        self.arith_intensity_curve_num_samples = arith_intensity_curve_num_samples
        self.cache_line_bytes = cache_line_bytes
        self.extract_workload = extract_workload

    @property
    def feature_vector_length(self) -> int:
        """The number of columns."""
        samples = self.arith_intensity_curve_num_samples
        base = 57 + _PER_BUFFER * self.buffers_per_store + samples + 7
        return base + len(_EMBEDDED) * self.extract_workload

    def extract_from(
        self, context: Task, candidates: Sequence[MeasureCandidate]
    ) -> list[NDArray[np.float64]]:
        """Return an array [rows, columns] for each candidate, perhaps without rows."""
        suffix: list[float] = []
        if self.extract_workload and context.mod is not None:
            suffix = _workload_embedding(context.mod)
        return [self.extract(candidate.measured_mod, suffix) for candidate in candidates]

    def extract(self, mod: IRModule, suffix: Sequence[float] = ()) -> NDArray[np.float64]:
        """Return the rows of a scheduled module, each followed by `suffix`."""
        rows: dict[Buffer, list[float]] = {}
        for func in mod.prim_funcs().values():
            program = stored_program(func)
            touched: Touched = {}
            for store in program.stores:
                memory = memory_behaviour(store, program, touched, self.cache_line_bytes)
                rows[store.access.buffer] = [*self._row(store, program, *memory), *suffix]
        return np.array(list(rows.values()), np.float64).reshape(-1, self.feature_vector_length)

    def _row(
        self,
        store: Store,
        program: StoredProgram,
        buffers: Sequence[BufferAccess],
        touched_bytes: list[float],
    ) -> list[float]:
        loops = store.loops
        iterations = prod(loop.extent for loop in loops)
        counts = arithmetic_counts(store.value, store.access.scope)
        float_operations = float(sum(counts[:7]))
        unroll = next((loop.unroll_step for loop in reversed(loops) if loop.unroll_step > 0), 0)
        return [
            *(_slog(count * iterations) for count in counts),
            *chain.from_iterable(_loop_kind(loops, kind) for kind in _KINDS),
            *_threads(loops),
            *self._buffers(buffers),
            *_intensity_curve(
                loops, touched_bytes, float_operations, self.arith_intensity_curve_num_samples
            ),
            *_allocation(store, program, iterations),
            _slog(iterations),
            _slog(len(loops)),
            _slog(unroll),
        ]

    def _buffers(self, buffers: Sequence[BufferAccess]) -> list[float]:
        ordered = sorted(buffers, key=lambda b: (-b.lines, -b.bytes, b.buffer.name))
        features = [value for b in ordered[: self.buffers_per_store] for value in _buffer(b)]
        return features + [0.0] * (_PER_BUFFER * self.buffers_per_store - len(features))


def _slog(x: float) -> float:
    return log2(abs(x) + 1)


def _one_hot(place: int, size: int) -> list[float]:
    return [1.0 if k == place else 0.0 for k in range(size)]


def _loop_kind(loops: list[Loop], kind: ForKind) -> list[float]:
    """Return number, product of extents, innermost extent and position of loops of a kind."""
    extents = [loop.extent for loop in loops if loop.kind == kind]
    if not extents:
        return [0.0, 0.0, 0.0, *_one_hot(0, 8)]
    return [_slog(len(extents)), _slog(prod(extents)), _slog(extents[-1]), *_one_hot(7, 8)]


def _threads(loops: list[Loop]) -> list[float]:
    """Return if loops are bound to threads, and the extent of the outermost loop of each axis."""
    extents = [
        next((loop.extent for loop in loops if loop.axis.startswith(axis)), 1) for axis in _AXES
    ]
    return [float(any(loop.axis for loop in loops)), *map(_slog, extents)]


def _buffer(b: BufferAccess) -> list[float]:
    count = b.reuse_count if b.reuse_count > 0 else 0.5
    sizes = (b.bytes, b.unique_bytes, b.lines, b.unique_lines)
    return [
        *_one_hot(b.kind, 3),
        *(_slog(size) for size in sizes),
        *_one_hot(b.reuse, 3),
        _slog(b.reuse_iterations),
        _slog(b.reuse_bytes),
        _slog(b.reuse_count),
        *(_slog(size / count) for size in sizes),
        _slog(b.stride),
    ]


def _intensity_curve(
    loops: list[Loop], touched_bytes: list[float], operations: float, samples: int
) -> list[float]:
    """Return operations per byte at equally spaced fractions of all operations, from inside."""
    if not loops or operations <= 0:
        return [0.0] * samples
    compute: list[float] = []
    for loop in reversed(loops):
        operations *= loop.extent
        compute.append(operations)
    ratios = [c / max(m, 1.0) for c, m in zip(compute, touched_bytes, strict=True)]
    curve = []
    for k in range(samples):
        target = (k + 1) / samples * compute[-1]
        curve.append(_slog(_interpolate(compute, ratios, target)))
    return curve


def _interpolate(xs: list[float], ys: list[float], x: float) -> float:
    if x <= xs[0] + 1e-4:
        return ys[0]
    for (x0, x1), (y0, y1) in zip(pairwise(xs), pairwise(ys), strict=True):
        if x1 >= x - 1e-4:
            return y0 if x1 == x0 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return ys[-1]


def _allocation(store: Store, program: StoredProgram, iterations: int) -> list[float]:
    buffer = store.access.buffer
    elements = prod(program.shapes[buffer])
    outer = prod(loop.extent for loop in program.outer_loops.get(buffer, ()))
    return [
        _slog(elements * buffer.dtype.nbytes),
        _slog(elements * outer),
        _slog(outer),
        _slog(iterations / outer),
    ]


def _workload_embedding(mod: IRModule) -> list[float]:
    nodes = (node for func in mod.prim_funcs().values() for node in walk(func.body))
    flags = [0.0] * len(_EMBEDDED)
    for name in (node.name_hint.lower() for node in nodes if isinstance(node, Block)):
        found = (k for k, words in enumerate(_EMBEDDED) if any(word in name for word in words))
        for k in islice(found, 1):
            flags[k] = 1.0
    return flags
