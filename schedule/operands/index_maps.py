"""Operands that are functions of indices: maps, values of padding, ranges."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from schedule.errors import TraceTypeError
from schedule.operands.handles import regions_of
from schedule.operands.operand import Call, Operand, Parameter, ValueText
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.dtype import FLOAT32, INT64, DataType
from tensorir.nodes.expr import (
    Add,
    Cast,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Sub,
    Var,
)
from tensorir.nodes.ops import as_expr, const
from tensorir.nodes.stmt import Block
from tensorir.script import parse_index_map


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
            call.reject(path, f"is not a valid index map here: {error}")
        if separators:
            operands = [call.accepted["block"], buffer, tuple(separators)]
            call.follow_ups.append(("SetAxisSeparator", operands))
        return made

    def checked(self, param: Parameter, value: Any, known: Mapping[str, Any], where: str) -> Any:
        """Return an index map, or None if the parameter is optional."""
        if isinstance(value, str):
            return index_map_of(value, known, where)
        if not isinstance(value, IndexMap) and (value is not None or param.required):
            raise TraceTypeError(f"TypeError: {where}: {value!r} is not an index map")
        return value


class PadValueOperand(IndexMapOperand):
    """The value of padding: a number, or an index map that returns one."""

    stub = "ExprRV | float | IndexMap | Callable[..., Any] | None"

    def accept(self, call: Call, param: Parameter, path: str, value: Any) -> Any:
        """Return an index map to the padding value in the dtype of the buffer.

        None without a value.
        """
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
            # The types to which Python's numbers were converted.
            plain = {IntImm: index_dtype, FloatImm: FLOAT32}
            final = [
                _in_buffer_dtype(f.value, f, dtype)  # type: ignore[attr-defined]
                if plain.get(type(f)) is f.dtype
                else f
                for f in index_map.final_indices
            ]
            return IndexMap(index_map.initial_indices, final)
        if not isinstance(value, (bool, int, float, PrimExpr)):
            call.refuse(path, "a number, an IndexMap or a function of the new indices", value)
        indices = [Var(f"axis{k}", _index_dtype(block)) for k in range(ndim)]
        return IndexMap(indices, [_in_buffer_dtype(value, as_expr(value), dtype)])


class RangesOperand(IndexMapOperand):
    """A function from the block's axes to begins and ends of ranges, stored as an index map."""

    stub = "IndexMap | Callable[..., Any]"

    def accept(self, call: Call, param: Parameter, path: str, value: Any) -> Any:
        """Return the map; a single expression instead of a pair means one element."""
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

    def text(self, param: Parameter, value: Any, names: ValueText) -> str:
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
    """Return the index map that a trace stores as text, or as an object dump of TVM."""
    if not text.lstrip().startswith("{"):
        return parse_index_map(text, known)
    try:
        return read_index_map(text, known)
    except TypeError as error:
        raise TraceTypeError(f"TypeError: {where}: {error}") from None


def _index_dtype(block: Block) -> DataType:
    """Return the dtype of the indices of a map: that of the block's axes, or of its regions."""
    if block.iter_vars:
        return block.iter_vars[0].var.dtype
    regions = (*block.reads, *block.writes)
    return regions[0].region[0].min.dtype if regions and regions[0].region else INT64


def _in_buffer_dtype(value: Any, written: PrimExpr, dtype: DataType) -> PrimExpr:
    """Return a Python number in the dtype of a buffer, if both are integers or both floats.

    A typed value keeps its type, and is refused later if that differs.
    """
    whole = type(value) is int and dtype.is_integral and not dtype.is_bool
    if whole or (type(value) is bool and dtype.is_bool):
        return const(value, dtype)
    return const(value, dtype) if type(value) is float and dtype.is_float else written


# ------------------------------------------------------------------------------ maps that TVM saved
#
# Reading index maps out of the object dumps in which TVM saves them.
#
# TVM writes an index map inside a trace as a JSON graph of its nodes. Only the node types that
# occur in index maps are accepted.


_BINARY: Final[dict[str, Callable[[PrimExpr, PrimExpr], PrimExpr]]] = {
    "Add": Add,
    "Sub": Sub,
    "Mul": Mul,
    "FloorDiv": FloorDiv,
    "FloorMod": FloorMod,
    "Min": Min,
    "Max": Max,
}


def read_index_map(text: str, known: Mapping[str, Any]) -> IndexMap:
    """Return the index map in a dump; variables from instructions are replaced by their values.

    Raises TypeError for a dump that is malformed or holds something else.
    """
    try:
        graph = json.loads(text)
        return _Reader(graph["nodes"], known).index_map(int(graph["root"]))
    except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise TypeError(f"the object dump is not an index map: {error}") from None


class _Reader:
    def __init__(self, nodes: list[dict[str, Any]], known: Mapping[str, Any]) -> None:
        self._nodes = nodes
        self._known = known
        self._made: dict[int, Any] = {}

    def index_map(self, number: int) -> IndexMap:
        """Return an index map, with its stored inverse."""
        kind, attrs = self._node(number)
        if kind != "IndexMap":
            raise TypeError(f"its root is a {kind}")
        initial = self._array(int(attrs["initial_indices"]))
        own: list[Var] = []
        for place in initial:
            var_kind, var_attrs = self._node(place)
            if var_kind not in ("Var", "SizeVar"):
                raise TypeError(f"an index is a {var_kind}")
            own.append(self._var(place, var_attrs))
        final = [self._expr(place) for place in self._array(int(attrs["final_indices"]))]
        inverse = int(attrs.get("inverse_index_map", 0) or 0)
        return IndexMap(own, final, self.index_map(inverse) if inverse else None)

    def _node(self, number: int) -> tuple[str, dict[str, str]]:
        if number <= 0:
            raise IndexError(f"node {number} is missing")
        node = self._nodes[number]
        return str(node["type_key"]).rsplit(".", 1)[-1], node.get("attrs") or {}

    def _array(self, number: int) -> list[int]:
        node = self._nodes[number]
        return [int(part) for part in node.get("data", ())]

    def _string(self, reference: str) -> str:
        """Return a string, given as text or as the number of a string node."""
        if reference.isdigit() and int(reference) < len(self._nodes):
            node = self._nodes[int(reference)]
            if "repr_str" in node:
                return str(node["repr_str"])
        return reference

    def _var(self, number: int, attrs: dict[str, str]) -> Var:
        made = self._made.get(number)
        if made is None:
            name = self._string(attrs["name"])
            made = self._made[number] = Var(name, DataType(attrs["dtype"]))
        assert isinstance(made, Var)
        return made

    def _expr(self, number: int) -> PrimExpr:
        if number in self._made:
            found: PrimExpr = self._made[number]
            return found
        kind, attrs = self._node(number)
        if kind in ("Var", "SizeVar"):
            given = self._known.get(self._string(attrs["name"]))
            made = given if isinstance(given, PrimExpr) else self._var(number, attrs)
        elif kind == "IntImm":
            made = IntImm(DataType(attrs["dtype"]), int(attrs["value"]))
        elif kind == "Cast":
            made = Cast(DataType(attrs["dtype"]), self._expr(int(attrs["value"])))
        elif kind in _BINARY:
            a, b = self._expr(int(attrs["a"])), self._expr(int(attrs["b"]))
            made = _BINARY[kind](as_expr(a), as_expr(b))
        else:
            raise TypeError(f"it has a node of type {kind}")
        self._made[number] = made
        return made
