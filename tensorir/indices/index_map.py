"""Maps from indices to indices: layouts, the order of a block's axes, values of all indices."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorir.arith import (
    Analyzer,
    IntervalSet,
    IterMapLevel,
    IterMapResult,
    detect_iter_map,
    eval_set,
)
from tensorir.arith.iter_inverse import inverse_with_padding
from tensorir.arith.size import Size, is_positive, size_expr
from tensorir.dialect import Dialect
from tensorir.errors import IRValueError
from tensorir.indices.index_values import index_values
from tensorir.nodes.buffer import Range
from tensorir.nodes.dtype import INT32, DataType
from tensorir.nodes.expr import BinaryOp, Call, Cast, ExprLike, IntImm, PrimExpr, Select, Var
from tensorir.nodes.intrin import Op
from tensorir.nodes.ops import TRUE, as_expr, cast, const, if_then_else, match_types
from tensorir.quoting import RESERVED, identifier, is_name
from tensorir.rewriting.visit import Rewriter, collect_vars, ruled, substitute

_IF_THEN_ELSE: Final = Op.get("if_then_else")


class IndexMap:
    """A function from `initial_indices` (variables) to `final_indices` (expressions of them).

    `IndexMap.from_func(lambda i, j: (j, i))` builds one from a Python function. The text form,
    `lambda i, j: (j, i,)`, is stored in traces.
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

        Positional parameters become variables of the same name; `*args` receives the remaining ones
        of `ndim`. Raises IRValueError if `*args` has no `ndim`, or if the function inserts an axis
        separator.
        """
        index_map, separators = IndexMap.from_func_with_separators(
            mapping_function, ndim, inverse_index_map, index_dtype=index_dtype
        )
        if separators:
            raise IRValueError(
                "the index map has axis separators, which this operation does not support"
            )
        return index_map

    @staticmethod
    def from_func_with_separators(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Callable[..., Any] | IndexMap | None = None,
        *,
        index_dtype: str = "int64",
    ) -> tuple[IndexMap, list[int]]:
        """Build a map; return also the positions of `IndexMap.AXIS_SEPARATOR` among its results."""
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
        return IndexMap(
            variables, [_typed_expr(f, index_dtype) for f in final], inverse
        ), separators

    def map_indices(
        self, indices: Sequence[PrimExpr], analyzer: Analyzer | None = None
    ) -> list[PrimExpr]:
        """Return the new indices for `indices`, simplified.

        They are computed in the types of `indices` if these are wider than the types of the
        variables.
        """
        if len(indices) != len(self.initial_indices):
            raise IRValueError(
                f"the index map takes {len(self.initial_indices)} indices, got {len(indices)}"
            )
        analyzer = analyzer or Analyzer()
        given = [as_expr(index) for index in indices]
        wide = self._widened_for(given)
        typed = {v: i.astype(v.dtype) for v, i in zip(wide.initial_indices, given, strict=True)}
        return [analyzer.simplify(substitute(f, typed)) for f in wide.final_indices]

    def _widened_for(self, indices: Sequence[PrimExpr]) -> IndexMap:
        """Return this map on variables whose types are at least as wide as those of `indices`."""
        dtypes = [v.dtype for v in self.initial_indices]
        for k, index in enumerate(indices):
            if index.dtype.bits > dtypes[k].bits:
                dtypes[k] = index.dtype
        return self.retyped(dtypes)

    def _widened_for_box(
        self, box: Sequence[ExprLike | Range]
    ) -> tuple[IndexMap, dict[Var, Range]]:
        """Return this map on variables as wide as the bounds of a box, and the domains of these
        variables.
        """
        ranges = [n if isinstance(n, Range) else Range(n) for n in box]
        if len(ranges) != len(self.initial_indices):
            raise IRValueError(
                f"the index map takes {len(self.initial_indices)} indices, "
                f"but the shape has {len(ranges)} dimension(s)"
            )
        wide = self._widened_for([r.extent for r in ranges])
        variables = wide.initial_indices
        return wide, {v: _typed_range(v, r) for v, r in zip(variables, ranges, strict=True)}

    def map_ndarray(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return an array with the elements of `array` at their mapped indices.

        Its shape is that of `map_shape`; positions without an element are zero. Raises IRValueError
        if two elements have the same mapped index, or if the rank is not that of the map.
        """
        extents = self.map_shape(array.shape)
        shape = [n.value for n in extents if isinstance(n, IntImm)]
        if len(shape) != len(extents):
            raise IRValueError(f"the index map {self} gives no constant shape on {array.shape}")
        grid = [np.asarray(places, np.int64) for places in np.indices(array.shape)]
        variables = dict(zip(self.initial_indices, grid, strict=True))
        places = [
            np.broadcast_to(index_values(f, variables), array.shape) for f in self.final_indices
        ]
        mapped = np.zeros(shape, array.dtype)
        flat = np.ravel_multi_index(places, shape) if shape else np.zeros(array.shape, np.int64)
        if np.unique(flat).size != array.size:
            raise IRValueError(f"the index map {self} maps several elements to the same index")
        mapped.reshape(-1)[flat] = array
        return mapped

    def map_ranges(self, ranges: Sequence[Range], analyzer: Analyzer | None = None) -> list[Range]:
        """Return ranges that contain the mapped points of a box."""
        wide, domain = self._widened_for_box(ranges)
        return wide._ranges_on(domain, analyzer or Analyzer())

    def _ranges_on(self, domain: Mapping[Var, Range], analyzer: Analyzer) -> list[Range]:
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
        """Return the result of `map_ranges` if the map is detected to be a bijection of boxes, else
        None.

        The indices of such a map are independent pieces of the box, and each piece is in one of
        them.
        """
        wide, domain = self._widened_for_box(ranges)
        analyzer = Analyzer()
        result = detect_iter_map(
            wide.final_indices, domain, TRUE, IterMapLevel.BIJECTIVE, True, analyzer
        )
        dense = all(piece.scale == 1 for value in result.indices for piece in value.args)
        return wide._detected_ranges(result, analyzer) if result.indices and dense else None

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
        wide, domain = self._widened_for_box(shape)
        return [r.extent for r in wide._ranges_on(domain, analyzer or Analyzer())]

    def inverse(self, shape: Sequence[ExprLike | Range]) -> IndexMap:
        """Return the inverse map.

        Raises IRValueError unless the map is bijective and affine on `shape`.
        """
        if self.inverse_index_map is not None:
            return self.inverse_index_map
        return self._invert(shape, IterMapLevel.BIJECTIVE)[0]

    def non_surjective_inverse(
        self, shape: Sequence[ExprLike | Range]
    ) -> tuple[IndexMap, PrimExpr]:
        """Return the inverse map, and the condition for results that are padding."""
        return self._invert(shape, IterMapLevel.INJECTIVE)

    def _invert(
        self, shape: Sequence[ExprLike | Range], level: IterMapLevel
    ) -> tuple[IndexMap, PrimExpr]:
        wide, domain = self._widened_for_box(shape)
        analyzer = Analyzer()
        result = detect_iter_map(wide.final_indices, domain, TRUE, level, True, analyzer)
        if not result.indices:
            reason = "; ".join(result.errors)
            bijective = level is IterMapLevel.BIJECTIVE
            problem = "has no inverse" if bijective else "may map two points to one place"
            raise IRValueError(f"the index map {wide} {problem} on this shape: {reason}")
        outputs = [Var(f"axis{k}", f.dtype) for k, f in enumerate(wide.final_indices)]
        for var, place in zip(outputs, wide._detected_ranges(result, analyzer), strict=True):
            analyzer.bind(var, place)
        solved, padding = inverse_with_padding(result.indices, outputs, analyzer.linearizer)
        inverse_indices = [
            analyzer.simplify(solved.get(v, domain[v].min)) for v in wide.initial_indices
        ]
        return IndexMap(outputs, inverse_indices), analyzer.simplify(padding)

    def retyped(self, dtypes: Sequence[DataType]) -> IndexMap:
        """Return the same map on indices of other integer types, and computed in these types."""
        if all(v.dtype is d for v, d in zip(self.initial_indices, dtypes, strict=True)):
            return self
        variables = [Var(v.name, d) for v, d in zip(self.initial_indices, dtypes, strict=True)]
        retype = _retyping_rewriter(dict(zip(self.initial_indices, variables, strict=True)))
        final = [retype(f) for f in self.final_indices]
        inverse = self.inverse_index_map
        if inverse is not None:
            inverse = inverse.retyped([f.dtype for f in final])
        return IndexMap(variables, final, inverse)

    def is_equivalent_to(self, other: IndexMap) -> bool:
        """Return True if both maps provably map every index to the same result.

        If the types differ, both maps are computed in the wider types.
        """
        if len(self.initial_indices) != len(other.initial_indices):
            return False
        if len(self.final_indices) != len(other.final_indices):
            return False
        wide = self._widened_for(other.initial_indices)
        own_indices = wide.final_indices
        other_indices = other.map_indices(wide.initial_indices)
        analyzer = Analyzer()
        pairs = itertools.starmap(match_types, zip(own_indices, other_indices, strict=True))
        return all(analyzer.can_prove_equal(a, b) for a, b in pairs)

    def with_fit_names(self) -> IndexMap:
        """Return the map with distinct valid names of its indices, for printing."""
        own = self.initial_indices
        others = (v for f in self.final_indices for v in collect_vars(f) if v not in own)
        taken = {*RESERVED, *(v.name for v in others)}
        renamed: dict[Var, Var] = {}
        for index in own:
            base = name = identifier(index.name)
            count = itertools.count(1)
            while name in taken or not is_name(name):
                name = f"{base if base.isidentifier() else 'i'}_{next(count)}"
            taken.add(name)
            renamed[index] = index if name == index.name else Var(name, index.dtype)
        if all(index is name for index, name in renamed.items()):
            return self
        final = [substitute(f, renamed) for f in self.final_indices]
        return IndexMap([renamed[i] for i in own], final, self.inverse_index_map)

    def script(self, *, dialect: Dialect = "tensorir") -> str:
        """Return the map as text of a dialect; `parse_index_map` reads it."""
        named = self.with_fit_names()
        names = ", ".join(v.name for v in named.initial_indices)
        parts = " ".join(f"{f}," for f in named.final_indices)
        text = f"lambda {names}: ({parts})"
        if self.inverse_index_map is None:
            return text
        prefix = "" if dialect == "tensorir" else "tvm.tir."
        inverse = self.inverse_index_map.script(dialect=dialect)
        return f"{prefix}IndexMap.from_func({text}, inverse_index_map={inverse})"

    def __str__(self) -> str:
        return self.script()

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        """Return True if the texts and the types of the indices are equal."""
        return isinstance(other, IndexMap) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return (str(self), *(index.dtype for index in self.initial_indices))


