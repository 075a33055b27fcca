"""The bindings of a graph function while its suites are being read, in A-normal form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorir.expr import GlobalVar
from tensorir.relax import expr as g
from tensorir.relax.struct_info import StructInfo
from tensorir.relax.visit import GraphRewriter, merged_blocks

_LEAVES: Final = (
    g.GraphVar, g.Constant, g.ShapeExpr, g.PrimValue, g.StringValue, g.DataTypeValue, g.ExternFunc,
    GlobalVar,
)  # fmt: skip


class Suite:
    """The blocks of bindings of a function, or of one side of an if."""

    def __init__(self, taken: dict[str, int] | None = None) -> None:
        self._blocks: list[g.BindingBlock] = []
        self._open: list[g.Binding] = []
        self._emitted: dict[g.GraphExpr, g.GraphVar] = {}
        self._taken: dict[str, int] = {} if taken is None else taken
        """How many variables without a name of their own have been made."""
        self.in_dataflow = False

    def inner(self) -> Suite:
        """Return the suite of one side of an if."""
        return Suite(self._taken)

    def variable(self, name: str, info: StructInfo) -> g.GraphVar:
        """Return a variable of the kind that the current block binds."""
        return (g.DataflowVar if self.in_dataflow else g.GraphVar)(name, info)

    def emit(self, binding: g.Binding) -> None:
        """Add a binding to the current block."""
        self._open.append(binding)

    # ---------------------------------------------------------------------------------- normal form

    def leaf(self, value: g.GraphExpr) -> g.GraphExpr:
        """Return a value that may be a part of another; what may not gets a variable."""
        if isinstance(value, _LEAVES):
            return value
        if isinstance(value, g.Tuple):
            return self.normal(value)
        var = self._emitted.get(value)
        if var is None:
            normal = self.normal(value)
            var = self.variable(self._name(), normal.struct_info)
            self._emitted[value] = var
            self.emit(g.VarBinding(var, normal))
        return var

    def normal(self, value: g.GraphExpr) -> g.GraphExpr:
        """Return a value all parts of which are leaves."""
        if isinstance(value, g.Tuple):
            elements = [self.leaf(part) for part in value.elements]
            same = all(a is b for a, b in zip(elements, value.elements, strict=True))
            return value if same else g.Tuple(elements)
        if isinstance(value, g.TupleGetItem):
            whole = self.leaf(value.tuple_value)
            return value if whole is value.tuple_value else g.TupleGetItem(whole, value.index)
        if isinstance(value, g.GraphCall):
            args = [self.leaf(part) for part in value.args]  # type: ignore[arg-type]
            if all(a is b for a, b in zip(args, value.args, strict=True)):
                return value
            return g.GraphCall(value.op, args, value.attrs, value.sinfo_args, value.struct_info)
        return value

    def _name(self) -> str:
        base = "lv" if self.in_dataflow else "gv"
        count = self._taken.get(base, 0)
        self._taken[base] = count + 1
        return f"{base}{count}" if count else base

    # --------------------------------------------------------------------------------------- blocks

    def begin_dataflow(self) -> None:
        """Begin a dataflow block."""
        self._close(g.BindingBlock)
        self.in_dataflow = True

    def end_dataflow(self, outputs: Sequence[g.GraphVar]) -> list[g.GraphVar]:
        """End a dataflow block; return the variables that stand for its outputs after it."""
        visible = {var: g.GraphVar(var.name, var.struct_info) for var in outputs}
        self._open = list(_Outputs(visible)(g.DataflowBlock(self._open)).bindings)
        self._close(g.DataflowBlock)
        self._emitted.clear()
        self.in_dataflow = False
        return [visible[var] for var in outputs]

    def _close(self, kind: type[g.BindingBlock]) -> None:
        self._blocks.append(kind(self._open))
        self._open = []

    def last_value(self) -> tuple[str, g.GraphExpr | None]:
        """Return the name that is bound last, and its value; that value is bound no more."""
        if self._open:
            last = self._open[-1]
            if isinstance(last, g.VarBinding) and isinstance(last.value, (*_LEAVES, g.Tuple)):
                self._open.pop()
                return last.var.name, last.value
            return last.var.name, last.var
        for block in reversed(self._blocks):
            for binding in reversed(block.bindings):
                if not isinstance(binding.var, g.DataflowVar):
                    return binding.var.name, binding.var
        return "", None

    def sequence(self, value: g.GraphExpr) -> g.SeqExpr:
        """Return the suite and the value that it leads to."""
        self._close(g.BindingBlock)
        return g.SeqExpr(merged_blocks(self._blocks), value)


class _Outputs(GraphRewriter):
    """Puts ordinary variables in the place of those that a dataflow block leaves."""

    def __init__(self, visible: dict[g.GraphVar, g.GraphVar]) -> None:
        super().__init__()
        self.replaced.update(visible)

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Return the binding with the variables that are visible outside."""
        value, var = self(node.value), self.replaced.get(node.var, node.var)
        assert isinstance(var, g.GraphVar)
        if isinstance(node, g.MatchCast):
            return (g.MatchCast(var, value, node.struct_info),)
        return (g.VarBinding(var, value),)
