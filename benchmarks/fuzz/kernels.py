"""Tensor functions and library functions that random graphs call.

All arithmetic is exact or rounded once, so results are compared bit by bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorir import parse, te
from tensorir.function import PrimFunc
from tensorir.memory.reshaping import unravel_index
from tensorir.nodes.expr import IntImm, PrimExpr

KERNELS: Final = {
    # name: (buffers and scalars, statement); X are those read, Y those written.
    "add": ("X0 X1 Y0", "Y0[{i}] = X0[{i}] + X1[{i}]"),
    "twice": ("X0 Y0", "Y0[{i}] = X0[{i}] + X0[{i}]"),
    "negate": ("X0 Y0", "Y0[{i}] = {zero} - X0[{i}]"),
    "decrement": ("X0 Y0", "Y0[{i}] = X0[{i}] - {one}"),
    "fill": ("Y0", "Y0[{i}] = {one}"),
    "both": ("X0 X1 Y0 Y1", "Y0[{i}] = X0[{i}] + X1[{i}]; Y1[{i}] = X0[{i}] - X1[{i}]"),
    "increment": ("Y0", "Y0[{i}] = Y0[{i}] + {one}"),
    "accumulate": ("Y0 X0", "Y0[{i}] = Y0[{i}] + X0[{i}]"),
    "exchange": ("Y0 Y1", "Y0[{i}] = Y0[{i}] + Y1[{i}]; Y1[{i}] = Y0[{i}] - Y1[{i}]"),
    "previous": ("Y0 Y1", "Y1[{i}] = Y0[{i}]; Y0[{i}] = Y0[{i}] + {one}"),
    "add_scalar": ("X0 Y0 k", "Y0[{i}] = X0[{i}] + T.cast(k, {dtype!r})"),
    "packed": ("X0 X1 Y0", 'T.evaluate(T.call_packed("random_graphs.add_to", X0, X1, Y0))'),
}

BOOL_KERNELS: Final = {
    **KERNELS,
    "add": ("X0 X1 Y0", "Y0[{i}] = X0[{i}] or X1[{i}]"),
    "twice": ("X0 Y0", "Y0[{i}] = X0[{i}]"),
    "negate": ("X0 Y0", "Y0[{i}] = not X0[{i}]"),
    "decrement": ("X0 Y0", "Y0[{i}] = not X0[{i}]"),
    "both": ("X0 X1 Y0 Y1", "Y0[{i}] = X0[{i}] or X1[{i}]; Y1[{i}] = X0[{i}] and X1[{i}]"),
    "increment": ("Y0", "Y0[{i}] = not Y0[{i}]"),
    "accumulate": ("Y0 X0", "Y0[{i}] = Y0[{i}] or X0[{i}]"),
    "exchange": ("Y0 Y1", "Y0[{i}] = Y0[{i}] or Y1[{i}]; Y1[{i}] = Y0[{i}] and not Y1[{i}]"),
    "previous": ("Y0 Y1", "Y1[{i}] = Y0[{i}]; Y0[{i}] = not Y0[{i}]"),
    "add_scalar": ("X0 Y0 k", "Y0[{i}] = X0[{i}] or k > T.int64(1)"),
}

IN_PLACE: Final = {
    # name: which argument each output overwrites
    "increment": (0,),
    "accumulate": (0,),
    "exchange": (0, 1),
    "previous": (0, -1),
}


def kernel_name(kind: str, shape: tuple[int | str, ...], dtype: str) -> str:
    """Return the name of a tensor function in a module."""
    return "_".join([kind, *map(str, shape), dtype])


@cache
def kernel(kind: str, shape: tuple[int | str, ...], dtype: str) -> PrimFunc:
    """Return a tensor function; an extent that is a str is a symbolic size."""
    params, body = (BOOL_KERNELS if dtype == "bool" else KERNELS)[kind]
    rank = len(shape)
    sizes = sorted({n for n in shape if isinstance(n, str)})
    names = params.split()
    head = ", ".join("k: T.int64" if p == "k" else f"{p.lower()}_: T.handle" for p in names)
    extents = ", ".join(map(str, shape)) + ("," if rank == 1 else "")
    index = ", ".join(f"v{d}" for d in range(rank)) if rank else "()"
    zero, one = (f"T.{dtype}({v})" for v in (0, 1))
    lines = [
        "@T.prim_func",
        f"def {kernel_name(kind, shape, dtype)}({head}):",
        "    T.func_attr({'tir.noalias': True})",
    ]
    lines += [f"    {n} = T.int64()" for n in sizes]
    lines += [
        f"    {p} = T.match_buffer({p.lower()}_, ({extents}), {dtype!r})" for p in names if p != "k"
    ]
    statements = body.format(i=index, zero=zero, one=one, dtype=dtype).split("; ")
    if "T.evaluate" in body:
        lines += [f"    {statement}" for statement in statements]
    else:
        depth = "    "
        if rank:
            loops = ", ".join(f"i{d}" for d in range(rank))
            lines += [f"    for {loops} in T.grid({', '.join(map(str, shape))}):"]
            depth += "    "
        lines += [f"{depth}with T.block('compute'):"]
        lines += [f"{depth}    v{d} = T.axis.spatial({shape[d]}, i{d})" for d in range(rank)]
        lines += [f"{depth}    {statement}" for statement in statements]
    func = parse("\n".join(lines))
    assert isinstance(func, PrimFunc)
    return func.without_attr("global_symbol")


# ------------------------------------------------------------------- results of other shapes

SHAPED: Final = ("transpose", "reverse", "flatten", "stretch", "add_row", "row_sum", "product")
"""Tensor functions whose result has another shape than the first argument, or moves elements.

