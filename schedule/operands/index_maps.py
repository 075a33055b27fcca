"""Operands that are functions of indices: maps, values of padding, ranges."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from schedule.errors import TraceTypeError
from schedule.operands.buffers import regions_of
from schedule.operands.object_dump import read_index_map
from schedule.operands.operand import Call, Operand, Parameter
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.dtype import FLOAT32, INT64, DataType
from tensorir.nodes.expr import FloatImm, IntImm, PrimExpr, Var
from tensorir.nodes.ops import as_expr, const
from tensorir.nodes.stmt import Block
from tensorir.script import parse_index_map

if TYPE_CHECKING:
    from schedule.trace.names import Names


class IndexMapOperand(Operand):
    """A map of indices; a function becomes one."""

    stub = "IndexMap | Callable[..., Any] | None"

    def accept(self, call: Call, param: Parameter, path: str, value: Any) -> Any:
        """Return an index map of the block's axes, or of the indices of its buffer."""
        if isinstance(value, IndexMap) or (value is None and not param.required):
            return value
        if not callable(value):
            call.refuse(path, "an IndexMap or a function of indices", value)
        block = call.block()
        dtype = _index_dtype(block)
        buffer = call.accepted.get("buffer")
        try:
            if buffer is None:
                return IndexMap.from_func(value, len(block.iter_vars), index_dtype=dtype)
            side, index = buffer
            ndim = len(regions_of(block, side)[index].region)
            made, separators = IndexMap.from_func_with_separators(value, ndim, index_dtype=dtype)
        except ValueError as error:
            call.reject(path, f"is not an index map that can be used here: {error}")
        if separators:
            operands = [call.accepted["block"], buffer, tuple(separators)]
            call.follow_ups.append(("SetAxisSeparator", operands))
        return made

    def checked(self, param: Parameter, value: Any, known: Mapping[str, Any], where: str) -> Any:
        """Return an index map, None where there need not be one."""
        if isinstance(value, str):
            return index_map_of(value, known, where)
        if not isinstance(value, IndexMap) and (value is not None or param.required):
            raise TraceTypeError(f"TypeError: {where}: {value!r} is not an index map")
        return value


class PadValueOperand(IndexMapOperand):
    """The value of padding: a number, or an index map that returns one."""

    stub = "ExprRV | float | IndexMap | Callable[..., Any] | None"

    def accept(self, call: Call, param: Parameter, path: str, value: Any) -> Any:
        """Return an index map to the value in the type of the buffer, None if it is not given."""
        if value is None or isinstance(value, IndexMap):
            return value
        block = call.block()
        side, index = call.accepted["buffer"]
        dtype = regions_of(block, side)[index].buffer.dtype
        ndim = len(call.accepted["index_map"].final_indices)
        if callable(value):
            index_dtype = _index_dtype(block)
            try:
                index_map = IndexMap.from_func(value, ndim=ndim, index_dtype=index_dtype)
            except ValueError as error:
                call.reject(path, f"is not a function of the new indices: {error}")
            # The types that Python's numbers have by now.
            plain = {IntImm: index_dtype, FloatImm: FLOAT32}
            final = [
                _as_element(f.value, f, dtype)  # type: ignore[attr-defined]
                if plain.get(type(f)) is f.dtype
                else f
                for f in index_map.final_indices
            ]
            return IndexMap(index_map.initial_indices, final)
        if not isinstance(value, (bool, int, float, PrimExpr)):
            call.refuse(path, "a number, an IndexMap or a function of the new indices", value)
        indices = [Var(f"axis{k}", _index_dtype(block)) for k in range(ndim)]
        return IndexMap(indices, [_as_element(value, as_expr(value), dtype)])


class RangesOperand(IndexMapOperand):
    """A function of the block's axes that gives begins and ends, as an index map to these."""

    stub = "IndexMap | Callable[..., Any]"

    def accept(self, call: Call, param: Parameter, path: str, value: Any) -> Any:
        """Return the map; one expression in the place of a pair is a single element."""
        if isinstance(value, IndexMap):
            return value
        if not callable(value):
            call.refuse(path, "a function of the block's axes that gives a list of ranges", value)
        block = call.block()
        axes = [Var(axis.var.name, axis.var.dtype) for axis in block.iter_vars]
        try:
            inspect.signature(value).bind(*axes)
        except (TypeError, ValueError) as error:
            call.reject(path, f"cannot be called with the block's {len(axes)} axes: {error}")
        ranges = value(*axes)
        if not isinstance(ranges, (list, tuple)):
            call.refuse(f"{path}(...)", "a list of ranges", ranges)
        ends: list[Any] = []
        for k, part in enumerate(ranges):
            if isinstance(part, (list, tuple)) and len(part) == 2:
                ends += part
            elif isinstance(part, (PrimExpr, int)):
                ends += [part, part + 1]
            else:
                call.refuse(f"{path}(...)[{k}]", "an expression or a pair (begin, end)", part)
        regions = regions_of(block, call.accepted["buf_type"])
        index = call.accepted["buffer_index"]
        if 0 <= index < len(regions) and len(regions[index].region) != len(ranges):
            call.reject(
                path,
                f"gives {len(ranges)} range(s), but {regions[index].buffer.name} has "
                f"{len(regions[index].region)} dimension(s)",
            )
        return IndexMap(axes, ends)

    def text(self, param: Parameter, value: Any, names: Names) -> str:
        """Return a function that gives a list of pairs."""
        return names.ranges(value)

    def read(self, node: ast.expr, read: Callable[..., Any]) -> Any:
        """Return the map; begins and ends are given in pairs."""
        if not isinstance(node, ast.Lambda) or not isinstance(node.body, ast.List):
            return read(node)
        ends: list[ast.expr] = []
        for pair in node.body.elts:
            ends += pair.elts if isinstance(pair, ast.Tuple) else [pair]
        flat = ast.Lambda(node.args, ast.Tuple(ends, ast.Load()))
        return read(node, ast.unparse(flat))


def index_map_of(text: str, known: Mapping[str, Any], where: str) -> IndexMap:
    """Return the index map that a trace has as text, or as an object dump."""
    if not text.lstrip().startswith("{"):
        return parse_index_map(text, known)
    try:
        return read_index_map(text, known)
    except TypeError as error:
        raise TraceTypeError(f"TypeError: {where}: {error}") from None


def _index_dtype(block: Block) -> DataType:
    """Return the type of the indices of a map: that of the block's axes, or of what it touches."""
    if block.iter_vars:
        return block.iter_vars[0].var.dtype
    regions = (*block.reads, *block.writes)
    return regions[0].region[0].min.dtype if regions and regions[0].region else INT64


def _as_element(value: Any, written: PrimExpr, dtype: DataType) -> PrimExpr:
    """Return a Python number in the type of a buffer, where both are integers or both floats.

    A typed value keeps its type, and is refused if that type differs.
    """
    whole = type(value) is int and dtype.is_integral and not dtype.is_bool
    if whole or (type(value) is bool and dtype.is_bool):
        return const(value, dtype)
    return const(value, dtype) if type(value) is float and dtype.is_float else written
