"""Weights in the layout that a schedule selects: marking of the parameters that may have any
layout, and separate functions that transform the layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from tensorir.function import IRModule, PrimFunc
from tensorir.memory.layout_rewrite import (
    LAYOUT_FREE_BUFFERS,
    LayoutRewrite,
    layout_rewrites,
    layout_rewrites_alone,
    without_layout_rewrites,
)
from tensorir.nodes.expr import Call, GlobalVar, IntImm
from tensorir.relax import expr as g
from tensorir.relax.building import UniqueNames
from tensorir.relax.call_graph import names_of_callees
from tensorir.relax.calls import FRESH, DestinationPassing, call_tir, destination_passing
from tensorir.relax.function import Function, graph_functions
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.relax.visit import GraphRewriter
from tensorir.rewriting.fresh_copy import renew_defs
from tensorir.rewriting.visit import Rewriter, ruled, walk
from tensorir.transform.pass_context import ModulePass, PassContext, map_functions

_Use: TypeAlias = tuple[str, tuple[int, ...]]
"""A tensor function, and the positions of the parameters that may have any layout in a call."""


class AttachAttrLayoutFreeBuffers(ModulePass):
    """Marks the parameters of tensor functions that may have any layout because they are weights.

    Before: lv = R.call_tir(dense, (x, C), ...)
    After:  the same, and dense has T.func_attr({"layout_free_buffers": [1]})

    Weights are constants and, without `constants_only`, the parameters of a graph function from
    index `num_input` (an attribute) on. A search for a schedule may then choose their layout, and
    `SplitLayoutRewritePreproc` converts them. Existing positions are kept. If calls pass weights as
    different arguments, the function becomes several functions; the one without new positions keeps
    the name.
    """

    def __init__(self, constants_only: bool = False) -> None:
        self.constants_only = constants_only

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module with the attribute."""
        weights = frozenset() if self.constants_only else _weights(mod)
        uses = dict.fromkeys(_uses(mod, weights))
        result, names = mod.clone(), UniqueNames(mod)
        called: dict[_Use, str] = {}
        kept: set[str] = set()
        for use in sorted(uses, key=lambda use: use != _stated_use(mod, use[0])):
            name, positions = use
            func = mod.prim_func(name)
            if name in kept:
                called[use], func = names.unique(name), renew_defs(func)
            else:
                called[use] = name
                kept.add(name)
            if use != _stated_use(mod, name):
                result[called[use]] = _with_positions(func, called[use], positions)

        def renamed(node: g.GraphCall, _: Rewriter) -> g.GraphCall:
            use = _use(mod, node, weights)
            if use is None or called[use] == use[0]:
                return node
            return node.with_(args=[GlobalVar(called[use]), *node.args[1:]])

        rewriter = ruled(before={g.GraphCall: renamed}, over=GraphRewriter())
        return map_functions(result, rewriter)


def _uses(mod: IRModule, weights: frozenset[g.GraphVar]) -> Iterator[_Use]:
    """Yield the uses of tensor functions.

    A use without weights has the positions of the existing attribute.
    """
    for caller in mod.functions.values():
        if not isinstance(caller, (Function, PrimFunc)):
            continue
        for node in walk(caller.body):
            use = _use(mod, node, weights)
            if use is not None:
                yield use
            elif (
                isinstance(node, (Call, g.GraphCall))
                and isinstance(node.op, GlobalVar)
                and isinstance(mod.functions.get(node.op.name), PrimFunc)
            ):
                yield _stated_use(mod, node.op.name)


def _weights(mod: IRModule) -> frozenset[g.GraphVar]:
    """Return the parameters of graph functions that are weights."""
    return frozenset(param for func in graph_functions(mod).values() for param in func.weights)


def _use(mod: IRModule, node: object, weights: frozenset[g.GraphVar]) -> _Use | None:
    """Return the tensor function that a node calls, and its weights.

    Return None if the node calls none.
    """
    call = destination_passing(node)
    if call is None or not isinstance(call.callee, GlobalVar):
        return None
    if not isinstance(mod.functions.get(call.callee.name), PrimFunc):
        return None
    name, positions = _stated_use(mod, call.callee.name)
    overwritten = {k for k in call.inplace if k != FRESH}
    found = {
        k
        for k, arg in enumerate(call.args)
        if (isinstance(arg, g.Constant) or arg in weights) and k not in overwritten
    }
    return name, tuple(sorted(found.union(positions)))


def _stated_use(mod: IRModule, name: str) -> _Use:
    stated = mod.prim_func(name).attrs.get(LAYOUT_FREE_BUFFERS, ())
    return name, tuple(sorted(k.value if isinstance(k, IntImm) else k for k in stated))


