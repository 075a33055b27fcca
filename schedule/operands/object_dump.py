"""Reading index maps out of the object dumps in which TVM saves them.

TVM writes an index map inside a trace as a JSON graph of its nodes. Only the node types that occur
in index maps are known; everything else is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from tensorir.indices.index_map import IndexMap
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import (
    Add,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Sub,
    Var,
)
from tensorir.nodes.ops import as_expr

_BINARY: Final[dict[str, Callable[[PrimExpr, PrimExpr], PrimExpr]]] = {
    "Add": Add,
    "Sub": Sub,
    "Mul": Mul,
    "FloorDiv": FloorDiv,
    "FloorMod": FloorMod,
    "Min": Min,
    "Max": Max,
}


def read_index_map(text: str, known: Mapping[str, Any]) -> IndexMap:
    """Return the index map in a dump; variables from instructions are replaced by their values.

    Raises TypeError for a dump that is malformed or holds something else.
    """
    try:
        graph = json.loads(text)
        return _Reader(graph["nodes"], known).index_map(int(graph["root"]))
    except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise TypeError(f"the object dump holds no index map: {error}") from None


class _Reader:
    def __init__(self, nodes: list[dict[str, Any]], known: Mapping[str, Any]) -> None:
        self._nodes = nodes
        self._known = known
        self._made: dict[int, Any] = {}

    def index_map(self, number: int) -> IndexMap:
        """Return an index map, with the inverse that it carries."""
        kind, attrs = self._node(number)
        if kind != "IndexMap":
            raise TypeError(f"its root is a {kind}")
        initial = self._array(int(attrs["initial_indices"]))
        own: list[Var] = []
        for place in initial:
            var_kind, var_attrs = self._node(place)
            if var_kind not in ("Var", "SizeVar"):
                raise TypeError(f"an index is a {var_kind}")
            own.append(self._var(place, var_attrs))
        final = [self._expr(place) for place in self._array(int(attrs["final_indices"]))]
        inverse = int(attrs.get("inverse_index_map", 0) or 0)
        return IndexMap(own, final, self.index_map(inverse) if inverse else None)

    def _node(self, number: int) -> tuple[str, dict[str, str]]:
        if number <= 0:
            raise IndexError(f"node {number} is missing")
        node = self._nodes[number]
        return str(node["type_key"]).rsplit(".", 1)[-1], node.get("attrs") or {}

    def _array(self, number: int) -> list[int]:
        node = self._nodes[number]
        return [int(part) for part in node.get("data", ())]

    def _string(self, reference: str) -> str:
        """Return a string: the text itself, or that of the node that it counts."""
        if reference.isdigit() and int(reference) < len(self._nodes):
            node = self._nodes[int(reference)]
            if "repr_str" in node:
                return str(node["repr_str"])
        return reference

    def _var(self, number: int, attrs: dict[str, str]) -> Var:
        made = self._made.get(number)
        if made is None:
            name = self._string(attrs["name"])
            made = self._made[number] = Var(name, DataType(attrs["dtype"]))
        assert isinstance(made, Var)
        return made

    def _expr(self, number: int) -> PrimExpr:
        if number in self._made:
            found: PrimExpr = self._made[number]
            return found
        kind, attrs = self._node(number)
        if kind in ("Var", "SizeVar"):
            given = self._known.get(self._string(attrs["name"]))
            made = given if isinstance(given, PrimExpr) else self._var(number, attrs)
        elif kind == "IntImm":
            made = IntImm(DataType(attrs["dtype"]), int(attrs["value"]))
        elif kind == "Cast":
            made = Cast(DataType(attrs["dtype"]), self._expr(int(attrs["value"])))
        elif kind in _BINARY:
            a, b = self._expr(int(attrs["a"])), self._expr(int(attrs["b"]))
            made = _BINARY[kind](as_expr(a), as_expr(b))
        else:
            raise TypeError(f"it has a node of type {kind}")
        self._made[number] = made
        return made
