"""Operators that NumPy computes when the model runs; the modules: `data_dependent`."""

from tensorir.relax.library import data_dependent

__all__ = ["data_dependent"]
