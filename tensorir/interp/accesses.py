"""Memory locations of the elements that a program accesses, as closures over an environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tensorir.interp.arguments import Env
from tensorir.interp.ledger import Ledger
from tensorir.interp.memory import InterpreterError, Layout, Memory, compact_strides, in_one_line
from tensorir.nodes import expr as e
from tensorir.nodes.buffer import Buffer, MatchBufferRegion
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.ops import is_const_int

Eval: TypeAlias = Callable[[Env], Any]
Locate: TypeAlias = Callable[[Env, Sequence[int]], tuple[Memory, int]]
"""A function that maps the indices of an element to the memory of its buffer and the position in
it.
"""


class AccessCompiler:
    """Finds elements of buffers, also through views."""

    def __init__(self) -> None:
        self._views: dict[Buffer, MatchBufferRegion] = {}
        self._starts: dict[Var, Eval] = {}
        """The offsets of views in their memory, for buffers that do not declare an offset."""
        self._layouts: dict[Buffer, Callable[[Env], Layout]] = {}
        self.ledger: Ledger | None = None
        """The ledger of the accesses of a launch, while that is compiled."""

    def expr(self, node: PrimExpr) -> Eval:
        """Return a closure that computes the value of an expression."""
        raise NotImplementedError

    def view(self, match: MatchBufferRegion) -> Callable[[Env], None]:
        """Define a view; return a closure that binds the variables of its layout."""
        view, source = match.buffer, match.source
        self._views[view] = match
        surplus = len(source.region) - len(view.shape)
        extents = [self.expr(r.extent) for r in source.region[surplus:]]
        starts = [self.expr(r.min) for r in source.region]
        outer = self.layout(source.buffer)
        shape = [(dim, k) for k, dim in enumerate(view.shape) if isinstance(dim, Var)]
        strides = [(dim, k) for k, dim in enumerate(view.strides) if isinstance(dim, Var)]
        offset = view.elem_offset if isinstance(view.elem_offset, Var) else None

        before = self._starts.get(source.buffer.data)

        def start_of(env: Env) -> Any:
            layout = outer(env)
            steps = zip(starts, layout.strides, strict=True)
            origin = layout.offset if before is None else before(env)
            return origin + sum(start(env) * step for start, step in steps)

        if is_const_int(view.elem_offset, 0):
            self._starts[view.data] = start_of

        def bind(env: Env) -> None:
            layout = outer(env)
            for var, k in shape:
                env[var] = extents[k](env)
            for var, k in strides:
                env[var] = layout.strides[k + surplus]
            if offset is not None:
                env[offset] = start_of(env)
            env[view.data] = env[source.buffer.data]

        return bind

    def start_of_view(self, data: Var) -> Eval | None:
        """Return the offset of a view whose buffer does not declare it, else None."""
        return self._starts.get(data)

    def layout(self, buffer: Buffer) -> Callable[[Env], Layout]:
        """Return a closure that computes the layout of a buffer."""
        known = self._layouts.get(buffer)
        if known is None:
            known = self._layouts[buffer] = self._compiled_layout(buffer)
        return known

    def _compiled_layout(self, buffer: Buffer) -> Callable[[Env], Layout]:
        rank = len(buffer.shape)
        # Strides that are given for only some dimensions are ignored.
        given = buffer.strides if len(buffer.strides) == rank else ()
        dims = (*buffer.shape, *given, buffer.elem_offset)
        parts = [self.expr(dim) for dim in dims]

        def compute(env: Env) -> Layout:
            numbers = [part(env) for part in parts]
            shape = tuple(numbers[:rank])
            strides = tuple(numbers[rank:-1]) if given else compact_strides(shape)
            return Layout(shape, strides, numbers[-1])

        if all(isinstance(dim, IntImm) for dim in dims):
            constant = compute({})
            return lambda env: constant
        return compute

    def locate(self, buffer: Buffer, node: Any) -> Locate:
        """Return a closure that finds an element, for the access `node`.

        It raises InterpreterError for an index outside of the buffer, or of its memory.
        """
        locate = self._unwatched(buffer, node)
        return locate if self.ledger is None else self.ledger.watched(locate, buffer, node)

    def _unwatched(self, buffer: Buffer, node: Any) -> Locate:
        match = self._views.get(buffer)
        if match is not None:
            return self._locate_in_view(match, node)
        data, kind, width = buffer.data, buffer.dtype.element.to_numpy(), buffer.dtype.lanes

        def in_memory(env: Env, position: int) -> tuple[Memory, int]:
            memory = env.get(data)
            if memory is None:
                raise InterpreterError(f"`{node}` accesses {buffer.name} outside of its allocation")
            memory = memory.of(kind)
            cells = width * memory.step
            cell = memory.origin + position * cells
            if not 0 <= cell <= len(memory.cells) - cells:
                size = (len(memory.cells) - memory.origin) // cells
                raise _out_of_bounds(buffer, position, 0, size, node)
            return memory, cell

        if _is_flat(buffer):
            return lambda env, indices: in_memory(env, indices[0])
        layout = self.layout(buffer)

        def locate(env: Env, indices: Sequence[int]) -> tuple[Memory, int]:
            shape, strides, position = layout(env)
            for k, index in enumerate(indices):
                if not 0 <= index < shape[k]:
                    raise _out_of_bounds(buffer, index, k, shape[k], node)
                position += index * strides[k]
            return in_memory(env, position)

        return locate

    def _locate_in_view(self, match: MatchBufferRegion, node: Any) -> Locate:
        view, region = match.buffer, match.source.region
        outer, layout = self.locate(match.source.buffer, node), self.layout(view)
        starts = [self.expr(r.min) for r in region]
        surplus = len(region) - len(view.shape)

        def locate(env: Env, indices: Sequence[int]) -> tuple[Memory, int]:
            shape = layout(env).shape
            for k, index in enumerate(indices):
                if not 0 <= index < shape[k]:
                    raise _out_of_bounds(view, index, k, shape[k], node)
            inner = [0] * surplus + list(indices)
            return outer(env, [start(env) + i for start, i in zip(starts, inner, strict=True)])

        return locate

    def places(
        self, buffer: Buffer, indices: Sequence[PrimExpr], node: Any
    ) -> Callable[[Env, Sequence[bool] | None], list[tuple[Memory, int] | None]]:
        """Return a closure that finds the elements of a vector access; None for masked lanes."""
        parts = [self.expr(index) for index in indices]
        locate = self.locate(buffer, node)
        carries = _spans_rows(buffer, indices)
        sizes = self.layout(buffer)

        def find(env: Env, taken: Sequence[bool] | None) -> list[tuple[Memory, int] | None]:
            *first, lanes = [part(env) for part in parts]
            found: list[tuple[Memory, int] | None] = []
            for lane, index in enumerate(lanes):
                if taken is not None and not taken[lane]:
                    found.append(None)
                    continue
                position = [*first, index]
                if carries:
                    _carry_position(position, sizes(env).shape)
                found.append(locate(env, position))
            return found

        return find


def _out_of_bounds(buffer: Buffer, index: int, dim: int, size: int, node: Any) -> InterpreterError:
    return InterpreterError(
        f"access to {buffer.name} out of bounds: index {index} of dimension {dim} is not "
        f"in [0, {size}), in `{in_one_line(node)}`"
    )


def _is_flat(buffer: Buffer) -> bool:
    """Return True if indices are offsets into memory; then only its bounds are checked.

    Lowered programs access memory through such buffers.
    """
    offset = buffer.elem_offset
    is_compact = not buffer.strides and isinstance(offset, IntImm) and offset.value == 0
    return len(buffer.shape) == 1 and is_compact


def _spans_rows(buffer: Buffer, indices: Sequence[PrimExpr]) -> bool:
    """Return True if a vector access spans several rows of a compact buffer."""
    ramp, last = indices[-1], buffer.shape[-1]
    return (
        isinstance(ramp, e.Ramp)
        and not buffer.strides
        and isinstance(ramp.stride, IntImm)
        and isinstance(last, IntImm)
        and ramp.stride.value * (ramp.dtype.lanes - 1) >= last.value
    )


def _carry_position(position: list[int], shape: Sequence[int]) -> None:
    for k in range(len(position) - 1, 0, -1):
        rows, position[k] = divmod(position[k], shape[k])
        position[k - 1] += rows
