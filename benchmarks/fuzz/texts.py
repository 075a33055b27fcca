"""Texts that are almost right: programs, graph functions, traces, and saved traces.

A text is an original with tokens, characters and lines changed at random. The reader accepts it, or
raises an error that the format documents. One in ten accepted texts is written and read again.
"""

from __future__ import annotations

import json
import keyword
import random
import re
import resource
from collections.abc import Callable, Mapping, Sequence
from typing import Final, get_args

from benchmarks.forked_runs import Outcome
from benchmarks.fuzz.campaign import Failure, Fuzzer, Note, explained, shortest
from benchmarks.fuzz.graphs import random_graph
from benchmarks.fuzz.programs import program, program_names
from benchmarks.fuzz.schedules import changed
from schedule import Trace, TraceError
from tensorir import assert_structural_equal, parse
from tensorir.dialect import Dialect
from tensorir.errors import DiagnosticError
from tensorir.script.constants import LEFT_OUT
from tests.recorded import RECORDED, recorded

MEMORY_LIMIT: Final = 4 << 30
"""Bytes of address space of a process: reading must not cost more than the text suggests."""

# ------------------------------------------------------------------------------- random changes

_TOKEN = re.compile(
    r"[A-Za-z_]\w*|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\"[^\"\n]*\"|\*\*|//|[<>=!]=|->|\S"
)
_SPELLINGS = """
0 1 -1 2 4294967296 9223372036854775807 -9223372036854775808 1e400 0.5 1_000 0x1f 10**30 "float32"
"int8" "handle" "" "float99" True False None ( ) [ ] { } , : ; . = == != < <= >> << + - * / // %
** @ ~ & | ^ -> := and or not if else for in while with as def class return assert pass lambda
break continue yield import from global try del is await match T I T.serial T.grid T.block T.axis
T.axis.remap T.axis.spatial T.init T.reads T.writes T.where T.Buffer T.match_buffer T.alloc_buffer
T.decl_buffer T.allocate T.let T.Let T.int8 T.int32 T.int64 T.uint8 T.float16 T.float32 T.bool
T.handle T.Ptr T.Range T.if_then_else T.Select T.max T.exp T.Cast T.reinterpret T.Ramp T.Broadcast
T.Shuffle T.evaluate T.ret T.attr T.Assert T.meta_var T.launch_thread T.env_thread T.index_map
T.block_attr T.func_attr T.unroll T.vectorized T.parallel T.thread_binding T.Add T.call_extern
T.call_intrin T.address_of T.tvm_access_ptr T.undef T.infinity T.min_value I.ir_module
I.module_attrs R.function R.Tensor R.Tuple R.Shape R.Prim R.Callable R.Object R.call_tir R.const
R.call_tir_inplace R.call_dps_packed R.call_packed R.call_pure_packed R.dataflow R.output R.tuple
R.match_cast R.shape R.prim_value R.str R.dtype R.array R.func_attr R.memory R.builtin metadata
I.GlobalVar out_sinfo sinfo_args tir_vars dtype ndim x y lv
self cls __class__ __import__ eval A B C n vi
"""
_TOKENS = tuple(_SPELLINGS.split())
_CHARACTERS = "\t\n\r\x00 \\\"'#\u00e9\u2028\u00b2\U0001f600()[]{}:,.;=@0a_"
_BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"), ("T.exp(", ")"), ("-", ""))


