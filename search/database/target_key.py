"""When records were made for the same target."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from codegen import Target

_NOTES: Final = frozenset({"keys", "device", "libs", "model", "tag"})
"""Options that change no code."""


@lru_cache(maxsize=256)
def target_key(target: Target) -> str:
    """Return a text that two targets share if the same code is made for both.

    These count: the kind, the CPU model, the features switched on and off (the last word on each),
    the triple, the width of vectors, the level of optimisation, and the number of cores, which
    bounds the threads of compiled code and shaped the design space. Notes such as `keys`, `model`
    and `tag` do not count. A target without a CPU model is the machine that the process runs on,
    so records of two machines are kept apart only if `mcpu` says which.
    """
    options = {name: value for name, value in target.to_dict().items() if name not in _NOTES}
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
