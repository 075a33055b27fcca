"""Random tensor programs as script text: what lowering is tried on.

A program is a row of stages (`random_stages`). Each defines one buffer and reads what is defined
before it. Programs are well defined as far as this can be seen while writing; who uses them leaves
out those that the interpreter refuses.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from benchmarks.random_stages import STEP, Stages, allocation
from benchmarks.random_values import FLOATS, SIGNED, UNSIGNED, Buf, Extent, Scope, Values

SYMBOL_VALUES = (0, 0, 1, 1, 2, 3, 5, 8, 9, 16)
FEATURES = (
    "symbols",
    "narrow",
    "half",
    "float",
    "nan",
    "extremes",
    "cast",
    "division",
    "shift",
    "wide shift",
    "let",
    "gather",
    "guard",
    "float remainder",
    "strides",
    "view",
    "call",
    "while",
    "scalar",
    "across",
    "nested",
    "kinds",
    "where",
    "conditional",
    "noalias",
    "bounds",
    "empty",
    "reading init",
    "narrow loop",
    "library",
    "exit",
    "C names",
    "negative strides",
)
"""Kinds of forms that can be left out."""


@dataclass(frozen=True)
class Program:
    """A program and the values that the variables in its shapes have."""

    text: str
    sizes: dict[str, int]


def random_program(seed: int, without: frozenset[str] = frozenset()) -> Program:
    """Return the program of a seed; `without` names those of `FEATURES` that it must not have."""
    return _Writer(random.Random(seed), without).program()


class _Writer:
    def __init__(self, rng: random.Random, without: frozenset[str]) -> None:
        self._rng = rng
        self._without = without
        self._dtypes = self._some_dtypes()
        self._values = Values(rng, self._dtypes, without)
        self._sizes: dict[str, int] = {}

    def _has(self, kind: str) -> bool:
        return kind not in self._without

    def _some_dtypes(self) -> list[str]:
        wide = ["int32", "int32", "int64"]
        if self._has("float"):
            wide += ["float32", "float32", "float64"]
        if self._has("half"):
            wide += ["float16", "bfloat16"]
        if self._has("narrow"):
            wide += ["int8", "int16", *UNSIGNED]
        chosen = self._rng.sample(wide, min(3, len(wide)))
        return sorted(set(chosen), key=(*SIGNED, *UNSIGNED, *FLOATS).index)

    def program(self) -> Program:
        if self._has("symbols") and self._values.chance(0.7):
            names = ["n", "m"][: self._rng.choice((1, 1, 2))]
            self._sizes = {name: self._rng.choice(SYMBOL_VALUES) for name in names}
        stages = Stages(self._values, self._dtypes, list(self._sizes), self._sizes)
        inputs = [self._buf(f"A{k}", stages) for k in range(self._rng.choice((1, 2, 2, 3)))]
        outputs = [self._buf(f"B{k}", stages) for k in range(self._rng.choice((1, 1, 2)))]
        parameters = [*inputs, *outputs]
        # Only what stands in the shape of a parameter has a value.
        stages.symbols = [s for s in self._sizes if any(s in b.shape for b in parameters)]
        scalars = []
        if self._has("scalar") and self._values.chance(0.3):
            scalars = [("s", self._rng.choice(self._dtypes))]
        scope = Scope([], [*inputs], scalars)
        for output in outputs:
            for _ in range(self._rng.choice((0, 0, 1, 1, 2))):
                temporary = self._buf(self._values.name("C"), stages)
                stages.allocated.append(temporary)
                stages.stage(temporary, scope)
                scope.readable.append(temporary)
            stages.stage(output, scope)
            scope.readable.append(output)
            if self._values.chance(0.3):
                stages.update(self._rng.choice(scope.readable), scope)
        return Program(self._text(parameters, scalars, stages), self._sizes)

    def _buf(self, name: str, stages: Stages) -> Buf:
        shape = tuple(stages.extent() for _ in range(self._rng.choice((1, 1, 2, 2, 2))))
        return Buf(name, self._rng.choice(self._dtypes), shape)

    def _text(self, parameters: list[Buf], scalars: list[tuple[str, str]], stages: Stages) -> str:
        handles = [f"{b.name.lower()}: T.handle" for b in parameters]
        handles += [f"{name}: T.{dtype}" for name, dtype in scalars]
        attrs = '"global_symbol": "main"'
        if self._has("noalias") and self._values.chance(0.7):
            attrs += ', "tir.noalias": True'
        symbols = [f"{name} = T.int32()" for name in self._sizes]
        matches = [line for b in parameters for line in self._match(b)]
        body = [
            f"T.func_attr({{{attrs}}})",
            *symbols,
            *(f"{name} = T.{dtype}()" for name, dtype in self._values.lets),
            *matches,
            *(allocation(b) for b in stages.allocated),
            *stages.lines,
        ]
        lines = ["@T.prim_func", f"def main({', '.join(handles)}):", *(STEP + x for x in body)]
        if stages.helpers:
            functions = [*stages.helpers, *lines]
            lines = ["@I.ir_module", "class Module:", *(STEP + line for line in functions)]
        return "\n".join(lines) + "\n"

    def _match(self, buf: Buf) -> list[str]:
        """Return the lines that bind a parameter, sometimes with strides and an offset."""
        before: list[str] = []
        layout = ""
        if self._has("strides") and self._values.chance(0.2):
            inner = self._rng.choice((1, 1, 2, 3))
            strides: list[Extent] = [inner]
            if len(buf.shape) == 2:
                row = self._number(buf.shape[1]) * inner + self._rng.choice((0, 1, 5))
                if isinstance(buf.shape[1], int) and self._values.chance(0.5):
                    strides = [row, inner]
                else:
                    name = f"stride_{buf.name}"
                    before = [f"{name} = T.int32()"]
                    backwards = self._has("negative strides") and self._values.chance(0.3)
                    self._sizes[name] = -row if backwards else row
                    strides = [name, inner]
            layout = f", strides=({', '.join(map(str, strides))},)"
            if self._values.chance(0.3):
                layout += ", elem_offset=4"
        shape = ", ".join(map(str, buf.shape))
        head = f"{buf.name} = T.match_buffer({buf.name.lower()}, ({shape},)"
        return [*before, f'{head}, "{buf.dtype}"{layout})']

    def _number(self, extent: Extent) -> int:
        return self._sizes[extent] if isinstance(extent, str) else extent