`add_row` takes a second argument that is as long as a row, `product` one like the first.
"""
_NUMBERS: Final = ("row_sum", "product")
"""The kinds without a form for bools."""


def shaped_kinds(shape: tuple[int | str, ...], dtype: str) -> list[str]:
    """Return the kinds of `SHAPED` for tensors of a shape and dtype."""
    rank = len(shape)
    static = all(isinstance(n, int) for n in shape)
    least = {"flatten": 0 if static else 9, "stretch": 0, "product": 2}
    found = [kind for kind in SHAPED if rank >= least.get(kind, 1)]
    if rank > 2:
        found.remove("product")
    return [kind for kind in found if dtype != "bool" or kind not in _NUMBERS]


@cache
def shaped_kernel(kind: str, shape: tuple[int | str, ...], dtype: str) -> PrimFunc:
    """Return a tensor function of `SHAPED`; an extent that is a str is a symbolic size."""
    sizes = {n: te.size_var(n, "int64") for n in shape if isinstance(n, str)}
    extents = [sizes[n] if isinstance(n, str) else te.const(n, "int64") for n in shape]
    x = te.placeholder(extents, dtype, "x")
    others: list[Any] = []

    def result() -> Any:
        if kind == "transpose":
            return te.compute(extents[::-1], lambda *i: x[i[::-1]], name=kind)
        if kind == "reverse":
            return te.compute(extents, lambda *i: x[(extents[0] - 1 - i[0], *i[1:])], name=kind)
        if kind == "flatten":
            size = te.const(math.prod(n for n in shape if isinstance(n, int)), "int64")
            return te.compute((size,), lambda i: x[tuple(unravel_index(i, extents))], name=kind)
        if kind == "stretch":
            return te.compute([te.const(2, "int64"), *extents], lambda _, *i: x[i], name=kind)
        if kind == "add_row":
            row = te.placeholder(extents[-1:], dtype, "row")
            others.append(row)
            combine = te.any if dtype == "bool" else te.add
            return te.compute(extents, lambda *i: combine(x[i], row[i[-1]]), name=kind)
        k = te.reduce_axis((0, extents[-1]), "k")
        if kind == "row_sum":
            return te.compute(extents[:-1], lambda *i: te.sum(x[(*i, k)], axis=k), name=kind)
        y = te.placeholder(extents, dtype, "y")
        others.append(y)
        low, high = te.const(0, dtype), te.const(2, dtype)

        def factor(tensor: Any, i: Any) -> Any:
            return te.min(te.max(tensor[i, k], low), high)

        rows = [extents[0], extents[0]]
        return te.compute(rows, lambda i, j: te.sum(factor(x, i) * factor(y, j), axis=k), name=kind)

    made = result()
    func = te.create_prim_func([x, *others, made], "int64")
    return func.without_attr("global_symbol")


def shaped_result(kind: str, shape: tuple[PrimExpr, ...]) -> tuple[PrimExpr | int, ...]:
    """Return the shape of what a tensor function of `SHAPED` gives."""
    if kind == "transpose":
        return shape[::-1]
    if kind == "flatten":
        return (math.prod(n.value for n in shape if isinstance(n, IntImm)),)
    if kind == "stretch":
        return (2, *shape)
    if kind == "row_sum":
        return shape[:-1]
    return (shape[0], shape[0]) if kind == "product" else shape


# ------------------------------------------------------------------------------- library functions

KEPT: Final[list[tuple[NDArray[Any], NDArray[Any]]]] = []
"""Arrays that `keep` was given, each with a copy of what it held then."""


class Refusal(Exception):
    """The error of `refuse`."""


def _add_to(a: Any, b: Any, out: Any) -> None:
    np.add(np.asarray(a), np.asarray(b), out=np.asarray(out))


def _split_to(a: Any, first: Any, second: Any) -> None:
    np.asarray(first)[...] = np.asarray(a)
    np.add(np.asarray(a), np.asarray(a), out=np.asarray(second))


def _doubled(a: Any) -> NDArray[Any]:
    return np.asarray(np.add(np.asarray(a), np.asarray(a)))


def _same(a: Any) -> Any:
    return a


def _swapped(pair: Any) -> Any:
    return pair[1], pair[0]


def _twins(a: Any) -> Any:
    made = _doubled(a)
    return made, made


def _keep(a: Any) -> None:
    KEPT.append((a, np.array(a)))


def _kept(a: Any) -> Any:
    _keep(a)
    return a


def _shaped(shape: Any, number: Any, text: Any) -> NDArray[Any]:
    assert text == "text"
    return np.full(tuple(shape), number, "int32")


def _refuse(a: Any) -> Any:
    if np.asarray(a).sum() % 2:
        raise Refusal("the sum is odd")
    return _doubled(a)


LIBRARY: Final[dict[str, Callable[..., Any]]] = {
    "random_graphs.add_to": _add_to,
    "random_graphs.split_to": _split_to,
    "random_graphs.doubled": _doubled,
    "random_graphs.same": _same,
    "random_graphs.swapped": _swapped,
    "random_graphs.twins": _twins,
    "random_graphs.keep": _keep,
    "random_graphs.kept": _kept,
    "random_graphs.shaped": _shaped,
    "random_graphs.refuse": _refuse,
}
"""Library functions that graphs call; `add_to` and `split_to` write to their last arguments."""
