"""The Python text of a trace, one call per line, and the names of its random variables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from schedule.handles import BlockRV, Handle, LoopRV
from schedule.instruction import Instruction
from schedule.operands.operand import Parameter, python_number, substituted, variables_of
from schedule.primitives.annotate import ENTER_COMPOSITE, EXIT_COMPOSITE
from schedule.sref import INLINE_MARK, ROOT_MARK, StmtSRef
from tensorir.dialect import Dialect, checked_dialect
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.expr import FloatImm, IntImm, PrimExpr, Var
from tensorir.nodes.stmt import Block, For, sequence
from tensorir.quoting import quote


def python_lines(
    insts: Sequence[Instruction],
    decisions: Mapping[Instruction, Any],
    dialect: Dialect,
    *,
    brief: bool = False,
) -> list[str]:
    """Return the instructions as calls of `sch` methods.

    With `brief`, arguments that are the defaults of their parameters are left out.
    """
    names = Names(dialect)
    return [_line(inst, decisions.get(inst), names, brief) for inst in insts]


def python_function(
    insts: Sequence[Instruction], decisions: Mapping[Instruction, Any], dialect: Dialect
) -> str:
    """Return the instructions as a function that applies them to a schedule, with its imports."""
    names = Names(dialect)
    lines = _indented(insts, [_line(inst, decisions.get(inst), names) for inst in insts], dialect)
    if dialect == "tensorir":
        header, owner = [*_imports(names), ""], ""
    else:
        header, owner = ["# from tvm import tir"], "tir."
    signature = f"def apply_trace(sch: {owner}Schedule) -> None:"
    return "\n".join([*header, signature, *(f"  {line}" for line in lines or ["pass"])])


def _indented(insts: Sequence[Instruction], lines: list[str], dialect: Dialect) -> list[str]:
    """Return the lines of instructions, those of a composite below a `with` of its name.

    TVM has no composites: in its dialect they are comments. A mark without its partner, as a part
    of a trace may have it, stays a call.
    """
    ends: dict[int, int] = {}
    begins: list[int] = []
    for k, inst in enumerate(insts):
        if inst.kind.name == ENTER_COMPOSITE:
            begins.append(k)
        elif inst.kind.name == EXIT_COMPOSITE and begins:
            ends[begins.pop()] = k
    closing = set(ends.values())
    indented: list[str] = []
    depth = 0
    for k, line in enumerate(lines):
        if k in ends and dialect == "tensorir":
            head = line.replace("sch.enter_composite", "with sch.composite", 1)
            indented.append("  " * depth + f"{head}:")
            depth += 1
            if ends[k] == k + 1:
                indented.append("  " * depth + "pass")
        elif k in ends:
            indented.append(f"# {insts[k].values[0]}({insts[k].values[1]})")
        elif k in closing:
            depth -= dialect == "tensorir"
        else:
            indented.append("  " * depth + line)
    return indented


def _imports(names: Names) -> list[str]:
    imported = {**names.imported, "schedule": {"Schedule", *names.imported["schedule"]}}
    return [f"from {k} import {', '.join(sorted(v))}" for k, v in imported.items() if v]


def instruction_text(inst: Instruction) -> str:
    """Return an instruction as a call with `_` for every random variable."""
    return _line(inst, None, Anonymous("tensorir"))


Instruction.printer = instruction_text


def _line(inst: Instruction, decision: Any, names: Names, brief: bool = False) -> str:
    arguments: list[str] = []
    for param, value in zip(inst.kind.params, inst.values, strict=True):
        if not (brief and not param.required and param.default is value):
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


# -------------------------------------------------------------------------------------------- names


class Names:
    """Hands out `b0`, `l1`, `v2`, ... from one counter, in order of definition.

    `imported` has the names that the texts import, by package.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = checked_dialect(dialect)
        self.imported: dict[str, set[str]] = {"schedule": set(), "tensorir": set()}
        self._names: dict[Any, str] = {}
        self._count = 0

    def define(self, rv: Any) -> str:
        """Return the name of a new output; None is named `_` and advances the counter as well."""
        if rv in self._names:
            raise ValueError(f"a random variable is produced twice: {self._names[rv]}")
        prefix = "b" if isinstance(rv, BlockRV) else "l" if isinstance(rv, LoopRV) else "v"
        name = f"{prefix}{self._count}"
        self._count += 1
        if rv is None:
            return "_"
        self._names[rv] = name
        return name

    def text(self, value: Any) -> str:
        """Return the name of a random variable, or the script text of an expression."""
        if value in self._names:
            return self._names[value]
        if value is LoopRV.inline_rv() or value is LoopRV.root_rv():
            mark = "inline" if value is LoopRV.inline_rv() else "root"
            if self.dialect != "tensorir":
                return mark
            self.imported["schedule"].add("LoopRV")
            return f"LoopRV.{mark}_rv()"
        if isinstance(value, PrimExpr):
            return self._importing(self._named(value).script())
        if isinstance(value, IndexMap):
            return self._importing(self._named(value).script(dialect=self.dialect))
        raise ValueError(f"{value!r} was not produced by an instruction of the trace")

    def value(self, value: Any, *, keep_type: bool = False) -> str:
        """Return a value as Python; with `keep_type` a whole number that is a float shows it."""
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
            parts = (self.value(item, keep_type=keep_type) for item in value)
            return f"[{', '.join(parts)}]"
        if isinstance(value, dict):
            pairs = sorted(value.items())
            texts = (f"{quote(k)}: {self.value(v, keep_type=keep_type)}" for k, v in pairs)
            return "{" + ", ".join(texts) + "}"
        return self.text(value)

    def ranges(self, index_map: IndexMap) -> str:
        """Return an index map to begins and ends as a function that gives a list of pairs."""
        named = self._named(index_map).with_fit_names()
        axes = ", ".join(var.name for var in named.initial_indices)
        ends = [str(e) for e in named.final_indices]
        pairs = ", ".join(f"({b}, {e})" for b, e in zip(ends[::2], ends[1::2], strict=True))
        return self._importing(f"lambda {axes}: [{pairs}]")

    def _importing(self, text: str) -> str:
        for name in ("IndexMap", "T"):
            if f"{name}." in text:
                self.imported["tensorir"].add(name)
        return text

    def _named(self, value: Any) -> Any:
        """Return an expression or index map with random variables shown by their names."""
        own = [v for v in variables_of(value) if v in self._names]
        return substituted(value, {v: Var(self._names[v], v.dtype) for v in own})


