"""The dialect of scripts, as text and as decorated functions."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import DiagnosticError, I, T, assert_structural_equal, parse
from tensorir.function import IRModule, PrimFunc
from tensorir.script import ir_module, prim_func

# ------------- Every form of the dialect parses, and prints to text that parses to the same program

HEADER = (
    "@T.prim_func\n"
    'def f(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32"), '
    "n: T.int32, p: T.handle):\n"
)
SUITES = {
    "match": '    C = T.match_buffer(p, (n, 4), "float32")\n    C[0, 0] = 1.0\n',
    "serial2": '    for i in T.serial(2, n, annotations={"a": 1}):\n        A[0, 0] = 1.0\n',
    "thread": '    for i in T.thread_binding(4, thread="threadIdx.x"):\n        A[0, i] = 1.0\n',
    "grid tuple": "    for t in T.grid(4, 4):\n        A[t] = 1.0\n",
    "grid star": "    for i, *r in T.grid(4, 4, 2):\n        A[i, r[0]] = 1.0\n",
    "vecstore": "    A[0, 0:4] = T.Broadcast(T.float32(1), 4)\n",
    "vecload": "    A[0, 0:4] = B[1, 4:8] + B[0, 0:4]\n",
    "let": "    x = n + 1\n    A[0, x] = 1.0\n",
    "let64": "    x: T.int64 = T.int64(3)\n    A[0, x] = 1.0\n",
    "letptr": "    with T.LetStmt(n * 2) as y:\n        A[0, y] = 1.0\n",
    "Let": '    x = T.int32()\n    A[0, 0] = T.Let(T.Cast("float32", x), where={x: n})\n',
    "meta": "    k = T.meta_var(4)\n    A[0, k] = 1.0\n",
    "alloc": '    q = T.allocate([16], "float32", "global")\n    Q = T.Buffer((16,), "float32", data=q)\n    Q[0] = 1.0\n',
    "withalloc": '    with T.allocate([16], "float32", "global") as q:\n        Q = T.decl_buffer((16,), "float32", data=q)\n        Q[0] = 1.0\n',
    "const": '    q = T.allocate_const([1, 2, 3], "int32", [3])\n    Q = T.Buffer((3,), "int32", data=q)\n    A[0, Q[0]] = 1.0\n',
    "vstore": "    A.vstore([0, T.Ramp(0, 1, 4)], T.Broadcast(T.float32(1), 4), predicate=T.Broadcast(T.bool(True), 4))\n",
    "attr": '    T.attr(A.data, "key", 1)\n    A[0, 0] = 1.0\n',
    "withattr": '    with T.attr(A.data, "key", 1):\n        A[0, 0] = 1.0\n',
    "if": "    if n < 3:\n        A[0, 0] = 1.0\n    elif n < 5:\n        A[0, 0] = 2.0\n    else:\n        A[0, 0] = 3.0\n",
    "TIf": "    with T.If(n < 3):\n        with T.Then():\n            A[0, 0] = 1.0\n        with T.Else():\n            A[0, 0] = 2.0\n",
    "while": "    while n < 3:\n        A[0, 0] = 1.0\n",
    "assert": '    assert n < 3, "small"\n    A[0, 0] = 1.0\n',
    "Assert": '    with T.Assert(n < 3, "small"):\n        A[0, 0] = 1.0\n',
    "ret": "    return n\n",
    "evaluate": '    T.evaluate(n)\n    T.evaluate("s")\n',
    "realize": '    T.evaluate(T.call_extern("int32", "foo", A.data, n))\n',
    "llvm": '    A[0, 0] = T.call_llvm_pure_intrin("float32", "llvm.fma.f32", T.uint32(3), A[0, 0], A[0, 1], A[0, 2])\n',
    "select": '    A[0, 0] = T.Select(n < 3, A[0, 1], A[0, 2]) + T.if_then_else(n < 2, T.float32(1), T.float32("inf"))\n',
    "cast": '    A[0, 0] = T.Cast("float32", n) + T.cast(n, "float32") + T.float32(n)\n',
    "math": "    A[0, 0] = T.exp(A[0, 0]) + T.tanh(A[0, 1]) + T.sigmoid(A[0,2]) + T.pow(A[0,0], A[0,1]) + T.max(A[0,0], T.min(A[0,1], 3.0))\n",
    "bits": "    A[0, (n << 1) & 7 | 1 ^ 2] = 1.0\n    A[0, ~n] = 1.0\n",
    "trunc": "    A[0, T.truncmod(n, 4) + T.ceildiv(n, 2) + T.floordiv(n, 3)] = 1.0\n",
    "block": '    for i in range(8):\n        with T.block("b"):\n            vi = T.axis.spatial((2, 10), i + 2)\n            T.where(i < 5)\n            T.reads(B[vi, 0:16])\n            T.writes(A[vi, 0:16])\n            T.block_attr({"k": [1, 2], "s": "x"})\n            M = T.match_buffer(B[vi, 0:16], (16,), offset_factor=1)\n            A[vi, 0] = M[0]\n',
    "opaque": '    with T.block("b"):\n        v = T.axis.opaque(8, n)\n        w = T.axis.scan(8, n)\n        A[v, w] = 1.0\n',
    "norealize": '    with T.block("b", no_realize=True):\n        A[0, 0] = 1.0\n',
    "commred": "    A[0, 0] = 1.0\n    T.evaluate(T.likely(n < 3))\n",
    "vec": "    A[0, T.ramp(0, 1, 4)] = T.broadcast(T.float32(0), 4)\n    A[0, 0:4] = T.float32x4(1)\n",
    "shuffle": "    A[0, 0:2] = T.Shuffle([A[0, 0], A[0, 1]], [1, 0])\n",
    "bf16": '    A[0, 0] = T.cast(T.bfloat16(1), "float32")\n',
    "target": '    T.func_attr({"target": T.target({"kind": "llvm", "tag": "", "keys": ["cpu"]})})\n    A[0, 0] = 1.0\n',
    "int64s": "    for i in range(T.int64(4)):\n        A[i, T.int64(2)] = 1.0\n",
    "comparisons of truth": '    A[0, 0] = T.Cast("float32", ((0 < n) == (n < 5)) == (n < 7))\n',
    "reinterpret": '    A[0, 0] = T.reinterpret("float32", n) + T.reinterpret(n, dtype="float32")\n',
    "augs": "    A[0, 0] += 1.0\n    A[0, 0] *= 2.0\n    A[0, 0] /= 3.0\n",
    "old": '    C = T.buffer_decl([4], "float32")\n    A[0, 0] = 1.0\n',
    "ptr": '    x = T.var("int32")\n    T.let(x, n)\n    A[0, x] = 1.0\n',
    "inline block alloc": '    with T.block("root"):\n        C = T.alloc_buffer((4,), "float32", scope="local", align=64)\n        C[0] = 1.0\n',
}


@pytest.mark.parametrize("name", SUITES)
def test_round_trip(name: str) -> None:
    func = parse(HEADER + SUITES[name], check_well_formed=False)
    again = parse(func.script(), check_well_formed=False)
    assert_structural_equal(again, func)


def test_conditions_as_frames_are_those_of_python() -> None:
    frames = parse(HEADER + SUITES["TIf"], check_well_formed=False)
    plain = parse(
        HEADER + "    if n < 3:\n        A[0, 0] = 1.0\n    else:\n        A[0, 0] = 2.0\n",
        check_well_formed=False,
    )
    assert_structural_equal(frames, plain)


@pytest.mark.parametrize(
    ("suite", "message"),
    [
        ("    for i, j in T.grid(4):\n        A[0, i] = 1.0\n", "the loop has 1 variable"),
        ("    for *i, *j in T.grid(4, 4):\n        A[0, 0] = 1.0\n", "the loop has 2 variable"),
        ("    for i, i in T.grid(4, 4):\n        A[0, i] = 1.0\n", "Duplicate vars assigned"),
        ("    with T.Then():\n        A[0, 0] = 1.0\n", "must be inside the body of T.If"),
        ("    with T.If(n < 3):\n        A[0, 0] = 1.0\n", "needs a T.Then"),
        ("    __import__('os').system('true')\n", "Undefined variable: __import__"),
        ("    A[0, n.__class__] = 1.0\n", "private"),
        ("    break\n", "`break` is not supported"),
        ("    A[0, 0] = 1.0 +\n", "expected an expression"),
    ],
)
def test_what_is_refused(suite: str, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message) as caught:
        parse(HEADER + suite, check_well_formed=False)
    assert " --> <script>:3:" in str(caught.value) or " --> <script>:4:" in str(caught.value)


# ------------------------------------------------------------------------------------------ macros

WIDTH = 4


@T.macro
def fill(buffer, value):
    for i in range(WIDTH):
        buffer[0, i] = value


@T.macro(hygienic=False)
def fill_row(value):
    A[row, 0] = value  # noqa: F821


def test_a_macro_is_read_in_place() -> None:
    @T.prim_func
    def main(A: T.Buffer((8, 16), "float32")):
        fill(A, T.float32(3))
        fill(buffer=A, value=T.float32(4))

    expected = parse(
        """
