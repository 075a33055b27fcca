"""The number of cores that a search counts on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search.errors import TuningError

if TYPE_CHECKING:
    from search.context import TuneContext


def target_cores(context: TuneContext) -> int:
    """Return the `num-cores` of the target of a task; TuningError if it does not say."""
    target = context.target
    if target is None or target.num_cores is None:
        raise TuningError(
            f"the target {target} does not say how many cores it has; "
            'add num-cores, as in "llvm -num-cores=8"'
        )
    return target.num_cores
