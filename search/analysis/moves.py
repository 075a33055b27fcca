"""What the update of a reduction stores, and how far accesses move with the loops around it."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.bound_values import written_out
from schedule.sref import StmtSRef
from tensorir.arith import Analyzer
from tensorir.arith.coefficients import Coefficients, coefficients
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.stmt import BufferStore, SeqStmt, Stmt
from tensorir.rewriting.visit import collect_vars


def update_stores(body: Stmt) -> tuple[BufferStore, ...]:
    """Return the stores of a body that is one, or lets around several, without the lets; else none.

    The values of several are all computed before the first is stored.
    """
    inner = written_out(body)
    parts = inner.seq if isinstance(inner, SeqStmt) else (inner,)
    stores = tuple(part for part in parts if isinstance(part, BufferStore))
    return stores if len(stores) == len(parts) else ()


def moves(block: StmtSRef, buffer: Buffer, indices: Sequence[PrimExpr]) -> dict[Var, int | None]:
    """Return by how many elements each loop moves an access in the body of a block.

    Loops that do not move it are left out; None stands for those that move it by no constant
    number of elements.
    """
    realize = block.block_realize
    values = {
        axis.var: coefficients(value)
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
    }
    analyzer: Analyzer | None = None
    found: dict[Var, int | None] = {}
    size: int | None = 1
    for index, extent in zip(reversed(indices), reversed(buffer.shape), strict=True):
        linear = coefficients(index)
        if linear.parts:
            # A quotient of an axis may be a constant over the values that the axis has.
            if analyzer is None:
                analyzer = Analyzer()
                for axis in realize.block.iter_vars:
                    if axis.dom is not None:
                        analyzer.bind(axis.var, axis.dom)
            linear = coefficients(analyzer.simplify(index))
        linear = linear.substituted(values)
        for var, factor in linear.of.items():
            before = found.get(var, 0)
            if size is None or before is None:
                found[var] = None if factor != 0 else before
            else:
                found[var] = before + factor * size
        for part, _ in linear.parts:
            for inner in collect_vars(part):
                value = values.get(inner)
                found.update(dict.fromkeys([inner] if value is None else _variables(value)))
        size = size * extent.value if size is not None and isinstance(extent, IntImm) else None
    return {var: step for var, step in found.items() if step != 0}


def _variables(value: Coefficients) -> list[Var]:
    return [*value.of, *(var for part, _ in value.parts for var in collect_vars(part))]
