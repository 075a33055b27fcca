"""Choosing the layouts of the tensors between the kernels of a graph."""

from __future__ import annotations

import html
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import NamedTuple, TypeAlias

from codegen import Target
from codegen.target import as_target
from search.builder import Builder
from search.database import Database
from search.errors import TuningError
from search.models.graph_tuner.candidates import Candidate, Candidates, transform_kernels
from search.models.graph_tuner.kernel_graph import (
    KernelGraph,
    Layout,
    Tensor,
    describe_layout,
    kernel_graphs,
    parameter,
)
from search.models.graph_tuner.kernel_times import KernelTimes, Measure, measured_seconds
from search.models.graph_tuner.layout_choice import (
    Choice,
    Timed,
    best_choice,
    fastest_of_each,
    possible_transforms,
    row_major,
)
from search.models.graph_tuner.rewrite_graph import GraphRewriting
from search.runner import Runner
from search.task import with_num_cores
from tensorir.function import IRModule, PrimFunc
from tensorir.relax.expr import GraphVar
from tensorir.relax.function import graph_functions
from tensorir.text_table import aligned, html_table
from tensorir.transform import DeadCodeElimination
from tensorir.verify import verify_well_formed

logger = logging.getLogger("tensorir.search")

_Transform: TypeAlias = tuple[tuple[int, ...], str, Layout, Layout]
"""The shape and dtype of a tensor, its old and its new layout."""


class KernelRow(NamedTuple):
    """The choice and the cost of a kernel call."""

    function: str
    """The graph function."""
    result: str
    """The variable of its result."""
    kernel: str
    layouts: str
    candidates: int
    """The number of candidates."""
    before: float | None
    """Seconds per call with all tensors row-major, None if it could not be measured."""
    after: float | None


class TransformRow(NamedTuple):
    """A transform of a tensor from one layout to another."""

    function: str
    tensor: str
    layouts: str
    seconds: float


@dataclass(frozen=True)
class LayoutTuning:
    """A module with the chosen layouts, and tables of the reasons, which it prints.

    The sums are of kernels measured alone, with their arguments in the caches. A kernel that could
    not be measured counts as 0 in both sums, and is not changed.
    """

    mod: IRModule
    kernels: tuple[KernelRow, ...]
    transforms: tuple[TransformRow, ...]
    before: float
    """Seconds of all kernels, each in its fastest row-major form."""
    after: float
    """Seconds of all chosen kernels and transforms."""
    exact: bool
    """True if no other choice among the candidates has a smaller sum."""

    @property
    def table(self) -> str:
        """The kernels, the transforms and the sums as text."""
        parts = [aligned(rows) for rows in self._tables()]
        return "\n\n".join([*parts, self._summary()])

    def _tables(self) -> list[list[tuple[str, ...]]]:
        kernels = ("function", "result", "kernel", "layouts", "choices", "us before", "us after")
        transforms = ("function", "tensor", "transform", "us")
        return [
            [heading, *(tuple(map(_text, row)) for row in rows)]
            for heading, rows in ((kernels, self.kernels), (transforms, self.transforms))
            if rows or heading is kernels
        ]

    def _summary(self) -> str:
        found = "exact" if self.exact else "heuristic: a better choice may exist"
        gain = f"{self.before / self.after:.2f} times as fast" if self.after else "nothing measured"
        sums = f"{self.before * 1e6:.2f} us before, {self.after * 1e6:.2f} us after"
        return f"sum: {sums}, {gain} ({found})"

    def __str__(self) -> str:
        return self.table

    __repr__ = __str__

    def _repr_html_(self) -> str:
        tables = "".join(html_table(rows) for rows in self._tables())
        return f"{tables}<p>{html.escape(self._summary())}</p>"


def _text(value: str | int | float | None) -> str:
    """Return a cell of a table; seconds become microseconds, None a question mark."""
    if value is None:
        return "?"
    return f"{value * 1e6:.2f}" if isinstance(value, float) else str(value)


def tune_layouts(
    mod: IRModule,
    database: Database | None,
    target: str | Target | None = None,
    *,
    max_candidates: int = 20,
    work_dir: str | Path | None = None,
    builder: str | Builder = "local",
    runner: str | Runner = "local",
    measure: Measure | None = None,
) -> LayoutTuning:
    """Choose the layouts of the tensors between the kernels of graph functions.

    Before: a = R.call_tir(f, (x,), ...)
            b = R.call_tir(h, (a,), ...)
    After:  a_blocked = R.call_tir(f_blocked, (x,), ...)
            b = R.call_tir(h_blocked, (a_blocked,), ...)

    The best schedules of a kernel in the database (else the unscheduled kernel) determine the order
    in which it reads its arguments. The candidates of a kernel, up to `max_candidates`, have
    arguments in that order, and results in the order that suits their readers. Where the layouts of
    two kernels differ, a transform comes between them. All candidates and transforms are built and
    measured, and the choice with the minimum sum of times is returned (`least_cost`). A gain below
    3% of a kernel counts as noise.

    Records of `blocked_kernels` count as well, with arguments in blocks of channels and row-major.

    Parameters and results of graph functions, operands and results of anything but `call_tir`, and
    the results of a kernel with several stay row-major. The layouts of weights are those of
    `layout_free_buffers`. Kernels with symbolic shapes or scalar parameters are not changed.

    The module of the result has the schedules of the database applied, so that `codegen.vm_build`
    builds what was measured. It computes the same as before. A `work_dir` keeps times for the next
    call. `measure` replaces builder and runner: it returns the seconds of kernels.

    Raises TuningError for a module without graph functions, `max_candidates` below 1 and invalid
    times, and the errors of verification.
    """
    if not graph_functions(mod):
        raise TuningError(
            f"the module has no graph function, only {sorted(mod.functions)}; tune tensor "
            "functions with tune_module"
        )
    if max_candidates < 1:
        raise TuningError(f"max_candidates is at least 1, got {max_candidates}")
    verify_well_formed(mod)
    wanted = with_num_cores(as_target(target))
    if measure is not None:
        return _tune(mod, database, wanted, max_candidates, measure)
    times = KernelTimes(wanted, builder, runner, work_dir)
    try:
        return _tune(mod, database, wanted, max_candidates, times)
    finally:
        times.close()