class Anonymous(Names):
    """Names every random variable `_`, to show an instruction without its trace."""

    def define(self, rv: Any) -> str:
        """Return the name of an output."""
        return "_"

    def text(self, value: Any) -> str:
        """Return `_` for a random variable, and the script text of expressions."""
        return "_" if isinstance(value, (BlockRV, LoopRV, Var)) else super().text(value)

    def _named(self, value: Any) -> Any:
        return substituted(value, {v: Var("_", v.dtype) for v in variables_of(value)})


# ------------------------------------------------------------------------------------ handles


def handle_text(handle: Handle, value: StmtSRef | None, insts: Sequence[Instruction]) -> str:
    """Return the name of a handle in a trace, and its value: `l4: for j_0 in range(8)`."""
    name = _name_in(insts, handle)
    return f"{name}: {_meaning(value)}" if name else _meaning(value)


def _name_in(insts: Sequence[Instruction], handle: Handle) -> str:
    names = Names("tensorir")
    for inst in insts:
        for output in inst.outputs:
            name = names.define(output)
            if output is handle:
                return name
    return ""


def _meaning(value: StmtSRef | None) -> str:
    if value is None:
        return "removed"
    if value is INLINE_MARK:
        return "inline into the consumers"
    if value is ROOT_MARK:
        return "keep it at the root"
    if isinstance(value.stmt, Block):
        return f'block "{value.stmt.name_hint}"'
    if isinstance(value.stmt, For):
        return _head(value.stmt)
    by = value.consumed_by.replace("_", "-")
    return f"gone, {by} replaced it" if by else "gone"


def _head(loop: For) -> str:
    """Return the first line of a loop without its colon."""
    return loop.with_(body=sequence([])).script(syntax_sugar=False).splitlines()[-2].rstrip(":")