@T.prim_func
def main(A: T.Buffer((8, 16), "float32")):
    for i in range(4):
        A[0, i] = T.float32(3)
    for i in range(4):
        A[0, i] = T.float32(4)
"""
    )
    assert_structural_equal(main, expected)


def test_an_unhygienic_macro_sees_the_names_of_its_caller() -> None:
    @T.prim_func
    def main(A: T.Buffer((8, 16), "float32")):
        for row in range(8):  # noqa: B007
            fill_row(T.float32(1))

    assert isinstance(main, PrimFunc)
    assert "A[row, 0] = T.float32(1.0)" in main.script()


def test_a_hygienic_macro_does_not() -> None:
    with pytest.raises(DiagnosticError, match="Undefined variable: row"):
        parse(
            """
@T.macro
def fill(buffer):
    buffer[row, 0] = T.float32(1)

@T.prim_func
def main(A: T.Buffer((8, 16), "float32")):
    for row in range(8):
        fill(A)
"""
        )


def test_macros_in_text() -> None:
    func = parse(
        """
@T.macro(hygienic=False)
def twice(value=T.float32(2)):
    A[i, 0] = value
    A[i, 1] = value

@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8, 16), "float32")):
        for i in range(8):
            twice()
"""
    )
    assert func["main"].script().count("= T.float32(2.0)") == 2


LANES = 4


@T.macro(hygienic=False)
def fill_lanes(buffer, first, lanes=LANES):
    buffer[row, first] = T.float32(lanes)  # noqa: F821


def test_defaults_of_macros_mean_what_they_did_at_the_definition() -> None:
    """Neither the names of the caller nor other parameters are seen."""

    @T.prim_func
    def main(A: T.Buffer((8, 16), "float32")):
        LANES = 16  # noqa: F841
        for row in range(8):  # noqa: B007
            fill_lanes(A, 0)

    assert isinstance(main, PrimFunc)
    assert "A[row, 0] = T.float32(4.0)" in main.script()
    with pytest.raises(DiagnosticError, match="Undefined variable: first"):
        parse(
            """
