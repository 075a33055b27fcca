"""The candidates for a kernel of a graph: its schedules, with parameters in other layouts.

Element-wise kernels can follow any layout. Other kernels can also compute in blocks of channels, so
that images with short rows can be vectorized: the search keeps the order of the loops of a kernel,
so it vectorizes an NCHW kernel along rows. If the length of a row is not a multiple of a vector,
vectors of channels are faster.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from typing import Final

from codegen import Target
from codegen.history import can_be_scheduled
from codegen.target import as_target
from schedule import Schedule, ScheduleError
from search.database import Database
from search.database.best_records import with_schedules
from search.database.module_equality import same_structure
from search.errors import TuningError
from search.history.default_designs import default_schedule
from search.history.find_schedule import find_schedule
from search.history.history import rename_to_original
from search.models.graph_tuner.kernel_graph import (
    KernelCall,
    KernelGraph,
    KnownLayouts,
    Layout,
    fixed_shape,
    kernel_graphs,
    parameter,
    wanted_layout,
    with_layouts,
)
from search.task import normalize_mod
from tensorir import te
from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import IRModule, PrimFunc
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.constants import is_const_int
from tensorir.nodes.expr import IterVar, Var
from tensorir.nodes.stmt import Block
from tensorir.relax.expr import GraphVar
from tensorir.rewriting.visit import collect_vars, walk
from tensorir.verify import verify_well_formed

_COPY: Final = "transformed"
"""The name of the block that changes a layout."""


def is_elementwise(func: PrimFunc) -> bool:
    """Return True if all blocks of a kernel are data-parallel."""
    return all(
        axis.iter_type == IterVar.DATA_PAR for block in _blocks(func) for axis in block.iter_vars
    )


def follow_layout(func: PrimFunc, layouts: Mapping[int, Layout], target: Target) -> PrimFunc | None:
    """Return a kernel with parameters in `layouts`, its loops in the memory order of its result.

    It gets the default schedule for these loops. None if the result is row-major, and for a kernel
    that is scheduled already, or is more than one element-wise block that writes at its axes.
    Raises ScheduleError if a parameter cannot have its layout.
    """
    written = layouts.get(len(func.params) - 1)
    if written is None or not can_be_scheduled(func) or not is_elementwise(func):
        return None
    inner = [block for block in _blocks(func) if block.iter_vars]
    if len(inner) != 1 or not _writes_at_its_axes(inner[0]):
        return None
    return _scheduled_in_order(with_layouts(func, layouts), inner[0].name_hint, written, target)


def transform_kernels(
    shape: Sequence[int], dtype: str, source: Layout, destination: Layout, target: Target
) -> list[PrimFunc]:
    """Return kernels `f(in, out)` that copy a tensor from one layout to another.

    One has its loops in the order in which the source lies in memory, the other one in that of the
    destination, each with its default schedule. Which of them is faster depends on the sizes.
    """
    tensor = te.placeholder(tuple(shape), dtype, "tensor")
    copy = te.compute(tuple(shape), lambda *indices: tensor[indices], _COPY)
    func = te.create_prim_func([tensor, copy]).with_attr("tir.noalias", True)
    func = with_layouts(func.without_attr("global_symbol"), {0: source, 1: destination})
    orders = dict.fromkeys((source, destination))
    return [_scheduled_in_order(func, _COPY, order, target) for order in orders]


def _scheduled_in_order(func: PrimFunc, block: str, order: Layout, target: Target) -> PrimFunc:
    """Return the default schedule of a kernel after its loops were put in the order of a layout."""
    sch = Schedule(IRModule({"main": func}))
    if order is not None:
        sch.transform_block_layout(sch.get_block(block, "main"), order)
    return rename_to_original(func, default_schedule(sch.mod, target).mod.prim_func("main"))


def _blocks(func: PrimFunc) -> list[Block]:
    return [node for node in walk(func.body) if isinstance(node, Block)]


def _writes_at_its_axes(block: Block) -> bool:
    if len(block.writes) != 1 or len(block.writes[0].region) != len(block.iter_vars):
        return False
    pairs = zip(block.writes[0].region, block.iter_vars, strict=True)
    return all(place.min is axis.var for place, axis in pairs)


def channels_of_block(target: Target) -> int:
    """Return the channels of a block: the number of floats in a vector register of the target."""
    return target.vector_lanes(32)


def channel_blocks(shape: Sequence[int], channels: int) -> Layout:
    """Return the layout `(n, c, h, w) -> (n, c // channels, h, w, c % channels)` for a shape.

    The shape has four or more dimensions. None, which is row-major, if dimension 1 does not consist
    of whole blocks, or if the order of elements would not change.
    """
    if len(shape) < 4 or shape[1] % channels or math.prod(shape[2:]) == 1:
        return None
    indices = [Var(f"i{k}", "int32") for k in range(len(shape))]
    outer, channel, *rest = indices
    return IndexMap(indices, [outer, channel // channels, *rest, channel % channels])


def blocked_kernels(mod: IRModule, target: str | Target | None = None) -> IRModule:
    """Return the kernels that graph functions call, with tensors in blocks of channels.

    A block has as many channels as a vector of the target, by default the current one, has floats.
    `tune_module` tunes these kernels, and `tune_layouts` uses their records if it gets the same
    database. Kernels that cannot have another layout, that access no tensor with whole blocks of
    channels, and element-wise kernels, which follow any layout, are left out. Channels are
    dimension 1, as in NCHW; kernels in NHWC would not gain.
    """
    verify_well_formed(mod)
    _, graphs = kernel_graphs(mod)
    channels = channels_of_block(as_target(target))
    calls = {call.name: call for graph in graphs.values() for call in graph.calls.values()}
    blocked = {name: blocked_kernel(call, channels) for name, call in calls.items()}
    return IRModule({name: func for name, func in blocked.items() if func is not None})


def blocked_layouts(call: KernelCall, channels: int) -> tuple[Layout, ...]:
    """Return the layouts of the slots of a call in its blocked kernel."""
    shapes = (fixed_shape(parameter(call.func, position)) for position in call.slots)
    return tuple(channel_blocks(shape or (), channels) for shape in shapes)


def blocked_kernel(call: KernelCall, channels: int) -> PrimFunc | None:
    """Return the kernel of a call with slots in blocks of channels, None if that is impossible.

    With 16 channels:

    Before: for n, o, y, x, c, r, s: Y[n, o, y, x] += X[n, c, y + r, x + s] * W[o, c, r, s]
    After:  for n, o0, y, x, o1, c, r, s:
                Y[n, o0, y, x, o1] += X[n, c // 16, y + r, x + s, c % 16] * W[o0 * 16 + o1, c, r, s]
    """
    layouts = dict(zip(call.slots, blocked_layouts(call, channels), strict=True))
    if is_elementwise(call.func) or not any(layouts.values()):
        return None
    try:
        return _in_order_of_writes(with_layouts(call.func, layouts), channels)
    except ScheduleError:
        return None


def read_as_rows(func: PrimFunc, call: KernelCall, channels: int) -> PrimFunc:
    """Return a blocked kernel with row-major slots and unchanged loops.

    Raises ScheduleError if a slot cannot be changed back.
    """
    back: dict[int, Layout] = {}
    for position, layout in zip(call.slots, blocked_layouts(call, channels), strict=True):
        if layout is not None:
            back[position] = layout.inverse(fixed_shape(parameter(call.func, position)) or ())
    return with_layouts(func, back)


def _in_order_of_writes(func: PrimFunc, channels: int) -> PrimFunc:
    """Return a kernel with its internal buffers in blocks, and loops in the order of writes."""
    parameters = set(func.buffer_map.values())
    sch = Schedule(IRModule({"main": func}))
    nodes = [sref.block for sref in sch.state.blocks("main")]
    for name in [node.name_hint for node in nodes if node.iter_vars and node.writes]:
        block = sch.get_block(name, "main")
        written = sch.get(block).writes[0].buffer
        layout = (
            None if written in parameters else channel_blocks(fixed_shape(written) or (), channels)
        )
        if layout is not None:
            sch.transform_layout(block, ("write", 0), layout)
        sch.transform_block_layout(block, _order_of_writes(sch.get(block)))
    return sch.mod.prim_func("main")


def _order_of_writes(block: Block) -> IndexMap:
    """Return the map from the axes of a block to its written indices, then the reduction axes.

    Axes of extent 1 come first, because the last spatial axis is the vector axis.
    """
    indices = [place.min for place in block.writes[0].region]
    moving = [index for index in indices if collect_vars(index)]
    used = {var for index in moving for var in collect_vars(index)}
    others = [axis for axis in block.iter_vars if axis.var not in used]
    single = [axis.var for axis in others if _has_one_place(axis)]
    longer = [axis.var for axis in others if not _has_one_place(axis)]
    return IndexMap([axis.var for axis in block.iter_vars], [*single, *moving, *longer])


def _has_one_place(axis: IterVar) -> bool:
    return axis.dom is not None and is_const_int(axis.dom.extent, 1)


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
            scheduled = self._scheduled_forms(call.name, call.func) or [call.func]
            self._forms[key] = [
                _Form(func, self._wanted_layouts(func, call), plain) for func in scheduled
            ]
            self._forms[key] += self._blocked_forms(call)
        return self._forms[key]

    def _blocked_forms(self, call: KernelCall) -> list[_Form]:
        """Return the schedules that were found for a kernel in blocks of channels."""
        if self._database is None or not can_be_scheduled(call.func):
            return []
        channels = channels_of_block(self._target)
        kernel = blocked_kernel(call, channels)
        if kernel is None:
            return []
        layouts = self._shared_layouts(blocked_layouts(call, channels), call)
        forms = []
        for func in self._scheduled_forms(call.name, kernel):
            try:
                forms.append(_Form(read_as_rows(func, call, channels), layouts, layouts))
            except ScheduleError as error:
                logger.debug("A schedule of %s stays in blocks: %s", call.name, error)
        return forms

    def _wanted_layouts(self, func: PrimFunc, call: KernelCall) -> tuple[Layout, ...]:
        """Return the layouts in which a schedule reads the slots of a call; it writes rows."""
        read = tuple(wanted_layout(func, position) for position in call.inputs)
        return self._shared_layouts(read if call.output is None else (*read, None), call)

    def _shared_layouts(self, layouts: Sequence[Layout], call: KernelCall) -> tuple[Layout, ...]:
        """Return the layouts of the slots of a call, one map for each order of elements."""
        found = []
        for position, layout in zip(call.slots, layouts, strict=True):
            shape = fixed_shape(parameter(call.func, position))
            assert shape is not None
            found.append(self._layouts.known(layout, shape))
        return tuple(found)

    def _scheduled_forms(self, name: str, kernel: PrimFunc) -> list[PrimFunc]:
        """Return the best scheduled forms of a kernel in the database, best first."""
        if self._database is None or not can_be_scheduled(kernel):
            return []
        forms: dict[str, PrimFunc] = {}
        for form in _best_forms(name, kernel, self._database, self._target):
            try:
                func = rename_to_original(kernel, form)
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
