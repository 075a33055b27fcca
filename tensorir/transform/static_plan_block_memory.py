"""Arenas: memory that the internal tensors of a graph function share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tensorir.function import IRModule
from tensorir.memory.alignment import ALIGNMENT
from tensorir.nodes import ops
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.relax import expr as g
from tensorir.relax.calls import ALLOC_STORAGE, ALLOC_TENSOR, alloc_storage, place_tensor
from tensorir.relax.function import Function
from tensorir.relax.struct_info import OBJECT, StructInfo, defining_extents
from tensorir.relax.visit import GraphRewriter
from tensorir.rewriting.visit import collect_vars, walk
from tensorir.transform.aliases import Aliases, EscapesOf, Memory, memories
from tensorir.transform.lifetimes import Lifetimes, TensorBytes, Unit, rounded_up, scale_count
from tensorir.transform.pack_intervals import Packing, pack
from tensorir.transform.pass_context import ModulePass, PassContext, map_functions
from tensorir.transform.value_memory import find_escapes


class StaticPlanBlockMemory(ModulePass):
    """Lets tensors share memory if they are live at different times.

    Before: a = R.builtin.alloc_tensor(R.shape([16]), R.dtype("float32"), ...)
            b = R.builtin.alloc_tensor(R.shape([n, 16]), R.dtype("float32"), ...)
    After:  storage = R.memory.alloc_storage(R.shape([128]), ...)
            storage_1 = R.memory.alloc_storage(R.shape([n * 128]), ...)
            a = R.memory.alloc_tensor(storage, 64, R.shape([16]), R.dtype("float32"))
            b = R.memory.alloc_tensor(storage_1, n * 64, R.shape([n, 16]), R.dtype("float32"))

    A function has one arena for tensors of constant size, and one for each unit of symbolic sizes:
    tensors of (n, 16) and (n, 4) share memory, tensors of (n, m) have another arena. An arena is
    allocated where its sizes become known. A tensor is live from its first use to its last use in
    the whole function; tensors of two branches of an `if` share memory. Results keep separate
    memory, and so do tensors that are passed to a library function that may keep them. A function
    that has an arena already is not changed.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module with the tensors of its functions in arenas."""
        escapes = find_escapes(mod)

        def planned(func: Function) -> Function:
            arenas = plan_memory(func, escapes)
            return _Placing(arenas)(func) if arenas else func

        return map_functions(mod, planned)


@dataclass(frozen=True)
class Arena:
    """Memory that tensors share.

    The numbers in `packing` are multiples of the product of `factors`.
    """

    factors: tuple[PrimExpr, ...]
    packing: Packing[g.GraphVar]
    is_aligned: bool
    """True if every offset in units is a multiple of the alignment."""

    @property
    def sizes(self) -> set[Var]:
        """The symbolic sizes of the arena."""
        return {var for factor in self.factors for var in collect_vars(factor)}

    @property
    def nbytes(self) -> PrimExpr:
        """The bytes of the arena."""
        if self.is_aligned:
            smallest = 0 if self.factors else ALIGNMENT
            return scale_count(max(self.packing.size, smallest), self.factors)
        return rounded_up(scale_count(self.packing.size, self.factors), len(self._levels))

    def offsets(self) -> dict[g.GraphVar, PrimExpr]:
        """Return the offset of each tensor in bytes.

        If a unit is not a multiple of the alignment, offsets are rounded up, and then increased by
        one alignment for each smaller offset in the packing. So a tensor that starts at or after
        the end of another one is moved by more than rounding moved that end.
        """
        levels = self._levels
        at = {start: self._offset(start, levels[start]) for start in levels}
        return {var: at[start] for var, start in self.packing.offsets.items()}

    @property
    def _levels(self) -> dict[int, int]:
        starts = sorted(set(self.packing.offsets.values()))
        return {start: level for level, start in enumerate(starts)}

    def _offset(self, start: int, level: int) -> PrimExpr:
        if self.is_aligned:
            return scale_count(start, self.factors)
        return rounded_up(scale_count(start, self.factors), level) if start else ops.const(0, INT64)


def plan_memory(func: Function, escapes: EscapesOf) -> list[Arena]:
    """Return the arenas of a function; the keys of a packing are the variables of tensors.

    `find_escapes` returns `escapes` for the module. The arena for tensors of constant size comes
    first. A function that has an arena already gets no further ones.
    """
    if any(isinstance(n, g.GraphCall) and n.op is ALLOC_STORAGE for n in walk(func.body)):
        return []
    aliases = Aliases(func, escapes)
    aliases.add_sequence(func.body)
    # Results, and memory that library functions may keep, outlive the function.
    escaping = {*aliases.escaped, *memories(aliases.of(func.body.body))}
    classes: dict[Unit, list[tuple[Memory, TensorBytes]]] = {}
    for memory in aliases.holders:
        nbytes = None if memory in escaping else _nbytes(memory)
        if nbytes is not None:
            classes.setdefault(nbytes.unit, []).append((memory, nbytes))
    lifetimes = Lifetimes(func.body)
    return [
        _packed(classes[unit], lifetimes, aliases)
        for unit in sorted(classes, key=lambda u: bool(u))
    ]


def _nbytes(memory: Memory) -> TensorBytes | None:
    """Return the size in bytes of a tensor that the function allocates; None for other memory."""
    call = memory.call
    if not isinstance(call, g.GraphCall) or call.op is not ALLOC_TENSOR:
        return None
    info = g.tensor_info(call)
    return TensorBytes.of(info)


def _packed(
    tensors: Sequence[tuple[Memory, TensorBytes]], lifetimes: Lifetimes, aliases: Aliases
) -> Arena:
    factors = tensors[0][1].factors
    counts = {memory: nbytes.count for memory, nbytes in tensors}
    is_aligned = not factors or all(count % ALIGNMENT == 0 for count in counts.values())
    live_spans = {memory: lifetimes.spans(aliases.holders[memory]) for memory in counts}
    packing = pack(counts, live_spans, ALIGNMENT if is_aligned else 1)
    offsets = {aliases.holders[memory][0]: at for memory, at in packing.offsets.items()}
    return Arena(factors, Packing(offsets, packing.size, packing.lower_bound), is_aligned)


class _Placing(GraphRewriter):
    def __init__(self, arenas: Sequence[Arena]) -> None:
        super().__init__()
        self._waiting = [(g.GraphVar("storage", OBJECT), arena) for arena in arenas]
        """Arenas that are not allocated, because not all of their sizes are known."""
        self._known: set[Var] = set()
        self._places = {
            var: (storage, offset)
            for storage, arena in self._waiting
            for var, offset in arena.offsets().items()
        }

    def rewrite_Function(self, node: Function) -> Function:  # noqa: N802
        """Allocate the arenas whose sizes the parameters define, then rebuild the body."""
        arenas = self._allocated(param.struct_info for param in node.params)
        body = self(node.body)
        return node.with_(body=g.SeqExpr.rebuilt([g.BindingBlock(arenas), *body.blocks], body.body))

    def _allocated(self, defining: Iterable[StructInfo]) -> list[g.Binding]:
        """Return the allocations of the arenas whose sizes are defined by these values or earlier
        ones.
        """
        for info in defining:
            self._known.update(n for n in defining_extents(info) if isinstance(n, Var))
        ready = [(storage, arena) for storage, arena in self._waiting if arena.sizes <= self._known]
        self._waiting = [(s, arena) for s, arena in self._waiting if not arena.sizes <= self._known]
        return [g.VarBinding(storage, alloc_storage(arena.nbytes)) for storage, arena in ready]

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Replace the allocation of a tensor by its place in an arena."""
        place = self._places.get(node.var)
        if isinstance(node, g.MatchCast):
            bound = super().binding(node)
            return (*bound, *self._allocated([node.struct_info])) if self._waiting else bound
        if place is None:
            return super().binding(node)
        storage, offset = place
        info = g.tensor_info(node.value)
        assert info.shape is not None
        assert info.dtype is not None
        return (g.VarBinding(node.var, place_tensor(storage, offset, info.shape, info.dtype)),)
