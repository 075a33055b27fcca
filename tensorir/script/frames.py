"""The loops, blocks and other statements of the `T` namespace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorir.comparison.equal import structural_equal
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes import expr as e
from tensorir.nodes import ops
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.ops import as_expr, cast, const
from tensorir.nodes.stmt import AssertStmt, AttrStmt, For, ForKind, LetStmt, Stmt, While
from tensorir.script.calls import let_expr
from tensorir.script.declarations import dtype_text, fresh_var
from tensorir.script.records import (
    AxisRecord,
    BlockFrame,
    BlockRecord,
    FreshThread,
    FuncAttrRecord,
    LetType,
    LoopFrame,
    RemapRecord,
    ScopeFrame,
    attributes,
)

# ------------------------------------------------------------------------------------------ loops


def range_of(low: PrimExpr, high: PrimExpr) -> Range:
    """Return the range from `low` to `high`, with a simplified extent.

    Raises IRTypeError for floats.
    """
    for end in (low, high):
        if not end.dtype.is_integral:
            raise IRTypeError(f"the ends of a range must be integers, not {end.dtype}")
    if isinstance(low, IntImm) and low.value == 0:
        return Range.from_min_extent(low, high)
    return Range.from_min_extent(low, _difference(high, low))


def _difference(high: PrimExpr, low: PrimExpr) -> PrimExpr:
    """Return `high - low`, simplified.

    For `low:low + extent`, the result is `extent` itself, so that printed regions read back.
    """
    if isinstance(high, e.Add) and (high.a is low or structural_equal(high.a, low)):
        return high.b
    from tensorir.arith import Analyzer  # noqa: PLC0415

    return Analyzer().simplify(ops.sub(high, low))


def _range_pair(start: Any, stop: Any) -> tuple[PrimExpr, PrimExpr]:
    if stop is None:
        extent = as_expr(start)
        if not extent.dtype.is_integral:
            raise IRTypeError(f"a loop must run over integers, not over {extent.dtype}")
        return const(0, extent.dtype), extent
    values = range_of(*ops.match_types(start, stop))
    return values.min, values.extent


def _loop(kind: ForKind) -> Callable[..., LoopFrame]:
    def loop(
        start: Any, stop: Any = None, step: Any = 1, *, annotations: dict[str, Any] | None = None
    ) -> LoopFrame:
        if not isinstance(step, int) or step != 1:
            raise IRValueError(
                f"the step of a loop must be 1, not {step}; iterate over the number of steps and "
                "compute the index from it"
            )
        return LoopFrame([_range_pair(start, stop)], kind, annotations=attributes(annotations))

    loop.__doc__ = f"Iterate over `[0, start)` or `[start, stop)` with a {kind.name.lower()} loop."
    return loop


serial = _loop(ForKind.SERIAL)
parallel = _loop(ForKind.PARALLEL)
vectorized = _loop(ForKind.VECTORIZED)
unroll = _loop(ForKind.UNROLLED)


def thread_binding(
    start: Any,
    stop: Any = None,
    thread: str | None = None,
    *,
    annotations: dict[str, Any] | None = None,
) -> LoopFrame:
    """Iterate over the threads of a GPU axis."""
    if thread is None and isinstance(stop, str):
        thread, stop = stop, None
    if thread is None:
        raise IRValueError(
            'Thread cannot be None for thread_binding; write T.thread_binding(n, "threadIdx.x")'
        )
    kept = attributes(annotations)
    return LoopFrame([_range_pair(start, stop)], ForKind.THREAD_BINDING, thread, kept)


def grid(*extents: Any) -> LoopFrame:
    """Iterate over a box with nested serial loops from 0."""
    return LoopFrame([_range_pair(n, None) for n in extents])


# ----------------------------------------------------------------------------------------- blocks


def block(name: str = "", no_realize: bool = False) -> BlockFrame:
    """Open a block."""
    return BlockFrame(name, not no_realize)


def where(predicate: Any) -> BlockRecord:
    """Declare the condition under which an instance of the block runs."""
    if type(predicate) is int and predicate not in (0, 1):
        raise IRValueError(f"T.where needs a bool, got {predicate}")
    return BlockRecord("where", as_expr(bool(predicate) if type(predicate) is int else predicate))


def _regions(regions: tuple[Any, ...]) -> list[BufferRegion]:
    if len(regions) == 1 and isinstance(regions[0], (list, tuple)):
        regions = tuple(regions[0])
    return [as_region(r) for r in regions]


def as_region(value: Any) -> BufferRegion:
    """Return the region of a value: a region, an element of a buffer, or a whole buffer."""
    if isinstance(value, BufferRegion):
        return value
    if isinstance(value, e.BufferLoad):
        return BufferRegion.from_point(value.buffer, value.indices)
    if isinstance(value, Buffer):
        return BufferRegion.full_region(value)
    raise IRTypeError(f"expected a buffer region, got {type(value).__name__}")


def reads(*regions: Any) -> BlockRecord:
    """Declare the regions that the block may read."""
    return BlockRecord("reads", _regions(regions))


def writes(*regions: Any) -> BlockRecord:
    """Declare the regions that the block may write."""
    return BlockRecord("writes", _regions(regions))


def block_attr(attrs: dict[str, Any]) -> BlockRecord:
    """Annotate the block."""
    return BlockRecord("block_attr", attributes(attrs))


def func_attr(attrs: dict[str, Any]) -> FuncAttrRecord:
    """Set attributes of the function."""
    return FuncAttrRecord(attributes(attrs))


def _axis(iter_type: int) -> Callable[..., AxisRecord]:
    def axis(dom: Any, binding: Any = None, dtype: str = "int32") -> AxisRecord:
        if isinstance(dom, Range):
            low, extent = dom.min, dom.extent
        elif isinstance(dom, (tuple, list)):
            low, extent = _range_pair(*dom)
        else:
            low, extent = _range_pair(dom, None)
        for bound in (low, extent):
            if not bound.dtype.is_int:
                raise IRTypeError(f"the domain of an axis is {bound.dtype}, not a signed integer")
        bound_to = None if binding is None else as_expr(binding)
        return AxisRecord(low, extent, bound_to, iter_type, dtype)

    return axis


class AxisNamespace:
    """`T.axis`: the axes of a block."""

    spatial = S = staticmethod(_axis(IterVar.DATA_PAR))
    reduce = R = staticmethod(_axis(IterVar.COMM_REDUCE))
    scan = staticmethod(_axis(IterVar.ORDERED))
    opaque = staticmethod(_axis(IterVar.OPAQUE))

    @staticmethod
    def remap(kinds: str, bindings: Sequence[Any]) -> RemapRecord:
        """Bind one axis to each loop variable: `S` data-parallel, `R` reduction."""
        if not isinstance(bindings, (list, tuple)):
            raise IRTypeError('T.axis.remap needs a list of loop variables: remap("SR", [i, k])')
        for kind in kinds:
            if kind not in "SR":
                raise IRValueError(
                    f"Unknown axis kind: {kind}; expected S (spatial) or R (reduction)"
                )
        if len(kinds) != len(bindings):
            raise IRValueError(f"T.axis.remap got {len(kinds)} kinds for {len(bindings)} loops")
        return RemapRecord(kinds, list(bindings))


# -------------------------------------------------------------------------------------- statements


def let_stmt(value: Any, type_annotation: Any = None, *, var: Var | None = None) -> ScopeFrame:
    """Bind a variable in the statements after it."""
    bound = as_expr(value)

    def define(name: str) -> Var:
        if var is not None:
            return var
        return (
            Var(name, bound.dtype) if type_annotation is None else fresh_var(type_annotation, name)
        )

    return ScopeFrame(lambda v, body: LetStmt(v, bound, body), define)


class LetForm:
    """`T.let`: an annotation of a variable with a constant value; a call is `T.LetStmt`."""

    def __call__(self, var: Var, value: Any, body: Any = None) -> ScopeFrame | PrimExpr:
        """Bind a variable in the statements after it, or in an expression."""
        return let_stmt(value, var=var) if body is None else let_expr(body, {var: value})

    def __getitem__(self, annotation: Any) -> LetType:
        return LetType(annotation)

    def __repr__(self) -> str:
        return "T.let"


def attr(node: Any, key: str | None = None, value: Any = None) -> ScopeFrame:
    """Set an attribute of a node, or the attributes of a dict, for the statements after it."""
    settings = {key: value} if key is not None else node
    if not isinstance(settings, dict) or (key is not None and value is None):
        raise IRTypeError("T.attr needs a node, a key and a value, or a dict of keys and values")
    target = 0 if key is None else node
    known = [(name, as_expr(setting)) for name, setting in settings.items()]

    def make(_: Any, body: Stmt) -> Stmt:
        for name, setting in reversed(known):
            body = AttrStmt(target, name, setting, body)
        return body

    return ScopeFrame(make)


def launch_thread(thread: IterVar | str, extent: Any) -> ScopeFrame:
    """Run the following statements in the threads of a GPU axis, as `T.thread_binding` does."""
    count = as_expr(extent)
    tag = thread.thread_tag if isinstance(thread, IterVar) else thread

    def define(name: str) -> Var:
        return thread.var if isinstance(thread, IterVar) else Var(name, count.dtype)

    def make(var: Var, body: Stmt) -> Stmt:
        return make_loop(var, const(0), count, ForKind.THREAD_BINDING, tag, {}, body)

    return ScopeFrame(make, define)


def make_loop(
    var: Var,
    low: PrimExpr,
    extent: PrimExpr,
    kind: ForKind,
    thread: str,
    annotations: dict[str, Any],
    body: Stmt,
) -> For:
    """Return a loop, with bounds cast to the dtype of its variable."""
    binding = None
    if kind is ForKind.THREAD_BINDING:
        binding = IterVar(None, Var(thread, var.dtype), IterVar.THREAD_INDEX, thread)
    return For(var, cast(var.dtype, low), cast(var.dtype, extent), kind, body, binding, annotations)


def env_thread(thread: str, dtype: Any = "int32") -> FreshThread:
    """Declare the index of a thread; `T.launch_thread` sets its extent."""
    return FreshThread(dtype_text(dtype), tag=thread)


def assert_(condition: Any, message: Any) -> ScopeFrame:
    """Stop unless a condition holds."""
    holds, text = as_expr(condition), as_expr(message)
    return ScopeFrame(lambda _, body: AssertStmt(holds, text, body))


def while_(condition: Any) -> ScopeFrame:
    """Repeat the statements after it while a condition holds."""
    holds = as_expr(condition)
    return ScopeFrame(lambda _, body: While(holds, body))
