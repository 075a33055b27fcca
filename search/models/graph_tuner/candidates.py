"""The candidates for a kernel of a graph: its schedules, with parameters in other layouts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from typing import Final

from codegen import Target
from codegen.history import can_be_scheduled
from schedule import ScheduleError
from search.database import Database
from search.database.best_records import with_schedules
from search.database.module_equality import same_structure
from search.errors import TuningError
from search.history.find_schedule import find_schedule
from search.history.history import under_its_name
from search.models.graph_tuner.blocked_kernels import (
    blocked_kernel,
    blocked_layouts,
    channels_of_block,
    read_as_rows,
)
from search.models.graph_tuner.elementwise import follow_layout, is_elementwise
from search.models.graph_tuner.kernel_graph import KernelCall, KernelGraph
from search.models.graph_tuner.layouts import (
    KnownLayouts,
    Layout,
    fixed_shape,
    parameter,
    wanted_layout,
    with_layouts,
)
from search.task import normalize_mod
from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import PrimFunc
from tensorir.relax.expr import GraphVar

logger = logging.getLogger("tensorir.search")

_RECORDS: Final = 3
"""The number of best records of a kernel that are considered: the second best may read better."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A kernel with its slots in some layouts."""

    func: PrimFunc
    layouts: tuple[Layout, ...]
    """A layout for each slot of the call."""


@dataclass(frozen=True, eq=False)
class _Form:
    """A schedule of a kernel, its slots row-major."""

    func: PrimFunc
    wanted: tuple[Layout, ...]
    """The layouts of the slots that suit the schedule best."""
    found_in: tuple[Layout, ...]
    """The layouts of the slots when the schedule was found."""

    def changes(self, layouts: tuple[Layout, ...]) -> int:
        """Return the number of slots with other layouts than when the schedule was found."""
        return sum(a != b for a, b in zip(layouts, self.found_in, strict=True))


