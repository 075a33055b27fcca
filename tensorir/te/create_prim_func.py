"""Conversion of tensor graphs to functions: each operation becomes a loop nest with blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from tensorir.arith import Analyzer
from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import PrimFunc
from tensorir.memory.access import get_block_access_region
from tensorir.memory.layout_rewrite import LAYOUT_FREE_BUFFERS
from tensorir.nodes.buffer import Buffer, BufferRegion, Range, decl_buffer
from tensorir.nodes.dtype import HANDLE
from tensorir.nodes.expr import BufferLoad, Let, PrimExpr, Reduce, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import TRUE, if_then_else, match_types
from tensorir.nodes.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    For,
    ForKind,
    LetStmt,
    Stmt,
    sequence,
)
from tensorir.recursion import any_depth
from tensorir.rewriting.fresh_copy import FreshCopy
from tensorir.rewriting.visit import Substitution, collect_vars, substitute, walk
from tensorir.script.parts import complete_block, with_root_block
from tensorir.te.index_dtype import with_index_dtype
from tensorir.te.nest import Axes, Nest
from tensorir.te.tensor import ComputeOp, ExternOp, Operation, PlaceholderOp, Tensor

_DROPPED: Final = ("workload", "const_matrix", "auto_scheduler_simplify_const_tensor_indices")
"""Attributes of operations from other systems, which are ignored."""
_LAYOUT_FREE: Final = "layout_free_placeholders"


@any_depth
def create_prim_func(
    ops: Tensor | Var | Sequence[Tensor | Var], index_dtype_override: str | None = None
) -> PrimFunc:
    """Return the function that computes tensors; `ops` are its parameters, in order.

    Tensors in `ops` (inputs and outputs) become buffer parameters; variables become scalar
    parameters. All other needed tensors are allocated in the root block. Each operation becomes a
    loop nest, inputs first. `index_dtype_override` is the dtype of all indices and shapes.

    Raises IRTypeError for other values in `ops`. Raises IRValueError for a missing input and for an
    undefined variable.
    """
    arguments = [ops] if isinstance(ops, (Tensor, Var)) else list(ops)
    for k, argument in enumerate(arguments):
        if not isinstance(argument, (Tensor, Var)):
            raise IRTypeError(
                f"te.create_prim_func needs tensors and variables, got "
                f"{type(argument).__name__} as item {k}: {argument!r}"
            )
        if any(argument is other for other in arguments[:k]):
            raise IRValueError(
                f"{argument.name} occurs twice in the arguments of te.create_prim_func"
            )
    func = _Function(arguments).build()
    return func if index_dtype_override is None else with_index_dtype(func, index_dtype_override)


def operations_in_order(arguments: Sequence[Tensor | Var]) -> list[Operation]:
    """Return the operations that compute the arguments, inputs before their consumers."""
    done: dict[Operation, None] = {}
    for argument in arguments:
        pending = [argument.op] if isinstance(argument, Tensor) else []
        while pending:
            op = pending[-1]
            missing = [t.op for t in op.inputs if t.op not in done]
            if missing:
                pending.append(missing[0])
            else:
                done[pending.pop()] = None
    return list(done)


class _Function:
    """The function under construction: its arguments, buffers, allocations and names."""

    def __init__(self, arguments: Sequence[Tensor | Var]) -> None:
        self._arguments = arguments
        self._analyzer = Analyzer()
        self._buffers: dict[Buffer, Buffer] = {}
        self._allocated: list[Buffer] = []
        self._layouts: dict[Tensor, Buffer] = {}
        """Buffers with the strides and offsets of the tensors that are not compact."""
        self._block_names: set[str] = set()
        self._layout_free: set[int] = set()

    def build(self) -> PrimFunc:
        operations = operations_in_order(self._arguments)
        self._check_variables(operations)
        self._find_layouts(op for op in operations if isinstance(op, ExternOp))
        for op in operations:
            for tensor in op.outputs:
                self._place(tensor)
        stages = [self._stage(op) for op in operations if not isinstance(op, PlaceholderOp)]
        params: list[Var] = []
        buffer_map: dict[Var, Buffer] = {}
        for argument in self._arguments:
            if isinstance(argument, Tensor):
                params.append(Var(f"var_{argument.name}", HANDLE))
                buffer_map[params[-1]] = self._buffers[argument]
            else:
                params.append(argument)
        attrs: dict[str, Any] = {"global_symbol": "main", "tir.noalias": True}
        if self._layout_free:
            attrs[LAYOUT_FREE_BUFFERS] = sorted(self._layout_free)
        body = with_root_block(sequence(stages), self._allocated)
        return PrimFunc(params, body, buffer_map=buffer_map, attrs=attrs)

    def _place(self, tensor: Tensor) -> None:
        is_argument = any(tensor is argument for argument in self._arguments)
        if isinstance(tensor.op, PlaceholderOp) and not is_argument:
            raise IRValueError(
                f"the tensor {tensor.name} is needed, but does not appear as a function argument; "
                "pass it to te.create_prim_func"
            )
        buffer = decl_buffer(tensor.shape, tensor.dtype, tensor.name)
        layout = self._layouts.get(tensor)
        if layout is not None:
            if not is_argument:
                raise IRValueError(
                    f"te.extern needs the tensor {tensor.name} with strides "
                    f"({', '.join(map(str, layout.all_strides()))}) and the offset "
                    f"{layout.elem_offset}, but intermediate tensors are compact; pass it to "
                    "te.create_prim_func"
                )
            buffer = buffer.with_(strides=layout.strides, elem_offset=layout.elem_offset)
        self._buffers[tensor] = buffer
        if not is_argument:
            self._allocated.append(buffer)

    def _find_layouts(self, operations: Iterable[ExternOp]) -> None:
        """Find the tensors that are not compact, from the layouts that extern functions require."""
        wanted: dict[Tensor, Buffer] = {}
        for op in operations:
            for buffer, tensor in _tensors_of(op):
                before = wanted.setdefault(tensor, buffer)
                if not self._same_layout(before, buffer):
                    raise IRValueError(
                        f"{op.name!r} needs another layout of tensor {tensor.name} than operations "
                        "before it: strides and offsets differ"
                    )
        for tensor, buffer in wanted.items():
            if not self._same_layout(buffer, decl_buffer(tensor.shape, tensor.dtype)):
                self._layouts[tensor] = buffer

    def _same_layout(self, a: Buffer, b: Buffer) -> bool:
        pairs = zip(
            (*a.all_strides(), a.elem_offset), (*b.all_strides(), b.elem_offset), strict=True
        )
        return a is b or all(self._analyzer.can_prove_equal(*match_types(x, y)) for x, y in pairs)

    def _check_variables(self, operations: Sequence[Operation]) -> None:
        defined: set[Var] = set()
        for argument in self._arguments:
            parts = argument.shape if isinstance(argument, Tensor) else [argument]
            defined.update(part for part in parts if isinstance(part, Var))
        for op in operations:
            own = defined
            used: list[PrimExpr | Range] = [n for tensor in op.outputs for n in tensor.shape]
            if isinstance(op, ComputeOp):
                own = defined | {axis.var for axis in (*op.axis, *op.reduce_axis)}
                used += _expressions(op)
            for part in used:
                for var in collect_vars(part):
                    if var not in own and not _binds(part, var):
                        raise IRValueError(
                            f"{op.name!r} uses the undefined variable {var.name}: a scalar must be "
                            "an argument of te.create_prim_func or a dimension of one, a "
                            "reduction axis must be passed to the reducer"
                        )

    # -------------------------------------------------------------------------------------- stages

    def _stage(self, op: Operation) -> Stmt:
        if isinstance(op, ComputeOp):
            return self._compute(op)
        if isinstance(op, ExternOp):
            return self._extern(op)
        raise IRTypeError(f"Unsupported Operation: {type(op).__name__}")

    def _extern(self, op: ExternOp) -> Stmt:
        buffers = {buffer: self._buffers[tensor] for buffer, tensor in _tensors_of(op)}
        copy = FreshCopy(buffers=buffers)(op.body)
        block = copy.with_(
            name_hint=self._unique(op.name), annotations={**copy.annotations, **self._notes(op)}
        )
        reads, writes, opaque = get_block_access_region(block, self._buffers_by_pointer(op))
        if opaque:  # a pointer is passed to a call, so the operation may access all of its tensors
            reads = [BufferRegion.full_region(self._buffers[tensor]) for tensor in op.inputs]
            writes = [BufferRegion.full_region(self._buffers[tensor]) for tensor in op.outputs]
        return BlockRealize((), TRUE, block.with_(reads=reads, writes=writes))

    def _compute(self, op: ComputeOp) -> Stmt:
        nest = Nest((*op.axis, *op.reduce_axis), partial(self._lower, op))
        wrappers: list[Axes] = []
        around: dict[Var, Var] = {}
        for level in range(nest.innermost):
            wrappers.append(nest.block_axes(level, around))
            around = wrappers[-1].vars
        # Inner reduction axes restart at every step of outer axes, so the result is initialised
        # only where the outermost reduction loops begin.
        start = min(map(nest.level, op.reduce_axis), default=nest.innermost)
        statement = sequence(self._leaves(op, nest, around, start == nest.innermost))
        for level in reversed(range(nest.innermost)):
            axes = wrappers[level]
            statement = _in_loops(statement, nest.loops(level + 1, axes.vars))
            init = self._init(op, axes.vars) if op.reduces and start == level else None
            statement = self._realize(op, axes, f"{op.name}_l{level + 1}", statement, init, {})
        return _in_loops(statement, nest.loops(0, {}))

    def _leaves(
        self, op: ComputeOp, nest: Nest, around: Mapping[Var, Var], with_init: bool
    ) -> list[Stmt]:
        """Return the innermost blocks: one for a reduction, else one for each output."""
        notes = self._notes(op)
        if op.reduces:
            axes = nest.block_axes(nest.innermost, around)
            init = self._init(op, axes.vars) if with_init else None
            return [self._realize(op, axes, op.name, self._update(op, axes.vars), init, notes)]
        blocks: list[Stmt] = []
        for tensor, value in zip(op.outputs, op.body, strict=True):
            axes = nest.block_axes(nest.innermost, around)
            indices = [axes.vars[axis.var] for axis in op.axis]
            lowered = self._lower(op, value, axes.vars)
            store = BufferStore(self._buffers[tensor], lowered, indices)
            blocks.append(self._realize(op, axes, tensor.name, store, None, notes))
        return blocks

    def _realize(
        self,
        op: Operation,
        axes: Axes,
        name: str,
        body: Stmt,
        init: Stmt | None,
        notes: Mapping[str, Any],
    ) -> BlockRealize:
        block = Block(axes.iter_vars, (), (), self._unique(name), body, init, annotations=notes)
        block = complete_block(block, (True, True), self._buffers_by_pointer(op))
        return BlockRealize(axes.bindings, TRUE, block)

    # ---------------------------------------------------------------------------------- reductions

    def _init(self, op: ComputeOp, values: Mapping[Var, Var]) -> Stmt:
        first = op.body[0]
        assert isinstance(first, Reduce)
        indices = [values[axis.var] for axis in op.axis]
        starts = first.init or first.combiner.identity_element
        return sequence(
            [
                BufferStore(self._buffers[tensor], self._lower(op, start, values), indices)
                for tensor, start in zip(op.outputs, starts, strict=True)
            ]
        )

    def _update(self, op: ComputeOp, values: Mapping[Var, Var]) -> Stmt:
        first = op.body[0]
        assert isinstance(first, Reduce)
        combiner = first.combiner
        indices = [values[axis.var] for axis in op.axis]
        targets = [self._buffers[tensor] for tensor in op.outputs]
        sources = [
            part if first.condition is TRUE else if_then_else(first.condition, part, neutral)
            for part, neutral in zip(first.source, combiner.identity_element, strict=True)
        ]
        operands: dict[Var, PrimExpr] = {}
        for lhs, rhs, target, source in zip(
            combiner.lhs, combiner.rhs, targets, sources, strict=True
        ):
            operands[lhs] = BufferLoad(target, indices)
            operands[rhs] = self._lower(op, source, values)
        combined = [substitute(result, operands) for result in combiner.result]
        if len(targets) == 1:
            return BufferStore(targets[0], combined[0], indices)
        # All components are computed from the old values before a component is stored.
        bound = [Var(f"v_{target.name}", target.dtype) for target in targets]
        statement = sequence(
            [BufferStore(t, var, indices) for t, var in zip(targets, bound, strict=True)]
        )
        for var, value in reversed(list(zip(bound, combined, strict=True))):
            statement = LetStmt(var, value, statement)
        return statement

    # --------------------------------------------------------------------------------- expressions

    def _lower(self, op: Operation, expr: PrimExpr, values: Mapping[Var, Var]) -> PrimExpr:
        """Return an expression of an operation, with its tensors and axes replaced by those of a
        block.
        """
        read: dict[Buffer, Buffer] = {tensor: self._buffers[tensor] for tensor in op.inputs}
        return self._analyzer.simplify(Substitution(values, read)(expr))

    def _buffers_by_pointer(self, op: Operation) -> dict[Var, Buffer]:
        """Return the buffers of the tensors of an operation by their pointers."""
        buffers = (self._buffers[tensor] for tensor in (*op.inputs, *op.outputs))
        return {buffer.data: buffer for buffer in buffers}

    def _unique(self, name: str) -> str:
        base = unique = name.replace(".", "_")
        count = 0
        while unique in self._block_names:
            count += 1
            unique = f"{base}_{count}"
        self._block_names.add(unique)
        return unique

    def _notes(self, op: Operation) -> dict[str, Any]:
        """Return the attributes of an operation as annotations of its blocks."""
        notes = {key: value for key, value in op.attrs.items() if key not in _DROPPED}
        rest = []
        for tensor in notes.pop(_LAYOUT_FREE, ()):
            positions = [k for k, argument in enumerate(self._arguments) if argument is tensor]
            self._layout_free.update(positions)
            rest += [] if positions else [tensor]
        if rest:
            notes[_LAYOUT_FREE] = rest
        return {key: self._without_tensors(value) for key, value in notes.items()}

    def _without_tensors(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._buffers.get(value, value)
        if isinstance(value, (list, tuple)):
            return [self._without_tensors(part) for part in value]
        if isinstance(value, Mapping):
            return {key: self._without_tensors(part) for key, part in value.items()}
        return value


def _tensors_of(op: ExternOp) -> Iterator[tuple[Buffer, Tensor]]:
    """Yield the buffers of an extern operation with their tensors."""
    return zip((*op.in_buffers, *op.out_buffers), (*op.inputs, *op.outputs), strict=True)


def _binds(expr: Node, var: Var) -> bool:
    """Return True if a part of an expression binds a variable."""
    return any(isinstance(node, Let) and node.var is var for node in walk(expr))


def _expressions(op: ComputeOp) -> Iterator[PrimExpr | Range]:
    """Yield the expressions of an operation, except combiners, which bind their own variables."""
    for axis in (*op.axis, *op.reduce_axis):
        if axis.dom is not None:
            yield axis.dom
    for part in op.body:
        if isinstance(part, Reduce):
            yield from (*part.source, part.condition, *part.init)
            yield from part.combiner.identity_element
        else:
            yield part


def _in_loops(statement: Stmt, loops: Sequence[tuple[Var, Range]]) -> Stmt:
    """Return a statement inside loops; the first loop is the outermost."""
    for var, domain in reversed(loops):
        statement = For(var, domain.min, domain.extent, ForKind.SERIAL, statement)
    return statement
