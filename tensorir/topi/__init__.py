"""Operators as formulas over te tensors; each declares an operator of graph functions.

>>> from tensorir import te, topi
>>> x = te.placeholder((2, 3), "float32", "x")
>>> topi.nn.relu(topi.add(x, x))
Tensor(relu, shape=(2, 3), dtype=float32)

The modules: `broadcast`, `elementwise`; the room `nn`.
"""

from tensorir.topi import nn
from tensorir.topi.broadcast import add, equal, multiply, not_equal, subtract
from tensorir.topi.elementwise import astype, negative

__all__ = ["add", "astype", "equal", "multiply", "negative", "nn", "not_equal", "subtract"]
