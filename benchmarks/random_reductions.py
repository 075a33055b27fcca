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

from tensorir import parse, te
from tensorir.function import PrimFunc

LOADED: Final = range(1, 8)
"""The values that `tensorir.interp.random_arguments` gives to integers."""


class _Table:
    """A table of integers, which notes the largest index that is read.

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
    """Writes conditions and indices over axes `h` and `r`, which scripts and Python read alike."""

    def __init__(self, rng: random.Random, extents: dict[str, int]) -> None:
        self.rng = rng
        self.extents = extents
        self.table = _Table()

    def linear(self) -> str:
        """Return a sum of axes and a number."""
        rng = self.rng
        scale = rng.choice((1, 1, 1, 2, 3, -1, -2))
        first = rng.choice(("vh", "vh", f"vh * {rng.randint(2, 3)}", f"vh // {rng.randint(2, 4)}"))
        second = "vr" if scale == 1 else f"vr * {scale}"
        return f"{first} + {second} + {rng.randint(-2, 4)}"

    def loaded(self) -> str:
        """Return a number that is defined for some of the values of the axes alone."""
        kind = self.rng.randrange(5)
        if kind == 0:
            return f"S[{self.rng.choice(('vh', 'vh - 1', 'vh // 2', 'vh % 3'))}]"
        if kind == 1:
            return f"{self.rng.randint(5, 40)} // vh"
        if kind == 2:
            return f"{self.rng.randint(5, 40)} % (vh - {self.rng.randint(0, 4)})"
        if kind == 3:
            return f"S[vh] // (vh - {self.rng.randint(0, 2)})"
        return f"(vh * {self.rng.randint(1, 3)} + {self.rng.randint(0, 5)})"

    def periodic(self) -> str:
        """Return a condition on a remainder, which may leave terms out at a period."""
        rng, modulus = self.rng, self.rng.choice((2, 2, 3, 4, 5))
        inner = rng.choice(
            (
                self.linear(),
                f"{self.loaded()} + vr",
                f"vr - {self.loaded()}",
                f"vr * {rng.choice((2, 3, -1))} + {self.loaded()}",
                f"({self.linear()}) // {rng.randint(2, 3)}",
            )
        )
        return f"({inner}) % {modulus} == {rng.randrange(modulus)}"

    def bound(self) -> str:
        """Return a comparison."""
        rng = self.rng
        value = rng.choice(("vh", "vh", "vr", self.linear(), self.loaded()))
        number = rng.randint(0, 2) if rng.random() < 0.5 else rng.randint(2, self.extents["vh"] + 2)
        return f"{value} {rng.choice(('<', '>', '>=', '<=', '!='))} {number}"

    def condition(self) -> str:
        """Return conjuncts, of which the first guard the last."""
        rng = self.rng
        parts = [self.bound() for _ in range(rng.randint(0, 3))]
        if rng.random() < 0.8:
            parts.insert(rng.randint(len(parts) // 2, len(parts)), self.periodic())
        if len(parts) > 1 and rng.random() < 0.15:
            parts[:2] = [f"({parts[0]} or {parts[1]})"]
        return " and ".join(parts) or "vh >= 1"

    def index(self) -> str:
        """Return an index, often one that the condition is about."""
        rng = self.rng
        return rng.choice(
            (
                self.linear(),
                f"({self.linear()}) // {rng.randint(2, 3)}",
                f"({self.linear()}) % {rng.randint(2, 5)}",
                f"{self.loaded()} + vr",
                f"vr + {self.loaded()} % 4",
            )
        )

    def size(self, guards: Sequence[str], index: str) -> int | None:
        """Return how long a buffer is that is read at `index` where all guards hold.

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


_GUARDED: Final = """\
@T.prim_func
def main({params}):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
{stages}"""

_PRODUCER: Final = """\
    P = T.alloc_buffer(({h}, {r}, {c}))
    for h, r, c in T.grid({h}, {r}, {c}):
        with T.block("P"):
            vh, vr, vc = T.axis.remap("SSS", [h, r, c])
            P[vh, vr, vc] = {term}
"""

_REDUCTION: Final = """\
    for {order} in T.grid({extents}):
        with T.block("C"):
            vh, vc, vr = T.axis.remap("SSR", [h, c, r])
            with T.init():
                {result}[vh, vc] = {start}
            {result}[vh, vc] = {update}
"""

_CONSUMER: Final = """\
    for h, c in T.grid({h}, {c}):
        with T.block("D"):
            vh, vc = T.axis.remap("SS", [h, c])
            D[vh, vc] = T.max({value}, T.float32(1))
"""

_REDUCERS: Final = {
    "sum": ("T.float32(0)", "{0} + {1}"),
    "max": ('T.min_value("float32")', "T.max({0}, {1})"),
    "min": ('T.max_value("float32")', "T.min({0}, {1})"),
}


