"""A scheduled program as data to draw: its lines, the parts of the program that each line shows,
and the cost and the memory of each part by the analytic model.

A part is a loop, a block or a buffer, with a key that all views share: `L3` is the loop number 3
in program order, `B1` the block number 1, `D:A` the buffer A.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from codegen.target import Target
from search.feature_extractor.machine import Machine
from search.feature_extractor.nest_columns import columns_of
from search.feature_extractor.nests import REGISTERS, Nest, nests
from search.feature_extractor.read_nests import accessed_buffers, read_nests
from search.reports.roofline import main_dtype
from search.runner.flops import estimate_tir_flops
from tensorir.function import IRModule, PrimFunc
from tensorir.indices.accesses import placed_statements
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import BufferLoad, IntImm, Var
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import Block, BlockRealize, BufferStore, For, ForKind, Stmt
from tensorir.rewriting.visit import walk
from tensorir.script import script_lines

Data: TypeAlias = dict[str, Any]
"""What JSON can hold."""

_KINDS: Final = {
    ForKind.SERIAL: "serial",
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorized",
    ForKind.UNROLLED: "unrolled",
    ForKind.THREAD_BINDING: "bound to a thread",
}
_LEVELS: Final = ("L1", "L2", "L3")


class Parts:
    """The loops, blocks and buffers of a function, and their keys."""

    def __init__(self, func: PrimFunc) -> None:
        self.loops: list[For] = []
        self.blocks: list[Block] = []
        self.buffers: dict[Var, Buffer] = {b.data: b for b in func.buffer_map.values()}
        self.around: dict[Stmt, tuple[Stmt, ...]] = {}
        for stmt, around in placed_statements(func.body):
            self.around[stmt] = around
            if isinstance(stmt, For):
                self.loops.append(stmt)
            elif isinstance(stmt, Block):
                self.blocks.append(stmt)
                self.buffers |= {b.data: b for b in stmt.alloc_buffers}
        self._keys: dict[Node, str] = {loop: f"L{k}" for k, loop in enumerate(self.loops)}
        self._keys |= {block: f"B{k}" for k, block in enumerate(self.blocks)}
        self.by_variable = {loop.loop_var: self._keys[loop] for loop in self.loops}
        self.by_data = {data: f"D:{buffer.name}" for data, buffer in self.buffers.items()}

    def key(self, node: Node) -> str | None:
        """Return the key of a loop or block, None for another statement."""
        return self._keys.get(node.block if isinstance(node, BlockRealize) else node)

    def above(self, stmt: Stmt) -> list[str]:
        """Return the keys of the loops and blocks around a statement, outermost first."""
        return [key for node in self.around.get(stmt, ()) if (key := self.key(node)) is not None]

    def touched(self, stmt: Stmt) -> list[str]:
        """Return the keys of the buffers that a store reads and writes, the written one first."""
        if not isinstance(stmt, BufferStore):
            return []
        loads = [part.buffer for part in walk(stmt) if isinstance(part, BufferLoad)]
        data = dict.fromkeys(b.data for b in (stmt.buffer, *loads))
        return [self.by_data[one] for one in data if one in self.by_data]


def program_view(func: PrimFunc, target: Target | None) -> Data:
    """Return the lines, the parts and the estimate of a function for a target, as data for JSON.

    Without a target nothing is estimated, which takes most of the time.

    `lines` has `[text, keys]` of each line, the keys of what begins in it first, then those of
    what is around it. `parts` has the facts of each part by its key: `label`, `facts` (a list of
    sentences), for blocks and loops `share`, the fraction of the estimated time, and for loops
    `bytes`, the memory that one execution touches. `cycles` is the estimated time in cycles of a
    core, and `peak` the fraction of the peak of arithmetic that this is. Estimates are None if the
    program cannot be estimated.
    """
    parts = Parts(func)
    lines = [[text, _keys_of_line(nodes, parts)] for text, nodes in script_lines(func)]
    costs = _Costs(func, parts, target)
    facts = {key: _loop_facts(loop, costs) for loop in parts.loops if (key := parts.key(loop))}
    facts |= {key: _block_facts(b, costs) for b in parts.blocks if (key := parts.key(b))}
    facts |= {key: _buffer_facts(parts.buffers[d]) for d, key in parts.by_data.items()}
    return {"lines": lines, "parts": facts, "cycles": costs.total, "peak": costs.peak(func)}


def _keys_of_line(nodes: Sequence[Node], parts: Parts) -> list[str]:
    own = [key for node in nodes if (key := parts.key(node)) is not None]
    stmts = [node for node in nodes if isinstance(node, Stmt)]
    touched = [key for stmt in stmts for key in parts.touched(stmt)]
    around = parts.above(stmts[0]) if stmts else []
    return list(dict.fromkeys([*own, *touched, *around]))


def _loop_facts(loop: For, costs: _Costs) -> Data:
    extent = f"{loop.extent} iterations"
    kind = f"bound to {loop.thread_tag}" if loop.thread_tag else _KINDS[loop.kind]
    found = [f"{extent}, {kind}", *costs.memory_of(loop)]
    return {
        "label": f"loop {loop.loop_var.name}",
        "facts": found,
        "share": costs.share_of(loop),
        "bytes": costs.bytes_of(loop),
    }


def _block_facts(block: Block, costs: _Costs) -> Data:
    kinds = {0: "data-parallel", 2: "reduction"}
    axes = [f"{a.var.name} ({kinds.get(a.iter_type, 'other')})" for a in block.iter_vars]
    found = [f"axes: {', '.join(axes)}"] if axes else []
    share = costs.share_of(block)
    return {"label": f"block {block.name_hint}", "facts": found, "share": share}


def _buffer_facts(buffer: Buffer) -> Data:
    scope = buffer.scope()
    shape = " x ".join(map(str, buffer.shape)) or "one element"
    return {
        "label": f"buffer {buffer.name}",
        "facts": [f"{shape} {buffer.dtype}, {scope} memory", *_size(buffer)],
    }


def _size(buffer: Buffer) -> Iterator[str]:
    extents = [n.value for n in buffer.shape if isinstance(n, IntImm)]
    if len(extents) == len(buffer.shape):
        yield _bytes(float(np.prod(extents, dtype=float)) * buffer.dtype.nbytes)


def _bytes(count: float) -> str:
    units = ["bytes", "KiB", "MiB", "GiB"]
    while count >= 1024 and len(units) > 1:
        count /= 1024
        del units[0]
    return f"{count:.3g} {units[0]}"


class _Costs:
    """The estimated cycles of each store, and the memory that each loop touches."""

    def __init__(self, func: PrimFunc, parts: Parts, target: Target | None) -> None:
        self.total: float | None = None
        self._cycles: dict[Node, float] = {}
        self._touched: dict[Node, dict[str, float]] = {}
        self._machine: Machine | None = None
        if target is None or target.gpu is not None:
            return
        mod = IRModule({"main": func})
        program, numbers = read_nests(mod)
        stores = [stmt for stmt in parts.around if isinstance(stmt, BufferStore)]
        if len(stores) != len(program.stores) or not stores:
            return
        rows = numbers[:, None].copy()
        rows[REGISTERS] = 0
        machine = Machine.of(target)
        self._machine = machine
        found = nests(program, rows)
        (columns,) = columns_of([found], machine)
        names = [buffer.name for buffer in accessed_buffers(mod)]
        for stmt, nest, column in zip(stores, found, columns, strict=True):
            for node in parts.around[stmt]:
                cycles = float(column.cycles[0])
                self._cycles[node] = self._cycles.get(node, 0.0) + cycles
            for place, number in enumerate(nest.store.loops):
                if number < len(parts.loops):
                    self._add_memory(parts.loops[number], nest, place, names)
        self.total = sum(float(column.cycles[0]) for column in columns)

    def _add_memory(self, loop: For, nest: Nest, place: int, names: Sequence[str]) -> None:
        """Add the bytes of each buffer that one execution of a loop touches."""
        touched = self._touched.setdefault(loop, {})
        reach = np.where(np.arange(len(nest.extents)) >= place, nest.extents[:, 0] - 1, 0)
        accesses = zip(nest.buffers, nest.steps, nest.shapes, nest.item_bytes, strict=True)
        for buffer, steps, shape, item in accesses:
            span = np.minimum(1 + (steps[:, :, 0] * reach).sum(1), shape[:, 0])
            known = touched.get(names[buffer], 0.0)
            touched[names[buffer]] = max(known, float(span.prod()) * item)

    def share_of(self, node: Node) -> float | None:
        """Return the fraction of the estimated time that is spent in a loop or block."""
        if not self.total:
            return None
        return round(self._cycles.get(node, 0.0) / self.total, 4)

    def peak(self, func: PrimFunc) -> float | None:
        """Return the fraction of the peak of arithmetic; None if there is none of a known type."""
        dtype, flop = main_dtype(func), estimate_tir_flops(func)
        if not self.total or self._machine is None or dtype is None or not flop:
            return None
        lanes = self._machine.vector_bits / DataType(dtype).bits
        per_cycle = 2 * lanes * self._machine.fma_units * self._machine.cores
        return round(flop / per_cycle / self.total, 4)

    def bytes_of(self, loop: For) -> float | None:
        """Return the bytes that one execution of a loop touches; None if they are unknown."""
        touched = self._touched.get(loop)
        return sum(touched.values()) if touched else None

    def memory_of(self, loop: For) -> Iterator[str]:
        """Yield a sentence on what one execution of a loop touches, and the cache that holds it."""
        whole = self.bytes_of(loop)
        if whole is None:
            return
        amounts = sorted(self._touched[loop].items(), key=lambda item: -item[1])
        caches = zip(_LEVELS, self._machine.caches, strict=True) if self._machine else ()
        fits = [name for name, size in caches if whole <= size]
        level = f"fits {fits[0]}" if fits else "larger than the caches"
        each = ", ".join(f"{name} {_bytes(size)}" for name, size in amounts)
        yield f"touches {_bytes(whole)} ({level}): {each}"
