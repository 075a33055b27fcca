"""The number of operations of a task, by which its speed is given."""

from __future__ import annotations

from math import prod

from search.autotvm.errors import TemplateError
from search.measuring.flops import OperationCounter
from tensorir.function import IRModule
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import IntImm
from tensorir.rewriting.visit import walk


def compute_flop(mod: IRModule) -> float:
    """Return the number of operations of a program, scheduled or not.

    The iterations of each innermost block times the operations of what it stores: binary
    arithmetic, comparisons and logic count 1, casts, calls and loads only what is in them, a choice
    its condition and the dearer side, indices and initial values nothing. Iterations are those of
    the block, so that guards and tails of loops do not count.

    TemplateError where that gives nothing or extents are not constant: `cfg.add_flop` says it.
    """
    total = sum(_of(func.body, 1) for func in mod.prim_funcs().values())
    if total <= 0:
        raise TemplateError(
            "the program does no arithmetic that is counted; say how many operations it does with "
            "cfg.add_flop(n) in the template"
        )
    return total


def _of(stmt: s.Stmt, outside: int) -> float:
    """Return the operations of the blocks in a statement, for each of `outside` iterations."""
    blocks = _blocks(stmt)
    inner = {
        id(below)
        for block in blocks
        for part in (block.body, block.init)
        if part is not None
        for below in _blocks(part)
    }
    total = 0.0
    for block in blocks:
        if id(block) not in inner:
            iterations = outside * prod(_extent(axis) for axis in block.iter_vars)
            stored = OperationCounter(comparisons=True).stmt
            total += _of(block.body, iterations) or iterations * stored(block.body)
    return total


def _blocks(stmt: s.Stmt) -> list[s.Block]:
    return [node for node in walk(stmt) if isinstance(node, s.Block)]


def _extent(axis: e.IterVar) -> int:
    extent = None if axis.dom is None else axis.dom.extent
    if not isinstance(extent, IntImm):
        raise TemplateError(
            f"the extent of {axis.var.name} is not constant; say how many operations the program "
            "does with cfg.add_flop(n) in the template"
        )
    return extent.value