@T.macro
def fill(buffer, first, second=first):
    buffer[0, first] = second

@T.prim_func
def main(A: T.Buffer((8, 16), "float32")):
    fill(A, 1)
"""
        )


def test_a_macro_is_no_value() -> None:
    with pytest.raises(DiagnosticError, match=r"cannot use a MacroCall .*<call of macro fill>"):
        parse(
            """
@T.macro
def fill(buffer):
    buffer[0, 0] = T.float32(1)

@T.prim_func
def main(A: T.Buffer((8, 16), "float32")):
    A[0, 1] = fill(A)
"""
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("fill(A)", "missing a required argument: 'v'"),
        ("fill(A, 1.0, 2.0)", "too many positional arguments"),
    ],
)
def test_arguments_of_macros_are_checked(call: str, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message):
        parse(
            f"""
@T.macro
def fill(b, v):
    b[0, 0] = v

@T.prim_func
def main(A: T.Buffer((8, 16), "float32")):
    {call}
"""
        )


# ---------- Functions, modules and macros that are Python: what they see of the program around them


def test_a_module_inside_a_function_whose_functions_call_each_other() -> None:
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def next(n: T.int32) -> T.int32:
            return n + 1

        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            A[0] = Module.next(A[1])

    assert isinstance(Module, IRModule)
    assert "A[0] = Module.next(A[1])" in Module.script()


def test_decorators_without_their_namespace() -> None:
    @prim_func
    def main(A: T.Buffer((4,), "float32")):
        A[0] = 1.0

    @ir_module
    class Module:
        @prim_func
        def main(A: T.Buffer((4,), "float32")):
            A[0] = 1.0

    assert isinstance(main, PrimFunc)
    assert_structural_equal(Module["main"], main)


def test_helpers_return_several_values() -> None:
    def halves(value):
        return T.meta_var((value // 2, value % 2))

    def ends(*values):
        return T.meta_var([values[0], values[-1]])

    @T.prim_func
    def main(A: T.Buffer((8, 2), "float32"), n: T.int32):
        high, low = halves(n)
        first, *rest = ends(high, low)
        both = halves(n)
        A[high, low] = 1.0
        A[first, rest[0]] = 2.0
        A[both[0], both[1]] = 3.0

    assert_structural_equal(
        main,
        parse("""
