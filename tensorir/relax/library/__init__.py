"""Operators that NumPy computes at run time.

The modules: `data_dependent`, `detection`, `loop`, `random`, `run_time_axes`, `sequences`, `sizes`,
`sorting`.
"""

from tensorir.relax.library import (
    data_dependent,
    detection,
    loop,
    random,
    run_time_axes,
    sequences,
    sizes,
    sorting,
)

__all__ = [
    "data_dependent",
    "detection",
    "loop",
    "random",
    "run_time_axes",
    "sequences",
    "sizes",
    "sorting",
]
