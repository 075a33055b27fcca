"""Telling programs with one meaning from those whose result depends on what is left open."""

from __future__ import annotations

from benchmarks.lowering_steps import Arguments, first_difference, interpreted
from tensorir import IRModule, PrimFunc
from tensorir.errors import TensorIRError
from tensorir.nodes.ops import const
from tensorir.nodes.stmt import For, ForKind, Stmt
from tensorir.rewriting.visit import Rewriter, substitute

_ANY_ORDER = (ForKind.PARALLEL, ForKind.VECTORIZED)


def is_well_defined(program: IRModule, arguments: Arguments, name: str = "main") -> bool:
    """Say whether the interpreter accepts a program, and no memory is read before it is written.

    The program runs a second time with the iterations of `parallel` and `vectorized` loops in
    reverse; both runs must agree.
    """
    changed = IRModule(
        {
            key: func.with_(body=_Otherwise()(func.body))
            for key, func in program.functions.items()
            if isinstance(func, PrimFunc)
        }
    )
    try:
        one = interpreted(program, arguments, name, refuse_undefined=True)
        other = interpreted(changed, arguments, name)
    except (TensorIRError, ArithmeticError, ValueError):
        return False
    func = program[name]
    assert isinstance(func, PrimFunc)
    return not first_difference(func, other, one)


class _Otherwise(Rewriter):
    """Runs iterations whose order is left open in another order than the interpreter does."""

    def rewrite_For(self, node: For) -> Stmt:
        node = self.generic(node)
        if node.kind not in _ANY_ORDER:
            return node
        one = const(1, node.loop_var.dtype)
        mirrored = node.min + (node.min + node.extent - one - node.loop_var)
        body = substitute(node.body, {node.loop_var: mirrored})
        return For(node.loop_var, node.min, node.extent, ForKind.SERIAL, body)