class Candidates:
    """Finds the candidates of kernels; calls of the same kernel share them."""

    def __init__(self, database: Database | None, target: Target, most: int) -> None:
        self._database = database
        self._target = target
        self._most = most
        self._layouts = KnownLayouts()
        self._forms: dict[tuple[str, tuple[int, ...]], list[_Form]] = {}
        self._found: dict[tuple[str, tuple[int, ...], tuple[Layout, ...]], list[Candidate]] = {}

    def of(self, graph: KernelGraph) -> dict[GraphVar, list[Candidate]]:
        """Return the candidates of all calls of a graph function.

        The first candidate of each call is its best schedule with all parameters row-major. An
        input may also have the layout in which the schedule reads it, and the result the layouts
        that its readers want. An element-wise kernel passes those on to each input that has the
        shape of its result.
        """
        found: dict[GraphVar, list[Candidate]] = {}
        for call in reversed(graph.calls.values()):
            liked: tuple[Layout, ...] = (None,)
            if call.output is not None:
                liked = _distinct(
                    candidate.layouts[reader.slots.index(position)]
                    for reader, position in graph.tensors[call.var].readers
                    for candidate in found[reader.var]
                )
            key = (call.name, call.slots, liked)
            if key not in self._found:
                self._found[key] = list(islice(self._generate(call, liked), self._most))
            found[call.var] = self._found[key]
        return found

    def _generate(self, call: KernelCall, liked: tuple[Layout, ...]) -> Iterator[Candidate]:
        """Yield candidates with the fewest changed layouts first, and best schedules first."""
        forms = self._forms_of(call)
        choices = [
            (form, layouts)
            for form in forms
            for layouts in product(*self._choices(call, form, liked))
        ]
        for form, layouts in sorted(choices, key=lambda choice: choice[0].changes(choice[1])):
            by_slot = dict(zip(call.slots, layouts, strict=True))
            makers: list[Callable[[], PrimFunc | None]] = []
            if form is forms[0]:
                makers.append(partial(follow_layout, call.func, by_slot, self._target))
            makers.append(partial(with_layouts, form.func, by_slot))
            for make in makers:
                try:
                    func = make()
                except (ScheduleError, TuningError) as error:
                    logger.debug("%s cannot have layouts %s: %s", call.name, layouts, error)
                else:
                    if func is not None:
                        yield Candidate(func, layouts)

    def _choices(
        self, call: KernelCall, form: _Form, liked: tuple[Layout, ...]
    ) -> list[tuple[Layout, ...]]:
        """Return the layouts that each slot of a schedule may have, row-major first."""
        passes_on = call.output is not None and is_elementwise(call.func)
        result = fixed_shape(parameter(call.func, len(call.args)))
        found = []
        for position, wanted in zip(call.inputs, form.wanted, strict=False):
            same = fixed_shape(parameter(call.func, position)) == result
            found.append(_distinct([wanted, *(liked if passes_on and same else ())]))
        return found if call.output is None else [*found, _distinct([form.wanted[-1], *liked])]

    def _forms_of(self, call: KernelCall) -> list[_Form]:
        key = (call.name, call.slots)
        if key not in self._forms:
            plain = (None,) * len(call.slots)
            scheduled = self._scheduled(call.name, call.func) or [call.func]
            self._forms[key] = [_Form(func, self._wanted(func, call), plain) for func in scheduled]
            self._forms[key] += self._blocked(call)
        return self._forms[key]

    def _blocked(self, call: KernelCall) -> list[_Form]:
        """Return the schedules that were found for a kernel in blocks of channels."""
        if self._database is None or not can_be_scheduled(call.func):
            return []
        channels = channels_of_block(self._target)
        kernel = blocked_kernel(call, channels)
        if kernel is None:
            return []
        layouts = self._known(blocked_layouts(call, channels), call)
        forms = []
        for func in self._scheduled(call.name, kernel):
            try:
                forms.append(_Form(read_as_rows(func, call, channels), layouts, layouts))
            except ScheduleError as error:
                logger.debug("A schedule of %s stays in blocks: %s", call.name, error)
        return forms

    def _wanted(self, func: PrimFunc, call: KernelCall) -> tuple[Layout, ...]:
        """Return the layouts in which a schedule reads the slots of a call; it writes rows."""
        read = tuple(wanted_layout(func, position) for position in call.inputs)
        return self._known(read if call.output is None else (*read, None), call)

    def _known(self, layouts: Sequence[Layout], call: KernelCall) -> tuple[Layout, ...]:
        """Return the layouts of the slots of a call, one map for each order of elements."""
        found = []
        for position, layout in zip(call.slots, layouts, strict=True):
            shape = fixed_shape(parameter(call.func, position))
            assert shape is not None
            found.append(self._layouts.known(layout, shape))
        return tuple(found)

    def _scheduled(self, name: str, kernel: PrimFunc) -> list[PrimFunc]:
        """Return the best scheduled forms of a kernel in the database, best first."""
        if self._database is None or not can_be_scheduled(kernel):
            return []
        forms: dict[str, PrimFunc] = {}
        for form in _best_forms(name, kernel, self._database, self._target):
            try:
                func = under_its_name(kernel, form)
            except (IRValueError, IRTypeError) as error:
                logger.debug("A schedule does not apply: %s", error)
            else:
                forms.setdefault(func.script(), func)
        return list(forms.values())[:_RECORDS]


def _best_forms(
    name: str, kernel: PrimFunc, database: Database, target: Target
) -> Iterator[PrimFunc]:
    """Yield the schedule that a build would find for a kernel, then those of its best records."""
    best = find_schedule(database, kernel, target, name)
    if best is not None:
        yield best.func
    program = normalize_mod(kernel)
    if database.has_workload(program):
        records = database.top_records(database.commit_workload(program), _RECORDS, target)
        own = (record for record in records if same_structure(record.workload.mod, program))
        for _, sch in with_schedules(own):
            yield from sch.mod.prim_funcs().values()


def _distinct(layouts: Iterable[Layout]) -> tuple[Layout, ...]:
    """Return layouts without repetitions, row-major first."""
    return tuple(dict.fromkeys([None, *layouts]))
