"""The rules by which records are for the same target, or of use though they are for another one.

Records for the target that is asked for come first. Where there are none, those for a target answer
that differs in `num-cores` alone: their schedules compute the same on any number of cores, and are
perhaps slower than what a search for that number would find. What says which instructions there are
(`mcpu`, `mattr`, `mtriple`, `vector-width`) and how code is made of them (`opt-level`) has to be
the same: a record for another CPU never answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import log2
from typing import TYPE_CHECKING, Final

from codegen import Target

if TYPE_CHECKING:
    from search.database.records import TuningRecord

_NOTES: Final = frozenset({"keys", "device", "libs", "model", "tag"})
"""Options that change no code."""
_CORES: Final = "num-cores"


@lru_cache(maxsize=256)
def target_key(target: Target) -> str:
    """Return a text that two targets share if the same code is made for both.

    These count: the kind, the CPU model, the features switched on and off (the last word on each),
    the triple, the width of vectors, the level of optimisation, and the number of cores, which
    bounds the threads of compiled code and shaped the design space. Notes such as `keys`, `model`
    and `tag` do not count. A target without a CPU model is the machine that the process runs on,
    so records of two machines are kept apart only if `mcpu` says which.
    """
    return _key(target, _NOTES)


@lru_cache(maxsize=256)
def _key_without_cores(target: Target) -> str:
    return _key(target, _NOTES | {_CORES})


def _key(target: Target, left_out: frozenset[str]) -> str:
    options = {name: value for name, value in target.to_dict().items() if name not in left_out}
    options["opt-level"] = target.opt_level
    features = {change[1:]: change for change in target.mattr}
    if features:
        options["mattr"] = ",".join(features[name] for name in sorted(features))
    kind = str(options.pop("kind"))
    return " ".join([kind, *(f"-{name}={options[name]}" for name in sorted(options))])


def same_target(of_record: Target | None, asked: Target | None) -> bool:
    """Say whether a record answers for a target; None asks for any.

    A record without a target answers only who asks for any.
    """
    if asked is None:
        return True
    return of_record is not None and target_key(of_record) == target_key(asked)


def differ_in_cores(of_record: Target, asked: Target) -> bool:
    """Say whether two targets differ in the number of cores and in nothing else."""
    return target_key(of_record) != target_key(asked) and (
        _key_without_cores(of_record) == _key_without_cores(asked)
    )


def for_other_cores(records: Iterable[TuningRecord], asked: Target) -> list[TuningRecord]:
    """Return those of records that were made for another number of cores, the nearest one.

    Of two numbers that are as near (half and twice as many) it is the greater. A target that does
    not say how many is nearest to the most.
    """
    found = [r for r in records if r.is_valid and r.target and differ_in_cores(r.target, asked)]
    if not found:
        return []
    distance = {r.target: _distance(r.target, asked) for r in found if r.target}
    least = min(distance.values())
    return [r for r in found if r.target and distance[r.target] == least]


def _distance(target: Target, asked: Target) -> tuple[float, int]:
    cores = target.num_cores or 1
    return (abs(log2(cores / asked.num_cores)) if asked.num_cores else 0.0, -cores)
