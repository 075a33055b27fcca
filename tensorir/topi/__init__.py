"""Operators as formulas over te tensors; each declares an operator of graph functions.

>>> from tensorir import te, topi
>>> x = te.placeholder((2, 3), "float32", "x")
>>> topi.nn.relu(topi.add(x, x))
Tensor(relu, shape=(2, 3), dtype=float32)

`topi.nn.relu` is the formula of `relax.op.nn.relu`; importing this package imports every module in
it. The modules: `arithmetic`, `broadcast`, `contraction`, `creation`, `elementwise`, `extents`,
`indexing`, `joining`, `matmul`, `names`, `quantization`, `reduction`, `reshaping`, `scan`,
`scattering`; the subpackages `image`, `nn`, `vision`.
"""

from typing import TYPE_CHECKING, Any

from tensorir.topi.names import formulas

_FORMULAS = formulas(__name__)
_FORMULAS |= {name: formulas(f"{__name__}.nn", "nn.")[name] for name in ("batch_matmul", "dense")}

__all__ = sorted([*_FORMULAS, "image", "nn", "vision"])


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


globals().update(_FORMULAS)
