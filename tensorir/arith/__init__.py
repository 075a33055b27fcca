"""Analysis of integer expressions: simplification, bounds, iterator maps, regions.

All index arithmetic is here. Everything that needs to decide whether an index stays in bounds, two
accesses coincide or loops may be rearranged asks here.

Four ideas, each built on those before it; the files in the order in which they read well.

Linear forms: an integer is `sum(coefficient * term) + const`, whose terms cancel by themselves.
    `linear` (sums, terms, what a domain is), `linear_readers` and `linearize` (expressions to
    sums), `pieces` (the remainders in a sum), `extrema`, `polynomial`, `terms`, `opaque`,
    `wrapping` (values that wrap around), `writing` (sums to expressions). `coefficients` reads
    what is linear as written, without a context.
Bounds: a term is evaluated in one of four domains.
    `const_interval` and `context` (constants, by what is known), `modular` and `residues` (residue
    classes), `span` and `interval` (ends that hold still while other variables move), and
    expressions, which `writing` makes. `proof` proves `sum >= 0` by facts.
Simplification: `comparing`, `integer_set` and `logic` (conditions), `lanes` (vectors), `simplifier`
    (expressions of every kind), and `analyzer`, the face of it all.
Iterator maps: an index is a piece of a box of iterators.
    `size` (extents), `iter_term` (pieces), `iter_fuse` (sums that are one iterator), `iter_reading`
    (expressions to pieces), `iter_independence`, `iter_map` (the face, and what it remembers), and
    what uses them: `iter_inverse`, `subspace`, `region`.
"""

from tensorir.arith.analyzer import Analyzer, ConstIntBound
from tensorir.arith.interval import IntervalSet, IntSet, eval_set
from tensorir.arith.iter_independence import IterMapLevel
from tensorir.arith.iter_inverse import inverse_affine_iter_map
from tensorir.arith.iter_map import (
    IterMapResult,
    detect_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
    normalize_to_iter_sum,
)
from tensorir.arith.iter_term import IterMark, IterSplitExpr, IterSumExpr
from tensorir.arith.modular import ModularSet
from tensorir.arith.region import (
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
)
from tensorir.arith.subspace import SubspaceDivision, subspace_divide

__all__ = [
    "Analyzer",
    "ConstIntBound",
    "IntSet",
    "IntervalSet",
    "IterMapLevel",
    "IterMapResult",
    "IterMark",
    "IterSplitExpr",
    "IterSumExpr",
    "ModularSet",
    "SubspaceDivision",
    "detect_iter_map",
    "estimate_region_lower_bound",
    "estimate_region_strict_bound",
    "estimate_region_upper_bound",
    "eval_set",
    "inverse_affine_iter_map",
    "iter_map_simplify",
    "normalize_iter_map_to_expr",
    "normalize_to_iter_sum",
    "subspace_divide",
]
