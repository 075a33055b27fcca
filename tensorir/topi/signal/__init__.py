"""Operators of signals; the modules: `fourier`."""

from tensorir.topi.signal.fourier import dft_matrix, frames

__all__ = ["dft_matrix", "frames"]
