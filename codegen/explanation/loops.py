"""Tracking each loop of a program through the passes and LLVM."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import Final, TypeAlias

from codegen.compile import Source
from codegen.emit.stmt import LEFT_TO_LLVM
from codegen.explanation.accesses import constant_extent
from codegen.explanation.facts import Fate, Loop
from codegen.lower.remarks import Remark, Remarks, done, missed
from tensorir.function import PrimFunc
from tensorir.indices.accesses import placed_statements
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import Var
from tensorir.rewriting.visit import statements

Stages: TypeAlias = Sequence[tuple[str, PrimFunc]]
"""The passes' names and the program after each."""
History: TypeAlias = Sequence[tuple[str, dict[Var, s.For]]]
"""The passes' names and the loops after each."""
_LOOP: Final = re.compile(r"!llvm\.loop (!\d+)")
_NODE: Final = re.compile(r"^(!\d+) = (?:distinct )?!\{(.*)\}$", re.MULTILINE)
_NAME: Final = re.compile(r'!"([^"]*)"')
_REFERENCE: Final = re.compile(r"!\d+")


def loops_of(
    name: str, func: PrimFunc, stages: Stages, remarks: Remarks, ordered: Container[Var]
) -> list[Loop]:
    """Return the facts about each loop of `func` after lowering, in program order.

    A loop is matched across the stages of lowering by its variable. Its form before the pass that
    removes it determines what
    it became; the remarks of passes and emission add details. `ordered` are the variables of loops
    that sum scalar floats in order.
    """
    history = [(step, _present(stage, remarks)) for step, stage in stages]
    return [
        _follow_loop(name, node, depth, blocks, history, remarks, ordered)
        for node, depth, blocks in _nest(func.body)
    ]


def _nest(body: s.Stmt) -> list[tuple[s.For, int, tuple[str, ...]]]:
    """Return the loops in program order, with depth and the blocks directly inside."""
    found: dict[s.For, tuple[int, list[str]]] = {}
    for node, around in placed_statements(body):
        loops = [outer for outer in around if isinstance(outer, s.For)]
        if isinstance(node, s.For):
            found[node] = len(loops), []
        elif isinstance(node, s.Block) and node.iter_vars and loops:
            found[loops[-1]][1].append(node.name_hint)
    return [(node, depth, tuple(blocks)) for node, (depth, blocks) in found.items()]


def _present(func: PrimFunc, remarks: Remarks) -> dict[Var, s.For]:
    """Return the remaining loops, by the variables of the program before lowering."""
    found: dict[Var, s.For] = {}
    for node in statements(func.body):
        if isinstance(node, s.For):
            found.setdefault(remarks.origin(node.loop_var), node)
    return found


def _follow_loop(
    function: str,
    node: s.For,
    depth: int,
    blocks: tuple[str, ...],
    history: History,
    remarks: Remarks,
    ordered: Container[Var],
) -> Loop:
    var = node.loop_var
    lanes, notes = _vectors(remarks.of_loop(var, "vectorize"))
    fate, by = _fate(node, history, lanes)
    if fate == "once":
        lanes, notes = (), []
    elif fate in ("serial", "parallel") or (fate == "unrolled" and var in history[-1][1]):
        fate, said = _fate_after_emission(fate, var, remarks, var in ordered)
        notes += said
    notes += [r.text for r in remarks.of_loop(var, "split_tails")]
    extent, mark = constant_extent(node), node.kind.name.lower()
    note = "; ".join(notes)
    return Loop(function, var.name, depth, extent, mark, blocks, fate, lanes, by, note)


