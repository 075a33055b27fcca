"""The transform steps of Ansor: what each one does to the stages of a computation.

`STEPS` has a function for each code. Its parameters after the state and the number of the step are
the fields of the step, and their annotations the types of these fields.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import Any, Final, TypeAlias

from schedule import BlockRV, LoopRV, Schedule
from search.compat.auto_scheduler.stages import (
    UNROLL,
    Mark,
    Place,
    Row,
    Stage,
    State,
    StepError,
    blamed_on_step,
)
from tensorir.nodes.expr import IntImm

ANNOTATIONS: Final = ("for", "unroll", "vectorize", "parallel")
"""The loop kind for each annotation number; higher numbers are for GPUs and intrinsics."""


def take(state: State, row: Row) -> None:
    """Read a step into a state; StepError for a step that cannot be read."""
    with blamed_on_step(len(state.steps), row):
        function, values = _read(row)
        function(state, len(state.steps), *values)
    state.steps.append(row)


# --------------------------------------------------------------------------------------------- JSON

StepFunction: TypeAlias = "Callable[..., None]"

STEPS: Final[dict[str, StepFunction]] = {}
"""The functions of the steps by code; explanations of logs quote their docstrings."""


def _step(code: str) -> Callable[[StepFunction], StepFunction]:
    def register(function: StepFunction) -> StepFunction:
        STEPS[code] = function
        return function

    return register


def _read(row: Any) -> tuple[StepFunction, list[Any]]:
    """Return the function of a step and its arguments; StepError for a malformed step."""
    if not isinstance(row, (list, tuple)) or not row or not isinstance(row[0], str):
        raise StepError(f"a step is a list that starts with its code, got {row!r}")
    code, *values = row
    if code not in STEPS:
        raise StepError(
            f"unknown step {code!r}; expected one of {', '.join(STEPS)} (FFSP and SA are for GPUs)"
        )
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
"""By the annotation of a field: its type in errors, and the test of a JSON value."""

Lengths: TypeAlias = "Sequence[int | None]"
"""The lengths of a split; a sketch leaves some of them open."""


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
    """Split a loop into one part more than there are `lengths`.

    `lengths` are those of the inner parts, or of the outer ones unless `inner_to_outer`, from the
    outside in. `extent` is that of the loop, 0 if unknown. Stages that are computed at the loop
    move to its innermost part.
    """
    found = state.stage_with_loops(stage)
    loop = found.loop(iterator, changed=True)
    # Only the extent of an original loop identifies the program of the step: Ansor does not update
    # the extents of parts when it mutates the split that made them.
    own = found.axes.get(loop)
    if extent and own not in (None, extent):
        raise StepError(
            f"it splits a loop of {extent} iterations, but {loop} of {found.name} has {own}: the "
            "steps are for another workload"
        )
    if any(length is not None and length < 1 for length in lengths):
        raise StepError(f"lengths are at least 1, got {list(lengths)}")
    parts = [f"{loop}.{k}" for k in range(len(lengths) + 1)]

    def transform(sch: Schedule, _: BlockRV, loops: list[LoopRV]) -> list[LoopRV]:
        return _split(sch, loops[0], lengths, inner_to_outer)

    state.change(stage, slice(iterator, iterator + 1), parts, transform)


def _split(sch: Schedule, loop: LoopRV, lengths: Lengths, inner_to_outer: bool) -> list[LoopRV]:
    """Split a loop; lengths beyond its extent are cut, from the inside out.

    A stage that is computed in a loop of another one covers the required region only, which may be
    smaller than its steps expect.
    """
    known = [length for length in lengths if length is not None]
    if len(known) < len(lengths):
        raise StepError("its lengths are open: fill in the lengths of a sketch before applying it")
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
    """Split a loop as step `source` did, into `n_split + 1` parts; the last one takes the rest."""
    match state.steps[source : source + 1] if source >= 0 else []:
        case [["SP", _, _, _, lengths, _]] if 1 <= n_split <= len(lengths):
            rest = lengths[n_split - 1 :]
            inner = None if None in rest else prod(rest)
            split(state, at, stage, iterator, 0, [*lengths[: n_split - 1], inner], True)
        case _:
            raise StepError(
                f"step {source}, which it follows, is not an earlier SP with {n_split} lengths"
            )


# --------------------------------------------------------------------------------- fusion and order


@_step("FU")
def fuse(state: State, at: int, stage: int, iterators: Sequence[int]) -> None:
    """Fuse adjacent loops; an empty list adds a loop of one iteration to a scalar stage."""
    found = state.stage_with_loops(stage)
    old = [found.loop(position, changed=True) for position in iterators]
    if not old and not found.loops:
        state.change(stage, slice(0, 0), ["unit"], lambda sch, block, _: [sch.add_unit_loop(block)])
        return
    if not old or any(b != a + 1 for a, b in pairwise(iterators)):
        raise StepError(f"only adjacent loops can be fused; {found.described()}")
    for other, place in state.attached_to(stage):
        if place.loop in old[:-1]:
            raise StepError(
                f"{other.name} is computed at loop {place.loop}, which the fusion would remove; "
                "fuse the loops inside or outside of it"
            )
    span = slice(iterators[0], iterators[-1] + 1)
    fused = "".join(f"{loop}@" for loop in old)
    state.change(stage, span, [fused], lambda sch, _, loops: [sch.fuse(*loops)])


@_step("RE")
def reorder(state: State, at: int, stage: int, order: Sequence[int]) -> None:
    """Reorder the loops of a stage; `order[k]` is the old position of loop k."""
    found = state.stage_with_loops(stage)
    if sorted(order) != list(range(len(found.loops))):
        raise StepError(
            f"the order {list(order)} does not name each of the {len(found.loops)} loops once; "
            f"{found.described()}"
        )

    def transform(sch: Schedule, _: BlockRV, loops: list[LoopRV]) -> list[LoopRV]:
        return _in_order(sch, [loops[k] for k in order], loops)

    state.change(stage, slice(None), [found.loops[k] for k in order], transform)


def _in_order(sch: Schedule, ordered: list[LoopRV], loops: list[LoopRV]) -> list[LoopRV]:
    if ordered != loops:
        sch.reorder(*ordered)
    return ordered


# -------------------------------------------------------------------------------------------- marks


@_step("AN")
def annotate(state: State, at: int, stage: int, iterator: int, annotation: int) -> None:
    """Set the kind of a loop: 1 unroll, 2 vectorize, 3 parallel."""
    if not 0 <= annotation < len(ANNOTATIONS):
        known = ", ".join(f"{k} is {name}" for k, name in enumerate(ANNOTATIONS))
        raise StepError(f"annotation {annotation} cannot be replayed; {known}, others are for GPUs")
    found = state.stage_with_loops(stage)
    loop = found.loop(iterator)
    if annotation:
        found.marks.append(Mark(at, loop, ANNOTATIONS[annotation]))


@_step("PR")
def mark_unrolled(state: State, at: int, stage: int, iterator: int, pragma: str) -> None:
    """Unroll the loops below a loop up to a number of copies: `auto_unroll_max_step$N`."""
    name, _, number = pragma.partition("$")
    if name != UNROLL or not number.isdecimal():
        raise StepError(f"the only pragma is {UNROLL}$N with a number N, got {pragma!r}")
    found = state.stage_with_loops(stage)
    found.marks.append(Mark(at, found.loop(iterator), int(number)))


# ------------------------------------------------------------------------------------------- places


@_step("CA")
def compute_at(state: State, at: int, stage: int, target: int, iterator: int) -> None:
    """Compute a stage in a loop of a later one."""
    found, place = state.computed_stage(stage), state.stage_with_loops(target)
    if target <= stage:
        raise StepError(
            f"stage {target}, {place.name}, comes before it; a stage is computed in a loop of a "
            "later stage, which reads it"
        )
    found.place = Place(at, target, place.loop(iterator))


@_step("CI")
def compute_inline(state: State, at: int, stage: int) -> None:
    """Inline a stage into its consumers."""
    found = state.computed_stage(stage)
    for other, _ in state.attached_to(stage):
        raise StepError(f"{other.name} is computed in a loop of {found.name}; compute it elsewhere")
    if found.changes or found.marks:
        raise StepError(f"the loops of {found.name} were changed; inline a stage before that")
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
    if not readers or min(readers) <= stage:
        raise StepError(f"readers are one or more later stages, got {list(readers)}")
    blocks = [state.block(state.computed_stage(reader)) for reader in readers]
    copy = state.sch.cache_read(blocks[0], state.buffer(found), scope, blocks)
    axes = {f"ax{k}": None for k in range(found.rank)}
    state.insert(stage + 1, Stage(f"{found.name}.{scope}", axes, found.rank, copy))


@_step("CHW")
def cache_write(state: State, at: int, stage: int, scope: str) -> None:
    """Compute an unchanged stage in a cache, and copy the cache.

    The stage that computes keeps the number of the old one; the next stage is the copy.
    """
    found = state.undivided_stage(stage)
    if found.changes or not found.dimensions:
        raise StepError(f"only a stage with its original loops gets a cache; {found.described()}")
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
    """Compute partial results of a reduction, one for each iteration of one of its loops.

    The stage of the partial results keeps the number of the old one; `position` is the place of its
    new dimension, negative for the last. The next stage reduces the partial results. Only loops of
    the reduction may have been changed before.
    """
    found = state.undivided_stage(stage)
    rank, loop = found.rank, found.loop(iterator)
    if found.loops[:rank] != found.dimensions or iterator < rank or position > rank:
        raise StepError(
            f"it factors a loop of the reduction, after the {rank} original loops over the "
            f"elements of {found.name}; {found.described()}"
        )
    place = position if position >= 0 else rank
    kept = [k for k in range(rank, len(found.loops)) if k != iterator]
    order = [*range(place), iterator, *range(place, rank), *kept]
    block = state.block(found)
    partial = _rfactor_block(state, found, iterator, place, order)
    axes = {found.loops[k]: found.axes.get(found.loops[k]) for k in order}
    final = dict.fromkeys([*(f"ax{k}" for k in range(rank)), f"{loop}_v"])
    state.stages[stage] = Stage(f"{found.name}.repl", final, rank, block)
    state.insert(stage, Stage(f"{found.name}.rf", axes, rank + 1, partial))


def _rfactor_block(
    state: State, stage: Stage, iterator: int, place: int, order: Sequence[int]
) -> BlockRV:
    """Apply the changes of a reduction, rfactor one loop, and return the block of partial results.

    Both blocks get their axes in the order of their loops, in which `compute_at` makes new ones.
    """
    sch, block, loops = state.sch, state.block(stage), state.nest(stage)
    for change in stage.changes:
        loops = change.apply(sch, block, loops)
    partial = sch.rfactor(loops[iterator], place)
    nest = sch.get_loops(partial)
    _in_order(sch, [nest[k] for k in order], nest)
    for one in (partial, block):
        bound = list(sch.get_sref(one).block_realize.iter_values)
        variables = [sch.get(loop).loop_var for loop in sch.get_loops(one)]
        if len(variables) != len(bound) or any(var not in bound for var in variables):
            raise StepError(
                f"the remaining loops of the reduction {stage.name} are not its axes; fuse all of "
                "them before they are split"
            )
        axes = [bound.index(var) for var in variables]
        if axes != sorted(axes):
            sch.reorder_block_iter_var(one, axes)
    return partial
