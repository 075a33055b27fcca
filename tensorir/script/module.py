"""Module classes, and the decorators of definitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from tensorir.comparison.equal import structural_equal
from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import BaseFunc, IRModule, PrimFunc
from tensorir.nodes.expr import Call, GlobalVar, PrimType
from tensorir.nodes.ops import as_expr
from tensorir.relax.building import UniqueNames
from tensorir.relax.struct_info import FuncStructInfo
from tensorir.script.builder import FunctionBuilder
from tensorir.script.evaluate import Evaluator, ScriptObject
from tensorir.script.graph_builder import GraphBuilder
from tensorir.script.graph_namespace import Callee
from tensorir.script.macro import Macro
from tensorir.script.namespace import I, add_names
from tensorir.script.scope import Scope
from tensorir.script.syntax import Tree


def read_module(tree: Tree, evaluate: Evaluator) -> IRModule:
    """Return the module whose `class` is `tree`; its functions may call each other in any order."""
    _, _, name, body = tree
    functions = _Functions(name, evaluate)
    attrs: dict[str, Any] | None = None
    for item in body:
        place = item[1]
        if is_macro(item):
            macro = evaluate.guarded(place, read_macro, item, evaluate)
            evaluate.guarded(place, evaluate.scope.define, item[3][2], macro)
        elif item[0] == "decorated" and item[3][0] == "def":
            evaluate.guarded(item[3][1], functions.declare, item)
        elif item[0] == "expression_statement" and item[2][0] == "call":
            if attrs is not None:
                raise evaluate.fail("Duplicate module attrs", place)
            attrs = evaluate(item[2])
        elif item[0] == "assign" and item[2][0][0] == "name":
            evaluate.guarded(place, functions.add, item[2][0][2], evaluate(item[3]))
        elif item[0] != "pass" and not is_docstring(item):
            raise evaluate.fail(
                "a module must consist of functions, macros and its attributes", place
            )
    if not isinstance(attrs, (dict, type(None))):
        raise evaluate.fail(
            "a module must consist of functions, macros and its attributes", tree[1]
        )
    evaluate.scope.define(name, functions)
    return IRModule(functions.all(), attrs)


class _Functions(ScriptObject, Mapping[str, "BaseFunc | FuncStructInfo"]):
    """The functions of a module while it is read: the value of the module's name in its own text.

    As a mapping it contains the functions; before a function is read, it contains its annotated
    type.
    """

    def __init__(self, name: str, evaluate: Evaluator) -> None:
        self._name = name
        self._evaluate = evaluate
        self._trees: dict[str, Tree] = {}
        self._names: dict[str, str] = {}
        """The names in the text of the functions whose names in the module differ."""
        self._built: dict[str, BaseFunc] = {}
        self._formulas: dict[str, PrimFunc] = {}
        self._stated: dict[str, FuncStructInfo] = {}
        """Struct infos from the annotations of graph functions, cached."""
        self._in_progress: set[str] = set()

    def declare(self, tree: Tree) -> None:
        """Add the tree of a function."""
        kind, where, text, *parts = tree[3]
        name = read_options(tree[2], self._evaluate)["name"]
        name = text if name is None else name
        if name in self._trees:
            raise IRValueError(f"function {name} already exists")
        if name != text:
            self._names[text] = name
        self._trees[name] = (*tree[:3], (kind, where, name, *parts))

    def add(self, name: str, function: Any) -> None:
        """Add a function object."""
        if not isinstance(function, BaseFunc):
            raise IRTypeError(f"{name} is a {type(function).__name__}, not a function of a module")
        self._built[name] = function

    def all(self) -> dict[str, BaseFunc]:
        """Return the functions by name, in the order of the module."""
        for name in list(self):
            self.function(name)
        return {name: self._built[name] for name in self}

    def add_formula(self, function: PrimFunc, hint: str) -> GlobalVar:
        """Add the tensor function of a formula, unless an equal one was added."""
        for name, known in self._formulas.items():
            if structural_equal(known, function):
                return GlobalVar(name)
        names = UniqueNames([*self, self._name])
        name = names.unique(hint)
        self._formulas[name] = self._built[name] = function
        return GlobalVar(name)

    def __iter__(self) -> Iterator[str]:
        given = {n: f for n, f in self._built.items() if n not in self._formulas}
        return iter({**given, **self._trees, **self._formulas})

    def __len__(self) -> int:
        return len({**self._built, **self._trees})

    def __getitem__(self, name: str) -> BaseFunc | FuncStructInfo:
        if name in self._built or not self.is_graph_function(name):
            return self.function(name)
        if name not in self._stated:
            options, evaluate = self._options(name)
            params, result = self._graph_builder(evaluate, options).declared(self._trees[name][3])
            if result is None:
                return self.function(name)
            infos = [param.struct_info for param in params]
            self._stated[name] = FuncStructInfo(infos, result, options["pure"])
        return self._stated[name]

    def is_graph_function(self, name: str) -> bool:
        """Return True for a graph function. Raises KeyError for an unknown name."""
        if name in self._built:
            return not isinstance(self._built[name], PrimFunc)
        return is_graph(self._trees[name])

    def script_attribute(self, name: str) -> Any:
        """Return a function that builds the call of a tensor function of the module."""
        name = self.named(name)
        if self.is_graph_function(name):
            raise IRTypeError(f"{name} is a graph function; tensor functions cannot call it")
        dtype = self._result_dtype(name)
        return lambda *args: Call(dtype, GlobalVar(name), [as_expr(_argument(a)) for a in args])

    def named(self, text: str) -> str:
        """Return the name in the module for a name in the text; AttributeError if unknown."""
        name = self._names.get(text, text)
        if name not in self:
            close = get_close_matches(name, list(self), 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise AttributeError(f"Cannot find the function `{name}` in the current IRModule{hint}")
        return name

    def __contains__(self, name: object) -> bool:
        return name in self._trees or name in self._built

    def _result_dtype(self, name: str) -> str:
        tree = self._trees.get(name)
        if tree is not None and (tree[3][4] is not None or not _returns_value(tree[3])):
            builder = FunctionBuilder(self._module_evaluator())
            kind: Any = builder.declared_result(tree[3])
        elif name in self._in_progress:
            raise IRValueError(f"{name} calls itself; write the type of its result, `-> T.<dtype>`")
        else:
            function = self.function(name)
            assert isinstance(function, PrimFunc)
            kind = function.ret_type
        return kind.dtype if isinstance(kind, PrimType) else "void"

    def function(self, name: str) -> BaseFunc:
        """Return a function; the first call for it reads its text."""
        if name in self._built:
            return self._built[name]
        if name in self._in_progress:
            raise IRValueError(
                f"{name} calls itself; write the type of its result, `-> R.Tensor(...)`"
            )
        self._in_progress.add(name)
        options, evaluate = self._options(name)
        body = self._trees[name][3]
        if self.is_graph_function(name):
            built: BaseFunc = self._graph_builder(evaluate, options).build(body)
        else:
            built = FunctionBuilder(evaluate, private=options["private"]).build(body)
        self._in_progress.discard(name)
        self._built[name] = built
        return built

    def _options(self, name: str) -> tuple[dict[str, Any], Evaluator]:
        evaluate = self._module_evaluator()
        return read_options(self._trees[name][2], evaluate), evaluate

    def _graph_builder(self, evaluate: Evaluator, options: dict[str, Any]) -> GraphBuilder:
        texts = {name: text for text, name in self._names.items()}
        siblings = {texts.get(name, name): Callee(name, self) for name in self}
        names = {**siblings, self._name: _Siblings(self)}
        return GraphBuilder(
            evaluate,
            names,
            private=options["private"],
            pure=options["pure"],
            add=self.add_formula,
        )

    def _module_evaluator(self) -> Evaluator:
        """Return an evaluator with the names of the module, without a function's local names."""
        before = self._evaluate.scope
        scope = Scope(before.outer, trusted=before.trusted)
        scope.levels = before.levels[:1]
        return Evaluator(self._evaluate.source, scope)


