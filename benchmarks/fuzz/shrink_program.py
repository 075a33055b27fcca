"""Make a failing program smaller: leave out statements, loops, operands, functions, sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from benchmarks.fuzz.lowering_steps import Case
from tensorir import IRModule, PrimFunc
from tensorir.errors import TensorIRError
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import const
from tensorir.rewriting.visit import (
    children,
    rewrite,
    substitute,
    substitute_buffers,
    uses_var,
    walk,
)

Change = Callable[[], "Case | IRModule | PrimFunc | Node"]
"""Makes a program or a part smaller, or raises an error."""


def shrunk(
    case: Case, fails: Callable[[Case], bool], attempts: int = 600, seconds: float = 60.0
) -> Case:
    """Return the smallest case found that still fails.

    At most `attempts` cases are tried, and none after so many `seconds`.
    """
    left, progress = attempts, True
    end = time.monotonic() + seconds
    while progress and left > 0:
        progress = False
        for variants in (_other_sizes, _other_programs):
            candidates, place = list(variants(case)), 0
            while place < len(candidates) and left > 0 and time.monotonic() < end:
                candidate = _read_again(case, candidates[place])
                left -= candidate is not None
                if candidate is None or not fails(candidate):
                    place += 1
                    continue
                case, progress = candidate, True
                candidates = list(variants(case))
    return case


def _read_again(case: Case, change: Change) -> Case | None:
    """Return the case that a change leads to, None if it is invalid or unchanged."""
    try:
        changed = change()
        if isinstance(changed, IRModule):
            only = len(changed.functions) == 1
            lines = (changed["main"] if only else changed).script().splitlines()
            # Reading the script finds the regions of blocks anew.
            left_out = ("T.reads(", "T.writes(", "from tensorir import")
            kept = [line for line in lines if not line.lstrip().startswith(left_out)]
            changed = replace(case, text="\n".join(kept).strip() + "\n")
            changed.module()
    except (TensorIRError, ValueError, TypeError, KeyError, ArithmeticError):
        return None
    assert isinstance(changed, Case)
    return None if changed == case else changed


def _other_sizes(case: Case) -> Iterator[Change]:
    for name, size in case.sizes.items():
        for smaller in sorted({0, 1, 2, size // 2, size - 1} & set(range(size))):
            yield lambda n=name, k=smaller: replace(case, sizes={**case.sizes, n: k})  # type: ignore[misc]


def _other_programs(case: Case) -> Iterator[Change]:
    functions = {k: f for k, f in case.module().functions.items() if isinstance(f, PrimFunc)}
    for key, func in functions.items():
        if key != "main":
            others = {k: f for k, f in functions.items() if k != key}
            yield lambda others=others: IRModule(others)  # type: ignore[misc]
        for smaller in _smaller_functions(func):
            yield lambda key=key, smaller=smaller: IRModule({**functions, key: smaller()})  # type: ignore[misc]


def _smaller_functions(func: PrimFunc) -> Iterator[Callable[[], PrimFunc]]:
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if not uses_var(func.body, param if buffer is None else buffer.data):
            kept = {p: b for p, b in func.buffer_map.items() if p is not param}
            params = [p for p in func.params if p is not param]
            yield lambda params=params, kept=kept: func.with_(params=params, buffer_map=kept)  # type: ignore[misc]
    for node in {id(node): node for node in walk(func.body)}.values():
        for other in _smaller_nodes(node):

            def replaced(node: Node = node, other: Callable[[], Node] = other) -> PrimFunc:
                new = other()
                body = rewrite(func.body, {Node: lambda n: new if n is node else None})
                return func.with_(body=body)

            yield replaced
    allocated = [b for n in walk(func.body) if isinstance(n, s.Block) for b in n.alloc_buffers]
    for buffer in [*func.buffer_map.values(), *allocated]:
        for new in _smaller_buffers(buffer):
            yield lambda old=buffer, new=new: _with_buffer(func, old, new)  # type: ignore[misc]


def _smaller_buffers(buffer: Buffer) -> Iterator[Buffer]:
    for axis, extent in enumerate(buffer.shape):
        if isinstance(extent, e.IntImm) and extent.value > 1:
            for smaller in (1, extent.value // 2, extent.value - 1):
                shape = list(buffer.shape)
                shape[axis] = const(smaller, extent.dtype)
                yield buffer.with_(shape=tuple(shape))
    yield buffer.with_(strides=(), elem_offset=const(0, "int32"))


def _with_buffer(func: PrimFunc, old: Buffer, new: Buffer) -> PrimFunc:
    body = substitute_buffers(func.body, {old: new})
    mapping = {p: new if b is old else b for p, b in func.buffer_map.items()}
    return func.with_(body=body, buffer_map=mapping)


def _smaller_nodes(node: Node) -> Iterator[Callable[[], Node]]:
    """Return what a node may be replaced by: a part of it of the same kind, or a simpler one."""
    if isinstance(node, s.SeqStmt):
        size = len(node.seq)
        for run in sorted({size // 2, 1}, reverse=True):
            for start in range(0, size, run):
                rest = [*node.seq[:start], *node.seq[start + run :]]
                yield lambda rest=rest: (  # type: ignore[misc]
                    s.sequence(rest) if rest else s.Evaluate(const(0, "int32"))
                )
    elif isinstance(node, s.For):
        yield lambda: substitute(node.body, {node.loop_var: node.min})
        serial = (node.loop_var, node.min, node.extent, s.ForKind.SERIAL, node.body)
        if node.kind is not s.ForKind.SERIAL or node.annotations:
            yield lambda: s.For(*serial)
        if isinstance(node.extent, e.IntImm):
            for smaller in sorted({1, 2, node.extent.value // 2, node.extent.value - 1}):
                if 0 < smaller < node.extent.value:
                    extent = const(smaller, node.extent.dtype)
                    yield lambda extent=extent: s.For(  # type: ignore[misc]
                        node.loop_var, node.min, extent, node.kind, node.body
                    )
    elif isinstance(node, (s.LetStmt, e.Let)):
        yield lambda: substitute(node.body, {node.var: node.value})
    elif isinstance(node, s.BlockRealize):
        yield from _smaller_blocks(node)
    elif isinstance(node, s.Stmt) and not isinstance(node, s.Block):
        for inner in children(node):
            if isinstance(inner, s.Stmt):
                yield lambda inner=inner: inner  # type: ignore[misc]
        if isinstance(node, s.IfThenElse) and node.else_case is not None:
            yield lambda: s.IfThenElse(node.condition, node.then_case)
    elif isinstance(node, PrimExpr) and not isinstance(node, (Var, e.StringImm, e.IterVar)):
        yield from _smaller_expressions(node)


def _smaller_blocks(node: s.BlockRealize) -> Iterator[Callable[[], Node]]:
    block = node.block
    values = {a.var: v for a, v in zip(block.iter_vars, node.iter_values, strict=True)}
    if block.name_hint != "root" and not block.match_buffers and not block.alloc_buffers:
        yield lambda: substitute(block.body, values)
    yield lambda: s.BlockRealize(node.iter_values, True, block)
    allocated = [b for b in block.alloc_buffers if uses_var(block.body, b.data)]
    views = [m for m in block.match_buffers if uses_var(block.body, m.buffer.data)]
    for smaller in (
        block.with_(init=None),
        block.with_(annotations={}),
        block.with_(alloc_buffers=allocated),
        block.with_(match_buffers=views),
    ):
        yield lambda smaller=smaller: s.BlockRealize(node.iter_values, node.predicate, smaller)  # type: ignore[misc]


def _smaller_expressions(node: PrimExpr) -> Iterator[Callable[[], Node]]:
    is_number = node.dtype.is_integral or node.dtype.is_floating or node.dtype.is_bool
    is_simple = isinstance(node, (e.IntImm, e.FloatImm)) and node.value in (-1, 0, 1)
    if node.dtype.is_handle or node.dtype.lanes != 1 or is_simple:
        return
    for operand in () if isinstance(node, e.BufferLoad) else children(node):
        if isinstance(operand, PrimExpr) and operand.dtype == node.dtype:
            yield lambda operand=operand: operand  # type: ignore[misc]
    if is_number:
        yield lambda: const(1, node.dtype)
        yield lambda: const(0, node.dtype)