def guarded_reduction(rng: random.Random) -> PrimFunc:
    """Return a reduction whose loads are right only where a guard holds."""
    while True:
        text = _guarded_text(rng)
        if text is not None:
            func = parse(text)
            assert isinstance(func, PrimFunc)
            return func


def _guarded_text(rng: random.Random) -> str | None:
    h, r, c = rng.randint(1, 24), rng.randint(1, 7), rng.choice((1, 3, 8, 16, 33))
    guards = _Guards(rng, {"vh": h, "vr": r})
    conditions = [guards.condition() for _ in range(rng.choice((1, 1, 1, 2)))]
    index = guards.index()
    size = guards.size(conditions, index)
    if size is None:
        return None
    kind = rng.choice(("sum", "sum", "sum", "max", "min"))
    start, combined = _REDUCERS[kind]
    term = f"A[{index}, vc]"
    inside = kind != "sum" or rng.random() < 0.3
    if inside:
        term += " * W[vr, vc]"
    for condition in reversed(conditions):
        term = f"T.if_then_else({condition}, {term}, {start})"
    params = [f"A: T.Buffer(({size}, {c}))", f"W: T.Buffer(({r}, {c}))"]
    stages = ""
    if rng.random() < 0.35:
        stages += _PRODUCER.format(h=h, r=r, c=c, term=term)
        term = "P[vh, vr, vc]"
    if not inside:
        term = f"{term} * W[vr, vc]" if rng.random() < 0.7 else f"W[vr, vc] * {term}"
    consumer = ""
    if rng.random() < 0.4:
        stages = f"    C = T.alloc_buffer(({h}, {c}))\n{stages}"
        value = "C[vh, vc]"
        alone = _Guards(rng, {"vh": h})
        alone.table = guards.table
        condition, place = alone.condition().replace("vr", "1"), alone.index().replace("vr", "1")
        rows = alone.size([condition], place)
        if rows is not None:
            params.append(f"B: T.Buffer(({rows},))")
            value = f"C[vh, vc] + T.if_then_else({condition}, B[{place}], T.float32(3))"
        consumer = _CONSUMER.format(h=h, c=c, value=value)
    result = "C"
    order = rng.sample("hcr", 3) if rng.random() < 0.3 else list("hcr")
    stages += _REDUCTION.format(
        order=", ".join(order),
        extents=", ".join(str({"h": h, "c": c, "r": r}[name]) for name in order),
        result=result,
        start=start,
        update=combined.format("C[vh, vc]", term),
    )
    if "S[" in stages + consumer:  # a load that never runs needs the table, too
        params.append(f'S: T.Buffer(({max(1, guards.table.size)},), "int32")')
    params.append(f"{'D' if consumer else 'C'}: T.Buffer(({h}, {c}))")
    return _GUARDED.format(params=", ".join(params), stages=stages + consumer)


