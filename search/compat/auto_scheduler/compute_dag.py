"""A graph of tensor operations, in the order in which steps count its stages."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from math import prod
from typing import Final

from schedule import Schedule
from search.compat.auto_scheduler.replay import replay
from search.compat.auto_scheduler.stages import Row, Source, Stage, State, StepError
from search.compat.auto_scheduler.steps import take
from search.errors import TuningError
from search.postproc.rewrite_layout import RewriteLayout
from search.postproc.rewrite_reduction_block import RewriteReductionBlock
from search.runner.flops import OperationCounter
from tensorir import te
from tensorir.nodes.expr import Add, IntImm, IterVar, Max, Min, Mul, PrimExpr, Reduce
from tensorir.nodes.ops import is_const_int
from tensorir.te.create_prim_func import operations_in_order
from tensorir.te.tensor import Operation


class LayoutRewriteOption(IntEnum):
    """The options for the layout of parameters that are free in it, with the numbers of logs.

    `layout_free_placeholders` of an operation, or `layout_free_buffers` of a program, frees them. A
    search rewrites layouts as its task says, and so are steps of Ansor replayed. A trace says
    itself what was done.
    """

    NO_REWRITE = 0
    INSERT_TRANSFORM_STAGE = 1
    """Each call packs the parameter, which measured times include: for a program on its own."""
    REWRITE_FOR_PRE_TRANSFORMED = 2
    """The parameter is packed once, when a network is built, which measured times leave out.

    `codegen.vm_build` does that. In a function that is built alone each call packs it, too.
    """

    def postproc(self) -> RewriteLayout | None:
        """Return the postprocessor that rewrites layouts so, None where they stay."""
        if self is LayoutRewriteOption.NO_REWRITE:
            return None
        return RewriteLayout(at_build=self is LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED)


class ComputeDAG:
    """The operations that `tensors`, inputs and outputs in the order of arguments, need.

    `ops` are in the order of stages: inputs before what reads them, and the last tensors' first
    where that leaves a choice. `func` computes the tensors.
    """

    def __init__(self, tensors: Sequence[te.Tensor]) -> None:
        """Take a graph.

        TuningError for what is no tensor; IRValueError for an input that is needed but not given.
        """
        for k, tensor in enumerate(tensors):
            if not isinstance(tensor, te.Tensor):
                raise TuningError(
                    f"ComputeDAG takes te tensors, got {type(tensor).__name__} as item {k}"
                )
        if not tensors:
            raise TuningError("ComputeDAG takes the tensors of a program, got none")
        self.tensors: Final = tuple(tensors)
        self.func: Final = te.create_prim_func(self.tensors)
        self.ops: Final = tuple(_in_order_of_stages(self.tensors))
        self.block_names: Final = self._block_names()
        """The blocks that compute an operation's outputs, by operation."""

    @property
    def flop_ct(self) -> float:
        """The number of operations on values; an attribute `FLOP` of an operation overrides its."""
        return sum(_flops(op) for op in self.ops if isinstance(op, te.ComputeOp))

    def schedule(
        self,
        steps: Sequence[Row],
        *,
        seed: int = 1,
        layout_rewrite: LayoutRewriteOption = LayoutRewriteOption.NO_REWRITE,
    ) -> Schedule:
        """Return the schedule of `func` that steps stand for; its trace replays.

        Reductions are initialised before their loops, by a postprocessor. With `layout_rewrite`
        another one packs the inputs that an operation's `layout_free_placeholders` names in the
        order in which the loops read them. StepError names a step that cannot be taken or replayed,
        and why.
        """
        state = self.state(seed)
        for row in steps:
            take(state, row)
        replay(state)
        sch = state.sch
        sch.enter_postproc()
        RewriteReductionBlock().apply(sch)
        rewrite = layout_rewrite.postproc()
        if rewrite is not None and not rewrite.apply(sch):
            raise StepError("after all steps, layouts cannot be rewritten")
        return sch

    def state(self, seed: int = 1) -> State:
        """Return the state before all steps; TuningError for axes of the same name."""
        arguments = zip(self.tensors, self.func.buffer_map.values(), strict=True)
        sources: dict[Operation, Source] = {
            tensor.op: buffer
            for tensor, buffer in arguments
            if isinstance(tensor.op, te.PlaceholderOp)
        }
        sources.update(self.block_names)
        sch = Schedule(self.func, seed=seed, error_render_level="fast")
        return State(sch, [_stage(op, sources[op]) for op in self.ops])

    def __str__(self) -> str:
        """Return the definition of each operation.

        `A = PLACEHOLDER [64, 32]` is an input, `C(i, j) += A[i, k] * B[k, j]` a sum over the axes
        that are not on the left.
        """
        return "".join(f"{line}\n" for op in self.ops for line in _lines(op))

    __repr__ = __str__

    def _block_names(self) -> dict[Operation, tuple[str, ...]]:
        state = Schedule(self.func).state
        names = iter([block.block.name_hint for block in state.child_blocks(state.root("main"))])
        return {
            op: tuple(next(names) for _ in range(_block_count(op)))
            for op in operations_in_order(self.tensors)
            if not isinstance(op, te.PlaceholderOp)
        }


