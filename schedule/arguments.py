"""The arguments of primitives: as users pass them, as traces record them, as functions get them.

`accept` checks a user's argument and returns the form that is recorded: handles stay handles,
names of blocks and buffers are looked up. `resolve` turns a recorded argument into the references
and numbers that the primitive's function takes; replaying a trace starts there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, Protocol

from schedule.errors import ArgumentError, ArgumentTypeError
from schedule.handles import BlockRV, LoopRV
from schedule.instruction import Parameter
from schedule.operand_types import matches, python_number, type_text
from schedule.sref import StmtSRef
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import INT64, DataType
from tensorir.nodes.expr import FloatImm, IntImm, PrimExpr, Var
from tensorir.nodes.ops import as_expr, const
from tensorir.nodes.stmt import Block


class HandleTable(Protocol):
    """The interface of a schedule that resolves the handles and numbers in arguments."""

    def get_block(self, name: str, /) -> BlockRV:
        """Return a new handle of a block."""

    def get_sref(self, rv: BlockRV | LoopRV, /) -> StmtSRef:
        """Return the loop or block behind a handle."""

    def get(self, expr: PrimExpr, /) -> int | None:
        """Return the value of a sampled number, or of arithmetic on such."""

    def bind_index_map(self, index_map: IndexMap, /) -> IndexMap:
        """Return an index map with the sampled numbers in it filled in."""


class Arguments:
    """One call of a primitive while its arguments are being checked."""

    def __init__(self, schedule: HandleTable, method: str) -> None:
        self.schedule = schedule
        self.method = method
        self.accepted: dict[str, Any] = {}
        self.follow_ups: list[tuple[str, list[Any]]] = []
        """Instructions, by kind, that the arguments ask for after the call itself."""

    def accept(self, param: Parameter, value: Any) -> Any:
        """Return `value` in the form that the trace records.

        Raises ArgumentTypeError naming the method, the parameter, what it takes and what it got;
        ArgumentError for what does not fit the block.
        """
        recorded = _ACCEPT[param.operand.kind](self, param, param.name, value)
        self.accepted[param.name] = recorded
        return recorded

    def refuse(self, path: str, expected: str, value: Any) -> NoReturn:
        """Raise the error for an argument of the wrong type."""
        raise ArgumentTypeError(self.method, path, expected, value)

    def reject(self, path: str, reason: str) -> NoReturn:
        """Raise the ArgumentError for an argument that does not fit the block."""
        raise ArgumentError(self.method, path, reason)

    def block_sref(self) -> StmtSRef:
        """Return the block that the call is about; buffer names are looked up in it."""
        rv = self.accepted.get("block")
        if not isinstance(rv, BlockRV):
            self.refuse("block", "a BlockRV where a buffer is named", rv)
        return self.schedule.get_sref(rv)


def _accept_block(call: Arguments, param: Parameter, path: str, value: Any) -> Any:
    if param.operand.many:
        if value is None:
            return ()
        if not isinstance(value, (list, tuple)):
            value = [value]
        return tuple(_one_block(call, f"{path}[{k}]", item) for k, item in enumerate(value))
    return _one_block(call, path, value)


def _one_block(call: Arguments, path: str, value: Any) -> BlockRV:
    if isinstance(value, str):
        return call.schedule.get_block(value)
    if not isinstance(value, BlockRV):
        call.refuse(path, "a BlockRV or the name of a block", value)
    return value


def _accept_loop(call: Arguments, param: Parameter, path: str, value: Any) -> Any:
    if not param.operand.many:
        if not isinstance(value, LoopRV):
            call.refuse(path, "a LoopRV", value)
        return value
    if not isinstance(value, (list, tuple)):
        call.refuse(path, "a list of LoopRVs", value)
    for k, item in enumerate(value):
        if not isinstance(item, LoopRV):
            call.refuse(f"{path}[{k}]", "a LoopRV", item)
    return tuple(value)


def _accept_block_or_loop(call: Arguments, param: Parameter, path: str, value: Any) -> Any:
    if not isinstance(value, (BlockRV, LoopRV)):
        call.refuse(path, "a BlockRV or LoopRV", value)
    return value


def _accept_block_list_or_loop(call: Arguments, param: Parameter, path: str, value: Any) -> Any:
    if isinstance(value, LoopRV):
        return value
    if not isinstance(value, (list, tuple)):
        call.refuse(path, "a LoopRV or a list of BlockRVs", value)
    return tuple(_one_block(call, f"{path}[{k}]", item) for k, item in enumerate(value))


def _accept_expr(call: Arguments, param: Parameter, path: str, value: Any) -> Any:
    if not param.operand.many:
        return _one_number(call, path, value)
    if not isinstance(value, (list, tuple)):
        call.refuse(path, "a list of int, ExprRV or None", value)
    return tuple(_one_number(call, f"{path}[{k}]", item) for k, item in enumerate(value))


def _one_number(call: Arguments, path: str, value: Any) -> Any:
    if value is None or type(value) is int or isinstance(value, PrimExpr):
        return value.value if isinstance(value, IntImm) else value
    call.refuse(path, "an int, an ExprRV or None", value)


def _accept_annotation(call: Arguments, param: Parameter, path: str, value: Any) -> Any:
    if not matches(param.annotation, value):
        call.refuse(path, type_text(param.annotation), value)
    if isinstance(value, (list, tuple)):
        return tuple(
            _accept_annotation(call, param, f"{path}[{k}]", v) for k, v in enumerate(value)
        )
    if isinstance(value, Mapping):
        return {
            str(k): _accept_annotation(call, param, f"{path}[{k!r}]", v) for k, v in value.items()
        }
    if not isinstance(value, (str, int, float, PrimExpr)):
        call.refuse(path, "a str, int, float, ExprRV, or a list or dict of those", value)
    return python_number(value) if isinstance(value, (IntImm, FloatImm)) else value


def _accept_ints(call: Arguments, param: Parameter, path: str, value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        call.refuse(path, "a list of ints", value)
    for k, item in enumerate(value):
        if type(item) is not int:
            call.refuse(f"{path}[{k}]", "an int", item)
    return tuple(value)


def _accept_buffer_index(call: Arguments, param: Parameter, path: str, value: Any) -> Any:
    if type(value) is int:
        return value
    side, index = _find_buffer(call, path, value)
    if side != param.operand.side:
        call.reject(
            path,
            f"names a buffer that the block {side}s, "
            f"but the primitive takes one that it {param.operand.side}s",
        )
    return index


def _accept_buffer(call: Arguments, param: Parameter, path: str, value: Any) -> Any:
    if isinstance(value, (list, tuple)) and len(value) == 2 and value[0] in ("read", "write"):
        side, index = value
        block = call.block_sref().block
        regions = block.reads if side == "read" else block.writes
        if type(index) is not int or not 0 <= index < len(regions):
            call.reject(path, f"is {value!r}, but the block has {len(regions)} {side} region(s)")
        return (side, index)
    if type(value) is int:
        block = call.block_sref().block
        if not 0 <= value < len(block.reads) + len(block.writes):
            call.reject(
                path,
                f"is {value}, but the block has {len(block.reads)} read region(s) "
                f"followed by {len(block.writes)} write region(s)",
            )
        written = value - len(block.reads)
        return ("read", value) if written < 0 else ("write", written)
    return _find_buffer(call, path, value)


def _find_buffer(call: Arguments, path: str, value: Any) -> tuple[str, int]:
    """Return the side and index of a buffer given by name or object; writes win over reads."""
    if not isinstance(value, (str, Buffer)):
        call.refuse(path, "an index, a buffer or the name of one", value)
    block = call.block_sref().block
    for side, regions in (("write", block.writes), ("read", block.reads)):
        found = [
            k
            for k, region in enumerate(regions)
            if region.buffer is value or region.buffer.name == value
        ]
        if len(found) > 1:
            call.reject(
                path,
                f"is ambiguous, the block {side}s {len(found)} buffers called {value!r}; "
                "give its index",
            )
        if found:
            return side, found[0]
    names = sorted({region.buffer.name for region in (*block.reads, *block.writes)})
    wanted = value if isinstance(value, str) else value.name
    call.reject(path, f'names "{wanted}", but block "{block.name_hint}" touches only {names}')


def _accept_index_map(call: Arguments, param: Parameter, path: str, value: Any) -> Any:
    if isinstance(value, IndexMap) or (value is None and not param.required):
        return value
    if not callable(value):
        call.refuse(path, "an IndexMap or a function of indices", value)
    block = call.block_sref().block
    ndim = len(block.iter_vars)
    buffer = call.accepted.get("buffer")
    dtype = _index_dtype(block)
    try:
        if buffer is None:
            return IndexMap.from_func(value, ndim=ndim, index_dtype=dtype)
        side, index = buffer
        ndim = len((block.reads if side == "read" else block.writes)[index].region)
        index_map, separators = IndexMap.from_func_with_separators(value, ndim, index_dtype=dtype)
    except ValueError as error:
        call.reject(path, f"is not an index map that can be used here: {error}")
    if separators:
        operands = [call.accepted["block"], buffer, tuple(separators)]
        call.follow_ups.append(("SetAxisSeparator", operands))
    return index_map


def _index_dtype(block: Block) -> DataType:
    """Return the type of the indices of a map: that of the block's axes, or of what it touches."""
    if block.iter_vars:
        return block.iter_vars[0].var.dtype
    regions = (*block.reads, *block.writes)
    return regions[0].region[0].min.dtype if regions and regions[0].region else INT64


