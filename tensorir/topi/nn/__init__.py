"""Operators of neural networks."""

from tensorir.topi.nn.activation import relu

__all__ = ["relu"]
