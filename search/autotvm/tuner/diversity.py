"""Choosing candidates that differ."""

from __future__ import annotations

from collections.abc import Sequence


def submodular_pick(
    scores: Sequence[float],
    knobs: Sequence[Sequence[int]],
    n_pick: int,
    knob_weight: float = 1.0,
) -> list[int]:
    """Return the places of `n_pick` candidates, chosen one after the other.

    Each time it is the one with the highest sum of its score and `knob_weight` for each knob whose
    value none chosen before has. `knobs` has the values of each candidate. The gain of a candidate
    only falls while others are chosen (it is submodular), which is why the greedy choice is good.
    """
    used: list[set[int]] = [set() for _ in (knobs[0] if knobs else ())]
    left = list(range(len(scores)))
    picked: list[int] = []

    def gain(place: int) -> float:
        new = sum(value not in seen for value, seen in zip(knobs[place], used, strict=True))
        return scores[place] + knob_weight * new

    while left and len(picked) < n_pick:
        place = max(left, key=gain)
        left.remove(place)
        picked.append(place)
        for value, seen in zip(knobs[place], used, strict=True):
            seen.add(value)
    return picked
