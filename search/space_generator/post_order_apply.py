"""Design spaces from rules, applied to one block after another."""

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
"""The design spaces of a program at most: several for each block multiply without end."""
_SEED: Final = 1
_LOGGER: Final = logging.getLogger("tensorir.search")
"""The logger that a user sees; the log of a task goes to its file only."""


@SpaceGenerator.kinds.register("post-order-apply")
class PostOrderApply(SpaceGenerator):
    """Applies each rule in turn to every block, from the last stage of the program to the first.

    A rule may turn a schedule into several, and the rules after it see them all. The blocks are
    those of the original program: what a rule adds is not visited, what one removed is skipped. A
    block with the annotation `schedule_rule` is left to `ApplyCustomRule`. `f_block_filter(block)`
    says which blocks are visited at all.

    What rules do to one block is combined with all that they do to others, as long as that makes no
    more than 128 design spaces; of more, a random part that has each form of a block as often as
    the others.
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
        """Return at most so many of the design spaces; the same ones each time."""
        root = self.fresh_schedule(mod)
        blocks = self._collect(root, mod)
        spaces = [root]
        rng = RandomState(_SEED)
        for rule in self.sch_rules:
            spaces = _apply(rule, spaces, blocks, most, rng)
        return spaces

    def _collect(self, sch: Schedule, mod: IRModule) -> list[BlockRV]:
        found: list[BlockRV] = []
        for name, func in mod.prim_funcs().items():
            blocks = _blocks(func)
            if not blocks:
                _LOGGER.warning(
                    "Function %r has no block, so there is nothing to schedule; "
                    "write what it computes as blocks",
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
    """Raise where a name does not say which block is meant."""
    seen: set[str] = set()
    for block in blocks:
        if block.name_hint in seen:
            raise TuningError(
                f"function {function!r} has two blocks called {block.name_hint!r}; give them "
                "different names, rules refer to blocks by name"
            )
        seen.add(block.name_hint)


def _apply(
    rule: ScheduleRule,
    spaces: list[Schedule],
    all_blocks: list[BlockRV],
    most: int,
    rng: RandomState,
) -> list[Schedule]:
    """Apply one rule to every block of every schedule, last block first; keep at most so many.

    Forks take the place of what they were made from, so that a rule that changes nothing leaves
    the order as it is.
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
            with blamed_on(rule, partial(_given, sch, sch.get(block).name_hint)):
                made.append(rule.apply(sch, block))
        spaces = _some(made, most, rng)
    return spaces


def _some(made: list[list[Schedule]], most: int, rng: RandomState) -> list[Schedule]:
    """Return at most so many of the forks of schedules, first and later ones in equal numbers."""
    places = [(k, fork) for k, forks in enumerate(made) for fork in range(len(forks))]
    if len(places) > most:
        ranks, ranked = Counter[int](), []
        for draw, place in sorted((rng.uniform_real(), place) for place in places):
            ranks[place[1]] += 1
            ranked.append((ranks[place[1]], draw, place))
        places = sorted(place for *_, place in sorted(ranked)[:most])
    return [made[k][fork] for k, fork in places]


def _given(sch: Schedule, name: str) -> str:
    return f"block {name!r} of\n{sch.trace}"
