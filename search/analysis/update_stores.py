"""What the update of a reduction stores: one value, or several of a tuple."""

from __future__ import annotations

from schedule.analysis.bound_values import written_out
from tensorir.nodes.stmt import BufferStore, SeqStmt, Stmt


def update_stores(body: Stmt) -> tuple[BufferStore, ...]:
    """Return the stores of a body that is one, or lets around several, without the lets; else none.

    The values of several are all computed before the first is stored.
    """
    inner = written_out(body)
    parts = inner.seq if isinstance(inner, SeqStmt) else (inner,)
    stores = tuple(part for part in parts if isinstance(part, BufferStore))
    return stores if len(stores) == len(parts) else ()
