"""Operators that NumPy computes when the model runs, and what calls graph functions.

The modules: `data_dependent`, `loop`, `run_time_axes`, `sizes`.
"""

from tensorir.relax.library import data_dependent, loop, run_time_axes, sizes

__all__ = ["data_dependent", "loop", "run_time_axes", "sizes"]
