"""Operators as formulas over te tensors; each declares an operator of graph functions.

>>> from tensorir import te, topi
>>> x = te.placeholder((2, 3), "float32", "x")
>>> topi.nn.relu(topi.add(x, x))
Tensor(relu, shape=(2, 3), dtype=float32)

The modules: `accumulation`, `broadcast`, `elementwise`, `extents`, `matmul`; the rooms `image`,
`nn`, `vision`.
"""

from tensorir.topi import image, nn, vision
from tensorir.topi.broadcast import add, equal, multiply, not_equal, subtract
from tensorir.topi.elementwise import astype, negative
from tensorir.topi.matmul import batch_matmul, dense, matmul

__all__ = [
    "add",
    "astype",
    "batch_matmul",
    "dense",
    "equal",
    "image",
    "matmul",
    "multiply",
    "negative",
    "nn",
    "not_equal",
    "subtract",
    "vision",
]