def _with_positions(func: PrimFunc, name: str, positions: tuple[int, ...]) -> PrimFunc:
    symbol = {"global_symbol": name} if "global_symbol" in func.attrs else {}
    return func.with_attr({**symbol, LAYOUT_FREE_BUFFERS: positions})


class SplitLayoutRewritePreproc(ModulePass):
    """Moves the blocks that convert the layout of weights into separate tensor functions.

    Before: lv = R.call_tir(dense, (x, C), ...)
    After:  packed = R.call_tir(dense_weight_prepack, (C,), ...)
            lv = R.call_tir(dense_prepacked, (x, packed), ...)

    Such blocks have the annotation `meta_schedule.layout_rewrite_preproc`, which the postprocessor
    RewriteLayout adds for `layout_free_buffers`. `FoldConstant` then converts constants; other
    arguments are converted in each call as before. A block that cannot run separately
    (`tensorir.memory.layout_rewrite`) is kept. The original function is removed if it has no
    callers.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module with functions and calls split; `mod` itself if there are none."""
        splits = _splits(mod)
        if not splits:
            return mod
        result = map_functions(mod, lambda func: _Splitting(splits)(func))
        named = names_of_callees(result.functions)
        for name, split in splits.items():
            if split.rest not in named:
                continue
            result[split.pack] = _named(
                split.pack, layout_rewrites_alone(split.func, split.rewrites)
            )
            rest = renew_defs(without_layout_rewrites(split.func, split.rewrites))
            result[split.rest] = _named(split.rest, rest.without_attr(LAYOUT_FREE_BUFFERS))
            if name not in named:
                del result[name]
        return result


class _Split(NamedTuple):
    """A function, its conversions of layouts, and the names of the two new functions."""

    func: PrimFunc
    rewrites: Sequence[LayoutRewrite]
    pack: str
    rest: str


def _splits(mod: IRModule) -> dict[str, _Split]:
    names = UniqueNames(mod)
    return {
        name: _Split(
            func,
            rewrites,
            names.unique(f"{name}_weight_prepack"),
            names.unique(f"{name}_prepacked"),
        )
        for name, func in mod.prim_funcs().items()
        if (rewrites := layout_rewrites(func))
    }


def _named(name: str, func: PrimFunc) -> PrimFunc:
    return func.with_attr("global_symbol", name) if "global_symbol" in func.attrs else func


class _Splitting(GraphRewriter):
    def __init__(self, splits: Mapping[str, _Split]) -> None:
        super().__init__()
        self._splits = splits

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Return a binding, after the bindings that transform the weights of its call."""
        call = destination_passing(node.value)
        split = None if call is None else self._split_of(call)
        if call is None or split is None:
            return super().binding(node)
        assert isinstance(node.value, g.GraphCall)
        before, packed = self._packing(call, split)
        args = [packed.get(k, arg) for k, arg in enumerate(call.args)]
        value = node.value.with_(args=[GlobalVar(split.rest), g.Tuple(args), *node.value.args[2:]])
        return [*before, node.with_(value=value)]

    def _split_of(self, call: DestinationPassing) -> _Split | None:
        """Return the split of the function of a call; None if the call is not split."""
        if not isinstance(call.callee, GlobalVar) or call.callee.name not in self._splits:
            return None
        split = self._splits[call.callee.name]
        inputs = set(range(len(call.args))).difference(call.inplace)
        return split if all(r.position in inputs for r in split.rewrites) else None

    def _packing(
        self, call: DestinationPassing, split: _Split
    ) -> tuple[list[g.Binding], dict[int, g.GraphExpr]]:
        """Return bindings that transform layouts, and the new weights by argument position."""
        weights = [call.args[rewrite.position] for rewrite in split.rewrites]
        infos = [_info(rewrite) for rewrite in split.rewrites]
        several = len(infos) > 1
        packing = call_tir(GlobalVar(split.pack), weights, infos if several else infos[0])
        whole = self.inner("packed", packing.struct_info)
        bindings: list[g.Binding] = [g.VarBinding(whole, packing)]
        packed: dict[int, g.GraphExpr] = {}
        for k, rewrite in enumerate(split.rewrites):
            packed[rewrite.position] = whole
            if several:
                field = self.inner(f"packed_{k}", infos[k])
                bindings.append(g.VarBinding(field, g.TupleGetItem(whole, k)))
                packed[rewrite.position] = field
        return bindings, packed


def _info(rewrite: LayoutRewrite) -> TensorStructInfo:
    """Return the struct info of the result of a rewrite."""
    shape = [extent.value for extent in rewrite.packed.shape if isinstance(extent, IntImm)]
    return TensorStructInfo(shape, rewrite.packed.dtype)
