"""Removal of bindings of unused values, and of functions without callers."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.errors import IRTypeError
from tensorir.function import IRModule
from tensorir.nodes.node import Node, same_or_new
from tensorir.relax import expr as g
from tensorir.relax.call_graph import all_callees
from tensorir.relax.callee import is_pure_call
from tensorir.relax.function import Function
from tensorir.relax.relations import is_base_of
from tensorir.relax.visit import used_vars
from tensorir.rewriting.visit import walk
from tensorir.transform.pass_context import ModulePass, PassContext, map_functions


class DeadCodeElimination(ModulePass):
    """Removes bindings that no result or effect depends on.

    Before: lv = R.call_tir(f, (x,), ...); gv = R.call_tir(h, (x,), ...); return gv
    After:  gv = R.call_tir(h, (x,), ...); return gv      and f, if it is private

    Entries are the functions with a `global_symbol` and the `entry_functions`. Every function is
    kept in a module without an entry, or if a called function is not in the module. A `match_cast`
    is a check, so it is kept unless it is proved.
    """

    opt_level = 1

    def __init__(self, entry_functions: Sequence[str] | None = None) -> None:
        """Set additional entries. Raises IRTypeError for a str instead of a list."""
        if isinstance(entry_functions, str):
            raise IRTypeError(f"entry functions must be a list of names, got {entry_functions!r}")
        self.entry_functions = tuple(entry_functions or ())

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module without dead bindings and unreachable functions."""
        for name in self.entry_functions:
            mod.get_global_var(name)  # raises for an unknown name
        mod = self._reachable(mod)
        mod = map_functions(mod, lambda func: without_dead_bindings(func, mod))
        return self._reachable(mod)

    def _reachable(self, mod: IRModule) -> IRModule:
        entries = [n for n, f in mod.functions.items() if "global_symbol" in f.attrs]
        found = set(all_callees(mod.functions, [*entries, *self.entry_functions]))
        if not found or not all(name in mod for name in found):
            return mod
        return IRModule({n: f for n, f in mod.functions.items() if n in found}, mod.attrs)


def without_dead_bindings(func: Function, mod: IRModule) -> Function:
    """Return a function without the bindings of unused values and without effects."""
    return func.changed(body=_Dead(mod).sequence(func.body))


class _Dead:
    """Walks sequences from their end; `_used` has the variables that are used later."""

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self._used: set[g.GraphVar] = set()

    def sequence(self, node: g.SeqExpr) -> g.SeqExpr:
        """Return a sequence with the bindings that are needed."""
        self._mark_used(node.body)
        blocks: list[g.BindingBlock] = []
        for block in reversed(node.blocks):
            kept: list[g.Binding] = []
            for binding in reversed(block.bindings):
                if self._needed(binding):
                    kept.append(self._with_branches(binding))
            kept.reverse()
            blocks.append(block.changed(bindings=same_or_new(block.bindings, kept)))
        blocks.reverse()
        return node.changed(blocks=same_or_new(node.blocks, blocks))

    def _needed(self, binding: g.Binding) -> bool:
        if binding.var in self._used or self._has_effect(binding.value):
            return True
        if isinstance(binding, g.MatchCast):
            return _may_fail(binding)
        # A value with a check in a branch must be kept.
        return any(isinstance(n, g.MatchCast) and _may_fail(n) for n in walk(binding.value))

    def _has_effect(self, value: g.GraphExpr) -> bool:
        calls = (n for n in walk(value) if isinstance(n, g.GraphCall))
        return any(not is_pure_call(call, self._mod) for call in calls)

    def _with_branches(self, binding: g.Binding) -> g.Binding:
        value = binding.value
        if not isinstance(value, g.If) or not isinstance(binding, g.VarBinding):
            self._mark_used(value)
            return binding
        yes, no = self.sequence(value.true_branch), self.sequence(value.false_branch)
        self._mark_used(value.cond)
        return binding.changed(value=value.changed(true_branch=yes, false_branch=no))

    def _mark_used(self, node: Node) -> None:
        self._used.update(used_vars(node))


def _may_fail(cast: g.MatchCast) -> bool:
    return not is_base_of(cast.struct_info, cast.value.struct_info)
