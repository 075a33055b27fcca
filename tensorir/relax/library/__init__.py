"""Operators that NumPy computes when the model runs; the modules: `data_dependent`, `sizes`."""

from tensorir.relax.library import data_dependent, sizes

__all__ = ["data_dependent", "sizes"]
