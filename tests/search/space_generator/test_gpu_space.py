"""Points of design spaces for GPUs: those that are drawn fit the device."""

from __future__ import annotations

import pytest

import search as ms
from schedule.random_state import RandomState
from search.search_strategy.trace_application import TraceApplication
from search.space_generator.design_space import DesignSpace
from search.space_generator.gpu_space import FittingSpace
from tensorir import workloads
from tensorir.function import PrimFunc

MATMUL = workloads.create("GMM", n=128, m=128, k=128)


def task(func: PrimFunc, target: str) -> ms.TuneContext:
    return ms.TuneContext(func, target=target, space_generator="post-order-apply", rand_state=1)


def spaces(context: ms.TuneContext) -> list[DesignSpace]:
    return context.points_of(context.generate_design_space()[:1])


@pytest.mark.parametrize(
    ("func", "target"),
    [
        (MATMUL, "nvidia/nvidia-a100"),
        (MATMUL, "opencl -max_shared_memory_per_block=2048 -max_threads_per_block=64"),
        # 96 elements: 32 threads are a rare product of tiles.
        (
            workloads.create("C2D", h=7, w=7, ci=3, co=6, kernel=3, stride=2, padding=1),
            "nvidia/nvidia-a100",
        ),
    ],
)
def test_random_points_pass_the_postprocessors(func: PrimFunc, target: str) -> None:
    context = task(func, target)
    (space,) = spaces(context)
    assert isinstance(space, FittingSpace)
    application, rng = TraceApplication(context), RandomState(3)
    points = [space.sample(rng) for _ in range(6)]
    assert len(set(points)) > 3
    assert all(application.apply(space.trace_of(point)) is not None for point in points)
    neighbour = space.neighbour(points[0], rng)
    assert neighbour is not None
    assert application.apply(space.trace_of(neighbour)) is not None


def test_tiles_beyond_the_device_are_not_admitted() -> None:
    """Tiles in the order of levels: blocks, virtual threads, threads, and two inside a thread."""
    (space,) = spaces(task(MATMUL, "nvidia/nvidia-a100"))

    def admits(rows: tuple[int, ...], columns: tuple[int, ...], steps: tuple[int, ...]) -> bool:
        point = ((1, 1, 1, 1, 1), rows, columns, steps, *space.decisions[4:])
        return space.admitted(point) is not None

    few, many = (8, 1, 8, 1, 2), (1, 1, 128, 1, 1)
    assert admits(few, few, (16, 1, 8))
    assert not admits(many, many, (16, 1, 8)), "16,384 threads"
    assert not admits((16, 8, 1, 1, 1), (16, 8, 1, 1, 1), (16, 1, 8)), "1 thread"
    assert not admits((1, 1, 8, 8, 2), (1, 1, 8, 8, 2), (16, 1, 8)), "256 sums of a thread"
    assert not admits((1, 8, 8, 1, 2), (1, 8, 8, 1, 2), (1, 1, 128)), "128 KiB of shared memory"


def test_spaces_without_bound_tiles_stay_whole() -> None:
    softmax = workloads.create("SFM", m=64, n=64)
    assert [type(space) for space in spaces(task(softmax, "cuda"))] == [DesignSpace]
    assert [type(space) for space in spaces(task(MATMUL, "llvm -num-cores=1"))] == [DesignSpace]
