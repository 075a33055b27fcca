"""Telling programs with one meaning from those whose result depends on what is left open."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.lowering_steps import Arguments, first_difference, interpreted
from tensorir import IRModule, PrimFunc
from tensorir.buffer import Buffer
from tensorir.errors import TensorIRError
from tensorir.expr import PrimExpr, Var
from tensorir.ops import const
from tensorir.stmt import Block, BufferStore, For, ForKind, Stmt, sequence
from tensorir.visit import Rewriter, substitute

_ANY_ORDER = (ForKind.PARALLEL, ForKind.VECTORIZED)


def is_well_defined(program: IRModule, arguments: Arguments, name: str = "main") -> bool:
    """Say whether the interpreter accepts a program, whatever undefined memory holds.

    The program runs a second time with other values in memory that is not written yet, and with
    the iterations of `parallel` and `vectorized` loops in reverse; both runs must agree.
    """
    changed = IRModule(
        {
            key: func.with_(body=_Otherwise()(func.body))
            for key, func in program.functions.items()
            if isinstance(func, PrimFunc)
        }
    )
    try:
        one = interpreted(program, arguments, name)
        other = interpreted(changed, arguments, name)
    except (TensorIRError, ArithmeticError, ValueError):
        return False
    func = program[name]
    assert isinstance(func, PrimFunc)
    return not first_difference(func, other, one)


class _Otherwise(Rewriter):
    """Makes the choices that a program leaves open in another way than the interpreter does."""

    def rewrite_For(self, node: For) -> Stmt:
        node = self.generic(node)
        if node.kind not in _ANY_ORDER:
            return node
        mirrored = node.min + (node.min + node.extent - 1 - node.loop_var)
        body = substitute(node.body, {node.loop_var: mirrored})
        return For(node.loop_var, node.min, node.extent, ForKind.SERIAL, body)

    def rewrite_Block(self, node: Block) -> Block:
        node = self.generic(node)
        if not node.alloc_buffers:
            return node
        if node.init is not None:
            return node.with_(init=_filled(node.alloc_buffers, node.init))
        return node.with_(body=_filled(node.alloc_buffers, node.body))


def _filled(buffers: Sequence[Buffer], body: Stmt) -> Stmt:
    return sequence([*(_fill(buffer) for buffer in buffers), body])


def _fill(buffer: Buffer) -> Stmt:
    axes = [Var(f"fill{k}", extent.dtype) for k, extent in enumerate(buffer.shape)]
    indices: Sequence[PrimExpr] = axes
    value = const(
        3.0 if buffer.dtype.is_floating else 0 if buffer.dtype.is_bool else 3, buffer.dtype
    )
    filled: Stmt = BufferStore(buffer, value, indices)
    for axis, extent in zip(reversed(axes), reversed(buffer.shape), strict=True):
        filled = For(axis, const(0, axis.dtype), extent, ForKind.SERIAL, filled)
    return filled
