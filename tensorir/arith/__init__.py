"""Analysis of integer expressions: simplification, bounds, iterator maps, regions.

The one home of index arithmetic. Everything that must know whether an index stays in bounds, two
accesses coincide or loops may be rearranged asks here.
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
    "subspace_divide",
]
