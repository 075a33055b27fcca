"""Values as traces record them: handles, numbers, index maps, and tuples and dicts of those."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from schedule.handles import BlockRV, LoopRV
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.expr import PrimExpr
from tensorir.rewriting.visit import collect_vars, substitute


def mapped(value: Any, change: Callable[[Any], Any], sequence: Callable[[Any], Any] = tuple) -> Any:
    """Return a value with what it consists of changed; tuples and lists become a `sequence`."""
    if isinstance(value, (tuple, list)):
        return sequence([mapped(item, change, sequence) for item in value])
    if isinstance(value, dict):
        return {str(key): mapped(item, change, sequence) for key, item in value.items()}
    return change(value)


def substituted(value: Any, values: Mapping[Any, Any]) -> Any:
    """Return an expression or index map with variables replaced; those of the map itself stay."""
    if isinstance(value, IndexMap):
        final = [substituted(e, values) for e in value.final_indices]
        return IndexMap(value.initial_indices, final, value.inverse_index_map)
    return substitute(value, {v: values[v] for v in collect_vars(value) if v in values})


def variables_of(value: Any) -> Iterator[Any]:
    """Yield the handles and variables in a value."""
    if isinstance(value, (BlockRV, LoopRV)):
        yield value
    elif isinstance(value, PrimExpr):
        yield from collect_vars(value)
    elif isinstance(value, IndexMap):
        own = set(value.initial_indices)
        for expr in value.final_indices:
            yield from (v for v in collect_vars(expr) if v not in own)
    elif isinstance(value, (tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from variables_of(item)
