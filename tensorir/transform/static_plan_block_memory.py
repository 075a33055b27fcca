"""One arena for the tensors of a function that nothing outside of it sees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tensorir.function import IRModule
from tensorir.memory.alignment import ALIGNMENT
from tensorir.nodes.expr import GlobalVar
from tensorir.relax import expr as g
from tensorir.relax.calls import ALLOC_STORAGE, ALLOC_TENSOR, alloc_storage, place_tensor
from tensorir.relax.function import Function
from tensorir.relax.struct_info import OBJECT, TensorStructInfo
from tensorir.relax.visit import GraphRewriter
from tensorir.rewriting.visit import walk
from tensorir.transform.aliases import Aliases, Memory, arguments_handed_on, memories
from tensorir.transform.bindings import live_after, used_vars
from tensorir.transform.define_pass import FunctionPass
from tensorir.transform.pack_intervals import Packing, pack
from tensorir.transform.pass_context import PassContext


class StaticPlanBlockMemory(FunctionPass):
    """Lets tensors whose contents are not needed at the same time share memory.

    Before: a = R.builtin.alloc_tensor(R.shape([16]), R.dtype("float32"), ...)
    After:  storage = R.memory.alloc_storage(R.shape([128]), ...)
            a = R.memory.alloc_tensor(storage, 64, R.shape([16]), R.dtype("float32"))

    A function has one arena. A tensor is held from its first use to its last one, over the whole
    function; those of two branches of an `if` share memory. Results, tensors that a library
    function gets that does not only write to its outputs, and tensors of symbolic shape keep memory
    of their own. A function that has an arena already is left as it is.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Return the function with its tensors in an arena."""
        plan = plan_memory(func, mod)
        return func if plan is None else _Placing(plan)(func)


def plan_memory(func: Function, mod: IRModule) -> Packing[g.GraphVar] | None:
    """Return a place for each tensor of a function, keyed by the variable it is bound to.

    Returns None for a function without such tensors, or with an arena.
    """
    if any(isinstance(n, g.GraphCall) and n.op is ALLOC_STORAGE for n in walk(func.body)):
        return None
    lifetimes = _Lifetimes(func, arguments_handed_on(mod))
    known = {memory: _nbytes(memory) for memory in lifetimes.memories}
    sizes = {memory: nbytes for memory, nbytes in known.items() if nbytes is not None}
    if not sizes:
        return None
    packing = pack(sizes, lifetimes.held)
    offsets = {lifetimes.variable(memory): at for memory, at in packing.offsets.items()}
    return Packing(offsets, max(packing.size, ALIGNMENT), packing.lower_bound)


def _nbytes(memory: Memory) -> int | None:
    """Return the bytes of a tensor that the function allocates, None where they are not known."""
    call = memory.call
    if not isinstance(call, g.GraphCall) or call.op is not ALLOC_TENSOR:
        return None
    info = call.struct_info
    assert isinstance(info, TensorStructInfo)
    return info.static_bytes


class _Lifetimes:
    """The memories that hold a needed value, at each binding of a function."""

    def __init__(self, func: Function, hands_on: Callable[[GlobalVar], bool]) -> None:
        self.held: list[set[Memory]] = []
        self._live = live_after(func)
        self._aliases = Aliases(func, hands_on)
        self._go_through(func.body, set())
        given_away = {*self._aliases.kept, *memories(self._aliases.of(func.body.body))}
        self.memories = [m for m in self._aliases.holders if m not in given_away]
        """The memories that nobody outside of the function sees."""

    def variable(self, memory: Memory) -> g.GraphVar:
        """Return the variable that an allocation is bound to."""
        return self._aliases.holders[memory][0]

    def _go_through(self, node: g.SeqExpr, used: set[Memory]) -> None:
        """Note what is held at the bindings of a sequence; `used` has been used before."""
        for binding in node.bindings:
            value = binding.value
            after = self._live[binding] - {binding.var}
            if isinstance(value, g.If):
                self._point(value.cond, after, used)
                branches = [set(used), set(used)]
                self._go_through(value.true_branch, branches[0])
                self._go_through(value.false_branch, branches[1])
                used |= branches[0] | branches[1]
            else:
                self._point(value, after, used)
            self._aliases.bind(binding.var, self._aliases.of(value))

    def _point(self, value: g.GraphExpr, after: frozenset[g.GraphVar], used: set[Memory]) -> None:
        now = self._memories(used_vars(value))
        used |= now
        self.held.append(now | (self._memories(after) & used))

    def _memories(self, variables: Iterable[g.GraphVar]) -> set[Memory]:
        places = self._aliases.places
        return {m for var in variables if var in places for m in memories(places[var])}


class _Placing(GraphRewriter):
    def __init__(self, plan: Packing[g.GraphVar]) -> None:
        super().__init__()
        self._plan = plan
        self._storage = g.GraphVar("storage", OBJECT)

    def rewrite_Function(self, node: Function) -> Function:  # noqa: N802
        """Allocate the arena in front of everything."""
        arena = g.VarBinding(self._storage, alloc_storage(self._plan.size))
        body = self(node.body)
        blocks = [g.BindingBlock([arena]), *body.blocks]
        return node.with_(body=g.SeqExpr.rebuilt(blocks, body.body))

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Return the placing of a tensor in the arena for its allocation."""
        offset = self._plan.offsets.get(node.var)
        if offset is None or not isinstance(node, g.VarBinding):
            return super().binding(node)
        info = node.value.struct_info
        assert isinstance(info, TensorStructInfo)
        assert info.shape is not None
        assert info.dtype is not None
        return (
            g.VarBinding(node.var, place_tensor(self._storage, offset, info.shape, info.dtype)),
        )
