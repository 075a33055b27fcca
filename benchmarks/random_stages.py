"""Stages of random programs: statements, as script text, that define a buffer.

Each form of stage is one that lowering has a way of its own with: blocks with split, fused and
reversed loops, reductions, memory inside blocks, memory that lives across iterations, views, calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.random_values import Axis, Buf, Extent, Scope, Values

CONSTANT_EXTENTS = (1, 2, 3, 4, 5, 7, 8, 8, 16, 17)
STEP = "    "
C_NAMES = ("malloc", "free", "memcpy", "memset", "exp", "expf", "printf", "posix_memalign", "abort")
"""Functions of the C library, some of which machine code may call."""


class Stages:
    """Writes stages one after the other, in terms of the `symbols` of a function."""

    def __init__(
        self,
        values: Values,
        dtypes: Sequence[str],
        symbols: Sequence[str],
        sizes: Mapping[str, int],
    ) -> None:
        self.lines: list[str] = []
        """The statements."""
        self.allocated: list[Buf] = []
        """Buffers that the function is to allocate."""
        self.helpers: list[str] = []
        """The lines of functions that are called."""
        self._values = values
        self._rng = values.rng
        self._chance = values.chance
        self._has = values.has
        self._dtypes = list(dtypes)
        self.symbols = list(symbols)
        """Those that may be used by now."""
        self._sizes = sizes

    def extent(self, symbolic: float = 0.4) -> Extent:
        """Return a symbol or a number."""
        if self.symbols and self._chance(symbolic):
            return self._rng.choice(self.symbols)
        return self._rng.choice(CONSTANT_EXTENTS)

    def _kind(self, extent: Extent, innermost: bool) -> str:
        """Return the iterator of a loop whose iterations are independent."""
        if self._has("kinds") and self._chance(0.35):
            kinds = ["unroll", "parallel"] if isinstance(extent, int) else ["parallel"]
            if innermost and isinstance(extent, int):
                kinds += ["vectorized"] * 2
            return f"T.{self._rng.choice(kinds)}({extent})"
        return f"range({extent})"

    def _emit(self, depth: int, line: str) -> None:
        self.lines.append(STEP * depth + line)

    def stage(self, dst: Buf, scope: Scope) -> None:
        """Write statements that define every element of a buffer."""
        forms: list[Callable[[Buf, Scope], None]] = [
            self._block_stage, self._block_stage, self._block_stage, self._loop_stage,
            self._reduction_stage, self._reduction_stage,
        ]  # fmt: skip
        if self._has("nested"):
            forms += [self._nested_stage, self._nested_stage]
        if self._has("across"):
            forms += [self._across_stage, self._recurrence_stage]
        if self._has("while"):
            forms.append(self._while_stage)
        if self._has("reading init"):
            forms.append(self._reading_init_stage)
        if self._has("narrow loop"):
            forms.append(self._narrow_loop_stage)
        if self._has("library"):
            forms.append(self._library_stage)
        if self._has("bounds"):
            forms += [self._bounds_stage]
        if self._has("view") and len(dst.shape) == 2:
            forms.append(self._view_stage)
        if self._has("call") and all(isinstance(n, int) for n in dst.shape):
            forms.append(self._call_stage)
        self._rng.choice(forms)(dst, scope)
        if self._has("conditional") and self._chance(0.25):
            self._conditional(dst, scope)
        if self._has("exit") and self._chance(0.1):
            self._exit(dst, scope)

    def _value(self, dtype: str, scope: Scope) -> str:
        return self._values.value(dtype, scope, self._rng.choice((0, 1, 2, 2, 3)))

    def _loops(self, dst: Buf, free: bool = True) -> tuple[list[Axis], int]:
        """Open a loop over each dimension; return the variables and the depth reached."""
        axes = []
        for k, extent in enumerate(dst.shape):
            axis = Axis(self._values.name("i"), extent)
            last = k == len(dst.shape) - 1
            kind = self._kind(extent, last) if free else f"range({extent})"
            self._emit(k, f"for {axis.name} in {kind}:")
            axes.append(axis)
        return axes, len(axes)

    def _block_stage(self, dst: Buf, scope: Scope) -> None:
        """Write a block with an axis for each dimension, its loops split, fused or reversed."""
        depth, bindings, where = 0, [], []
        fuse = len(dst.shape) == 2 and self._chance(0.15)
        if fuse:
            rows, columns = dst.shape
            name = self._values.name("f")
            fused = f"{rows} * {columns}"
            self._emit(0, f"for {name} in {self._kind(fused, False)}:")
            bindings = [f"{name} // {columns}", f"{name} % {columns}"]
            depth = 1
        else:
            for k, extent in enumerate(dst.shape):
                last = k == len(dst.shape) - 1
                name = self._values.name("i")
                if self._has("where") and self._chance(0.3):
                    factor = self._rng.choice((2, 3, 4, 8))
                    outer, inner = name, self._values.name("i")
                    tiles = (
                        -(-extent // factor)
                        if isinstance(extent, int)
                        else f"(({extent} + {factor - 1}) // {factor})"
                    )
                    self._emit(depth, f"for {outer} in {self._kind(tiles, False)}:")
                    self._emit(depth + 1, f"for {inner} in {self._kind(factor, last)}:")
                    depth += 2
                    bindings.append(f"{outer} * {factor} + {inner}")
                    if not isinstance(extent, int) or extent % factor:
                        where.append(f"{bindings[-1]} < {extent}")
                    continue
                self._emit(depth, f"for {name} in {self._kind(extent, last)}:")
                depth += 1
                bindings.append(f"{extent} - 1 - {name}" if self._chance(0.1) else name)
        self._emit(depth, f'with T.block("{self._values.name(dst.name + "_")}"):')
        axes = [Axis(self._values.name("v"), extent) for extent in dst.shape]
        for axis, binding in zip(axes, bindings, strict=True):
            self._emit(depth + 1, f"{axis.name} = T.axis.spatial({axis.extent}, {binding})")
        if where:
            self._emit(depth + 1, f"T.where({' and '.join(where)})")
        place = ", ".join(a.name for a in axes)
        value = self._value(dst.dtype, scope.only_axes(*axes))
        self._emit(depth + 1, f"{dst.name}[{place}] = {value}")

    def _loop_stage(self, dst: Buf, scope: Scope) -> None:
        """Write plain loops without a block, sometimes with branches."""
        axes, depth = self._loops(dst)
        inner = scope.with_axes(*axes)
        place = ", ".join(
            f"{a.extent} - 1 - {a.name}" if self._chance(0.15) else a.name for a in axes
        )
        if self._has("conditional") and self._chance(0.5):
            self._emit(depth, f"if {self._values.condition(inner, 1)}:")
            self._emit(depth + 1, f"{dst.name}[{place}] = {self._value(dst.dtype, inner)}")
            self._emit(depth, "else:")
            depth += 1
        if self._has("let") and self._chance(0.2):
            name, kind = self._values.name("t"), self._rng.choice(self._dtypes)
            self._emit(depth, f"{name}: T.{kind} = {self._value(kind, inner)}")
            inner = Scope(inner.axes, inner.readable, [*inner.scalars, (name, kind)])
        self._emit(depth, f"{dst.name}[{place}] = {self._value(dst.dtype, inner)}")

    def _reading_init_stage(self, dst: Buf, scope: Scope) -> None:
        """Write a reduction whose `init` starts from what the buffer holds."""
        self._loop_stage(dst, scope)
        self._reduction_stage(dst, scope, reads=True)

    def _reduction_stage(self, dst: Buf, scope: Scope, reads: bool = False) -> None:
        """Write a reduction with an `init`; its loops in any order, the update under a guard."""
        steps = self.extent(0.3)
        if not self._has("empty") and steps in self.symbols and self._sizes[str(steps)] == 0:
            steps = self._rng.choice(CONSTANT_EXTENTS)
        extents = [*dst.shape, steps]
        names = [self._values.name("i") for _ in extents]
        order = list(range(len(extents)))
        if self._chance(0.4):
            self._rng.shuffle(order)
        for depth, k in enumerate(order):
            spatial = k < len(dst.shape)
            kind = self._kind(extents[k], depth == len(order) - 1) if spatial else None
            self._emit(depth, f"for {names[k]} in {kind or f'range({extents[k]})'}:")
        depth = len(order)
        self._emit(depth, f'with T.block("{self._values.name(dst.name + "_")}"):')
        axes = [Axis(self._values.name("v"), extent) for extent in extents]
        for k, axis in enumerate(axes):
            role = "spatial" if k < len(dst.shape) else "reduce"
            self._emit(depth + 1, f"{axis.name} = T.axis.{role}({axis.extent}, {names[k]})")
        if self._has("empty") and self._chance(0.2):
            bound = self._rng.choice((names[0], "2", f"{names[-2]} % 2", f"3 - {names[0]}"))
            self._emit(depth + 1, f"T.where({names[-1]} < {bound})")
        place = ", ".join(a.name for a in axes[:-1])
        start = self._values.leaf(dst.dtype, scope.only_axes(*axes[:-1]))
        if reads:
            start = f"{dst.name}[{place}] - {start}"
        self._emit(depth + 1, "with T.init():")
        self._emit(depth + 2, f"{dst.name}[{place}] = {start}")
        inner, target = scope.only_axes(*axes), f"{dst.name}[{place}]"
        value = self._value(dst.dtype, inner)
        update = self._rng.choice(
            (f"{target} + {value}", f"{target} + {value}", f"T.max({target}, {value})",
             f"T.min({target}, {value})", f"{target} - {value}")
        )  # fmt: skip
        if self._has("conditional") and self._chance(0.2):
            self._emit(depth + 1, f"if {self._values.condition(inner, 1)}:")
            depth += 1
        self._emit(depth + 1, f"{target} = {update}")

    def _nested_stage(self, dst: Buf, scope: Scope) -> None:
        """Write a block around the last dimension, with memory of its own."""
        *outer, last = dst.shape
        axes = []
        for k, extent in enumerate(outer):
            name = self._values.name("i")
            self._emit(k, f"for {name} in {self._kind(extent, False)}:")
            axes.append((Axis(self._values.name("v"), extent), name))
        depth = len(outer)
        self._emit(depth, f'with T.block("{self._values.name("outer")}"):')
        for axis, name in axes:
            self._emit(depth + 1, f"{axis.name} = T.axis.spatial({axis.extent}, {name})")
        inner = scope.only_axes(*(a for a, _ in axes)) if axes else scope
        local = Buf(self._values.name("L"), self._rng.choice(self._dtypes), (last,))
        depth += 1
        if self._chance(0.6):
            self._emit(depth, allocation(local, self._rng.choice(("", ', scope="local"'))))
        else:
            self.allocated.append(local)
            self._not_parallel(depth)
        self._inner(depth, local, inner, [])
        seen = Scope(inner.axes, [*inner.readable, local], inner.scalars)
        self._inner(depth, dst, seen, [a for a, _ in axes])

    def _not_parallel(self, depth: int) -> None:
        """Make the loops around the present statement serial: their iterations share memory."""
        at, wanted = len(self.lines) - 1, depth
        while at >= 0 and wanted > 0:
            line = self.lines[at]
            indent = (len(line) - len(line.lstrip())) // len(STEP)
            if indent < wanted:
                wanted = indent
                for kind in ("T.parallel", "T.vectorized", "T.unroll"):
                    self.lines[at] = self.lines[at].replace(f" in {kind}(", " in range(")
            at -= 1

    def _inner(self, depth: int, dst: Buf, scope: Scope, outer: list[Axis]) -> None:
        """Write a loop over the last dimension of a buffer, with or without a block."""
        extent = dst.shape[-1]
        name = self._values.name("j")
        self._emit(depth, f"for {name} in {self._kind(extent, True)}:")
        last = Axis(name, extent)
        if self._chance(0.6):
            self._emit(depth + 1, f'with T.block("{self._values.name("inner")}"):')
            bound = [Axis(self._values.name("v"), a.extent) for a in (*outer, last)]
            for axis, source in zip(bound, (*outer, last), strict=True):
                self._emit(depth + 2, f"{axis.name} = T.axis.spatial({axis.extent}, {source.name})")
            depth += 1
            scope = scope.only_axes(*bound)
        else:
            bound = [*outer, last]
            scope = scope.with_axes(last)
        place = ", ".join(a.name for a in bound)
        self._emit(depth + 1, f"{dst.name}[{place}] = {self._value(dst.dtype, scope)}")

    def _across_stage(self, dst: Buf, scope: Scope) -> None:
        """Write memory in the first iteration only and read it in all of them."""
        kept = Buf(
            self._values.name("K"), self._rng.choice(self._dtypes), (self._rng.choice((1, 4)),)
        )
        self.allocated.append(kept)
        first, *rest = dst.shape
        time = self._values.name("t")
        self._emit(0, f"for {time} in range({first}):")
        width = kept.shape[0]
        lane = self._values.name("j")
        self._emit(1, f"for {lane} in {self._kind(width, True)}:")
        self._emit(2, f'with T.block("{self._values.name("keep")}"):')
        axis = Axis(self._values.name("v"), width)
        self._emit(3, f"{axis.name} = T.axis.spatial({width}, {lane})")
        whole = f"{time} == 0" if self._chance(0.8) else f"{time} < 1"
        self._emit(3, f"T.where({whole})")
        self._emit(
            3, f"{kept.name}[{axis.name}] = {self._value(kept.dtype, scope.only_axes(axis))}"
        )
        axes = [Axis(time, first)]
        for k, extent in enumerate(rest):
            axes.append(Axis(self._values.name("i"), extent))
            self._emit(1 + k, f"for {axes[-1].name} in {self._kind(extent, True)}:")
        depth = 1 + len(rest)
        seen = Scope([], [*scope.readable, kept], scope.scalars)
        if self._chance(0.6):
            self._emit(depth, f'with T.block("{self._values.name("use")}"):')
            bound = [Axis(self._values.name("v"), a.extent) for a in axes]
            for new, old in zip(bound, axes, strict=True):
                self._emit(depth + 1, f"{new.name} = T.axis.spatial({new.extent}, {old.name})")
            axes, depth = bound, depth + 1
        seen = seen.only_axes(*axes)
        place = ", ".join(a.name for a in axes)
        self._emit(depth, f"{dst.name}[{place}] = {self._value(dst.dtype, seen)}")
        if self._chance(0.3) and depth == 1 + len(rest):
            again = self._rng.randrange(int(width))
            self._not_parallel(depth)
            value = self._value(kept.dtype, seen)
            self._emit(depth, f"{kept.name}[{again}] = {value}")

    def _recurrence_stage(self, dst: Buf, scope: Scope) -> None:
        """Write elements one after the other, each from the one before it."""
        axes, depth = self._loops(dst, free=False)
        inner = scope.with_axes(*axes)
        last = axes[-1].name
        place = [a.name for a in axes]
        before = f"{dst.name}[{', '.join([*place[:-1], f'{last} - 1'])}]"
        value = self._value(dst.dtype, inner)
        op = self._rng.choice(("+", "-", "*"))
        start = self._values.leaf(dst.dtype, inner)
        carried = f"T.if_then_else({last} > 0, {before}, {start})"
        self._emit(depth, f"{dst.name}[{', '.join(place)}] = {carried} {op} {value}")

    def _bounds_stage(self, dst: Buf, scope: Scope) -> None:
        """Write loops that do not start at 0, and one inside whose extent is not constant."""
        *outer, last = dst.shape
        axes, place = [], []
        for depth, extent in enumerate([*outer, last]):
            axis = Axis(self._values.name("i"), extent)
            axes.append(axis)
            if depth < len(outer) or self._chance(0.4):
                self._emit(depth, f"for {axis.name} in {self._kind(extent, False)}:")
                place.append(axis.name)
            else:
                low = self._rng.choice((1, -3, 40))
                self._emit(depth, f"for {axis.name} in range({low}, {extent} + {low}):")
                place.append(f"{axis.name} - {low}")
        depth = len(axes)
        target = f"{dst.name}[{', '.join(place)}]"
        plain = [a for a, index in zip(axes, place, strict=True) if a.name == index]
        inner = scope.with_axes(*plain)
        self._emit(depth, f"{target} = {self._values.leaf(dst.dtype, inner)}")
        step = self._values.name("k")
        data = self._values.load("int32", inner) if "int32" in self._dtypes else None
        around = plain[-1].name if plain else "2"
        extents = [f"{around} % 4", f"T.min({around}, 5)", f"{around} - 2", f"3 - {around}"]
        extents += [f"T.bitwise_and({data}, 3)", f"T.min({data}, 4)"] if data else []
        self._emit(depth, f"for {step} in range({self._rng.choice(extents)}):")
        value = self._value(
            dst.dtype, Scope([*inner.axes, Axis(step, 5)], inner.readable, inner.scalars)
        )
        self._emit(depth + 1, f"{target} = {target} {self._rng.choice('+-*')} {value}")

    def _narrow_loop_stage(self, dst: Buf, scope: Scope) -> None:
        """Write plain loops whose variables have another type than int32."""
        axes = []
        for depth, extent in enumerate(dst.shape):
            name = self._values.name("i")
            dtype = self._rng.choice(("int8", "int16", "int64", "uint16"))
            self._emit(depth, f'for {name} in range(T.cast({extent}, "{dtype}")):')
            axes.append(Axis(f'T.cast({name}, "int32")', extent))
        place = ", ".join(a.name for a in axes)
        value = self._value(dst.dtype, scope.with_axes(*axes))
        self._emit(len(axes), f"{dst.name}[{place}] = {value}")

    def _library_stage(self, dst: Buf, scope: Scope) -> None:
        """Write plain loops that call a library function for each element."""
        axes, depth = self._loops(dst)
        inner = scope.with_axes(*axes)
        place = ", ".join(a.name for a in axes)
        given = f'T.cast({self._value(dst.dtype, inner)}, "int32")'
        made = f'T.call_packed("fuzz_lowering.bits", {given}, dtype="int32")'
        self._emit(depth, f'{dst.name}[{place}] = T.cast({made}, "{dst.dtype}")')

    def _exit(self, dst: Buf, scope: Scope) -> None:
        """Update a buffer step by step, and leave the function in some step."""
        step = Axis(self._values.name("t"), self._rng.choice((2, 5, 16)))
        self._emit(0, f"for {step.name} in range({step.extent}):")
        axes, depth = [], 1
        for extent in dst.shape:
            axes.append(Axis(self._values.name("i"), extent))
            self._emit(
                depth, f"for {axes[-1].name} in {self._kind(extent, extent is dst.shape[-1])}:"
            )
            depth += 1
        inner = scope.with_axes(step, *axes)
        place = ", ".join(a.name for a in axes)
        leave = f"if {self._values.condition(inner, 1)}:"
        self._emit(
            depth, f"{dst.name}[{place}] = {dst.name}[{place}] + {self._value(dst.dtype, inner)}"
        )
        if self._chance(0.3):
            self._not_parallel(depth)
            self._emit(depth, leave)
            self._emit(depth + 1, "T.ret(0)")
        else:
            self._emit(1, f"if {self._values.condition(scope.with_axes(step), 1)}:")
            self._emit(2, "T.ret(0)")

    def _while_stage(self, dst: Buf, scope: Scope) -> None:
        """Write the first dimension with a `while` loop that counts in memory."""
        counter = Buf(self._values.name("W"), "int32", (1,))
        self.allocated.append(counter)
        self._emit(0, f"{counter.name}[0] = 0")
        self._emit(0, f"while {counter.name}[0] < {dst.shape[0]}:")
        axes = []
        for k, extent in enumerate(dst.shape[1:]):
            axes.append(Axis(self._values.name("i"), extent))
            self._emit(1 + k, f"for {axes[-1].name} in {self._kind(extent, True)}:")
        place = ", ".join([f"{counter.name}[0]", *(a.name for a in axes)])
        value = self._value(dst.dtype, scope.with_axes(*axes))
        self._emit(1 + len(axes), f"{dst.name}[{place}] = {value}")
        self._emit(1, f"{counter.name}[0] = {counter.name}[0] + 1")

    def _view_stage(self, dst: Buf, scope: Scope) -> None:
        """Write rows through a view of the buffer, reading a row of another one through a view."""
        rows, columns = dst.shape
        name, axis = self._values.name("i"), Axis(self._values.name("v"), rows)
        self._emit(0, f"for {name} in {self._kind(rows, False)}:")
        self._emit(1, f'with T.block("{self._values.name("view")}"):')
        self._emit(2, f"{axis.name} = T.axis.spatial({rows}, {name})")
        view = Buf(self._values.name("V"), dst.dtype, (columns,))
        views = [(view, dst)]
        others = [
            b for b in scope.readable
            if len(b.shape) == 2 and b.shape[0] == rows and b.name != dst.name
        ]  # fmt: skip
        if others:
            other = self._rng.choice(others)
            row = Buf(self._values.name("V"), other.dtype, (other.shape[1],))
            views.append((row, other))
        reads = ", ".join(self._whole(b) for b in scope.readable if b.name != dst.name)
        self._emit(2, f"T.reads({reads})")
        self._emit(2, f"T.writes({dst.name}[{axis.name}, 0:{columns}])")
        for inner, outer in views:
            region = f"{outer.name}[{axis.name}, 0:{inner.shape[0]}]"
            self._emit(
                2,
                f'{inner.name} = T.match_buffer({region}, ({inner.shape[0]},), "{inner.dtype}", '
                "offset_factor=1)",
            )
        last = Axis(self._values.name("j"), columns)
        self._emit(2, f"for {last.name} in {self._kind(columns, True)}:")
        readable = [b for b in scope.readable if b.name != dst.name]
        readable += [v for v, _ in views[1:]] * 2
        seen = Scope([axis, last], readable, scope.scalars)
        self._emit(3, f"{view.name}[{last.name}] = {self._value(dst.dtype, seen)}")

    def _whole(self, buf: Buf) -> str:
        return f"{buf.name}[{', '.join(f'0:{n}' for n in buf.shape)}]"

    def _call_stage(self, dst: Buf, scope: Scope) -> None:
        """Write a buffer in a function of its own, which takes compact memory only."""
        if dst not in self.allocated:
            self._block_stage(dst, scope)
            return
        constant = [b for b in scope.readable if all(isinstance(n, int) for n in b.shape)]
        bufs = [*[b for b in constant if b in self.allocated][:2], dst]
        *sources, target = [Buf(self._values.name("P"), b.dtype, b.shape) for b in bufs]
        inner = Stages(self._values, self._dtypes, [], {})
        known = len(self._values.lets)
        inner._block_stage(target, Scope([], sources, []))
        lets = self._values.lets[known:]
        del self._values.lets[known:]
        params = ", ".join(
            f'{b.name}: T.Buffer(({", ".join(map(str, b.shape))},), "{b.dtype}")'
            for b in (*sources, target)
        )
        name = self._values.name("helper")
        if self._has("C names") and self._chance(0.5):
            taken = "".join(self.helpers)
            name = self._rng.choice([c for c in C_NAMES if f" {c}(" not in taken])
        self.helpers += ["@T.prim_func", f"def {name}({params}):"]
        self.helpers += [f"{STEP}{let} = T.{dtype}()" for let, dtype in lets]
        self.helpers += [STEP + line for line in inner.lines] + [""]
        self._emit(0, f"Module.{name}({', '.join(f'{b.name}.data' for b in bufs)})")

    # ------------------------------------------------------------------------- partial statements

    def _conditional(self, dst: Buf, scope: Scope) -> None:
        """Write one element under a condition on sizes or values."""
        if any(isinstance(n, str) for n in dst.shape):
            symbol = next(n for n in dst.shape if isinstance(n, str))
            condition = f"{symbol} > 0" if self._chance(0.5) else f"0 < {symbol}"
            if any(isinstance(n, str) and n != symbol for n in dst.shape):
                condition = " and ".join(f"{n} > 0" for n in dst.shape if isinstance(n, str))
            place = [
                f"{n} - 1" if isinstance(n, str) else str(self._rng.randrange(n)) for n in dst.shape
            ]
        else:
            place = [str(self._rng.randrange(int(n))) for n in dst.shape]
            options = [
                f"{s} {self._rng.choice(('<', '>=', '=='))} {self._rng.choice((0, 1, 2))}"
                for s in self.symbols
            ]
            condition = self._rng.choice([*options, self._values.condition(scope, 1)])
        self._emit(0, f"if {condition}:")
        self._emit(1, f"{dst.name}[{', '.join(place)}] = {self._value(dst.dtype, scope)}")

    def update(self, dst: Buf, scope: Scope) -> None:
        """Change the elements of a defined buffer in place, or some of them."""
        axes, depth = self._loops(dst)
        inner = scope.with_axes(*axes)
        place = ", ".join(a.name for a in axes)
        if self._has("conditional") and self._chance(0.5):
            self._emit(depth, f"if {axes[0].name} % 2 == {self._rng.choice((0, 1))}:")
            depth += 1
        others = [b for b in scope.readable if b.name != dst.name]
        value = self._value(dst.dtype, Scope(inner.axes, others, inner.scalars))
        op = self._rng.choice(("+", "-", "*"))
        self._emit(depth, f"{dst.name}[{place}] = {dst.name}[{place}] {op} {value}")


def allocation(buf: Buf, scope: str = "") -> str:
    """Return the line that allocates a buffer."""
    shape = ", ".join(map(str, buf.shape))
    return f'{buf.name} = T.alloc_buffer(({shape},), "{buf.dtype}"{scope})'
