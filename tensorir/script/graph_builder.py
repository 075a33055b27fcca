"""Building graph functions from syntax trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import PrimFunc
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import GlobalVar, PrimExpr, Var
from tensorir.nodes.ops import as_expr
from tensorir.relax import expr as g
from tensorir.relax.function import Function
from tensorir.relax.operator import Operator
from tensorir.relax.relations import Fits, fits
from tensorir.relax.struct_info import OBJECT, VOID, StructInfo, TupleStructInfo, is_void
from tensorir.script.declarations import declare_sizes
from tensorir.script.evaluate import Evaluator
from tensorir.script.graph_annotations import quoted_sizes, struct_info_of, unquoted
from tensorir.script.graph_bindings import BindingBlocks
from tensorir.script.graph_namespace import (
    DataflowFrame,
    FormulaRecord,
    MatchCastRecord,
    OutputRecord,
    as_value,
)
from tensorir.script.macro import MacroCall
from tensorir.script.records import Alias, FreshVar, FuncAttrRecord, MetaVar
from tensorir.script.source import Place
from tensorir.script.statements import StatementReader
from tensorir.script.syntax import Tree


class GraphBuilder(StatementReader):
    """Builds one graph function from its tree.

    `siblings` are the functions of its module by name. `add` adds a tensor function to the module,
    and returns it with a unique name that is similar to the given name.
    """

    refused: ClassVar = {
        "for": "loops are not supported in a graph function; write the bindings out, or use "
        "BlockBuilder",
        "while": "loops are not supported in a graph function; use recursion under an if",
        "return": "a graph function returns once, at its end",
        "assert": "asserts are not supported in a graph function; check shapes by R.match_cast",
        "decorated": "a function cannot be inside another one; define both in a class under "
        "@I.ir_module",
    }

    def __init__(
        self,
        evaluate: Evaluator,
        siblings: Mapping[str, Any],
        *,
        private: bool = False,
        pure: bool = True,
        add: Callable[[PrimFunc, str], GlobalVar] | None = None,
    ) -> None:
        super().__init__(evaluate, private)
        self._add = add
        self._source = evaluate.source
        self._siblings = siblings
        self._pure = pure
        self._blocks = BindingBlocks(evaluate.source.places)

    def build(self, tree: Tree) -> Function:
        """Return the function whose `def` is `tree`."""
        _, place, name, _, _, body, _ = tree
        with self._function_scopes():
            params, stated = self._signature(tree)
            value = self._body(body, place)
        result = value.struct_info if stated is None else stated
        if fits(result, value.struct_info) is Fits.NO:
            raise self._fail(
                f"{name} returns {value.struct_info}, but its result is annotated {result}",
                tree[4][1],
            )
        attrs = self._named_attrs(name)
        return Function(params, self._blocks.sequence(value), result, self._pure, attrs)

    def declared(self, tree: Tree) -> tuple[list[g.GraphVar], StructInfo | None]:
        """Return the parameters with their types, and the declared type of the result, if any."""
        with self._function_scopes():
            return self._signature(tree)

    @contextmanager
    def _function_scopes(self) -> Iterator[None]:
        """Define the functions of the module, and open a level for the names of the function."""
        self._scope.push()
        for name, value in self._siblings.items():
            self._scope.rebind(name, value)
        self._scope.push()
        yield
        self._scope.pop()
        self._scope.pop()

    # ------------------------------------------------------------------------------------ signature

    def _signature(self, tree: Tree) -> tuple[list[g.GraphVar], StructInfo | None]:
        """Define the parameters; return them and the annotation of the result."""
        _, _, _, parameters, result, _, type_vars = tree
        declare_sizes(self._scope, [size for _, size in type_vars])
        params = [self._parameter(parameter) for parameter in parameters]
        return params, None if result is None else self._annotation(result, defines=True)

    def _parameter(self, tree: Tree) -> g.GraphVar:
        name, annotation = self._annotated_name(
            tree,
            'the parameter {name} needs an annotation: {name}: R.Tensor((1, "n"), "float32")',
        )
        var = g.GraphVar(name, self._annotation(annotation, defines=True))
        if name in self._scope.levels[-1]:
            raise self._fail(f"there are two parameters called {name}", tree[1])
        self._scope.rebind(name, var)
        return var

    def _annotation(self, tree: Tree, *, defines: bool = False) -> StructInfo:
        """Return the struct info of an annotation; `defines` is True in a signature."""
        value = self._evaluate(tree)
        return self._evaluate.guarded(tree[1], self._known, value, defines)  # type: ignore[no-any-return]

    def _known(self, annotation: Any, defines: bool = False) -> StructInfo:
        return unquoted(
            struct_info_of(annotation), lambda text: as_expr(self._size(text, INT64, defines))
        )

    # --------------------------------------------------------------------------------------- bodies

    def _body(self, trees: list[Tree], place: Place) -> g.GraphExpr:
        """Read the statements of a function; return its result."""
        for k, tree in enumerate(trees):
            if tree[0] != "return":
                self._statement(tree)
                continue
            if k != len(trees) - 1:
                raise self._fail(
                    "the return of a graph function must be its last statement", trees[k + 1][1]
                )
            if tree[2] is None:
                raise self._fail(
                    "a graph function must return a value, such as R.tuple()",
                    tree[1],
                )
            self._blocks.place = tree[1]
            return self._evaluate.guarded(tree[1], self._result, self._value(tree[2]))  # type: ignore[no-any-return]
        raise self._fail("a graph function must end in `return` with its value", place)

    def _result(self, value: Any) -> g.GraphExpr:
        return self._blocks.part(_value_without_quotes(value))

    def _leaf(self, value: Any) -> g.GraphExpr:
        return self._blocks.leaf(_value_without_quotes(value))

    def _value(self, tree: Tree) -> Any:
        """Return the value of an expression; the call of a macro is expanded."""
        value = self._evaluate(tree)
        if not isinstance(value, MacroCall):
            return value
        result = self._expand(value)
        if result is None:
            raise self._fail(
                f"the macro {value.macro.name} returns no value; use its call as a statement",
                tree[1],
            )
        return result

    def _expand(self, call: MacroCall) -> Any:
        """Read the statements of a macro; return its result, or None."""
        with call.opened(self._evaluate) as (*statements, last):
            for statement in statements:
                self._statement(statement)
            if last[0] == "return":
                return None if last[2] is None else self._value(last[2])
            self._statement(last)
        return None

    def _statement(self, tree: Tree) -> None:
        if self._evaluate.source is self._source:
            self._blocks.place = tree[1]
        super()._statement(tree)

    def read_expression_statement(self, tree: Tree) -> None:
        """Read attributes of the function, or emit a call for its effect."""
        if tree[2][0] == "constant" and isinstance(tree[2][2], str):
            return
        value = self._evaluate(tree[2])
        if isinstance(value, MacroCall):
            self._expand(value)
        elif isinstance(value, FuncAttrRecord):
            self._add_attrs(value.attrs)
        elif isinstance(value, OutputRecord):
            raise IRValueError("R.output(...) must be the last statement of `with R.dataflow():`")
        elif isinstance(value, g.GraphCall) and _has_effect(value):
            self._bind("_", _with_result_info(value, VOID))
        elif value is not None:
            raise IRValueError(
                "the value of this expression is unused; give it a name, or remove it"
            )

    def read_assign(self, tree: Tree) -> None:
        """Bind a value to a name, or its fields to several names."""
        _, place, targets, value_tree = tree
        if len(targets) > 1:
            raise IRTypeError("a = b = c is not supported; write one assignment per line")
        self._assign(targets[0], self._value(value_tree), place)

    def read_augmented(self, tree: Tree) -> None:
        """`x += y` binds `x + y` to `x`."""
        _, place, target, operator, value = tree
        self._assign(target, self._evaluate(("binary", place, operator, target, value)), place)

    def read_annotated(self, tree: Tree) -> None:
        """`x: R.Tensor(...) = value` is a binding with a struct info."""
        _, place, target, annotation, value_tree = tree
        if target[0] != "name" or value_tree is None:
            raise self._fail("an annotated binding must be `name: R.Tensor(...) = value`", place)
        stated = self._annotation(annotation)
        self._bind(target[2], self._value(value_tree), stated, annotation[1])

    def _assign(self, target: Tree, value: Any, place: Place) -> None:
        if target[0] == "parenthesized":
            target = target[2]
        if target[0] == "name":
            self._name(target[2], value)
            return
        if target[0] not in ("tuple", "list") or any(t[0] != "name" for t in target[2]):
            raise self._fail("values must be bound to plain names", target[1])
        names = [t[2] for t in target[2]]
        if len(set(names)) != len(names):
            raise self._fail("duplicate name on the left-hand side", target[1])
        fields = list(value if isinstance(value, (tuple, list)) else self._leaf(value))
        if len(fields) != len(names):
            raise self._fail(f"there are {len(fields)} value(s), but {len(names)} names", place)
        for name, field in zip(names, fields, strict=True):
            self._name(name, field)

    def _name(self, name: str, value: Any) -> None:
        """Define a name: bind a value, or record a size or a Python value under the name."""
        if isinstance(value, FreshVar):
            if not any(isinstance(level.get(name), Var) for level in self._scope.levels):
                self._scope.rebind(name, value.build(name))
        elif isinstance(value, MetaVar):
            self._scope.rebind(name, value)
        elif isinstance(value, FormulaRecord):
            self._bind(name, self._formula(value))
        elif isinstance(value, _VALUES):
            self._bind(name, value)
        elif isinstance(value, PrimExpr):
            as_value(value)  # raises an error with the remedy
        else:
            self._scope.rebind(name, value)

    # ------------------------------------------------------------------------------------- bindings

    def _bind(
        self, name: str, value: Any, stated: StructInfo | None = None, place: Place | None = None
    ) -> None:
        if isinstance(value, MatchCastRecord):
            source = self._leaf(value.value)
            info = self._known(value.struct_info)
            var = self._blocks.variable(name, info if stated is None else stated)
            self._blocks.emit(g.MatchCast(var, source, info))
        else:
            normal = self._blocks.normal(_value_without_quotes(value))
            if stated is not None:
                normal = _with_result_info(normal, stated)
            info = normal.struct_info
            if stated is not None and fits(stated, info) is Fits.NO:
                assert place is not None
                raise self._fail(f"{name} is annotated {stated}, but the value is {info}", place)
            var = self._blocks.variable(name, info if stated is None else stated)
            self._blocks.emit(g.VarBinding(var, normal))
        self._scope.rebind(name, var)

    def _formula(self, record: FormulaRecord) -> g.GraphCall:
        if self._add is None:
            raise IRValueError(
                "R.emit_te adds a function to the module: write the function in a class under "
                "@I.ir_module"
            )
        return record.call(self._add(record.formula.func.with_attrs(record.attrs), record.name))

    # ------------------------------------------------------------------------------------ compounds

    def read_with(self, tree: Tree) -> None:
        """Read the bindings of `with R.dataflow():`, which end in `R.output(...)`."""
        _, place, items, body = tree
        if len(items) != 1 or items[0][3] is not None:
            raise self._fail("a `with` in a graph function must be `with R.dataflow():`", place)
        frame = self._evaluate(items[0][2])
        if not isinstance(frame, DataflowFrame):
            raise self._fail(
                "a `with` in a graph function must be `with R.dataflow():`", items[0][2][1]
            )
        if self._blocks.in_dataflow:
            raise self._fail("dataflow blocks cannot be nested", place)
        *statements, last = body
        if not _is_output(last):
            raise self._fail(
                "a dataflow block must end in R.output(...) with the names that are used after it",
                last[1],
            )
        self._scope.push()
        self._blocks.begin_dataflow()
        for statement in statements:
            self._statement(statement)
        record = self._evaluate(last[2])
        exported = self._outputs(last, record)
        sizes = {n: v for n, v in self._scope.levels[-1].items() if isinstance(v, Var)}
        self._close(
            "{0} is bound in a dataflow block; use R.output({0}) to read it after the block"
        )
        for name, value in {**sizes, **exported}.items():
            self._scope.rebind(name, value)

    def _close(self, hint: str) -> None:
        """Close the level of a body; `hint` is the error for a later use of one of its names."""
        level = self._scope.levels[-1]
        self._scope.pop()
        for name in level:
            if not self._scope.knows(name):
                self._scope.rebind(name, _EndedName(hint.format(name)))

    def _outputs(self, tree: Tree, record: OutputRecord) -> dict[str, g.GraphVar]:
        """End a dataflow block; return its outputs by name."""
        names = []
        for argument, value in zip(tree[2][3], record.values, strict=True):
            own = self._scope.levels[-1]
            if argument[0] != "name" or own.get(argument[2]) is not value:
                raise self._fail("R.output needs names that the block binds", argument[1])
            names.append(argument[2])
        created = self._blocks.end_dataflow(record.values)
        return dict(zip(names, created, strict=True))

    def read_if(self, tree: Tree) -> None:
        """Read an if.

        Both branches must end by binding the same name, which becomes the name of the value.
        """
        _, place, condition_tree, body, otherwise = tree
        condition = self._evaluate(condition_tree)
        if isinstance(condition, (bool, np.bool_)):
            for statement in (body if condition else otherwise) or []:
                self._statement(statement)
            return
        if self._blocks.in_dataflow:
            raise self._fail("an if must be outside of dataflow blocks", place)
        if otherwise is None:
            raise self._fail("an if of a graph function must have an else as well", place)
        choice = self._evaluate.guarded(condition_tree[1], self._leaf, condition)
        name, yes = self._branch(body)
        other, no = self._branch(otherwise)
        if name != other:
            raise self._fail(
                "both branches of an if must end by binding the same name for its value; "
                f"these end in {name} and {other}",
                place,
            )
        self._bind(name, g.If(choice, yes, no))

    def _branch(self, trees: list[Tree]) -> tuple[str, g.SeqExpr]:
        """Read a branch of an if; return the name and value of its last binding."""
        outer, self._blocks = self._blocks, self._blocks.inner()
        self._scope.push()
        for tree in trees:
            if tree[0] == "return":
                raise self._fail(
                    "a graph function must return once, at its end; bind one name in both branches",
                    tree[1],
                )
            self._statement(tree)
        self._close(
            "{0} is bound in a branch of an if; only the name that both branches bind last is "
            "defined after it"
        )
        blocks, self._blocks = self._blocks, outer
        name, value = blocks.last_value()
        if value is None:
            raise self._fail("each branch of an if must end by binding a name", trees[-1][1])
        return name, blocks.sequence(value)


@dataclass(slots=True)
class _EndedName(Alias):
    """A name whose scope has ended; reading it raises an error with the reason."""

    why: str

    def read(self) -> Any:
        """Raise IRValueError."""
        raise IRValueError(self.why)


def _value_without_quotes(value: Any) -> g.GraphExpr:
    """Return the value of a binding. Raises IRValueError if it contains sizes in quotes."""
    known = as_value(value)
    for text in quoted_sizes(known):
        raise IRValueError(
            f'sizes in quotes are only allowed in annotations; write {text} instead of "{text}"'
        )
    return known


def _has_effect(call: g.GraphCall) -> bool:
    """Return True if a call may be a statement without a name."""
    if isinstance(call.op, Operator):
        return not call.op.pure
    return not isinstance(call.struct_info, TupleStructInfo) or is_void(call.struct_info)


def _with_result_info(value: g.GraphExpr, info: StructInfo) -> g.GraphExpr:
    """Return a value; the call of an unknown function gets the given struct info."""
    if not isinstance(value, g.GraphCall) or not isinstance(value.op, GlobalVar):
        return value
    if value.struct_info is not OBJECT:
        return value
    return g.GraphCall(value.op, value.args, value.attrs, value.sinfo_args, info)


def _is_output(tree: Tree) -> bool:
    """Return True for `R.output(...)`, under any name of `R`."""
    if tree[0] != "expression_statement" or tree[2][0] != "call":
        return False
    function = tree[2][2]
    return bool(function[-1] == "output" and function[0] == "attribute")


_VALUES: Final = (
    g.GraphExpr, MatchCastRecord, int, float, tuple, list, np.ndarray, np.generic,
)  # fmt: skip
