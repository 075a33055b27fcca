"""Tensor functions say what kind they are, for fusion."""

from __future__ import annotations

from tensorir.function import IRModule, PrimFunc
from tensorir.memory.op_pattern import OP_PATTERN, op_pattern
from tensorir.transform.define_pass import PrimFuncPass
from tensorir.transform.pass_context import PassContext


class AnnotateTIROpPattern(PrimFuncPass):
    """Notes the kind of each tensor function (`OpPattern`) as its attribute `op_pattern`.

    Before: @T.prim_func(private=True)
            def relu(...): ...
    After:  the same, with T.func_attr({"op_pattern": 0})

    A kind that is stated already stays.
    """

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """Return the function with its kind."""
        if OP_PATTERN in func.attrs:
            return func
        return func.with_attr(OP_PATTERN, int(op_pattern(func)))
