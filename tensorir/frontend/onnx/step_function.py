"""Loop bodies as functions of the module.

A step of a loop is a function of the round number, of the values that the loop carries, and of the
values captured from the enclosing graph, which become parameters. A value may change its shape from
round to round: if the step returns another shape than it receives, the sizes are symbolic in the
step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from tensorir.arith import Analyzer
from tensorir.comparison.equal import structural_equal
from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.onnx.known_values import common_element
from tensorir.nodes.expr import GlobalVar, PrimExpr
from tensorir.relax.expr import GraphExpr, GraphVar
from tensorir.relax.function import Function
from tensorir.relax.library.loop import call_loop, sizes_of_parameters, with_sizes
from tensorir.relax.relations import Fits, fits, known_by
from tensorir.relax.struct_info import (
    OBJECT,
    UNKNOWN_NDIM,
    ObjectStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    defining_extents,
)
from tensorir.rewriting.fresh_copy import renew_defs

if TYPE_CHECKING:
    from tensorir.frontend.onnx.graph_import import GraphImport
    from tensorir.frontend.onnx.scope import Scope

_ANALYZER: Final = Analyzer()


class StepOutputs(NamedTuple):
    """The outputs of a step: the condition to continue, the values for the next round, the parts to
    stack.
    """

    go_on: GraphExpr
    carried: Sequence[GraphExpr]
    parts: Sequence[GraphExpr]


Body: TypeAlias = "Callable[[Step, GraphExpr, Sequence[GraphExpr]], StepOutputs]"
"""Emits a step for the round number and the carried values."""


class Step:
    """A step that is being read, with the values that it captures."""

    def __init__(self, importing: GraphImport, parent: Scope) -> None:
        self._importing = importing
        self._parent = parent
        self.captured: dict[GraphVar, GraphVar] = {}
        """The parameters for the values that the step captures."""

    def taken(self, value: GraphExpr) -> GraphExpr:
        """Return the parameter of the step for a captured value."""
        if not isinstance(value, GraphVar):
            return value  # a constant, or an expression of sizes
        if value not in self.captured:
            name = self._importing.builder.get_unique_name(value.name)
            param = GraphVar(name, value.struct_info)
            self._importing.known.remember_like(param, value)
            self.captured[value] = param
        return self.captured[value]

    def graph(self, graph: Any, inputs: Sequence[GraphExpr]) -> list[GraphExpr]:
        """Emit a graph that may use captured values; return its outputs."""
        return self._importing.subgraph(graph, inputs, self._parent.bounded(self.taken))


class StepFunction(NamedTuple):
    """A function of the module that is a step of a loop, with facts about its values."""

    name: GlobalVar
    captured: Sequence[GraphExpr]
    carried: Sequence[StructInfo]
    """The struct info of the carried values in the caller."""
    elements: Sequence[TensorStructInfo | None]
    """The struct info of the elements of carried sequences."""
    parts: Sequence[TensorStructInfo]
    always: bool
    """True if the step always continues."""

    def named(self, importing: GraphImport, fields: Sequence[GraphExpr]) -> list[GraphExpr]:
        """Return variables for the final carried values."""
        result = []
        for part, elements in zip(fields, self.elements, strict=False):
            result.append(importing.emitted(part))
            importing.known.remember_elements(result[-1], elements)
        return result

    def loop(
        self,
        carried: Sequence[GraphExpr],
        trips: GraphExpr | PrimExpr | int | None,
        go_on: GraphExpr | bool = True,
    ) -> GraphExpr:
        """Return the call of a loop: a tuple of the final carried values and the stacked parts."""
        is_known = self.always and go_on is True and not isinstance(trips, GraphExpr)
        stacked = [_stack_info(part, trips if is_known else None) for part in self.parts]  # type: ignore[arg-type]
        return call_loop(
            self.name,
            carried,
            self.captured,
            out_sinfo=[*self.carried, *stacked],
            trips=trips,
            go_on=go_on,
            scans=self.parts,
        )


def _stack_info(part: TensorStructInfo, count: PrimExpr | int | None) -> TensorStructInfo:
    """Return the struct info of `count` stacked parts; None for an unknown number."""
    if count is not None and part.shape is not None:
        return TensorStructInfo([count, *part.shape], part.dtype)
    rank = UNKNOWN_NDIM if part.ndim == UNKNOWN_NDIM else part.ndim + 1
    return TensorStructInfo(None, part.dtype, rank)


def step_function(
    importing: GraphImport, parent: Scope, hint: str, carried: Sequence[GraphExpr], body: Body
) -> StepFunction:
    """Add the function of a step to the module.

    `carried` are the values of the first round. Raises IRValueError for a step that returns another
    number of values than it receives. Raises IRTypeError for values of other kinds or dtypes.
    """
    changing = importing.repeats.changing()
    values = [
        _Carried(value, importing, changing.setdefault(k, _Change()))
        for k, value in enumerate(carried)
    ]
    while True:
        try:
            return _read(importing, parent, hint, values, body)
        except _WiderError:
            continue  # each retry makes at least one more axis or rank symbolic


class _WiderError(Exception):
    """The outputs of a step need parameters of more general shapes."""


@dataclass
class _Change:
    """The changes of a carried tensor's shape from round to round: differing axes, or the rank."""

    axes: set[int] = field(default_factory=set)
    """The axes with differing extents."""
    any_rank: bool = False


