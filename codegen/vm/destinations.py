"""The tensors that are computed right where the caller wants them.

What a function returns, or what both branches of an `if` give, has memory that is known before it
is computed. A tensor that was allocated for it is put there, so that nothing is copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from codegen.vm.segments import Root
from tensorir.nodes.expr import GlobalVar
from tensorir.relax import calls
from tensorir.relax import expr as g
from tensorir.relax.struct_info import StructInfo, TupleStructInfo

Path: TypeAlias = tuple[int, ...]
"""The fields, from the outermost tuple inwards, that lead to a part of a value."""


class Destinations:
    """The memory that variables, or fields of them, are asked to be computed in."""

    def __init__(self) -> None:
        self._roots: dict[tuple[g.GraphVar, Path], Root] = {}

    def root(self, var: g.GraphVar, path: Path = ()) -> Root | None:
        """Return the place where a field of a variable is to be computed, None if any will do."""
        return self._roots.get((var, path))

    def ask(self, body: g.SeqExpr, path: Path, root: Root) -> None:
        """Have the part `path` of a body's value computed at `root`, if the body computes it.

        A value that is given twice is computed in one place only, and copied to the other.
        """
        defined = {b.var: b.value for b in body.bindings}
        expr: g.GraphExpr = body.body
        while True:
            if isinstance(expr, g.Tuple):
                expr, path = expr.elements[path[0]], path[1:]
            elif isinstance(expr, g.TupleGetItem):
                path = (expr.index, *path)
                expr = expr.tuple_value
            elif isinstance(expr, g.GraphVar) and expr in defined:
                value = defined[expr]
                if _makes_memory(value):
                    self._roots.setdefault((expr, path), root)
                    source = _copied_to(expr, body)
                    if source is None:
                        return
                    expr = source
                else:
                    expr = value
            else:
                return


def _copied_to(var: g.GraphVar, body: g.SeqExpr) -> g.GraphExpr | None:
    """Return the value that a body copies to a variable at its end, followed by copies only.

    It may be computed right there: nothing overwrites it, or the copy, later on.
    """
    found: g.GraphExpr | None = None
    for binding in reversed(body.bindings):
        value = binding.value
        if not isinstance(value, g.GraphCall) or value.op not in _ENDS:
            break
        if value.op is calls.COPY_INTO and value.args[1] is var:
            found = value.args[0]  # type: ignore[assignment]
    return found


_ENDS: Final = (calls.ALLOC_TENSOR, calls.COPY_INTO)
_TENSORS: Final = (calls.ALLOC_TENSOR, calls.PLACE_TENSOR)


def _makes_memory(value: g.GraphExpr) -> bool:
    if isinstance(value, g.If):
        return True
    if not isinstance(value, g.GraphCall):
        return False
    return value.op in _TENSORS or isinstance(value.op, GlobalVar)


def fields_of(info: StructInfo, path: Path = ()) -> Iterator[tuple[Path, StructInfo]]:
    """Yield the struct infos of the parts of a value that are no tuples, with their paths."""
    if isinstance(info, TupleStructInfo):
        for k, part in enumerate(info.elements):
            yield from fields_of(part, (*path, k))
    else:
        yield path, info
