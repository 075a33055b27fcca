"""Time every schedule primitive, and the replay of recorded traces: `make bench-primitives`.

Times are processor time, and calls are interleaved over the primitives, since others use the
machine. Each call works on a copy of a schedule; making that and finding handles is not timed.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from schedule import BlockRV, InstructionKind, LoopRV, Schedule, ScheduleError, Trace
from tensorir import IRModule, T, parse, workloads
from tensorir.function import PrimFunc
from tests.recorded import RECORDED, recorded

ROOT = Path(__file__).parents[1]
BUDGET_US = 1500.0
LOOP_BUDGET_US = 200.0
LOOP_KINDS = {"Split", "Fuse", "Reorder", "Parallel", "Vectorize", "Unroll", "Bind"}
ANALYSIS = (f"{ROOT}/schedule/analysis/", f"{ROOT}/tensorir/arith/")


# ----------------------------------------------------------------------------------- the programs


@T.prim_func
def convolution(
    A: T.Buffer((1, 56, 56, 64), "float32"),
    W: T.Buffer((3, 3, 64, 64), "float32"),
    bias: T.Buffer((64,), "float32"),
    R: T.Buffer((1, 56, 56, 64), "float32"),
):
    P = T.alloc_buffer((1, 58, 58, 64))
    C = T.alloc_buffer((1, 56, 56, 64))
    B = T.alloc_buffer((1, 56, 56, 64))
    for n, h, w, c in T.grid(1, 58, 58, 64):
        with T.block("pad"):
            vn, vh, vw, vc = T.axis.remap("SSSS", [n, h, w, c])
            P[vn, vh, vw, vc] = T.if_then_else(
                vh >= 1 and vh < 57 and vw >= 1 and vw < 57,
                A[vn, vh - 1, vw - 1, vc],
                T.float32(0),
            )
    for n, h, w, co, rh, rw, rc in T.grid(1, 56, 56, 64, 3, 3, 64):
        with T.block("conv"):
            vn, vh, vw, vco, vrh, vrw, vrc = T.axis.remap("SSSSRRR", [n, h, w, co, rh, rw, rc])
            with T.init():
                C[vn, vh, vw, vco] = T.float32(0)
            C[vn, vh, vw, vco] += P[vn, vh + vrh, vw + vrw, vrc] * W[vrh, vrw, vrc, vco]
    for n, h, w, co in T.grid(1, 56, 56, 64):
        with T.block("bias"):
            vn, vh, vw, vco = T.axis.remap("SSSS", [n, h, w, co])
            B[vn, vh, vw, vco] = C[vn, vh, vw, vco] + bias[vco]
    for n, h, w, co in T.grid(1, 56, 56, 64):
        with T.block("relu"):
            vn, vh, vw, vco = T.axis.remap("SSSS", [n, h, w, co])
            R[vn, vh, vw, vco] = T.max(B[vn, vh, vw, vco], T.float32(0))


@T.prim_func
def matmul(
    A: T.Buffer((127, 125), "float32"),
    B: T.Buffer((125, 128), "float32"),
    R: T.Buffer((127, 128), "float32"),
):
    A2 = T.alloc_buffer((127, 125))
    C = T.alloc_buffer((127, 128))
    for i, k in T.grid(127, 125):
        with T.block("twice"):
            vi, vk = T.axis.remap("SS", [i, k])
            A2[vi, vk] = A[vi, vk] * T.float32(2)
    for i, j, k in T.grid(127, 128, 125):
        with T.block("matmul"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += A2[vi, vk] * B[vk, vj]
    for i, j in T.grid(127, 128):
        with T.block("scale"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = C[vi, vj] * T.float32(0.5)
    for i, j in T.grid(127, 128):
        with T.block("relu"):
            vi, vj = T.axis.remap("SS", [i, j])
            R[vi, vj] = T.max(C[vi, vj], T.float32(0))


@T.prim_func
def dot_products(
    A: T.Buffer((128, 256), "uint8"),
    W: T.Buffer((128, 256), "int8"),
    R: T.Buffer((128, 128), "int32"),
):
    C = T.alloc_buffer((128, 128), "int32")
    for i, j, k in T.grid(128, 128, 256):
        with T.block("dot"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += T.cast(A[vi, vk], "int32") * T.cast(W[vj, vk], "int32")
    for i, j in T.grid(128, 128):
        with T.block("relu"):
            vi, vj = T.axis.remap("SS", [i, j])
            R[vi, vj] = T.max(C[vi, vj], 0)


transposed = workloads.create("T2D", 0)


# -------------------------------------------------------------------------------------- the calls


class Site:
    """A schedule of its own for one call, and short names for its handles."""

    def __init__(self, sch: Schedule) -> None:
        self.sch = sch

    def block(self, name: str) -> BlockRV:
        return self.sch.get_block(name)

    def loops(self, name: str) -> list[LoopRV]:
        return self.sch.get_loops(self.block(name))

    def loop(self, name: str, position: int) -> LoopRV:
        return self.loops(name)[position]


@dataclass
class Case:
    """A program and the arguments of a call; what they need is done when they are asked for."""

    program: PrimFunc
    arguments: Callable[[Site], Sequence[Any]]
    name: str = ""
    """What tells it from another call of the same primitive."""


def _marked(site: Site) -> Sequence[Any]:
    site.sch.annotate(site.block("conv"), "note", 1)
    return site.block("conv"), "note"


def _pad_below_rows(site: Site) -> Sequence[Any]:
    site.sch.compute_at(site.block("pad"), site.loop("conv", 1))
    return site.block("pad"), 0


def _dot_tile(site: Site) -> Sequence[Any]:
    sch, block = site.sch, site.block("dot")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 16])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i, j0, k0, j1, k1)
    sch.decompose_reduction(block, k0)
    return j1, "dot_16x4_portable"


CASES: dict[str, list[Case]] = {
    "AddUnitLoop": [Case(convolution, lambda s: [s.block("conv")])],
    "Annotate": [Case(convolution, lambda s: [s.block("conv"), "note", 1])],
    "AnnotateBufferAccess": [
        Case(
            convolution,
            lambda s: [s.block("pad"), 0, "read", lambda n, h, w, c: (n, h - 1, w - 1, c)],
        )
    ],
    "Bind": [Case(convolution, lambda s: [s.loop("conv", 1), "threadIdx.x"])],
    "Blockize": [Case(convolution, lambda s: [s.loop("conv", 4)])],
    "CacheIndex": [Case(convolution, lambda s: [s.block("conv"), "global"])],
    "CacheInplace": [Case(matmul, lambda s: [s.block("scale"), 0, "global"])],
    "CacheRead": [Case(convolution, lambda s: [s.block("conv"), 0, "global"])],
    "CacheWrite": [Case(convolution, lambda s: [s.block("conv"), 0, "global"])],
    "ComputeAt": [Case(convolution, lambda s: [s.block("pad"), s.loop("conv", 2)])],
    "ComputeInline": [Case(convolution, lambda s: [s.block("pad")])],
    "DecomposePadding": [Case(convolution, lambda s: [s.block("pad"), s.loop("pad", 1)])],
    "DecomposeReduction": [Case(convolution, lambda s: [s.block("conv"), s.loop("conv", 4)])],
    "EnterPostproc": [Case(convolution, lambda s: [])],
    "Fuse": [Case(convolution, lambda s: s.loops("conv")[:4])],
    "GetBlock": [Case(convolution, lambda s: ["relu"])],
    "GetChildBlocks": [Case(convolution, lambda s: [s.block("root")])],
    "GetConsumers": [Case(convolution, lambda s: [s.block("conv")])],
    "GetLoops": [Case(convolution, lambda s: [s.block("conv")])],
    "GetOutputBlocks": [Case(convolution, lambda s: [s.block("root")])],
    "GetProducers": [Case(convolution, lambda s: [s.block("conv")])],
    "LoopPartition": [Case(convolution, lambda s: [s.loop("relu", 1), [16, None]])],
    "MarkLoops": [Case(convolution, lambda s: [s.loops("conv")[2:4], [2, 1], 64])],
    "Merge": [Case(matmul, lambda s: [s.loop("scale", 1), s.loop("relu", 1)])],
    "OffsetFactor": [Case(dot_products, lambda s: [s.block("dot"), 0, "int8"])],
    "PadEinsum": [Case(matmul, lambda s: [s.block("matmul"), [16, 16, 16]])],
    "Parallel": [Case(convolution, lambda s: [s.loop("conv", 1)])],
    "RFactor": [Case(convolution, lambda s: [s.loop("conv", 6), 0])],
    "ReIndex": [Case(convolution, lambda s: [s.block("conv"), ("read", 0)])],
    "ReadAt": [Case(matmul, lambda s: [s.loop("matmul", 0), s.block("matmul"), 0, "global"])],
    "ReindexCacheRead": [
        Case(
            convolution,
            lambda s: [
                s.block("bias"),
                0,
                "global",
                lambda n, h, w, c: (n, h, w, c // 16, c % 16),
            ],
        )
    ],
    "ReindexCacheWrite": [
        Case(
            convolution,
            lambda s: [
                s.block("conv"),
                0,
                "global",
                lambda n, h, w, co, rh, rw, rc: (n, co // 16, h, w, co % 16),
            ],
        )
    ],
    "Reorder": [
        Case(convolution, lambda s: [s.loops("conv")[k] for k in (1, 4, 2, 5, 6, 3)]),
    ],
    "ReorderBy": [
        Case(convolution, lambda s: [s.loops("conv")[1:4], [2, 0, 1]]),
    ],
    "ReorderBlockIterVar": [Case(convolution, lambda s: [s.block("conv"), [0, 3, 1, 2, 6, 4, 5]])],
    "ReverseComputeAt": [Case(convolution, lambda s: [s.block("bias"), s.loop("conv", 2)])],
    "ReverseComputeInline": [Case(convolution, lambda s: [s.block("relu")])],
    "RollingBuffer": [Case(convolution, _pad_below_rows)],
    "SampleCategorical": [Case(convolution, lambda s: [[1, 2, 4], [0.25, 0.25, 0.5]])],
    "SampleComputeLocation": [Case(convolution, lambda s: [s.block("pad")])],
    "SampleKnobAnnotate": [Case(convolution, lambda s: ["ann", 3, "try_unroll_vec"])],
    "SampleKnobOption": [Case(convolution, lambda s: ["unroll", [0, 16, 64]])],
    "SampleKnobReorder": [Case(convolution, lambda s: ["order", 5])],
    "SampleKnobSplit": [Case(convolution, lambda s: ["tile", 224, 3])],
    "SamplePartitionedTile": [Case(convolution, lambda s: [s.loop("conv", 1), 4, 2, 2])],
    "SamplePerfectTile": [Case(convolution, lambda s: [s.loop("conv", 1), 4, 64])],
    "SetAxisSeparator": [Case(convolution, lambda s: [s.block("conv"), ("write", 0), [2]])],
    "SetScope": [Case(convolution, lambda s: [s.block("conv"), 0, "shared"])],
    "SkipNeutralTerms": [Case(transposed, lambda s: [s.loop("conv2d_transpose_nhwc", 4)])],
    "Split": [
        Case(convolution, lambda s: [s.loop("conv", 1), [None, 8]]),
        Case(convolution, lambda s: [s.loop("conv", 1), [None, 16]], "with a remainder"),
    ],
    "StorageAlign": [Case(convolution, lambda s: [s.block("conv"), 0, 2, 16, 4])],
    "Tensorize": [Case(dot_products, _dot_tile)],
    "TransformBlockLayout": [
        Case(convolution, lambda s: [s.block("relu"), lambda n, h, w, c: (n, h, w * 64 + c)])
    ],
    "TransformLayout": [
        Case(
            convolution,
            lambda s: [
                s.block("conv"),
                ("write", 0),
                lambda n, h, w, c: (n, c // 16, h, w, c % 16),
            ],
        )
    ],
    "Unannotate": [Case(convolution, _marked)],
    "Unroll": [Case(convolution, lambda s: [s.loop("conv", 5)])],
    "UnsafeHideBufferAccess": [Case(convolution, lambda s: [s.block("conv"), "read", [1]])],
    "UnsafeSetDType": [Case(convolution, lambda s: [s.block("conv"), 0, "float16"])],
    "Vectorize": [Case(convolution, lambda s: [s.loop("conv", 3)])],
    "WriteAt": [Case(matmul, lambda s: [s.loop("matmul", 0), s.block("matmul"), 0, "global"])],
}


# -------------------------------------------------------------------------------- timing primitives


@dataclass
class Timed:
    """The times of a call in microseconds."""

    kind: InstructionKind
    case: Case
    times: list[float] = field(default_factory=list)
    analysis: float = 0.0
    """The share of the time that checks and integer analysis take, from a profile."""

    @property
    def name(self) -> str:
        return f"{self.kind.method}, {self.case.name}" if self.case.name else self.kind.method

    @property
    def budget(self) -> float:
        return LOOP_BUDGET_US if self.kind.name in LOOP_KINDS else BUDGET_US

    @property
    def median(self) -> float:
        return statistics.median(self.times)


def time_primitives(repeats: int = 30, names: Sequence[str] = ()) -> list[Timed]:
    """Time every registered primitive, or those whose methods are named.

    Raises SystemExit if a primitive has no case here.
    """
    kinds = [kind for kind in InstructionKind.all() if not names or kind.method in names]
    missing = [kind.name for kind in kinds if kind.name not in CASES]
    if missing:
        raise SystemExit(f"no case in {Path(__file__).name} for {', '.join(missing)}")
    rows = [Timed(kind, case) for kind in kinds for case in CASES[kind.name]]
    originals: dict[int, Schedule] = {}
    for row in rows:
        program = row.case.program
        originals.setdefault(id(program), Schedule(program, seed=1))

    def prepared(row: Timed) -> tuple[Callable[..., Any], Sequence[Any]]:
        sch = originals[id(row.case.program)].copy()
        arguments = row.case.arguments(Site(sch))
        sch.seed(42)
        return getattr(sch, row.kind.method), arguments

    for row in rows:
        call, arguments = prepared(row)
        call(*arguments)
        row.analysis = analysis_share([prepared(row) for _ in range(3)])
    gc.disable()
    for _ in range(repeats):
        gc.collect()
        for row in rows:
            call, arguments = prepared(row)
            start = time.thread_time()
            call(*arguments)
            row.times.append((time.thread_time() - start) * 1e6)
    gc.enable()
    return rows


def analysis_share(calls: Sequence[tuple[Callable[..., Any], Sequence[Any]]]) -> float:
    """Return the share of calls that is spent in and below functions of the analysis packages."""
    depth = 0
    entered = inside = 0.0

    def watch(frame: FrameType, event: str, _: object) -> None:
        nonlocal depth, entered, inside
        if event in ("call", "return") and frame.f_code.co_filename.startswith(ANALYSIS):
            if event == "call":
                depth += 1
                if depth == 1:
                    entered = time.thread_time()
            else:
                depth -= 1
                if depth == 0:
                    inside += time.thread_time() - entered

    start = time.thread_time()
    sys.setprofile(watch)
    for call, arguments in calls:
        call(*arguments)
    sys.setprofile(None)
    return inside / (time.thread_time() - start)


def p95(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


def primitive_table(rows: Sequence[Timed]) -> str:
    lines = [f"{'primitive':32}{'median us':>10}{'p95 us':>10}{'analysis':>10}{'budget us':>11}"]
    for row in sorted(rows, key=lambda row: -row.median):
        note = "" if row.median < row.budget else "   missed"
        lines.append(
            f"{row.name:32}{row.median:10.0f}{p95(row.times):10.0f}{row.analysis:10.0%}"
            f"{row.budget:11.0f}{note}"
        )
    return "\n".join(lines)


# -------------------------------------------------------------------------------- timing replays


@dataclass
class Replay:
    """A recorded trace and how long its replay takes, in milliseconds."""

    name: str
    mod: IRModule
    trace: Trace
    remove_postproc: bool
    times: list[float] = field(default_factory=list)

    def run(self) -> None:
        sch = Schedule(self.mod, seed=1)
        self.trace.apply_to_schedule(sch, remove_postproc=self.remove_postproc)

    @property
    def median(self) -> float:
        return statistics.median(self.times)


def time_replays(repeats: int = 5) -> tuple[list[Replay], int]:
    """Time the replay of recorded traces; also return how many are refused and left out."""
    replays: list[Replay] = []
    refused = 0
    for name in RECORDED:
        for number, entry in enumerate(recorded(name)):
            before = parse(entry["before"])
            replay = Replay(
                f"{name}-{number}-{entry['workload']}",
                before if isinstance(before, IRModule) else IRModule({"main": before}),
                Trace.from_json(entry["trace"]),
                entry["after"] is None,
            )
            try:
                replay.run()
            except ScheduleError:
                refused += 1
            else:
                replays.append(replay)
    gc.disable()
    for _ in range(repeats):
        gc.collect()
        for replay in replays:
            start = time.thread_time()
            replay.run()
            replay.times.append((time.thread_time() - start) * 1e3)
    gc.enable()
    return replays, refused


def replay_report(replays: Sequence[Replay], refused: int) -> str:
    medians = [replay.median for replay in replays]
    lines = [
        f"replay of {len(replays)} recorded traces ({refused} more are refused): "
        f"median {statistics.median(medians):.2f} ms, p95 {p95(medians):.2f} ms a trace; slowest:"
    ]
    for replay in sorted(replays, key=lambda replay: -replay.median)[:5]:
        length = len(replay.trace.insts)
        lines.append(f"  {replay.name:24}{replay.median:8.2f} ms, {length} instructions")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help="methods, otherwise all")
    parser.add_argument("--repeats", type=int, default=30)
    options = parser.parse_args()
    print(primitive_table(time_primitives(options.repeats, options.names)))
    if not options.names:
        print()
        print(replay_report(*time_replays()))


if __name__ == "__main__":
    main()
