"""Constant folding: calls of tensor functions on constants are run by the pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorir.arith import Analyzer
from tensorir.function import IRModule, PrimFunc
from tensorir.memory.reshaping import is_reshape
from tensorir.nodes.expr import GlobalVar, IntImm
from tensorir.relax import expr as g
from tensorir.relax.calls import FRESH, VIEW, DestinationPassing, destination_passing
from tensorir.relax.declaration import CompositeOperator, DeclaredOperator, FormulaOperator
from tensorir.relax.deferred_array import LARGE
from tensorir.relax.function import Function
from tensorir.relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from tensorir.relax.visit import BuiltTuples, GraphRewriter, leaves_of
from tensorir.transform.dead_code_elimination import without_dead_bindings
from tensorir.transform.kernel_runner import Run, runnable_kernel, steps
from tensorir.transform.pass_context import FunctionPass, PassContext

_FOLDED: Final = GlobalVar("folded")
SMALL: Final = 1 << 20
"""A folded call may always return up to this number of bytes."""
QUICK: Final = 4
"""The maximum number of statements per element for which a result is recomputed instead of kept."""


class FoldConstant(FunctionPass):
    """Computes the calls that depend on constants only.

    Before: lv = R.call_tir(transpose, (C,), ...); gv = R.call_tir(matmul, (x, lv), ...)
    After:  gv = R.call_tir(matmul, (x, C transposed), ...)

    Calls of tensor functions are folded if all their arguments, shapes and integers are constants;
    tuples, fields, aliases and views of constants are folded as well. To limit the size of the
    program, a call is kept if its outputs have more than `small` bytes and more than twice the
    bytes of the program's constants from which they are computed: `fill((10000, 10000))` is kept. A
    factor of two allows for the padding of a layout. Calls of library functions are kept, too, and
    of tensor functions that call library functions or that `kernel_runner` cannot run. An operator
    on constants is folded by running the functions that `LegalizeOps` creates for it.
    """

    def __init__(self, small: int = SMALL) -> None:
        self.small = small

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Return the function with constants folded, and without unused bindings."""
        folded = _Folding(mod, self.small)(func)
        return func if folded is func else without_dead_bindings(folded, mod)


@dataclass(frozen=True)
class _Computation:
    """A call on constants, which can be run any number of times."""

    run: Run
    call: DestinationPassing
    constants: tuple[g.Constant, ...]
    numbers: tuple[int, ...]

    def __call__(self) -> list[NDArray[Any]] | None:
        """Return the outputs; None if the function cannot be run."""
        args: list[NDArray[Any]] = [constant.data for constant in self.constants]
        outputs, own = [], []
        for info, index in zip(self.call.outputs, self.call.inplace, strict=True):
            if index != FRESH:
                args[index] = args[index].copy()
                outputs.append(args[index])
                continue
            assert info.static_shape is not None
            assert info.dtype is not None
            own.append(np.empty(info.static_shape, info.dtype.to_numpy()))
            outputs.append(own[-1])
        return outputs if self.run([*args, *own, *self.numbers]) else None

    def deferred(self) -> g.Constant:
        """Return the only output as a constant that is computed when it is read."""
        (info,) = self.call.outputs
        assert info.static_shape is not None
        assert info.dtype is not None

        def output() -> NDArray[Any]:
            outputs = self()
            assert outputs is not None  # it ran successfully before, on the same constants
            return outputs[0]

        return g.Constant.made_by(output, info.static_shape, info.dtype)


