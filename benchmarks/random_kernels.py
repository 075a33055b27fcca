"""Tensor functions and library functions that random graphs call.

All arithmetic is exact or rounded once, so results are compared bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorir import parse
from tensorir.function import PrimFunc

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


# ------------------------------------------------------------------------------- library functions

KEPT: Final[list[tuple[NDArray[Any], NDArray[Any]]]] = []
"""Arrays that `keep` was given, each with a copy of what it held then."""


class Refusal(Exception):
    """What `refuse` raises."""


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
