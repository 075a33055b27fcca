"""Definitions by assignments in a function: variables, buffers, axes, views."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, TypeAlias

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, BufferRegion, MatchBufferRegion
from tensorir.nodes.expr import IterVar, PrimExpr, Var
from tensorir.nodes.ops import as_expr, cast, const
from tensorir.nodes.stmt import Stmt
from tensorir.script.declarations import alloc_local, declared, fresh_var
from tensorir.script.evaluate import Evaluator, exact_const
from tensorir.script.frames import LetForm, as_region
from tensorir.script.parts import BlockParts
from tensorir.script.records import (
    AxisRecord,
    BufferRecord,
    FreshVar,
    LetType,
    MetaVar,
    RemapRecord,
    Scalar,
    ScopeFrame,
)
from tensorir.script.statements import StatementReader
from tensorir.script.syntax import Tree

Enclose: TypeAlias = Callable[[Stmt], Stmt]
"""Builds a statement around the rest of the body."""


class Definitions(StatementReader):
    """Reads definitions, and adds them to the function and its blocks."""

    def __init__(self, evaluate: Evaluator, *, private: bool = False) -> None:
        super().__init__(evaluate, private)
        evaluate.allocate = self._allocate
        self._params: list[Var] = []
        self._buffer_map: dict[Var, Buffer] = {}
        self._alloc_buffers: list[Buffer] = []
        """The buffers that the function allocates outside of its blocks."""
        self._blocks: list[BlockParts] = []
        self._loops: dict[Var, tuple[PrimExpr, PrimExpr]] = {}
        self._visible: dict[Var, Buffer] = {}
        self._depth = 0
        """The number of loops, branches, blocks and the like around the current statement."""
        self._scopes = 0
        """The number of lets and other scopes that enclose the current statement in its body."""

    def _define(self, name: str, value: Any) -> None:
        self._see(value)
        self._scope.define(name, value)

    def _see(self, value: Any) -> None:
        """Add a buffer to the visible ones."""
        if isinstance(value, Buffer):
            self._visible[value.data] = value

    def _expr(self, tree: Tree) -> PrimExpr:
        return self._evaluate.guarded(tree[1], as_expr, self._evaluate(tree))  # type: ignore[no-any-return]

    def _block(self, what: str) -> BlockParts:
        if not self._blocks:
            raise IRValueError(
                f"T.{what} must be called at the top of a T.block(), but it occurred outside of "
                "any T.block() frame"
            )
        return self._blocks[-1]

    # ------------------------------------------------------------------------------------ variables

    def _let(self, name: str, var: Var, value: PrimExpr) -> Enclose:
        """Define `name` as a variable with a constant value in the rest of the body."""
        if any(name in level for level in self._scope.levels[:-1]):
            raise IRValueError(
                f"{name} has a value already, which an assignment in an inner body cannot change; "
                f"choose another name, or declare `{name}: T.{var.dtype}` without a value to store "
                "to it"
            )
        self._scope.define(name, var)
        return lambda body: s.LetStmt(var, value, body)

    def _annotated(self, name: str, annotation: Any, value: Any) -> Enclose:
        """Define `name` by an annotation and an optional value."""
        if value is None and isinstance(annotation, ScopeFrame):
            return self._open_scope(name, annotation)
        if value is None:
            dtype = fresh_var(annotation, name).dtype
            memory = alloc_local((1,), dtype)
            buffer = memory.define(name)  # type: ignore[misc]
            self._see(buffer)
            self._scope.define(name, Scalar(buffer))
            return lambda body: memory.make(buffer, body)
        if isinstance(annotation, (LetType, LetForm)):
            annotation = annotation.annotation if isinstance(annotation, LetType) else None
        bound = as_expr(value)
        if annotation is None:
            return self._let(name, Var(name, bound.dtype), bound)
        var = fresh_var(annotation, name)
        if type(value) in (int, float, bool) and not var.dtype.is_handle:
            bound = exact_const(value, var.dtype)
        if var.dtype is not bound.dtype:
            raise IRTypeError(
                f"{name} is annotated {var.dtype}, but the value is {bound.dtype}; cast it"
            )
        return self._let(name, var, bound)

    def _bind(self, target: Tree, value: Any) -> Enclose | None:
        """Bind a value to one or several names.

        Return the scope around the rest of the body, if any.
        """
        if target[0] == "parenthesized":
            target = target[2]
        if isinstance(value, RemapRecord):
            self._remap(target, value)
            return None
        if target[0] in ("tuple", "list"):
            return self._unpack(target, value)
        if target[0] != "name":
            raise self._fail(
                "cannot assign to this expression; assign to a name or an element", target[1]
            )
        name = target[2]
        if isinstance(value, AxisRecord):
            self._axis(name, value)
            return None
        if isinstance(value, BufferRecord):
            return self._buffer(name, value)
        if isinstance(value, ScopeFrame):
            return self._open_scope(name, value)
        if isinstance(value, FreshVar):
            value = value.build(name)
        elif isinstance(value, (PrimExpr, int, float, e.EqualOp, BufferRegion)):
            value = as_expr(value)
            return self._let(name, Var(name, value.dtype), value)
        self._define(name, value)
        return None

    def _unpack(self, target: Tree, value: Any) -> Enclose | None:
        names = target[2]
        items = value.read() if isinstance(value, MetaVar) else value
        if not isinstance(items, (tuple, list)):
            raise IRValueError(f"cannot unpack a {type(items).__name__} into {len(names)} names")
        values = spread(names, list(items), f"there are {len(items)} value(s)")
        if isinstance(value, MetaVar):
            values = [MetaVar(item) for item in values]
        known = [n[2] for n in names if n[0] == "name"]
        if len(set(known)) != len(known):
            raise IRValueError("Duplicate vars assigned.")
        parts = [n[2] if n[0] == "starred" else n for n in names]
        scopes = [self._bind(n, v) for n, v in zip(parts, values, strict=True)]
        return nest_scopes(scope for scope in scopes if scope is not None)

    def _open_scope(self, name: str | None, frame: ScopeFrame) -> Enclose:
        """Open a scope around the rest of the body, which defines `name`."""
        defined = None if frame.define is None else frame.define(name or "v")
        self._see(defined)
        if name is not None:
            self._scope.define(name, defined)
        return lambda body: frame.make(defined, body)

    # --------------------------------------------------------------------------------------- blocks

    def _axis(self, name: str, record: AxisRecord) -> None:
        if not self._blocks:
            raise IRTypeError("The last frame is not BlockFrame: an axis belongs to a block")
        self._scope.define(name, self._blocks[-1].add_axis(name, record))

    def _remap(self, target: Tree, record: RemapRecord) -> None:
        names = target[2] if target[0] in ("tuple", "list") else [target]
        if len(names) != len(record.kinds):
            raise IRValueError(f"T.axis.remap gives {len(record.kinds)} axes to {len(names)} names")
        for name, kind, binding in zip(names, record.kinds, record.bindings, strict=True):
            if name[0] != "name":
                raise self._fail("the name of an axis must be a plain name", name[1])
            if not isinstance(binding, Var):
                raise IRTypeError("Only Var is supported in T.axis.remap")
            loop = self._loops.get(binding)
            if loop is None:
                raise IRTypeError(f"Variable is not in the loop: {binding.name}")
            iter_type = IterVar.DATA_PAR if kind == "S" else IterVar.COMM_REDUCE
            self._axis(name[2], AxisRecord(*loop, binding, iter_type, binding.dtype))

    # -------------------------------------------------------------------------------------- buffers

    def _buffer(self, name: str, record: BufferRecord) -> Enclose | None:
        """Define a buffer; inside loops, branches and lets its scope is the rest of the body."""
        buffer = record.build(name)
        if record.what == "match_buffer":
            self._match_buffer(record.source, buffer)
        elif record.what == "alloc_buffer" and not self._own(buffer):
            return self._open_scope(name, declared(record.options))
        self._define(name, buffer)
        return None

    def _own(self, buffer: Buffer) -> bool:
        """Add a buffer to the allocations of the block or function; False inside loops and lets."""
        directly = self._blocks[-1].depth if self._blocks else 0
        if self._depth + self._scopes != directly:
            return False
        owned = self._blocks[-1].alloc_buffers if self._blocks else self._alloc_buffers
        owned.append(buffer)
        return True

    def _allocate(self, record: BufferRecord) -> Buffer:
        """Allocate a buffer for Python code that the script calls."""
        buffer = record.build("buffer")
        if not self._own(buffer):
            raise IRValueError(
                "Python code that calls T.alloc_buffer must be called at the top of a "
                "function or block, not in a loop, a branch or a let"
            )
        self._see(buffer)
        return buffer

    def _match_buffer(self, source: Any, buffer: Buffer) -> None:
        if isinstance(source, Var):
            if self._depth or self._scopes:
                raise IRValueError(
                    "T.match_buffer must be called at the top of a PrimFunc, before any assignment"
                )
            if source not in self._params:
                raise IRValueError("Can not bind non-input param to buffer.")
            self._buffer_map[source] = buffer
        elif isinstance(source, (BufferRegion, e.BufferLoad, Buffer)):
            view = MatchBufferRegion(buffer, as_region(source))
            self._block("match_buffer").match_buffers.append(view)
        else:
            raise IRValueError(f"Unexpected type for TIR MatchBuffer: {type(source).__name__}")

    # --------------------------------------------------------------------------------------- stores

    def _store(self, target: Tree, value: Any) -> Stmt:
        buffer = self._evaluate(target[2])
        if not isinstance(buffer, Buffer):
            raise self._fail(f"a {type(buffer).__name__} cannot be stored to", target[1])
        store_indices = self._evaluate.store_indices
        indices = self._evaluate.guarded(target[1], store_indices, buffer, target[3])
        return make_store(buffer, value, indices)

    def _store_scalar(self, name: str, value: Any) -> Stmt | None:
        """Return the store of a value to a `Scalar`; None if `name` is not a scalar."""
        known = (level[name] for level in reversed(self._scope.levels) if name in level)
        found = next(known, None)
        return make_store(found.buffer, value, [const(0)]) if isinstance(found, Scalar) else None


def nest_scopes(scopes: Iterable[Enclose]) -> Enclose | None:
    """Return scopes nested as one scope, the first one outermost; None for no scopes."""
    known = list(scopes)
    if not known:
        return None
    return lambda body: reduce(lambda inner, scope: scope(inner), reversed(known), body)


def spread(targets: list[Tree], values: list[Any], there_are: str) -> list[Any]:
    """Return one value for each target; a starred target gets a tuple of the remaining values.

    `there_are` describes the values in the IRValueError for a wrong number of targets.
    """
    stars = [k for k, target in enumerate(targets) if target[0] == "starred"]
    left = len(values) - len(targets) + len(stars)
    if len(stars) > 1 or left < 0 or (not stars and left):
        starred = f", {len(stars)} of them starred" if stars else ""
        raise IRValueError(f"{there_are}, but {len(targets)} names{starred}")
    if not stars:
        return values
    (at,) = stars
    return [*values[:at], tuple(values[at : at + left]), *values[at + left :]]


def make_store(buffer: Buffer, value: Any, indices: list[PrimExpr]) -> s.BufferStore:
    """Return a store of the value, cast to the dtype of the buffer."""
    lanes = indices[-1].dtype.lanes if indices else 1
    dtype = buffer.dtype if lanes == 1 else buffer.dtype.with_lanes(lanes * buffer.dtype.lanes)
    if isinstance(value, str):
        raise IRTypeError(f"buffer {buffer.name} holds {buffer.dtype}, a string cannot be stored")
    stored: PrimExpr = as_expr(value)
    if buffer.dtype.is_bool and isinstance(value, bool):
        stored = const(value, buffer.dtype)
    if stored.dtype is not dtype:
        if stored.dtype.lanes != dtype.lanes:
            raise IRTypeError(
                f"Incompatible types in BufferStore to {buffer.name}: the place has "
                f"{dtype.lanes} lanes, the value {stored.dtype.lanes}"
            )
        # A Python float is cast from float64, not from the default dtype of constants.
        stored = cast(dtype, value if type(value) is float else stored)
    return s.BufferStore(buffer, stored, indices)
