"""Loop nests around one block, for example to fill a copy of a buffer or to copy it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from schedule.analysis.bindings import loop_range
from schedule.analysis.loops import nest_of_loops
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import BufferLoad, IterVar, PrimExpr, Var
from tensorir.nodes.ops import TRUE, add
from tensorir.nodes.stmt import Block, BlockRealize, BufferStore, For, Stmt
from tensorir.rewriting.visit import substitute


class Staged(NamedTuple):
    """A loop nest and the block in it."""

    nest: Stmt
    block: Block


@dataclass(frozen=True, slots=True)
class Sweep:
    """Loops, outermost first, and the axes of a block in them with their bindings."""

    loops: Sequence[tuple[Var, Range]]
    axes: Sequence[IterVar]
    bindings: Sequence[PrimExpr]
    predicate: PrimExpr = TRUE

    @classmethod
    def over(
        cls,
        runs: Sequence[Range],
        domains: Sequence[Range] | None = None,
        *,
        loop: str = "ax",
        axis: str = "v",
    ) -> Sweep:
        """Return a loop that starts at 0 and a data-parallel axis for each of some ranges.

        The axes run through `runs`; their domains are these ranges unless `domains` is given.
        """
        loops: list[tuple[Var, Range]] = []
        axes: list[IterVar] = []
        bindings: list[PrimExpr] = []
        for k, (run, dom) in enumerate(zip(runs, domains or runs, strict=True)):
            var = Var(f"{loop}{k}", dom.extent.dtype)
            loops.append((var, Range(run.extent)))
            axes.append(IterVar(dom, Var(f"{axis}{k}", dom.extent.dtype), IterVar.DATA_PAR))
            bindings.append(add(run.min, var))
        return cls(loops, axes, bindings)

    @classmethod
    def like(
        cls,
        loops: Sequence[For],
        axes: Sequence[IterVar],
        bindings: Sequence[PrimExpr],
        predicate: PrimExpr,
    ) -> tuple[Sweep, dict[Var, Var]]:
        """Return copies of existing loops and axes, and the map from old to new axes."""
        fresh = {axis.var: axis.var.with_name(axis.var.name) for axis in axes}
        values: dict[Var, PrimExpr] = {}
        copied: list[tuple[Var, Range]] = []
        for old in loops:
            var = old.loop_var.with_name(old.loop_var.name)
            copied.append((var, substitute(loop_range(old), values)))
            values[old.loop_var] = var
        domains = [None if a.dom is None else substitute(a.dom, values) for a in axes]
        own = [
            IterVar(dom, fresh[a.var], a.iter_type, a.thread_tag)
            for a, dom in zip(axes, domains, strict=True)
        ]
        bound = [substitute(value, values) for value in bindings]
        return cls(copied, own, bound, substitute(predicate, values)), fresh

    @property
    def places(self) -> list[Var]:
        """The variables of the axes."""
        return [axis.var for axis in self.axes]

    def where(self, predicate: PrimExpr) -> Sweep:
        """Return the sweep with a predicate on its loops."""
        return replace(self, predicate=predicate)

    def around_block(
        self,
        body: Stmt,
        reads: Sequence[BufferRegion],
        writes: Sequence[BufferRegion],
        name: str,
        annotations: Mapping[str, Any] | None = None,
        init: Stmt | None = None,
    ) -> Staged:
        """Return the loops around a block with a given body."""
        block = Block(self.axes, reads, writes, name, body, init, annotations=annotations)
        realize = BlockRealize(self.bindings, self.predicate, block)
        return Staged(nest_of_loops(self.loops, realize), block)

    def storing_nest(
        self,
        target: Buffer,
        indices: Sequence[PrimExpr],
        value: PrimExpr,
        name: str,
        reads: Sequence[BufferRegion] = (),
    ) -> Staged:
        """Return the loops around a block that stores a value to an element of `target`."""
        writes = [BufferRegion.from_point(target, indices)]
        return self.around_block(BufferStore(target, value, indices), reads, writes, name)

    def copying_nest(self, source: Element, target: Element, name: str) -> Staged:
        """Return the loops around a block that copies an element of a buffer to another one."""
        reads = [BufferRegion.from_point(*source)]
        return self.storing_nest(*target, BufferLoad(*source), name, reads)


Element = tuple[Buffer, Sequence[PrimExpr]]
"""A buffer and the indices of an element."""
