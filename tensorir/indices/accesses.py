"""Statements with their enclosing statements, and indices as functions of loop variables.

Features, explanations and reports analyse programs in three steps: `placed_statements` walks a
program, `Bindings` collects the values of block axes and let variables during the walk, and its
`read` returns an index of a load or store as a sum over loop variables. `strides` returns the
distance in memory by which each loop moves an access. `loads_in` and `only_stores` find accesses
below a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TypeVar

from tensorir.arith.analyzer import Analyzer
from tensorir.arith.coefficients import Coefficients, coefficients
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, IntImm, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import BlockRealize, BufferStore, For, LetStmt, SeqStmt, Stmt
from tensorir.rewriting.visit import children, collect_vars, walk

L = TypeVar("L")


def placed_statements(body: Stmt) -> Iterator[tuple[Stmt, tuple[Stmt, ...]]]:
    """Yield the statements of a program in order, each with its enclosing statements, outermost
    first.
    """
    pending: list[tuple[Stmt, tuple[Stmt, ...]]] = [(body, ())]
    while pending:
        node, around = pending.pop()
        yield node, around
        kind = type(node)
        if kind is BufferStore:
            continue
        inside = (*around, node)
        if kind is For:
            pending.append((node.body, inside))  # type: ignore[attr-defined]
        elif kind is BlockRealize:
            pending.append((node.block, inside))  # type: ignore[attr-defined]
        else:
            parts = [(part, inside) for part in children(node) if isinstance(part, Stmt)]
            pending.extend(reversed(parts))


@dataclass(eq=False, slots=True)
class Bindings:
    """The values of block axes and let variables, in terms of loop variables.

    A program defines each variable once, so one table holds the variables of all statements.
    """

    values: dict[Var, PrimExpr] = field(default_factory=dict)
    linear: dict[Var, Coefficients] = field(default_factory=dict)

    @staticmethod
    def of(realize: BlockRealize) -> Bindings:
        """Return the values of the axes of one block."""
        bindings = Bindings()
        bindings.enter(realize)
        return bindings

    def enter(self, node: Stmt) -> None:
        """Add the variables that a statement binds, with their values."""
        if isinstance(node, BlockRealize):
            axes = (axis.var for axis in node.block.iter_vars)
            self.define(dict(zip(axes, node.iter_values, strict=True)))
        elif isinstance(node, LetStmt):
            self.define({node.var: node.value})

    def define(self, values: Mapping[Var, PrimExpr]) -> None:
        """Add variables with their values."""
        self.values.update(values)
        self.linear.update([(var, self.read(value)) for var, value in values.items()])

    def read(self, expr: PrimExpr) -> Coefficients:
        """Return an expression as a sum over loop variables."""
        return coefficients(expr).substitute(self.linear)

    def loop_vars(self, expr: PrimExpr) -> list[Var]:
        """Return the loop variables on which an expression depends."""
        found: dict[Var, None] = {}
        for var in collect_vars(expr):
            value = self.values.get(var)
            found.update(dict.fromkeys([var] if value is None else self.loop_vars(value)))
        return list(found)


def strides(
    realize: BlockRealize, buffer: Buffer, indices: Sequence[PrimExpr]
) -> dict[Var, int | None]:
    """Return the stride of an access in a block's body along each loop, in elements.

    Loops with the stride 0 are omitted; None is a stride that is not constant.
    """
    bindings = Bindings.of(realize)
    analyzer: Analyzer | None = None
    found: dict[Var, int | None] = {}
    size: int | None = 1
    for index, extent in zip(reversed(indices), reversed(buffer.shape), strict=True):
        linear = coefficients(index)
        if linear.parts:
            # A quotient of an axis may be constant over the range of the axis.
            if analyzer is None:
                analyzer = Analyzer()
                for axis in realize.block.iter_vars:
                    if axis.dom is not None:
                        analyzer.bind(axis.var, axis.dom)
            linear = coefficients(analyzer.simplify(index))
        linear = linear.substitute(bindings.linear)
        for var, factor in linear.of.items():
            before = found.get(var, 0)
            if size is None or before is None:
                found[var] = None if factor != 0 else before
            else:
                found[var] = before + factor * size
        for part, _ in linear.parts:
            found.update(dict.fromkeys(bindings.loop_vars(part)))
        size = size * extent.value if size is not None and isinstance(extent, IntImm) else None
    return {var: step for var, step in found.items() if step != 0}


def loads_in(node: Node) -> Iterator[BufferLoad]:
    """Yield the loads in an expression or statement."""
    return (part for part in walk(node) if isinstance(part, BufferLoad))


def only_stores(body: Stmt) -> tuple[BufferStore, ...]:
    """Return the stores of a body that consists only of stores.

    An empty list for any other body.
    """
    parts = body.seq if isinstance(body, SeqStmt) else (body,)
    stores = tuple(part for part in parts if isinstance(part, BufferStore))
    return stores if len(stores) == len(parts) else ()


def common_prefix(nests: Iterable[Sequence[L]]) -> list[L]:
    """Return the outer loops that all nests have in common.

    A nest lists its loops outermost first.
    """
    levels = zip(*nests, strict=False)
    return [level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels)]
