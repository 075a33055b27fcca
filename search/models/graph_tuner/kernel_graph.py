"""The kernels that a graph function calls, the tensors between them, and the layouts of these
tensors.

A layout is a bijective index map from the indices of a tensor to the indices of the array that
stores it, or None for row-major.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from schedule import Schedule
from schedule.sref import StmtSRef
from search.errors import TuningError
from search.space_generator.suggested_layout import (
    last_read,
    panel_layout,
    read_index,
    suggested_layout,
)
from tensorir.errors import IRValueError
from tensorir.function import IRModule, PrimFunc
from tensorir.indices.index_map import IndexMap
from tensorir.memory.layout_rewrite import layout_free_positions
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import GlobalVar, IntImm
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import BlockRealize
from tensorir.relax import expr as g
from tensorir.relax.calls import CALL_TIR, destination_passing
from tensorir.relax.function import Function, graph_functions
from tensorir.relax.visit import used_vars
from tensorir.transform import AttachAttrLayoutFreeBuffers, DeadCodeElimination, simplify_graph

Layout: TypeAlias = IndexMap | None

_MAIN = "main"


class KnownLayouts:
    """One layout for each order of elements in memory, which several index maps can describe."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[int, ...], bytes], Layout] = {}

    def known(self, layout: Layout, shape: Sequence[int]) -> Layout:
        """Return the first layout with the same order of elements; None if that is row-major.

        Raises IRValueError for a map that is not bijective on the shape.
        """
        if layout is None:
            return None
        row_major = np.arange(np.prod(shape, dtype=np.int64))
        order = layout.map_ndarray(row_major.reshape(shape)).ravel()
        if order.size != row_major.size:
            raise IRValueError(f"the layout {layout} has places that hold no element")
        if np.array_equal(order, row_major):
            return None
        key = hashlib.blake2b(order.tobytes()).digest()
        return self._known.setdefault((tuple(shape), key), layout)


def physical_shape(layout: Layout, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the extents of the array that holds a tensor of a shape."""
    if layout is None:
        return tuple(shape)
    extents = layout.map_shape(shape)
    return tuple(extent.value for extent in extents if isinstance(extent, IntImm))


def describe_layout(layout: Layout) -> str:
    """Return the text of a layout."""
    if layout is None:
        return "row-major"
    names = ", ".join(var.name for var in layout.initial_indices)
    return f"({names}) -> ({', '.join(map(str, layout.final_indices))})"


def parameter(func: PrimFunc, position: int) -> Buffer:
    """Return the buffer of a parameter; KeyError for a scalar."""
    return func.buffer_map[func.params[position]]


def fixed_shape(buffer: Buffer) -> tuple[int, ...] | None:
    """Return the extents of a buffer, None if they are not constant or it has strides."""
    shape = tuple(extent.value for extent in buffer.shape if isinstance(extent, IntImm))
    return None if len(shape) != len(buffer.shape) or buffer.strides else shape


def wanted_layout(func: PrimFunc, position: int) -> Layout:
    """Return the layout in which a kernel reads a parameter almost in memory order.

    None, which is row-major, if no better layout is found.
    """
    sch = Schedule(IRModule({_MAIN: func}))
    read = last_read(_blocks(sch), parameter(sch.state.func(_MAIN), position))
    if read is None:
        return None
    layout = suggested_layout(*read)
    panels = panel_layout(*read) if layout is None else None
    return layout if panels is None else panels.index_map


def with_layouts(func: PrimFunc, layouts: Mapping[int, Layout]) -> PrimFunc:
    """Return a kernel with parameters in other layouts, by position, and unchanged loops.

    Raises ScheduleError if a parameter cannot have another layout, TuningError if no block accesses
    it.
    """
    changed = {position: layout for position, layout in layouts.items() if layout is not None}
    if not changed:
        return func
    sch = Schedule(IRModule({_MAIN: func}))
    for position, layout in changed.items():
        block, place = _access(sch, parameter(sch.state.func(_MAIN), position))
        sch.transform_layout(sch.get_block(block, _MAIN), place, layout)
    return sch.mod.prim_func(_MAIN)


def _blocks(sch: Schedule) -> Iterator[StmtSRef]:
    """Yield the blocks of a kernel, which may consist of loops only."""
    if isinstance(sch.state.func(_MAIN).body, BlockRealize):
        yield from sch.state.blocks(_MAIN)


def _access(sch: Schedule, buffer: Buffer) -> tuple[str, tuple[str, int]]:
    """Return the name of the first block that accesses a buffer, and the position of the access."""
    for sref in _blocks(sch):
        if sref.parent is None:
            continue
        read = read_index(sref, buffer)
        if read is not None:
            return sref.block.name_hint, ("read", read)
        for k, write in enumerate(sref.block.writes):
            if write.buffer is buffer:
                return sref.block.name_hint, ("write", k)
    raise TuningError(f"no block reads or writes {buffer.name}, so it keeps its layout")


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
    """The kernel whose only output is the tensor; None for any other value, which is row-major."""
    readers: list[tuple[KernelCall, int]] = field(default_factory=list)
    """The kernels that read the tensor, each with the slot of the tensor."""
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
        free = layout_free_positions(func)
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
