"""The design space that the arguments of `tune_tir` describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from search.errors import TuningError
from search.mutator.mutator import Mutator
from search.postproc.postproc import Postproc
from search.schedule_rule.schedule_rule import ScheduleRule
from search.space_generator import SpaceGenerator

T = TypeVar("T")
Space: TypeAlias = "SpaceGenerator | str | Callable[..., Any]"
Rules: TypeAlias = "Sequence[ScheduleRule] | str | Callable[[], Sequence[ScheduleRule]]"
Postprocs: TypeAlias = "Sequence[Postproc] | str | Callable[[], Sequence[Postproc]]"
MutatorProbs: TypeAlias = "Mapping[Mutator, float] | str | Callable[[], Mapping[Mutator, float]]"


def space_from_parts(
    space: Space | None = None,
    blocks: Sequence[str] | None = None,
    sch_rules: Rules | None = None,
    postprocs: Postprocs | None = None,
    mutator_probs: MutatorProbs | None = None,
) -> SpaceGenerator:
    """Return a space generator; parts that are not given are the defaults of the target.

    `blocks` restricts the rules to blocks of these names. The last three are given as in the
    constructor of a space generator, or as functions without parameters that return that.
    TuningError for arguments that exclude each other, IRValueError for parts of another kind.
    """
    given = {"sch_rules": sch_rules, "postprocs": postprocs, "mutator_probs": mutator_probs}
    parts: dict[str, Any] = {name: _made(part) for name, part in given.items() if part is not None}
    if blocks is not None:
        if space is not None:
            raise TuningError("give either blocks, which filters the default space, or space")
        names = frozenset(blocks)
        parts["f_block_filter"] = lambda block: block.name_hint in names
    if isinstance(space, SpaceGenerator) and parts:
        raise TuningError(
            f"{', '.join(parts)} cannot be given beside a finished space generator; "
            "pass them to its constructor"
        )
    return SpaceGenerator.create("post-order-apply" if space is None else space, **parts)


def _made(part: T | Callable[[], T]) -> T | Any:
    return part() if callable(part) and not isinstance(part, type) else part
