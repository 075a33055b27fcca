"""The fields of tuples that a graph function builds itself."""

from __future__ import annotations

from tensorir.relax import expr as g


class BuiltTuples:
    """The tuples that variables are bound to, as the bindings are gone through in order."""

    def __init__(self) -> None:
        self._tuples: dict[g.GraphVar, g.Tuple] = {}

    def bind(self, var: g.GraphVar, value: g.GraphExpr) -> None:
        """Note what a variable is bound to; only tuples and other names of them matter."""
        built = self.of(value)
        if built is not None:
            self._tuples[var] = built

    def of(self, value: g.GraphExpr) -> g.Tuple | None:
        """Return the tuple that a value is, None where its fields are not known."""
        if isinstance(value, g.GraphVar):
            return self._tuples.get(value)
        return value if isinstance(value, g.Tuple) else None

    def field(self, item: g.TupleGetItem) -> g.GraphExpr | None:
        """Return the value of a field of a tuple, None if it is not known."""
        built = self.of(item.tuple_value)
        return None if built is None else built.elements[item.index]
