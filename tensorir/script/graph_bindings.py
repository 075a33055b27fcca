"""The bindings of a graph function while it is being read, in A-normal form."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.nodes.expr import GlobalVar
from tensorir.nodes.node import Node
from tensorir.relax import expr as g
from tensorir.relax.building import Scope, UniqueNames
from tensorir.relax.struct_info import StructInfo
from tensorir.relax.visit import GraphRewriter
from tensorir.script.source import BEGINNING, Place


class BindingBlocks(Scope):
    """The blocks of bindings of a function, or of one branch of an if, as in the text.

    In contrast to a `BlockBuilder` it only flattens nested expressions. It records the place of
    each bound variable in `places`.
    """

    def __init__(self, places: dict[Node, Place], names: UniqueNames | None = None) -> None:
        super().__init__()
        self._places = places
        self.place = BEGINNING
        self._names = UniqueNames() if names is None else names

    def inner(self) -> BindingBlocks:
        """Return empty bindings for a branch of an if."""
        return BindingBlocks(self._places, self._names)

    def variable(self, name: str, info: StructInfo) -> g.GraphVar:
        """Return a new variable: a `DataflowVar` in a dataflow block, else a `Var`."""
        return (g.DataflowVar if self.in_dataflow else g.GraphVar)(name, info)

    def emit(self, binding: g.Binding) -> None:
        """Add a binding to the current block."""
        self._places[binding.var] = self.place
        self.bindings.append(binding)

    # ---------------------------------------------------------------------------------- normal form

    def part(self, value: g.GraphExpr) -> g.GraphExpr:
        """Return a value as an argument or result: a leaf, or a tuple of leaves and tuples."""
        return self.normal(value) if isinstance(value, g.Tuple) else self.leaf(value)

    def leaf(self, value: g.GraphExpr) -> g.GraphExpr:
        """Return a value as a leaf; any other value is bound to a variable."""
        if isinstance(value, g.LEAVES):
            return value
        var = self.emitted.get(value)
        if var is None:
            normal = self.normal(value)
            name = self._names.unique("lv" if self.in_dataflow else "gv")
            var = self.variable(name, normal.struct_info)
            self.emitted[value] = var
            self.emit(g.VarBinding(var, normal))
        return var

    def normal(self, value: g.GraphExpr) -> g.GraphExpr:
        """Return a value in normal form: its parts are leaves or tuples of leaves."""
        if isinstance(value, g.Tuple):
            elements = [self.part(element) for element in value.elements]
            same = all(a is b for a, b in zip(elements, value.elements, strict=True))
            return value if same else g.Tuple(elements)
        if isinstance(value, g.TupleGetItem):
            whole = self.leaf(value.tuple_value)
            return value if whole is value.tuple_value else g.TupleGetItem(whole, value.index)
        if isinstance(value, g.GraphCall):
            args = [a if isinstance(a, GlobalVar) else self.part(a) for a in value.args]
            if all(a is b for a, b in zip(args, value.args, strict=True)):
                return value
            return g.GraphCall(value.op, args, value.attrs, value.sinfo_args, value.struct_info)
        return value

    # --------------------------------------------------------------------------------------- blocks

    def begin_dataflow(self) -> None:
        """Begin a dataflow block."""
        self.close_block()
        self.in_dataflow = True

    def end_dataflow(self, outputs: Sequence[g.GraphVar]) -> list[g.GraphVar]:
        """End a dataflow block; return the variables of its outputs for the code after it."""
        visible = {var: g.GraphVar(var.name, var.struct_info) for var in outputs}
        for var, seen in visible.items():
            self._places[seen] = self._places[var]
        self.bindings = list(GraphRewriter(visible)(g.DataflowBlock(self.bindings)).bindings)
        self.close_block()
        self.emitted.clear()
        self.in_dataflow = False
        return [visible[var] for var in outputs]

    def last_value(self) -> tuple[str, g.GraphExpr | None]:
        """Return the name and value of the last binding.

        The binding is removed if its value is a leaf.
        """
        if self.bindings:
            last = self.bindings[-1]
            if isinstance(last, g.VarBinding) and isinstance(last.value, (*g.LEAVES, g.Tuple)):
                self.bindings.pop()
                return last.var.name, last.value
            return last.var.name, last.var
        for block in reversed(self.blocks):
            for binding in reversed(block.bindings):
                if not isinstance(binding.var, g.DataflowVar):
                    return binding.var.name, binding.var
        return "", None