class _Siblings(ScriptObject):
    """The module's name inside a graph function: `cls = Module`, `cls.f`."""

    def __init__(self, functions: _Functions) -> None:
        self._functions = functions

    def script_attribute(self, name: str) -> Any:
        """Return a function of the module."""
        return Callee(self._functions.named(name), self._functions)


def _argument(value: Any) -> Any:
    return value.data if hasattr(value, "elem_offset") else value


def _returns_value(tree: Any) -> bool:
    """Return True if a function returns a value, by `return` or by `T.ret`."""
    match tree:
        case ("return", *_) | ("attribute", _, _, "ret"):
            return True
        case tuple() | list():
            return any(_returns_value(part) for part in tree)
    return False


def read_options(decorators: tuple[Tree, ...], evaluate: Evaluator) -> dict[str, Any]:
    """Return the options in the decorators of a definition.

    Raises DiagnosticError for unknown options.
    """
    options: dict[str, Any] = {
        "private": False,
        "pure": True,
        "check_well_formed": True,
        "name": None,
    }
    for decorator in decorators:
        if _role(decorator) not in ("prim_func", "function", "ir_module"):
            raise evaluate.fail(
                "The parser does not understand the decorator; use @T.prim_func or @R.function for "
                "functions and @I.ir_module for classes",
                decorator[1],
            )
        for argument in decorator[3] if decorator[0] == "call" else ():
            if argument[0] != "keyword" or argument[3][0] != "constant":
                raise evaluate.fail("decorator options must be literals by name", decorator[1])
            if argument[2] not in (*options, "s_tir"):
                raise evaluate.fail(f"unknown option {argument[2]!r}", argument[1])
            if (argument[2] == "name") is not isinstance(argument[3][2], str):
                raise evaluate.fail(
                    "the option name must be a string, the others bools", argument[1]
                )
            options[argument[2]] = argument[3][2]
    return options


def is_graph(tree: Tree) -> bool:
    """Return True if a decorated `def` is a graph function."""
    return _role(tree[2][0]) == "function"


def is_macro(tree: Tree) -> bool:
    """Return True if a statement defines a macro."""
    return bool(
        tree[0] == "decorated" and tree[3][0] == "def" and _role(tree[2][0]) in ("macro", "inline")
    )


def read_macro(item: Tree, evaluate: Evaluator) -> Macro:
    """Return the macro that a statement defines."""
    decorator, hygienic = item[2][0], True
    for argument in decorator[3] if decorator[0] == "call" else ():
        if argument[0] != "keyword" or argument[2] != "hygienic":
            raise evaluate.fail("Invalid use of T.macro: its only option is hygienic", argument[1])
        hygienic = bool(evaluate(argument[3]))
    scope = evaluate.scope
    return Macro(item[3], evaluate.source, scope.visible(), scope.trusted, hygienic)


def is_docstring(tree: Tree) -> bool:
    """Return True for a constant as a statement, such as a docstring."""
    return bool(tree[0] == "expression_statement" and tree[2][0] == "constant")


def _role(decorator: Tree) -> str:
    """Return the last name of a decorator, such as "prim_func" or "macro"."""
    name = decorator[2] if decorator[0] == "call" else decorator
    return str(name[-1]) if name[0] in ("attribute", "name") else ""


add_names(I, module_attrs=dict, GlobalVar=Callee)