@T.prim_func
def main(A: T.Buffer((8, 2), "float32"), n: T.int32):
    A[n // 2, n % 2] = 1.0
    A[n // 2, n % 2] = 2.0
    A[n // 2, n % 2] = 3.0
"""),
    )


def test_captured_tuples_are_spread() -> None:
    extents, where = (4, 2), [1, 0]

    @T.prim_func
    def main(A: T.Buffer(extents, "float32"), B: T.Buffer((*extents, 3), "float32")):
        for i, j in T.grid(*extents):
            A[i, j] = B[*where, 2]

    assert_structural_equal(
        main,
        parse("""
@T.prim_func
def main(A: T.Buffer((4, 2), "float32"), B: T.Buffer((4, 2, 3), "float32")):
    for i, j in T.grid(4, 2):
        A[i, j] = B[1, 0, 2]
"""),
    )


class Scaled:
    """Macros of an object, which see what it holds."""

    def __init__(self, factor: float) -> None:
        self.factor = T.float32(factor)

    @T.macro
    def fill(self, buffer, at):
        buffer[at] = self.factor

    @T.macro(hygienic=False)
    def fill_here(self, buffer):
        buffer[at] = self.factor  # noqa: F821


class Copied:
    """A copy of a buffer, made by macros: Python code allocates the memory for it."""

    def __init__(self, source) -> None:
        self.local = T.alloc_buffer(source.shape, source.dtype)

    @T.macro
    def load(self, source) -> None:
        N, M = T.meta_var(self.local.shape)
        for i, j in T.grid(N, M):
            with T.block("load"):
                vi, vj = T.axis.remap("SS", [i, j])
                self.local[vi, vj] = source[vi, vj]


def test_objects_of_plain_classes_own_buffers_and_macros() -> None:
    @T.prim_func
    def main(A: T.Buffer((4, 6), "float32")):
        first = T.meta_var(Copied(A))
        first.load(A)
        second = T.meta_var(Copied(A))
        second.load(first.local)

    expected = parse(
        """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32")):
    one = T.alloc_buffer((4, 6))
    two = T.alloc_buffer((4, 6))
    for i, j in T.grid(4, 6):
        with T.block("load"):
            vi, vj = T.axis.remap("SS", [i, j])
            one[vi, vj] = A[vi, vj]
    for i, j in T.grid(4, 6):
        with T.block("load"):
            vi, vj = T.axis.remap("SS", [i, j])
            two[vi, vj] = one[vi, vj]
"""
    )
    assert_structural_equal(main, expected)
    assert_structural_equal(parse(main.script()), expected)


def test_python_code_allocates_nothing_in_a_loop() -> None:
    with pytest.raises(DiagnosticError, match="called directly in a function or block"):

        @T.prim_func
        def main(A: T.Buffer((4, 6), "float32")):
            for _ in range(4):
                inner = T.meta_var(Copied(A))
                inner.load(A)


def test_macros_are_methods() -> None:
    two, three = Scaled(2.0), Scaled(3.0)

    @T.prim_func
    def main(A: T.Buffer((8,), "float32")):
        two.fill(A, 1)
        for at in range(8):  # noqa: B007
            three.fill_here(A)

    assert_structural_equal(
        main,
        parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    A[1] = T.float32(2)
    for at in range(8):
        A[at] = T.float32(3)
"""),
    )


def test_macros_of_a_module() -> None:
    @I.ir_module
    class Module:
        @T.macro
        def set_first(buffer):
            buffer[0] = T.float32(2)

        @T.prim_func
        def main(A: T.Buffer((8,), "float32")):
            set_first(A)  # noqa: F821

    assert "A[0] = T.float32(2.0)" in Module.script()


def test_numbers_of_numpy_keep_their_type() -> None:
    step, scale = np.int64(3), np.float64(0.1)

    @T.prim_func
    def main(A: T.Buffer((8,), "float64"), n: T.int64):
        A[n + step] = A[step] * scale

    text = main.script()
    assert "A[n + T.int64(3)] = A[T.int64(3)] * T.float64(0.1)" in text


def test_errors_show_the_line_of_the_file() -> None:
    with pytest.raises(DiagnosticError) as caught:

        @T.prim_func
        def main(A: T.Buffer((8,), "float32")):
            A[0] = missing  # noqa: F821

    error = caught.value
    assert error.filename == __file__
    with open(__file__, encoding="utf-8") as file:
        line = file.read().split("\n")[error.line - 1]
    assert line == error.source_line
    assert line[error.column - 1 : error.end_column - 1] == "missing"


def test_errors_of_helpers_show_the_call() -> None:
    def helper(n):
        raise LookupError(f"nothing is known of {n}")

    with pytest.raises(DiagnosticError, match="nothing is known of n") as caught:

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), n: T.int32):
            A[0] = helper(n)

    assert isinstance(caught.value.__cause__, LookupError)
    assert "helper(n)" in caught.value.source_line
