"""Operators that NumPy computes at run time.

The modules: `data_dependent`, `loop`, `random`, `run_time_axes`, `sequences`, `sorting`.
"""

from tensorir.relax.library import (
    data_dependent,
    loop,
    random,
    run_time_axes,
    sequences,
    sorting,
)

__all__ = [
    "data_dependent",
    "loop",
    "random",
    "run_time_axes",
    "sequences",
    "sorting",
]
