"""Every form of the dialect parses, and prints to text that parses to the same program."""

import pytest

from tensorir import DiagnosticError, T, assert_structural_equal, parse
from tensorir.function import PrimFunc

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