def _fate(node: s.For, history: History, lanes: tuple[int, ...]) -> tuple[Fate, str]:
    """Return the fate of a loop, and the pass that decided it if the schedule did not."""
    var, last, changed, remover = node.loop_var, node, "", ""
    for step, present in history:
        now = present.get(var)
        if now is None:
            remover = step
            break
        if now.kind is not last.kind:
            changed = step
        last = now
        if lanes and now.kind is s.ForKind.VECTORIZED:
            break
    if constant_extent(node) == 1 or constant_extent(last) == 1:
        return "once", ""
    if lanes:
        return "vectors", changed
    if last.kind is s.ForKind.UNROLLED:
        return "unrolled", changed
    if remover:
        return "removed", remover
    return ("parallel" if last.kind is s.ForKind.PARALLEL else "serial"), ""


def _fate_after_emission(
    fate: Fate, var: Var, remarks: Remarks, is_ordered: bool
) -> tuple[Fate, list[str]]:
    """Return the fate of a loop that remains after lowering, and the notes of emission and LLVM."""
    emitted, in_llvm = remarks.of_loop(var, "emit"), remarks.of_loop(var, "llvm")
    notes = []
    if fate == "parallel":
        notes = [r.text for r in emitted if not r.is_done]
        if not notes:
            return fate, []
        fate = "serial"
    if is_ordered and not any(r.is_done for r in in_llvm):
        return fate, [*notes, "in order: float updates are not reassociated"]
    return fate, notes + [r.text for r in in_llvm or emitted if in_llvm or r.is_done]


def _vectors(remarks: Sequence[Remark]) -> tuple[tuple[int, ...], list[str]]:
    """Return the vectors of a loop, and the statements that did not become vectors."""
    whole = [r for r in remarks if not r.is_done and r.buffer is None]
    if whole:
        return (), [f"lane by lane: {r.text}" for r in whole]
    made = [r for r in remarks if r.is_done]
    scalar = [r for r in remarks if not r.is_done]
    notes = []
    if len({r.lanes for r in made}) > 1:
        notes += [f"{_name(r)} in {vectors_text(r.lanes)}" for r in made]
    for r in scalar:
        of = f"{_name(r)} " if made else ""
        notes.append(f"{of}lane by lane: {r.text}")
    return max((r.lanes for r in made), key=len, default=()), notes


def _name(remark: Remark) -> str:
    return "" if remark.buffer is None else remark.buffer.name


def vectors_text(lanes: tuple[int, ...]) -> str:
    """Return `(16, 16, 8)` as "2 vectors of 16, 1 of 8"."""
    parts: list[str] = []
    for width in sorted(set(lanes), reverse=True):
        count = lanes.count(width)
        noun = "" if parts else " vector" if count == 1 else " vectors"
        parts.append(f"{count}{noun} of {width}")
    return ", ".join(parts)


def remark_on_scalar_loops(source: Source, remarks: Remarks) -> None:
    """Add a remark on each loop that emission left to LLVM: whether LLVM vectorises it.

    Emission has named the loops in their `!llvm.loop` metadata. LLVM keeps these names as
    long as the loop exists, and adds `llvm.loop.isvectorized` if its vectoriser changed the loop. A
    name is lost if LLVM unrolls the loop completely.
    """
    if source.target.opt_level == 0:
        return
    units = [unit for unit in source.units if unit.has_scalar_loop]
    hints = [names for unit in units for names in _hints(unit.optimized())]
    for name, loop in remarks.names.items():
        if not any(r.text == LEFT_TO_LLVM for r in remarks.of_loop(loop, "emit")):
            continue
        of_loop = [others for others in hints if name in others]
        if any("llvm.loop.isvectorized" in others for others in of_loop):
            done("llvm", "LLVM vectorises it", loop)
        elif of_loop:
            missed("llvm", "LLVM leaves it scalar", loop)
        else:
            done("llvm", "LLVM unrolls it", loop)


def _hints(text: str) -> list[set[str]]:
    """Return the names in the metadata of each loop of a module."""
    nodes = dict(_NODE.findall(text))
    loops = []
    for node in _LOOP.findall(text):
        parts = [nodes.get(part, "") for part in _REFERENCE.findall(nodes.get(node, ""))]
        loops.append({name for part in parts for name in _NAME.findall(part)})
    return loops