def _accept_pad_value(call: Arguments, param: Parameter, path: str, value: Any) -> Any:
    if value is None or isinstance(value, IndexMap):
        return value
    block = call.block_sref().block
    side, index = call.accepted["buffer"]
    dtype = (block.reads if side == "read" else block.writes)[index].buffer.dtype
    ndim = len(call.accepted["index_map"].final_indices)
    if callable(value):
        try:
            index_map = IndexMap.from_func(value, ndim=ndim, index_dtype=_index_dtype(block))
        except ValueError as error:
            call.reject(path, f"is not a function of the new indices: {error}")
        final = [_as_element(f, dtype) for f in index_map.final_indices]
        return IndexMap(index_map.initial_indices, final)
    if not isinstance(value, (bool, int, float, PrimExpr)):
        call.refuse(path, "a number, an IndexMap or a function of the new indices", value)
    indices = [Var(f"axis{k}", _index_dtype(block)) for k in range(ndim)]
    return IndexMap(indices, [_as_element(as_expr(value), dtype)])


def _as_element(value: PrimExpr, dtype: DataType) -> PrimExpr:
    """Return a constant in the type of a buffer, where both are integers or both floats."""
    if isinstance(value, IntImm) and dtype.is_integral and value.dtype.is_bool is dtype.is_bool:
        return const(value.value, dtype)
    if isinstance(value, FloatImm) and dtype.is_float:
        return const(value.value, dtype)
    return value


