"""The arrays that a graph function takes and returns: random inputs, and the parts of a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from codegen import BFloat16Array
from search.errors import TuningError
from search.runner.arguments import FLOATS, check_memory
from tensorir.arith import Analyzer
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.ops import const
from tensorir.relax.expr import GraphVar
from tensorir.relax.function import Function
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.rewriting.visit import substitute

Array: TypeAlias = "NDArray[Any] | BFloat16Array"

_SIZE: Final = 4
"""The size of a symbolic extent."""


def random_inputs(
    name: str, func: Function, given: Mapping[str, NDArray[Any]] | None = None, seed: int = 0
) -> dict[str, NDArray[Any]]:
    """Return arrays for the parameters of a graph function: normal floats, integers 0 and 1.

    Arrays in `given` are used unchanged, and define symbolic sizes; other sizes are 4. The same
    seed gives the same arrays. TuningError for a parameter that is not an array of a known rank and
    dtype, or whose size cannot be derived.
    """
    rng = np.random.default_rng(seed)
    known = given or {}
    sizes: dict[Var, PrimExpr] = {}
    for param in func.params:
        info = param.struct_info
        if param.name in known and isinstance(info, TensorStructInfo):
            for extent, size in zip(info.shape or (), known[param.name].shape, strict=False):
                if isinstance(extent, Var):
                    sizes.setdefault(extent, const(size, extent.dtype))
    return {
        param.name: known[param.name] if param.name in known else _random(name, param, sizes, rng)
        for param in func.params
    }


def _random(
    function: str, param: GraphVar, sizes: dict[Var, PrimExpr], rng: np.random.Generator
) -> NDArray[Any]:
    info = param.struct_info
    cannot = f"parameter {param.name!r} of {function} cannot get random values"
    if not isinstance(info, TensorStructInfo) or info.shape is None or info.dtype is None:
        raise TuningError(f"{cannot}: it is {info}")
    shape = []
    for extent in info.shape:
        if isinstance(extent, Var):
            sizes.setdefault(extent, const(_SIZE, extent.dtype))
        known = Analyzer().simplify(substitute(extent, sizes))
        if not isinstance(known, IntImm):
            raise TuningError(f"{cannot}: it has the extent {extent}")
        shape.append(known.value)
    check_memory([(f"parameter {param.name!r} of {function}", shape, info.dtype)])
    if info.dtype not in FLOATS:
        return np.asarray(rng.integers(0, 2, shape), info.dtype.to_numpy())
    if str(info.dtype) == "bfloat16":
        raise TuningError(f"{cannot}: its dtype is bfloat16")
    return np.asarray(rng.standard_normal(shape), info.dtype.to_numpy())


def arrays_in(result: Any) -> list[Array]:
    """Return the arrays of a result, with the arrays of nested tuples in order."""
    if isinstance(result, (tuple, list)):
        return [array for part in result for array in arrays_in(part)]
    return [result if isinstance(result, BFloat16Array) else np.asarray(result)]
