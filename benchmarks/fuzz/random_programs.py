"""Random tensor programs as script text, for the fuzzer of lowering.

A program is a row of stages. Each defines one buffer and reads what is defined before it; each form
of stage is one that lowering treats in its own way: blocks with split, fused and reversed loops,
reductions, memory inside blocks, memory that lives across iterations, views, calls. Programs are
well defined as far as this can be seen while writing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.fuzz.random_values import (
    FLOATS,
    SIGNED,
    UNSIGNED,
    Axis,
    Buf,
    Extent,
    Scope,
    Values,
)
from benchmarks.script_texts import STEP

SYMBOL_VALUES = (0, 0, 1, 1, 2, 3, 5, 8, 9, 16)
CONSTANT_EXTENTS = (1, 2, 3, 4, 5, 7, 8, 8, 16, 17)
C_NAMES = ("malloc", "free", "memcpy", "memset", "exp", "expf", "printf", "posix_memalign", "abort")
"""Functions of the C library, some of which machine code may call."""
DTYPES = (
    *("int32", "int32", "int64", "float32", "float32", "float64", "float16", "bfloat16"),
    *("int8", "int16", *UNSIGNED),
)


@dataclass(frozen=True)
class Program:
    """A program and the values of the variables in its shapes."""

    text: str
    sizes: dict[str, int]


class Stages:
    """Writes stages one after the other, in terms of the `symbols` of a function."""

    def __init__(self, values: Values, dtypes: Sequence[str], symbols: Sequence[str]) -> None:
        self.lines: list[str] = []
        """The statements."""
        self.allocated: list[Buf] = []
        """Buffers that the function allocates."""
        self.helpers: list[str] = []
        """The lines of functions that are called."""
        self.symbols = list(symbols)
        """The names that extents may be."""
        self._values = values
        self._rng = values.rng
        self._chance = values.chance
        self._name = values.name
        self._dtypes = list(dtypes)
        self._depth = 0

    def extent(self, symbolic: float = 0.4) -> Extent:
        """Return a symbol or a number."""
        is_symbol = self.symbols and self._chance(symbolic)
        return self._rng.choice(self.symbols if is_symbol else CONSTANT_EXTENTS)

    # ------------------------------------------------------------------------- writing statements

    def _emit(self, line: str) -> None:
        self.lines.append(STEP * self._depth + line)

    @contextmanager
    def _below(self, *heads: str) -> Iterator[None]:
        """Write lines inside of one another; what is written meanwhile is inside the last."""
        for head in heads:
            self._emit(head)
            self._depth += 1
        yield
        self._depth -= len(heads)

    def _kind(self, extent: Extent, innermost: bool) -> str:
        """Return the iterator of a loop whose iterations are independent."""
        if self._chance(0.35):
            kinds = ["unroll", "parallel"] if isinstance(extent, int) else ["parallel"]
            if innermost and isinstance(extent, int):
                kinds += ["vectorized"] * 2
            return f"T.{self._rng.choice(kinds)}({extent})"
        return f"range({extent})"

    @contextmanager
    def _loops(self, extents: Sequence[Extent], free: bool = True) -> Iterator[list[Axis]]:
        """Open a loop for each extent, of any kind if the iterations are `free`."""
        axes = [Axis(self._name("i"), extent) for extent in extents]
        kinds = [
            self._kind(a.extent, a is axes[-1]) if free else f"range({a.extent})" for a in axes
        ]
        with self._below(*(f"for {a.name} in {k}:" for a, k in zip(axes, kinds, strict=True))):
            yield axes

    @contextmanager
    def _block(
        self, prefix: str, bindings: Sequence[tuple[Extent, str]], reduce: bool = False
    ) -> Iterator[list[Axis]]:
        """Open a block with an axis for each extent and value; `reduce` makes the last reduce."""
        axes = [Axis(self._name("v"), extent) for extent, _ in bindings]
        with self._below(f'with T.block("{self._name(prefix)}"):'):
            for axis, (extent, value) in zip(axes, bindings, strict=True):
                role = "reduce" if reduce and axis is axes[-1] else "spatial"
                self._emit(f"{axis.name} = T.axis.{role}({extent}, {value})")
            yield axes

    @contextmanager
    def _perhaps_block(self, prefix: str, axes: Sequence[Axis], scope: Scope) -> Iterator[Scope]:
        """Open a block or none; the scope has the axes, those of the block as its last."""
        if self._chance(0.6):
            with self._block(prefix, [(a.extent, a.name) for a in axes]) as bound:
                yield scope.only_axes(*bound)
        else:
            yield scope.with_axes(*(a for a in axes if a not in scope.axes))

    def _store(self, dst: Buf, places: Sequence[object], value: str) -> None:
        names = (p.name if isinstance(p, Axis) else str(p) for p in places)
        self._emit(f"{dst.name}[{', '.join(names)}] = {value}")

    def _value(self, dtype: str, scope: Scope) -> str:
        return self._values.value(dtype, scope, self._rng.choice((0, 1, 2, 2, 3)))

    def _not_parallel(self) -> None:
        """Make the loops around the present statement serial: their iterations share memory."""
        wanted = self._depth
        for at in reversed(range(len(self.lines))):
            line = self.lines[at]
            indent = (len(line) - len(line.lstrip())) // len(STEP)
            if indent < wanted:
                wanted = indent
                for kind in ("T.parallel", "T.vectorized", "T.unroll"):
                    self.lines[at] = self.lines[at].replace(f" in {kind}(", " in range(")

    # ------------------------------------------------------------------------------ forms of stages

    def stage(self, dst: Buf, scope: Scope) -> None:
        """Write statements that define every element of a buffer."""
        forms: list[Callable[[Buf, Scope], None]] = [
            *[self._block_stage] * 3, self._loop_stage, *[self._reduction_stage] * 2,
            *[self._nested_stage] * 2, self._across_stage, self._recurrence_stage,
            self._while_stage, self._reading_init_stage, self._narrow_loop_stage,
            self._library_stage, self._bounds_stage,
        ]  # fmt: skip
        if len(dst.shape) == 2:
            forms.append(self._view_stage)
        if all(isinstance(n, int) for n in dst.shape):
            forms.append(self._call_stage)
        self._rng.choice(forms)(dst, scope)
        if self._chance(0.25):
            self._conditional(dst, scope)
        if self._chance(0.1):
            self._exit(dst, scope)

    def _block_stage(self, dst: Buf, scope: Scope) -> None:
        """Write a block with an axis for each dimension, its loops split, fused or reversed."""
        heads, values, where = [], [], []
        if len(dst.shape) == 2 and self._chance(0.15):
            rows, columns = dst.shape
            name = self._name("f")
            heads = [f"for {name} in {self._kind(f'{rows} * {columns}', False)}:"]
            values = [f"{name} // {columns}", f"{name} % {columns}"]
        else:
            for extent in dst.shape:
                name, last = self._name("i"), extent is dst.shape[-1]
                if self._chance(0.3):
                    factor, inner = self._rng.choice((2, 3, 4, 8)), self._name("i")
                    tiles: Extent = f"(({extent} + {factor - 1}) // {factor})"
                    if isinstance(extent, int):
                        tiles = -(-extent // factor)
                    heads += [f"for {name} in {self._kind(tiles, False)}:"]
                    heads += [f"for {inner} in {self._kind(factor, last)}:"]
                    values.append(f"{name} * {factor} + {inner}")
                    if not isinstance(extent, int) or extent % factor:
                        where.append(f"{values[-1]} < {extent}")
                else:
                    heads.append(f"for {name} in {self._kind(extent, last)}:")
                    values.append(f"{extent} - 1 - {name}" if self._chance(0.1) else name)
        bindings = list(zip(dst.shape, values, strict=True))
        with self._below(*heads), self._block(f"{dst.name}_", bindings) as axes:
            if where:
                self._emit(f"T.where({' and '.join(where)})")
            self._store(dst, axes, self._value(dst.dtype, scope.only_axes(*axes)))

    def _loop_stage(self, dst: Buf, scope: Scope) -> None:
        """Write plain loops without a block, sometimes with branches."""
        with self._loops(dst.shape) as axes:
            inner = scope.with_axes(*axes)
            place = [f"{a.extent} - 1 - {a.name}" if self._chance(0.15) else a.name for a in axes]
            heads = []
            if self._chance(0.5):
                with self._below(f"if {self._values.condition(inner, 1)}:"):
                    self._store(dst, place, self._value(dst.dtype, inner))
                heads = ["else:"]
            with self._below(*heads):
                if self._chance(0.2):
                    name, kind = self._name("t"), self._rng.choice(self._dtypes)
                    self._emit(f"{name}: T.{kind} = {self._value(kind, inner)}")
                    inner = inner.with_scalar(name, kind)
                self._store(dst, place, self._value(dst.dtype, inner))

    def _reading_init_stage(self, dst: Buf, scope: Scope) -> None:
        """Write a reduction whose `init` starts from the contents of the buffer."""
        self._loop_stage(dst, scope)
        self._reduction_stage(dst, scope, reads=True)

    def _reduction_stage(self, dst: Buf, scope: Scope, reads: bool = False) -> None:
        """Write a reduction with an `init`; its loops in any order, the update under a guard."""
        extents = [*dst.shape, self.extent(0.3)]
        names = [self._name("i") for _ in extents]
        order = list(range(len(extents)))
        if self._chance(0.4):
            self._rng.shuffle(order)
        heads = [
            f"for {names[k]} in {self._kind(extents[k], k == order[-1])}:"
            if k < len(dst.shape)
            else f"for {names[k]} in range({extents[k]}):"
            for k in order
        ]
        bindings = list(zip(extents, names, strict=True))
        with self._below(*heads), self._block(f"{dst.name}_", bindings, reduce=True) as axes:
            if self._chance(0.2):
                bounds = (names[0], "2", f"{names[-2]} % 2", f"3 - {names[0]}")
                self._emit(f"T.where({names[-1]} < {self._rng.choice(bounds)})")
            target = f"{dst.name}[{', '.join(a.name for a in axes[:-1])}]"
            start = self._values.leaf(dst.dtype, scope.only_axes(*axes[:-1]))
            with self._below("with T.init():"):
                self._emit(f"{target} = {f'{target} - {start}' if reads else start}")
            inner = scope.only_axes(*axes)
            value = self._value(dst.dtype, inner)
            update = self._rng.choice(
                (f"{target} + {value}", f"{target} + {value}", f"T.max({target}, {value})",
                 f"T.min({target}, {value})", f"{target} - {value}")
            )  # fmt: skip
            guards = [f"if {self._values.condition(inner, 1)}:"] if self._chance(0.2) else []
            with self._below(*guards):
                self._emit(f"{target} = {update}")

    def _nested_stage(self, dst: Buf, scope: Scope) -> None:
        """Write a block around the last dimension, with local memory."""
        *outer, last = dst.shape
        names = [self._name("i") for _ in outer]
        heads = [f"for {n} in {self._kind(e, False)}:" for n, e in zip(names, outer, strict=True)]
        bindings = list(zip(outer, names, strict=True))
        with self._below(*heads), self._block("outer", bindings) as axes:
            inner = scope.only_axes(*axes) if axes else scope
            local = Buf(self._name("L"), self._rng.choice(self._dtypes), (last,))
            if self._chance(0.6):
                self._emit(allocation(local, self._rng.choice(("", ', scope="local"'))))
            else:
                self.allocated.append(local)
                self._not_parallel()
            self._rows(local, inner, [])
            self._rows(dst, inner.reading(local), axes)

    def _rows(self, dst: Buf, scope: Scope, outer: Sequence[Axis]) -> None:
        """Write a loop over the last dimension of a buffer, with or without a block."""
        with self._loops([dst.shape[-1]]) as (last,):
            axes = [*outer, last]
            with self._perhaps_block("inner", axes, scope) as inner:
                places = inner.axes[-len(axes) :] if inner.axes[-1] != last else axes
                self._store(dst, places, self._value(dst.dtype, inner))

    def _across_stage(self, dst: Buf, scope: Scope) -> None:
        """Write memory in the first iteration only and read it in all of them."""
        first, *rest = dst.shape
        width = self._rng.choice((1, 4))
        kept = Buf(self._name("K"), self._rng.choice(self._dtypes), (width,))
        self.allocated.append(kept)
        with self._loops([first], free=False) as (time,):
            with (
                self._loops([width]) as (lane,),
                self._block("keep", [(width, lane.name)]) as (axis,),
            ):
                self._emit(f"T.where({time.name} {'== 0' if self._chance(0.8) else '< 1'})")
                self._store(kept, [axis], self._value(kept.dtype, scope.only_axes(axis)))
            with self._loops(rest) as others:
                axes = [time, *others]
                seen = scope.only_axes(*axes).reading(kept)
                with self._perhaps_block("use", axes, seen) as inner:
                    self._store(dst, inner.axes, self._value(dst.dtype, inner))
                if self._chance(0.15):
                    self._not_parallel()
                    self._store(kept, [self._rng.randrange(width)], self._value(kept.dtype, seen))

    def _recurrence_stage(self, dst: Buf, scope: Scope) -> None:
        """Write elements one after the other, each from the one before it."""
        with self._loops(dst.shape, free=False) as axes:
            inner, last = scope.with_axes(*axes), axes[-1].name
            before = ", ".join([*(a.name for a in axes[:-1]), f"{last} - 1"])
            value, start = self._value(dst.dtype, inner), self._values.leaf(dst.dtype, inner)
            carried = f"T.if_then_else({last} > 0, {dst.name}[{before}], {start})"
            self._store(dst, axes, f"{carried} {self._rng.choice('+-*')} {value}")

    def _bounds_stage(self, dst: Buf, scope: Scope) -> None:
        """Write loops that do not start at 0, and one inside whose extent is not constant."""
        heads, places, plain = [], [], []
        for extent in dst.shape:
            name = self._name("i")
            if extent is not dst.shape[-1] or self._chance(0.4):
                heads.append(f"for {name} in {self._kind(extent, False)}:")
                places.append(name)
                plain.append(Axis(name, extent))
            else:
                low = self._rng.choice((1, -3, 40))
                heads.append(f"for {name} in range({low}, {extent} + {low}):")
                places.append(f"{name} - {low}")
        with self._below(*heads):
            inner = scope.with_axes(*plain)
            self._store(dst, places, self._values.leaf(dst.dtype, inner))
            data = self._values.load("int32", inner) if "int32" in self._dtypes else None
            around = plain[-1].name if plain else "2"
            extents = [f"{around} % 4", f"T.min({around}, 5)", f"{around} - 2", f"3 - {around}"]
            extents += [f"T.bitwise_and({data}, 3)", f"T.min({data}, 4)"] if data else []
            step = Axis(self._name("k"), 5)
            with self._below(f"for {step.name} in range({self._rng.choice(extents)}):"):
                value = self._value(dst.dtype, inner.with_axes(step))
                old = f"{dst.name}[{', '.join(places)}]"
                self._store(dst, places, f"{old} {self._rng.choice('+-*')} {value}")

    def _narrow_loop_stage(self, dst: Buf, scope: Scope) -> None:
        """Write plain loops whose variables are not of int32."""
        heads, axes = [], []
        for extent in dst.shape:
            name, dtype = self._name("i"), self._rng.choice(("int8", "int16", "int64", "uint16"))
            heads.append(f'for {name} in range(T.cast({extent}, "{dtype}")):')
            axes.append(Axis(f'T.cast({name}, "int32")', extent))
        with self._below(*heads):
            self._store(dst, axes, self._value(dst.dtype, scope.with_axes(*axes)))

    def _library_stage(self, dst: Buf, scope: Scope) -> None:
        """Write plain loops that call a library function for each element."""
        with self._loops(dst.shape) as axes:
            given = f'T.cast({self._value(dst.dtype, scope.with_axes(*axes))}, "int32")'
            made = f'T.call_packed("fuzz.bits", {given}, dtype="int32")'
            self._store(dst, axes, f'T.cast({made}, "{dst.dtype}")')

    def _while_stage(self, dst: Buf, scope: Scope) -> None:
        """Write the first dimension with a `while` loop that counts in memory."""
        counter = Buf(self._name("W"), "int32", (1,))
        self.allocated.append(counter)
        count = f"{counter.name}[0]"
        self._emit(f"{count} = 0")
        with self._below(f"while {count} < {dst.shape[0]}:"):
            with self._loops(dst.shape[1:]) as axes:
                self._store(dst, [count, *axes], self._value(dst.dtype, scope.with_axes(*axes)))
            self._emit(f"{count} = {count} + 1")

    def _view_stage(self, dst: Buf, scope: Scope) -> None:
        """Write rows through a view of the buffer, reading a row of another one through a view."""
        rows, columns = dst.shape
        scope = scope.without(dst)
        others = [b for b in scope.readable if len(b.shape) == 2 and b.shape[0] == rows]
        sources = [dst, *self._rng.sample(others, min(1, len(others)))]
        views = [Buf(self._name("V"), b.dtype, b.shape[1:]) for b in sources]
        name = self._name("i")
        with (
            self._below(f"for {name} in {self._kind(rows, False)}:"),
            self._block("view", [(rows, name)]) as (axis,),
        ):
            whole = (f"{b.name}[{', '.join(f'0:{n}' for n in b.shape)}]" for b in scope.readable)
            self._emit(f"T.reads({', '.join(whole)})")
            self._emit(f"T.writes({dst.name}[{axis.name}, 0:{columns}])")
            for view, buf in zip(views, sources, strict=True):
                (n,) = view.shape
                region = f"{buf.name}[{axis.name}, 0:{n}]"
                self._emit(
                    f'{view.name} = T.match_buffer({region}, ({n},), "{view.dtype}", '
                    "offset_factor=1)"
                )
            with self._loops([columns]) as (last,):
                seen = scope.only_axes(axis, last).reading(*views[1:], *views[1:])
                self._store(views[0], [last], self._value(dst.dtype, seen))

    def _call_stage(self, dst: Buf, scope: Scope) -> None:
        """Write a buffer in a separate function, which accepts compact memory only."""
        if dst not in self.allocated:
            self._block_stage(dst, scope)
            return
        constant = [b for b in scope.readable if all(isinstance(n, int) for n in b.shape)]
        bufs = [*[b for b in constant if b in self.allocated][:2], dst]
        *sources, target = [Buf(self._name("P"), b.dtype, b.shape) for b in bufs]
        inner, known = Stages(self._values, self._dtypes, []), len(self._values.lets)
        inner._block_stage(target, Scope([], sources, []))
        lets = self._values.lets[known:]
        del self._values.lets[known:]
        params = ", ".join(
            f'{b.name}: T.Buffer(({", ".join(map(str, b.shape))},), "{b.dtype}")'
            for b in (*sources, target)
        )
        name = self._name("helper")
        if self._chance(0.5):
            taken = "".join(self.helpers)
            name = self._rng.choice([c for c in C_NAMES if f" {c}(" not in taken])
        self.helpers += ["@T.prim_func", f"def {name}({params}):"]
        self.helpers += [f"{STEP}{let} = T.{dtype}()" for let, dtype in lets]
        self.helpers += [STEP + line for line in inner.lines] + [""]
        self._emit(f"Module.{name}({', '.join(f'{b.name}.data' for b in bufs)})")

    # ------------------------------------------------------------------------- partial statements

    def _exit(self, dst: Buf, scope: Scope) -> None:
        """Update a buffer step by step, and leave the function in some step."""
        with self._loops([self._rng.choice((2, 5, 16))], free=False) as (step,):
            with self._loops(dst.shape) as axes:
                inner = scope.with_axes(step, *axes)
                old = f"{dst.name}[{', '.join(a.name for a in axes)}]"
                self._store(dst, axes, f"{old} + {self._value(dst.dtype, inner)}")
                is_inside = self._chance(0.3)
                if is_inside:
                    self._not_parallel()
                    with self._below(f"if {self._values.condition(inner, 1)}:"):
                        self._emit("T.ret(0)")
            if not is_inside:
                with self._below(f"if {self._values.condition(scope.with_axes(step), 1)}:"):
                    self._emit("T.ret(0)")

    def _conditional(self, dst: Buf, scope: Scope) -> None:
        """Write one element under a condition on sizes or values."""
        symbols = sorted({n for n in dst.shape if isinstance(n, str)})
        place = [f"{n} - 1" if isinstance(n, str) else self._rng.randrange(n) for n in dst.shape]
        condition = " and ".join(f"{n} > 0" for n in symbols)
        if not symbols:
            sizes = [
                f"{s} {self._rng.choice(('<', '>=', '=='))} {self._rng.choice((0, 1, 2))}"
                for s in self.symbols
            ]
            condition = self._rng.choice([*sizes, self._values.condition(scope, 1)])
        with self._below(f"if {condition}:"):
            self._store(dst, place, self._value(dst.dtype, scope))

    def update(self, dst: Buf, scope: Scope) -> None:
        """Change the elements of a defined buffer in place, or some of them."""
        with self._loops(dst.shape) as axes:
            guards = []
            if self._chance(0.5):
                guards = [f"if {axes[0].name} % 2 == {self._rng.choice((0, 1))}:"]
            with self._below(*guards):
                value = self._value(dst.dtype, scope.with_axes(*axes).without(dst))
                old = f"{dst.name}[{', '.join(a.name for a in axes)}]"
                self._store(dst, axes, f"{old} {self._rng.choice('+-*')} {value}")


def allocation(buf: Buf, scope: str = "") -> str:
    """Return the line that allocates a buffer."""
    shape = ", ".join(map(str, buf.shape))
    return f'{buf.name} = T.alloc_buffer(({shape},), "{buf.dtype}"{scope})'


def random_program(seed: int) -> Program:
    """Return the program of a seed."""
    rng = random.Random(seed)
    order = (*SIGNED, *UNSIGNED, *FLOATS)
    dtypes = sorted(set(rng.sample(DTYPES, 3)), key=order.index)
    values = Values(rng, dtypes)
    names = ["n", "m"][: rng.choice((1, 1, 2))] if values.chance(0.7) else []
    sizes = {name: rng.choice(SYMBOL_VALUES) for name in names}
    stages = Stages(values, dtypes, names)

    def buffer(name: str) -> Buf:
        shape = tuple(stages.extent() for _ in range(rng.choice((1, 1, 2, 2, 2))))
        return Buf(name, rng.choice(dtypes), shape)

    inputs = [buffer(f"A{k}") for k in range(rng.choice((1, 2, 2, 3)))]
    outputs = [buffer(f"B{k}") for k in range(rng.choice((1, 1, 2)))]
    parameters = [*inputs, *outputs]
    # Only what is in the shape of a parameter has a value.
    stages.symbols = [s for s in names if any(s in b.shape for b in parameters)]
    scalars = [("s", rng.choice(dtypes))] if values.chance(0.3) else []
    scope = Scope([], [*inputs], scalars)
    for output in outputs:
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            temporary = buffer(values.name("C"))
            stages.allocated.append(temporary)
            stages.stage(temporary, scope)
            scope.readable.append(temporary)
        stages.stage(output, scope)
        scope.readable.append(output)
        if values.chance(0.3):
            stages.update(rng.choice(scope.readable), scope)
    handles = [f"{b.name.lower()}: T.handle" for b in parameters]
    handles += [f"{name}: T.{dtype}" for name, dtype in scalars]
    noalias = ', "tir.noalias": True' if values.chance(0.7) else ""
    body = [
        f'T.func_attr({{"global_symbol": "main"{noalias}}})',
        *(f"{name} = T.int32()" for name in names),
        *(f"{name} = T.{dtype}()" for name, dtype in values.lets),
        *(line for b in parameters for line in _matched(b, values, sizes)),
        *(allocation(b) for b in stages.allocated),
        *stages.lines,
    ]
    lines = ["@T.prim_func", f"def main({', '.join(handles)}):", *(STEP + x for x in body)]
    if stages.helpers:
        functions = [*stages.helpers, *lines]
        lines = ["@I.ir_module", "class Module:", *(STEP + line for line in functions)]
    return Program("\n".join(lines) + "\n", sizes)


def _matched(buf: Buf, values: Values, sizes: dict[str, int]) -> list[str]:
    """Return the lines that bind a parameter, sometimes with strides and an offset."""
    rng = values.rng
    shape = ", ".join(map(str, buf.shape))
    head = f'{buf.name} = T.match_buffer({buf.name.lower()}, ({shape},), "{buf.dtype}"'
    if not values.chance(0.2):
        return [f"{head})"]
    before: list[str] = []
    inner = rng.choice((1, 1, 2, 3))
    strides: list[Extent] = [inner]
    if len(buf.shape) == 2:
        columns = buf.shape[1]
        size = sizes[columns] if isinstance(columns, str) else columns
        row: Extent = size * inner + rng.choice((0, 1, 5))
        if isinstance(columns, str) or values.chance(0.5):
            name = f"stride_{buf.name}"
            before = [f"{name} = T.int32()"]
            sizes[name] = -int(row) if values.chance(0.3) else int(row)
            row = name
        strides = [row, inner]
    offset = ", elem_offset=4" if values.chance(0.3) else ""
    return [*before, f"{head}, strides=({', '.join(map(str, strides))},){offset})"]
