"""The parameters of tensor functions that are weights are marked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from tensorir.function import IRModule, PrimFunc
from tensorir.memory.layout_rewrite import LAYOUT_FREE_BUFFERS
from tensorir.nodes.expr import Call, GlobalVar, IntImm
from tensorir.relax import expr as g
from tensorir.relax.building import UniqueNames
from tensorir.relax.calls import FRESH, destination_passing
from tensorir.relax.function import Function, graph_functions
from tensorir.relax.visit import GraphRewriter
from tensorir.rewriting.fresh_copy import renew_defs
from tensorir.rewriting.visit import Rewriter, ruled, walk
from tensorir.transform.define_pass import ModulePass, map_functions
from tensorir.transform.pass_context import PassContext

_Use: TypeAlias = tuple[str, tuple[int, ...]]
"""A tensor function, and which of its parameters may have any layout in a call of it."""


class AttachAttrLayoutFreeBuffers(ModulePass):
    """Says of tensor functions which parameters may have any layout, since they are weights.

    Before: lv = R.call_tir(dense, (x, C), ...)
    After:  the same, and dense has T.func_attr({"layout_free_buffers": [1]})

    Weights are constants and, but for `constants_only`, parameters of a graph function from number
    `num_input`, an attribute of it, on. A search for a schedule may then choose their layout, and
    `SplitLayoutRewritePreproc` has them brought there. Positions that a function states already
    stay. A function that is called with weights in different places becomes several; where one has
    no new ones, that keeps the name.
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
        for use in sorted(uses, key=lambda use: use != _as_stated(mod, use[0])):
            name, positions = use
            func = mod.prim_func(name)
            if name in kept:
                called[use], func = names.unique(name), renew_defs(func)
            else:
                called[use] = name
                kept.add(name)
            if use != _as_stated(mod, name):
                result[called[use]] = _stating(func, called[use], positions)

        def renamed(node: g.GraphCall, _: Rewriter) -> g.GraphCall:
            use = _use(mod, node, weights)
            if use is None or called[use] == use[0]:
                return node
            return node.with_(args=[GlobalVar(called[use]), *node.args[1:]])

        rewriter = ruled(before={g.GraphCall: renamed}, over=GraphRewriter())
        return map_functions(result, rewriter)


def _uses(mod: IRModule, weights: frozenset[g.GraphVar]) -> Iterator[_Use]:
    """Yield the uses of tensor functions; uses without weights keep the stated attribute."""
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
                yield _as_stated(mod, node.op.name)


def _weights(mod: IRModule) -> frozenset[g.GraphVar]:
    """Return the parameters of graph functions that are weights."""
    return frozenset(param for func in graph_functions(mod).values() for param in func.weights)


def _use(mod: IRModule, node: object, weights: frozenset[g.GraphVar]) -> _Use | None:
    """Return the tensor function that a node calls, and the weights; None if it calls none."""
    call = destination_passing(node)
    if call is None or not isinstance(call.callee, GlobalVar):
        return None
    if not isinstance(mod.functions.get(call.callee.name), PrimFunc):
        return None
    name, positions = _as_stated(mod, call.callee.name)
    overwritten = {k for k in call.inplace if k != FRESH}
    found = {
        k
        for k, arg in enumerate(call.args)
        if (isinstance(arg, g.Constant) or arg in weights) and k not in overwritten
    }
    return name, tuple(sorted(found.union(positions)))


def _as_stated(mod: IRModule, name: str) -> _Use:
    stated = mod.prim_func(name).attrs.get(LAYOUT_FREE_BUFFERS, ())
    return name, tuple(sorted(k.value if isinstance(k, IntImm) else k for k in stated))


def _stating(func: PrimFunc, name: str, positions: tuple[int, ...]) -> PrimFunc:
    symbol = {"global_symbol": name} if "global_symbol" in func.attrs else {}
    return func.with_attr({**symbol, LAYOUT_FREE_BUFFERS: positions})
