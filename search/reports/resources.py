"""The resources of a machine that a scheduled program uses: cores, lanes, code and cache."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from search.feature_extractor.nests import Drives, Nest, nests
from search.feature_extractor.read_nests import read_nests
from search.space_generator.annotations import PRAGMA_AUTO_UNROLL_MAX_STEP
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.expr import IntImm
from tensorir.nodes.stmt import For, ForKind
from tensorir.rewriting.visit import statements


@dataclass(frozen=True)
class Resources:
    """The resources of a program: each number is the maximum over the stores.

    The fields of footprints describe the reduction with the most iterations, or the store with the
    most in a program without reductions. Each buffer counts once, with the bounding box of its
    accesses in one iteration of the outer loops; a buffer that is filled anew in a loop counts as
    it is in one iteration of that loop.
    """

    parallel_extent: int = 1
    """Iterations of nested parallel loops."""
    vector_lanes: int = 1
    """Iterations of nested vectorized loops."""
    unrolled_extent: int = 1
    """The copies of a store by unrolled loops or by the largest unroll limit of the program."""
    tile_bytes: int = 0
    """The bytes accessed from the outermost loop of a reduction inward; without a reduction, by the
    innermost loop."""
    inner_tile_bytes: int = 0
    """The bytes accessed in one iteration of the innermost loop of the reduction."""


RESOURCES: Final = tuple(Resources.__annotations__)
"""The names of the resources."""


def resources_of(program: IRModule | PrimFunc) -> Resources:
    """Return the resources of the tensor functions of a program.

    Loops of symbolic length and symbolic extents of buffers count as 1.
    """
    mod = IRModule({"main": program}) if isinstance(program, PrimFunc) else program
    shape, numbers = read_nests(mod)
    found = [nest for nest in nests(shape, numbers[:, None]) if not nest.store.is_init]
    if not found:
        return Resources()
    loops = [n for f in mod.prim_funcs().values() for n in statements(f.body) if isinstance(n, For)]
    given = (loop.annotations.get(PRAGMA_AUTO_UNROLL_MAX_STEP) for loop in loops)
    limit = max((value.value for value in given if isinstance(value, IntImm)), default=0)
    largest = max(found, key=lambda nest: (nest.store.updates, nest.extents.prod()))
    reducing = [k for k in largest.loops if largest.drives[k] is not Drives.SPATIAL]
    innermost = largest.loops[-1]
    return Resources(
        max(_iterations(nest, ForKind.PARALLEL) for nest in found),
        max(_iterations(nest, ForKind.VECTORIZED) for nest in found),
        max(_copies(nest, limit) for nest in found),
        _bytes_inside(largest, min(reducing, default=innermost)),
        _bytes_inside(largest, max(reducing, default=innermost) + 1),
    )


def _iterations(nest: Nest, kind: ForKind) -> int:
    return int(prod(nest.extents[k, 0] for k in nest.loops if nest.kinds[k] is kind))


def _copies(nest: Nest, limit: int) -> int:
    """Return the copies by unrolled loops, or by an unroll limit for the inner loops."""
    inner = [nest.extents[k, 0] for k in nest.loops if nest.kinds[k] is not ForKind.VECTORIZED]
    sizes = np.cumprod([1, *inner[::-1]])
    return max(_iterations(nest, ForKind.UNROLLED), int(sizes[sizes <= max(1, limit)].max()))


def _bytes_inside(nest: Nest, place: int) -> int:
    """Return the bytes that the loops from an index inward access."""
    touched: dict[int, int] = {}
    reach = nest.extents[place:] - 1
    for k, buffer in enumerate(nest.buffers):
        spans = 1 + (nest.steps[k][:, place:] * reach).sum(1)
        elements = np.minimum(spans.astype(int), nest.shapes[k]).prod()
        touched[buffer] = max(touched.get(buffer, 0), int(elements) * nest.item_bytes[k])
    return sum(touched.values())
