"""Random arguments of graph functions; symbolic sizes get one value each."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.relax.function import Function
from tensorir.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tensorir.rewriting.visit import walk


def random_arguments(func: Function, rng: np.random.Generator) -> list[Any]:
    """Return arrays of small numbers, tuples of such, shapes and integers."""
    sizes: dict[Var, int] = {}
    return [_argument(param.struct_info, sizes, rng) for param in func.params]


def _argument(info: StructInfo, sizes: dict[Var, int], rng: np.random.Generator) -> Any:
    if isinstance(info, TupleStructInfo):
        return tuple(_argument(part, sizes, rng) for part in info.elements)
    if isinstance(info, PrimStructInfo):
        return 0 if info.value is None else _number(info.value, sizes, rng)
    if isinstance(info, ShapeStructInfo):
        return tuple(_number(n, sizes, rng) for n in info.values or ())
    assert isinstance(info, TensorStructInfo)
    assert info.shape is not None
    assert info.dtype is not None
    shape = [_number(n, sizes, rng) for n in info.shape]
    high = 2 if info.dtype == "bool" else 4
    return np.asarray(rng.integers(0, high, shape)).astype(info.dtype.to_numpy())


def _number(extent: PrimExpr, sizes: dict[Var, int], rng: np.random.Generator) -> int:
    """Return an extent: a number, a size, or twice a size."""
    if isinstance(extent, IntImm):
        return extent.value
    if isinstance(extent, Var):
        return sizes.setdefault(extent, int(rng.integers(0, 6)))
    factor, var = 1, extent
    for part in walk(extent):
        if isinstance(part, IntImm):
            factor = part.value
        elif isinstance(part, Var):
            var = part
    return factor * _number(var, sizes, rng)
