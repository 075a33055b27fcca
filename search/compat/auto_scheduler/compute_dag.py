"""A graph of tensor operations, whose stages have the same numbers as in the steps of a log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final

from schedule import Schedule
from search.compat.auto_scheduler.stages import Row, Source, Stage, State, StepError
from search.compat.auto_scheduler.steps import take
from search.errors import TuningError
from search.postproc.rewrite_blocks import RewriteReductionBlock
from search.postproc.rewrite_layout import RewriteLayout
from search.runner.flops import estimate_tir_flops
from tensorir import te
from tensorir.nodes.expr import Add, IntImm, Max, Min, Mul, PrimExpr, Reduce
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import SeqStmt
from tensorir.te.create_prim_func import operations_in_order
from tensorir.te.tensor import Operation


class LayoutRewriteOption(IntEnum):
    """The treatment of parameters whose layout is free, with the numbers of logs.

    `layout_free_placeholders` of an operation, or `layout_free_buffers` of a program, frees them.
    The option applies to searches and to steps of Ansor; a trace already has its layouts.
    """

    NO_REWRITE = 0
    INSERT_TRANSFORM_STAGE = 1
    """Each call packs the parameter, and measured times include that: for a single program."""
    REWRITE_FOR_PRE_TRANSFORMED = 2
    """The parameter is packed once, when a network is built; measured times leave that out.

    `codegen.vm_build` does it. A function that is built alone packs the parameter in each call.
    """

    def postproc(self) -> RewriteLayout | None:
        """Return the postprocessor that rewrites layouts, None for `NO_REWRITE`."""
        if self is LayoutRewriteOption.NO_REWRITE:
            return None
        return RewriteLayout(at_build=self is LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED)


class ComputeDAG:
    """The operations behind `tensors`: inputs and outputs in the order of arguments.

    `ops` are in the order of stages, producers before consumers. `func` computes the tensors.
    Raises TuningError for values that are not tensors; IRValueError for a missing input.
    """

    def __init__(self, tensors: Sequence[te.Tensor]) -> None:
        if not tensors or not all(isinstance(tensor, te.Tensor) for tensor in tensors):
            raise TuningError(f"a ComputeDAG is made of te tensors, got {tensors!r}")
        self.tensors: Final = tuple(tensors)
        self.func: Final = te.create_prim_func(self.tensors)
        self.ops: Final = tuple(_in_order_of_stages(self.tensors))

    @property
    def flop_ct(self) -> float:
        """The number of arithmetic operations of a call.

        An attribute `FLOP` of an operation overrides the count of `estimate_tir_flops`.
        """
        root = self.func.body.block.body  # type: ignore[attr-defined]
        nests = iter(root.seq if isinstance(root, SeqStmt) else (root,))
        total = 0.0
        for op, count in self._computed_operations():
            own = sum(estimate_tir_flops(next(nests)) for _ in range(count))
            stated = op.attrs.get("FLOP")
            total += own if stated is None else float(getattr(stated, "value", stated))
        return total

    def _computed_operations(self) -> Iterator[tuple[Operation, int]]:
        """Yield the operations that `func` computes, in order, with their numbers of blocks."""
        for op in operations_in_order(self.tensors):
            if not isinstance(op, te.PlaceholderOp):
                # Results that are not reduced together have a block each.
                several = isinstance(op, te.ComputeOp) and not op.reduces
                yield op, len(op.outputs) if several else 1

    def schedule(
        self,
        steps: Sequence[Row],
        layout_rewrite: LayoutRewriteOption = LayoutRewriteOption.NO_REWRITE,
    ) -> Schedule:
        """Return the schedule of `func` that steps describe; its trace replays.

        Postprocessors initialise reductions before their loops and, with `layout_rewrite`, pack the
        inputs whose layout is free. StepError names a step that cannot be applied, and the reason.
        """
        state = self.state()
        for row in steps:
            take(state, row)
        state.replay()
        sch = state.sch
        sch.enter_postproc()
        RewriteReductionBlock().apply(sch)
        rewrite = layout_rewrite.postproc()
        if rewrite is not None and not rewrite.apply(sch):
            raise StepError("layouts cannot be rewritten after these steps")
        return sch

    def state(self) -> State:
        """Return the state before the first step; TuningError for axes of the same name."""
        sources: dict[Operation, Source] = {
            tensor.op: buffer
            for tensor, buffer in zip(self.tensors, self.func.buffer_map.values(), strict=True)
            if isinstance(tensor.op, te.PlaceholderOp)
        }
        sch = Schedule(self.func, seed=1, error_render_level="fast")
        blocks = sch.state.child_blocks(sch.state.root("main"))
        names = iter([block.block.name_hint for block in blocks])
        for op, count in self._computed_operations():
            sources[op] = tuple(next(names) for _ in range(count))
        return State(sch, [_stage(op, sources[op]) for op in self.ops])

    def __str__(self) -> str:
        """Return the definition of each operation.

        `A = PLACEHOLDER [64, 32]` is an input, `C(i, j) += A[i, k] * B[k, j]` a sum over the axes
        that are not on the left.
        """
        return "".join(f"{line}\n" for op in self.ops for line in _lines(op))

    __repr__ = __str__


def _in_order_of_stages(tensors: Sequence[te.Tensor]) -> list[Operation]:
    """Return the operations behind tensors in topological order.

    Among the ready operations, the one comes first that a depth-first walk from the last tensor
    visited last.
    """
    visited: dict[Operation, None] = {}
    pending = [tensor.op for tensor in tensors]
    while pending:
        op = pending.pop()
        if op not in visited:
            visited[op] = None
            pending += [tensor.op for tensor in op.inputs]
    waiting = list(reversed(visited))
    ordered: dict[Operation, None] = {}
    while waiting:
        op = next(op for op in waiting if all(tensor.op in ordered for tensor in op.inputs))
        waiting.remove(op)
        ordered[op] = None
    return list(ordered)


def _stage(op: Operation, source: Source) -> Stage:
    axes: dict[str, int | None] = {}
    for axis in (*op.axis, *op.reduce_axis) if isinstance(op, te.ComputeOp) else ():
        name = axis.var.name
        if name in axes:
            raise TuningError(
                f"{op.name} has two axes called {name}; give each axis another name in "
                "te.reduce_axis or te.compute, since steps find loops by name"
            )
        extent = None if axis.dom is None else axis.dom.extent
        axes[name] = extent.value if isinstance(extent, IntImm) else None
    return Stage(op.name, axes, len(op.outputs[0].shape), source)


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
    return [f"{tensor.name}({axes}) {_definition_text(body)}" for tensor, body in pairs]


def _definition_text(body: PrimExpr) -> str:
    if not isinstance(body, Reduce):
        return f"= {body}"
    where = "" if is_const_int(body.condition, 1) else f" where {body.condition}"
    result, *others = body.combiner.result
    sign = "reduce=" if others else _SIGNS.get(type(result), "reduce=")
    return f"{sign} {body.source[body.value_index]}{where}"
