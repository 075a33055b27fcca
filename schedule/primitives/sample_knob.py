"""Knobs: named decisions of a template, which the search may change.

The instruction records the candidates of a knob, so that a trace can be read without the template.
The instructions are not pure: a trace keeps every knob, even an unused one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from schedule.decisions.domain import (
    MOST_LISTED,
    CandidatesDomain,
    Decision,
    DecisionDomain,
    NoDecision,
    OptionDomain,
    plain_decision,
)
from schedule.decisions.knobs import (
    NO_LIMIT,
    SPLIT_POLICIES,
    LoopMarkDomain,
    PermutationDomain,
    SplitDomain,
    loop_marks,
)
from schedule.decisions.tiles import MOST_PARTS
from schedule.instruction import ChosenNumber, ChosenNumbers, ChosenWords, primitive
from schedule.state import ScheduleState

_KEPT: Final = 256
"""The number of domains kept: a search replays the same instructions thousands of times."""


@primitive("SampleKnobSplit")
def sample_knob_split(
    state: ScheduleState,
    knob: str,
    extent: int,
    parts: int,
    policy: str = "factors",
    max_factor: int = NO_LIMIT,
    no_tail: bool = True,
    candidates: Sequence[object] | None = None,
) -> ChosenNumbers:
    """Choose the sizes of a split by a policy, or from `candidates`.

    The first number is None, which `split` infers. The decision has the sizes of all parts,
    outermost first; its first is -1 if it is inferred.
    Raises ArgumentError for an invalid extent, number of parts, policy, candidates or decision, for
    no alternatives, and for more than a million.
    """
    if not 1 <= extent < 1 << 63:
        raise NoDecision("extent", f"is {extent}; it must be at least 1 and an int64")
    if not 1 <= parts <= MOST_PARTS:
        raise NoDecision("parts", f"is {parts}; it must be in [1, {MOST_PARTS}]")
    if candidates is None and policy not in SPLIT_POLICIES:
        reason = f"is {policy!r}; it must be one of {list(SPLIT_POLICIES)}, or give candidates"
        raise NoDecision("policy", reason)
    if candidates is None:
        return _first_equal(SplitDomain(extent, parts, policy, max_factor, no_tail))
    return _candidate_domain(SplitDomain(extent, parts), candidates)


@primitive("SampleKnobReorder")
def sample_knob_reorder(
    state: ScheduleState,
    knob: str,
    count: int,
    begin: int = 0,
    end: int | None = None,
    candidates: Sequence[object] | None = None,
) -> ChosenNumbers:
    """Choose an order of `count` loops, to be applied by `reorder_by`.

    Any order of positions `begin` to `end` - 1 (None: all), or one of `candidates`. The decision
    has the position of each loop in the new order.
    Raises ArgumentError for an invalid count, interval, candidates or decision.
    """
    last = count if end is None else end
    if not 1 <= count <= MOST_PARTS:
        raise NoDecision("count", f"is {count}; it must be in [1, {MOST_PARTS}]")
    if not 0 <= begin < last <= count:
        reason = f"is [{begin}, {last}); it must be a range in [0, {count}) that is not empty"
        raise NoDecision("begin", reason)
    if candidates is None:
        return PermutationDomain(count, begin, last)
    return _candidate_domain(PermutationDomain(count, 0, count), candidates)


@primitive("SampleKnobAnnotate")
def sample_knob_annotate(
    state: ScheduleState,
    knob: str,
    count: int,
    policy: str = "candidate",
    candidates: Sequence[object] | None = None,
) -> ChosenWords:
    """Choose which of `count` loops are vectorized and unrolled, to be applied by `mark_loops`.

    The words of a policy such as `try_unroll_vec` are what each loop may be; at most one is `vec`.
    A decision has `none`, `vec` or `unroll` for each; the numbers are 0, 1 and 2.
    Raises ArgumentError for an invalid count, policy, candidates or decision.
    """
    if not 1 <= count <= MOST_PARTS:
        raise NoDecision("count", f"is {count}; it must be in [1, {MOST_PARTS}]")
    if candidates is None:
        try:
            loop_marks(count, policy)
        except ValueError as error:
            raise NoDecision("policy", str(error)) from None
        return _first_equal(LoopMarkDomain(count, policy))
    return _candidate_domain(LoopMarkDomain(count, policy), candidates)


@primitive("SampleKnobOption")
def sample_knob_option(
    state: ScheduleState, knob: str, candidates: Sequence[object]
) -> ChosenNumber:
    """Choose one of `candidates`, anything that JSON can hold; all are equally likely.

    The number is the candidate if all candidates are int32 integers, else its index. The decision
    is the index.
    Raises ArgumentError without candidates, for a candidate that JSON cannot hold, and for a
    decision that is not an index.
    """
    if not candidates:
        raise NoDecision("candidates", "is empty; give at least one")
    try:
        labels = tuple(json.dumps(one, sort_keys=True, allow_nan=False) for one in candidates)
        if not all(map(_has_text_keys, candidates)):
            raise TypeError("the keys of a dict are strings")
    except (TypeError, ValueError) as error:
        reason = f"has a value that JSON cannot hold: {error}"
        raise NoDecision("candidates", reason) from None
    return _first_equal(OptionDomain(labels))


def _has_text_keys(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(k, str) and _has_text_keys(v) for k, v in value.items())
    return not isinstance(value, (list, tuple)) or all(map(_has_text_keys, value))


@lru_cache(maxsize=_KEPT)
def _first_equal(domain: DecisionDomain) -> DecisionDomain:
    """Return the first of several equal domains, whose list of alternatives exists already."""
    return domain


def _candidate_domain(whole: DecisionDomain, candidates: Sequence[object]) -> DecisionDomain:
    """Return the domain of some decisions of a kind; NoDecision for a decision of another kind."""
    try:
        return _candidates(whole, tuple(map(plain_decision, candidates)))
    except TypeError as error:
        raise NoDecision("candidates", f"has an entry of the wrong type: {error}") from None


@lru_cache(maxsize=_KEPT)
def _candidates(whole: DecisionDomain, candidates: tuple[Decision, ...]) -> CandidatesDomain:
    if not 1 <= len(candidates) <= MOST_LISTED:
        reason = f"has {len(candidates)} entries; it must have 1 to {MOST_LISTED}"
        raise NoDecision("candidates", reason)
    listed = []
    for position, candidate in enumerate(candidates):
        try:
            listed.append(whole.repair(candidate))
        except ValueError as error:
            raise NoDecision(f"candidates[{position}]", str(error)) from None
    return CandidatesDomain(whole, tuple(listed))
