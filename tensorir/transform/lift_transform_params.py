"""Lifting of bindings that depend only on weights into a function that runs once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tensorir.errors import IRValueError, noting
from tensorir.function import IRModule
from tensorir.nodes.expr import Var
from tensorir.nodes.node import Node
from tensorir.relax import expr as g
from tensorir.relax.building import UniqueNames
from tensorir.relax.call_graph import names_of_callees
from tensorir.relax.callee import is_pure_call
from tensorir.relax.function import Function, graph_functions
from tensorir.relax.relations import known_by
from tensorir.relax.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    defining_extents,
)
from tensorir.relax.visit import GraphRewriter, used_vars
from tensorir.rewriting.fresh_copy import renew_defs
from tensorir.rewriting.visit import collect_vars, walk
from tensorir.transform.dead_code_elimination import without_dead_bindings
from tensorir.transform.pass_context import ModulePass, PassContext


class LiftTransformParams(ModulePass):
    """Moves bindings that depend only on weights out of graph functions.

    Before: def main(x, w):  # num_input = 1
                packed = R.call_tir(pack, (w,), ...); return R.call_tir(dense, (x, packed), ...)
    After:  def main(x, packed):  # num_input = 1
                return R.call_tir(dense, (x, packed), ...)
            def main_transform_params(params):
                w = params[0]; packed = R.call_tir(pack, (w,), ...); return (packed,)

    Weights are the parameters from index `num_input` (an attribute) on. The new function receives
    them as one tuple and returns the new parameters of the function from `num_input` on: first the
    weights that are still used directly, then the computed values. The pass lifts tensors and
    tuples of tensors, including values that depend only on constants. Effects, branches and checks
    (`match_cast`) are not lifted, nor are the values that depend on them. Functions with callers in
    the module keep their parameters. Raises IRValueError if the name of the new function is taken.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module with the functions that have weights split."""
        result, named = mod.clone(), names_of_callees(mod.functions)
        for name, func in graph_functions(mod).items():
            if name in named or not func.weights:
                continue
            lifted = f"{name}_transform_params"
            if lifted in mod:
                raise IRValueError(
                    f"the module has a function {lifted} already; lift the weights of {name} "
                    "only once, or rename that function"
                )
            with noting(f"in the function {name}"):
                rest, transform = _split(func, mod)
            result[name] = rest
            if "global_symbol" in func.attrs:
                transform = transform.with_attr("global_symbol", lifted)
            result[lifted] = transform
        return result


class _Given(NamedTuple):
    """The new parameters of the old function: unchanged weights, and computed values."""

    weights: Sequence[g.GraphVar]
    computed: Sequence[g.GraphVar]


def _split(func: Function, mod: IRModule) -> tuple[Function, Function]:
    """Return the rest of a function, and the function that computes its new parameters."""
    weights = func.weights
    sizes = _own_sizes(weights)
    lifted = _liftable(func, weights, sizes, mod)
    rest, given = _remaining_function(func, weights, lifted)
    return rest, without_dead_bindings(_transform_function(weights, sizes, lifted, given), mod)


# ------------------------------------------------------------------------------------------- sizes


def _sizes(nodes: Iterable[Node]) -> set[Var]:
    return {var for node in nodes for var in collect_vars(node)}


def _infos(variables: Iterable[g.GraphVar]) -> list[StructInfo]:
    return [var.struct_info for var in variables]


def _defined_by(infos: Iterable[StructInfo]) -> set[Var]:
    """Return the symbolic sizes that values with these struct infos define."""
    return {n for info in infos for n in defining_extents(info) if isinstance(n, Var)}


def _own_sizes(weights: Sequence[g.GraphVar]) -> set[Var]:
    """Return the sizes that weights determine.

    Weights with other sizes in their shapes are ignored.
    """
    while True:
        sizes = _defined_by(_infos(weights))
        defining_weights = [
            weight for weight in weights if sizes.issuperset(_sizes([weight.struct_info]))
        ]
        if len(defining_weights) == len(weights):
            return sizes
        weights = defining_weights


def _used_sizes(func: Function) -> set[Var]:
    """Return the sizes that are stated or used anywhere in a function."""
    variables = [*func.params, *(n.var for n in walk(func.body) if isinstance(n, g.Binding))]
    return _sizes([func.body, func.ret_struct_info, *_infos(variables)])


# --------------------------------------------------------------------------------- lifted bindings


def _liftable(
    func: Function, weights: Sequence[g.GraphVar], sizes: set[Var], mod: IRModule
) -> list[g.VarBinding]:
    """Return the bindings that depend only on weights, their sizes and constants, in order."""

    def is_known(info: StructInfo) -> bool:
        return sizes.issuperset(_sizes([info]))

    known = {weight for weight in weights if is_known(weight.struct_info)}
    found: list[g.VarBinding] = []
    for binding in func.body.bindings:
        value, info = binding.value, binding.var.struct_info
        if (
            isinstance(binding, g.VarBinding)
            and _holds_tensors(info)
            and not isinstance(value, (g.If, g.Constant))
            and known.issuperset(used_vars(value))
            and is_known(info)
            and sizes.issuperset(_sizes([value]))
            and all(is_pure_call(n, mod) for n in walk(value) if isinstance(n, g.GraphCall))
        ):
            known.add(binding.var)
            found.append(binding)
    return found


def _holds_tensors(info: StructInfo) -> bool:
    if isinstance(info, TupleStructInfo):
        return all(map(_holds_tensors, info.elements))
    return isinstance(info, TensorStructInfo)


# ------------------------------------------------------------------------------- the two functions


def _remaining_function(
    func: Function, weights: Sequence[g.GraphVar], lifted: Sequence[g.VarBinding]
) -> tuple[Function, _Given]:
    """Return a function without lifted bindings, and its new parameters."""
    body = _Without(lifted)(func.body)
    used = set(used_vars(body))
    computed = [binding.var for binding in lifted if binding.var in used]
    direct = [weight for weight in weights if weight in used]
    names = UniqueNames(param.name for param in func.params)
    params = [g.GraphVar(names.unique(var.name), var.struct_info) for var in computed]
    rename = GraphRewriter()
    rename.replaced.update(zip(computed, params, strict=True))
    body = rename(body)
    while True:
        state = func.params[len(func.arguments) :]
        rest = func.with_(params=[*func.inputs, *direct, *params, *state], body=body)
        undefined_sizes = _used_sizes(rest) - _defined_by(_infos(rest.params))
        defining_weight = next(
            (w for w in weights if undefined_sizes & _defined_by([w.struct_info])), None
        )
        if defining_weight is None:
            return rest, _Given(direct, computed)
        direct = [weight for weight in weights if weight is defining_weight or weight in direct]


class _Without(GraphRewriter):
    def __init__(self, lifted: Sequence[g.VarBinding]) -> None:
        super().__init__()
        self._lifted = set(lifted)

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Return a binding, or nothing if it was lifted."""
        return () if node in self._lifted else (node,)


def _transform_function(
    weights: Sequence[g.GraphVar],
    sizes: set[Var],
    lifted: Sequence[g.VarBinding],
    given: _Given,
) -> Function:
    """Return the function from all weights, as one tuple, to the new parameters."""
    whole = g.GraphVar("params", TupleStructInfo(known_by(i, sizes) for i in _infos(weights)))
    rename = GraphRewriter()
    bindings: list[g.Binding] = []

    def bind(var: g.GraphVar, value: g.GraphExpr, info: StructInfo) -> None:
        local = g.DataflowVar(var.name, info)
        bindings.append(g.VarBinding(local, value))
        rename.replaced[var] = local

    for k, weight in enumerate(weights):
        bind(weight, g.TupleGetItem(whole, k), known_by(weight.struct_info, sizes))
    for binding in lifted:
        bind(binding.var, rename(binding.value), binding.var.struct_info)
    result = g.Tuple(rename(var) for var in (*given.weights, *given.computed))
    out = g.GraphVar("gv", result.struct_info)
    block = g.DataflowBlock([*bindings, g.VarBinding(out, result)])
    return renew_defs(Function([whole], g.SeqExpr([block], out)))
