"""Remarks of passes and emission about their decisions on loops and buffers.

They call `done` and `missed`, and `stands_for` if a new variable replaces a variable of the
program; loops get a `name_in_llvm`. Remarks are recorded only inside `collected`. `codegen.explain`
uses them for facts that are not visible in the lowered program:

    with collected() as remarks:
        lowered = lower(func)
    remarks.of_loop(loop_var)

`vectorize` reports the vectors of the statements of a loop, or why they run lane by lane;
`divide_at_choices` the number of pieces of a loop; `split_tails` the loops whose whole tiles run
without conditions; `promote_accumulators` the loop across which it keeps a buffer in registers, or
why not; emission the loops that run on threads and the loops that it leaves to LLVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial

from tensorir.nodes.expr import Var
from tensorir.rewriting.fresh_copy import FreshCopy


@dataclass(frozen=True, slots=True)
class Remark:
    """One decision about a loop, about a buffer in it, or about a buffer as a whole."""

    source: str
    """The pass, or "emit"."""
    is_done: bool
    """True if the pass made the transformation, False if it did not."""
    text: str
    """The transformation, or the reason why it was not made."""
    loop: Var | None = None
    """The loop's variable in the program before lowering."""
    buffer: Var | None = None
    """The buffer's data pointer in the program before lowering; None for all of the loop."""
    lanes: tuple[int, ...] = ()
    """The lanes of each vector that one iteration of the loop became part of."""


@dataclass(slots=True)
class Remarks:
    """The remarks of one or several lowerings, in the order in which they were made."""

    made: list[Remark] = field(default_factory=list)
    names: dict[str, Var] = field(default_factory=dict)
    """The variables of the loops that emission wrote, by the names of the loops in LLVM IR."""
    _origins: dict[Var, Var] = field(default_factory=dict)

    def origin(self, var: Var) -> Var:
        """Return the variable of the original program that `var` replaces, or `var` itself."""
        while var in self._origins:
            var = self._origins[var]
        return var

    def of_loop(self, loop: Var, source: str | None = None) -> list[Remark]:
        """Return the remarks about a loop, by one pass or by all."""
        return [r for r in self.made if r.loop is loop and source in (None, r.source)]


_current: ContextVar[Remarks | None] = ContextVar("remarks", default=None)


@contextmanager
def collect_remarks() -> Iterator[Remarks]:
    """Collect the remarks that are made inside a `with` statement."""
    remarks = Remarks()
    token = _current.set(remarks)
    try:
        yield remarks
    finally:
        _current.reset(token)


def stands_for(new: Var, old: Var) -> None:
    """Record that a loop variable or data pointer replaces an older one."""
    remarks = _current.get()
    if remarks is not None:
        remarks._origins[new] = old


class RemarkedCopy(FreshCopy):
    """Copies statements; remarks on a copy refer to the original."""

    def define(self, var: Var) -> Var:
        """Return a new variable that replaces the old one in the copy."""
        new: Var = super().define(var)
        stands_for(new, var)
        return new


def name_in_llvm(loop: Var) -> str | None:
    """Return a name that identifies an emitted loop in LLVM IR; None without a collector."""
    remarks = _current.get()
    if remarks is None:
        return None
    name = f"tensorir.loop.{len(remarks.names)}"
    remarks.names[name] = remarks.origin(loop)
    return name


def _add_remark(
    is_done: bool,
    source: str,
    text: str,
    loop: Var | None = None,
    buffer: Var | None = None,
    lanes: tuple[int, ...] = (),
) -> None:
    remarks = _current.get()
    if remarks is None:
        return
    loop = None if loop is None else remarks.origin(loop)
    buffer = None if buffer is None else remarks.origin(buffer)
    remark = Remark(source, is_done, text, loop, buffer, lanes)
    if remark not in remarks.made:
        remarks.made.append(remark)


done = partial(_add_remark, True)
"""Adds a remark on a transformation that was made."""
missed = partial(_add_remark, False)
"""Adds a remark on a transformation that was not made, with the reason."""
