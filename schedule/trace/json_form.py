"""The JSON form of a trace: `[[kind, inputs, attrs, outputs], ...], [[index, decision], ...]`.

Random variables are written as their names. A string constant among the inputs is wrapped in an
extra pair of quotes; arithmetic on sampled numbers and index maps are script text, which is parsed,
never executed. The flags of a primitive are 0 and 1; other truth values are `true` and `false`.
Every output has its own name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from schedule.errors import TraceError, TraceTypeError
from schedule.handles import LoopRV
from schedule.instruction import Instruction, InstructionKind
from schedule.operands.index_maps import index_map_of
from schedule.operands.operand import mapped, python_number
from schedule.operands.values import is_whole
from schedule.trace.python_text import Names
from tensorir.errors import TensorIRError
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.expr import FloatImm, IntImm
from tensorir.script import parse_expr


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
                mapped(inputs, partial(_input, names=names), list),
                mapped(attrs, partial(_attr, names=names), list),
                [names.define(rv) for rv in inst.outputs],
            ]
        )
    written = partial(_attr, names=names)
    decided = [
        [k, mapped(decisions[i], written, list)] for k, i in enumerate(insts) if i in decisions
    ]
    return [rows, decided]


def _input(value: Any, names: Names) -> Any:
    if value is None:
        return "None"
    if isinstance(value, str):
        return f'"{value}"'
    return value if isinstance(value, (int, float)) else names.text(value)


def _attr(value: Any, names: Names) -> Any:
    if isinstance(value, (IntImm, FloatImm)):
        return python_number(value)
    return names.text(value) if isinstance(value, IndexMap) else value


def from_json(obj: Any) -> tuple[list[Instruction], dict[Instruction, Any]]:
    """Return the instructions and decisions that `to_json` wrote.

    Raises TraceError, which names the instruction, for a wrong structure, an unknown kind, an
    undefined name or an invalid value.
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
        if not isinstance(entry, (list, tuple)) or len(entry) != 2 or not is_whole(entry[0]):
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
        values = kind.unpack([mapped(v, partial(_read, known, where)) for v in inputs], attrs)
        typed = [
            p.operand.checked(p, v, known, f"{where}: `{p.name}`")
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
                f"ValueError: {where}: two outputs have the name {name!r}; give each "
                "output of the trace its own name"
            )
        outputs.append(define_output(kind, name, known))
    return Instruction(kind, typed, outputs)


def define_output(kind: InstructionKind, name: str, known: dict[str, Any]) -> Any:
    """Return a new random variable for an output, and add its `name` to `known`; None for `_`."""
    if name == "_":
        return None
    known[name] = rv = kind.output(name)
    return rv


def _read(known: Mapping[str, Any], where: str, value: Any) -> Any:
    """Return the value of an input."""
    if isinstance(value, (int, float)):
        return value
    if not isinstance(value, str):
        raise TraceTypeError(f"TypeError: {where}: an input cannot be {value!r}")
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return value[1:-1]
    if value == "None":
        return None
    if not value:
        raise TraceError(f"ValueError: {where}: an input is an empty string")
    if value in known:
        return known[value]
    if value.lstrip().startswith(("lambda", "tvm.tir.IndexMap.from_func(", "{")):
        return index_map_of(value, known, where)
    if value.isidentifier():
        raise TraceError(f"ValueError: {where}: random variable {value} is not defined")
    return parse_expr(value, known)


def _modernize(name: str, inputs: list[Any], attrs: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the operands of an instruction from an older release in the current order."""
    if name == "TransformLayout" and len(inputs) == 1 and len(attrs) >= 3:
        index_map = attrs.pop(2)
        inputs.append(index_map)
        attrs += [None, 0][len(attrs) - 2 :]
    return inputs, attrs
