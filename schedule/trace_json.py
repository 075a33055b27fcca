"""The JSON form of a trace: `[[kind, inputs, attrs, outputs], ...], [[index, decision], ...]`.

Random variables are their names. A string constant among the inputs is wrapped in an extra pair of
quotes; arithmetic on sampled numbers and index maps are script text, which is parsed, never
executed. The flags of a primitive are 0 and 1; other truth values are `true` and `false`. Every
output has a name of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedule.handles import BlockRV, LoopRV
from schedule.instruction import Instruction, InstructionKind, Parameter
from schedule.operand_types import matches, python_number, type_text
from schedule.trace_names import Names
from schedule.trace_object_dump import read_index_map
from tensorir.errors import TensorIRError
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.expr import FloatImm, IntImm, PrimExpr, Var
from tensorir.script import parse_expr, parse_index_map


class TraceError(TensorIRError, ValueError):
    """A saved trace is malformed, or was recorded on another program."""


class TraceTypeError(TraceError, TypeError):
    """A saved trace has a value of a type that cannot be where it is."""


class TraceIndexError(TraceError, IndexError):
    """A trace uses a handle or a number that no instruction before gave."""


def to_json(insts: Sequence[Instruction], decisions: Mapping[Instruction, Any]) -> list[Any]:
    """Return instructions and their decisions as plain lists, strings and numbers."""
    names = Names("tvm")
    rows: list[Any] = []
    for inst in insts:
        pairs = zip(inst.kind.params, inst.values, strict=True)
        # Flags are 0 and 1, as TVM writes them; other truth values stay what they are.
        inputs, attrs = inst.kind.pack([int(v) if p.annotation is bool else v for p, v in pairs])
        rows.append(
            [
                inst.kind.name,
                [_input(value, names) for value in inputs],
                [_attr(value, names) for value in attrs],
                [names.define(rv) for rv in inst.outputs],
            ]
        )
    decided = [[k, _plain(decisions[i])] for k, i in enumerate(insts) if i in decisions]
    return [rows, decided]


def _input(value: Any, names: Names) -> Any:
    if value is None:
        return "None"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (tuple, list)):
        return [_input(item, names) for item in value]
    if isinstance(value, dict):
        return {key: _input(item, names) for key, item in value.items()}
    if isinstance(value, (int, float)):
        return value
    return names.text(value)


def _attr(value: Any, names: Names) -> Any:
    if isinstance(value, IndexMap):
        return names.text(value)
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, (IntImm, FloatImm)):
        return python_number(value)
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def from_json(obj: Any) -> tuple[list[Instruction], dict[Instruction, Any]]:
    """Return the instructions and decisions that `to_json` wrote.

    Raises TraceError for a wrong structure, an unknown kind, an undefined name or a value that
    cannot occur; it says in which instruction.
    """
    well_formed = (
        isinstance(obj, (list, tuple))
        and len(obj) == 2
        and all(isinstance(part, (list, tuple)) for part in obj)
    )
    if not well_formed:
        raise TraceError("ValueError: a trace is a list of its instructions and its decisions")
    known: dict[str, Any] = {"inline": LoopRV.inline_rv(), "root": LoopRV.root_rv()}
    insts = [_instruction(k, row, known) for k, row in enumerate(obj[0])]
    decisions: dict[Instruction, Any] = {}
    for entry in obj[1]:
        if not isinstance(entry, (list, tuple)) or len(entry) != 2 or not _is_int(entry[0]):
            raise TraceError(f"ValueError: a decision is [instruction index, value], got {entry!r}")
        index = int(entry[0])
        if not 0 <= index < len(insts):
            raise TraceError(
                f"ValueError: decision for instruction {index}, but there are {len(insts)}"
            )
        inst = insts[index]
        if not inst.kind.has_decision:
            raise TraceError(f"{inst.kind.name}: ValueError: instruction {index} takes no decision")
        decisions[inst] = entry[1]
    return insts, decisions


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _instruction(index: int, row: Any, known: dict[str, Any]) -> Instruction:
    shaped = (
        isinstance(row, (list, tuple))
        and len(row) == 4
        and isinstance(row[0], str)
        and all(isinstance(part, (list, tuple)) for part in row[1:])
        and all(isinstance(name, str) for name in row[3])
    )
    if not shaped:
        raise TraceError(
            f"ValueError: instruction {index} should be [name, inputs, attrs, outputs], got {row!r}"
        )
    try:
        kind = InstructionKind.get(row[0])
    except AttributeError as error:
        raise TraceError(f"ValueError: instruction {index}: {error}") from error
    inputs, attrs = _modernize(row[0], list(row[1]), list(row[2]))
    where = f"instruction {index} ({row[0]})"
    try:
        values = kind.unpack([_read(v, known, where) for v in inputs], attrs)
        typed = [
            checked_value(p, v, known, f"{where}: `{p.name}`")
            for p, v in zip(kind.params, values, strict=True)
        ]
    except TraceError:
        raise
    except TypeError as error:
        raise TraceTypeError(f"{where}: {error}") from error
    except (TensorIRError, ValueError, RecursionError) as error:
        raise TraceError(f"{where}: {error}") from error
    outputs = []
    for name in row[3]:
        if name in known:
            raise TraceError(
                f"ValueError: {where}: the output {name!r} has the name of another; give each "
                "output of the trace a name of its own"
            )
        outputs.append(define_output(kind, name, known))
    return Instruction(kind, typed, outputs)


def define_output(kind: InstructionKind, name: str, known: dict[str, Any]) -> Any:
    """Return a new random variable for an output, known by `name` from here on; None for `_`."""
    if name == "_":
        return None
    if kind.result.startswith("block"):
        rv: Any = BlockRV()
    elif kind.result.startswith("loop"):
        rv = LoopRV()
    else:
        rv = Var(name)
    known[name] = rv
    return rv


def _read(value: Any, known: Mapping[str, Any], where: str) -> Any:
    if isinstance(value, str):
        if len(value) >= 2 and value[0] == value[-1] == '"':
            return value[1:-1]
        if value == "None":
            return None
        if not value:
            raise TraceError(f"ValueError: {where}: an input is an empty string")
        if value in known:
            return known[value]
        if value.lstrip().startswith(("lambda", "tvm.tir.IndexMap.from_func(", "{")):
            return _index_map(value, known, where)
        if value.isidentifier():
            raise TraceError(f"ValueError: {where}: random variable {value} is not defined")
        return parse_expr(value, known)
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(_read(item, known, where) for item in value)
    if isinstance(value, dict):
        return {str(key): _read(item, known, where) for key, item in value.items()}
    raise TraceTypeError(f"TypeError: {where}: an input cannot be {value!r}")


def _index_map(text: str, known: Mapping[str, Any], where: str) -> IndexMap:
    if not text.lstrip().startswith("{"):
        return parse_index_map(text, known)
    try:
        return read_index_map(text, known)
    except TypeError as error:
        raise TraceTypeError(f"TypeError: {where}: {error}") from None


def checked_value(param: Parameter, value: Any, known: Mapping[str, Any], where: str) -> Any:
    """Return a value as its parameter has it; raise for one that it cannot have."""
    kind, annotation = param.operand.kind, param.annotation
    if kind == "plain":
        if annotation is bool and value in (0, 1):
            return bool(value)
        if not matches(annotation, value):
            raise TraceTypeError(
                f"TypeError: {where}: a value is {value!r}, where {type_text(annotation)} belongs"
            )
    if kind in ("index_map", "pad_value", "ranges"):
        if isinstance(value, str):
            return _index_map(value, known, where)
        if not isinstance(value, IndexMap) and (value is not None or param.required):
            raise TraceTypeError(f"TypeError: {where}: {value!r} is no index map")
    if isinstance(value, list):
        value = tuple(tuple(v) if isinstance(v, list) else v for v in value)
    wanted = _HANDLES.get(kind)
    if wanted is not None:
        what, types = wanted
        listed = param.operand.many or param.variadic or kind == "block_list_or_loop"
        items = value if listed and isinstance(value, tuple) else [value]
        empty = param.operand.many and value is None
        if not empty and not all(isinstance(item, types) for item in items):
            raise TraceError(f"ValueError: {where}: {shown_value(value)} is no {what}")
    if kind in ("expr", "ints", "buffer_index"):
        listed = isinstance(value, tuple) and kind != "buffer_index"
        for number in value if listed else [value]:
            if not _is_int(number) and (kind != "expr" or not isinstance(number, _NUMBERS)):
                raise TraceTypeError(f"TypeError: {where}: {number!r} is no whole number")
    return python_number(value) if isinstance(value, (IntImm, FloatImm)) else value


def shown_value(value: Any) -> str:
    """Return the text of a misplaced value in an error."""
    if isinstance(value, (BlockRV, LoopRV)):
        return "a block" if isinstance(value, BlockRV) else "a loop"
    return repr(value)


_NUMBERS = (PrimExpr, type(None))
_HANDLES: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "block": ("block", BlockRV),
    "loop": ("loop", LoopRV),
    "block_or_loop": ("block or loop", (BlockRV, LoopRV)),
    "block_list_or_loop": ("loop or list of blocks", (BlockRV, LoopRV)),
}
"""Names and types of the handles that operands take, by kind of operand."""


def _modernize(name: str, inputs: list[Any], attrs: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the operands of an instruction written by an older release in today's order."""
    if name == "TransformLayout" and len(inputs) == 1 and len(attrs) >= 3:
        index_map = attrs.pop(2)
        inputs.append(index_map)
        attrs += [None, 0][len(attrs) - 2 :]
    return inputs, attrs
