"""Graph functions and their bindings as script text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tensorir.nodes.expr import GlobalVar
from tensorir.nodes.node import Node
from tensorir.relax import expr as g
from tensorir.relax.calls import CALL_DPS_PACKED, CALL_TIR, CALL_TIR_INPLACE
from tensorir.relax.function import Function
from tensorir.relax.struct_info import is_void
from tensorir.rewriting.visit import collect_vars, walk
from tensorir.script.print_graph_expr import signature_text

if TYPE_CHECKING:
    from tensorir.script.printer import Printer

PARTS: Final = (g.VarBinding, g.MatchCast, g.BindingBlock, g.SeqExpr, g.If)
_STATES_RESULT: Final = (CALL_TIR, CALL_TIR_INPLACE, CALL_DPS_PACKED)


def function(printer: Printer, func: Function, name: str) -> None:
    """Print a graph function."""
    r, names = printer.options.relax_prefix, printer.names
    printer.decorator(f"{r}.function", func, name, *["pure=False"] * (not func.is_pure))
    names.open()
    infos = [param.struct_info for param in func.params]
    sizes = list(dict.fromkeys(v for i in (*infos, func.ret_struct_info) for v in collect_vars(i)))
    for size in sizes:
        names.define(size)
    texts = [signature_text(printer.expr, info) for info in infos]
    for param in func.params:
        names.define(param)
    params = [f"{printer.expr(p)}: {t}" for p, t in zip(func.params, texts, strict=True)]
    result = signature_text(printer.expr, func.ret_struct_info)
    printer.line(f"def {printer.symbol(name)}({', '.join(params)}) -> {result}:", func)
    printer.depth += 1
    for size in sizes:
        printer.line(f"{printer.var(size)} = {printer.fresh_var(size)}")
    attrs = {k: v for k, v in func.attrs.items() if (k, v) != ("global_symbol", name)}
    if attrs:
        printer.line(f"{r}.func_attr({printer.expr.mapping(attrs)})")
    if printer.module_name and not printer.options.is_oldest and calls_by_name(func):
        printer.line(f"cls = {printer.module_name}")
    Suite(printer, _used(func.body)).sequence(func.body)
    printer.line(f"return {printer.part(func.body, func.body.body)}")
    printer.depth -= 1
    names.end_function()


def calls_by_name(func: Function) -> bool:
    """Say whether a function refers to others of its module."""
    return any(isinstance(node, GlobalVar) for node in walk(func.body))


def part(printer: Printer, node: g.Binding | g.BindingBlock | g.SeqExpr | g.If) -> None:
    """Print a part of a graph function by itself."""
    if isinstance(node, g.If):
        node = g.VarBinding(g.GraphVar("value", node.struct_info), node)
    suite = Suite(printer, _used(node))
    if isinstance(node, g.SeqExpr):
        suite.sequence(node)
        printer.line(f"return {printer.part(node, node.body)}")
    elif isinstance(node, g.BindingBlock):
        suite.block(node)
    else:
        printer.binding(node, suite)


def _used(node: Node) -> set[g.GraphVar]:
    return {n for n in walk(node) if isinstance(n, g.GraphVar)}


class Suite:
    """Prints bindings; `used` are the variables that something reads."""

    def __init__(self, printer: Printer, used: set[g.GraphVar]) -> None:
        self._printer = printer
        self._used = used

    def sequence(self, seq: g.SeqExpr) -> None:
        """Print the bindings of a function or of one side of an if."""
        self._printer.begin_suite()
        for block in seq.blocks:
            self.block(block)

    def block(self, block: g.BindingBlock) -> None:
        """Print a block of bindings."""
        printer = self._printer
        if not isinstance(block, g.DataflowBlock):
            for binding in block.bindings:
                printer.binding(binding, self)
            return
        if not block.bindings:
            return
        r = printer.options.relax_prefix
        printer.line(f"with {r}.dataflow():", block)
        printer.depth += 1
        for binding in block.bindings:
            printer.binding(binding, self)
        outputs = [b.var for b in block.bindings if not isinstance(b.var, g.DataflowVar)]
        printer.line(f"{r}.output({', '.join(printer.expr(var) for var in outputs)})")
        printer.depth -= 1

    def print(self, node: g.Binding) -> None:
        """Print a binding, which names its variable."""
        printer, var = self._printer, node.var
        if isinstance(node, g.VarBinding) and isinstance(node.value, g.If):
            self._define(var)
            self._branches(node, node.value)
            return
        if isinstance(node, g.MatchCast):
            info = printer.expr(node.struct_info)
            text = f"{printer.options.relax_prefix}.match_cast({printer.expr(node.value)}, {info})"
            known = node.struct_info
        else:
            text = printer.expr(node.value)
            known = node.value.struct_info
            if is_void(var.struct_info) and var.name == "_" and var not in self._used:
                printer.line(text, node)
                return
        goes_without = isinstance(node, g.MatchCast) or _states_result(node.value)
        self._define(var)
        annotation = printer.expr(var.struct_info)
        if goes_without and annotation == printer.expr(known):
            printer.line(f"{printer.expr(var)} = {text}", node)
        else:
            printer.line(f"{printer.expr(var)}: {annotation} = {text}", node)

    def _define(self, var: g.GraphVar) -> None:
        """Give a variable a name, unless it has the one of the `if` whose value it is."""
        if var not in self._printer.names.texts:
            self._printer.names.define(var)

    def _branches(self, node: g.VarBinding, value: g.If) -> None:
        """Print an if, both sides of which end by binding the name that has its value."""
        printer = self._printer
        printer.line(f"if {printer.part(value, value.cond)}:", node)
        for k, branch in enumerate((value.true_branch, value.false_branch)):
            if k:
                printer.line("else:")
            printer.names.open()
            printer.depth += 1
            name = printer.names.texts[node.var]
            ends_in_call = _last_bound(branch)
            if ends_in_call is not None:
                printer.names.alias(ends_in_call, name)
            self.sequence(branch)
            if ends_in_call is None:
                printer.line(f"{name} = {printer.part(branch, branch.body)}")
            printer.depth -= 1
            printer.names.close(kept=name)


def _last_bound(branch: g.SeqExpr) -> g.GraphVar | None:
    """Return the variable of the last binding, if it is one of a call and the branch's value."""
    last = branch.blocks[-1] if branch.blocks else None
    if last is None or isinstance(last, g.DataflowBlock) or not last.bindings:
        return None
    binding = last.bindings[-1]
    named = isinstance(binding, g.MatchCast) or isinstance(
        binding.value, (g.GraphCall, g.If, g.TupleGetItem)
    )
    return binding.var if named and binding.var is branch.body else None


def _states_result(value: g.GraphExpr) -> bool:
    return isinstance(value, g.GraphCall) and value.op in _STATES_RESULT
