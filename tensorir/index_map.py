"""Maps from indices to indices: layouts, and the order of a block's axes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from tensorir.arith import (
    Analyzer,
    IntervalSet,
    IterMapLevel,
    IterMapResult,
    detect_iter_map,
    eval_set,
    inverse_affine_iter_map,
)
from tensorir.arith.size import Size, is_positive, size_expr
from tensorir.buffer import Range
from tensorir.dtype import INT32, DataType
from tensorir.errors import IRValueError
from tensorir.expr import BinaryOp, Cast, ExprLike, IntImm, PrimExpr, Var
from tensorir.ops import TRUE, as_expr, cast, const, match_types
from tensorir.visit import Rewriter, substitute


class IndexMap:
    """A function from `initial_indices` (variables) to `final_indices` (expressions of them).

    `IndexMap.from_func(lambda i, j: (j, i))` builds one from a Python function. The text form,
    `lambda i, j: (j, i,)`, is what traces store.
    """

    AXIS_SEPARATOR: Final = "axis_separator"

    __slots__ = ("final_indices", "initial_indices", "inverse_index_map")

    def __init__(
        self,
        initial_indices: Sequence[Var],
        final_indices: Sequence[ExprLike],
        inverse_index_map: IndexMap | None = None,
    ) -> None:
        self.initial_indices = tuple(initial_indices)
        self.final_indices = tuple(as_expr(i) for i in final_indices)
        self.inverse_index_map = inverse_index_map

    @staticmethod
    def from_func(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Callable[..., Any] | IndexMap | None = None,
        *,
        index_dtype: str = "int64",
    ) -> IndexMap:
        """Build the map that a Python function computes.

        Positional parameters become variables of the same name; `*args` takes as many as `ndim`
        leaves. Raises IRValueError where `ndim` is missing for that, or where the function inserts
        an axis separator.
        """
        index_map, separators = IndexMap.from_func_with_separators(
            mapping_function, ndim, inverse_index_map, index_dtype=index_dtype
        )
        if separators:
            raise IRValueError("the index map has axis separators; it cannot be used here")
        return index_map

    @staticmethod
    def from_func_with_separators(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Callable[..., Any] | IndexMap | None = None,
        *,
        index_dtype: str = "int64",
    ) -> tuple[IndexMap, list[int]]:
        """Build a map, and say before which of its results `IndexMap.AXIS_SEPARATOR` stands."""
        indices, named = _parameters(mapping_function, ndim, index_dtype)
        result = mapping_function(*indices, **named)
        parts = list(result) if isinstance(result, Iterable) else [result]
        separators: list[int] = []
        final: list[ExprLike] = []
        for part in parts:
            if isinstance(part, str) and part == IndexMap.AXIS_SEPARATOR:
                separators.append(len(final))
            else:
                final.append(part)
        inverse = inverse_index_map
        if inverse is not None and not isinstance(inverse, IndexMap):
            inverse = IndexMap.from_func(inverse, len(final), index_dtype=index_dtype)
        variables = [*indices, *named.values()]
        return IndexMap(variables, [_typed(f, index_dtype) for f in final], inverse), separators

    def map_indices(
        self, indices: Sequence[PrimExpr], analyzer: Analyzer | None = None
    ) -> list[PrimExpr]:
        """Return where the map sends `indices`, simplified."""
        if len(indices) != len(self.initial_indices):
            raise IRValueError(
                f"the index map takes {len(self.initial_indices)} indices, got {len(indices)}"
            )
        analyzer = analyzer or Analyzer()
        values = dict(zip(self.initial_indices, indices, strict=True))
        typed = {v: as_expr(i).astype(v.dtype) for v, i in values.items()}
        return [analyzer.simplify(substitute(f, typed)) for f in self.final_indices]

    def map_ranges(self, ranges: Sequence[Range], analyzer: Analyzer | None = None) -> list[Range]:
        """Return ranges that hold where the map sends the points of a box."""
        analyzer = analyzer or Analyzer()
        domain = dict(zip(self.initial_indices, ranges, strict=True))
        result = detect_iter_map(
            self.final_indices, domain, TRUE, IterMapLevel.NO_CHECK, True, analyzer
        )
        if result.indices:
            return self._detected_ranges(result, analyzer)
        sets = {var: IntervalSet.from_range(r) for var, r in domain.items()}
        for var, r in domain.items():
            analyzer.bind(var, r, allow_override=True)
        covered = [eval_set(f, sets, analyzer) for f in self.final_indices]
        return [
            s.cover_range(Range(f), analyzer)
            for s, f in zip(covered, self.final_indices, strict=True)
        ]

    def bijective_ranges(self, ranges: Sequence[Range]) -> list[Range] | None:
        """Return what `map_ranges` does if the map is plainly a bijection between boxes, else None.

        Then the indices are independent pieces of the box, and each piece is in one of them.
        """
        domain = dict(zip(self.initial_indices, ranges, strict=True))
        analyzer = Analyzer()
        result = detect_iter_map(
            self.final_indices, domain, TRUE, IterMapLevel.BIJECTIVE, True, analyzer
        )
        dense = all(piece.scale == 1 for value in result.indices for piece in value.args)
        return self._detected_ranges(result, analyzer) if result.indices and dense else None

    def _detected_ranges(self, result: IterMapResult, analyzer: Analyzer) -> list[Range]:
        mapped = []
        for value, index in zip(result.indices, self.final_indices, strict=True):
            base = analyzer.linearizer.write(value.base, index.dtype)
            extent: Size = 1
            if value.args:
                (split,) = value.args
                extent = split.extent * split.scale
                if not is_positive(split.scale):
                    least = size_expr(split.scale * (split.extent - 1), index.dtype)
                    base, extent = analyzer.simplify(base + least), 0 - extent
            mapped.append(Range.from_min_extent(base, size_expr(extent, index.dtype)))
        return mapped

    def map_shape(
        self, shape: Sequence[ExprLike], analyzer: Analyzer | None = None
    ) -> list[PrimExpr]:
        """Return the shape of a buffer whose indices are mapped."""
        dims = [
            Range(as_expr(n).astype(v.dtype))
            for n, v in zip(shape, self.initial_indices, strict=True)
        ]
        return [r.extent for r in self.map_ranges(dims, analyzer)]

    def inverse(self, shape: Sequence[ExprLike | Range]) -> IndexMap:
        """Return the map back; IRValueError unless the map is bijective and affine on `shape`."""
        if self.inverse_index_map is not None:
            return self.inverse_index_map
        return self._invert(shape, IterMapLevel.BIJECTIVE)[0]

    def non_surjective_inverse(
        self, shape: Sequence[ExprLike | Range]
    ) -> tuple[IndexMap, PrimExpr]:
        """Return the map back, and the condition under which a result is padding."""
        return self._invert(shape, IterMapLevel.NO_CHECK)

    def _invert(
        self, shape: Sequence[ExprLike | Range], level: IterMapLevel
    ) -> tuple[IndexMap, PrimExpr]:
        ranges = [n if isinstance(n, Range) else Range(n) for n in shape]
        domain = dict(zip(self.initial_indices, ranges, strict=True))
        analyzer = Analyzer()
        result = detect_iter_map(self.final_indices, domain, TRUE, level, True, analyzer)
        if not result.indices:
            reason = "; ".join(result.errors)
            raise IRValueError(f"the index map {self} has no inverse on this shape: {reason}")
        outputs = [Var(f"axis{k}", f.dtype) for k, f in enumerate(self.final_indices)]
        for var, place in zip(outputs, self._detected_ranges(result, analyzer), strict=True):
            analyzer.bind(var, place)
        solved = inverse_affine_iter_map(result.indices, outputs, analyzer.linearizer)
        back = [analyzer.simplify(solved.get(v, domain[v].min)) for v in self.initial_indices]
        inverse = IndexMap(outputs, back)
        padding = result.padding_predicate
        if not isinstance(padding, IntImm):
            values = dict(zip(self.initial_indices, back, strict=True))
            padding = analyzer.simplify(substitute(padding, values))
        return inverse, padding

    def retyped(self, dtypes: Sequence[DataType]) -> IndexMap:
        """Return the same map on indices of other integer types, computed in those types."""
        if all(v.dtype is d for v, d in zip(self.initial_indices, dtypes, strict=True)):
            return self
        variables = [Var(v.name, d) for v, d in zip(self.initial_indices, dtypes, strict=True)]
        retype = _Retype(dict(zip(self.initial_indices, variables, strict=True)))
        final = [retype(f) for f in self.final_indices]
        inverse = self.inverse_index_map
        if inverse is not None:
            inverse = inverse.retyped([f.dtype for f in final])
        return IndexMap(variables, final, inverse)

    def is_equivalent_to(self, other: IndexMap) -> bool:
        """Say whether both maps send every index to the same place."""
        if len(self.initial_indices) != len(other.initial_indices):
            return False
        if len(self.final_indices) != len(other.final_indices):
            return False
        analyzer = Analyzer()
        mine = self.map_indices(other.initial_indices)
        return all(
            analyzer.can_prove_equal(a, b) for a, b in zip(mine, other.final_indices, strict=True)
        )

    def __str__(self) -> str:
        names = ", ".join(v.name for v in self.initial_indices)
        parts = " ".join(f"{f}," for f in self.final_indices)
        text = f"lambda {names}: ({parts})"
        if self.inverse_index_map is None:
            return text
        return f"tvm.tir.IndexMap.from_func({text}, inverse_index_map={self.inverse_index_map})"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        """Say whether the text is the same, and the types of the indices."""
        return isinstance(other, IndexMap) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return (str(self), *(index.dtype for index in self.initial_indices))


class _Retype(Rewriter):
    """Replaces variables by ones of other types, and redoes the arithmetic on them."""

    def __init__(self, variables: dict[Var, Var]) -> None:
        self._variables = variables
        widths = {v.dtype for v in variables.values()}
        self._widest = max(widths, key=lambda d: d.bits) if widths else INT32
        self._old = {v.dtype for v in variables}

    def rewrite_Var(self, node: Var) -> PrimExpr:  # noqa: N802
        return self._variables.get(node, node)

    def rewrite_IntImm(self, node: IntImm) -> PrimExpr:  # noqa: N802
        return const(node.value, self._widest) if node.dtype in self._old else node

    def rewrite_BinaryOp(self, node: BinaryOp) -> PrimExpr:  # noqa: N802
        a, b = match_types(self(node.a), self(node.b))
        return type(node)(a, b)

    def rewrite_Cast(self, node: Cast) -> PrimExpr:  # noqa: N802
        return cast(node.dtype, self(node.value))


def _parameters(
    function: Callable[..., Any], ndim: int | None, dtype: str
) -> tuple[list[Var], dict[str, Var]]:
    positional: list[Var] = []
    named: dict[str, Var] = {}
    variadic = ""
    kinds = inspect.Parameter
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD):
            positional.append(Var(name, dtype))
        elif parameter.kind is kinds.VAR_POSITIONAL:
            variadic = name
        elif parameter.kind is kinds.KEYWORD_ONLY:
            named[name] = Var(name, dtype)
        else:
            raise IRValueError("an index map takes no **kwargs")
    if variadic:
        if ndim is None:
            raise IRValueError(f"the index map takes *{variadic}: pass ndim")
        count = ndim - len(positional) - len(named)
        positional.extend(Var(f"{variadic}_{k}", dtype) for k in range(count))
    return positional, named


def _typed(value: ExprLike, dtype: str) -> PrimExpr:
    return const(value, DataType(dtype)) if isinstance(value, int) else as_expr(value)
