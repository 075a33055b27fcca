"""The equality of targets, and the choice of records for a similar target.

Records for the requested target come first. Without any, records for a target are used that differs
only in `num-cores`: their schedules are correct on any number of cores, and may be slower than the
result of a search for that number. The options for instructions (`mcpu`, `mattr`, `mtriple`,
`vector-width`) and code generation (`opt-level`) must be equal: a record for another CPU is never
used.
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
"""Options that do not change the code."""
_CORES: Final = "num-cores"


@lru_cache(maxsize=256)
def target_key(target: Target) -> str:
    """Return a text that two targets share if the same code is generated for both.

    It contains the kind, the CPU model, the features (the last switch of each), the triple, the
    width of vectors, the level of optimisation, and the number of cores, which limits the threads
    of compiled code and shaped the design space. Notes such as `keys`, `model` and `tag` are
    ignored. A target without a CPU model is the machine of the process, so the records of two
    machines are distinguished only by `mcpu`.
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
    """True if a record is for the requested target; None accepts any.

    A record without a target is accepted only by None.
    """
    if asked is None:
        return True
    return of_record is not None and target_key(of_record) == target_key(asked)


def differ_in_cores(of_record: Target, asked: Target) -> bool:
    """True if two targets differ only in the number of cores."""
    return target_key(of_record) != target_key(asked) and (
        _key_without_cores(of_record) == _key_without_cores(asked)
    )


def for_other_cores(records: Iterable[TuningRecord], asked: Target) -> list[TuningRecord]:
    """Return the valid records for the nearest other number of cores.

    Of two equally near numbers (half and double) the greater is chosen. If the requested target has
    no number of cores, the greatest is chosen.
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
