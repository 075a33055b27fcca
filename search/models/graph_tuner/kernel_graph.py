"""The kernels that a graph function calls, and the tensors that they pass to one another."""

from __future__ import annotations

from dataclasses import dataclass, field

from search.models.graph_tuner.layouts import fixed_shape, free_positions, parameter
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.expr import GlobalVar
from tensorir.nodes.node import Node
from tensorir.relax import expr as g
from tensorir.relax.calls import CALL_TIR, destination_passing
from tensorir.relax.function import Function, graph_functions
from tensorir.relax.visit import used_vars
from tensorir.transform import AttachAttrLayoutFreeBuffers, DeadCodeElimination, simplify_graph


@dataclass(frozen=True, eq=False)
class KernelCall:
    """A `call_tir` of a kernel whose parameters are arrays of fixed shapes."""

    var: g.GraphVar
    """The variable of the graph function that holds the result."""
    name: str
    func: PrimFunc
    args: tuple[g.GraphExpr, ...]
    slots: tuple[int, ...]
    """Positions of parameters that may get another layout: the inputs except for weights, then the
    output if it is the only one."""

    @property
    def inputs(self) -> tuple[int, ...]:
        """The slots of inputs."""
        return tuple(k for k in self.slots if k < len(self.args))

    @property
    def output(self) -> int | None:
        """The slot of the output, None if there are several."""
        return len(self.args) if len(self.args) in self.slots else None

    def argument(self, position: int) -> g.GraphVar:
        """Return the tensor in a slot of an input."""
        arg = self.args[position]
        assert isinstance(arg, g.GraphVar)
        return arg


@dataclass(eq=False)
class Tensor:
    """A tensor that kernels read."""

    var: g.GraphVar
    shape: tuple[int, ...]
    dtype: str
    maker: KernelCall | None
    """The kernel whose only output it is; None for any other value, which is row-major."""
    readers: list[tuple[KernelCall, int]] = field(default_factory=list)
    """The kernels that read it, each with its slot there."""
    used_otherwise: bool = False
    """True if it has readers other than slots of kernels, so that it has to be row-major."""


class KernelGraph:
    """The kernels and tensors of a graph function, in the order of their bindings."""

    def __init__(self, func: Function, mod: IRModule) -> None:
        self._mod = mod
        self.calls: dict[g.GraphVar, KernelCall] = {}
        self.tensors: dict[g.GraphVar, Tensor] = {}
        self._weights = frozenset(func.weights)
        self._others: set[g.GraphVar] = set()
        self._enter(func.body)
        for tensor in self.tensors.values():
            tensor.used_otherwise = tensor.var in self._others

    def _enter(self, body: g.SeqExpr) -> None:
        for binding in body.bindings:
            call = self._kernel_call(binding)
            if call is not None:
                self._add(call)
            elif isinstance(binding.value, g.If):
                self._use(binding.value.cond)
                self._enter(binding.value.true_branch)
                self._enter(binding.value.false_branch)
            else:
                self._use(binding.value)
        self._use(body.body)

    def _add(self, call: KernelCall) -> None:
        self.calls[call.var] = call
        inputs = call.inputs
        for position, arg in enumerate(call.args):
            if position in inputs:
                var = call.argument(position)
                self._tensor(var, call, position, None).readers.append((call, position))
            else:
                self._use(arg)
        if call.output is not None:
            self._tensor(call.var, call, call.output, call)

    def _tensor(
        self, var: g.GraphVar, call: KernelCall, position: int, maker: KernelCall | None
    ) -> Tensor:
        if var not in self.tensors:
            buffer = parameter(call.func, position)
            shape = fixed_shape(buffer)
            assert shape is not None
            self.tensors[var] = Tensor(var, shape, str(buffer.dtype), maker)
        return self.tensors[var]

    def _use(self, node: Node) -> None:
        self._others.update(used_vars(node))

    def _kernel_call(self, binding: g.Binding) -> KernelCall | None:
        """Return the call of a kernel whose layouts may change, else None."""
        value = binding.value
        if not isinstance(binding, g.VarBinding) or not isinstance(value, g.GraphCall):
            return None
        call = destination_passing(value) if value.op == CALL_TIR else None
        if call is None or call.scalars or not isinstance(call.callee, GlobalVar):
            return None
        func = self._mod.functions.get(call.callee.name)
        if not isinstance(func, PrimFunc) or len(func.buffer_map) != len(func.params):
            return None
        if len(func.params) != len(call.args) + len(call.outputs):
            return None
        if any(fixed_shape(buffer) is None for buffer in func.buffer_map.values()):
            return None
        free = free_positions(func)
        slots = [
            position
            for position, arg in enumerate(call.args)
            if isinstance(arg, g.GraphVar) and arg not in self._weights and position not in free
        ]
        if not call.gives_tuple:
            slots.append(len(call.args))
        return KernelCall(binding.var, call.callee.name, func, call.args, tuple(slots))


def kernel_graphs(mod: IRModule) -> tuple[IRModule, dict[str, KernelGraph]]:
    """Return a module after the simplifications of a build, and its graph functions by name.

    Constants are weights, in any layout; unreachable functions are removed.
    """
    reached = DeadCodeElimination(list(mod.graph_funcs()))(mod)
    asked = AttachAttrLayoutFreeBuffers(constants_only=True)(simplify_graph(reached))
    return asked, {name: KernelGraph(func, asked) for name, func in graph_functions(asked).items()}
