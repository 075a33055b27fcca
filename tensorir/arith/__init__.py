"""Analysis of integer expressions: simplification, bounds, iterator maps, regions.

All index arithmetic is here: bounds checks, dependence of accesses and loop transformations use it.

Four ideas, each built on the previous ones; the files are in a good reading order.

Linear forms: an integer is written `sum(coefficient * term) + const`, in which equal terms cancel.
    `linear` (sums, terms, domains), `linear_readers` and `linearize` (expressions to sums),
    `pieces` (the remainders in a sum), `extrema`, `polynomial`, `terms`, `opaque`, `wrapping`
    (values that wrap around), `writing` (sums to expressions). `coefficients` reads sums that are
    linear as written, without a context.
Bounds: a term is evaluated in one of four abstract domains.
    `const_interval` and `context` (constant bounds, from facts), `modular` and `residues` (residue
    classes), `span` and `interval` (symbolic bounds over the ranges of some variables), `writing`
    (the expressions themselves). `proof` proves `sum >= 0` from facts.
Simplification: `comparing`, `integer_set` and `logic` (conditions), `lanes` (vectors), `simplifier`
    (expressions of every kind), and `analyzer`, the public interface.
Iterator maps: an index is a piece of a box of iterators.
    `size` (extents), `iter_term` (pieces), `iter_fuse` (sums that are one iterator), `iter_reading`
    (expressions to pieces), `iter_independence`, `iter_map` (the public interface, and its cache),
    and their users: `iter_inverse`, `subspace`, `region`.
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
