"""Operators that NumPy computes when the model runs; the modules: `data_dependent`, `loop`."""

from tensorir.relax.library import data_dependent, loop

__all__ = ["data_dependent", "loop"]
