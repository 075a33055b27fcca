"""Software pipelines: the statements of a loop run for different iterations at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from codegen.errors import LoweringError
from codegen.lower.check_supported import name_of
from codegen.lower.forms import DIM_ALIGN, PIPELINE_ASYNC, PIPELINE_ORDER, PIPELINE_STAGE
from codegen.lower.pipeline_dependences import (
    Step,
    accesses_of,
    check_order,
    name_of_step,
    versions_for,
)
from codegen.lower.rewriters import ScopedRewriter, inside_loop
from codegen.lower.thread_axes import kind_of
from codegen.target import as_target
from tensorir.arith import Analyzer
from tensorir.function import PrimFunc
from tensorir.memory.storage_scopes import memory_of
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import LT, IntImm, PrimExpr, Var
from tensorir.nodes.node import Attrs, Node
from tensorir.nodes.ops import TRUE, add, compare, const, floormod, max_, mul, sub
from tensorir.rewriting.element_rewriter import ElementRewriter
from tensorir.rewriting.fresh_copy import FreshCopy

_MOST: Final = 255
"""The last stage and position, because each stage is a copy of the body before the loop."""
_KEYS = (PIPELINE_STAGE, PIPELINE_ORDER, PIPELINE_ASYNC)


def pipeline_loops(func: PrimFunc) -> PrimFunc:
    """Run the statements of an annotated loop for several iterations at the same time.

    Before: for i in 8 {stage: [0, 1], order: [0, 1]}: alloc S; S = A[i]; B[i] = S
    After:  alloc S[2]; S[0] = A[0]
            for i in 7: S[(i + 1) % 2] = A[i + 1]; B[i] = S[i % 2]
            B[7] = S[1]

    A statement of stage n runs n iterations late, the statements of one iteration in their order
    (`software_pipeline_stage`, `software_pipeline_order`: a number for each). A buffer that is
    allocated in the loop gets as many versions as iterations use it at the same time. Where the
    target copies asynchronously, statements of `software_pipeline_async_stages` that fill such
    shared buffers are marked as groups of copies (`ASYNC_COMMIT`), and what accesses the buffers
    waits for the groups (`ASYNC_WAIT`). The results are blocks, so that the parts of an inner
    pipeline are statements of an outer one. Conditions remain where the number of iterations is
    not known. Raises LoweringError for annotations that do not fit the loop, and for an order that
    breaks a dependence. The technique: Lam, "Software Pipelining" (PLDI 1988).
    """
    return func.with_body(_Pipelines(func)(func.body))


class _Pipelines(ScopedRewriter):
    """Rewrites annotated loops, inner loops first."""

    def __init__(self, func: PrimFunc) -> None:
        super().__init__(func)
        self._function = name_of(func)
        params = {b.data for b in func.buffer_map.values()}
        self._arguments = frozenset() if func.attrs.get("tir.noalias") else frozenset(params)
        self._around: list[s.For] = []

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        return node

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        return node

    @contextmanager
    def within(self, node: Node, field: str) -> Iterator[None]:
        loops = [node] if isinstance(node, s.For) else []
        self._around += loops
        with super().within(node, field):
            yield
        del self._around[len(self._around) - len(loops) :]

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        loop: s.For = self.generic(node)
        if not any(key in loop.annotations for key in _KEYS):
            return loop
        body, buffers = _opened(loop.body)
        steps = self._steps(loop, body)
        own = {buffer.data for buffer in buffers}
        threads = [around for around in self._around if kind_of(around)]
        linear = self.analyzer.linearizer
        with inside_loop(self.analyzer, loop):
            check_order(steps, loop, threads, own, linear, self._function)
        versions = {b: self._versions(loop, b, steps) for b in buffers}
        late = self._asynchronous(loop, steps)
        copies = [x for x in steps if x.stage in late and _only_fills(x, own, steps)]
        return _Pipeline(self.analyzer, loop, steps, versions, copies).block()

    def _asynchronous(self, loop: s.For, steps: Sequence[Step]) -> list[int]:
        """Return the stages whose copies are asynchronous; none if the target has no such copies.

        Raises LoweringError for a stage that no statement has.
        """
        numbers, known = _numbers(loop, PIPELINE_ASYNC, self._function), {x.stage for x in steps}
        for number in numbers:
            if number not in known:
                raise LoweringError(
                    f"{PIPELINE_ASYNC} of loop {loop.loop_var.name} of {self._function} has "
                    f"{number}, but its statements have the stages "
                    f"{', '.join(map(str, sorted(known)))}; name some of these"
                )
        gpu = as_target(None).gpu
        return numbers if gpu is not None and gpu.copies_asynchronously else []

    def _steps(self, loop: s.For, body: Sequence[s.Stmt]) -> list[Step]:
        """Return the statements of a loop with their stages and positions."""
        name = f"loop {loop.loop_var.name} of {self._function}"
        if loop.kind not in (s.ForKind.SERIAL, s.ForKind.UNROLLED):
            raise LoweringError(
                f"{name} is annotated as a pipeline, whose iterations run one after the other, but "
                f"it is {loop.kind.name.lower()}; make it serial, or unannotate it"
            )
        stages, order = (_numbers(loop, key, self._function) for key in _KEYS[:2])
        for key, numbers in ((PIPELINE_STAGE, stages), (PIPELINE_ORDER, order)):
            if len(numbers) != len(body):
                raise LoweringError(
                    f"{key} of {name} is {numbers}, but its body has {len(body)} statements; "
                    f"annotate {PIPELINE_STAGE} and {PIPELINE_ORDER} with one number for each"
                )
        if len(set(order)) < len(order):
            raise LoweringError(
                f"{PIPELINE_ORDER} of {name} is {order}; give each statement another position"
            )
        return [
            Step(name_of_step(x, k), x, k, stage, at, accesses_of(x, self._arguments))
            for k, (x, stage, at) in enumerate(zip(body, stages, order, strict=True))
        ]

    def _versions(self, loop: s.For, buffer: Buffer, steps: Sequence[Step]) -> int:
        """Return how many iterations use a buffer at the same time."""
        using = [x for x in steps if any(a.pointer is buffer.data for a in x.accesses)]
        if not using:
            return 1
        count = versions_for(x.time for x in using)
        for step in using:
            if count > 1 and any(
                a.pointer is buffer.data and (a.buffer is None or a.buffer.dtype != buffer.dtype)
                for a in step.accesses
            ):
                raise LoweringError(
                    f"buffer {buffer.name} needs {count} versions in the pipeline of loop "
                    f"{loop.loop_var.name} of {self._function}, but {step.name} uses its pointer; "
                    f"give the statements that use the buffer one {PIPELINE_STAGE}"
                )
        return count


def _opened(node: s.Stmt, is_body: bool = True) -> tuple[Sequence[s.Stmt], list[Buffer]]:
    """Return the statements of a body, and what it allocates, also of blocks around statements.

    After `open_blocks` and `lower_match_buffers`, blocks have no axes and views.
    """
    if isinstance(node, s.SeqStmt):
        opened = [_opened(part, is_body=False) for part in node.seq]
        return [x for parts, _ in opened for x in parts], [b for _, own in opened for b in own]
    if isinstance(node, s.BlockRealize) and node.predicate is TRUE:
        block = node.block
        if is_body or isinstance(block.body, s.SeqStmt):
            parts, buffers = _opened(block.body)
            return parts, [*block.alloc_buffers, *buffers]
    return [node], []


def _numbers(loop: s.For, key: str, function: str) -> list[int]:
    """Return the numbers of an annotation; none without it. Raises LoweringError for others."""
    value: Any = loop.annotations.get(key, ())
    found = value if isinstance(value, tuple) else (value,)
    numbers = [n.value if isinstance(n, IntImm) else n for n in found]
    if not all(isinstance(n, int) and 0 <= n <= _MOST for n in numbers):
        raise LoweringError(
            f"{key} of loop {loop.loop_var.name} of {function} is {value}; annotate it with one "
            f"integer from 0 to {_MOST} for each statement"
        )
    return numbers


def _only_fills(step: Step, own: set[Var], steps: Sequence[Step]) -> bool:
    """Say whether a statement stores to shared memory of the loop only, for later statements."""
    filled = {a.pointer for a in step.accesses if a.is_store}
    later = {a.pointer for x in steps if x.time > step.time for a in x.accesses}
    return filled <= own & later and all(memory_of(p) == "shared" for p in filled)


class _Pipeline:
    """Writes the parts of one pipeline."""

    def __init__(
        self,
        analyzer: Analyzer,
        loop: s.For,
        steps: Sequence[Step],
        versions: dict[Buffer, int],
        copies: Sequence[Step],
    ) -> None:
        self._analyzer = analyzer
        self._loop = loop
        self._steps = sorted(steps, key=lambda x: x.order)
        self._versions = versions
        self._buffers = {b: _with_versions(b, n) for b, n in versions.items()}
        self._copies = copies
        self._late = max(x.stage for x in steps)

    def block(self) -> s.Stmt:
        """Return a block with the buffers, around what runs before, in and after the loop."""
        loop, late = self._loop, self._late
        extent, dtype = loop.extent, loop.loop_var.dtype
        end: PrimExpr = extent
        if not self._analyzer.can_prove(extent >= late):
            end = max_(extent, const(late, extent.dtype))
        before = [part for t in range(late) for part in self._at(const(t, dtype))]
        # The loop runs from the first time at which all statements may run.
        main = loop.with_(
            loop_var=Var(loop.loop_var.name, dtype),
            min=const(0, dtype),
            extent=self._analyzer.simplify(sub(end, const(late, end.dtype))),
            annotations=Attrs({k: v for k, v in loop.annotations.items() if k not in _KEYS}),
        )
        # Inside of it, there are more iterations than stages.
        inside = main.with_(extent=sub(extent, const(late, extent.dtype)))
        with inside_loop(self._analyzer, inside):
            main = main.with_body(s.sequence(self._at(add(main.loop_var, const(late, dtype)))))
        after = [part for t in range(late) for part in self._at(add(end.astype(dtype), t))]
        runs = [] if type(main.extent) is IntImm and main.extent.value <= 0 else [main]
        parts = [_in_block(s.sequence(x)) for x in (before, runs, after) if x]
        return _in_block(s.sequence(parts), tuple(self._buffers.values()))

    def _at(self, time: PrimExpr) -> list[s.Stmt]:
        """Return what runs at a time, counted in iterations from the first one."""
        made = []
        for step in self._steps:
            at = self._analyzer.simplify(sub(time, const(step.stage, time.dtype)))
            end = self._end(at)
            is_early, is_due = compare(LT, at, const(0, at.dtype)), compare(LT, at, end)
            if self._analyzer.can_prove(is_early) or self._analyzer.can_prove(at >= end):
                continue
            body = self._copy(step, at, time)
            if not self._analyzer.can_prove(is_due):
                body = s.IfThenElse(is_due, body)
            made.append(body)
        return made

    def _end(self, like: PrimExpr) -> PrimExpr:
        return self._loop.extent.astype(like.dtype)

    def _copy(self, step: Step, at: PrimExpr, time: PrimExpr) -> s.Stmt:
        """Return a statement for one iteration, with its versions of the buffers."""
        loop = self._loop
        value = self._analyzer.simplify(add(loop.min, at))
        new = FreshCopy({loop.loop_var: value})(step.body)
        versions = {
            b: self._analyzer.simplify(floormod(at, const(n, at.dtype)))
            for b, n in self._versions.items()
            if n > 1
        }
        new = _Versioned(self._buffers, versions)(new)
        if step in self._copies:
            new = s.AttrStmt(0, s.ASYNC_COMMIT, const(0), new)
        groups = [
            self._groups_after(copy, step, time)
            for copy in self._copies
            if copy.time < step.time
            and {a.pointer for a in copy.accesses if a.is_store}
            & {a.pointer for a in step.accesses}
        ]
        return s.AttrStmt(0, s.ASYNC_WAIT, const(min(groups)), new) if groups else new

    def _groups_after(self, copy: Step, user: Step, time: PrimExpr) -> int:
        """Return how many groups are surely made after that of `copy` that `user` needs at a time.

        These need not be complete.
        """
        apart = user.stage - copy.stage
        return sum(
            (back < apart or other.order > copy.order)
            and (back > 0 or other.order < user.order)
            and self._surely_runs(other, sub(time, const(back, time.dtype)))
            for other in self._copies
            for back in range(apart + 1)
        )

    def _surely_runs(self, step: Step, time: PrimExpr) -> bool:
        at = sub(time, const(step.stage, time.dtype))
        return self._analyzer.can_prove(at >= 0) and self._analyzer.can_prove(at < self._end(at))


def _in_block(body: s.Stmt, buffers: tuple[Buffer, ...] = ()) -> s.Stmt:
    return s.BlockRealize((), TRUE, s.Block((), (), (), "", body, alloc_buffers=buffers))


def _with_versions(buffer: Buffer, count: int) -> Buffer:
    """Return a buffer with a leading dimension for its versions, if there are several."""
    if count == 1:
        return buffer
    strides = (_size(buffer), *buffer.strides) if buffer.strides else ()
    dtype = buffer.shape[0].dtype if buffer.shape else "int32"
    return buffer.with_(shape=(const(count, dtype), *buffer.shape), strides=strides)


def _size(buffer: Buffer) -> PrimExpr:
    """Return the number of elements from one version of a buffer to the next."""
    if buffer.strides:
        return mul(buffer.strides[0], buffer.shape[0])
    size: PrimExpr = const(1, buffer.shape[0].dtype if buffer.shape else "int32")
    for extent in buffer.shape:
        size = mul(size, extent)
    return size


class _Versioned(ElementRewriter):
    """Has accesses go to one version of each buffer that has several, also those of its views."""

    def __init__(self, buffers: dict[Buffer, Buffer], versions: dict[Buffer, PrimExpr]) -> None:
        self._buffers = buffers
        self._versions = versions
        self._offsets = {b.data: mul(version, _size(b)) for b, version in versions.items()}
        self._views: dict[Buffer, Buffer] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        if buffer in self._buffers or buffer.data not in self._offsets:
            return self._buffers.get(buffer, buffer)
        if buffer not in self._views:
            start = buffer.elem_offset
            further = self._offsets[buffer.data].astype(start.dtype)
            self._views[buffer] = buffer.with_(elem_offset=add(start, further))
        return self._views[buffer]

    def indices(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> Sequence[PrimExpr]:
        return (self._versions[buffer], *indices) if buffer in self._versions else indices

    def rewrite_Block(self, node: s.Block) -> s.Block:  # noqa: N802
        # Alignments of dimensions are strides by now, and the dimensions have other numbers.
        return self.generic(node).with_(annotations=node.annotations.without(DIM_ALIGN))