def grouped_convolution(rng: random.Random) -> PrimFunc:
    """Return a convolution of groups of few channels and odd sizes, with `nchw` or `nhwc` data."""
    channels_first = rng.random() < 0.5
    groups, inner, outer = rng.randint(1, 9), rng.choice((1, 3, 8)), rng.choice((1, 2, 3, 8, 8))
    kernel, stride, dilation = (
        rng.choice((1, 3, 3, 5)),
        rng.choice((1, 1, 2)),
        rng.choice((1, 1, 2)),
    )
    padding, least = rng.randint(0, kernel // 2), dilation * (kernel - 1) + 1
    sizes = [rng.randint(max(1, least - 2 * padding), least + 12) for _ in range(2)]

    def laid_out(batch: Any, channel: Any, *places: Any) -> tuple[Any, ...]:
        return (batch, channel, *places) if channels_first else (batch, *places, channel)

    def parted(indices: Sequence[Any]) -> tuple[Any, Any, list[Any]]:
        n, *rest = indices
        channel = rest.pop(0 if channels_first else -1)
        return n, channel, rest

    n = rng.choice((1, 1, 2))
    x = te.placeholder(laid_out(n, groups * inner, *sizes), name="X")
    channels = (groups * outer, inner)
    window = (kernel, kernel)
    w = te.placeholder(
        (*channels, *window) if channels_first else (*window, *channels[::-1]), name="W"
    )
    wide = [size + 2 * padding for size in sizes]

    def element(*indices: Any) -> Any:
        batch, channel, places = parted(indices)
        inside = [place >= padding for place in places] + [
            place < size + padding for place, size in zip(places, sizes, strict=True)
        ]
        value = x(*laid_out(batch, channel, *(place - padding for place in places)))
        return te.if_then_else(te.all(*inside), value, te.const(0.0, "float32"))

    source = te.compute(laid_out(n, groups * inner, *wide), element, name="P") if padding else x
    rc = te.reduce_axis((0, inner), "rc")
    taps = [te.reduce_axis((0, kernel), f"r{k}") for k in range(2)]

    def product(*indices: Any) -> Any:
        batch, channel, places = parted(indices)
        steps = [p * stride + t * dilation for p, t in zip(places, taps, strict=True)]
        value = source(*laid_out(batch, channel // outer * inner + rc, *steps))
        place = (channel, rc, *taps) if channels_first else (*taps, rc, channel)
        return te.sum(value * w(*place), axis=[rc, *taps])

    result = [(size - least) // stride + 1 for size in wide]
    y = te.compute(laid_out(n, groups * outer, *result), product, name="C")
    params = [x, w]
    if rng.random() < 0.4:
        bias = te.placeholder((groups * outer,), name="B")
        params.append(bias)
        convolved = y

        def activated(*indices: Any) -> Any:
            _, channel, _ = parted(indices)
            return te.max(convolved(*indices) + bias(channel), te.const(20.0, "float32"))

        y = te.compute(convolved.shape, activated, name="D")
    return _named(te.create_prim_func([*params, y]))


_PARTLY_EMPTY: Final = """\
@T.prim_func
def main(A: T.Buffer(({n}, {k})), {more}{output}: T.Buffer(({n},{columns}))):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
{allocation}    for i in range({n}):
        for {loops} in T.grid({extents}):
            with T.block("C"):
                vi = T.axis.spatial({n}, i)
{axes}                with T.init():
                    C[{place}] = {start}
                C[{place}] = {update}
{consumer}"""

_AFTER_EMPTY: Final = """\
    for {loops} in T.grid({extents}):
        with T.block("D"):
            {axes} = T.axis.remap("{kinds}", [{loops}])
            D[{axes}] = C[{axes}] * T.float32(0.5)
"""


def empty_reduction(rng: random.Random) -> PrimFunc:
    """Return a reduction without steps, for all elements of the result or for some of them."""
    if rng.random() < 0.4:
        return _empty_everywhere(rng)
    n, steps, columns = rng.randint(1, 9), rng.randint(1, 9), rng.choice((0, 0, 1, 5, 16))
    extent = rng.choice(
        (
            f"T.min(i * {rng.randint(1, 3)}, {steps})",
            f"T.max({steps} - i * {rng.randint(1, 3)}, 0)",
            f"i % {steps + 1}",
            f"T.if_then_else(i == {rng.randrange(n)}, 0, {steps})",
            f"T.min(i // {rng.randint(2, 4)}, {steps})",
        )
    )
    kind = rng.choice(("sum", "max", "min"))
    start, combined = _REDUCERS[kind]
    place = "vi, vj" if columns else "vi"
    term = "A[vi, vk]" + (" * B[vk, vj]" if columns else "")
    loops, extents = ["k"], [extent]
    axes = [f"vk = T.axis.reduce({steps}, k)"]
    if columns:
        where = rng.randrange(2)
        loops.insert(where, "j")
        extents.insert(where, str(columns))
        axes.insert(where, f"vj = T.axis.spatial({columns}, j)")
    has_consumer = rng.random() < 0.5
    consumer = _AFTER_EMPTY.format(
        loops="i, j" if columns else "i",
        extents=f"{n}, {columns}" if columns else n,
        axes=place,
        kinds="SS" if columns else "S",
    )
    func = parse(
        _PARTLY_EMPTY.format(
            output="D" if has_consumer else "C",
            allocation=f"    C = T.alloc_buffer(({n}, {columns or ''}))\n" if has_consumer else "",
            consumer=consumer if has_consumer else "",
            n=n,
            k=steps,
            more=f"B: T.Buffer(({steps}, {columns})), " if columns else "",
            columns=f" {columns}" if columns else "",
            loops=", ".join(loops),
            extents=", ".join(extents) if len(extents) > 1 else f"{extents[0]}",
            axes="".join(f"{' ' * 16}{axis}\n" for axis in axes),
            place=place,
            start=start,
            update=combined.format(f"C[{place}]", term),
        )
    )
    assert isinstance(func, PrimFunc)
    return func


def _empty_everywhere(rng: random.Random) -> PrimFunc:
    """Return a reduction over two axes of which one or both have an extent of 0."""
    n, m = rng.randint(1, 9), rng.choice((1, 3, 16))
    extents = rng.choice(((0, 3), (3, 0), (0, 0), (0, 1)))
    a = te.placeholder((n, *extents), name="A")
    b = te.placeholder((*extents, m), name="B")
    axes = [te.reduce_axis((0, extent), f"k{d}") for d, extent in enumerate(extents)]
    reducer = rng.choice((te.sum, te.max, te.min))
    y = te.compute((n, m), lambda i, j: reducer(a(i, *axes) * b(*axes, j), axis=axes), name="C")
    if rng.random() < 0.5:
        reduced = y
        y = te.compute(
            (n, m), lambda i, j: te.max(reduced(i, j), te.const(-2.0, "float32")), name="D"
        )
    return _named(te.create_prim_func([a, b, y]))


def _named(func: PrimFunc) -> PrimFunc:
    return func.with_attr("global_symbol", "main").with_attr("tir.noalias", True)
