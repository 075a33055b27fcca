"""The rules build the design spaces that are published, and the postprocessors finish them so.

Rules and postprocessors for CPUs that the reference does not have are left out, and longer
reductions inside of a tile than it has.
"""

from functools import cache
from typing import Any

import pytest

import search as ms
from schedule import Trace
from search.postproc import Postproc, RewriteParallelVectorizeUnroll, RewriteRegisterTile
from search.schedule_rule import (
    PackOperands,
    RFactorOverLanes,
    SampleRegisterTile,
    ScheduleRule,
    SeparateGroups,
    TileSpatial,
)
from search.search_strategy.trace_application import TraceApplication
from tensorir import assert_structural_equal, parse, simplify
from tensorir.function import IRModule, PrimFunc
from tests.recorded import recorded

TARGET = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=4"

GPU = "nvidia/nvidia-a100"


OURS = (PackOperands, RFactorOverLanes, SampleRegisterTile, SeparateGroups, TileSpatial)


def rows() -> list[Any]:
    return [
        pytest.param(target, row, id=f"{row['workload']}-{row['space']}{suffix}")
        for name, target, suffix in (("spaces", TARGET, ""), ("gpu_spaces", GPU, "-gpu"))
        for row in recorded(name)
        if row["ok"]
    ]


def module(text: str) -> IRModule:
    parsed = parse(text)
    return IRModule({"main": parsed}) if isinstance(parsed, PrimFunc) else parsed


def published_rules() -> list[ScheduleRule]:
    return [r for r in ScheduleRule.create("avx512", steps=64) if not isinstance(r, OURS)]


def published_postprocs() -> list[Postproc]:
    made = [p for p in Postproc.create("avx512") if not isinstance(p, RewriteRegisterTile)]
    return [
        RewriteParallelVectorizeUnroll(one_core=0)
        if isinstance(p, RewriteParallelVectorizeUnroll)
        else p
        for p in made
    ]


def context(mod: IRModule, target: str) -> ms.TuneContext:
    generator = ms.space_generator.PostOrderApply()
    if target == TARGET:
        generator = ms.space_generator.PostOrderApply(
            sch_rules=published_rules(), postprocs=published_postprocs()
        )
    task = ms.TuneContext(
        mod,
        target=target,
        space_generator=generator,
        search_strategy="replay-trace",
        rand_state=1,
    )
    task.mod = mod  # as it stands: without the attribute that a task gets
    return task


@cache
def spaces_of(program: str, target: str) -> tuple[ms.TuneContext, list[Any]]:
    """Return the task of a program, and the instructions of its design spaces."""
    task = context(module(program), target)
    return task, [s.trace.simplified(True).as_json()[0] for s in task.generate_design_space()]


@pytest.mark.parametrize(("target", "row"), rows())
def test_published_spaces_and_programs(target: str, row: Any) -> None:
    task, spaces = spaces_of(row["before"], target)
    trace = Trace.from_json(row["trace"])
    assert spaces.count(trace.simplified(True).as_json()[0]) == 1

    finished = TraceApplication(task).apply(trace)
    assert finished is not None
    assert finished.trace.as_json()[0] == row["trace"][0]
    assert_structural_equal(simplify(finished.mod), simplify(module(row["after"])))
