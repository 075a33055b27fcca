"""`parse`: from script text to functions and modules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tensorir.dtype import INT64
from tensorir.errors import WellFormedError
from tensorir.expr import Call, GlobalVar, PrimExpr, Var
from tensorir.function import IRModule, PrimFunc
from tensorir.index_map import IndexMap
from tensorir.ops import as_expr
from tensorir.script.builder import FunctionBuilder
from tensorir.script.evaluate import Evaluator, Scope, ScriptObject, Source
from tensorir.script.macro import Macro
from tensorir.script.namespace import I, T, serial
from tensorir.script.syntax import Tree, parse_expression, parse_module
from tensorir.verify import verify_well_formed

_PRIM_FUNC = ("prim_func",)
_WITH_INVERSE = re.compile(
    r"(?:tvm\.(?:s_)?tir\.)?IndexMap\.from_func\((?P<there>.*), inverse_index_map=(?P<back>.*)\)",
    re.DOTALL,
)
_DIALECT: dict[str, Any] = {"T": T, "I": I, "tir": T, "tirx": T, "ir": I, "range": serial}


def parse(
    text: str,
    extra_vars: Mapping[str, Any] | None = None,
    filename: str = "<script>",
    check_well_formed: bool = True,
) -> PrimFunc | IRModule:
    """Return the decorated function or module class that a script defines.

    Nothing in the text is executed: it reaches the names of the dialect and `extra_vars`, no
    others. Raises DiagnosticError with line, column and the source line, for text that cannot be
    read and for programs that are not well-formed (unless `check_well_formed` is False).
    """
    source = Source(text, filename)
    outer = {**_DIALECT, **(extra_vars or {})}
    return read_definition(parse_module(text, filename), source, outer, False, check_well_formed)


def read_definition(
    statements: list[Tree],
    source: Source,
    outer: Mapping[str, Any],
    trusted: bool,
    check_well_formed: bool = True,
) -> PrimFunc | IRModule:
    """Return the one definition among the statements of a script."""
    macros = [s for s in statements if _is_macro(s)]
    definitions = [
        s for s in statements if s[0] in ("decorated", "def", "class") and s not in macros
    ]
    others = [s for s in statements if s[0] not in ("decorated", "def", "class", "import")]
    stray = [s for s in others if not _is_metadata(s)]
    if stray or len(definitions) != 1:
        place = stray[0][1] if stray else definitions[1][1] if definitions else (1, 1, 1, 2)
        raise source.error("expected one decorated function or module class", place)
    scope = Scope(dict(outer), trusted=trusted)
    evaluate = Evaluator(source, scope)
    for item in macros:
        scope.define(item[3][2], _macro(item, evaluate))
    tree = definitions[0]
    decorators, body = (tree[2], tree[3]) if tree[0] == "decorated" else ((), tree)
    options = _options(decorators, evaluate)
    if body[0] == "class":
        result: PrimFunc | IRModule = _module(body, evaluate)
    else:
        result = FunctionBuilder(evaluate, private=options["private"]).build(body)
    if check_well_formed and options["check_well_formed"]:
        try:
            verify_well_formed(result)
        except WellFormedError as error:
            raise source.error(
                f"Program is not well-formed. {error} "
                "(check_well_formed=False turns the check off)",
                body[1],
            ) from error
    return result


def read_macro(
    statements: list[Tree], source: Source, outer: Mapping[str, Any], hygienic: bool
) -> Macro:
    """Return the macro that the text of a decorated Python function defines."""
    (item,) = [s for s in statements if s[0] in ("decorated", "def")]
    tree = item[3] if item[0] == "decorated" else item
    return Macro(tree, source, outer, trusted=True, hygienic=hygienic)


def _is_macro(tree: Tree) -> bool:
    if tree[0] != "decorated" or tree[3][0] != "def":
        return False
    name = tree[2][0][2] if tree[2][0][0] == "call" else tree[2][0]
    return bool(name[0] == "attribute" and name[3] == "macro")


def _macro(item: Tree, evaluate: Evaluator) -> Macro:
    """Return a macro that a script defines before what uses it."""
    decorator, hygienic = item[2][0], True
    for argument in decorator[3] if decorator[0] == "call" else ():
        if argument[0] != "keyword" or argument[2] != "hygienic":
            raise evaluate.fail("Invalid use of T.macro: its one option is hygienic", argument[1])
        hygienic = bool(evaluate(argument[3]))
    scope = evaluate.scope
    names = {**scope.outer, **{k: v for level in scope.levels for k, v in level.items()}}
    return Macro(item[3], evaluate.source, names, scope.trusted, hygienic)


def _is_metadata(tree: Tree) -> bool:
    return bool(tree[0] == "expression_statement" and tree[2][0] == "constant")


def _options(decorators: tuple[Tree, ...], evaluate: Evaluator) -> dict[str, Any]:
    options: dict[str, Any] = {"private": False, "check_well_formed": True}
    for decorator in decorators:
        call = decorator[0] == "call"
        name = decorator[2] if call else decorator
        if name[0] != "attribute" or name[3] not in ("prim_func", "ir_module"):
            raise evaluate.fail("The parser does not understand the decorator", decorator[1])
        for argument in decorator[3] if call else ():
            if argument[0] != "keyword" or argument[3][0] != "constant":
                raise evaluate.fail("decorator options are literals by name", decorator[1])
            if argument[2] not in ("private", "check_well_formed", "s_tir"):
                raise evaluate.fail(f"unknown option {argument[2]!r}", argument[1])
            options[argument[2]] = argument[3][2]
    return options


class _ModuleNames(ScriptObject):
    """The module class inside its own body: its functions may be called before they are read."""

    def __init__(self, signatures: dict[str, str]) -> None:
        self._signatures = signatures

    def script_attribute(self, name: str) -> Any:
        """Return what calls a function of the module."""
        signatures = self._signatures
        if name not in signatures:
            raise AttributeError(f"Cannot find the function `{name}` in the current IRModule")
        return lambda *args: Call(
            signatures[name], GlobalVar(name), [as_expr(_argument(a)) for a in args]
        )


def _argument(value: Any) -> Any:
    return value.data if hasattr(value, "elem_offset") else value


def _module(tree: Tree, evaluate: Evaluator) -> IRModule:
    _, _, name, body = tree
    functions: dict[str, PrimFunc] = {}
    signatures: dict[str, str] = {}
    items: list[tuple[tuple[Tree, ...], Tree]] = []
    attrs: dict[str, Any] | None = None
    for item in body:
        if item[0] == "decorated" and item[3][0] == "def":
            if item[3][2] in signatures:
                raise evaluate.fail(f"function {item[3][2]} already exists", item[3][1])
            signatures[item[3][2]] = _result_dtype(item[3], evaluate)
            items.append((item[2], item[3]))
        elif item[0] == "expression_statement" and item[2][0] == "call":
            if attrs is not None:
                raise evaluate.fail("Duplicate module attrs", item[1])
            attrs = evaluate(item[2])
        elif item[0] == "assign":
            functions[item[2][0][2]] = evaluate(item[3])
        elif item[0] not in ("pass", "expression_statement"):
            raise evaluate.fail(f"a {item[0]} is not supported in a module", item[1])
    evaluate.scope.define(name, _ModuleNames(signatures))
    for decorators, function in items:
        options = _options(decorators, evaluate)
        builder = FunctionBuilder(evaluate, private=options["private"])
        functions[function[2]] = builder.build(function)
    return IRModule(functions, attrs)


def _result_dtype(function: Tree, evaluate: Evaluator) -> str:
    result = None if function[4] is None else evaluate(function[4])
    return str(getattr(result, "dtype", "void")) if result is not None else "void"


def parse_expr(text: str, names: Mapping[str, Any] | None = None) -> PrimExpr:
    """Return the expression that a line of script text stands for; `names` may occur in it."""
    tree = parse_expression(text)
    evaluate = Evaluator(
        Source(text, "<expression>"), Scope({**_DIALECT, **(names or {})}, trusted=False)
    )
    return as_expr(evaluate(tree))


def parse_index_map(text: str, names: Mapping[str, Any] | None = None) -> IndexMap:
    """Return the index map that `lambda i, j: (j, i)` stands for; nothing is executed.

    A map that carries its inverse reads `IndexMap.from_func(<lambda>, inverse_index_map=<lambda>)`,
    or with `tvm.tir.` in front.
    """
    carried = _WITH_INVERSE.fullmatch(text.strip())
    if carried is not None:
        there = parse_index_map(carried["there"], names)
        back = parse_index_map(carried["back"], names)
        return IndexMap(there.initial_indices, there.final_indices, back)
    tree = parse_expression(text)
    source = Source(text, "<index map>")
    evaluate = Evaluator(source, Scope({**_DIALECT, **(names or {})}, trusted=False))
    if tree[0] != "lambda":
        raise source.error("an index map is `lambda i, j: (..., ...)`", tree[1])
    function = evaluate(tree)
    parameters = [name for _, name in tree[2]]
    index_map = _evaluated(function, parameters, "int32")
    if any(f.dtype is INT64 for f in index_map.final_indices):
        # A constant of 64 bits says that the indices have as many.
        return _evaluated(function, parameters, "int64")
    return index_map


def _evaluated(function: Any, parameters: list[str], dtype: str) -> IndexMap:
    indices = [Var(name, dtype) for name in parameters]
    result = function(*indices)
    parts = list(result) if isinstance(result, (tuple, list)) else [result]
    return IndexMap(indices, [as_expr(p) for p in parts])


I.add(module_attrs=dict)
