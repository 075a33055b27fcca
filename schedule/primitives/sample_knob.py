"""Knobs: named decisions of a template, that the search may take differently.

What a knob offers stands in the instruction, so that a trace tells it without the template. The
instructions are not pure: a trace keeps each knob, also one that changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from schedule.decisions.domain import (
    MOST_LISTED,
    CandidatesDomain,
    Decision,
    DecisionDomain,
    OptionDomain,
    plain_decision,
)
from schedule.decisions.knobs import (
    MARKS,
    NO_LIMIT,
    SPLIT_POLICIES,
    LoopMarkDomain,
    PermutationDomain,
    SplitDomain,
    loop_marks,
)
from schedule.decisions.tiles import MOST_PARTS
from schedule.errors import ArgumentError
from schedule.instruction import Number, Numbers, Sampled, primitive
from schedule.random_state import RandomState
from schedule.state import ScheduleState

_KEPT: Final = 256
"""The number of domains kept: a search replays the same instructions thousands of times."""


def knob_split_domain(
    state: ScheduleState,
    knob: str,
    extent: int,
    parts: int,
    policy: str = "factors",
    max_factor: int = NO_LIMIT,
    no_tail: bool = True,
    candidates: Sequence[object] | None = None,
) -> DecisionDomain:
    """Return the splits of an extent; ArgumentError if the policy cannot split it."""
    method = "sample_knob_split"
    if not 1 <= extent < 1 << 63:
        raise ArgumentError(method, "extent", f"is {extent}; it must be at least 1 and an int64")
    if not 1 <= parts <= MOST_PARTS:
        raise ArgumentError(method, "parts", f"is {parts}; it must be in [1, {MOST_PARTS}]")
    if candidates is None and policy not in SPLIT_POLICIES:
        reason = f"is {policy!r}; it must be one of {list(SPLIT_POLICIES)}, or give candidates"
        raise ArgumentError(method, "policy", reason)
    if candidates is None:
        return _kept(SplitDomain(extent, parts, policy, max_factor, no_tail))
    return _listed(method, SplitDomain(extent, parts), candidates)


@primitive("SampleKnobSplit", domain=knob_split_domain)
def sample_knob_split(
    state: ScheduleState,
    knob: str,
    extent: int,
    parts: int,
    policy: str = "factors",
    max_factor: int = NO_LIMIT,
    no_tail: bool = True,
    candidates: Sequence[object] | None = None,
    *,
    domain: DecisionDomain,
    rng: RandomState,
    decision: Sequence[int] | None = None,
) -> Numbers:
    """Choose the sizes of a split by a policy, or from `candidates`.

    The first number is None, which `split` infers. The decision has the sizes of all parts,
    outermost first; its first is -1 where that means what is left.
    Raises ArgumentError for an extent, a number of parts, a policy, candidates or a decision that
    cannot be, for no alternatives, and for more than a million.
    """
    sizes = _decided("sample_knob_split", domain, rng, decision)
    return Sampled([None, *sizes[1:]], sizes)


def knob_reorder_domain(
    state: ScheduleState,
    knob: str,
    count: int,
    begin: int = 0,
    end: int | None = None,
    candidates: Sequence[object] | None = None,
) -> DecisionDomain:
    """Return the orders of `count` loops; ArgumentError for a count or range out of bounds."""
    method = "sample_knob_reorder"
    last = count if end is None else end
    if not 1 <= count <= MOST_PARTS:
        raise ArgumentError(method, "count", f"is {count}; it must be in [1, {MOST_PARTS}]")
    if not 0 <= begin < last <= count:
        reason = f"is [{begin}, {last}); it must be a range in [0, {count}) that is not empty"
        raise ArgumentError(method, "begin", reason)
    if candidates is None:
        return PermutationDomain(count, begin, last)
    return _listed(method, PermutationDomain(count, 0, count), candidates)


@primitive("SampleKnobReorder", domain=knob_reorder_domain)
def sample_knob_reorder(
    state: ScheduleState,
    knob: str,
    count: int,
    begin: int = 0,
    end: int | None = None,
    candidates: Sequence[object] | None = None,
    *,
    domain: DecisionDomain,
    rng: RandomState,
    decision: Sequence[int] | None = None,
) -> Numbers:
    """Choose an order of `count` loops, to be applied by `reorder_by`.

    Any order of positions `begin` to `end` - 1 (None: all), or one of `candidates`. The decision
    has the position of each loop in the new order.
    Raises ArgumentError for a count, an interval, candidates or a decision that cannot be.
    """
    order = _decided("sample_knob_reorder", domain, rng, decision)
    return Sampled(list(order), order)


def knob_annotate_domain(
    state: ScheduleState,
    knob: str,
    count: int,
    policy: str = "candidate",
    candidates: Sequence[object] | None = None,
) -> DecisionDomain:
    """Return the ways to mark `count` loops; ArgumentError for a bad count, policy or candidate."""
    method = "sample_knob_annotate"
    if not 1 <= count <= MOST_PARTS:
        raise ArgumentError(method, "count", f"is {count}; it must be in [1, {MOST_PARTS}]")
    if candidates is None:
        try:
            loop_marks(count, policy)
        except ValueError as error:
            raise ArgumentError(method, "policy", str(error)) from None
        return _kept(LoopMarkDomain(count, policy))
    return _listed(method, LoopMarkDomain(count, policy), candidates)


@primitive("SampleKnobAnnotate", domain=knob_annotate_domain)
def sample_knob_annotate(
    state: ScheduleState,
    knob: str,
    count: int,
    policy: str = "candidate",
    candidates: Sequence[object] | None = None,
    *,
    domain: DecisionDomain,
    rng: RandomState,
    decision: Sequence[str] | None = None,
) -> Numbers:
    """Choose which of `count` loops are vectorized and unrolled, to be applied by `mark_loops`.

    The words of a policy such as `try_unroll_vec` are what each loop may be; at most one is `vec`.
    A decision has `none`, `vec` or `unroll` for each; the numbers are 0, 1 and 2.
    Raises ArgumentError for a count, a policy, candidates or a decision that cannot be.
    """
    marks = _decided("sample_knob_annotate", domain, rng, decision)
    return Sampled([MARKS.index(mark) for mark in marks], marks)


def knob_option_domain(
    state: ScheduleState, knob: str, candidates: Sequence[object]
) -> OptionDomain:
    """Return the indices of the candidates; ArgumentError if none, or if JSON cannot hold them."""
    if not candidates:
        raise ArgumentError("sample_knob_option", "candidates", "is empty; give at least one")
    try:
        labels = tuple(json.dumps(one, sort_keys=True, allow_nan=False) for one in candidates)
        if not all(map(_has_text_keys, candidates)):
            raise TypeError("the keys of a dict are strings")
    except (TypeError, ValueError) as error:
        reason = f"has a value that JSON cannot hold: {error}"
        raise ArgumentError("sample_knob_option", "candidates", reason) from None
    return OptionDomain(labels)


def _has_text_keys(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(k, str) and _has_text_keys(v) for k, v in value.items())
    return not isinstance(value, (list, tuple)) or all(map(_has_text_keys, value))


@primitive("SampleKnobOption", domain=knob_option_domain)
def sample_knob_option(
    state: ScheduleState,
    knob: str,
    candidates: Sequence[object],
    *,
    domain: OptionDomain,
    rng: RandomState,
    decision: int | None = None,
) -> Number:
    """Choose one of `candidates`, anything that JSON can hold; all are equally likely.

    The number is the candidate where all are whole numbers of int32, else its index. The decision
    is the index.
    Raises ArgumentError without candidates, for one that JSON cannot hold, and for a decision that
    is no index.
    """
    index = _decided("sample_knob_option", domain, rng, decision)
    chosen = candidates[index]
    return Sampled(chosen if isinstance(chosen, int) and are_numbers(candidates) else index, index)


def are_numbers(candidates: Sequence[object]) -> bool:
    """Say whether all candidates are whole numbers of int32."""
    return all(type(one) is int and -(1 << 31) <= one < 1 << 31 for one in candidates)


@lru_cache(maxsize=_KEPT)
def _kept(domain: DecisionDomain) -> DecisionDomain:
    """Return the first of several equal domains, which has its alternatives listed already."""
    return domain


def _listed(method: str, whole: DecisionDomain, candidates: Sequence[object]) -> DecisionDomain:
    """Return the domain of some decisions of a kind; ArgumentError for one of another kind."""
    try:
        return _candidates(method, whole, tuple(map(plain_decision, candidates)))
    except TypeError as error:
        raise ArgumentError(
            method, "candidates", f"has an entry of the wrong type: {error}"
        ) from None


@lru_cache(maxsize=_KEPT)
def _candidates(
    method: str, whole: DecisionDomain, candidates: tuple[Decision, ...]
) -> CandidatesDomain:
    if not 1 <= len(candidates) <= MOST_LISTED:
        reason = f"has {len(candidates)} entries; it must have 1 to {MOST_LISTED}"
        raise ArgumentError(method, "candidates", reason)
    listed = []
    for position, candidate in enumerate(candidates):
        try:
            listed.append(whole.repair(candidate))
        except ValueError as error:
            raise ArgumentError(method, f"candidates[{position}]", str(error)) from None
    return CandidatesDomain(whole, tuple(listed))


def _decided(method: str, domain: DecisionDomain, rng: RandomState, decision: Any) -> Any:
    """Return the decision or draw one; ArgumentError if the domain is empty or lacks it."""
    try:
        if decision is None and domain.size == 0:
            raise ArgumentError(method, "candidates", "leave nothing to choose")
        return domain.decide(rng, decision)
    except ArgumentError:
        raise
    except ValueError as error:
        path = "parts" if decision is None else "decision"
        raise ArgumentError(method, path, str(error)) from None
