"""The transform steps of Ansor by their codes: what each one does to the stages of a computation.

`STEPS` has a function for each code, whose parameters after the state and the number of the step
are the fields of the step.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import Any, Final, TypeAlias

from schedule import BlockRV, LoopRV, Schedule
from search.compat.auto_scheduler.stages import (
    Hint,
    Place,
    Row,
    Stage,
    State,
    StepError,
    blamed_on_step,
)
from tensorir.nodes.expr import IntImm

_OF_GPUS: Final = ("FFSP", "SA")

UNROLL: Final = "auto_unroll_max_step"

ANNOTATIONS: Final = ("for", "unroll", "vectorize", "parallel")
"""The word for each number of an annotation; higher ones are of threads, and of intrinsics that the
step does not name."""


def take(state: State, row: Row) -> None:
    """Take a step, which changes the state; StepError names what cannot be taken, and why."""
    at = len(state.steps)
    with blamed_on_step(at, row):
        function, values = _read(row)
        function(state, at, *values)
    state.steps.append(row)


# --------------------------------------------------------------------------------------------- JSON

StepFunction: TypeAlias = "Callable[..., None]"

STEPS: Final[dict[str, StepFunction]] = {}
"""The functions that take steps, by code; the first line of a docstring says what a step does."""


def _step(code: str) -> Callable[[StepFunction], StepFunction]:
    def register(function: StepFunction) -> StepFunction:
        STEPS[code] = function
        return function

    return register


def _read(row: Any) -> tuple[StepFunction, list[Any]]:
    """Return the function of a step and its arguments.

    StepError for an unknown code, a wrong number of fields, or one of the wrong type.
    """
    if not isinstance(row, (list, tuple)) or not row or not isinstance(row[0], str):
        raise StepError(f"a step is a list that begins with its code, got {row!r}")
    code, *values = row
    if code not in STEPS:
        why = "it is of GPUs" if code in _OF_GPUS else "there is no such step"
        raise StepError(f"{code!r} cannot be taken: {why}; there are {', '.join(STEPS)}")
    fields = list(inspect.signature(STEPS[code]).parameters.values())[2:]
    if len(values) != len(fields):
        names = ", ".join(field.name for field in fields)
        raise StepError(f"{code} has {len(fields)} fields ({names}), got {len(values)}: {row}")
    for one, value in zip(fields, values, strict=True):
        expected, accepts = _TYPES[one.annotation]
        if not accepts(value):
            raise StepError(f"{one.name} of {code} is {expected}, got {value!r}")
    return STEPS[code], values


def _are(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, (list, tuple)) and all(type(v) in kinds for v in value)


_TYPES: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "int": ("an integer", lambda value: type(value) is int),
    "bool": ("0 or 1", lambda value: value in (0, 1)),
    "str": ("a text", lambda value: isinstance(value, str)),
    "Sequence[int]": ("a list of integers", _are(int)),
    "Lengths": ("a list of integers, null where one is open", _are(int, type(None))),
}
"""By the type of a field: its name in errors, and the test of a JSON value."""

Lengths: TypeAlias = "Sequence[int | None]"
"""The lengths of a split, of which a sketch leaves some open."""


# ------------------------------------------------------------------------------------------- splits


@_step("SP")
def split(
    state: State,
    at: int,
    stage: int,
    iterator: int,
    extent: int,
    lengths: Lengths,
    inner_to_outer: bool,
) -> None:
    """Split a loop in one part more than there are `lengths`.

    `lengths` are those of all parts but the outermost, or the innermost unless `inner_to_outer`,
    from the outside in; None is open. `extent` is that of the loop, 0 where it was not known. What
    is computed at the loop is so at its innermost part.
    """
    found = state.stage_with_loops(stage)
    loop = found.loop(iterator, changed=True)
    # Only of an operation's own loop does the extent say what program the step was made for:
    # that of a part is not brought up to date when a search changes the split before it.
    own = found.axes.get(loop)
    if extent and own not in (None, extent):
        raise StepError(
            f"it splits a loop of {extent} iterations, but {loop} of {found.name} has {own}: the "
            "steps are those of another workload"
        )
    for length in lengths:
        if length is not None and length < 1:
            raise StepError(f"a length is {length}; lengths are at least 1")
    parts = [f"{loop}.{k}" for k in range(len(lengths) + 1)]
    loops = [*found.loops[:iterator], *parts, *found.loops[iterator + 1 :]]

    def apply(sch: Schedule, _: BlockRV, loops: list[LoopRV]) -> list[LoopRV]:
        parts = _split(sch, loops[iterator], lengths, inner_to_outer)
        return [*loops[:iterator], *parts, *loops[iterator + 1 :]]

    state.change(stage, loops, apply, loop, parts[-1])


def _split(sch: Schedule, loop: LoopRV, lengths: Lengths, inner_to_outer: bool) -> list[LoopRV]:
    """Split a loop. Lengths beyond what there is to run are cut, from the inside out.

    A stage that is computed in a loop of another runs over what is needed there, which may be less
    than its steps expect.
    """
    known = [length for length in lengths if length is not None]
    if len(known) < len(lengths):
        raise StepError("its lengths are open: a sketch is no program before they are filled")
    extent = sch.get(loop).extent
    if isinstance(extent, IntImm):
        known, left = known[::-1] if inner_to_outer else known, extent.value
        for k, length in enumerate(known):
            known[k] = max(1, min(length, left))
            left = -(-left // known[k])
        known = known[::-1] if inner_to_outer else known
    return sch.split(loop, [None, *known] if inner_to_outer else [*known, None])


@_step("FSP")
def follow_split(
    state: State, at: int, stage: int, iterator: int, source: int, n_split: int
) -> None:
    """Split a loop like another step did, in `n_split + 1` parts, the inner ones in one."""
    lengths = _lengths_of(state, source)
    if not 1 <= n_split <= len(lengths):
        raise StepError(f"n_split is {n_split}, but step {source} has {len(lengths)} lengths")
    followed = [*lengths[: n_split - 1], _product(lengths[n_split - 1 :])]
    split(state, at, stage, iterator, 0, followed, True)


def _lengths_of(state: State, source: int) -> Lengths:
    """Return the lengths of a split before; StepError for a step that is none."""
    match state.steps[source : source + 1] if source >= 0 else []:
        case [["SP", _, _, _, lengths, _]]:
            return list(lengths)
        case [[code, *_]]:
            raise StepError(f"it follows step {source}, which is no SP: {code}")
    raise StepError(f"it follows step {source}, which is no SP: not there yet")


def _product(lengths: Lengths) -> int | None:
    """Return the product of numbers, None where one is not known."""
    known = [length for length in lengths if length is not None]
    return prod(known) if len(known) == len(lengths) else None


# --------------------------------------------------------------------------------- fusion and order


@_step("FU")
def fuse(state: State, at: int, stage: int, iterators: Sequence[int]) -> None:
    """Make one loop of neighbouring ones; of none, a loop of one iteration."""
    found = state.stage_with_loops(stage)
    old = [found.loop(position, changed=True) for position in iterators]
    if not old:
        if found.loops:
            raise StepError(f"it fuses no loops; {found.described()}")
        state.change(stage, ["unit"], lambda sch, block, _: [sch.add_unit_loop(block)])
        return
    first, end = iterators[0], iterators[-1] + 1

    def apply(sch: Schedule, _: BlockRV, loops: list[LoopRV]) -> list[LoopRV]:
        return [*loops[:first], sch.fuse(*loops[first:end]), *loops[end:]]

    if any(b != a + 1 for a, b in pairwise(iterators)):
        raise StepError(f"only loops that follow one another can be fused; {found.described()}")
    for other, place in state.attached_to(stage):
        if place.loop in old[:-1]:
            raise StepError(
                f"{other.name} is computed at loop {place.loop}, which would no longer be there; "
                "fuse the loops inside or outside of it"
            )
    fused = "".join(f"{loop}@" for loop in old)
    loops = [*found.loops[:first], fused, *found.loops[end:]]
    state.change(stage, loops, apply, old[-1], fused)


@_step("RE")
def reorder(state: State, at: int, stage: int, order: Sequence[int]) -> None:
    """Order the loops of a stage; `order[k]` is the position of the one that comes to place k."""
    found = state.stage_with_loops(stage)
    if sorted(order) != list(range(len(found.loops))):
        raise StepError(
            f"the order {list(order)} does not name each of the {len(found.loops)} loops once; "
            f"{found.described()}"
        )

    def apply(sch: Schedule, _: BlockRV, loops: list[LoopRV]) -> list[LoopRV]:
        return _in_order(sch, [loops[k] for k in order], loops)

    state.change(stage, [found.loops[k] for k in order], apply)


def _in_order(sch: Schedule, ordered: list[LoopRV], loops: list[LoopRV]) -> list[LoopRV]:
    if ordered != loops:
        sch.reorder(*ordered)
    return ordered


# -------------------------------------------------------------------------------------------- marks


@_step("AN")
def annotate(state: State, at: int, stage: int, iterator: int, annotation: int) -> None:
    """Say how the iterations of a loop are run."""
    if not 0 <= annotation < len(ANNOTATIONS):
        known = ", ".join(f"{k} is {name}" for k, name in enumerate(ANNOTATIONS))
        raise StepError(f"annotation {annotation} is not replayed; {known}, others are of GPUs")
    found = state.stage_with_loops(stage)
    loop = found.loop(iterator)
    for hint in found.hints:
        if annotation and hint.loop == loop and isinstance(hint.value, str):
            raise StepError(f"step {hint.step} marked loop {loop} {hint.value} before")
    if annotation:
        found.hints.append(Hint(at, loop, ANNOTATIONS[annotation]))


@_step("PR")
def mark_unrolled(state: State, at: int, stage: int, iterator: int, pragma: str) -> None:
    """Let what is below a loop be unrolled, up to a number of copies: `auto_unroll_max_step$N`."""
    name, _, number = pragma.partition("$")
    if name != UNROLL or not number.isdecimal():
        raise StepError(f"the only pragma is {UNROLL}$N with a number N, got {pragma!r}")
    found = state.stage_with_loops(stage)
    found.hints.append(Hint(at, found.loop(iterator), int(number)))


# ------------------------------------------------------------------------------------------- places


@_step("CA")
def compute_at(state: State, at: int, stage: int, target: int, iterator: int) -> None:
    """Compute a stage in a loop of a later one, what is needed there only."""
    found, place = state.computed_stage(stage), state.stage_with_loops(target)
    if target <= stage:
        raise StepError(
            f"stage {target}, {place.name}, comes before it; a stage is computed in a loop of a "
            "later one, which reads it"
        )
    found.place = Place(at, target, place.loop(iterator))


@_step("CI")
def compute_inline(state: State, at: int, stage: int) -> None:
    """Compute a stage, which must be as it was made, wherever it is read."""
    found = state.computed_stage(stage)
    for other, _ in state.attached_to(stage):
        raise StepError(f"{other.name} is computed in a loop of {found.name}; compute it elsewhere")
    if found.changes or found.hints:
        raise StepError(f"the loops of {found.name} were changed, and would not be there")
    found.place = Place(at)


@_step("CR")
def compute_root(state: State, at: int, stage: int) -> None:
    """Compute a stage outside of all others."""
    state.computed_stage(stage).place = None


# --------------------------------------------------------------------------------------- new stages


@_step("CHR")
def cache_read(state: State, at: int, stage: int, scope: str, readers: Sequence[int]) -> None:
    """Let stages read a copy of a stage or an input; the copy is the next stage."""
    found = state.stage(stage)
    if not readers:
        raise StepError("there are no readers; name the stages that are to read the copy")
    for reader in readers:
        name = state.computed_stage(reader).name
        if reader <= stage:
            raise StepError(f"stage {reader}, {name}, comes before it and cannot read the copy")
    blocks = [state.block(state.stages[reader]) for reader in readers]
    copy = state.sch.cache_read(blocks[0], state.buffer(found), scope, blocks)
    axes = {f"ax{k}": None for k in range(found.rank)}
    state.insert(stage + 1, Stage(f"{found.name}.{scope}", axes, found.rank, copy))


@_step("CHW")
def cache_write(state: State, at: int, stage: int, scope: str) -> None:
    """Compute a stage, which must be as it was made, in a buffer of its own, and copy that.

    The stage that computes takes the place of the old one; the next stage is the copy.
    """
    found = state.stage_with_loops(stage)
    if found.changes:
        raise StepError(
            f"the loops of {found.name} were changed by step {found.changes[0].step}; a stage is "
            "divided before that"
        )
    found = state.undivided_stage(stage)
    if not found.dimensions:
        raise StepError(f"{found.name} has no loops over its elements to divide")
    computing = {
        f"{loop}_c" if loop in found.dimensions else loop: extent
        for loop, extent in found.axes.items()
    }
    copied = {loop: found.axes[loop] for loop in found.dimensions}
    block = state.block(found)
    copy = state.sch.cache_write(block, state.buffer(found), scope)
    state.stages[stage] = Stage(found.name, copied, found.rank, copy)
    state.insert(stage, Stage(f"{found.name}.{scope}", computing, found.rank, block))


@_step("RF")
def rfactor(state: State, at: int, stage: int, iterator: int, position: int) -> None:
    """Compute partial results of a reduction, for each iteration of one of its loops.

    The stage that does takes the place of the old one; its new dimension comes to place `position`
    among the others, or last where that is negative. The next stage reduces the partial results.
    Only loops of the reduction may have been changed before.
    """
    found = state.undivided_stage(stage)
    rank, loop = found.rank, found.loop(iterator)
    if found.loops[:rank] != found.dimensions:
        raise StepError(
            f"the loops over elements of {found.name} were changed; divide the reduction first"
        )
    if iterator < rank:
        raise StepError(f"loop {loop} is no loop of the reduction; {found.described()}")
    if position > rank:
        raise StepError(f"position {position} is beyond the {rank} dimensions of {found.name}")
    place = position if position >= 0 else rank
    kept = [k for k in range(rank, len(found.loops)) if k != iterator]
    order = [*range(place), iterator, *range(place, rank), *kept]
    block = state.block(found)
    partial = _factored(state, found, iterator, place, order)
    axes = {found.loops[k]: found.axes.get(found.loops[k]) for k in order}
    final = dict.fromkeys([*(f"ax{k}" for k in range(rank)), f"{loop}_v"])
    state.stages[stage] = Stage(f"{found.name}.repl", final, rank, block)
    state.insert(stage, Stage(f"{found.name}.rf", axes, rank + 1, partial))


def _factored(
    state: State, stage: Stage, iterator: int, place: int, order: Sequence[int]
) -> BlockRV:
    """Bring the loops of a reduction into shape, factor one, and return the partial block."""
    sch, block, loops = state.sch, state.block(stage), state.nest(stage)
    for change in stage.changes:
        loops = change.apply(sch, block, loops)
    partial = sch.rfactor(loops[iterator], place)
    nest = sch.get_loops(partial)
    _in_order(sch, [nest[k] for k in order], nest)
    for one in (partial, block):
        _axes_in_order(sch, stage, one)
    return partial


def _axes_in_order(sch: Schedule, stage: Stage, block: BlockRV) -> None:
    """Give a block its axes in the order of the loops, in which `compute_at` makes new ones."""
    bound = list(sch.get_sref(block).block_realize.iter_values)
    variables = [sch.get(loop).loop_var for loop in sch.get_loops(block)]
    try:
        order = [bound.index(var) for var in variables]
    except ValueError:
        order = []
    if sorted(order) != list(range(len(bound))):
        raise StepError(
            f"the loops of the reduction {stage.name} that remain are not its axes; fuse all of "
            "them before they are split"
        )
    if order != sorted(order):
        sch.reorder_block_iter_var(block, order)
