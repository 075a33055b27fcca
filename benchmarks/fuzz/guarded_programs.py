"""Random programs for design spaces: guarded loads, grouped convolutions and empty reductions.

The loads of a guarded program are right only where its guard holds: a buffer ends at the largest
index that is read, and indices and divisors may be anything elsewhere. A reduction is empty where
the loop of its axis has no iteration, for all or for some elements of the result.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any, Final

from benchmarks.script_texts import allocated, buffers, function, nest
from tensorir import parse, te
from tensorir.function import PrimFunc
from tensorir.topi.nn import conv2d

LOADED: Final = range(1, 8)
"""The values that `tensorir.interp.random_arguments` gives to integers."""
REDUCERS: Final = {
    "sum": ("T.float32(0)", "{0} + {1}"),
    "max": ('T.min_value("float32")', "T.max({0}, {1})"),
    "min": ('T.max_value("float32")', "T.min({0}, {1})"),
}


class _Table:
    """A table of integers, which records the largest index that is read.

    Elements are the values of `given`, one for each index in the order of the first reads.
    """

    def __init__(self) -> None:
        self.size = 0
        self.given: Sequence[int] = ()
        self._known: dict[int, int] = {}

    def start(self, given: Sequence[int]) -> None:
        """Forget the elements."""
        self.given, self._known = given, {}

    def __getitem__(self, index: int) -> int:
        if index < 0 or (index not in self._known and len(self._known) == len(self.given)):
            raise IndexError(index)
        self.size = max(self.size, index + 1)
        return self._known.setdefault(index, self.given[len(self._known)])


class _Guards:
    """Writes conditions and indices over axes `vh` and `vr`, for scripts and for Python."""

    def __init__(self, rng: random.Random, extents: dict[str, int], table: _Table) -> None:
        self.rng = rng
        self.extents = extents
        self.table = table

    def _linear(self) -> str:
        """Return a sum of axes and a number."""
        rng = self.rng
        scale = rng.choice((1, 1, 1, 2, 3, -1, -2))
        first = rng.choice(("vh", "vh", f"vh * {rng.randint(2, 3)}", f"vh // {rng.randint(2, 4)}"))
        return f"{first} + vr * {scale} + {rng.randint(-2, 4)}".replace("vr * 1 ", "vr ")

    def _loaded(self) -> str:
        """Return a number that is defined for some of the values of the axes alone."""
        rng = self.rng
        return rng.choice(
            (
                f"S[{rng.choice(('vh', 'vh - 1', 'vh // 2', 'vh % 3'))}]",
                f"{rng.randint(5, 40)} // vh",
                f"{rng.randint(5, 40)} % (vh - {rng.randint(0, 4)})",
                f"S[vh] // (vh - {rng.randint(0, 2)})",
                f"(vh * {rng.randint(1, 3)} + {rng.randint(0, 5)})",
            )
        )

    def _periodic(self) -> str:
        """Return a condition on a remainder, which may leave terms out at a period."""
        rng, modulus = self.rng, self.rng.choice((2, 2, 3, 4, 5))
        inner = rng.choice(
            (
                self._linear(),
                f"{self._loaded()} + vr",
                f"vr - {self._loaded()}",
                f"vr * {rng.choice((2, 3, -1))} + {self._loaded()}",
                f"({self._linear()}) // {rng.randint(2, 3)}",
            )
        )
        return f"({inner}) % {modulus} == {rng.randrange(modulus)}"

    def _bound(self) -> str:
        """Return a comparison."""
        rng = self.rng
        value = rng.choice(("vh", "vh", "vr", self._linear(), self._loaded()))
        number = rng.randint(0, 2) if rng.random() < 0.5 else rng.randint(2, self.extents["vh"] + 2)
        return f"{value} {rng.choice(('<', '>', '>=', '<=', '!='))} {number}"

    def condition(self) -> str:
        """Return conjuncts, of which the first guard the last."""
        rng = self.rng
        parts = [self._bound() for _ in range(rng.randint(0, 3))]
        if rng.random() < 0.8:
            parts.insert(rng.randint(len(parts) // 2, len(parts)), self._periodic())
        if len(parts) > 1 and rng.random() < 0.15:
            parts[:2] = [f"({parts[0]} or {parts[1]})"]
        return " and ".join(parts) or "vh >= 1"

    def index(self) -> str:
        """Return an index, often one that the condition is about."""
        rng = self.rng
        return rng.choice(
            (
                self._linear(),
                f"({self._linear()}) // {rng.randint(2, 3)}",
                f"({self._linear()}) % {rng.randint(2, 5)}",
                f"{self._loaded()} + vr",
                f"vr + {self._loaded()} % 4",
            )
        )

    def size(self, guards: Sequence[str], index: str) -> int | None:
        """Return the length of a buffer that is read at `index` where all guards hold.

        None where nothing is read, or a division, a load or an index is wrong.
        """
        condition = compile(" and ".join(f"({guard})" for guard in guards), "guard", "eval")
        place = compile(index, "index", "eval")
        largest = -1
        values = list(itertools.product(LOADED, repeat=2)) if "S[" in f"{guards}{index}" else [()]
        for point in itertools.product(*map(range, self.extents.values())):
            names: dict[str, Any] = {"S": self.table, **dict(zip(self.extents, point, strict=True))}
            for given in values:
                self.table.start(given)
                try:
                    if eval(condition, {}, names):
                        found = eval(place, {}, names)
                        if found < 0:
                            return None
                        largest = max(largest, found)
                except (ZeroDivisionError, IndexError):
                    return None
        return largest + 1 if 0 <= largest < 500 else None


def guarded_reduction(rng: random.Random) -> PrimFunc:
    """Return a reduction whose loads are right only where a guard holds."""
    while True:
        text = _guarded_text(rng)
        if text is not None:
            return _named(parse(text))


def _guarded_text(rng: random.Random) -> str | None:
    h, r, c = rng.randint(1, 24), rng.randint(1, 7), rng.choice((1, 3, 8, 16, 33))
    table = _Table()
    guards = _Guards(rng, {"vh": h, "vr": r}, table)
    conditions = [guards.condition() for _ in range(rng.choice((1, 1, 1, 2)))]
    index = guards.index()
    size = guards.size(conditions, index)
    if size is None:
        return None
    kind = rng.choice(("sum", "sum", "sum", "max", "min"))
    start, combined = REDUCERS[kind]
    is_inside = kind != "sum" or rng.random() < 0.3
    term = f"A[{index}, vc]" + (" * W[vr, vc]" if is_inside else "")
    for condition in reversed(conditions):
        term = f"T.if_then_else({condition}, {term}, {start})"
    params, stages = [buffers("A", size, c), buffers("W", r, c)], []
    if rng.random() < 0.35:
        stages = [allocated("P", h, r, c)]
        stages.append(nest("P", f"S h {h}, S r {r}, S c {c}", f"P[vh, vr, vc] = {term}"))
        term = "P[vh, vr, vc]"
    if not is_inside:
        term = f"{term} * W[vr, vc]" if rng.random() < 0.7 else f"W[vr, vc] * {term}"
    order = " ".join(rng.sample("hcr", 3)) if rng.random() < 0.3 else ""
    update = f"C[vh, vc] = {combined.format('C[vh, vc]', term)}"
    axes = f"S h {h}, S c {c}, R r {r}"
    stages.append(nest("C", axes, update, init=f"C[vh, vc] = {start}", order=order))
    result = "C"
    if rng.random() < 0.4:
        value, result = "C[vh, vc]", "D"
        alone = _Guards(rng, {"vh": h}, table)
        condition, place = alone.condition().replace("vr", "1"), alone.index().replace("vr", "1")
        rows = alone.size([condition], place)
        if rows is not None:
            params.append(buffers("B", rows))
            value += f" + T.if_then_else({condition}, B[{place}], T.float32(3))"
        stages.insert(0, allocated("C", h, c))
        stages.append(nest("D", f"S h {h}, S c {c}", f"D[vh, vc] = T.max({value}, T.float32(1))"))
    if any("S[" in stage for stage in stages):  # a load that never runs needs the table, too
        params.append(buffers("S", max(1, table.size), dtype="int32"))
    return function(", ".join([*params, buffers(result, h, c)]), *stages)


def grouped_convolution(rng: random.Random) -> PrimFunc:
    """Return a convolution of groups of few channels and odd sizes, in rows or in planes."""
    layout, kernel_layout = rng.choice((("NCHW", "OIHW"), ("NHWC", "HWIO")))
    groups, inner, outer = rng.randint(1, 9), rng.choice((1, 3, 8)), rng.choice((1, 2, 3, 8, 8))
    kernel, stride = rng.choice((1, 3, 3, 5)), rng.choice((1, 1, 2))
    dilation, padding = rng.choice((1, 1, 2)), rng.randint(0, kernel // 2)
    least = dilation * (kernel - 1) + 1
    sizes = [rng.randint(max(1, least - 2 * padding), least + 8) for _ in range(2)]
    extents = {"N": rng.choice((1, 1, 2)), "C": groups * inner, "H": sizes[0], "W": sizes[1]}
    taps = {"O": groups * outer, "I": inner, "H": kernel, "W": kernel}
    x = te.placeholder([extents[axis] for axis in layout], name="X")
    w = te.placeholder([taps[axis] for axis in kernel_layout], name="W")
    y = conv2d(x, w, stride, padding, dilation, groups, layout, kernel_layout)
    params = [x, w]
    if rng.random() < 0.4:
        bias = te.placeholder((groups * outer,), name="B")
        params.append(bias)
        product, axis = y, layout.index("C")
        y = te.compute(
            product.shape,
            lambda *i: te.max(product(*i) + bias(i[axis]), te.const(20.0, "float32")),
            name="D",
        )
    return _named(te.create_prim_func([*params, y]))


def empty_reduction(rng: random.Random) -> PrimFunc:
    """Return a reduction without steps, for all elements of the result or for some of them."""
    n, steps, columns = rng.randint(1, 9), rng.randint(0, 9), rng.choice((0, 0, 1, 5, 16))
    extent = rng.choice(
        (
            "0",
            "0",
            f"T.min(i * {rng.randint(1, 3)}; {steps})",
            f"T.max({steps} - i * {rng.randint(1, 3)}; 0)",
            f"i % {steps + 1}",
            f"T.if_then_else(i == {rng.randrange(n)}; 0; {steps})",
            f"T.min(i // {rng.randint(2, 4)}; {steps})",
        )
    ).replace("; ", ",")
    start, combined = REDUCERS[rng.choice(("sum", "max", "min"))]
    column, shape = (f", S j {columns}", (n, columns)) if columns else ("", (n,))
    target = "C[vi, vj]" if columns else "C[vi]"
    term = "A[vi, vk]" + (" * B[vk, vj]" if columns else "")
    reduction = nest(
        "C",
        f"S i {n}{column}, R k {extent}:{steps}",
        f"{target} = {combined.format(target, term)}",
        init=f"{target} = {start}",
        order="i k j" if columns and rng.random() < 0.5 else "",
    )
    params = [buffers("A", n, steps)]
    params += [buffers("B", steps, columns)] if columns else []
    if rng.random() < 0.5:
        return _named(parse(function(", ".join([*params, buffers("C", *shape)]), reduction)))
    after = target.replace("C", "D")
    text = function(
        ", ".join([*params, buffers("D", *shape)]),
        allocated("C", *shape),
        reduction,
        nest("D", f"S i {n}{column}", f"{after} = {target} * T.float32(0.5)"),
    )
    return _named(parse(text))


def _named(func: object) -> PrimFunc:
    assert isinstance(func, PrimFunc)
    return func.with_attr("global_symbol", "main").with_attr("tir.noalias", True)
