"""The Python text of a trace: one call a line, handles named as they are defined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedule.instruction import Instruction
from schedule.operands.operand import Parameter
from schedule.trace.names import Anonymous, Names
from tensorir.dialect import Dialect


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
    """Return an instruction as a call with `_` for every random variable."""
    return _line(inst, None, Anonymous("tensorir"))


Instruction.printer = instruction_text


def _line(inst: Instruction, decision: Any, names: Names) -> str:
    arguments: list[str] = []
    for param, value in zip(inst.kind.params, inst.values, strict=True):
        arguments.extend(_argument(param, value, names))
    if decision is not None:
        arguments.append(f"decision={names.value(decision)}")
    outputs = [names.define(rv) for rv in inst.outputs]
    target = ", ".join(outputs)
    if inst.kind.several and len(outputs) == 1:
        target += ","
    call = f"sch.{inst.kind.method}({', '.join(arguments)})"
    return f"{target} = {call}" if outputs else call


def _argument(param: Parameter, value: Any, names: Names) -> list[str]:
    operand = param.operand
    if param.variadic:
        return [names.value(item) for item in value]
    if operand.omit_empty and not value:
        return []
    text = operand.text(param, value, names)
    return [text if operand.unnamed else f"{param.name}={text}"]
