"""The machine code of a function as data to draw, and what lowering made of each of its parts."""

from __future__ import annotations

from codegen.explanation.explain import explain
from codegen.explanation.facts import Access, Accumulator
from codegen.explanation.listing import AssemblyLine, assembly_listing
from codegen.explanation.loops import vectors_text
from codegen.target import Target
from search.explorer.program_view import Data, Parts
from search.feature_extractor.machine import Machine
from tensorir.function import PrimFunc
from tensorir.nodes.stmt import Block

MOST_LINES = 4000
"""The maximum number of lines of assembly that are kept."""


def machine_view(func: PrimFunc, target: Target) -> Data:
    """Return the assembly of a function, and facts about its loops and accesses, as data for JSON.

    `asm` has `[text, keys]` of each line, the key of the innermost part first; `facts` has a list
    of sentences by key, and `omitted` the number of lines beyond the limit. For a GPU, the lines
    are those of `codegen.explain`, without keys.
    Raises LoweringError or CodegenError for a function that `build` cannot compile.
    """
    if target.gpu is not None:
        text = str(explain({"main": func}, target))
        return {"asm": [[line, []] for line in text.splitlines()], "omitted": 0, "facts": {}}
    parts = Parts(func)
    lines = assembly_listing(func, target)
    asm = [[line.text, _keys(line, parts)] for line in lines[:MOST_LINES]]
    facts = _facts(func, parts, target)
    return {"asm": asm, "omitted": max(0, len(lines) - MOST_LINES), "facts": facts}


def _keys(line: AssemblyLine, parts: Parts) -> list[str]:
    loops = [parts.by_variable[var] for var in line.loops if var in parts.by_variable]
    block = _block_of(loops, line, parts)
    buffer = None if line.stored is None else parts.by_data.get(line.stored)
    return [key for key in (block, *loops[::-1], buffer) if key is not None]


def _block_of(loops: list[str], line: AssemblyLine, parts: Parts) -> str | None:
    """Return the key of the block that a line computes, None if that is unclear.

    It is the block that stores to the buffer of the line and is in most of its loops. Sums in
    registers have no buffer; then it is the only block in the innermost loop.
    """
    writers = [b for b in parts.blocks if any(r.buffer.data is line.stored for r in b.writes)]
    if not writers and loops:
        inside = [b for b in parts.blocks if loops[-1] in parts.above(b)]
        return parts.key(inside[0]) if len(inside) == 1 else None

    def common(block: Block) -> int:
        around = parts.above(block)
        return sum(1 if loop in around else -1 for loop in loops)

    return parts.key(max(writers, key=common)) if writers else None


def _facts(func: PrimFunc, parts: Parts, target: Target) -> dict[str, list[str]]:
    found = explain({"main": func}, target)
    machine = Machine.of(target)
    facts: dict[str, list[str]] = {}
    if len(found.loops) == len(parts.loops):
        for loop, fact in zip(parts.loops, found.loops, strict=True):
            text = vectors_text(fact.lanes) if fact.becomes == "vectors" else _FATES[fact.becomes]
            note = f": {fact.note}" if fact.note else ""
            facts[parts.by_variable[loop.loop_var]] = [f"in machine code: {text}{note}"]
    for access in found.accesses:
        if not access.in_register:
            facts.setdefault(f"D:{access.buffer}", []).append(_access_text(access))
    for sums in found.accumulators:
        text = _sums_text(sums, machine.updates_in_flight)
        facts.setdefault(f"D:{sums.buffer}", []).append(text)
    return facts


def _access_text(access: Access) -> str:
    pattern = f" ({access.pattern})" if access.lanes > 1 else ""
    text = f"{access.kind} for {access.statement}: {_count(access.times, access.lanes)}{pattern}"
    if not access.loop:
        return f"{text} in all"
    known = {None: "moves by varying distances", 0: "does not move", 1: "moves by 1 element"}
    how = known.get(access.step, f"moves by {access.step} elements")  # type: ignore[arg-type]
    return f"{text} in each iteration of {access.loop}, {how}"


def _count(number: int, lanes: int) -> str:
    several = "s" if number > 1 else ""
    return f"{number} element{several}" if lanes == 1 else f"{number} vector{several} of {lanes}"


def _sums_text(sums: Accumulator, needed: int) -> str:
    """Return a sentence about sums; `needed` are those that hide the latency of an update."""
    during = f" while {sums.loop} runs" if sums.loop else ""
    reason = f": {sums.note}" if sums.note else ""
    waits = f" ({needed} would hide the latency of an update)" if sums.count < needed else ""
    return f"sums in {sums.home}{during}, {_count(sums.count, sums.lanes)}{waits}{reason}"


_FATES = {
    "serial": "a loop",
    "parallel": "spread over threads",
    "unrolled": "unrolled",
    "once": "no loop, it runs once",
    "removed": "nothing",
}
