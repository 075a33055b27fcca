"""Transforming weights to the layout of a schedule becomes a separate function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tensorir.function import IRModule, PrimFunc
from tensorir.memory.layout_rewrite import (
    LAYOUT_FREE_BUFFERS,
    LayoutRewrite,
    layout_rewrites,
    layout_rewrites_alone,
    without_layout_rewrites,
)
from tensorir.nodes.expr import GlobalVar, IntImm
from tensorir.relax import expr as g
from tensorir.relax.building import UniqueNames
from tensorir.relax.call_graph import called
from tensorir.relax.calls import DestinationPassing, call_tir, destination_passing
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.relax.visit import GraphRewriter
from tensorir.rewriting.fresh_copy import renew_defs
from tensorir.transform.define_pass import ModulePass, map_functions
from tensorir.transform.pass_context import PassContext


class SplitLayoutRewritePreproc(ModulePass):
    """Takes the blocks that bring weights into another layout out of scheduled tensor functions.

    Before: lv = R.call_tir(dense, (x, C), ...)
    After:  packed = R.call_tir(dense_weight_prepack, (C,), ...)
            lv = R.call_tir(dense_prepacked, (x, packed), ...)

    These are the blocks that carry the annotation `meta_schedule.layout_rewrite_preproc`, as the
    postprocessor RewriteLayout makes them for `layout_free_buffers`. `FoldConstant` then computes
    what depends on constants; for any other argument the layout is rewritten in each call as
    before. A block that cannot run by itself (`tensorir.memory.layout_rewrite`) stays where it is.
    The function from before is left out where nothing calls it any more.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module with functions and calls split, `mod` itself if there are none."""
        splits = _splits(mod)
        if not splits:
            return mod
        result = map_functions(mod, lambda func: _Splitting(splits)(func))
        named = called(result.functions)
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
    """A function, the function taken out of it, and the names of both."""

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
        """Return the split of the function that a call names, None if the call is to stay."""
        if not isinstance(call.callee, GlobalVar) or call.callee.name not in self._splits:
            return None
        split = self._splits[call.callee.name]
        inputs = set(range(len(call.args))).difference(call.inplace)
        return split if all(r.position in inputs for r in split.rewrites) else None

    def _packing(
        self, call: DestinationPassing, split: _Split
    ) -> tuple[list[g.Binding], dict[int, g.GraphExpr]]:
        """Return bindings that rewrite layouts, and by position the replacements of weights."""
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