def mutated(text: str, others: Sequence[str], rng: random.Random) -> str:
    """Return a text with one to a few random changes; pieces may come from `others`."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 6))):
        kind = rng.choices(("token", "character", "line"), (42, 2, 4))[0]
        if kind == "token":
            text = _with_other_tokens(text, others, rng)
        elif kind == "character":
            place = rng.randrange(len(text) + 1)
            text = text[:place] + rng.choice(_CHARACTERS) + text[place + rng.randrange(2) :]
        else:
            text = _with_other_lines(text, others, rng)
    return text


def _spans(text: str) -> list[tuple[int, int]]:
    return [m.span() for m in _TOKEN.finditer(text)] or [(0, 0)]


def _kind(word: str) -> str:
    first = word[:1]
    if first.isalpha() or first == "_":
        return "keyword" if keyword.iskeyword(word) else "attribute" if "." in word else "name"
    return "number" if first.isdigit() else "string" if first == '"' else "sign"


def _with_other_tokens(text: str, others: Sequence[str], rng: random.Random) -> str:
    """Replace, borrow, leave out, insert, swap or put in brackets one or a few tokens."""
    spans = _spans(text)
    k = rng.randrange(len(spans))
    low, high = spans[k]
    kinds = ("similar", "any", "borrow", "delete", "insert", "swap", "wrap")
    kind = rng.choices(kinds, (20, 6, 5, 4, 4, 2, 1))[0]
    if kind == "similar":  # a name for a name, a number for a number, a sign for a sign
        known = {text[a:b] for a, b in spans} | {*_TOKENS}
        wanted = _kind(text[low:high])
        return text[:low] + rng.choice(sorted(w for w in known if _kind(w) == wanted)) + text[high:]
    if kind == "any":
        return text[:low] + rng.choice(_TOKENS) + text[high:]
    if kind == "borrow":
        other = rng.choice((text, rng.choice(others)))
        first, last = rng.choice(_spans(other))
        return text[:low] + other[first:last] + text[high:]
    if kind == "insert":
        place = rng.choice((low, high))
        return f"{text[:place]} {rng.choice(_TOKENS)} {text[place:]}"
    if kind == "swap":
        (a, b), (c, d) = sorted((spans[k], rng.choice(spans)))
        return text if c < b else text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]
    last = min(k + rng.choice((0, 0, 0, 1, 3)), len(spans) - 1)
    if kind == "delete":
        return text[:low] + text[spans[last][1] :]
    before, after = rng.choice(_BRACKETS)
    times, high = rng.choice((1, 1, 1, 2, 5, 3000)), spans[last][1]
    return text[:low] + before * times + text[low:high] + after * times + text[high:]


def _with_other_lines(text: str, others: Sequence[str], rng: random.Random) -> str:
    """Leave out, repeat, swap, borrow, indent or cut off lines."""
    lines = text.split("\n")
    k, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    what = rng.randrange(7)
    if what == 0:
        del lines[k]
    elif what == 1:
        lines.insert(other, lines[k])
    elif what == 2:
        lines[k], lines[other] = lines[other], lines[k]
    elif what == 3:
        lines.insert(k, rng.choice(rng.choice(others).split("\n")))
    elif what == 4:
        lines[k] = "    " + lines[k]
    elif what == 5:
        lines[k] = lines[k][min(4, len(lines[k]) - len(lines[k].lstrip())) :]
    else:
        del lines[k + 1 :]
    return "\n".join(lines)


# --------------------------------------------------------------------------------- the forms


class Texts(Fuzzer):
    """A form of text; the methods say how one is read, and written again."""

    batch = 100
    refusals: type[Exception] = DiagnosticError
    originals: Sequence[str] = ()

    def text(self, case: int) -> str:
        """Return one of the originals, changed at random."""
        rng = random.Random(case)
        return mutated(rng.choice(self.originals), self.originals, rng)

    def read(self, text: str) -> Callable[[], None]:
        """Read a text; return what checks that its meaning is written and read again."""
        raise NotImplementedError

    def limit(self) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))

    def check(self, case: int, note: Note) -> Mapping[str, int]:
        return {"read" if self.is_read(self.text(case), case % 10 == 0) else "refused": 1}

    def is_read(self, text: str, again: bool) -> bool:
        """Return True if a text is read, False if it is refused as documented."""
        try:
            read_again = self.read(text)
        except self.refusals as error:
            if isinstance(error, DiagnosticError):
                lines = text.count("\n") + text.count("\r") + 2
                if not (1 <= error.line <= lines and error.column >= 1 and "^" in str(error)):
                    raise Failure("a diagnostic without a place", error.message) from error
            return False
        if again:
            read_again()
        return True

    def described(self, case: int, outcome: Outcome, lines: Sequence[str]) -> str:
        def fails(parts: Sequence[str]) -> bool:
            try:
                self.is_read(separator.join(parts), again=True)
            except Exception as error:  # noqa: BLE001 - any exception is a failure
                return explained(error).what == outcome.what
            return False

        text = self.text(case)
        if outcome.what not in ("the process dies", "hangs"):
            for separator in ("\n", ""):
                parts = text.split("\n") if separator else list(text)
                text = separator.join(shortest(parts, fails, seconds=10))
        return repr(text)


class Scripts(Texts):
    """Programs: `parse` gives an equal one for what is printed."""

    def __init__(self) -> None:
        self.originals = [*(program(name).script() for name in program_names()), *SPELLINGS]

    def read(self, text: str) -> Callable[[], None]:
        result = parse(text)
        return lambda: assert_structural_equal(parse(result.script(show_meta=True)), result)


class GraphScripts(Scripts):
    """Modules with graph functions, in every dialect."""

    def __init__(self) -> None:
        modules = [random_graph(seed, steps=4).mod for seed in range(12)]
        texts = [mod.script(dialect=d) for mod in modules for d in get_args(Dialect)]
        texts = [text for text in texts if LEFT_OUT not in text]
        self.originals = [*texts, *(mod.script(show_meta=True) for mod in modules), *GRAPHS]


class Traces(Texts):
    """Traces as Python text: `Trace.from_python` gives a trace that prints the same."""

    def __init__(self) -> None:
        entries = [entry for name in RECORDED for entry in recorded(name)]
        self.originals = [e["trace_py"] for e in entries if e.get("trace_py")]
        self.originals += [str(Trace.from_json(entry["trace"])) for entry in entries]

    def read(self, text: str) -> Callable[[], None]:
        trace = Trace.from_python(text)

        def again() -> None:
            if Trace.from_python(str(trace)).as_json() != trace.as_json():
                raise Failure("the printed trace reads as another one", text)

        return again


class SavedTraces(Texts):
    """Traces as JSON: `Trace.from_json` gives a trace that saves the same, or a `TraceError`."""

    refusals = TraceError

    def __init__(self) -> None:
        self.originals = [json.dumps(e["trace"]) for name in RECORDED for e in recorded(name)]

    def text(self, case: int) -> str:
        """Return a trace with changed values, or, less often, with changed text."""
        rng = random.Random(case)
        if rng.random() < 0.2:
            return super().text(case)
        return json.dumps(changed(json.loads(rng.choice(self.originals)), rng))

    def read(self, text: str) -> Callable[[], None]:
        saved = json.dumps(Trace.from_json(text).as_json())

        def again() -> None:
            if json.dumps(Trace.from_json(saved).as_json()) != saved:
                raise Failure("the saved trace loads as another one", text)

        return again


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
"""Spellings of the dialect that the programs of `fuzz.programs` lack."""


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
