"""The decorators of scripts: they pass the source text and the captured names to the parser.

The parser reads the text of the decorated function; the function itself is never called. Names in
the text are looked up in the surrounding Python program.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import linecache
from collections.abc import Callable
from types import FrameType
from typing import Any

from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import IRModule, PrimFunc
from tensorir.relax.function import Function
from tensorir.script.graph_namespace import OLD_NAMES, R
from tensorir.script.macro import Macro
from tensorir.script.namespace import I, T, add_names
from tensorir.script.parser import read_definition
from tensorir.script.source import Source
from tensorir.script.syntax import parse_module
from tensorir.syntax_trees import syntax_tree


def prim_func(
    func: Any = None,
    *,
    name: str | None = None,
    private: bool = False,
    check_well_formed: bool = True,
    s_tir: bool = True,
) -> Any:
    """Turn a Python function in the script dialect into a `PrimFunc`.

    `name` is for names that are not valid in Python. The options are read from the text of the
    decorator. Inside a class, the function is read with the class, by `I.ir_module`.
    """
    del name, private, s_tir
    return _decorated(func, check_well_formed)


def function(
    func: Any = None,
    *,
    name: str | None = None,
    private: bool = False,
    pure: bool = True,
    check_well_formed: bool = True,
) -> Any:
    """Turn a Python function in the script dialect into a graph function.

    `name` is for names that are not valid in Python. The options are read from the text of the
    decorator. Inside a class, the function is read with the class, by `I.ir_module`.
    """
    del name, private, pure
    return _decorated(func, check_well_formed)


def _decorated(func: Any, check_well_formed: bool) -> Any:
    if func is None:
        return lambda f: _decorated(f, check_well_formed)
    if not inspect.isfunction(func):
        raise IRTypeError(f"Expect a function, but got: {func!r}")
    caller = _user_frame(inspect.currentframe())
    if caller is not None and _is_class_body(caller):
        return func
    return _read(func, _captured_names(func, caller), check_well_formed)


def ir_module(cls: Any = None, *, check_well_formed: bool = True) -> Any:
    """Turn a class of decorated functions into an `IRModule`."""
    if cls is None:
        return lambda c: ir_module(c, check_well_formed=check_well_formed)
    if not inspect.isclass(cls):
        raise IRTypeError(f"Expect a class, but got: {cls!r}")
    names: dict[str, Any] = {}
    caller = _user_frame(inspect.currentframe())
    for member in vars(cls).values():
        if inspect.isfunction(member):
            names.update(_captured_names(member, caller))
    return _read(cls, names, check_well_formed)


def macro(func: Any = None, *, hygienic: bool = True) -> Any:
    """Turn a Python function in the script dialect into a macro.

    A call of the macro in a script is replaced by its body, with the arguments bound to its
    parameters. A hygienic macro looks up free names at its definition, any other macro at the call.
    """
    if func is None:
        return lambda f: macro(f, hygienic=hygienic)
    if not inspect.isfunction(func):
        raise IRValueError(
            "Invalid use of T.macro; decorate a function: @T.macro or @T.macro(hygienic=False)"
        )
    names = _captured_names(func, _user_frame(inspect.currentframe()))
    source = _source(func)
    (item,) = parse_module(source)
    return Macro(item[3], source, {**names, "range": T.serial}, trusted=True, hygienic=hygienic)


def _read(
    thing: Any, names: dict[str, Any], check_well_formed: bool
) -> PrimFunc | Function | IRModule:
    outer = {**OLD_NAMES, **names, "range": T.serial}
    return read_definition(_source(thing), outer, True, check_well_formed)


def _source(thing: Any) -> Source:
    """Return the text of a function or class."""
    try:
        lines, first_line, filename = _source_of(thing)
    except OSError as error:
        raise IRTypeError(
            f"the source text of {thing.__qualname__} cannot be found; define it in a file or a "
            "notebook cell, or pass the text to tensorir.parse"
        ) from error
    return Source("".join(lines), filename, first_line)


def _source_of(thing: Any) -> tuple[list[str], int, str]:
    """Return the lines of a function or class, the number of the first line, and the file name.

    In a notebook, `inspect` finds the source of functions, not of classes; there the class is
    located by its functions. Raises OSError for an unknown source.
    """
    members = vars(thing).values() if inspect.isclass(thing) else ()
    codes = [member.__code__ for member in members if inspect.isfunction(member)]
    if not codes:
        return (*inspect.getsourcelines(thing), inspect.getsourcefile(thing) or "<script>")
    lines = linecache.getlines(codes[0].co_filename)
    for node in ast.walk(syntax_tree("".join(lines))):
        if not isinstance(node, ast.ClassDef) or node.name != thing.__name__:
            continue
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        last = node.end_lineno or first
        if all(first <= code.co_firstlineno <= last for code in codes):
            return lines[first - 1 : last], first, codes[0].co_filename
    raise OSError(f"class {thing.__name__} is not in {codes[0].co_filename}")


def _captured_names(func: Callable[..., Any], caller: FrameType | None) -> dict[str, Any]:
    """Return the names that a function may use: globals, locals of its callers, its closure."""
    names: dict[str, Any] = dict(func.__globals__)
    frames: list[FrameType] = []
    frame = caller
    while frame is not None and frame.f_globals is func.__globals__:
        frames.append(frame)
        frame = frame.f_back
    for outer in reversed(frames):
        if outer.f_code.co_name != "<module>":
            names.update(outer.f_locals)
    for name, cell in zip(func.__code__.co_freevars, func.__closure__ or (), strict=True):
        # The closure cell of a class is empty while the body of the class runs.
        with contextlib.suppress(ValueError):
            names[name] = cell.cell_contents
    return names


def _user_frame(frame: FrameType | None) -> FrameType | None:
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return frame


def _is_class_body(frame: FrameType) -> bool:
    return "__qualname__" in frame.f_locals and "__module__" in frame.f_locals


add_names(T, prim_func=prim_func, macro=macro, inline=macro)
add_names(I, ir_module=ir_module)
add_names(R, function=function, macro=macro)
