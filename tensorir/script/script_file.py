"""Programs in Python files: decorated definitions are read, and nothing is executed."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from tensorir.errors import DiagnosticError
from tensorir.function import IRModule, PrimFunc
from tensorir.relax.function import Function
from tensorir.script.parser import parse
from tensorir.syntax_trees import syntax_tree

_DEFINING: Final = ("ir_module", "prim_func", "function")
_HELPING: Final = ("macro",)
_DIALECT_CALLS: Final = ("TypeVar", "load_json")


def read_script_file(
    path: str | os.PathLike[str], name: str | None = None
) -> PrimFunc | Function | IRModule:
    """Return the function or module class that a file defines; `name` selects one of several.

    The file is a printed program, or a Python file with other statements as well. The reader uses
    definitions under `I.ir_module`, `T.prim_func` and `R.function`, macros, imports of the names of
    the dialect, and assignments of literals (`N = 128`), which definitions may use as sizes.
    Nothing in the file is executed.

    Raises OSError if the file cannot be read. Raises DiagnosticError with file, line and column for
    invalid text, for programs that are not well-formed, and for a missing or ambiguous program.
    """
    place = os.fspath(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DiagnosticError(
            f"{place} is not UTF-8 text (byte {error.start}); a script is a text file in UTF-8"
        ) from error
    try:
        statements = syntax_tree(text, place).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return parse(text, filename=place)  # raises an error with the place
    programs = [one for one in statements if _is_decorated(one, _DEFINING)]
    chosen = _choose_program(programs, name, place)
    kept = [chosen, *(one for one in statements if _is_context(one))]
    return parse(_blank_other_statements(text, kept), dict(_literals(statements)), place)


def _choose_program(programs: Sequence[ast.stmt], name: str | None, place: str) -> ast.stmt:
    names = [getattr(one, "name", "") for one in programs]
    known = ", ".join(dict.fromkeys(names))
    if not programs:
        raise DiagnosticError(
            f"{place} does not define a program; decorate a function by @T.prim_func or "
            "@R.function, or a class by @I.ir_module, at the top level. The file is read, not run: "
            "for a program that Python code creates, write the text of program.script() to a file"
        )
    if name is None:
        if len(programs) > 1:
            raise DiagnosticError(
                f"{place} defines {len(programs)} programs: {known}; select one, as in "
                f"{place}:{names[0]}"
            )
        return programs[0]
    if name not in names:
        close = get_close_matches(name, names, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise DiagnosticError(f"{place} does not define {name!r}; it defines {known}{hint}")
    return programs[
        len(names) - 1 - names[::-1].index(name)
    ]  # as in Python, the last definition counts


def _is_decorated(statement: ast.stmt, kinds: Sequence[str]) -> bool:
    """Return True if a definition has a decorator whose last name is one of `kinds`."""
    if not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return False
    return any(_last_name(decorator) in kinds for decorator in statement.decorator_list)


def _last_name(expression: ast.expr) -> str | None:
    if isinstance(expression, ast.Call):
        return _last_name(expression.func)
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else None


def _is_context(statement: ast.stmt) -> bool:
    """Return True for statements that a definition may need: macros, imports, sizes, metadata."""
    if isinstance(statement, ast.Assign):
        return isinstance(statement.value, ast.Call) and _last_name(statement.value) in (
            _DIALECT_CALLS
        )
    is_import = isinstance(statement, (ast.Import, ast.ImportFrom))
    return is_import or _is_decorated(statement, _HELPING)


def _literals(statements: Sequence[ast.stmt]) -> Iterator[tuple[str, Any]]:
    """Yield the names that are assigned a literal, and the values."""
    for one in statements:
        match one:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case _:
                continue
        try:
            yield name, ast.literal_eval(value)
        except (ValueError, TypeError, RecursionError):
            continue  # a definition that uses the name raises an error


def _blank_other_statements(text: str, kept: Sequence[ast.stmt]) -> str:
    """Return the text with other statements replaced by empty lines, so that line numbers stay
    valid.
    """
    lines = text.split("\n")
    wanted: set[int] = set()
    for one in kept:
        first = min([one.lineno, *(d.lineno for d in getattr(one, "decorator_list", ()))])
        wanted.update(range(first, (one.end_lineno or one.lineno) + 1))
    return "\n".join(line if k in wanted else "" for k, line in enumerate(lines, 1))