def _tune(
    mod: IRModule, database: Database | None, target: Target, most: int, measure: Measure
) -> LayoutTuning:
    asked, graphs = kernel_graphs(mod)
    candidates = Candidates(database, target, most)
    kernels = _time_candidates(
        {name: candidates.of(graph) for name, graph in graphs.items()}, measure
    )
    possible = (
        transform
        for name, graph in graphs.items()
        for transform in possible_transforms(graph, kernels[name])
    )
    fastest = _fastest_transforms(possible, target, measure)

    def seconds(tensor: Tensor, source: Layout, destination: Layout) -> float:
        return fastest[_key(tensor, source, destination)][1]

    choices = {name: best_choice(graph, kernels[name], seconds) for name, graph in graphs.items()}
    rewriting = GraphRewriting(asked.clone(), lambda *transform: fastest[_key(*transform)][0])
    for name, func in graph_functions(asked).items():
        rewriting.mod[name] = rewriting.rewrite(func, graphs[name], choices[name])
    result = DeadCodeElimination(list(mod.graph_funcs()))(rewriting.mod)
    verify_well_formed(result)
    plain = [row_major(kernels[name], graph) for name, graph in graphs.items()]
    steps = tuple(
        TransformRow(
            name,
            tensor.var.name,
            f"{describe_layout(source)} => {describe_layout(destination)}",
            seconds(tensor, source, destination),
        )
        for name in graphs
        for tensor, source, destination in choices[name].transforms(graphs[name])
    )
    tuning = LayoutTuning(
        result,
        tuple(
            row
            for name, graph in graphs.items()
            for row in _kernel_rows(name, graph, kernels[name], choices[name])
        ),
        steps,
        sum(choice.kernel_seconds for choice in plain),
        sum(choice.kernel_seconds for choice in choices.values())
        + sum(step.seconds for step in steps),
        all(choice.exact for choice in choices.values()),
    )
    logger.info("Layouts:\n%s", tuning)
    return tuning


def _time_candidates(
    candidates: Mapping[str, Mapping[GraphVar, Sequence[Candidate]]], measure: Measure
) -> dict[str, dict[GraphVar, list[Timed]]]:
    """Return the candidates of all calls, by graph function and result, with their times.

    Calls of one kernel share candidates, which are measured once.
    """
    lists = [found for of_graph in candidates.values() for found in of_graph.values()]
    funcs = list(dict.fromkeys(candidate.func for found in lists for candidate in found))
    seconds = dict(zip(funcs, measured_seconds(measure, funcs), strict=True))
    return {
        name: {
            var: fastest_of_each(found, [seconds[candidate.func] for candidate in found])
            for var, found in of_graph.items()
        }
        for name, of_graph in candidates.items()
    }


def _fastest_transforms(
    transforms: Iterable[tuple[Tensor, Layout, Layout]], target: Target, measure: Measure
) -> dict[_Transform, tuple[PrimFunc, float]]:
    """Measure all transforms at once; return the fastest kernel of each, with its seconds."""
    needed = dict.fromkeys(starmap(_key, transforms))
    forms = {key: transform_kernels(*key, target) for key in needed}
    funcs = [func for some in forms.values() for func in some]
    seconds = iter(measured_seconds(measure, funcs) if funcs else ())
    timed = {key: [(func, next(seconds)) for func in some] for key, some in forms.items()}
    return {key: min(pairs, key=lambda pair: pair[1]) for key, pairs in timed.items()}


def _key(tensor: Tensor, source: Layout, destination: Layout) -> _Transform:
    return (tensor.shape, tensor.dtype, source, destination)


def _kernel_rows(
    name: str, graph: KernelGraph, kernels: Mapping[GraphVar, Sequence[Timed]], choice: Choice
) -> Iterable[KernelRow]:
    for var, call in graph.calls.items():
        chosen = choice.kernels[var]
        slots = zip(call.slots, chosen.candidate.layouts, strict=True)
        layouts = "; ".join(
            f"{parameter(call.func, position).name}: {describe_layout(layout)}"
            for position, layout in slots
            if layout is not None
        )
        yield KernelRow(
            name,
            var.name,
            call.name,
            layouts or describe_layout(None),
            len(kernels[var]),
            kernels[var][0].seconds,
            chosen.seconds,
        )
