"""The feature extractor of the default cost model: one row of features for a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from codegen.target import as_target
from search.feature_extractor.compiled_space import CompiledSpace
from search.feature_extractor.feature_extractor import (
    EstimatingExtractor,
    FeatureExtractor,
    PackedFeatures,
)
from search.feature_extractor.machine import Machine
from search.feature_extractor.nest_columns import COLUMNS, StoreColumns, columns_of
from search.feature_extractor.nests import REGISTERS, Nest, Numbers, ProgramShape, Work, nests
from search.feature_extractor.read_nests import read_nests
from search.postproc.rewrite_register_tile import RewriteRegisterTile

if TYPE_CHECKING:
    from search.runner.measure_candidate import MeasureCandidate
    from search.space_generator.design_space import Decisions, DesignSpace
    from search.task import Task
    from tensorir.function import IRModule

_AT_ONCE: Final = 1024
"""The number of points that are computed together, so that arrays fit the caches."""
_OF_PROGRAM: Final = (
    ("time", "log2 of the estimated time relative to the minimum time of the program"),
    ("longest", "log2 of the estimated time of the longest store relative to the same"),
    ("share", "the fraction of the estimated time for the longest store"),
    ("all_cycles", "log2 of the estimated cycles of all stores"),
    ("stores", "the number of stores"),
)


@FeatureExtractor.kinds.register("nest-feature")
class NestFeature(EstimatingExtractor):
    """Features of the speed of the loop nests of a program on the target.

    A candidate has one row: the columns of `nest_columns.COLUMNS` for the store with the longest
    estimated time (`main.`), their means over all stores, weighted by estimated time (`mean.`), and
    five columns of the whole program. `names` lists them.

    The features are computed from the program before postprocessing, and include the expected
    effect of the postprocessors for CPUs. If no postprocessor of the space makes register tiles,
    reductions have none. A `match_buffer` view counts as a part of its buffer. The sizes of caches
    and registers are those of the target.
    """

    names: ClassVar = (
        *(f"main.{name}" for name, _ in COLUMNS),
        *(f"mean.{name}" for name, _ in COLUMNS),
        *(name for name, _ in _OF_PROGRAM),
    )
    """The columns."""

    def __init__(self) -> None:
        self._spaces: WeakKeyDictionary[DesignSpace, CompiledSpace] = WeakKeyDictionary()
        self._least_of: tuple[IRModule | None, float] = (None, 1.0)

    def extract_from(
        self, context: Task, candidates: Sequence[MeasureCandidate]
    ) -> list[NDArray[np.float64]]:
        """Return an array [1, columns] for each candidate, without a row if nothing is stored."""
        groups: dict[ProgramShape, list[tuple[int, NDArray[np.float64]]]] = {}
        for k, candidate in enumerate(candidates):
            mod = candidate.sch.state.before_postproc or candidate.sch.mod
            program, numbers = read_nests(mod)
            if not _tiles_registers(context, candidate):
                numbers = _without_tiles(numbers)
            groups.setdefault(program, []).append((k, numbers))
        machine, least = _machine(context), self._least(context)
        result = [np.zeros((0, len(self.names)))] * len(candidates)
        numbers_of = {p: np.array([own for _, own in found]).T for p, found in groups.items()}
        for found, rows in zip(
            groups.values(), nest_features(numbers_of, machine, least), strict=True
        ):
            for (k, _), row in zip(found, rows, strict=len(rows) > 0):
                result[k] = row[None]
        return result

    def extract_points(
        self, context: Task, space: DesignSpace, decisions: Sequence[Decisions]
    ) -> PackedFeatures | None:
        """Return one row for each point, but none for points that `CompiledSpace` leaves out.

        The first calls for a space, and for each of its structures, replay some points.
        """
        if context.mod is None:
            return None
        compiled = self._spaces.get(space)
        if compiled is None:
            compiled = CompiledSpace(space, context.mod, budget=context.budget)
            self._spaces[space] = compiled
        machine, least = _machine(context), self._least(context)
        rows = [np.zeros((0, len(self.names)))]
        owner = [np.zeros(0, np.int64)]
        tiles = _tiles_registers(context)
        for program, numbers, members in compiled.numbers(decisions):
            if not tiles:
                numbers = _without_tiles(numbers)
            for start in range(0, len(members) if program.stores else 0, _AT_ONCE):
                part = slice(start, start + _AT_ONCE)
                rows += nest_features({program: numbers[:, part]}, machine, least)
                owner.append(members[part])
        return PackedFeatures(
            np.concatenate(rows).astype(np.float32), np.concatenate(owner), len(decisions)
        )

    def check(
        self,
        context: Task,
        space: DesignSpace,
        decisions: Decisions,
        candidate: MeasureCandidate,
    ) -> bool:
        """Return True if the features computed from a point equal those of its candidate.

        True also if none are computed; otherwise the structure of the point is withdrawn.
        """
        compiled = self._spaces.get(space)
        packed = None if compiled is None else self.extract_points(context, space, [decisions])
        if compiled is None or packed is None or not len(packed.rows):
            return True
        (rows,) = self.extract_from(context, [candidate])
        same = rows.shape == packed.rows.shape and np.allclose(rows, packed.rows, 1e-4, 1e-4)
        if not same:
            compiled.withdraw(decisions)
        return same

    def _least(self, context: Task) -> float:
        if self._least_of[0] is not context.mod:
            self._least_of = (context.mod, least_cycles(context))
        return self._least_of[1]


def _machine(context: Task) -> Machine:
    return Machine.of(as_target(context.target), context.weights_are_cold)


def nest_features(
    programs: Mapping[ProgramShape, Numbers], machine: Machine, least: float
) -> list[NDArray[np.float64]]:
    """Return an array [programs, columns] for each structure, without rows if nothing is stored.

    `least` is the minimum time of the program in cycles, to which `time` is relative.
    """
    found = [
        nests(program, numbers, leave_out_unit_loops=True) for program, numbers in programs.items()
    ]
    return [
        _features(stores, least) if stores else np.zeros((0, len(NestFeature.names)))
        for stores in columns_of(found, machine)
    ]


def _features(stores: Sequence[StoreColumns], least: float) -> NDArray[np.float64]:
    cycles = np.array([store.cycles for store in stores])
    total = cycles.sum(0)
    longest = cycles.argmax(0)
    # Adding store by store makes the sum independent of the number of programs.
    main, mean = np.zeros_like(stores[0].columns), np.zeros_like(stores[0].columns)
    for k, store in enumerate(stores):
        main = np.where(longest == k, store.columns, main)
        mean += store.columns * (cycles[k] / total)
    top = cycles.max(0)
    whole = (np.log2(total / least), np.log2(top / least), top / total, np.log2(total))
    count = np.full(len(total), len(stores))
    return np.concatenate([main, mean, [*whole, count]]).T


def _tiles_registers(context: Task, candidate: MeasureCandidate | None = None) -> bool:
    """Return True if a postprocessor makes register tiles.

    Without a space generator, this is assumed if the candidate was postprocessed.
    """
    known = context.is_finished_by(RewriteRegisterTile)
    if known is not None:
        return known
    return candidate is not None and candidate.sch.state.before_postproc is not None


def _without_tiles(numbers: Numbers) -> Numbers:
    """Return the numbers of the same programs without register tiles."""
    changed = numbers.copy()
    changed[REGISTERS] = 0
    return changed


def least_cycles(context: Task) -> float:
    """Return the cycles of the arithmetic of the unscheduled program."""
    total = 1.0
    if context.mod is None:
        return total
    machine = Machine.of(as_target(context.target))
    program, numbers = read_nests(context.mod)
    for store in program.stores:
        if store.is_init:
            continue
        nest = Nest(program, store, numbers[:, None])
        lanes = machine.vector_bits / (8 * max(nest.item_bytes))
        each = max(1, store.work[Work.ARITHMETIC]) / machine.fma_units
        each += 10 * store.work[Work.FUNCTION] + 4 * store.work[Work.DIVISION]
        total += float(nest.extents.prod()) * each / lanes
    return total
