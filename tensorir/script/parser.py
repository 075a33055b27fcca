"""`parse`: from script text to functions and modules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tensorir.errors import WellFormedError
from tensorir.function import IRModule, PrimFunc
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.ops import as_expr
from tensorir.recursion import any_depth
from tensorir.relax.function import Function
from tensorir.script.builder import FunctionBuilder
from tensorir.script.constants import KEY, LeftOut, load_json
from tensorir.script.evaluate import Evaluator
from tensorir.script.graph_builder import GraphBuilder
from tensorir.script.graph_namespace import OLD_NAMES, R
from tensorir.script.module import (
    is_docstring,
    is_graph,
    is_macro,
    read_macro,
    read_module,
    read_options,
)
from tensorir.script.namespace import I, Namespace, T
from tensorir.script.records import FreshVar
from tensorir.script.scope import Scope
from tensorir.script.source import BEGINNING, Source
from tensorir.script.syntax import Tree, parse_expression, parse_module
from tensorir.verify import verify_well_formed

_WITH_INVERSE = re.compile(
    r"(?:tvm\.(?:s_)?tir\.)?IndexMap\.from_func\((?P<there>.*), inverse_index_map=(?P<back>.*)\)",
    re.DOTALL,
)
_DIALECT: dict[str, Any] = {
    **OLD_NAMES,
    "R": R,
    "relax": R,
    "T": T,
    "I": I,
    "tir": T,
    "tirx": T,
    "ir": I,
    "range": T.serial,
    "metadata": LeftOut(),
    "meta": LeftOut(),
    "relay": Namespace("relay", {"Constant": KEY}),
    "tvm": Namespace("tvm", {"ir": Namespace("tvm.ir", {"load_json": load_json})}),
    "TypeVar": lambda name: FreshVar(INT64),
}


def parse(
    text: str,
    extra_vars: Mapping[str, Any] | None = None,
    filename: str = "<script>",
    check_well_formed: bool = True,
) -> PrimFunc | Function | IRModule:
    """Return the decorated function or module class that a script defines.

    Nothing in the text is executed; it has access to the names of the dialect and to `extra_vars`.
    Raises DiagnosticError with line, column and the source line, for invalid text and for programs
    that are not well-formed (unless `check_well_formed` is False).
    """
    source = Source(text, filename)
    outer = {**_DIALECT, **(extra_vars or {})}
    return read_definition(source, outer, False, check_well_formed)


@any_depth
def read_definition(
    source: Source,
    outer: Mapping[str, Any],
    trusted: bool,
    check_well_formed: bool = True,
) -> PrimFunc | Function | IRModule:
    """Return the one definition among the statements of a script."""
    statements = parse_module(source)
    evaluate = Evaluator(source, Scope(outer, trusted=trusted))
    found = [t for t in statements if t[0] == "decorated" and not is_macro(t)]
    for tree in statements:
        if tree not in found:
            evaluate.guarded(tree[1], _prepare, tree, evaluate)
    if len(found) != 1:
        place = found[1][1] if found else BEGINNING
        raise source.error(
            f"expected one decorated function or module class, got {len(found)}; write several "
            "functions in a class under @I.ir_module",
            place,
        )
    place = found[0][3][1]
    return evaluate.guarded(place, _read, found[0], evaluate, check_well_formed)  # type: ignore[no-any-return]


def _read(
    tree: Tree, evaluate: Evaluator, check_well_formed: bool
) -> PrimFunc | Function | IRModule:
    _, _, decorators, body = tree
    options = read_options(decorators, evaluate)
    if options["name"] is not None:
        body = (*body[:2], options["name"], *body[3:])
    if body[0] == "class":
        result: PrimFunc | Function | IRModule = read_module(body, evaluate)
    elif is_graph(tree):
        builder = GraphBuilder(evaluate, {}, private=options["private"], pure=options["pure"])
        result = builder.build(body)
    else:
        result = FunctionBuilder(evaluate, private=options["private"]).build(body)
    if check_well_formed and options["check_well_formed"]:
        try:
            verify_well_formed(result)
        except WellFormedError as error:
            bound = getattr(error.node, "var", None)
            raise evaluate.fail(
                f"Program is not well-formed. {error} "
                "(check_well_formed=False turns the check off)",
                body[1] if bound is None else evaluate.source.places.get(bound, body[1]),
            ) from error
    return result


def _prepare(tree: Tree, evaluate: Evaluator) -> None:
    """Read a statement next to the definition: an import, a macro, sizes, metadata."""
    define = evaluate.scope.define
    if tree[0] == "import":
        for name, alias in tree[2]:
            if alias != name and name in _DIALECT:
                define(alias, _DIALECT[name])
    elif is_macro(tree):
        define(tree[3][2], read_macro(tree, evaluate))
    elif tree[0] == "assign" and tree[2][0][0] == "name" and tree[2][0][2] == "metadata":
        define("metadata", evaluate(tree[3]))
    elif tree[0] == "assign" and tree[2][0][0] == "name" and tree[3][0] == "call":
        value = evaluate(tree[3])
        if not isinstance(value, FreshVar):
            raise evaluate.fail("expected one decorated function or module class", tree[1])
        define(tree[2][0][2], value)
    elif not is_docstring(tree):
        raise evaluate.fail("expected one decorated function or module class", tree[1])


@any_depth
def parse_expr(text: str, names: Mapping[str, Any] | None = None) -> PrimExpr:
    """Return the expression in a line of script text; `names` may occur in it."""
    source = Source(text.strip(), "<expression>")
    tree = parse_expression(source)
    evaluate = Evaluator(source, Scope({**_DIALECT, **(names or {})}, trusted=False))
    return evaluate.guarded(tree[1], as_expr, evaluate(tree))  # type: ignore[no-any-return]


def parse_index_map(text: str, names: Mapping[str, Any] | None = None) -> IndexMap:
    """Return the index map of a text such as `lambda i, j: (j, i)`; nothing is executed.

    A map with its inverse is `IndexMap.from_func(<lambda>, inverse_index_map=<lambda>)`, or the
    same with `tvm.tir.` in front.
    """
    carried = _WITH_INVERSE.fullmatch(text.strip())
    if carried is not None:
        there = parse_index_map(carried["there"], names)
        back = parse_index_map(carried["back"], names)
        return IndexMap(there.initial_indices, there.final_indices, back)
    source = Source(text.strip(), "<index map>")
    tree = parse_expression(source)
    if tree[0] != "lambda":
        raise source.error("an index map must be `lambda i, j: (..., ...)`", tree[1])
    evaluate = Evaluator(source, Scope({**_DIALECT, **(names or {})}, trusted=False))
    function = evaluate(tree)
    parameters = [name for _, name in tree[2]]
    index_map: IndexMap = evaluate.guarded(tree[1], _evaluated, function, parameters, "int32")
    if any(f.dtype is INT64 for f in index_map.final_indices):
        # A map with a 64-bit constant is a map of 64-bit indices.
        return evaluate.guarded(tree[1], _evaluated, function, parameters, "int64")  # type: ignore[no-any-return]
    return index_map


def _evaluated(function: Any, parameters: list[str], dtype: str) -> IndexMap:
    indices = [Var(name, dtype) for name in parameters]
    result = function(*indices)
    parts = list(result) if isinstance(result, (tuple, list)) else [result]
    return IndexMap(indices, [as_expr(p) for p in parts])
