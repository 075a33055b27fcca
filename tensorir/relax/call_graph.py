"""The call graph of a module, and functions that never return."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from tensorir.function import BaseFunc, IRModule, PrimFunc
from tensorir.nodes.expr import Call, GlobalVar
from tensorir.relax.calls import called_graph
from tensorir.relax.expr import GraphCall, If, SeqExpr
from tensorir.relax.function import Function, graph_functions
from tensorir.rewriting.visit import walk


def call_sites(func: BaseFunc | None) -> Counter[str]:
    """Return how often a function refers to each other function, in order of appearance.

    Each reference counts once, whether it is executed or not. Unknown kinds of functions have none.
    """
    found: Counter[str] = Counter()
    if isinstance(func, (Function, PrimFunc)):
        for node in walk(func.body):
            if isinstance(node, Call):
                node = node.op  # type: ignore[assignment]
            if isinstance(node, GlobalVar):
                found[node.name] += 1
    return found


def callees(func: BaseFunc | None) -> list[str]:
    """Return the functions that a function refers to, each once, in order of appearance."""
    return list(call_sites(func))


def run_counts(functions: Mapping[str, BaseFunc]) -> Counter[str]:
    """Return how often each function runs if every function without a caller runs once.

    Calls are multiplied along graph functions, and both branches of an `If` count. Calls that close
    a cycle do not count, because the number of iterations is unknown.
    """
    sites = {name: call_sites(func) for name, func in functions.items()}
    order = callees_first(functions)
    places = {name: place for place, name in enumerate(order)}
    runs: Counter[str] = Counter()
    for name in reversed(order):
        runs[name] = runs[name] or 1
        for callee, count in sites[name].items():
            if places.get(callee, places[name]) < places[name]:
                runs[callee] += runs[name] * count
    return runs


def called(functions: Mapping[str, BaseFunc]) -> set[str]:
    """Return the functions that any of these functions refers to."""
    return {name for func in functions.values() for name in callees(func)}


def reached(functions: Mapping[str, BaseFunc], names: Iterable[str]) -> list[str]:
    """Return functions and their direct and indirect callees, including unknown functions.

    A function is followed by its new callees, in the order of the calls.
    """
    found: dict[str, None] = {}
    waiting = [*names][::-1]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = None
            waiting += callees(functions.get(name))[::-1]
    return list(found)


def callees_first(functions: Mapping[str, BaseFunc]) -> list[str]:
    """Return the names of functions, each after its callees (cycles aside)."""
    order: dict[str, None] = {}
    entered: set[str] = set()
    for start in functions:
        stack: list[tuple[str, Iterator[str]]] = [("", iter([start]))]
        while stack:
            name, inner = stack[-1]
            callee = next((n for n in inner if n in functions and n not in entered), None)
            if callee is not None:
                entered.add(callee)
                stack.append((callee, iter(callees(functions[callee]))))
            else:
                order[name] = None
                stack.pop()
    return [name for name in order if name]


def endless_chain(mod: IRModule) -> list[str]:
    """Return a cycle of functions that never returns: `["f", "g", "f"]`; empty if there is none.

    A call in one branch of an `If` may end through the other branch; conditions are not evaluated.
    """
    functions = graph_functions(mod)
    endless = set(functions)
    """The functions that are not yet proved to return."""
    while True:
        returning = {n for n in endless if _stuck(functions[n].body, endless) is None}
        if not returning:
            break
        endless -= returning
    if not endless:
        return []
    chain = [min(endless)]
    while chain.count(chain[-1]) < 2:
        callee = _stuck(functions[chain[-1]].body, endless)
        assert callee is not None
        chain.append(callee)
    return chain[chain.index(chain[-1]) :]


def _stuck(suite: SeqExpr, endless: set[str]) -> str | None:
    """Return one of the functions `endless` that a body must call, None if there is none."""
    for call in _steps(suite):
        if isinstance(call, If):
            yes, no = (_stuck(b, endless) for b in (call.true_branch, call.false_branch))
            if yes is not None and no is not None:
                return yes
        else:
            called = called_graph(call)
            if called is not None and called.callee.name in endless:
                return called.callee.name
    return None


def _steps(suite: SeqExpr) -> Iterator[GraphCall | If]:
    for binding in suite.bindings:
        if isinstance(binding.value, (GraphCall, If)):
            yield binding.value