def _accept_buffer_side(call: Arguments, param: Parameter, path: str, value: Any) -> Any:
    if not isinstance(value, str):
        call.refuse(path, "'read' or 'write'", value)
    return value


def _accept_ranges(call: Arguments, param: Parameter, path: str, value: Any) -> Any:
    if isinstance(value, IndexMap):
        return value
    if not callable(value):
        call.refuse(path, "a function of the block's axes that gives a list of ranges", value)
    block = call.block_sref().block
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
    regions = block.reads if call.accepted["buf_type"] == "read" else block.writes
    index = call.accepted["buffer_index"]
    if 0 <= index < len(regions) and len(regions[index].region) != len(ranges):
        call.reject(
            path,
            f"gives {len(ranges)} range(s), but {regions[index].buffer.name} has "
            f"{len(regions[index].region)} dimension(s)",
        )
    return IndexMap(axes, ends)


def _accept_plain(call: Arguments, param: Parameter, path: str, value: Any) -> Any:
    if matches(param.annotation, value):
        return tuple(value) if isinstance(value, list) else value
    call.refuse(path, type_text(param.annotation), value)


_ACCEPT: Final[dict[str, Callable[[Arguments, Parameter, str, Any], Any]]] = {
    "block": _accept_block,
    "loop": _accept_loop,
    "block_or_loop": _accept_block_or_loop,
    "block_list_or_loop": _accept_block_list_or_loop,
    "expr": _accept_expr,
    "annotation": _accept_annotation,
    "ints": _accept_ints,
    "buffer_index": _accept_buffer_index,
    "buffer": _accept_buffer,
    "index_map": _accept_index_map,
    "pad_value": _accept_pad_value,
    "ranges": _accept_ranges,
    "buffer_side": _accept_buffer_side,
    "plain": _accept_plain,
}


def resolve(schedule: HandleTable, method: str, param: Parameter, value: Any) -> Any:
    """Return a recorded argument that varies in the form that the primitive's function gets.

    Raises ArgumentError for a mark of a compute location where there must be a loop.
    """
    resolved = _resolve(schedule, value)
    if param.operand.kind in _HANDLES and not param.operand.takes_marks:
        for sref in resolved if isinstance(resolved, list) else (resolved,):
            if sref is not None and sref.stmt is None:
                reason = "is a mark of a compute location; give a loop of the program"
                raise ArgumentError(method, param.name, reason)
    return resolved


_HANDLES: Final = frozenset({"block", "loop", "block_or_loop", "block_list_or_loop"})


def _resolve(schedule: HandleTable, value: Any) -> Any:
    if isinstance(value, (BlockRV, LoopRV)):
        return schedule.get_sref(value)
    if isinstance(value, PrimExpr):
        return schedule.get(value)
    if isinstance(value, tuple):
        return [_resolve(schedule, item) for item in value]
    if isinstance(value, dict):
        return {key: _resolve(schedule, item) for key, item in value.items()}
    if isinstance(value, IndexMap):
        return schedule.bind_index_map(value)
    return value
