"""Statement nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.buffer import Buffer, BufferRegion, MatchBufferRegion
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import (
    EqualOp,
    IntImm,
    IterVar,
    PrimExpr,
    StringImm,
    Var,
    check_access,
    smart,
)
from tensorir.nodes.node import (
    EMPTY_ATTRS,
    Attrs,
    Node,
    body,
    buffer,
    buffer_definition,
    compiled,
    definition,
    label,
    part,
    parts,
    value,
)
from tensorir.nodes.ops import TRUE, as_expr, cast

S = TypeVar("S", bound="Stmt")


class ForKind(IntEnum):
    """The execution of the iterations of a loop: in order, in parallel, or otherwise."""

    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    THREAD_BINDING = 4


def normalize_annotation(value: Any) -> Any:
    """Return an annotation value in its stored form: numbers become immediates, lists become
    tuples.
    """
    if isinstance(value, (bool, int, float, EqualOp)):
        return as_expr(value)
    if isinstance(value, StringImm):
        return value.value
    if isinstance(value, (list, tuple)):
        return tuple(normalize_annotation(v) for v in value)
    if isinstance(value, Mapping):
        return Attrs({str(k): normalize_annotation(v) for k, v in value.items()})
    return value


def normalize_annotations(values: Mapping[str, Any] | None) -> Attrs:
    """Return annotations in their stored form; an `Attrs` is returned unchanged."""
    if not values:
        return EMPTY_ATTRS
    if isinstance(values, Attrs):
        return values
    return Attrs({key: normalize_annotation(value) for key, value in values.items()})


class Stmt(Node):
    """The base class of statements."""

    __slots__ = ()


def _with_body(fields: Sequence[str]) -> Callable[[S, Stmt], S]:
    """Return the method that copies a statement with another body.

    The other fields are not checked again.
    """
    kept = [f"    new.{name} = n.{name}" for name in fields if name != "body"]
    about = '    """Return the statement with another body; other fields are not checked again."""'
    lines = ["def made(n, body):", about, "    new = bare(type(n))", *kept, "    new.body = body"]
    return compiled([*lines, "    return new"], {"bare": object.__new__})


class BufferStore(Stmt):
    """`buffer[indices] = value`; lanes of a vector index whose `predicate` is false are skipped."""

    fields = (
        buffer("buffer"),
        part("value"),
        parts("indices"),
        part("predicate", optional=True),
    )
    __slots__ = fields

    def __init__(
        self,
        buffer: Buffer,
        value: PrimExpr,
        indices: Sequence[PrimExpr],
        predicate: PrimExpr | None = None,
    ) -> None:
        self.buffer = buffer
        self.value = value
        self.indices = tuple(indices)
        self.predicate = predicate
        lanes = check_access(buffer, self.indices, predicate)
        expected = buffer.dtype if lanes == 1 else buffer.dtype.with_lanes(lanes)
        if value.dtype is not expected:
            raise IRTypeError(
                f"dtype mismatch on BufferStore to {buffer.name}: "
                f"the place holds {expected}, the value is {value.dtype}"
            )


smart["store"] = BufferStore


class For(Stmt):
    """Run `body` for each value of `loop_var` in `[min, min + extent)`.

    `annotations` are hints; only loops of kind THREAD_BINDING have a `thread_binding`.
    """

    fields = (
        definition("loop_var"),
        part("min"),
        part("extent"),
        "kind",
        body("body"),
        part("thread_binding", optional=True, walked=False),
        value("annotations"),
    )
    __slots__ = fields

    def __init__(
        self,
        loop_var: Var,
        min: PrimExpr,
        extent: PrimExpr,
        kind: ForKind,
        body: Stmt,
        thread_binding: IterVar | None = None,
        annotations: Mapping[str, Any] | None = None,
    ) -> None:
        dtype = loop_var.dtype
        if min.dtype is not dtype:
            min = _widen(min, loop_var)
        if extent.dtype is not dtype:
            extent = _widen(extent, loop_var)
        self.loop_var = loop_var
        self.min = min
        self.extent = extent
        self.kind = kind
        self.body = body
        self.thread_binding = thread_binding
        self.annotations = normalize_annotations(annotations)

    with_body = _with_body(fields)

    @property
    def thread_tag(self) -> str:
        """The thread axis that the loop is bound to, such as `threadIdx.x`; "" for no axis."""
        if self.kind is not ForKind.THREAD_BINDING or self.thread_binding is None:
            return ""
        return self.thread_binding.thread_tag


def _widen(bound: PrimExpr, loop_var: Var) -> PrimExpr:
    if isinstance(bound, IntImm) and loop_var.dtype.is_integral and loop_var.dtype.lanes == 1:
        return cast(loop_var.dtype, bound)
    raise IRTypeError(f"loop {loop_var.name} is {loop_var.dtype}, but has a bound of {bound.dtype}")


class While(Stmt):
    """Run `body` as long as `condition` holds."""

    fields = (part("condition"), body("body"))
    __slots__ = fields

    def __init__(self, condition: PrimExpr, body: Stmt) -> None:
        if not condition.dtype.is_bool or isinstance(condition, IntImm):
            raise IRValueError("the condition of while must be a bool that is not constant")
        self.condition = condition
        self.body = body


class IfThenElse(Stmt):
    """Run one of two statements."""

    fields = (part("condition"), body("then_case"), body("else_case", optional=True))
    __slots__ = fields

    def __init__(self, condition: PrimExpr, then_case: Stmt, else_case: Stmt | None = None) -> None:
        if not condition.dtype.is_bool or condition.dtype.lanes != 1:
            raise IRTypeError(f"the condition of if must be a scalar bool, got {condition.dtype}")
        self.condition = condition
        self.then_case = then_case
        self.else_case = else_case


class SeqStmt(Stmt):
    """Two or more statements in order; nested sequences are flattened."""

    fields = (parts("seq"),)
    __slots__ = fields

    seq: tuple[Stmt, ...]

    @staticmethod
    def rebuilt(seq: Sequence[Stmt]) -> Stmt:
        """Return the statements in order, without evaluations of 0."""
        return sequence(seq)

    def __init__(self, seq: Sequence[Stmt]) -> None:
        flat: list[Stmt] = []
        for stmt in seq:
            if isinstance(stmt, SeqStmt):
                flat.extend(stmt.seq)
            else:
                flat.append(stmt)
        if len(flat) < 2:
            raise IRValueError(f"SeqStmt takes at least 2 statements, got {len(flat)}")
        self.seq = tuple(flat)


def sequence(stmts: Sequence[Stmt | None]) -> Stmt:
    """Return the statements in order as one statement, without None and evaluations of 0."""
    flat: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, SeqStmt):
            flat.extend(stmt.seq)
        elif stmt is not None and not _is_zero_evaluation(stmt):
            flat.append(stmt)
    if not flat:
        return Evaluate(as_expr(0))
    return flat[0] if len(flat) == 1 else SeqStmt(flat)


def is_no_op(stmt: Stmt) -> bool:
    """Return True if `stmt` is the evaluation of a constant."""
    return isinstance(stmt, Evaluate) and isinstance(stmt.value, IntImm)


def _is_zero_evaluation(stmt: Stmt) -> bool:
    return isinstance(stmt, Evaluate) and isinstance(stmt.value, IntImm) and not stmt.value.value


class LetStmt(Stmt):
    """Run `body`, in which `var` has the value of `value`."""

    fields = (definition("var"), part("value"), body("body"))
    __slots__ = fields

    def __init__(self, var: Var, value: PrimExpr, body: Stmt) -> None:
        if var.dtype is not value.dtype:
            raise IRTypeError(f"let binds {var.name}: {var.dtype} to a value of {value.dtype}")
        self.var = var
        self.value = value
        self.body = body


class AssertStmt(Stmt):
    """Stop with `message` unless `condition` holds, else run `body`."""

    fields = (part("condition"), part("message"), body("body"))
    __slots__ = fields

    def __init__(self, condition: PrimExpr, message: PrimExpr, body: Stmt) -> None:
        if not condition.dtype.is_bool:
            raise IRTypeError(f"assert takes a bool condition, got {condition.dtype}")
        self.condition = condition
        self.message = message
        self.body = body


class Evaluate(Stmt):
    """Evaluate an expression for its effect; the evaluation of a constant is a no-op."""

    fields = (part("value"),)
    __slots__ = fields

    def __init__(self, value: PrimExpr) -> None:
        self.value = value


class Allocate(Stmt):
    """Memory for `extents` elements of `dtype` behind `buffer_var`, while `body` runs."""

    fields = (
        definition("buffer_var"),
        "dtype",
        parts("extents"),
        part("condition"),
        body("body"),
        value("annotations"),
    )
    __slots__ = fields

    def __init__(
        self,
        buffer_var: Var,
        dtype: str,
        extents: Sequence[PrimExpr],
        condition: PrimExpr,
        body: Stmt,
        annotations: Mapping[str, Any] | None = None,
    ) -> None:
        self.buffer_var = buffer_var
        self.dtype = DataType(dtype)
        self.extents = tuple(extents)
        self.condition = condition
        self.body = body
        self.annotations = normalize_annotations(annotations)


class AllocateConst(Stmt):
    """Constant memory that holds `data` (an array of shape `extents`) while `body` runs."""

    fields = (
        definition("buffer_var"),
        "dtype",
        parts("extents"),
        "data",
        body("body"),
        value("annotations"),
    )
    __slots__ = fields

    def __init__(
        self,
        buffer_var: Var,
        dtype: str,
        extents: Sequence[PrimExpr],
        data: NDArray[Any],
        body: Stmt,
        annotations: Mapping[str, Any] | None = None,
    ) -> None:
        self.buffer_var = buffer_var
        self.dtype = DataType(dtype)
        self.extents = tuple(extents)
        self.data = np.ascontiguousarray(data)
        self.data.flags.writeable = False
        self.body = body
        self.annotations = normalize_annotations(annotations)


class DeclBuffer(Stmt):
    """Declares `buffer` as a view of an existing pointer, visible in `body`."""

    fields = (buffer_definition("buffer"), body("body"))
    __slots__ = fields

    def __init__(self, buffer: Buffer, body: Stmt) -> None:
        self.buffer = buffer
        self.body = body


class AttrStmt(Stmt):
    """`body` with the attribute `attr_key` of `node` set to `value`."""

    fields = (value("node"), "attr_key", part("value"), body("body"))
    __slots__ = fields

    def __init__(self, node: Any, attr_key: str, value: PrimExpr, body: Stmt) -> None:
        self.node = normalize_annotation(node)
        self.attr_key = attr_key
        self.value = value
        self.body = body


ASYNC_COMMIT: Final = "async_commit_queue_scope"
"""The key of an attribute: the stores of `body` to shared memory are a group of copies that may
land later; the value is 0, the number of the queue."""
ASYNC_WAIT: Final = "async_wait_inflight_count"
"""The key of an attribute: before `body`, the thread waits until all but `value` of its last groups
have landed."""


class Block(Stmt):
    """A statement with its own index space and declared data accesses.

    `reads` and `writes` are the regions that an instance may access, as functions of `iter_vars`.
    `init` runs before the first step of a reduction. `alloc_buffers` exist while an instance runs.
    """

    fields = (
        parts("iter_vars", defines=True),
        buffer_definition("alloc_buffers", many=True),
        parts("match_buffers"),
        parts("reads"),
        parts("writes"),
        body("body"),
        body("init", optional=True),
        value("annotations"),
        label("name_hint"),
    )
    __slots__ = fields
    walk_order = ("iter_vars", "reads", "writes", "match_buffers", "init", "body")

    def __init__(
        self,
        iter_vars: Sequence[IterVar],
        reads: Sequence[BufferRegion],
        writes: Sequence[BufferRegion],
        name_hint: str,
        body: Stmt,
        init: Stmt | None = None,
        alloc_buffers: Sequence[Buffer] = (),
        match_buffers: Sequence[MatchBufferRegion] = (),
        annotations: Mapping[str, Any] | None = None,
    ) -> None:
        self.iter_vars = tuple(iter_vars)
        self.reads = tuple(reads)
        self.writes = tuple(writes)
        self.name_hint = name_hint
        self.body = body
        self.init = init
        self.alloc_buffers = tuple(alloc_buffers)
        self.match_buffers = tuple(match_buffers)
        self.annotations = normalize_annotations(annotations)

    with_body = _with_body(fields)


class BlockRealize(Stmt):
    """One instance of `block` with these `iter_values`, if `predicate` holds."""

    fields = (parts("iter_values"), part("predicate"), body("block"))
    __slots__ = fields

    def __init__(
        self, iter_values: Sequence[PrimExpr], predicate: PrimExpr | bool, block: Block
    ) -> None:
        self.iter_values = tuple(iter_values)
        self.predicate = TRUE if predicate is True else as_expr(predicate)
        self.block = block
        if len(self.iter_values) != len(block.iter_vars):
            raise IRValueError(
                f"block {block.name_hint!r} has {len(block.iter_vars)} axes, "
                f"its realize binds {len(self.iter_values)}"
            )
        if not self.predicate.dtype.is_bool:
            raise IRTypeError(
                f"the predicate of block {block.name_hint!r} is {self.predicate.dtype}, not bool"
            )
