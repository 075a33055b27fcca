"""Proof that tensors in one arena do not overwrite tensors that are used later."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NoReturn

from tensorir.arith import Analyzer
from tensorir.errors import WellFormedError, noting
from tensorir.function import IRModule
from tensorir.memory.alignment import ALIGNMENT
from tensorir.nodes import ops
from tensorir.nodes.buffer import Range
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import Add, BinaryOp, FloorDiv, IntImm, Mul, PrimExpr, Var
from tensorir.relax import expr as g
from tensorir.relax.calls import ALLOC_STORAGE, PLACE_TENSOR
from tensorir.relax.function import Function, graph_functions
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.relax.visit import used_vars
from tensorir.rewriting.visit import collect_vars, walk
from tensorir.transform.aliases import Aliases, Memory, memories
from tensorir.transform.lifetimes import TensorBytes, scale_count
from tensorir.transform.value_memory import find_escapes


def check_memory_plan(mod: IRModule) -> None:
    """Raise WellFormedError if a tensor in an arena is used after another one overwrote it.

    The first use of a tensor writes it, and overwrites every tensor that it overlaps. The error
    names function and tensors. An arena is freed at the end of its function, so a tensor in it must
    not be returned, and no library function may keep it.
    """
    escapes = find_escapes(mod)
    for name, func in graph_functions(mod).items():
        with noting(f"in the function {name}"):
            _Check(name, Aliases(func, escapes)).function(func)


@dataclass
class _State:
    """The facts at a point: `allocated` and `written` hold on all paths to it, the others on some
    path.
    """

    allocated: set[Memory] = field(default_factory=set)
    written: set[Memory] = field(default_factory=set)
    perhaps_written: set[Memory] = field(default_factory=set)
    stale: dict[g.GraphVar, str] = field(default_factory=dict)
    """Variables whose tensor was overwritten, with the overwriting tensor."""

    def copy(self) -> _State:
        return _State(
            set(self.allocated), set(self.written), set(self.perhaps_written), {**self.stale}
        )

    def merge(self, a: _State, b: _State) -> None:
        """Merge the states after two branches."""
        self.allocated = a.allocated & b.allocated
        self.written = a.written & b.written
        self.perhaps_written = a.perhaps_written | b.perhaps_written
        self.stale = {**a.stale, **b.stale}


class _Check:
    def __init__(self, name: str, aliases: Aliases) -> None:
        self._name = name
        self._aliases = aliases
        self._spans: dict[Memory, _Span] = {}
        self._names: dict[Memory, str] = {}
        self._arenas: dict[g.GraphVar, PrimExpr] = {}
        self._extents: dict[tuple[str, tuple[Var, ...]], Var] = {}
        """Variables that replace extents, so that the analysis assumes that they are not negative.
        """

    def function(self, func: Function) -> None:
        for node in walk(func.body):
            if isinstance(node, g.GraphCall) and node.op is PLACE_TENSOR:
                assert isinstance(node.struct_info, TensorStructInfo)
                nbytes = TensorBytes.of(node.struct_info)
                for extent in () if nbytes is None else nbytes.factors:
                    self._extents.setdefault(_key(extent), Var(str(extent), INT64))
        self._sequence(func.body, _State())
        aliases = self._aliases
        for memory in {*memories(aliases.of(func.body.body)), *aliases.escaped}:
            if memory in self._spans:
                self._fail(
                    f"{self._names[memory]} is in the arena, which is freed with the function, "
                    "but it is returned, or a library function may keep it"
                )

    def _fail(self, message: str) -> NoReturn:
        raise WellFormedError(f"{message}; in function {self._name}")

    def _sequence(self, node: g.SeqExpr, state: _State) -> None:
        for binding in node.bindings:
            value = binding.value
            if isinstance(value, g.If):
                self._read(value.cond, state)
                a, b = state.copy(), state.copy()
                self._sequence(value.true_branch, a)
                self._sequence(value.false_branch, b)
                state.merge(a, b)
            elif isinstance(value, g.GraphCall) and value.op is ALLOC_STORAGE:
                self._arena(binding.var, value)
            else:
                if isinstance(value, g.GraphCall):
                    self._write(value, state)
                self._read(value, state)
            self._aliases.bind(binding.var, self._aliases.of(value))
            if isinstance(value, g.GraphCall) and value.op is PLACE_TENSOR:
                self._check_placement(binding.var, value, state)
        self._read(node.body, state)

    def _arena(self, var: g.GraphVar, call: g.GraphCall) -> None:
        shape = call.args[0]
        assert isinstance(shape, g.ShapeExpr)
        self._arenas[var] = self._substitute_extents(shape.values[0])

    def _substitute_extents(self, nbytes: PrimExpr) -> PrimExpr:
        """Return a number of bytes as a function of extents, which are variables."""
        if isinstance(nbytes, IntImm):
            return nbytes
        known = self._extents.get(_key(nbytes))
        if known is not None:
            return known
        if isinstance(nbytes, BinaryOp):
            return type(nbytes)(
                self._substitute_extents(nbytes.a), self._substitute_extents(nbytes.b)
            )
        return nbytes

    def _check_placement(self, var: g.GraphVar, call: g.GraphCall, state: _State) -> None:
        storage, at = call.args[:2]
        info = call.struct_info
        assert isinstance(at, g.PrimValue)
        assert isinstance(info, TensorStructInfo)
        assert isinstance(storage, g.GraphVar)
        nbytes = TensorBytes.of(info)
        if storage not in self._arenas or nbytes is None:
            self._fail(f"{var.name} is in the arena, but is not a tensor of known size")
        start = self._substitute_extents(at.value)
        if not Analyzer().can_prove_equal(ops.floormod(start, ALIGNMENT), 0):
            self._fail(f"{var.name} is not at a multiple of {ALIGNMENT} bytes")
        factors = [self._extents[_key(extent)] for extent in nbytes.factors]
        end = ops.add(_bounds(start)[1], scale_count(nbytes.count, factors))
        span = _Span(storage, start, end)
        arena = self._arenas[storage]
        if not (_is_at_most(ops.const(0, INT64), start) and _is_at_most(end, _bounds(arena)[0])):
            self._fail(f"{var.name} ends at byte {_text(end)} of an arena of {_text(arena)}")
        for memory in memories(self._aliases.places[var]):
            self._spans[memory] = span
            self._names[memory] = var.name
            state.allocated.add(memory)

    def _write(self, call: g.GraphCall, state: _State) -> None:
        """Record the tensors that a call uses first, and the tensors that they overwrite."""
        places = self._aliases.places
        used = {m for var in used_vars(call) for m in memories(places[var])} & self._spans.keys()
        # A tensor that only one branch allocates was written in that branch.
        first = (used & state.allocated) - state.written
        for memory in first:
            for other in (state.perhaps_written | first) - {memory}:
                if self._overlap(memory, other):
                    for var in self._aliases.holders[other]:
                        state.stale[var] = self._names[memory]
        state.written |= first
        state.perhaps_written |= used

    def _read(self, value: g.GraphExpr, state: _State) -> None:
        for var in used_vars(value):
            if var in state.stale:
                self._fail(f"{var.name} is used after {state.stale[var]} has overwritten it")

    def _overlap(self, a: Memory, b: Memory) -> bool:
        one, other = self._spans[a], self._spans[b]
        return one.storage is other.storage and not (one.is_before(other) or other.is_before(one))


@dataclass(frozen=True, slots=True)
class _Span:
    """Bytes of an arena, from `start` up to at most `end`."""

    storage: g.GraphVar
    start: PrimExpr
    end: PrimExpr

    def is_before(self, other: _Span) -> bool:
        """Return True if this span provably ends at or before the start of the other one."""
        return _is_at_most(self.end, _bounds(other.start)[0])


def _bounds(value: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Return a lower and an upper bound of a number of bytes, with roundings replaced by bounds.

    `(x // 64 + k) * 64` is at least x - 63 + 64 * k, and at most x + 64 * k.
    """
    if not isinstance(value, Mul) or not isinstance(value.b, IntImm):
        return value, value
    unit, units, more = value.b.value, value.a, 0
    match units:
        case Add(a=inner, b=IntImm(value=count)):
            units, more = inner, count
    match units:
        case FloorDiv(a=inside, b=IntImm(value=divisor)) if divisor == unit > 0:
            top = ops.add(inside, ops.const(unit * more, INT64))
            return ops.sub(top, ops.const(unit - 1, INT64)), top
    return value, value


def _key(expr: PrimExpr) -> tuple[str, tuple[Var, ...]]:
    """Return a key that is equal for equal expressions of a function."""
    return str(expr), tuple(collect_vars(expr))


def _is_at_most(a: PrimExpr, b: PrimExpr) -> bool:
    """Return True if one number of bytes is provably at most another; sizes are at least 0."""
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value <= b.value
    analyzer = Analyzer()
    for var in {*collect_vars(a), *collect_vars(b)}:
        analyzer.bind(var, Range(0, _LARGEST))
    return analyzer.can_prove(ops.sub(b, a) >= 0)


def _text(nbytes: PrimExpr) -> str:
    return str(nbytes.value if isinstance(nbytes, IntImm) else nbytes)


_LARGEST: Final = 1 << 31
"""Sizes are assumed to be below this limit, so that products of two sizes do not overflow."""
