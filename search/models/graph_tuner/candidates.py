"""The forms that a kernel of a graph can take: its schedules, with parameters in other layouts."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
from search.models.graph_tuner.elementwise import in_order_of, is_elementwise
from search.models.graph_tuner.kernel_graph import KernelCall, KernelGraph
from search.models.graph_tuner.layouts import (
    KnownLayouts,
    Layout,
    fixed_shape,
    parameter,
    read_in_place,
    wanted_layout,
    with_free_layouts,
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
    """The layouts in which it would like its slots."""
    found_in: tuple[Layout, ...]
    """The layouts for which it was found."""

    def changes(self, layouts: tuple[Layout, ...]) -> int:
        """Return how many slots have other layouts than those it was found for."""
        return sum(a != b for a, b in zip(layouts, self.found_in, strict=True))


class Candidates:
    """Finds the candidates of kernels; what calls of one kernel share is found once."""

    def __init__(self, database: Database | None, target: Target, most: int) -> None:
        self._database = database
        self._target = target
        self._most = most
        self._layouts = KnownLayouts()
        self._forms: dict[tuple[str, tuple[int, ...]], list[_Form]] = {}
        self._found: dict[tuple[str, tuple[int, ...], tuple[Layout, ...]], list[Candidate]] = {}

    def of(self, graph: KernelGraph) -> dict[GraphVar, list[Candidate]]:
        """Return the candidates of all calls of a graph function.

        The first one of each is the best schedule with all parameters row-major. What a schedule
        reads may also have the layout in which it reads it, what it writes those in which its
        readers would like it. A kernel that only maps elements hands the latter through, if its
        input has the shape of its output.
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
            found[call.var] = self._candidates(call, liked)
        return found

    def _candidates(self, call: KernelCall, liked: tuple[Layout, ...]) -> list[Candidate]:
        key = (call.name, call.slots, liked)
        if key not in self._found:
            possible = self._possible(call, liked)
            self._found[key] = list(islice(possible, self._most))
        return self._found[key]

    def _possible(self, call: KernelCall, liked: tuple[Layout, ...]) -> Iterator[Candidate]:
        """Yield candidates, first those that are most like what was found, best schedules first."""
        forms = self._forms_of(call)
        choices = [
            (form, layouts)
            for form in forms
            for layouts in product(*self._choices(call, form, liked))
        ]
        for form, layouts in sorted(choices, key=lambda choice: choice[0].changes(choice[1])):
            following = self._following(call, layouts) if form is forms[0] else None
            for func in (following, form.func):
                if func is None:
                    continue
                try:
                    changed = with_layouts(func, dict(zip(call.slots, layouts, strict=True)))
                except (ScheduleError, TuningError) as error:
                    logger.debug("%s cannot have layouts %s: %s", call.name, layouts, error)
                else:
                    yield Candidate(changed, layouts)

    def _following(self, call: KernelCall, layouts: tuple[Layout, ...]) -> PrimFunc | None:
        """Return a kernel with its loops in the order of its result, where that may help."""
        written = None if call.output is None else layouts[-1]
        if written is None:
            return None
        return in_order_of(call.func, written, self._target.num_cores or 1)

    def _choices(
        self, call: KernelCall, form: _Form, liked: tuple[Layout, ...]
    ) -> list[tuple[Layout, ...]]:
        """Return the layouts that each slot of a schedule may have, row-major first."""
        hands_through = call.output is not None and is_elementwise(call.func)
        given = fixed_shape(parameter(call.func, len(call.args)))
        found = []
        for position, wanted in zip(call.inputs, form.wanted, strict=False):
            same = fixed_shape(parameter(call.func, position)) == given
            found.append(_distinct([wanted, *(liked if hands_through and same else ())]))
        return found if call.output is None else [*found, _distinct([form.wanted[-1], *liked])]

    def _forms_of(self, call: KernelCall) -> list[_Form]:
        key = (call.name, call.slots)
        if key not in self._forms:
            plain = (None,) * len(call.slots)
            self._forms[key] = [
                _Form(func, self._wanted(func, call), plain) for func in self._scheduled(call)
            ]
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
        best = _best_forms(call.name, kernel, self._database, self._target)
        forms = []
        for func in self._applied(kernel, best):
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
        """Return layouts of the slots of a call, each order of elements as one map."""
        found = []
        for position, layout in zip(call.slots, layouts, strict=True):
            shape = fixed_shape(parameter(call.func, position))
            assert shape is not None
            found.append(self._layouts.known(layout, shape))
        return tuple(found)

    def _scheduled(self, call: KernelCall) -> list[PrimFunc]:
        """Return the best scheduled forms of a kernel, best first; itself where none is known.

        Behind them come those that were found for arguments in any layout.
        """
        if self._database is None or not can_be_scheduled(call.func):
            return [call.func]
        best = _best_forms(call.name, call.func, self._database, self._target)
        ordinary = self._applied(call.func, best)
        free = self._applied(call.func, _free_forms(call, self._database, self._target))
        return list({form.script(): form for form in [*ordinary, *free]}.values()) or [call.func]

    def _applied(self, kernel: PrimFunc, forms: Iterable[PrimFunc]) -> list[PrimFunc]:
        """Return different forms of a kernel under its name, the first ones."""
        applied: dict[str, PrimFunc] = {}
        for form in forms:
            try:
                func = under_its_name(kernel, form)
            except (IRValueError, IRTypeError) as error:
                logger.debug("A schedule does not apply: %s", error)
            else:
                applied.setdefault(func.script(), func)
        return list(applied.values())[:_RECORDS]


def _best_forms(
    name: str, kernel: PrimFunc, database: Database, target: Target
) -> Iterator[PrimFunc]:
    """Yield the best that a database has of a kernel, then what other records of it give."""
    best = find_schedule(database, kernel, target, name)
    if best is not None:
        yield best.func
    yield from _recorded(kernel, database, target)


def _free_forms(call: KernelCall, database: Database, target: Target) -> Iterator[PrimFunc]:
    """Yield the forms by records of a kernel with inputs in any layout, its inputs row-major."""
    for form in _recorded(with_free_layouts(call.func, call.inputs), database, target):
        try:
            yield read_in_place(form, call.inputs)
        except ScheduleError as error:
            logger.debug("A schedule of %s keeps its copies: %s", call.name, error)


def _recorded(func: PrimFunc, database: Database, target: Target) -> Iterator[PrimFunc]:
    """Yield the scheduled forms of a function in the best records of exactly this program."""
    program = normalize_mod(func)
    if not database.has_workload(program):
        return
    records = database.top_records(database.commit_workload(program), _RECORDS, target)
    own = (record for record in records if same_structure(record.workload.mod, program))
    for _, sch in with_schedules(own):
        yield from sch.mod.prim_funcs().values()


def _distinct(layouts: Iterable[Layout]) -> tuple[Layout, ...]:
    """Return layouts without repetitions, row-major first."""
    return tuple(dict.fromkeys([None, *layouts]))
