"""What texts there are, how each is changed at random, and what must become of it."""

from __future__ import annotations

import json
import os
import random
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, get_args

from benchmarks.fuzz_programs import program, program_names
from benchmarks.random_graphs import random_graph
from benchmarks.random_schedules import scrambled
from benchmarks.text_mutations import mutated
from schedule import Trace, TraceError
from tensorir import assert_structural_equal, parse
from tensorir.dialect import Dialect
from tensorir.errors import DiagnosticError
from tensorir.script.constants import LEFT_OUT
from tests.recorded import RECORDED, recorded


class TextFault(Exception):
    """A text that ended otherwise than it should; `where` tells kinds of faults apart."""

    def __init__(self, where: str, detail: str) -> None:
        super().__init__(f"{where}: {detail}")
        self.where = where
        self.detail = detail


class TextForm(ABC):
    """A form of text: it is read, or refused by an error that the form documents."""

    originals: Sequence[str]

    def changed(self, rng: random.Random) -> str:
        """Return one of the originals, changed at random."""
        return mutated(rng.choice(self.originals), self.originals, rng)

    def check(self, text: str, again: bool) -> bool:
        """Return whether a text is read; with `again`, what it means is written and read again.

        Raises TextFault where that goes wrong.
        """
        try:
            return self._read(text, again)
        except TextFault:
            raise
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{type(error).__name__} in {os.path.basename(frame.filename)}, {frame.name}"
            words = str(error)[:300].replace("\t", " ")
            raise TextFault(where, words) from error

    @abstractmethod
    def _read(self, text: str, again: bool) -> bool: ...


def _check_place(error: DiagnosticError, text: str) -> None:
    lines = text.count("\n") + text.count("\r") + 2
    if not (1 <= error.line <= lines and error.column >= 1 and "^" in str(error)):
        raise TextFault("a diagnostic without a place", error.message)


class Scripts(TextForm):
    """Programs: `parse` gives an equal one for what is printed, or a `DiagnosticError`."""

    def __init__(self) -> None:
        programs = [program(name).script() for name in program_names()]
        self.originals = [*programs, *SPELLINGS]

    def _read(self, text: str, again: bool) -> bool:
        try:
            result = parse(text)
        except DiagnosticError as error:
            _check_place(error, text)
            return False
        if again:
            printed = result.script(show_meta=True)
            assert_structural_equal(parse(printed), result)
        return True


class Graphs(Scripts):
    """Modules with graph functions, in every dialect."""

    def __init__(self) -> None:
        modules = [random_graph(seed, steps=4).mod for seed in range(12)]
        texts = [mod.script(dialect=d) for mod in modules for d in get_args(Dialect)]
        texts = [text for text in texts if LEFT_OUT not in text]
        self.originals = [*texts, *(mod.script(show_meta=True) for mod in modules), *GRAPHS]


class Traces(TextForm):
    """Traces as Python text: `Trace.from_python` gives what prints alike, or `DiagnosticError`."""

    def __init__(self) -> None:
        entries = [entry for name in RECORDED for entry in recorded(name)]
        self.originals = [e["trace_py"] for e in entries if e.get("trace_py")]
        self.originals += [str(Trace.from_json(entry["trace"])) for entry in entries]

    def _read(self, text: str, again: bool) -> bool:
        try:
            trace = Trace.from_python(text)
        except DiagnosticError as error:
            _check_place(error, text)
            return False
        if again and Trace.from_python(str(trace)).as_json() != trace.as_json():
            raise TextFault("the printed trace reads as another one", text)
        return True


class SavedTraces(TextForm):
    """Traces as JSON: `Trace.from_json` gives what saves alike, or a `TraceError`."""

    def __init__(self) -> None:
        self.originals = [json.dumps(e["trace"]) for name in RECORDED for e in recorded(name)]

    def changed(self, rng: random.Random) -> str:
        """Return a trace with changed values, or, less often, with changed text."""
        if rng.random() < 0.2:
            return super().changed(rng)
        return json.dumps(scrambled(json.loads(rng.choice(self.originals)), rng))

    def _read(self, text: str, again: bool) -> bool:
        try:
            trace = Trace.from_json(text)
        except TraceError:
            return False
        if again:
            saved = json.dumps(trace.as_json())
            if json.dumps(Trace.from_json(saved).as_json()) != saved:
                raise TextFault("the saved trace loads as another one", text)
        return True


