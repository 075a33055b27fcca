"""Operators that NumPy computes when the model runs, and what calls graph functions.

The modules: `data_dependent`, `detection`, `loop`, `random`, `run_time_axes`, `sizes`, `sorting`.
"""

from tensorir.relax.library import (
    data_dependent,
    detection,
    loop,
    random,
    run_time_axes,
    sizes,
    sorting,
)

__all__ = [
    "data_dependent",
    "detection",
    "loop",
    "random",
    "run_time_axes",
    "sizes",
    "sorting",
]
