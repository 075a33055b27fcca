"""The resources of a machine that a scheduled program uses: cores, lanes, code and cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from search.space_generator.annotations import PRAGMA_AUTO_UNROLL_MAX_STEP
from tensorir.arith import Analyzer
from tensorir.arith.region import estimate_region_upper_bound
from tensorir.function import IRModule, PrimFunc
from tensorir.indices.accesses import placed_statements
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.ops import TRUE
from tensorir.nodes.stmt import BlockRealize, For, ForKind, Stmt
from tensorir.rewriting.visit import collect_vars, substitute, walk


@dataclass(frozen=True)
class Resources:
    """The resources of a program: each number is the maximum over the blocks.

    The fields of footprints describe the block with the most iterations. Each buffer counts once,
    with the bounding box of its accesses in the first iteration of the outer loops.
    """

    parallel_extent: int = 1
    """Iterations of nested parallel loops."""
    vector_lanes: int = 1
    """Iterations of nested vectorized loops."""
    unrolled_extent: int = 1
    """The copies of a block by unrolled loops or by an unroll limit."""
    tile_bytes: int = 0
    """The bytes accessed from the outermost loop of a reduction inward; without a reduction, by the
    innermost loop."""
    inner_tile_bytes: int = 0
    """The bytes accessed in one iteration of the innermost loop of the reduction."""


RESOURCES: Final = tuple(Resources.__annotations__)
"""The names of the resources."""


def resources_of(program: IRModule | PrimFunc) -> Resources:
    """Return the resources of the tensor functions of a program.

    Loops of symbolic length count as one iteration. Buffers with symbolic boxes count as a whole,
    and buffers of symbolic shape count 0.
    """
    funcs = (program,) if isinstance(program, PrimFunc) else program.prim_funcs().values()
    nests = [nest for func in funcs for nest in _nests(func.body)]
    if not nests:
        return Resources()
    largest = max(nests, key=lambda nest: nest.iterations)
    return Resources(
        max(nest.product(ForKind.PARALLEL) for nest in nests),
        max(nest.product(ForKind.VECTORIZED) for nest in nests),
        max(nest.copies for nest in nests),
        largest.bytes_inside(largest.tile),
        largest.bytes_inside(largest.inner_tile),
    )


@dataclass(frozen=True)
class _Nest:
    """A block without inner blocks, the loops around it, and its axes as expressions of them."""

    loops: tuple[For, ...]
    realize: BlockRealize
    values: Mapping[Var, PrimExpr]

    @property
    def iterations(self) -> int:
        return prod(map(_extent, self.loops))

    def product(self, kind: ForKind) -> int:
        return prod(_extent(loop) for loop in self.loops if loop.kind is kind)

    @property
    def copies(self) -> int:
        """The copies by unrolled loops, or by the unroll limit for the inner loops."""
        limit = max(map(_unroll_limit, self.loops), default=0)
        allowed = 1
        for loop in reversed(self.loops):
            if loop.kind is ForKind.VECTORIZED:
                continue
            if allowed * _extent(loop) > limit:
                break
            allowed *= _extent(loop)
        return max(self.product(ForKind.UNROLLED), allowed)

    @property
    def _reducing(self) -> list[int]:
        """The indices of the loops of a reduction."""
        block = self.realize.block
        driving = {
            var
            for axis in block.iter_vars
            if axis.iter_type == IterVar.COMM_REDUCE
            for var in collect_vars(self.values[axis.var])
        }
        return [k for k, loop in enumerate(self.loops) if loop.loop_var in driving]

    @property
    def tile(self) -> int:
        """The index of the outermost loop of the tile of results."""
        return min(self._reducing, default=max(0, len(self.loops) - 1))

    @property
    def inner_tile(self) -> int:
        return max(self._reducing, default=len(self.loops) - 1) + 1

    def bytes_inside(self, place: int) -> int:
        """Return the bytes that the loops from an index inward access."""
        block = self.realize.block
        first = {loop.loop_var: loop.min for loop in self.loops[:place]}
        domain = {
            loop.loop_var: Range.from_min_extent(loop.min, loop.extent)
            for loop in self.loops[place:]
        }
        touched: dict[Buffer, int] = {}
        for access in (*block.reads, *block.writes):
            box = _box(substitute(substitute(access, self.values), first), domain)
            touched[access.buffer] = max(touched.get(access.buffer, 0), box)
        return sum(touched.values())


def _nests(body: Stmt) -> Iterator[_Nest]:
    values: dict[Stmt | None, dict[Var, PrimExpr]] = {None: {}}
    for node, around in placed_statements(body):
        if isinstance(node, BlockRealize):
            outer = next((part for part in reversed(around) if part in values), None)
            bound = [substitute(value, values[outer]) for value in node.iter_values]
            axes = (axis.var for axis in node.block.iter_vars)
            values[node] = {**values[outer], **dict(zip(axes, bound, strict=True))}
            if not any(isinstance(part, BlockRealize) for part in walk(node.block.body)):
                loops = (part for part in around if isinstance(part, For))
                yield _Nest((*loops, *_loops(node.block.body)), node, values[node])


def _loops(body: Stmt) -> Iterator[For]:
    """Yield the perfectly nested loops in a block."""
    while isinstance(body, For):
        yield body
        body = body.body


def _box(access: BufferRegion, domain: Mapping[Var, Range]) -> int:
    """Return the bytes of the bounding box of a region over the iterations of loops."""
    shape = [dim.value if isinstance(dim, IntImm) else 0 for dim in access.buffer.shape]
    analyzer = Analyzer()
    extents: Sequence[int] = shape
    box = estimate_region_upper_bound(access.region, domain, TRUE, analyzer)
    if all(dim.is_bounded for dim in box):
        sizes = [analyzer.simplify(dim.max_value - dim.min_value + 1) for dim in box]
        known = [int(size.value) for size in sizes if isinstance(size, IntImm)]
        if len(known) == len(shape):
            extents = [min(pair) for pair in zip(known, shape, strict=True)]
    return prod(extents) * access.buffer.dtype.nbytes


def _extent(loop: For) -> int:
    return int(loop.extent.value) if isinstance(loop.extent, IntImm) else 1


def _unroll_limit(loop: For) -> int:
    limit = loop.annotations.get(PRAGMA_AUTO_UNROLL_MAX_STEP)
    return int(limit.value) if isinstance(limit, IntImm) else 0
