"""Detection of tensor functions that may overwrite an argument with an output.

This is safe in two cases:
- Each element of the output is stored once, directly from the element of the argument at the same
  indices, and nothing else reads or writes either of them. Then no element is read after it was
  overwritten, in any order of the loops.
- The function first copies the argument to the output, and does not use the argument otherwise.
  Then the copy is omitted, and only the elements that later statements change are written.

A function that only chooses one of several bodies may do so if each body may.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tensorir.arith.iter_independence import IterMapLevel
from tensorir.arith.iter_map import detect_iter_map
from tensorir.comparison.equal import structural_equal
from tensorir.function import PrimFunc
from tensorir.nodes.buffer import Buffer, MatchBufferRegion, Range
from tensorir.nodes.expr import BufferLoad, IntImm, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import BlockRealize, BufferStore, For, IfThenElse, SeqStmt, Stmt, While
from tensorir.rewriting.fresh_copy import renew_defs
from tensorir.rewriting.visit import children, substitute, substitute_buffers, walk


@dataclass(slots=True)
class _Uses:
    """The accesses of a buffer parameter."""

    loads: list[tuple[BufferLoad, BufferStore | None]] = field(default_factory=list)
    """Each load with the store whose value contains it."""
    stores: list[tuple[BufferStore, tuple[Node, ...]]] = field(default_factory=list)
    """Each store with its enclosing loops and blocks."""
    is_used_otherwise: bool = False


def overwritable_arguments(func: PrimFunc) -> dict[int, tuple[int, ...]]:
    """Map the position of each output to the positions of arguments that it may overwrite.

    Positions count all parameters. Outputs that cannot overwrite any argument are omitted.
    """
    bodies = _alternatives(func)
    if len(bodies) > 1:
        first, *others = map(overwritable_arguments, bodies)
        by_all = {
            k: tuple(j for j in positions if all(j in other.get(k, ()) for other in others))
            for k, positions in first.items()
        }
        return {k: positions for k, positions in by_all.items() if positions}
    buffers = [func.buffer_map.get(param) for param in func.params]
    uses = _uses_of(func, [b for b in buffers if b is not None])
    found: dict[int, tuple[int, ...]] = {}
    for k, output in enumerate(buffers):
        if output is None or uses[output].is_used_otherwise or not uses[output].stores:
            continue
        is_written_once = _is_written_once(uses[output])
        fitting = tuple(
            j
            for j, argument in enumerate(buffers)
            if argument is not None
            and argument is not output
            and _have_same_layout(argument, output)
            and (
                (is_written_once and _is_read_where_written(uses[argument], uses[output]))
                or _redundant_copy(func, uses[argument], output) is not None
            )
        )
        if fitting:
            found[k] = fitting
    return found


def overwriting(func: PrimFunc, output: int, argument: int) -> PrimFunc:
    """Return a function without the parameter of an output, which overwrites an argument instead.

    The positions are as in `overwritable_arguments`. All definitions are new.
    """
    dropped, kept = func.params[output], func.params[argument]
    before, after = func.buffer_map[dropped], func.buffer_map[kept]
    copy = _redundant_copy(func, _uses_of(func, [before, after])[after], before)
    if copy is not None:
        root = func.body
        assert isinstance(root, BlockRealize)
        nests = [nest for nest in _root_statements(func) if nest is not copy]
        block = root.block.with_(body=nests[0] if len(nests) == 1 else SeqStmt(nests))
        func = func.with_(body=root.with_(block=block))
    rest = func.with_(
        params=[p for p in func.params if p is not dropped],
        buffer_map={p: b for p, b in func.buffer_map.items() if p is not dropped},
        body=substitute_buffers(func.body, {before: after}),
    )
    return renew_defs(rest)


def _alternatives(func: PrimFunc) -> list[PrimFunc]:
    """Return a function for each of the bodies between which conditions alone choose."""
    body = func.body.block.body if isinstance(func.body, BlockRealize) else func.body
    if not isinstance(body, IfThenElse) or body.else_case is None:
        return [func]
    parts = (func.with_body(part) for part in (body.then_case, body.else_case))
    return [body for part in parts for body in _alternatives(part)]


def _root_statements(func: PrimFunc) -> Sequence[Stmt]:
    """Return the statements of the root block of a function."""
    if not isinstance(func.body, BlockRealize):
        return ()
    body = func.body.block.body
    return body.seq if isinstance(body, SeqStmt) else (body,)


def _redundant_copy(func: PrimFunc, argument: _Uses, output: Buffer) -> Stmt | None:
    """Return the statement that copies an argument to an output, if overwriting makes it
    unnecessary.

    It must be the first of several statements that use the output, and the only use of the
    argument.
    """
    if argument.is_used_otherwise or argument.stores or len(argument.loads) != 1:
        return None
    ((load, store),) = argument.loads
    if store is None or store.buffer is not output or store.value is not load:
        return None
    nests = _root_statements(func)
    first = next((n for n in nests if any(_buffer_of(node) is output for node in walk(n))), None)
    if first is None or len(nests) == 1 or not _same_place(load, store):
        return None
    nodes = list(walk(first))
    writes = [node for node in nodes if isinstance(node, BufferStore)]
    return first if writes == [store] and not any(isinstance(n, While) for n in nodes) else None


def _buffer_of(node: Node) -> Buffer | None:
    return node.buffer if isinstance(node, (BufferLoad, BufferStore)) else None


def _uses_of(func: PrimFunc, buffers: Sequence[Buffer]) -> dict[Buffer, _Uses]:
    uses = {buffer: _Uses() for buffer in buffers}
    pointers = {buffer.data: uses[buffer] for buffer in buffers}

    def visit(node: Node, around: tuple[Node, ...], store: BufferStore | None) -> None:
        if isinstance(node, BufferLoad) and node.buffer.data in pointers:
            known = pointers[node.buffer.data]
            known.loads.append((node, store))
            known.is_used_otherwise |= node.buffer not in uses
        elif isinstance(node, BufferStore):
            known = pointers.get(node.buffer.data, _Uses())
            known.stores.append((node, around))
            known.is_used_otherwise |= node.buffer not in uses
            visit(node.value, around, node)
            for index in node.indices:
                visit(index, around, None)
            return
        elif isinstance(node, Var) and node in pointers:
            pointers[node].is_used_otherwise = True
        elif isinstance(node, MatchBufferRegion) and node.source.buffer.data in pointers:
            pointers[node.source.buffer.data].is_used_otherwise = True
        elif isinstance(node, (For, While, BlockRealize)):
            around = (*around, node)
        for part in children(node):
            visit(part, around, store)

    visit(func.body, (), None)
    return uses


def _have_same_layout(a: Buffer, b: Buffer) -> bool:
    """Return True if both buffers have the same compact dtype and shape."""
    return (
        a.dtype == b.dtype
        and not a.strides
        and not b.strides
        and all(isinstance(x.elem_offset, IntImm) and x.elem_offset.value == 0 for x in (a, b))
        and len(a.shape) == len(b.shape)
        and all(structural_equal(m, n) for m, n in zip(a.shape, b.shape, strict=True))
    )


def _is_read_where_written(argument: _Uses, output: _Uses) -> bool:
    if argument.is_used_otherwise or argument.stores or not argument.loads:
        return False
    ((target, _),) = output.stores
    return all(store is target and _same_place(load, target) for load, store in argument.loads)


def _same_place(load: BufferLoad, store: BufferStore) -> bool:
    """Return True if the indices are equal; all indices of a single element are equal."""
    return all(
        is_const_int(extent, 1) or structural_equal(m, n)
        for extent, m, n in zip(store.buffer.shape, load.indices, store.indices, strict=True)
    )


def _is_written_once(output: _Uses) -> bool:
    """Return True if a buffer is never read, and one statement writes each element at most once."""
    if output.is_used_otherwise or output.loads or len(output.stores) != 1:
        return False
    ((store, around),) = output.stores
    domain: dict[Var, Range] = {}
    values: dict[Var, PrimExpr] = {}
    for node in around:
        if isinstance(node, While):
            return False
        if isinstance(node, For):
            domain[node.loop_var] = Range.from_min_extent(
                substitute(node.min, values), substitute(node.extent, values)
            )
        elif isinstance(node, BlockRealize):
            pairs = zip(node.block.iter_vars, node.iter_values, strict=True)
            values |= {axis.var: substitute(value, values) for axis, value in pairs}
    indices = [substitute(index, values) for index in store.indices]
    inside = {var for index in indices for var in walk(index) if isinstance(var, Var)}
    domain = {var: run for var, run in domain.items() if not is_const_int(run.extent, 1)}
    if any(var not in inside for var in domain):
        return False
    return not domain or bool(
        detect_iter_map(indices, domain, check_level=IterMapLevel.INJECTIVE).indices
    )