class _Folding(GraphRewriter):
    def __init__(self, mod: IRModule, small: int) -> None:
        super().__init__()
        self._mod = mod
        self._small = small
        self._tuples = BuiltTuples()
        self._runs: dict[PrimFunc, Run | None] = {}
        self._made_of: dict[g.Constant, frozenset[g.Constant]] = {}
        """For each computed constant, the program's constants from which it was computed."""

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Fold a binding; later uses of its variable use the constant directly."""
        rebuilt = super().binding(node)
        if not isinstance(node, g.VarBinding):
            return rebuilt
        (new,) = rebuilt
        value = self._fold(new.value)
        if isinstance(value, g.Constant):
            self.replaced[node.var] = value
        self._tuples.bind(new.var, value)
        if value is new.value:
            return rebuilt
        return (g.VarBinding(new.var, value),)

    def _fold(self, value: g.GraphExpr) -> g.GraphExpr:
        """Return the constant, or the tuple of constants, that replaces a value.

        The value itself if none does.
        """
        if isinstance(value, g.TupleGetItem):
            field = self._tuples.field(value)
            return field if isinstance(field, g.Constant) else value
        if not isinstance(value, g.GraphCall):
            return value
        if value.op is VIEW:
            return self._fold_view(value)
        if isinstance(value.op, DeclaredOperator):
            return self._fold_operator(value) or value
        call = destination_passing(value)
        if call is None or not isinstance(call.callee, GlobalVar):
            return value
        name = call.callee.name
        func = self._mod.functions.get(name)
        if not isinstance(func, PrimFunc):
            return value
        return self._run(call, func, self._mod, name) or value

    def _origins(self, constants: Iterable[g.Constant]) -> frozenset[g.Constant]:
        """Return the program's constants from which constants were computed, or the constants
        themselves.
        """
        return frozenset().union(*(self._made_of.get(c, {c}) for c in constants))

    def _record_origins(self, created: g.Constant, constants: Sequence[g.Constant]) -> g.Constant:
        """Record the constants from which a constant was computed, and return it."""
        self._made_of[created] = self._origins(constants)
        return created

    def _fold_view(self, view: g.GraphCall) -> g.GraphExpr:
        """Return a view of a constant as a constant that shares its data."""
        tensor, info = view.args[0], view.struct_info
        assert isinstance(info, TensorStructInfo)
        shape = info.static_shape
        if not isinstance(tensor, g.Constant) or shape is None:
            return view
        return self._record_origins(tensor.reshaped(shape), [tensor])

    def _fold_operator(self, call: g.GraphCall) -> g.GraphExpr | None:
        """Return the result of an operator on constants; None if the call must be kept."""
        leaves = [leaf for arg in call.args for leaf in leaves_of(arg)]
        constants = [leaf for leaf in leaves if isinstance(leaf, g.Constant)]
        if any(isinstance(leaf, g.GraphVar) for leaf in leaves) or not call.op.pure:  # type: ignore[union-attr]
            return None
        outputs = _tensors(call.struct_info)
        if outputs is None or not self._is_small(constants, outputs):
            return None
        return self._evaluate(call)

    def _evaluate(self, expr: g.GraphExpr) -> g.GraphExpr | None:
        """Return the value of an expression of operators on constants.

        Return None if it cannot be evaluated.
        """
        if isinstance(expr, g.Tuple):
            fields = [self._evaluate(element) for element in expr.elements]
            known = [field for field in fields if field is not None]
            return g.Tuple(known) if len(known) == len(fields) else None
        if isinstance(expr, g.TupleGetItem):
            whole = self._evaluate(expr.tuple_value)
            return whole.elements[expr.index] if isinstance(whole, g.Tuple) else None
        if not isinstance(expr, g.GraphCall):
            return None if isinstance(expr, g.GraphVar) else expr
        args = [self._evaluate(arg) for arg in expr.args if isinstance(arg, g.GraphExpr)]
        if None in args or not isinstance(expr.op, DeclaredOperator):
            return None
        call, op = expr.changed(args=tuple(args)), expr.op
        if isinstance(op, CompositeOperator):
            return self._evaluate(op.expression(op.arguments(call)))
        formula = op.formula(call) if isinstance(op, FormulaOperator) else None
        if formula is None or not isinstance(op, FormulaOperator):
            return None
        parts = destination_passing(op.kernel_call(call, formula, _FOLDED))
        assert parts is not None
        alone = IRModule({_FOLDED.name: formula.func})
        result = self._run(parts, formula.func, alone, _FOLDED.name)
        return g.Tuple([result]) if result and formula.is_list and not parts.gives_tuple else result

    def _run(
        self, call: DestinationPassing, func: PrimFunc, mod: IRModule, name: str
    ) -> g.GraphExpr | None:
        """Return the result of a call of `func`, a function of `mod`.

        Return None if the call must be kept.
        """
        scalars = [Analyzer().simplify(n) for n in call.scalars]
        numbers = [n.value for n in scalars if isinstance(n, IntImm)]
        constants = [arg for arg in call.args if isinstance(arg, g.Constant)]
        if len(numbers) != len(scalars) or len(constants) != len(call.args):
            return None
        if not self._is_small(constants, call.outputs):
            return None
        if len(constants) == 1 and is_reshape(func):
            info = call.outputs[0]
            assert info.static_shape is not None
            return self._record_origins(constants[0].reshaped(info.static_shape), constants)
        if func not in self._runs:
            self._runs[func] = runnable_kernel(mod, name)
        run = self._runs[func]
        if run is None:
            return None
        computation = _Computation(run, call, tuple(constants), tuple(numbers))
        outputs = computation()
        if outputs is None:
            return None
        if len(outputs) == 1 and _is_worth_forgetting(func, outputs[0]):
            return self._record_origins(computation.deferred(), constants)
        results = [
            self._record_origins(g.Constant(array, info.dtype), constants)
            for array, info in zip(outputs, call.outputs, strict=True)
        ]
        return g.Tuple(results) if call.gives_tuple else results[0]

    def _is_small(
        self, constants: Sequence[g.Constant], outputs: Sequence[TensorStructInfo]
    ) -> bool:
        """Return True if the sizes of outputs are known and within the limit."""
        sizes = [info.static_bytes for info in outputs]
        known = [size for size in sizes if size is not None]
        origins = self._origins(constants)
        most = max(self._small, 2 * sum(constant.source.nbytes for constant in origins))
        return len(known) == len(sizes) and sum(known) <= most


def _is_worth_forgetting(func: PrimFunc, output: NDArray[Any]) -> bool:
    """Return True if a result is large, and computing it costs little more than copying it."""
    longest = max(output.shape, default=1)
    return output.nbytes >= LARGE and steps(func.body, longest) <= QUICK * output.size


def _tensors(info: StructInfo) -> list[TensorStructInfo] | None:
    """Return the tensors of a value; None if a part of it is not a tensor."""
    if isinstance(info, TensorStructInfo):
        return [info]
    if not isinstance(info, TupleStructInfo):
        return None
    fields = [_tensors(field) for field in info.elements]
    known = [field for field in fields if field is not None]
    return [t for field in known for t in field] if len(known) == len(fields) else None
