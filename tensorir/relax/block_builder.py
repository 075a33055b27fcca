"""Building graph functions step by step, in A-normal form, with a check at each step.

    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((1, 64), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            h = bb.emit_te(lambda A: te.compute(A.shape, lambda i, j: te.exp(A[i, j])), x)
            y = bb.emit_output(bb.call_te(double, h))
        bb.emit_func_output(y)
    mod = bb.get()

The call that causes an error raises it; a finished module is well-formed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import is_
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from tensorir.comparison.equal import structural_equal
from tensorir.comparison.structural_hash import structural_hash
from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import BaseFunc, IRModule
from tensorir.nodes.expr import GlobalVar
from tensorir.relax.building import Frame, Scope, UniqueNames
from tensorir.relax.call_te import formula_of
from tensorir.relax.callee import is_pure_call, result_of
from tensorir.relax.calls import call_tir
from tensorir.relax.expr import (
    DataflowVar,
    GraphCall,
    GraphExpr,
    GraphVar,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    VarBinding,
)
from tensorir.relax.function import Function
from tensorir.relax.operator import Operator
from tensorir.relax.relations import Fits, fits
from tensorir.relax.struct_info import VOID, StructInfo, TupleStructInfo

Value: TypeAlias = "GraphExpr | Sequence[Any]"
"""An expression; a list or tuple of values becomes a `Tuple`."""


class BlockBuilder:
    """Builds graph functions and the module that contains them.

    Expressions may nest: an inner expression other than a variable or constant is emitted as a
    separate binding, once. Calls are checked against the functions of the module, so add a function
    before you call it. Raises IRTypeError and IRValueError for operands that do not match,
    IRValueError for steps in the wrong order.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self._mod = IRModule() if mod is None else mod.clone()
        self._frame: Frame | None = None
        self._global_names = UniqueNames(self._mod)
        self._by_hash: dict[type[BaseFunc], dict[int, list[str]]] = {}
        """The names of functions by their hash, for each class of functions that was added."""

    # --------------------------------------------------------------------------------------- scopes

    @contextmanager
    def function(
        self,
        name: str,
        params: Sequence[GraphVar] | GraphVar | None = None,
        attrs: Mapping[str, Any] | None = None,
        pure: bool = True,
        private: bool = False,
    ) -> Iterator[None]:
        """Build a function in a `with` statement, which ends with `emit_func_output`.

        `params` may be passed there instead. A function that calls a function with effects is not
        `pure`; a `private` function has no `global_symbol`.
        """
        if self._frame is not None:
            raise IRValueError(
                f'function "{name}" begins inside of "{self._frame.name}"; end that one first'
            )
        if name in self._mod:
            raise IRValueError(
                f'function "{name}" exists already; choose another name, or replace it with '
                "update_func"
            )
        own = dict(attrs or {}) if private else {"global_symbol": name, **(attrs or {})}
        self._frame = frame = Frame(name, _params(params), own, pure)
        try:
            yield
            if frame.result is None:
                raise IRValueError(
                    f'function "{name}" has no result; call emit_func_output before it ends'
                )
            self._global_names.unique(name)
            self._enter(name, frame.result)
        finally:
            self._frame = None

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Suspend the current function in a `with` statement, to build other functions there.

        The other functions cannot use its variables; pass these as arguments of the calls.
        """
        frame, self._frame = self._frame, None
        try:
            yield
        finally:
            self._frame = frame

    @contextmanager
    def dataflow(self) -> Iterator[None]:
        """Build a dataflow block in a `with` statement: no effects, no branches."""
        scope = self._scope("dataflow")
        if scope.in_dataflow:
            raise IRValueError("a dataflow block begins inside of another one; end that one first")
        scope.close_block()
        scope.in_dataflow = True
        before = dict(scope.emitted)
        yield
        scope.close_block()
        scope.in_dataflow = False
        scope.emitted = before
        scope.visible = {var for var in scope.visible if not isinstance(var, DataflowVar)}

    def emit_if(
        self,
        cond: GraphExpr,
        then: Callable[[], Value],
        otherwise: Callable[[], Value],
        name_hint: str = "",
    ) -> GraphVar:
        """Emit an `If`; each function emits the bindings of a branch and returns its value.

        >>> y = bb.emit_if(cond, lambda: bb.emit(f(x)), lambda: x)  # doctest: +SKIP
        """
        if self.current_block_is_dataflow():
            raise IRValueError(
                "a dataflow block cannot contain branches; end it before emit_if, and begin "
                "another one after or inside of it"
            )
        condition = self._leaf(cond)
        branches = []
        for build in (then, otherwise):
            frame = self._current_frame("emit_if")
            frame.scopes.append(Scope())
            try:
                value = self._result(build())
                branches.append(frame.scopes[-1].sequence(value))
            finally:
                frame.scopes.pop()
        return self._bind(If(condition, *branches), name_hint)

    def current_block_is_dataflow(self) -> bool:
        """Return True if bindings are added to a dataflow block now."""
        return self._frame is not None and self._frame.scopes[-1].in_dataflow

    # ------------------------------------------------------------------------------------- bindings

    def emit(self, expr: Value, name_hint: str = "") -> GraphVar:
        """Bind an expression to a new variable, `lv` in a dataflow block, else `gv`; return it."""
        return self._bind(self.normalize(expr), name_hint)

    def emit_te(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> GraphVar:
        """Bind `call_te(fn, *args, **kwargs)` to a new variable and return it."""
        return self.emit(self.call_te(fn, *args, **kwargs))

    def emit_output(self, expr: Value, name_hint: str = "") -> GraphVar:
        """Bind an expression to a variable that is visible after the dataflow block."""
        if not self._scope("emit_output").in_dataflow:
            raise IRValueError(
                "emit_output is for dataflow blocks; outside, every variable that emit returns can "
                "be used"
            )
        return self._bind(self.normalize(expr), name_hint, output=True)

    def match_cast(
        self,
        value: GraphExpr,
        struct_info: StructInfo,
        name_hint: str = "",
        output: bool = False,
    ) -> GraphVar:
        """Bind a value whose struct info is checked when the function runs; return the variable.

        New variables in the shape are defined by this binding. With `output`, the variable is
        visible after the dataflow block.
        """
        scope = self._scope("match_cast")
        leaf = self._leaf(value)
        if fits(struct_info, leaf.struct_info) is Fits.NO:
            raise IRTypeError(
                f"match_cast to {struct_info} can never succeed, the value is {leaf.struct_info}"
            )
        var = self._new_var(struct_info, name_hint, output)
        scope.bindings.append(MatchCast(var, leaf, struct_info))
        self._define(var, leaf)
        return var

    def emit_func_output(
        self, output: Value, params: Sequence[GraphVar] | GraphVar | None = None
    ) -> None:
        """End the function with its result, which may be a tuple of values."""
        frame = self._current_frame("emit_func_output")
        if frame.result is not None:
            raise IRValueError(f'function "{frame.name}" has a result already')
        if self.current_block_is_dataflow() or len(frame.scopes) > 1:
            where = "a dataflow block" if self.current_block_is_dataflow() else "a branch"
            raise IRValueError(f"emit_func_output is called inside of {where}; end the block first")
        if params is not None:
            if frame.params is not None:
                raise IRValueError(
                    f'the parameters of "{frame.name}" are given twice: by function and by '
                    "emit_func_output"
                )
            frame.set_params(_params(params) or ())
        if frame.params is None:
            raise IRValueError(
                f'function "{frame.name}" has no parameters yet; pass a list, which may be empty, '
                "to function or emit_func_output"
            )
        value = self._result(output)
        frame.check_free()
        body = frame.scopes[-1].sequence(value)
        frame.result = Function(frame.params, body, None, frame.pure, frame.attrs)

    def lookup_binding(self, var: GraphVar) -> GraphExpr | None:
        """Return the value that a variable is bound to; None for a parameter."""
        return self._current_frame("lookup_binding").values.get(var)

    def is_visible(self, value: GraphExpr) -> bool:
        """Return True if a value is visible here.

        Variables of a branch are visible only inside of it.
        """
        return self._current_frame("is_visible").is_visible(value)

    # ---------------------------------------------------------------------------------- expressions

    def call_te(
        self,
        fn: Callable[..., Any],
        *args: Any,
        primfunc_name_hint: str | None = None,
        primfunc_attrs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> GraphCall:
        """Return the call of a new tensor function that computes `fn(*args, **kwargs)`.

        `fn` receives a te tensor for each tensor; see `tensorir.relax.call_te.formula_of`.
        The function is added to the module under the name of `fn`, unless an equal one is there.
        """
        formula = formula_of(fn, args, kwargs, self._argument)
        name = primfunc_name_hint or str(getattr(fn, "__name__", ""))
        func = formula.func.with_attrs(primfunc_attrs or {})
        gvar = self.add_func(func, name if name.isidentifier() else "te_func")
        return call_tir(gvar, formula.args, list(formula.infos), formula.sizes or None)

    def normalize(self, expr: Value) -> GraphExpr:
        """Return an expression whose parts are leaves or tuples of leaves.

        Other parts are emitted as separate bindings. Calls are checked, and have the struct info
        that their function returns.
        """
        value = _as_value(expr)
        if isinstance(value, Tuple):
            elements = tuple(map(self._argument, value.elements))
            same = all(a is b for a, b in zip(elements, value.elements, strict=True))
            return value if same else Tuple(elements)
        if isinstance(value, TupleGetItem):
            return self._field(value)
        if isinstance(value, GraphCall):
            return self._call(value)
        if isinstance(value, If):
            if self.current_block_is_dataflow():
                raise IRValueError("a dataflow block cannot contain branches; end it before the If")
            cond = self._leaf(value.cond)
            if cond is value.cond:
                return value
            return If(cond, value.true_branch, value.false_branch)
        if isinstance(value, SeqExpr):
            raise IRTypeError("a sequence of bindings is not a value; emit its bindings one by one")
        self._use(value)
        return value

    def _call(self, call: GraphCall) -> GraphExpr:
        op = call.op
        if isinstance(op, GraphVar):
            self._use(op)
        args = tuple(a if isinstance(a, GlobalVar) else self._argument(a) for a in call.args)
        place = "" if self._frame is None else f'a call in function "{self._frame.name}": '
        new = call if all(map(is_, args, call.args)) else call.with_(args=args)
        if isinstance(op, GlobalVar) and self._is_building(op):
            return new
        try:
            info = result_of(new, self._mod)
        except (IRTypeError, IRValueError) as error:
            raise type(error)(f"{place}{error}") from None
        self._check_effects(new, place)
        if isinstance(op, Operator) or info is new.struct_info:
            return new
        return GraphCall(op, args, call.attrs, call.sinfo_args, info)

    def _is_building(self, name: GlobalVar) -> bool:
        """Return True for the function under construction, whose calls are not checked yet."""
        return self._frame is not None and self._frame.name == name.name

    def _check_effects(self, call: GraphCall, place: str) -> None:
        if self.current_block_is_dataflow() and not is_pure_call(call, self._mod):
            raise IRValueError(
                f"{place}it may have effects, which a dataflow block must not have; emit it "
                "outside of it, or declare the function pure (call_pure_packed)"
            )

    def _field(self, item: TupleGetItem) -> GraphExpr:
        whole = self._argument(item.tuple_value)
        bound = (
            self._frame.values.get(whole) if self._frame and isinstance(whole, GraphVar) else whole
        )
        if isinstance(bound, Tuple):
            element = bound.elements[item.index]
            if self._frame is None or self._frame.is_visible(element):
                return element
        whole = self._leaf(whole)
        return item if whole is item.tuple_value else TupleGetItem(whole, item.index)

    def _argument(self, expr: GraphExpr) -> GraphExpr:
        """Return a part of an expression: a leaf or a tuple of leaves."""
        value = self.normalize(expr) if isinstance(expr, Tuple) else expr
        return value if isinstance(value, Tuple) else self._leaf(value)

    def _leaf(self, expr: GraphExpr) -> GraphExpr:
        """Return a leaf with this value, emitting a binding if needed."""
        if isinstance(expr, TupleGetItem):
            field = self._field(expr)
            if not isinstance(field, TupleGetItem):
                return field
        if not isinstance(expr, (GraphCall, Tuple, TupleGetItem, If, SeqExpr)):
            return self.normalize(expr)
        frame = self._current_frame("an expression inside of another one")
        for scope in frame.scopes:
            known = scope.emitted.get(expr)
            if known is not None:
                return known
        var = self.emit(expr)
        frame.scopes[-1].emitted[expr] = var
        return var

    def _result(self, output: Value) -> GraphExpr:
        """Return the result of a body: a leaf or a tuple of leaves."""
        return self._argument(_as_value(output))

    # ------------------------------------------------------------------------------------ variables

    def _bind(self, value: GraphExpr, name_hint: str, output: bool = False) -> GraphVar:
        scope = self._scope("emit")
        var = self._new_var(value.struct_info, name_hint, output)
        scope.bindings.append(VarBinding(var, value))
        self._define(var, value)
        return var

    def _new_var(self, info: StructInfo, name_hint: str, output: bool) -> GraphVar:
        inner = self.current_block_is_dataflow() and not output
        if isinstance(info, TupleStructInfo) and not info.elements and not name_hint:
            return (DataflowVar if inner else GraphVar)("_", VOID)
        kind, default = (DataflowVar, "lv") if inner else (GraphVar, "gv")
        return kind(self.get_unique_name(name_hint or default), info)

    def _define(self, var: GraphVar, value: GraphExpr) -> None:
        frame = self._current_frame("emit")
        frame.values[var] = value
        frame.scopes[-1].visible.add(var)

    def _use(self, value: GraphExpr) -> None:
        """Check that a variable is defined before its use."""
        if self._frame is not None:
            self._frame.use(value)

    def get_unique_name(self, prefix: str) -> str:
        """Return a name that is unique in the function (outside of functions: in the module)."""
        names = self._global_names if self._frame is None else self._frame.names
        return names.unique(prefix)

    # ----------------------------------------------------------------------------------- the module

    def add_func(self, func: BaseFunc, func_name: str) -> GlobalVar:
        """Add a function and return its name: `func_name`, with a number if that is taken.

        If the module has a structurally equal function already, return its name.
        """
        kind = type(func)
        if kind not in self._by_hash:
            self._by_hash[kind] = {}
            for name, other in self._mod.functions.items():
                if type(other) is kind:
                    self._by_hash[kind].setdefault(_key(other), []).append(name)
        for name in self._by_hash[kind].get(_key(func), ()):
            if structural_equal(self._mod[name], func):
                return GlobalVar(name)
        name = self._global_names.unique(func_name)
        self._enter(name, func)
        return GlobalVar(name)

    def update_func(self, name: str | GlobalVar, func: BaseFunc) -> None:
        """Replace a function of the module."""
        key = name.name if isinstance(name, GlobalVar) else name
        replaced = self._mod[key]
        names = self._by_hash.get(type(replaced), {})
        if names:
            names[_key(replaced)].remove(key)
        self._enter(key, func)

    def get(self) -> IRModule:
        """Return the module of the functions that are complete."""
        return self._mod.clone()

    def finalize(self) -> IRModule:
        """Return the module. Raises IRValueError if a function is not complete."""
        if self._frame is not None:
            raise IRValueError(f'function "{self._frame.name}" is not complete; end it first')
        return self.get()

    def _enter(self, name: str, func: BaseFunc) -> None:
        self._mod[name] = func
        if type(func) in self._by_hash:
            self._by_hash[type(func)].setdefault(_key(func), []).append(name)

    def _current_frame(self, step: str) -> Frame:
        if self._frame is None:
            raise IRValueError(f"{step} needs a function: with bb.function(name, params): ...")
        return self._frame

    def _scope(self, step: str) -> Scope:
        frame = self._current_frame(step)
        if frame.result is not None:
            raise IRValueError(
                f'function "{frame.name}" has its result; {step} comes before emit_func_output'
            )
        return frame.scopes[-1]


_KEYS: Final[WeakKeyDictionary[BaseFunc, int]] = WeakKeyDictionary()


def _key(func: BaseFunc) -> int:
    """Return the hash of a function, without its weights because they are large.

    The hash is cached: each pass of a pipeline starts from a module with mostly the same functions.
    """
    key = _KEYS.get(func)
    if key is None:
        key = _KEYS[func] = structural_hash(func, ignore_ndarray=True)
    return key


def _params(params: Sequence[GraphVar] | GraphVar | None) -> Sequence[GraphVar] | None:
    return [params] if isinstance(params, GraphVar) else params


def _as_value(value: Value) -> GraphExpr:
    if isinstance(value, GraphExpr):
        return value
    if isinstance(value, (list, tuple)):
        return Tuple([_as_value(v) for v in value])
    raise IRTypeError(
        f"a value of a graph function must be a relax expression, got {type(value).__name__}; "
        "convert a number or an array by relax.const"
    )
