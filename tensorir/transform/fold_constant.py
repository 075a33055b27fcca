"""Calls of tensor functions on constants are run while the module is transformed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tensorir.arith import Analyzer
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.expr import GlobalVar, IntImm
from tensorir.relax import expr as g
from tensorir.relax.calls import FRESH, VIEW, DestinationPassing, destination_passing
from tensorir.relax.function import Function
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.relax.visit import GraphRewriter
from tensorir.transform.bindings import BuiltTuples
from tensorir.transform.dead_code_elimination import without_dead_bindings
from tensorir.transform.define_pass import FunctionPass
from tensorir.transform.kernel_runner import run_kernel
from tensorir.transform.pass_context import PassContext

SMALL: Final = 1 << 20
"""Bytes that a folded call may give in any case."""


class FoldConstant(FunctionPass):
    """Computes the calls that depend on constants only.

    Before: lv = R.call_tir(transpose, (C,), ...); gv = R.call_tir(matmul, (x, lv), ...)
    After:  gv = R.call_tir(matmul, (x, C transposed), ...)

    Calls of tensor functions are folded whose arguments, shapes and integers are all known, and
    with them tuples, fields, aliases and views of constants. A program must not grow by it: a call
    is kept if its outputs take more bytes than twice its arguments and than `small`. Twice leaves
    room for the padding of a layout; `fill((10000, 10000))` is kept. Also kept are calls of library
    functions, and of tensor functions that call some or that `kernel_runner` cannot run.
    """

    def __init__(self, small: int = SMALL) -> None:
        self.small = small

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Return the function with constants folded, and without the bindings they came from."""
        folded = _Folding(mod, self.small)(func)
        return func if folded is func else without_dead_bindings(folded, mod)


class _Folding(GraphRewriter):
    def __init__(self, mod: IRModule, small: int) -> None:
        super().__init__()
        self._mod = mod
        self._small = small
        self._tuples = BuiltTuples()

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Fold a binding; uses of a constant name it directly from here on."""
        rebuilt = super().binding(node)
        if not isinstance(node, g.VarBinding):
            return rebuilt
        (new,) = rebuilt
        value = self._folded(new.value)
        if isinstance(value, g.Constant):
            self.replaced[node.var] = value
        self._tuples.bind(new.var, value)
        if value is new.value:
            return rebuilt
        return (g.VarBinding(new.var, value),)

    def _folded(self, value: g.GraphExpr) -> g.GraphExpr:
        if isinstance(value, g.TupleGetItem):
            field = self._tuples.field(value)
            return field if isinstance(field, g.Constant) else value
        if isinstance(value, g.GraphCall) and value.op is VIEW:
            return _viewed(value)
        call = destination_passing(value)
        if call is None or not isinstance(call.callee, GlobalVar):
            return value
        return self._run(call.callee.name, call) or value

    def _run(self, name: str, call: DestinationPassing) -> g.GraphExpr | None:
        """Return the result of a call, None if it is to stay."""
        if not isinstance(self._mod.functions.get(name), PrimFunc):
            return None
        scalars = [Analyzer().simplify(n) for n in call.scalars]
        numbers = [n.value for n in scalars if isinstance(n, IntImm)]
        constants = [arg for arg in call.args if isinstance(arg, g.Constant)]
        if len(numbers) != len(scalars) or len(constants) != len(call.args):
            return None
        if not self._worthwhile(constants, call):
            return None
        # Weights that are mapped from a file lie where the file has them.
        args: list[Any] = [np.require(constant.data, None, "A") for constant in constants]
        outputs, own = [], []
        for info, index in zip(call.outputs, call.inplace, strict=True):
            if index != FRESH:
                args[index] = args[index].copy()
                outputs.append(args[index])
                continue
            assert info.static_shape is not None
            assert info.dtype is not None
            own.append(np.empty(info.static_shape, info.dtype.to_numpy()))
            outputs.append(own[-1])
        if not run_kernel(self._mod, name, [*args, *own, *numbers]):
            return None
        results = [
            g.Constant(array, info.dtype) for array, info in zip(outputs, call.outputs, strict=True)
        ]
        return g.Tuple(results) if call.gives_tuple else results[0]

    def _worthwhile(self, constants: Sequence[g.Constant], call: DestinationPassing) -> bool:
        """Say whether the outputs are of known sizes that are not too large."""
        sizes = [info.static_bytes for info in call.outputs]
        known = [size for size in sizes if size is not None]
        most = max(self._small, 2 * sum(constant.data.nbytes for constant in constants))
        return len(known) == len(sizes) and sum(known) <= most


def _viewed(view: g.GraphCall) -> g.GraphExpr:
    """Return the constant that a view of a constant is, which shares its data."""
    tensor, info = view.args[0], view.struct_info
    assert isinstance(info, TensorStructInfo)
    shape = info.static_shape
    if not isinstance(tensor, g.Constant) or shape is None:
        return view
    return g.Constant(tensor.data.reshape(shape), info.dtype)