def _retyping_rewriter(variables: Mapping[Var, Var]) -> Rewriter:
    """Return a rewriter that replaces variables by others of other types, and rebuilds the
    arithmetic.
    """
    old = {v.dtype for v in variables}
    widest = max((v.dtype for v in variables.values()), key=lambda d: d.bits, default=INT32)

    def call(node: Call, retype: Rewriter) -> PrimExpr:
        if node.op is _IF_THEN_ELSE:
            return if_then_else(*map(retype, node.args))
        return Call(node.dtype, node.op, [cast(arg.dtype, retype(arg)) for arg in node.args])

    return ruled(
        before={
            Var: lambda node, _: variables.get(node, node),
            IntImm: lambda node, _: const(node.value, widest) if node.dtype in old else node,
            BinaryOp: lambda node, r: type(node)(*match_types(r(node.a), r(node.b))),
            Select: lambda node, r: Select(
                r(node.condition), *match_types(r(node.true_value), r(node.false_value))
            ),
            Cast: lambda node, r: cast(node.dtype, r(node.value)),
            Call: call,
        }
    )


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


def _typed_range(var: Var, values: Range) -> Range:
    dtype = var.dtype
    if values.min.dtype is dtype and values.extent.dtype is dtype:
        return values
    return Range.from_min_extent(values.min.astype(dtype), values.extent.astype(dtype))


def _typed_expr(value: ExprLike, dtype: str) -> PrimExpr:
    return const(value, DataType(dtype)) if isinstance(value, int) else as_expr(value)
