"""Checking that graph functions are well-formed.

A-normal form: the parts of a value are leaves (variables, constants, shapes, numbers, names) or
tuples of leaves. Every variable is bound once, before its use, and visible in its scope: variables
of a branch inside of the branch, a `DataflowVar` inside of its dataflow block. Symbolic sizes are
defined by parameters and `match_cast`, each in one function. A dataflow block contains neither
branches nor effects. Calls fit their functions, and stated struct infos follow from the inferred
struct infos.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from tensorir.arith import Analyzer
from tensorir.errors import IRTypeError, IRValueError, WellFormedError
from tensorir.function import IRModule, PrimFunc
from tensorir.memory.written_parameters import written_parameters
from tensorir.nodes.expr import GlobalVar, Var
from tensorir.nodes.node import Node
from tensorir.relax import expr as g
from tensorir.relax.call_graph import written_values
from tensorir.relax.callee import is_pure_call, result_of
from tensorir.relax.calls import destination_passing
from tensorir.relax.function import Function
from tensorir.relax.relations import Fits, fits
from tensorir.relax.struct_info import (
    FuncStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    defining_extents,
)
from tensorir.rewriting.visit import collect_vars


def verify_graph_function(
    func: Function,
    mod: IRModule | None = None,
    name: str = "",
    defined: dict[Node, str] | None = None,
) -> None:
    """Check a graph function of a module.

    Raises WellFormedError, which names the rule and the place. Without a module, calls are not
    checked against their functions. `name` is for messages; `defined` maps variables and sizes to
    the functions to which they belong; the call adds those of this function.
    """
    _Verifier(mod, name, {} if defined is None else defined).function(func)


class _Verifier:
    def __init__(self, mod: IRModule | None, name: str, defined: dict[Node, str]) -> None:
        self._mod = mod
        self._name = name
        self._function = f'function "{name}"' if name else "the function"
        self._owner = defined
        self._visible: set[Node] = set()
        """Variables and symbolic sizes that are visible here."""
        self._analyzer = Analyzer()
        self._place = self._function
        self._binding: g.Binding | None = None
        self._in_dataflow = False
        self._written: dict[PrimFunc, list[Var]] = {}
        """The parameters that tensor functions write, cached because many calls share one."""

    # ----------------------------------------------------------------------------------- structure

    def function(self, func: Function) -> None:
        """Verify a function."""
        for param in func.params:
            self._place = f'parameter "{param.name}" of {self._function}'
            if isinstance(param, g.DataflowVar):
                self._fail(
                    "a parameter must be a relax.Var; only dataflow blocks bind a DataflowVar"
                )
            self._define(param)
            self._define_sizes(param.struct_info)
        for param in func.params:
            self._place = f'parameter "{param.name}" of {self._function}'
            self._use_sizes(param.struct_info)
        self._place = self._function
        self._sequence(func.body)
        if self._mod is not None:
            self._check_constants(func, self._mod)
        self._place = f"the result of {self._function}"
        self._use_sizes(func.ret_struct_info)
        self._check_stated(func.ret_struct_info, func.body.struct_info, "the function returns")
        self._check_state(func)

    def _check_state(self, func: Function) -> None:
        """Check that updates and state fit their parameters."""
        self._place = self._function
        kept = zip(func.params[len(func.arguments) :], func.state, strict=False)
        pairs = [(param, constant.struct_info, "its state") for param, constant in kept]
        try:
            updated = func.updates
        except IRValueError as error:
            self._fail(str(error))
        if updated:
            result = func.ret_struct_info
            given = result.elements[-1] if isinstance(result, TupleStructInfo) else None
            if (
                not isinstance(result, TupleStructInfo)
                or len(result) != 2
                or not isinstance(given, TupleStructInfo)
                or len(given) != len(updated)
            ):
                self._fail(
                    f"it updates {len(updated)} parameter(s), so it must return a pair: its result "
                    f"and a tuple of as many new contents; it returns {result}"
                )
            pairs += [
                (p, i, "its new contents") for p, i in zip(updated, given.elements, strict=True)
            ]
        for param, info, what in pairs:
            if fits(param.struct_info, info, self._analyzer) is Fits.NO:
                self._fail(f"the parameter {param.name} is {param.struct_info}, {what} {info}")

    def _sequence(self, node: g.SeqExpr) -> None:
        """Verify the body of a function or branch."""
        for block in node.blocks:
            self._block(block)
        self._argument(node.body, "the result of the body")

    def _block(self, block: g.BindingBlock) -> None:
        self._in_dataflow = isinstance(block, g.DataflowBlock)
        for binding in block.bindings:
            outer = self._place, self._binding
            self._place = f'binding "{binding.var.name}" of {self._function}'
            self._binding = binding
            self._bind(binding)
            self._place, self._binding = outer
        self._in_dataflow = False
        for binding in block.bindings:
            if isinstance(binding.var, g.DataflowVar):
                self._visible.discard(binding.var)

    def _bind(self, binding: g.Binding) -> None:
        var = binding.var
        if isinstance(var, g.DataflowVar) and not self._in_dataflow:
            self._fail("a DataflowVar is bound outside of a dataflow block; bind a relax.Var there")
        self._value(binding.value)
        if isinstance(binding, g.MatchCast):
            if fits(binding.struct_info, binding.value.struct_info, self._analyzer) is Fits.NO:
                self._fail(
                    f"match_cast to {binding.struct_info} can never succeed, the value is "
                    f"{binding.value.struct_info}"
                )
            self._define_sizes(binding.struct_info)
            self._use_sizes(binding.struct_info)
            known = binding.struct_info
        else:
            known = binding.value.struct_info
        self._use_sizes(var.struct_info)
        self._check_stated(var.struct_info, known, "the value is")
        self._define(var)

    # -------------------------------------------------------------------------------------- values

    def _value(self, value: g.GraphExpr) -> None:
        """Verify the value of a binding."""
        if isinstance(value, g.GraphCall):
            self._call(value)
        elif isinstance(value, g.TupleGetItem):
            self._leaf(value.tuple_value, "the tuple")
        elif isinstance(value, g.If):
            self._branches(value)
        else:
            self._argument(value, "the value")

    def _argument(self, value: g.GraphExpr | GlobalVar, what: str) -> None:
        """Verify a leaf or a tuple of leaves."""
        if isinstance(value, g.Tuple):
            for k, element in enumerate(value.elements):
                self._argument(element, f"field {k} of {what}")
        else:
            self._leaf(value, what)

    def _leaf(self, value: g.GraphExpr | GlobalVar, what: str) -> None:
        if isinstance(value, GlobalVar):
            if self._mod is not None and value.name not in self._mod:
                self._fail(
                    f'{what} is "{value.name}", but the module has no such function; it has '
                    f"{sorted(self._mod)}"
                )
            return
        if not isinstance(value, g.LEAVES):
            if isinstance(value, (g.SeqExpr, g.If)):
                self._binding = None  # not printed, as scripts cannot have nested bodies
            self._fail(
                f"{what} is {_describe_kind(value)}; functions are in A-normal form, so bind it to "
                "a separate variable first (relax.BlockBuilder does)"
            )
        if isinstance(value, g.GraphVar):
            self._use(value)
        elif isinstance(value, (g.ShapeExpr, g.PrimValue)):
            self._use_sizes(value)

    def _call(self, call: g.GraphCall) -> None:
        if isinstance(call.op, g.GraphVar):
            self._use(call.op)
        for k, arg in enumerate(call.args):
            self._argument(arg, f"argument {k}")
        for info in call.sinfo_args:
            self._use_sizes(info)
        self._use_sizes(call.struct_info)
        if self._mod is None:
            return
        try:
            result = result_of(call, self._mod)
        except (IRTypeError, IRValueError) as error:
            self._fail(str(error))
        self._check_stated(call.struct_info, result, "the call gives")
        self._check_written(call, self._mod)
        if self._in_dataflow and not is_pure_call(call, self._mod):
            self._fail(
                "the call may have effects, which a dataflow block must not have; move it out of "
                "the block, or declare the function pure (R.call_pure_packed)"
            )

    def _check_constants(self, func: Function, mod: IRModule) -> None:
        """Check that no call writes to a constant."""
        for value in written_values(func, mod):
            if isinstance(value, g.Constant):
                self._fail(
                    f"a call writes to the constant {value.struct_info}, which other calls read; "
                    "let it write to new memory (R.builtin.alloc_tensor)"
                )

    def _check_written(self, call: g.GraphCall, mod: IRModule) -> None:
        """Check that a tensor function writes only to arguments that outputs overwrite."""
        parts = destination_passing(call)
        if parts is None or not isinstance(parts.callee, GlobalVar):
            return
        callee = mod.prim_func(parts.callee.name)
        written = self._written.get(callee)
        if written is None:
            written = self._written[callee] = written_parameters(callee, mod)
        for k, param in enumerate(callee.params[: len(parts.args)]):
            if param in written and k not in parts.inplace:
                name = callee.buffer_map[param].name
                self._fail(
                    f'"{parts.callee.name}" writes to its parameter {name}, which gets argument '
                    f"{k}: as a value, the argument of a call does not change; call it by "
                    f"R.call_tir_inplace with {k} among the inplace_indices, or let the function "
                    "write to another buffer"
                )

    def _branches(self, value: g.If) -> None:
        if self._in_dataflow:
            self._fail("a dataflow block cannot contain branches; move the If out of the block")
        self._leaf(value.cond, "the condition")
        info = value.cond.struct_info
        if isinstance(info, TensorStructInfo):
            is_scalar = info.ndim <= 0 and (info.dtype is None or info.dtype.lanes == 1)
            if not is_scalar or (info.dtype is not None and info.dtype.is_float):
                self._fail(
                    f"the condition must be a bool or an integer of no dimensions, not {info}"
                )
        for branch in (value.true_branch, value.false_branch):
            with self._scope():
                self._sequence(branch)

    # --------------------------------------------------------------------------------------- scopes

    @contextmanager
    def _scope(self) -> Iterator[None]:
        before = set(self._visible)
        yield
        self._visible = before

    def _define(self, var: g.GraphVar) -> None:
        owner = self._owner.get(var)
        if owner is not None:
            again = "bound again" if owner == self._function else f"a variable of {owner}, too"
            self._fail(
                f"{var.name} is {again}; every variable is bound once: make a new one, or copy the "
                "function with renew_defs"
            )
        self._owner[var] = self._function
        self._visible.add(var)

    def _use(self, var: g.GraphVar) -> None:
        if var in self._visible:
            return
        owner = self._owner.get(var)
        if owner is None:
            self._fail(f"{var.name} is used before it is bound")
        if owner != self._function:
            self._fail(
                f"{var.name} is used, which is a variable of {owner}; pass it as an argument"
            )
        if isinstance(var, g.DataflowVar):
            self._fail(
                f"{var.name} is used outside of its dataflow block; name it in R.output(...)"
            )
        self._fail(f"{var.name} is used outside of the branch that binds it; return it from the If")

    def _define_sizes(self, info: StructInfo) -> None:
        """Define the variables that are extents of a parameter or a checked value."""
        for extent in defining_extents(info):
            if not isinstance(extent, Var) or extent in self._visible:
                continue
            owner = self._owner.get(extent)
            if owner not in (None, self._function):
                self._fail(
                    f"the size {extent.name} is one of {owner}, too; every function has its own "
                    "sizes: declare another variable, or copy the function with renew_defs"
                )
            self._owner[extent] = self._function
            self._visible.add(extent)

    def _use_sizes(self, node: StructInfo | g.GraphExpr) -> None:
        if isinstance(node, FuncStructInfo):
            return  # the struct info of a function has the sizes of that function
        if isinstance(node, TupleStructInfo):
            for element in node.elements:
                self._use_sizes(element)
            return
        for var in collect_vars(node):
            if var not in self._visible:
                self._fail(
                    f"the size {var.name} is used before it is defined; define it by a "
                    f"parameter or R.match_cast whose shape has {var.name} as a dimension"
                )

    def _check_stated(self, stated: StructInfo, known: StructInfo, subject: str) -> None:
        """Check that a stated struct info follows from the inferred one."""
        answer = fits(stated, known, self._analyzer)
        if answer is Fits.NO:
            self._fail(f"{stated} is stated, but {subject} {known}")
        if answer is Fits.UNKNOWN:
            self._fail(
                f"{stated} is stated, but {subject} {known}, which may differ; "
                "use R.match_cast for a check at run time"
            )

    def _fail(self, sentence: str) -> NoReturn:
        shown = ""
        if self._binding is not None:
            first, *more = str(self._binding).splitlines()
            shown = f"\n    {first}{' ...' if more else ''}"
        raise WellFormedError(f"{self._place}: {sentence}{shown}", self._binding)


def _describe_kind(value: Node) -> str:
    names = {g.GraphCall: "a call", g.TupleGetItem: "a field of a tuple", g.If: "a choice"}
    return names.get(type(value), f"a {type(value).__name__}")