def _block_count(op: Operation) -> int:
    """Return how many blocks next to each other compute an operation."""
    return len(op.outputs) if isinstance(op, te.ComputeOp) and not op.reduces else 1


def _in_order_of_stages(tensors: Sequence[te.Tensor]) -> list[Operation]:
    """Return the operations that tensors need, in topological order.

    Of those that are ready, always the one comes first that a depth-first walk, which begins at the
    last tensor, met last.
    """
    met: dict[Operation, None] = {}
    pending = [tensor.op for tensor in tensors]
    while pending:
        op = pending.pop()
        if op not in met:
            met[op] = None
            pending += [tensor.op for tensor in op.inputs]
    waiting = list(reversed(met))
    ordered: dict[Operation, None] = {}
    while waiting:
        op = next(op for op in waiting if all(tensor.op in ordered for tensor in op.inputs))
        waiting.remove(op)
        ordered[op] = None
    return list(ordered)


def _stage(op: Operation, source: Source) -> Stage:
    axes: dict[str, int | None] = {}
    for axis in (*op.axis, *op.reduce_axis) if isinstance(op, te.ComputeOp) else ():
        if axis.var.name in axes:
            raise TuningError(
                f"two axes of {op.name} are called {axis.var.name}; give te.reduce_axis, or the "
                "function of te.compute, a name of its own for each, since steps find loops by it"
            )
        axes[axis.var.name] = _extent(axis)
    return Stage(op.name, axes, len(op.outputs[0].shape), source)


def _extent(axis: IterVar) -> int | None:
    extent = None if axis.dom is None else axis.dom.extent
    return extent.value if isinstance(extent, IntImm) else None


def _flops(op: te.ComputeOp) -> float:
    """Return the operations of all elements of an operation; an open extent counts once."""
    given = op.attrs.get("FLOP")
    if given is not None:
        return float(getattr(given, "value", given))
    elements = prod(_extent(axis) or 1 for axis in op.axis)
    total = 0.0
    for tensor, body in zip(op.outputs, op.body, strict=True):
        count = OperationCounter(comparisons=True, like=tensor.dtype).expr
        if isinstance(body, Reduce):
            steps = prod(_extent(axis) or 1 for axis in body.axis)
            total += steps * sum(map(count, (*body.combiner.result, *body.source)))
            break  # Each of several results has the whole reduction as its body.
        total += count(body)
    return elements * total


# ------------------------------------------------------------------------------------------ as text

_SIGNS: Final[dict[type[PrimExpr], str]] = {Add: "+=", Mul: "*=", Max: "max=", Min: "min="}


def _lines(op: Operation) -> list[str]:
    if isinstance(op, te.PlaceholderOp):
        shape = ", ".join(map(str, op.outputs[0].shape))
        return [f"{op.name} = PLACEHOLDER [{shape}]"]
    if not isinstance(op, te.ComputeOp):
        inputs = ", ".join(tensor.name for tensor in op.inputs)
        return [f"{tensor.name} = EXTERN({inputs})" for tensor in op.outputs]
    axes = ", ".join(axis.var.name for axis in op.axis)
    pairs = zip(op.outputs, op.body, strict=True)
    return [f"{tensor.name}({axes}) {_defined(body)}" for tensor, body in pairs]


def _defined(body: PrimExpr) -> str:
    if not isinstance(body, Reduce):
        return f"= {body}"
    source = body.source[body.value_index]
    where = "" if is_const_int(body.condition, 1) else f" where {body.condition}"
    # Several results at a time have no sign of their own.
    result, *others = body.combiner.result
    sign = "reduce=" if others else _SIGNS.get(type(result), "reduce=")
    return f"{sign} {source}{where}"
