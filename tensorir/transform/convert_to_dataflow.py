"""Grouping of bindings without effects into dataflow blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from tensorir.function import IRModule
from tensorir.relax import expr as g
from tensorir.relax.callee import is_pure_call
from tensorir.relax.function import Function
from tensorir.relax.visit import GraphRewriter
from tensorir.rewriting.visit import walk
from tensorir.transform.pass_context import FunctionPass, PassContext


class ConvertToDataflow(FunctionPass):
    """Makes dataflow blocks of at least `min_size` neighbouring bindings.

    Before: y = R.add(x, x)            After: with R.dataflow():
            z = R.nn.relu(y)                      y = R.add(x, x)
            return z                              z = R.nn.relu(y)
                                                  R.output(z)
                                              return z

    Calls with effects and branches stay between the blocks; existing blocks are kept. Variables
    that are not used after their block become DataflowVars.
    """

    def __init__(self, min_size: int = 2) -> None:
        self.min_size = min_size

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Return the function with more bindings in dataflow blocks."""
        return _Converting(mod, self.min_size)(func)


class _Converting(GraphRewriter):
    def __init__(self, mod: IRModule, min_size: int) -> None:
        super().__init__()
        self._mod = mod
        self._min_size = min_size

    def rewrite_SeqExpr(self, node: g.SeqExpr) -> g.SeqExpr:  # noqa: N802
        """Split the blocks of a sequence."""
        pieces = [piece for block in node.blocks for piece in self._pieces(block)]
        outputs = _used_outside(pieces, node.body)
        blocks = []
        for piece in pieces:
            if isinstance(piece, g.DataflowBlock):
                for binding in piece.bindings:
                    var = binding.var
                    if var not in outputs and not isinstance(var, g.DataflowVar):
                        self.replaced[var] = g.DataflowVar(var.name, var.struct_info)
            blocks.append(self(piece))
        return g.SeqExpr.rebuilt(blocks, self(node.body))

    def define(self, var: g.GraphVar) -> g.GraphVar:
        """Return the variable that is bound instead of `var`."""
        new = self.replaced.get(var, var)
        assert isinstance(new, g.GraphVar)
        return new

    def _pieces(self, block: g.BindingBlock) -> Iterator[g.BindingBlock]:
        """Return the parts of a block; parts without effects are dataflow blocks."""
        if isinstance(block, g.DataflowBlock):
            yield block
            return
        for pure, group in groupby(block.bindings, self._may_move):
            bindings = list(group)
            kind = g.DataflowBlock if pure and len(bindings) >= self._min_size else g.BindingBlock
            yield kind(bindings)

    def _may_move(self, binding: g.Binding) -> bool:
        value = binding.value
        if isinstance(value, g.If):
            return False
        return not isinstance(value, g.GraphCall) or is_pure_call(value, self._mod)


def _used_outside(pieces: Sequence[g.BindingBlock], body: g.GraphExpr) -> set[g.GraphVar]:
    """Return the variables that are used outside of the block that binds them."""
    place = {b.var: k for k, piece in enumerate(pieces) for b in piece.bindings}
    used: set[g.GraphVar] = set()
    for k, part in enumerate([*pieces, body]):
        for node in walk(part):
            if isinstance(node, g.GraphVar) and place.get(node, k) != k:
                used.add(node)
    return used
