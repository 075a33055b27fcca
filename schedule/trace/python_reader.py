"""Traces read from their Python text, which is parsed and never executed.

The text is what `Trace.script` prints, here or in TVM: calls of the methods of one schedule, whose
outputs have names. Only these names, registered primitives and expressions of the script dialect
are accepted.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final, NoReturn

from schedule.handles import LoopRV
from schedule.instruction import Instruction, InstructionKind
from schedule.operands.handles import shown_value
from schedule.operands.operand import Parameter, python_number
from schedule.primitives.annotate import EXIT_COMPOSITE
from schedule.trace.json_form import define_output
from tensorir.errors import DiagnosticError, TensorIRError
from tensorir.nodes.expr import FloatImm, IntImm
from tensorir.script import parse_expr, parse_index_map
from tensorir.syntax_trees import syntax_tree

_MARKS: Final[dict[str, Callable[[], LoopRV]]] = {
    "inline_rv": LoopRV.inline_rv,
    "root_rv": LoopRV.root_rv,
}


def from_python(text: str) -> tuple[list[Instruction], dict[Instruction, Any]]:
    """Return the instructions and decisions of a text.

    The text is one function of a schedule, or its body alone with the schedule called `sch`;
    imports are skipped. Raises DiagnosticError.
    """
    return _Reader(text).read()


class _Reader:
    """One reading of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.split("\n")
        self._schedule = "sch"
        self._known: dict[str, Any] = {"inline": LoopRV.inline_rv(), "root": LoopRV.root_rv()}
        self._insts: list[Instruction] = []
        self._decisions: dict[Instruction, Any] = {}

    def read(self) -> tuple[list[Instruction], dict[Instruction, Any]]:
        """Return the instructions and decisions."""
        for stmt in self._calls():
            self._step(stmt)
        return self._insts, self._decisions

    def _step(self, stmt: ast.stmt) -> None:
        """Read a call, or the calls of a composite."""
        if not isinstance(stmt, ast.With):
            self._instruction(stmt)
            return
        call = stmt.items[0].context_expr
        method = call.func if isinstance(call, ast.Call) else None
        if len(stmt.items) != 1 or not isinstance(method, ast.Attribute):
            self._fail(stmt, f"a `with` of a trace is one {self._schedule}.composite(...)")
        if method.attr != "composite":
            self._fail(method, f"a `with` of a trace calls {self._schedule}.composite")
        method.attr = "enter_composite"
        self._instruction(ast.copy_location(ast.Expr(call), call))
        for inner in stmt.body:
            if not isinstance(inner, ast.Pass):
                self._step(inner)
        self._insts.append(Instruction(InstructionKind.get(EXIT_COMPOSITE), (), ()))

    def _calls(self) -> list[ast.stmt]:
        try:
            with warnings.catch_warnings(action="ignore", category=SyntaxWarning):
                body = syntax_tree(self._text).body
        except SyntaxError as error:
            self._fail_at(error.msg, error.lineno or 1, error.offset or 1, error.end_offset or 0)
        except ValueError as error:
            self._fail_at(str(error), 1, 1, 0)
        except (RecursionError, MemoryError):
            lines = self._text.split("\n")
            deepest = max(range(len(lines)), key=lambda k: sum(map(lines[k].count, "([{-~")))
            self._fail_at("the trace is nested too deeply", deepest + 1, 1, len(lines[deepest]) + 1)
        found = [stmt for stmt in body if not isinstance(stmt, (ast.Import, ast.ImportFrom))]
        if len(found) == 1 and isinstance(found[0], ast.FunctionDef):
            function = found[0]
            parameters = function.args.args
            if len(parameters) != 1:
                self._fail(function, "a trace is a function of one schedule")
            self._schedule = parameters[0].arg
            found = function.body
        return [stmt for stmt in found if not isinstance(stmt, ast.Pass)]

    # ------------------------------------------------------------------------------- instructions

    def _instruction(self, stmt: ast.stmt) -> None:
        call = stmt.value if isinstance(stmt, (ast.Assign, ast.Expr)) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            self._fail(stmt, f"a line of a trace is a call such as {self._schedule}.get_block(...)")
        owner = call.func.value
        if not isinstance(owner, ast.Name) or owner.id != self._schedule:
            self._fail(owner, f"a trace calls the methods of {self._schedule}, nothing else")
        try:
            kind = InstructionKind.of_method(call.func.attr)
        except KeyError as error:
            self._fail(call.func, str(error.args[0]))
        values, decision = self._arguments(kind, call)
        targets = stmt.targets if isinstance(stmt, ast.Assign) else []
        inst = Instruction(kind, values, self._outputs(kind, stmt, targets))
        self._insts.append(inst)
        if decision is not None:
            self._decisions[inst] = decision

    def _outputs(self, kind: InstructionKind, stmt: ast.stmt, targets: list[ast.expr]) -> list[Any]:
        """Return the random variables of a call's outputs, which `targets` name."""
        several = kind.several
        if not targets and (several or not kind.result):
            return []
        if len(targets) != 1:
            count = "one name, not several" if targets else "a name"
            self._fail(stmt, f"the result of {kind.method} needs {count}")
        (target,) = targets
        if not kind.result or isinstance(target, ast.Tuple) is not several:
            gives = "nothing" if not kind.result else "a list" if several else "one value"
            self._fail(target, f"{kind.method} returns {gives}")
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        return [self._output(kind, name) for name in names]

    def _output(self, kind: InstructionKind, target: ast.expr) -> Any:
        if not isinstance(target, ast.Name):
            self._fail(target, "the results of a primitive must be assigned to plain names")
        return define_output(kind, target.id, self._known)

    def _arguments(self, kind: InstructionKind, call: ast.Call) -> tuple[list[Any], Any]:
        """Return the recorded arguments of a call, and the decision if it has one."""
        named: dict[str, ast.expr] = {}
        for keyword in call.keywords:
            if keyword.arg is None:
                self._fail(keyword.value, "the arguments of a trace are written out, without **")
            named[keyword.arg] = keyword.value
        decision = None
        if kind.has_decision and "decision" in named:
            decision = self._literal(named.pop("decision"))
        try:
            given = kind.bind(call.args, named)
        except TypeError as error:
            self._fail(call, str(error))
        if len(given) > len(kind.params):
            decision = self._literal(given.pop())
        values = [self._argument(p, v) for p, v in zip(kind.params, given, strict=True)]
        return values, decision

    def _literal(self, node: ast.expr) -> Any:
        try:
            decision = ast.literal_eval(node)
        except (ValueError, TypeError):
            decision = math.inf
        if not _is_finite(decision):
            self._fail(node, "a decision is a number or a list of numbers")
        return decision

    # ------------------------------------------------------------------------------------- values

    def _argument(self, param: Parameter, given: Any) -> Any:
        """Return the recorded value of an argument, given as syntax trees or a default."""
        if isinstance(given, tuple) and param.variadic:
            value: Any = tuple(self._value(node) for node in given)
            place = given[0] if given else None
        elif isinstance(given, ast.expr):
            value, place = param.operand.read(given, self._value), given
        else:
            value, place = given, None
        if value is None and param.operand.many:
            value = ()
        where = f"`{param.name}`"
        try:
            return param.operand.checked(param, value, self._known, where)
        except (ValueError, TypeError) as error:
            if place is None:
                raise
            reason = str(error).partition(f"{where}: ")[2] or str(error)
            self._fail(place, f"{where}: {reason.replace(shown_value(value), self._source(place))}")

    def _value(self, node: ast.expr, source: str = "") -> Any:
        """Return the value of a syntax tree; `source` replaces the source text of a function."""
        match node:
            case ast.Constant(value=str() | int() | float() | None):
                return node.value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -number
            case ast.Name():
                return self._random_variable(node)
            case ast.List() | ast.Tuple():
                return tuple(self._value(item) for item in node.elts)
            case ast.Dict():
                pairs = zip(node.keys, node.values, strict=True)
                return {self._key(k): self._value(v) for k, v in pairs}
            case ast.Lambda():
                return self._parse(node, parse_index_map, source)
            case ast.Call(
                func=ast.Name(id="float"), args=[ast.Constant(value="inf" | "-inf" | "nan" as text)]
            ):
                return float(text)
            case ast.Call(func=ast.Attribute(attr="from_func")):
                return self._parse(node, parse_index_map)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="LoopRV"), attr=mark), args=[]):
                if mark in _MARKS:
                    return _MARKS[mark]()
        value = self._parse(node, parse_expr)
        if isinstance(value, (IntImm, FloatImm)):
            # Arithmetic on numbers is a number.
            return python_number(value)
        return value

    def _random_variable(self, node: ast.Name) -> Any:
        if node.id not in self._known:
            close = get_close_matches(node.id, self._known, 1, cutoff=0.5)
            hint = f"; do you mean {close[0]}?" if close else ""
            self._fail(node, f"random variable {node.id} is not defined{hint}")
        return self._known[node.id]

    def _key(self, node: ast.expr | None) -> str:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            self._fail(node, "the keys of a dict are strings")
        return node.value

    def _parse(self, node: ast.expr, parse: Callable[..., Any], text: str = "") -> Any:
        """Return an expression parsed by the script dialect; `text` replaces its source text."""
        if isinstance(node, ast.Starred):
            self._fail(node, "the arguments of a trace are written out, without *")
        try:
            return parse(text or self._source(node), self._known)
        except DiagnosticError as error:
            self._fail(node, error.message)
        except TensorIRError as error:
            self._fail(node, str(error))

    def _source(self, node: ast.expr) -> str:
        return ast.get_source_segment(self._text, node) or ""

    # ------------------------------------------------------------------------------------- errors

    def _fail(self, node: ast.AST | None, message: str) -> NoReturn:
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        ends_here = getattr(node, "end_lineno", line) == line
        end = getattr(node, "end_col_offset", 0) if ends_here else 0
        text = self._lines[line - 1].encode() if line <= len(self._lines) else b""
        self._fail_at(message, line, len(text[:column].decode()) + 1, len(text[:end].decode()) + 1)

    def _fail_at(self, message: str, line: int, column: int, end: int) -> NoReturn:
        source = self._lines[line - 1] if line <= len(self._lines) else ""
        raise DiagnosticError(
            message,
            filename="<trace>",
            line=line,
            column=column,
            end_column=end,
            source_line=source,
        )


def _is_finite(decision: Any) -> bool:
    if isinstance(decision, (list, tuple)):
        return all(_is_finite(part) for part in decision)
    return not isinstance(decision, float) or math.isfinite(decision)
