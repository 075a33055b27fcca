"""The Python text of a trace: one call a line, handles named as they are defined."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from schedule.instruction import Instruction, Parameter
from schedule.operand_types import python_number
from schedule.trace_names import Anonymous, Names
from tensorir.dialect import Dialect
from tensorir.nodes.expr import FloatImm, IntImm
from tensorir.quoting import quote


def python_lines(
    insts: Sequence[Instruction], decisions: Mapping[Instruction, Any], dialect: Dialect
) -> list[str]:
    """Return the instructions as calls of `sch` methods."""
    names = Names(dialect)
    return [_line(inst, decisions.get(inst), names) for inst in insts]


def python_function(
    insts: Sequence[Instruction], decisions: Mapping[Instruction, Any], dialect: Dialect
) -> str:
    """Return the instructions as a function that applies them to a schedule, with its imports."""
    names = Names(dialect)
    lines = [_line(inst, decisions.get(inst), names) for inst in insts]
    if dialect == "tensorir":
        header, owner = [*_imports(names), ""], ""
    else:
        header, owner = ["# from tvm import tir"], "tir."
    signature = f"def apply_trace(sch: {owner}Schedule) -> None:"
    return "\n".join([*header, signature, *(f"  {line}" for line in lines or ["pass"])])


def _imports(names: Names) -> list[str]:
    imported = {**names.imported, "schedule": {"Schedule", *names.imported["schedule"]}}
    return [f"from {k} import {', '.join(sorted(v))}" for k, v in imported.items() if v]


def instruction_text(inst: Instruction) -> str:
    """Return an instruction as a call in which every random variable is `_`."""
    return _line(inst, None, Anonymous("tensorir"))


Instruction.printer = instruction_text


def _line(inst: Instruction, decision: Any, names: Names) -> str:
    arguments: list[str] = []
    for param, value in zip(inst.kind.params, inst.values, strict=True):
        arguments.extend(_argument(param, value, names))
    if decision is not None:
        arguments.append(f"decision={_value(decision, names)}")
    outputs = [names.define(rv) for rv in inst.outputs]
    target = ", ".join(outputs)
    if inst.kind.result in ("blocks", "loops", "exprs") and len(outputs) == 1:
        target += ","
    call = f"sch.{inst.kind.method}({', '.join(arguments)})"
    return f"{target} = {call}" if outputs else call


_OF_FLOATS: Final = (float, Sequence[float])
"""Parameters that take a whole number for a float, so that it need not show what it is."""


def _argument(param: Parameter, value: Any, names: Names) -> list[str]:
    if param.variadic:
        return [_value(item, names) for item in value]
    if param.operand.omit_empty and not value:
        return []
    text = _value(value, names, keep_type=param.annotation not in _OF_FLOATS)
    if param.operand.kind == "buffer":
        text = f'("{value[0]}", {value[1]})'
    elif param.operand.kind == "ranges":
        text = names.ranges(value)
    return [text if param.operand.unnamed else f"{param.name}={text}"]


def _value(value: Any, names: Names, *, keep_type: bool = False) -> str:
    """Return a value as Python text; with `keep_type` a whole number that is a float shows it."""
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, (IntImm, FloatImm)):
        value = python_number(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return f'float("{value}")'
        text = f"{value:.17g}"
        return f"{text}.0" if keep_type and text.lstrip("-").isdigit() else text
    if isinstance(value, (tuple, list)):
        parts = (_value(item, names, keep_type=keep_type) for item in value)
        return f"[{', '.join(parts)}]"
    if isinstance(value, dict):
        pairs = (
            f"{quote(key)}: {_value(value[key], names, keep_type=keep_type)}"
            for key in sorted(value)
        )
        return "{" + ", ".join(pairs) + "}"
    return names.text(value)