SPELLINGS: Final = (
    """
@T.prim_func
def f(a: T.handle, b: T.handle, n: T.int32):
    T.func_attr({"global_symbol": "f", "tir.noalias": T.bool(True)})
    m = T.int64()
    A = T.match_buffer(a, (m, 16), strides=(16, 1), align=64)
    B = T.match_buffer(b, (m,), "int8", offset_factor=1)
    assert m < T.int64(100), "too long"
    x: T.int32 = n * 2
    with T.LetStmt(T.exp(T.float32(0.5))) as y:
        while B[0] < T.int8(3):
            B[0] = B[0] + T.int8(1)
        for i in T.vectorized(16):
            A[0, i] = T.if_then_else(i < x, y, A[0, i] * T.float32(2))
    if n > 3:
        T.evaluate(T.call_extern("int32", "g", n, A.data))
    else:
        A[0, 0:4] = T.Broadcast(T.float32(1), 4) + A[0, T.Ramp(4, 1, 4)]
""",
    """
@I.ir_module
class Module:
    I.module_attrs({"runtime": 1})

    @T.prim_func(private=True)
    def add(x: T.int32) -> T.int32:
        return x + 1

    @T.prim_func
    def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
        C = T.alloc_buffer((8,), scope="local")
        D = T.decl_buffer((64,), data=A.data)
        for i0, j0 in T.grid(8, T.int32(8)):
            with T.block("sum"):
                T.where(i0 * 8 + j0 < 60)
                i = T.axis.spatial(8, i0)
                j = T.axis.reduce(8, j0)
                T.reads(A[i, j])
                T.writes(C[i])
                T.block_attr({"pragma": [1, "two", {"k": 0.5}]})
                with T.init():
                    C[i] = T.float32("-inf")
                C[i] = T.max(C[i], A[i, j])
        for k in T.thread_binding(8, thread="threadIdx.x"):
            with T.block(""):
                v = T.axis.remap("S", [k])
                A0 = T.match_buffer(C[v:v + 1], (1,), offset_factor=1, scope="local")
                B[v] = A0[0] + D[v] + T.Cast("float32", Module.add(v))
""",
    """
@T.macro
def double(buffer, index):
    buffer[index] = buffer[index] * 2.0

@T.prim_func
def g(A: T.Buffer(16, "float16"), out: T.Buffer((2, 2), "bool")):
    T.attr(0, "pragma", 1)
    a: T.let[T.int64] = T.int64(3)
    p = T.allocate([16], "uint8", "global", annotations={"k": 1})
    q = T.allocate_const([1, 2, 3], "int32", [3])
    buf = T.Buffer((16,), "uint8", data=p)
    for i in range(4):
        for j in T.unroll(0, 4, annotations={"u": True}):
            double(A, i * 4 + j)
            buf[i] = T.uint8(255) >> T.uint8(j)
    out[0, 1] = not (a > 2 and buf[3] == T.uint8(0)) or T.isnan(A[0])
    T.evaluate(T.Select(a == 1, a // 3, a % -2))
""",
)
"""Spellings of the dialect that the programs of `fuzz_programs` do not have."""


GRAPHS: Final = (
    """
metadata = {"relax.expr.Constant": [R.array("float32", (1, 4), "AAAAAAAAgD8AAABAAABAQA==")]}

@I.ir_module
class Module:
    I.module_attrs({"runtime": 1})

    @T.prim_func(private=True)
    def relu(x: T.handle, y: T.handle, k: T.int64):
        n = T.int64()
        X = T.match_buffer(x, (n, 4))
        Y = T.match_buffer(y, (n, 4))
        for i, j in T.grid(n, 4):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.cast(k, "float32"))

    @R.function(private=True)
    def same(s: R.Tensor(("n", "n * 2"))) -> R.Tensor(("n", "n * 2")):
        n = T.int64()
        return s

    @R.function(pure=False)
    def main(x: R.Tensor((1, 4), "float32"), c: R.Tensor((), "bool"), o: R.Object,
             f: R.Callable((R.Tensor,), R.Tuple, True), s: R.Shape(["m"]), p: R.Prim("int64")):
        R.func_attr({"num_input": 1})
        cls = Module
        m = T.int64()
        with R.dataflow():
            a = R.call_tir(cls.relu, (x,), R.Tensor((1, 4), "float32"), tir_vars=R.shape([m]))
            b = R.call_dps_packed("two", (a, R.const([1.5, 0.1])),
                                  out_sinfo=[R.Tensor((1, 4), "float32"), R.Tensor((m,), "int32")])
            d, e = b
            g = metadata["relax.expr.Constant"][0]
            R.output(a, d, g)
        k = T.int64()
        h: R.Tensor((k, k * 2)) = R.match_cast(o, R.Tensor((k, k * 2)))
        l = same(h)
        R.call_packed("log", l, 1, R.str("text"), (k, 2), f, sinfo_args=R.Tuple)
        if c:
            q = R.call_tir("f", (R.call_tir_inplace(relu, (d, g), [1], R.Tensor((1, 4), "float32"),
                                 tir_vars=[3]),), (1, 4), dtype="float32")
            r = q
        else:
            r = x
        z = R.builtin.alloc_tensor(R.shape([1, 4]), R.dtype("float32"), R.prim_value(0), R.str("g"))
        R.memory.copy_into(r, z)
        return (z, (l, R.prim_value(m + 1)), 1.0)
""",
    """
n = TypeVar("n")
metadata = tvm.ir.load_json('{"root": 1, "nodes": [{}, {"keys": [], "data": []}]}')

@R.function
def even(c: R.Tensor((), "bool"), x: Tensor((n, 4), "float32")) -> Tensor((n, 4), "float32"):
    with R.dataflow():
        lv: Tensor((n, 4)) = R.call_pure_packed("f", x, sinfo_args=(Tensor((n, 4), "float32"),))
        R.output(lv)
    y = R.tuple(lv, x)[1], c
    return y[0]
""",
)  # fmt: skip
"""Spellings of graph functions."""


FORMS: Final[dict[str, Callable[[], TextForm]]] = {
    "scripts": Scripts,
    "graphs": Graphs,
    "traces": Traces,
    "json": SavedTraces,
}
