"""The facts about a program from which a runner chooses its arguments and tolerances."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from search.runner.argument_values import Values, argument_values
from tensorir.function import IRModule
from tensorir.nodes.expr import (
    BufferLoad,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Let,
    Mod,
    PrimExpr,
)
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import Block, BlockRealize, BufferStore, For, LetStmt, While
from tensorir.rewriting.visit import walk

_UNIT_ROUNDOFF: Final = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}
_LEAST_ROUNDINGS: Final = 16
"""A program without sums rounds several times, too, and `exp` and the like by a few units."""


@dataclass(frozen=True)
class ProgramFacts:
    """Facts of a program; the defaults suit an unknown program."""

    integers_are_data: bool = False
    """True if no loaded integer is an index, an extent or a divisor, so any value is valid."""
    rounding: float = 1e-3
    """The change of a result that rounding may make, relative to the size of its operands.

    A sum of n terms of random signs in any order is off by about sqrt(n) / 2 unit roundoffs of its
    size, and no element of a large array by more than 4 times that; this is 8 * sqrt(n) roundoffs.
    """
    values: Mapping[int, Values] = field(default_factory=dict)
    """The values of the arguments that select accessed elements, by their positions."""

    @staticmethod
    def of(mod: IRModule) -> ProgramFacts:
        """Return the facts of an unscheduled program, a module with one function over buffers."""
        functions = list(mod.prim_funcs().values())
        bodies = [node for func in functions for node in walk(func.body)]
        return ProgramFacts(
            not any(_has_load(e) for node in bodies for e in _positions(node)),
            8 * _unit_roundoff(bodies) * math.sqrt(_roundings(bodies)),
            argument_values(functions[0]) if len(functions) == 1 else {},
        )


def _positions(node: Node) -> Iterator[PrimExpr]:
    """Yield the expressions of a node that are indices, extents, conditions or divisors."""
    match node:
        case BufferLoad() | BufferStore():
            yield from node.indices
        case For():
            yield from (node.min, node.extent)
        case BlockRealize():
            yield from node.iter_values
        case While():
            yield node.condition
        case Div() | Mod() | FloorDiv() | FloorMod():
            if node.b.dtype.is_integral:
                yield node.b
        case LetStmt() | Let():
            if node.value.dtype.is_integral:
                yield node.value
        case Call():
            if node.dtype.is_integral or node.dtype.is_handle:
                yield from node.args


def _has_load(value: PrimExpr) -> bool:
    return any(isinstance(node, BufferLoad) for node in walk(value))


def _unit_roundoff(bodies: list[Node]) -> float:
    """Return the unit roundoff of the coarsest float that is stored."""
    stored = {str(node.buffer.dtype) for node in bodies if isinstance(node, BufferStore)}
    return max((_UNIT_ROUNDOFF[d] for d in stored if d in _UNIT_ROUNDOFF), default=0.0)


def _roundings(bodies: list[Node]) -> int:
    """Return the lengths of the sums that an element goes through, one after another."""
    total = _LEAST_ROUNDINGS
    for node in bodies:
        if isinstance(node, Block) and node.init is not None:
            extents = [
                axis.dom.extent
                for axis in node.iter_vars
                if axis.dom is not None and axis.iter_type == IterVar.COMM_REDUCE
            ]
            total += math.prod(e.value if isinstance(e, IntImm) else 1 for e in extents)
    return total
