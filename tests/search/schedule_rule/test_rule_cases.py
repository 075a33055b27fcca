"""Schedule rules and postprocessors: a program, a call, and the designs that the call returns.

The cases are in the text files of `cases/`. A program is written out, or it is one of `PROGRAMS`
with replacements, a line `old => new` for each. The call is a rule `on` a block, or a
postprocessor, or several with `;`, with a target after `@` if it is not `CORES`. The result is an outline of each design
(`same` for the unchanged program): a line for each changed block with the loops around it and the
value that it stores. Loops are marked: `~` vectorized, `*` unrolled, `=` parallel, `@` bound to a
thread axis. Every design computes what the program does, and its trace replays.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import search as ms
import search.postproc
import search.schedule_rule
from codegen import Target
from schedule import Schedule
from search.schedule_rule import (
    AutoInline,
    MultiLevelTiling,
    MultiLevelTilingTensorCore,
    ReuseType,
    ScheduleRule,
)
from search.schedule_rule.axis_splits import SkipNeutralTerms
from tensorir import assert_structural_equal, structural_equal
from tensorir.function import PrimFunc
from tensorir.nodes.stmt import BufferStore, ForKind
from tests.search.schedule_rule.programs import Reference, program
from tests.text_cases import TextCase, each_case

CORES = "llvm -num-cores=4"
TARGETS = {
    "one core": "llvm -num-cores=1",
    "sse": "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64 -num-cores=1",
    "avx2": "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -num-cores=1",
    "avx2, 4 cores": "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -num-cores=4",
    "avx512": "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=1",
    "cuda": "cuda",
    "opencl": "opencl",
    "small gpu": "opencl -max_threads_per_block=8 -max_shared_memory_per_block=512",
    "vnni": "llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake -num-cores=4",
}
MARKS = {ForKind.VECTORIZED: "~", ForKind.UNROLLED: "*", ForKind.PARALLEL: "="}
WRITE_CACHE = ReuseType("may", (1, 2), "global")


def tiling(**options: Any) -> MultiLevelTiling:
    return MultiLevelTiling("SSRSRS", max_innermost_factor=64, **options)


def inlining(**changes: Any) -> AutoInline:
    options: dict[str, Any] = {
        "into_producer": False,
        "into_consumer": True,
        "inline_const_tensor": True,
        "disallow_if_then_else": True,
        "require_injective": True,
        "require_ordered": True,
        "disallow_op": ["tir.exp"],
    }
    return AutoInline(**{**options, **changes})


def gpu_tiling() -> MultiLevelTiling:
    (rule,) = [r for r in ScheduleRule.create("cuda") if isinstance(r, MultiLevelTiling)]
    return rule


def tensor_core_tiling(use_software_pipeline: bool = False) -> MultiLevelTilingTensorCore:
    rules = ScheduleRule.create("cuda-tensorcore")
    (rule,) = [r for r in rules if isinstance(r, MultiLevelTilingTensorCore)]
    rule.use_software_pipeline = use_software_pipeline
    return rule


def first_of(rule: ScheduleRule) -> ScheduleRule:
    """Return a rule with its first design only."""
    apply = rule.apply
    rule.apply = lambda sch, block: apply(sch, block)[:1]  # type: ignore[method-assign]
    return rule


NAMES = {
    **{name: getattr(search.schedule_rule, name) for name in search.schedule_rule.__all__},
    **{name: getattr(search.postproc, name) for name in search.postproc.__all__},
    "SkipNeutralTerms": SkipNeutralTerms,
    "tiling": tiling,
    "gpu_tiling": gpu_tiling,
    "tensor_core_tiling": tensor_core_tiling,
    "first_of": first_of,
    "inlining": inlining,
    "WRITE_CACHE": WRITE_CACHE,
    "AT_LEVEL_4": ReuseType("must", (4,), "global"),
}


def designs(func: PrimFunc, call: str) -> list[Schedule]:
    """Apply a rule or postprocessors; postprocessors get the last design of a rule before them."""
    calls, _, target = call.partition(" @ ")
    made = [Schedule(func, seed=1, debug_mask="all")]
    with Target(TARGETS.get(target, CORES)) as chosen:
        for one in calls.split("; "):
            text, _, block = one.partition(" on ")
            part = eval(text, NAMES)
            part._initialize_with_tune_context(ms.TuneContext(func, target=chosen, rand_state=1))
            if block:
                made = list(part.apply(made[-1], made[-1].get_block(block)))
            else:
                made = made[-1:]
                assert part.apply(made[-1])
    return made


def outline(sch: Schedule) -> Iterator[str]:
    """Yield a line for each block with a body that stores, then one for each annotated block."""
    for sref in list(sch.state.blocks("main")):
        node = sref.block
        handle = sch.get_block(node.name_hint, "main")
        loops = [sch.get(loop) for loop in sch.get_loops(handle)]
        words = [
            f"{x.loop_var.name}:{x.extent}{MARKS.get(x.kind, '')}{x.thread_tag and '@'}"
            f"{x.thread_tag}"
            for x in loops
        ]
        found = dict(node.annotations)
        for x in loops:
            found.update(x.annotations)
        marks = "".join(f" {k.removeprefix('meta_schedule.')}={v}" for k, v in found.items())
        stored = str(node.body).splitlines()[-1] if isinstance(node.body, BufferStore) else ""
        if stored or marks:
            yield " ".join([f"{node.name_hint}:", *words, *(["|", stored] if stored else [])]) + (
                f" {{{marks.strip()}}}" if marks else ""
            )


@cache
def read(text: str) -> tuple[PrimFunc, Reference]:
    func = program(text)
    return func, Reference(func)


@each_case(Path(__file__).parent / "cases")
def test_case(case: TextCase, pytestconfig: pytest.Config) -> None:
    func, reference = read(case.before)
    made = designs(func, case.call)
    lines: list[str] = []
    for k, sch in enumerate(made):
        if structural_equal(sch.mod["main"], func):
            lines.append(f"{k}: same")
            continue
        unchanged = set(outline(Schedule(func)))
        lines += [f"{k}:", *(f"  {line}" for line in outline(sch) if line not in unchanged)]
        reference.check(sch.mod)
        again = Schedule(func)
        sch.trace.apply_to_schedule(again, remove_postproc=False)
        assert_structural_equal(again.mod, sch.mod)
    case.check("\n".join(lines), pytestconfig)