class _Carried:
    """The facts about a carried value that hold in all rounds."""

    def __init__(self, first: GraphExpr, importing: GraphImport, change: _Change) -> None:
        self._first = first.struct_info
        self._change = change
        self._importing = importing
        self.elements = importing.known.known_elements(first)
        """The struct info of a sequence's elements."""

    def parameter(self) -> GraphVar:
        """Return a parameter, with new symbolic sizes for changing axes."""
        param = GraphVar(self._importing.builder.get_unique_name("x"), self._declared_info())
        self._importing.known.remember_elements(param, self.elements)
        return param

    def _declared_info(self) -> StructInfo:
        info = self._first
        if not isinstance(info, TensorStructInfo):
            return info
        if self._change.any_rank:
            return TensorStructInfo(None, info.dtype)
        if info.shape is None or not self._change.axes:
            return info
        extents = [
            self._importing.known.fresh_size("n") if k in self._change.axes else n
            for k, n in enumerate(info.shape)
        ]
        return TensorStructInfo(extents, info.dtype)

    def known(self) -> StructInfo:
        """Return the struct info of the value in the caller."""
        info = self._first
        if self._change.any_rank and isinstance(info, TensorStructInfo):
            return TensorStructInfo(None, info.dtype)
        if self._change.axes and isinstance(info, TensorStructInfo):
            return TensorStructInfo(None, info.dtype, info.ndim)
        return info

    def widen(self, output: GraphExpr) -> bool:
        """Merge an output of the step; return True if that generalises the parameter."""
        first, given = self._first, output.struct_info
        if not isinstance(first, TensorStructInfo):
            return self._widen_sequence(output)
        if not isinstance(given, TensorStructInfo):
            raise IRTypeError(f"a loop carries {first}, but its step returns {given}")
        if first.dtype != given.dtype:
            raise IRTypeError(f"a loop carries {first}, but its step returns {given}")
        if self._change.any_rank or (first.ndim == UNKNOWN_NDIM):
            return False
        if first.ndim != given.ndim:
            self._change.any_rank = True
            return True
        before = len(self._change.axes)
        if first.shape is not None:
            self._change.axes |= {
                k
                for k, extent in enumerate(first.shape)
                if given.shape is None or not _ANALYZER.can_prove_equal(extent, given.shape[k])
            }
        return len(self._change.axes) > before

    def _widen_sequence(self, output: GraphExpr) -> bool:
        """Merge a sequence; a sequence of another length makes the length unknown."""
        first, given = self._first, output.struct_info
        kinds = (TupleStructInfo, ObjectStructInfo)
        if not isinstance(first, kinds) or not isinstance(given, kinds):
            raise IRTypeError(f"a loop carries {first}, but its step returns {given}")
        elements = self._importing.known.known_elements(output)
        is_empty = isinstance(first, TupleStructInfo) and not first.elements
        if self.elements is not None and elements is not None and not is_empty:
            elements = common_element([self.elements, elements])
        wider = elements is not None and not structural_equal(elements, self.elements)
        if elements is not None:
            self.elements = elements
        if fits(first, given) is Fits.YES:
            return wider
        self._first = OBJECT
        return True


def _read(
    importing: GraphImport,
    parent: Scope,
    hint: str,
    values: Sequence[_Carried],
    body: Body,
) -> StepFunction:
    """Read a step once; raise _WiderError if its outputs need more general parameters."""
    builder = importing.builder
    with builder.aside(), importing.known.branch():
        name = builder.get_unique_name(hint)
        with builder.function(name, private=True):
            step = Step(importing, parent)
            number = GraphVar(builder.get_unique_name("k"), TensorStructInfo((), "int64"))
            params = [value.parameter() for value in values]
            outputs = body(step, number, params)
            if len(outputs.carried) != len(params):
                raise IRValueError(
                    f"a step with {len(params)} carried value(s) returns {len(outputs.carried)}"
                )
            given = zip(values, outputs.carried, strict=True)
            wider = [value.widen(output) for value, output in given]
            if any(wider):
                raise _WiderError
            go_on = importing.known.contents(outputs.go_on)
            always = go_on is not None and go_on.dtype != object and bool(go_on.all())
            builder.emit_func_output(
                [outputs.go_on, *outputs.carried, *outputs.parts],
                [number, *params, *step.captured.values()],
            )
    func = builder.get()[name]
    assert isinstance(func, Function)
    own = {n for param in params for n in defining_extents(param.struct_info)} - {
        n for value in values for n in defining_extents(value.known())
    }
    func, sizes = with_sizes(func)
    captured: list[GraphExpr] = [*step.captured, *sizes]
    outside = sizes_of_parameters(func) - own
    parts = []
    for part in outputs.parts:
        info = known_by(part.struct_info, outside)
        if not isinstance(info, TensorStructInfo):
            raise IRTypeError(f"a loop stacks tensors, but its step returns {info}")
        parts.append(info)
    builder.update_func(name, renew_defs(func))
    known = [value.known() for value in values]
    elements = [value.elements for value in values]
    return StepFunction(GlobalVar(name), captured, known, elements, parts, always)
