"""Smaller programs than one that fails: leave out statements, loops, operands, functions, sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from benchmarks.lowering_cases import Case
from tensorir import IRModule, PrimFunc
from tensorir.errors import TensorIRError
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import const
from tensorir.rewriting.visit import rewrite, substitute, substitute_buffers, uses_var, walk

Fails = Callable[[Case], bool]
"""Says whether a case fails in the way that is looked for."""


def shrunk(case: Case, fails: Fails, attempts: int = 600, seconds: float = 60.0) -> Case:
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


Change = Callable[[], "Case | IRModule"]


def _read_again(case: Case, change: Change) -> Case | None:
    """Return the case that a change leads to, None if it is no program or the same one."""
    try:
        changed = change()
        if isinstance(changed, IRModule):
            only = len(changed.functions) == 1
            text = (changed["main"] if only else changed).script()
            changed = replace(case, text=without_regions(text))
            changed.module()
    except (TensorIRError, ValueError, TypeError, KeyError, ArithmeticError):
        return None
    return None if changed == case else changed


def without_regions(text: str) -> str:
    """Return a script without the regions that it states: reading it finds them anew."""
    lines = text.splitlines()
    kept = [
        line
        for line in lines
        if not line.lstrip().startswith(("T.reads(", "T.writes(", "from tensorir import"))
    ]
    return "\n".join(kept).strip() + "\n"


def _other_sizes(case: Case) -> Iterator[Change]:
    for name, size in case.sizes.items():
        for smaller in sorted({0, 1, 2, size // 2, size - 1} & set(range(size))):
            yield lambda n=name, k=smaller: replace(case, sizes={**case.sizes, n: k})  # type: ignore[misc]


def _other_programs(case: Case) -> Iterator[Change]:
    module = case.module()
    functions = {k: f for k, f in module.functions.items() if isinstance(f, PrimFunc)}
    for key, func in functions.items():
        if key != "main":
            others = {k: f for k, f in functions.items() if k != key}
            yield lambda others=others: IRModule(others)  # type: ignore[misc]
        for smaller in _smaller_functions(func):

            def change(key: str = key, smaller: Callable[[], PrimFunc] = smaller) -> IRModule:
                return IRModule({**functions, key: smaller()})

            yield change


def _smaller_functions(func: PrimFunc) -> Iterator[Callable[[], PrimFunc]]:
    for param in func.params:
        if not _is_used(func, param):
            yield lambda param=param: _without(func, param)  # type: ignore[misc]
    for node in _distinct(func.body):
        for other in _replacements(node):

            def replaced(node: Node = node, other: Callable[[], Node] = other) -> PrimFunc:
                new = other()
                body = rewrite(func.body, {Node: lambda n: new if n is node else None})
                return func.with_(body=body)

            yield replaced
    for buffer in _buffers(func):
        for axis, extent in enumerate(buffer.shape):
            if isinstance(extent, e.IntImm) and extent.value > 1:
                for smaller in {1, extent.value // 2, extent.value - 1}:
                    yield lambda b=buffer, k=axis, n=smaller: _resized(func, b, k, n)  # type: ignore[misc]
        if buffer.strides or not (
            isinstance(buffer.elem_offset, e.IntImm) and buffer.elem_offset.value == 0
        ):
            plain = buffer.with_(strides=(), elem_offset=const(0, "int32"))
            yield lambda b=buffer, plain=plain: _with_buffer(func, b, plain)  # type: ignore[misc]


def _is_used(func: PrimFunc, param: Var) -> bool:
    buffer = func.buffer_map.get(param)
    return uses_var(func.body, param if buffer is None else buffer.data)


def _without(func: PrimFunc, param: Var) -> PrimFunc:
    kept = [p for p in func.params if p is not param]
    return func.with_(
        params=kept, buffer_map={p: b for p, b in func.buffer_map.items() if p in kept}
    )


def _buffers(func: PrimFunc) -> list[Buffer]:
    allocated = [b for n in walk(func.body) if isinstance(n, s.Block) for b in n.alloc_buffers]
    return [*func.buffer_map.values(), *allocated]


def _resized(func: PrimFunc, buffer: Buffer, axis: int, extent: int) -> PrimFunc:
    shape = list(buffer.shape)
    shape[axis] = const(extent, shape[axis].dtype)
    return _with_buffer(func, buffer, buffer.with_(shape=tuple(shape)))


def _with_buffer(func: PrimFunc, old: Buffer, new: Buffer) -> PrimFunc:
    body = substitute_buffers(func.body, {old: new})
    mapping = {p: new if b is old else b for p, b in func.buffer_map.items()}
    return func.with_(body=body, buffer_map=mapping)


def _distinct(body: Node) -> list[Node]:
    """Return the nodes of a program from the outside inwards, each object once."""
    return list({id(node): node for node in walk(body)}.values())


def _replacements(node: Node) -> Iterator[Callable[[], Node]]:
    if isinstance(node, s.Stmt):
        yield from _smaller_statements(node)
    elif isinstance(node, PrimExpr) and not isinstance(node, (Var, e.StringImm, e.IterVar)):
        yield from _smaller_expressions(node)


def _smaller_statements(node: s.Stmt) -> Iterator[Callable[[], Node]]:
    nothing = s.Evaluate(const(0, "int32"))
    if isinstance(node, s.SeqStmt):
        size = len(node.seq)
        for run in sorted({size // 2, 1} - {0}, reverse=True):
            for start in range(0, size, run):
                rest = [*node.seq[:start], *node.seq[start + run :]]
                yield lambda rest=rest: s.sequence(rest) if rest else nothing  # type: ignore[misc]
    elif isinstance(node, s.For):
        yield lambda: substitute(node.body, {node.loop_var: node.min})
        if node.kind is not s.ForKind.SERIAL or node.annotations:
            yield lambda: s.For(node.loop_var, node.min, node.extent, s.ForKind.SERIAL, node.body)
        if isinstance(node.extent, e.IntImm):
            for smaller in sorted({1, 2, node.extent.value // 2, node.extent.value - 1}):
                if 0 < smaller < node.extent.value:
                    extent = const(smaller, node.extent.dtype)
                    yield lambda extent=extent: s.For(  # type: ignore[misc]
                        node.loop_var, node.min, extent, node.kind, node.body
                    )
    elif isinstance(node, s.IfThenElse):
        yield lambda: node.then_case
        if node.else_case is not None:
            other = node.else_case
            yield lambda: other
            yield lambda: s.IfThenElse(node.condition, node.then_case)
    elif isinstance(node, s.While):
        yield lambda: node.body
    elif isinstance(node, s.LetStmt):
        yield lambda: substitute(node.body, {node.var: node.value})
    elif isinstance(node, s.AssertStmt):
        yield lambda: node.body
    elif isinstance(node, s.BlockRealize):
        yield from _smaller_blocks(node)


def _smaller_blocks(node: s.BlockRealize) -> Iterator[Callable[[], Node]]:
    block = node.block
    if block.name_hint != "root" and not block.match_buffers:
        values = {a.var: v for a, v in zip(block.iter_vars, node.iter_values, strict=True)}
        if not block.alloc_buffers:
            yield lambda: substitute(block.body, values)
    if not (isinstance(node.predicate, e.IntImm) and node.predicate.value):
        yield lambda: s.BlockRealize(node.iter_values, True, block)
    if block.init is not None:
        yield lambda: s.BlockRealize(node.iter_values, node.predicate, block.with_(init=None))
    if block.annotations:
        yield lambda: s.BlockRealize(node.iter_values, node.predicate, block.with_(annotations={}))
    for buffer in block.alloc_buffers:
        if not uses_var(block.body, buffer.data):
            kept = [b for b in block.alloc_buffers if b is not buffer]
            smaller = block.with_(alloc_buffers=kept)
            yield lambda smaller=smaller: s.BlockRealize(node.iter_values, node.predicate, smaller)  # type: ignore[misc]
    for buffer in block.match_buffers:
        kept_views = [m for m in block.match_buffers if m is not buffer]
        if not uses_var(block.body, buffer.buffer.data):
            smaller = block.with_(match_buffers=kept_views)
            yield lambda smaller=smaller: s.BlockRealize(node.iter_values, node.predicate, smaller)  # type: ignore[misc]


def _smaller_expressions(node: PrimExpr) -> Iterator[Callable[[], Node]]:
    if node.dtype.is_handle or node.dtype.lanes != 1:
        return
    if isinstance(node, e.IntImm) and abs(node.value) <= 1:
        return
    if isinstance(node, e.FloatImm) and node.value in (0.0, 1.0):
        return
    for operand in _operands(node):
        if operand.dtype == node.dtype:
            yield lambda operand=operand: operand  # type: ignore[misc]
    if node.dtype.is_integral or node.dtype.is_floating or node.dtype.is_bool:
        yield lambda: const(1, node.dtype)
        yield lambda: const(0, node.dtype)


def _operands(node: PrimExpr) -> list[PrimExpr]:
    if isinstance(node, e.BufferLoad):
        return []
    if isinstance(node, e.Let):
        return [substitute(node.body, {node.var: node.value})]
    if isinstance(node, e.Call):
        return [a for a in node.args if isinstance(a, PrimExpr)]
    if isinstance(node, (e.BinaryOp, e.CmpOp, e.And, e.Or)):
        return [node.a, node.b]
    if isinstance(node, e.Not):
        return [node.a]
    if isinstance(node, e.Select):
        return [node.condition, node.true_value, node.false_value]
    if isinstance(node, e.Cast):
        return [node.value]
    return []
