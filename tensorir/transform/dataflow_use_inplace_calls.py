"""In-place calls: outputs overwrite arguments that are dead after the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorir.function import IRModule, PrimFunc
from tensorir.memory.overwritten_arguments import overwritable_arguments, overwriting
from tensorir.nodes.expr import GlobalVar
from tensorir.relax import expr as g
from tensorir.relax.building import UniqueNames
from tensorir.relax.call_graph import remove_unreferenced
from tensorir.relax.calls import (
    CALL_TIR,
    FRESH,
    DestinationPassing,
    call_tir_inplace,
    destination_passing,
)
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.relax.visit import GraphRewriter
from tensorir.transform.pass_context import ModulePass, PassContext, map_functions
from tensorir.transform.value_memory import ValueMemory, find_escapes


class DataflowUseInplaceCalls(ModulePass):
    """Lets calls overwrite arguments that are not used afterwards.

    Before: lv1 = R.call_tir(relu, (lv,), out_sinfo=...)  # the last use of lv
    After:  lv1 = R.call_tir_inplace(relu_inplace, (lv,), inplace_indices=[0], out_sinfo=...)

    The tensor function must read each element of the argument only to compute the output's element
    at the same indices (`overwritable_arguments`), and the argument must be a tensor that the same
    function or branch has computed. Private functions without callers are removed. Outputs of fewer
    than `smallest` bytes keep new memory, because the gain does not justify another function. TVM's
    pass of this name is limited to dataflow blocks.
    """

    def __init__(self, smallest: int = 1 << 14) -> None:
        """Set the minimum size in bytes of such outputs; outputs of unknown size always qualify."""
        self.smallest = smallest

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module with calls that overwrite arguments."""
        escapes = find_escapes(mod)
        kernels = _Kernels(mod, self.smallest)
        result = map_functions(
            mod,
            lambda func: _Rewriting(ValueMemory(func, escapes, kernels.overwritable), kernels)(
                func
            ),
        )
        result.update(kernels.made)
        remove_unreferenced(result, kernels.replaced)
        return result


class _Kernels:
    """The tensor functions of a module, and the functions derived from them."""

    def __init__(self, mod: IRModule, smallest: int) -> None:
        self._mod = mod
        self._smallest = smallest
        self._overwritable: dict[str, Mapping[int, tuple[int, ...]]] = {}
        self._names: dict[tuple[str, tuple[tuple[int, int], ...]], str] = {}
        self._fresh = UniqueNames(mod)
        self.made: dict[str, PrimFunc] = {}
        self.replaced: set[str] = set()

    def overwritable(self, call: DestinationPassing) -> Mapping[int, Sequence[int]]:
        """Return for each output of a call the arguments that it may overwrite."""
        func = self._function(call)
        if func is None:
            return {}
        name, count = call.callee.name, len(call.args)  # type: ignore[union-attr]
        known = self._overwritable.get(name)
        if known is None:
            known = self._overwritable[name] = overwritable_arguments(func)
        return {
            k - count: [j for j in found if j < count]
            for k, found in known.items()
            if k >= count and self._is_worth_it(call.outputs[k - count])
        }

    def _is_worth_it(self, output: TensorStructInfo) -> bool:
        nbytes = output.static_bytes
        return nbytes is None or nbytes >= self._smallest

    def _function(self, call: DestinationPassing) -> PrimFunc | None:
        """Return the function of a call with a parameter for each argument and output."""
        is_plain = all(isinstance(arg.struct_info, TensorStructInfo) for arg in call.args)
        if not is_plain or not isinstance(call.callee, GlobalVar):
            return None
        if any(index != FRESH for index in call.inplace):
            return None
        func = self._mod.functions.get(call.callee.name)
        return func if isinstance(func, PrimFunc) else None

    def overwriting_function(self, call: DestinationPassing, over: Mapping[int, int]) -> GlobalVar:
        """Return the function that overwrites arguments with outputs."""
        assert isinstance(call.callee, GlobalVar)
        name = call.callee.name
        self.replaced.add(name)
        key = name, tuple(sorted(over.items()))
        if key not in self._names:
            func = self._mod.prim_func(name).without_attr("global_symbol")
            for output, argument in sorted(over.items(), reverse=True):
                func = overwriting(func, len(call.args) + output, argument)
            self._names[key] = fresh = self._fresh.unique(f"{name}_inplace")
            self.made[fresh] = func
        return GlobalVar(self._names[key])


class _Rewriting(GraphRewriter):
    def __init__(self, decided: ValueMemory, kernels: _Kernels) -> None:
        super().__init__()
        self._decided = decided
        self._kernels = kernels

    def rewrite_GraphCall(self, node: g.GraphCall) -> g.GraphCall:  # noqa: N802
        """Return a call that overwrites the arguments that the analysis selected, if any."""
        over = self._decided.overwritten.get(node)
        if not over or node.op is not CALL_TIR:
            return self.generic(node)
        call = destination_passing(node)
        assert call is not None
        return call_tir_inplace(
            self._kernels.overwriting_function(call, over),
            [self(arg) for arg in call.args],
            [over.get(k, FRESH) for k in range(len(call.outputs))],
            self(node.sinfo_args[0]),
            [self(n) for n in call.scalars] or None,
        )
