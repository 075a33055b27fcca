"""The space generator that applies schedule rules block by block."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from schedule import BlockRV, Schedule
from schedule.random_state import RandomState
from search.errors import TuningError, blamed_on
from search.schedule_rule.schedule_rule import ApplyCustomRule, ScheduleRule, exists
from search.space_generator.annotations import SCHEDULE_RULE
from search.space_generator.design_space import DesignSpace
from search.space_generator.space_generator import (
    FROM_TARGET,
    MutatorsArg,
    PostprocsArg,
    RulesArg,
    SpaceGenerator,
)
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import post_order_visit

_MOST_SPACES: Final = 128
"""The maximum number of design spaces of a program: the designs of its blocks multiply."""
_SEED: Final = 1
_LOGGER: Final = logging.getLogger("tensorir.search")
"""The user's logger; the log of a task is written to a file only."""


@SpaceGenerator.kinds.register("post-order-apply")
class PostOrderApply(SpaceGenerator):
    """Applies one rule after another to every block, from the last block of the program back.

    A rule may turn a schedule into several, and later rules get all of them. Only blocks of the
    original program are visited, and only while they exist. A block with the annotation
    `schedule_rule` is left to `ApplyCustomRule`. `f_block_filter(block)` selects the blocks.

    The designs of one block are combined with those of all other blocks, up to 128 design spaces.
    If there are more, a random selection is kept that has each design of a block equally often.
    """

    def __init__(
        self,
        f_block_filter: Callable[[Block], bool] | None = None,
        sch_rules: RulesArg = FROM_TARGET,
        postprocs: PostprocsArg = FROM_TARGET,
        mutator_probs: MutatorsArg = FROM_TARGET,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.f_block_filter = f_block_filter

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """Return the design spaces; TuningError if two blocks of a function share a name."""
        return self.some_design_spaces(mod, _MOST_SPACES)

    def some_design_spaces(self, mod: IRModule, most: int) -> list[Schedule]:
        """Return at most `most` design spaces, the same ones in each call."""
        root = self.fresh_schedule(mod)
        blocks = self._collect(root, mod)
        spaces = [root]
        rng = RandomState(_SEED)
        for rule in self.sch_rules:
            spaces = _apply(rule, spaces, blocks, most, rng)
        return spaces

    def part_of(self, space: DesignSpace) -> DesignSpace:
        """Return the points of a space that fit the target: for a GPU those with small tiles."""
        if self.context is None or self.context.known_target.gpu is None:
            return space
        from search.space_generator.gpu_space import fitting_part  # noqa: PLC0415 - for GPUs only

        return fitting_part(space, self.context.program, self.context.known_target.gpu)

    def _collect(self, sch: Schedule, mod: IRModule) -> list[BlockRV]:
        found: list[BlockRV] = []
        for name, func in mod.prim_funcs().items():
            blocks = _blocks(func)
            if not blocks:
                _LOGGER.warning(
                    "Function %r has no block: nothing to schedule; write its statements as blocks",
                    name,
                )
            _check_names(name, blocks)
            for block in blocks:
                if self.f_block_filter is None or self.f_block_filter(block):
                    found.append(sch.get_block(block.name_hint, name))
        return found


def _blocks(func: PrimFunc) -> list[Block]:
    """Return the blocks of a function, inner ones before those around them."""
    blocks: list[Block] = []

    def visit(node: object) -> None:
        if isinstance(node, Block):
            blocks.append(node)

    post_order_visit(func.body, visit)
    return blocks


def _check_names(function: str, blocks: list[Block]) -> None:
    """Raise TuningError if two blocks share a name."""
    seen: set[str] = set()
    for block in blocks:
        if block.name_hint in seen:
            raise TuningError(
                f"function {function!r} has two blocks called {block.name_hint!r}; rules find "
                "blocks by name: give each block its own name"
            )
        seen.add(block.name_hint)


def _apply(
    rule: ScheduleRule,
    spaces: list[Schedule],
    all_blocks: list[BlockRV],
    most: int,
    rng: RandomState,
) -> list[Schedule]:
    """Apply one rule to every block of every schedule, last block first; keep at most `most`.

    The designs of a schedule replace it in the list, so that the order is stable.
    """
    for block in reversed(all_blocks):
        made: list[list[Schedule]] = []
        for sch in spaces:
            if not exists(sch, block) or (
                SCHEDULE_RULE in sch.get(block).annotations
                and not isinstance(rule, ApplyCustomRule)
            ):
                made.append([sch])
                continue
            with blamed_on(rule, partial(_block_text, sch, sch.get(block).name_hint)):
                made.append(rule.apply(sch, block))
        spaces = _choose_designs(made, most, rng)
    return spaces


def _choose_designs(made: list[list[Schedule]], most: int, rng: RandomState) -> list[Schedule]:
    """Return at most `most` of the designs of schedules, balanced over their rank in a schedule."""
    places = [(k, fork) for k, forks in enumerate(made) for fork in range(len(forks))]
    if len(places) > most:
        ranks, ranked = Counter[int](), []
        for draw, place in sorted((rng.uniform_real(), place) for place in places):
            ranks[place[1]] += 1
            ranked.append((ranks[place[1]], draw, place))
        places = sorted(place for *_, place in sorted(ranked)[:most])
    return [made[k][fork] for k, fork in places]


def _block_text(sch: Schedule, name: str) -> str:
    return f"block {name!r} of\n{sch.trace}"
