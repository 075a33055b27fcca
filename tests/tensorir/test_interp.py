"""The interpreter: bits, vectors, graphs."""

from __future__ import annotations

import numpy as np
import pytest
from graph_modules import module_of
from hypothesis import given, settings
from hypothesis import strategies as st

import codegen
from schedule import Schedule
from tensorir import IRTypeError, IRValueError, parse
from tensorir.function import PrimFunc
from tensorir.interp import InterpreterError, interpret, random_arguments
from tensorir.interp.graphs import interpret_graph
from tests.matmul import matmul

# -------- Bits and lanes in the interpreter: reinterpreted values, machine instructions, long ramps


def copied(source, target, body, count_in, count_out, values):
    """Run `B[...] = ...` on an array of `count_in` values and return the `count_out` of B."""
    func = parse(
        f"""\
@T.prim_func
def main(A: T.Buffer(({count_in},), "{source}"), B: T.Buffer(({count_out},), "{target}")):
{body}
"""
    )
    kinds = {"bfloat16": "uint16"}
    made = np.zeros(count_out, kinds.get(target, target))
    interpret(func, np.asarray(values).astype(kinds.get(source, source)), made)
    return made


# ---------------------------------------------------------------------------------------- reinterpret


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("float32", "int32"),
        ("float32", "uint32"),
        ("int32", "float32"),
        ("float64", "int64"),
        ("int64", "float64"),
        ("int8", "uint8"),
        ("uint8", "int8"),
        ("int16", "float16"),
        ("float16", "uint16"),
        ("uint32", "int32"),
    ],
)
def test_scalars_of_the_same_size(source, target):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 256, 8 * np.dtype(source).itemsize, dtype=np.uint8)
    values = bits.view(source)
    body = f'    for i in range(8):\n        B[i] = T.reinterpret("{target}", A[i])'
    made = copied(source, target, body, 8, 8, values)
    np.testing.assert_array_equal(made.view(np.uint8), bits)


def test_known_bits():
    body = '    B[0] = T.reinterpret("int32", A[0])\n    B[1] = T.reinterpret("int32", A[1])'
    made = copied("float32", "int32", body, 2, 2, [1.0, -2.0])
    assert [hex(v & 0xFFFFFFFF) for v in made.tolist()] == ["0x3f800000", "0xc0000000"]


@pytest.mark.parametrize(
    ("source", "target", "lanes_in", "lanes_out"),
    [
        ("uint8", "int32", 64, 16),
        ("int8", "int32", 64, 16),
        ("int8", "int16", 64, 32),
        ("int32", "uint8", 4, 16),
        ("int32", "int16", 4, 8),
        ("float32", "int64", 8, 4),
        ("float64", "uint8", 1, 8),
        ("float32", "int32", 4, 4),
    ],
)
def test_vectors_of_other_lanes(source, target, lanes_in, lanes_out):
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 256, lanes_in * np.dtype(source).itemsize, dtype=np.uint8)
    load = "A[0]" if lanes_in == 1 else f"A[0:{lanes_in}]"
    body = f'    B[0:{lanes_out}] = T.reinterpret("{target}x{lanes_out}", {load})'
    made = copied(source, target, body, lanes_in, lanes_out, bits.view(source))
    np.testing.assert_array_equal(made.view(np.uint8), bits)


def test_a_vector_becomes_a_scalar():
    body = '    B[0] = T.reinterpret("int32", A[0:4])'
    made = copied("uint8", "int32", body, 4, 1, [1, 2, 3, 255])
    assert made.tolist() == [1 + 2 * 256 + 3 * 65536 - 16777216]


@given(st.lists(st.integers(0, 255), min_size=16, max_size=16))
@settings(max_examples=20)
def test_there_and_back(values):
    body = '    B[0:16] = T.reinterpret("uint8x16", T.reinterpret("int32x4", A[0:16]))'
    assert copied("uint8", "uint8", body, 16, 16, values).tolist() == values


# ------------------------------------------------------------------------------ machine instructions

VPDPBUSD = """\
@T.prim_func
def main(
    C: T.Buffer((16,), "int32"), A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")
):
    C[0:16] = T.call_llvm_pure_intrin(
        "int32x16", "llvm.x86.avx512.vpdpbusd.512", T.uint32(0), C[0:16], A[0:16], B[0:16]
    )
"""

PMADDWD = """\
@T.prim_func
def main(
    C: T.Buffer((16,), "int32"), A: T.Buffer((32,), "int16"), B: T.Buffer((32,), "int16")
):
    C[0:16] = T.call_llvm_pure_intrin(
        "int32x16", "llvm.x86.avx512.pmaddw.d.512", T.uint32(0), A[0:32], B[0:32]
    )
"""

EXTREMES = (np.array([0, 1, 127, 128, 255], np.uint8), np.array([-128, -1, 0, 1, 127], np.int8))


@pytest.mark.parametrize("extreme", [False, True])
def test_dot_products_of_four_bytes(extreme):
    rng = np.random.default_rng(2)
    if extreme:
        a, b = (rng.choice(values, 64) for values in EXTREMES)
        c = rng.choice(np.array([2**31 - 1, -(2**31), 0], np.int32), 16)
    else:
        a = rng.integers(0, 256, 64, dtype=np.uint8)
        b = rng.integers(-128, 128, 64, dtype=np.int8)
        c = rng.integers(-(2**20), 2**20, 16, dtype=np.int32)
    products = a.astype(np.int64) * b.astype(np.int64)
    wanted = (c.astype(np.int64) + products.reshape(16, 4).sum(1)).astype(np.int32)
    interpret(parse(VPDPBUSD), c, a.view(np.int32), b.view(np.int32))
    np.testing.assert_array_equal(c, wanted)


@pytest.mark.parametrize("extreme", [False, True])
def test_sums_of_two_products(extreme):
    rng = np.random.default_rng(2)
    if extreme:
        # Both products are 2**30, and their sum is the one value that overflows.
        a = b = np.full(32, -(2**15), np.int16)
    else:
        a, b = (rng.integers(-(2**15), 2**15, 32, dtype=np.int16) for _ in range(2))
    products = a.astype(np.int64) * b.astype(np.int64)
    wanted = products.reshape(16, 2).sum(1).astype(np.int32)
    c = np.zeros(16, np.int32)
    interpret(parse(PMADDWD), c, a, b)
    np.testing.assert_array_equal(c, wanted)


def test_without_the_number_of_overloads():
    func = parse(VPDPBUSD.replace("T.uint32(0), ", ""))
    c, a, b = (np.full(16, value, np.int32) for value in (5, 0x01010101, 0x02020202))
    interpret(func, c, a, b)
    assert c.tolist() == [5 + 4 * 2] * 16


def test_instructions_that_the_interpreter_does_not_know():
    func = parse(VPDPBUSD.replace("vpdpbusd.512", "vpdpwssd.512"))
    with pytest.raises(InterpreterError, match=r"unknown to the interpreter: .*vpdpwssd"):
        interpret(func, *(np.zeros(16, np.int32) for _ in range(3)))


# ------------------------------------------------------- ramps that run on into the rows that follow


def rows(body, shape=(4, 4), extra=""):
    func = parse(
        f"""\
@T.prim_func
def main(A: T.Buffer({shape}, "int32"{extra}), B: T.Buffer((16,), "int32")):
{body}
"""
    )
    values = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    made = np.full(16, -1, np.int32)
    interpret(func, values, made)
    return values, made


def test_all_rows_at_once():
    _, made = rows("    B[0:16] = A.vload([0, 0], dtype='int32x16')".replace("'", '"'))
    assert made.tolist() == list(range(16))


def test_from_the_middle_of_a_row():
    _, made = rows('    B[0:8] = A.vload([1, 2], dtype="int32x8")')
    assert made[:8].tolist() == list(range(6, 14))


def test_through_three_dimensions():
    _, made = rows('    B[0:16] = A.vload([1, 0, 2], dtype="int32x16")', (4, 3, 4))
    assert made.tolist() == list(range(14, 30))


def test_with_a_stride():
    _, made = rows("    B[0:5] = A[0, T.ramp(1, 3, 5)]")
    assert made[:5].tolist() == [1, 4, 7, 10, 13]


def test_stores_run_on_as_well():
    values, _ = rows("    A.vstore([1, 1], T.broadcast(7, 6))")
    assert values.reshape(-1).tolist() == [*range(5), *[7] * 6, *range(11, 16)]


def test_behind_the_last_row_is_an_error():
    with pytest.raises(InterpreterError, match="index 4 of dimension 0 is not in"):
        rows('    B[0:8] = A.vload([3, 0], dtype="int32x8")')


def test_a_ramp_that_is_no_longer_than_a_row_does_not_run_on():
    with pytest.raises(InterpreterError, match="index 4 of dimension 1 is not in"):
        rows('    B[0:4] = A.vload([0, 2], dtype="int32x4")')


def test_rows_with_space_in_between_are_not_run_through():
    with pytest.raises(InterpreterError, match="of dimension 1 is not in"):
        rows('    B[0:16] = A.vload([0, 0], dtype="int32x16")', extra=", strides=[4, 1]")


def test_a_read_of_memory_that_nobody_has_written_may_be_refused() -> None:
    func = parse(
        """
@T.prim_func
def main(B: T.Buffer((2,), "int32"), n: T.int32):
    C = T.alloc_buffer((2,), "int32")
    C[0] = 7
    B[0] = C[n]
"""
    )
    b = np.zeros(2, "int32")
    interpret(func, b, 0, refuse_undefined=True)
    assert b[0] == 7
    with pytest.raises(InterpreterError, match="an element is read before it is written"):
        interpret(func, b, 1, refuse_undefined=True)


# ------------------- The interpreter takes vectors, so that lowered programs can be checked as well

MATMUL = matmul(6, 20, 8, noalias=True)


def run(body: str, dtype: str = "float32", numpy_dtype: type = np.float32) -> np.ndarray:
    func = parse(f'@T.prim_func\ndef f(A: T.Buffer((16,), "{dtype}")):\n{body}')
    array = np.arange(16).astype(numpy_dtype)
    interpret(func, array)
    return array


@pytest.mark.parametrize("until", [name for name, _ in codegen.PASSES])
def test_every_stage_of_lowering_computes_the_same(until: str) -> None:
    func = parse(MATMUL)
    assert isinstance(func, PrimFunc)
    sch = Schedule(func)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 8])
    sch.reorder(i, j0, k, j1)
    sch.vectorize(j1)
    sch.decompose_reduction(block, k)
    arrays = random_arguments(func)
    interpret(codegen.lower(sch.mod["main"], "llvm", until=until), *arrays)
    np.testing.assert_allclose(arrays[2], arrays[0] @ arrays[1], rtol=1e-5)


def test_all_lanes_are_read_before_one_is_written() -> None:
    result = run("    A[1:9] = A[0:8]\n")
    assert result.tolist() == [0, *range(8), *range(9, 16)]


def test_lanes_that_are_masked_are_left_alone() -> None:
    mask = "T.Ramp(0, 1, 4) < T.Broadcast(2, 4)"
    result = run(f"    A.vstore([0], T.Broadcast(T.float32(9), 4), predicate={mask})\n")
    assert result[:4].tolist() == [9, 9, 2, 3]


def test_a_lane_out_of_bounds_is_an_error() -> None:
    with pytest.raises(InterpreterError, match="index 16 of dimension 0 is not in"):
        run("    A[14:18] = T.Broadcast(T.float32(0), 4)\n")


def test_bfloat16_is_rounded_to_even() -> None:
    result = run(
        "    A[0] = T.bfloat16(1)\n    A[1] = A[0] + T.bfloat16(0.00390625)\n"
        "    A[2] = A[0] + T.bfloat16(0.005859375)\n",
        "bfloat16",
        np.uint16,
    )
    assert [hex(bits) for bits in result[:3].tolist()] == ["0x3f80", "0x3f80", "0x3f81"]


# ---------------------------------------------------- What graph functions mean, by the interpreter

X = np.arange(4, dtype="float32")


def test_library_functions_are_given():
    mod = module_of("""
        @R.function(pure=False)
        def main(x: F4):
            a = R.call_dps_packed("negate", (x,), out_sinfo=F4)
            b: F4 = R.call_packed("shift", a, sinfo_args=(F4,))
            return b
    """)
    library = {
        "negate": lambda a, out: np.negative(a, out=out),
        "shift": lambda a: a + 1,
    }
    result = interpret_graph(mod, "main", X, library=library)
    assert result.tolist() == [1.0, 0.0, -1.0, -2.0]
    with pytest.raises(InterpreterError, match=r"main calls negate, but the library has \[\]"):
        interpret_graph(mod, "main", X)


RECURSIVE = module_of("""
    @R.function
    def main(x: F4, stop: R.Tensor((), "bool")) -> F4:
        cls = Module
        y = R.call_tir(cls.double, (x,), out_sinfo=F4)
        if stop:
            z = y
        else:
            z: F4 = cls.main(y, R.const(True, "bool"))
        return z
""")


def test_branches_and_recursion():
    assert interpret_graph(RECURSIVE, "main", X, np.array(True)).tolist() == [0.0, 2.0, 4.0, 6.0]
    assert interpret_graph(RECURSIVE, "main", X, np.array(False)).tolist() == [0.0, 4.0, 8.0, 12.0]
    with pytest.raises(InterpreterError, match=r"the calls are nested 1 deep: \.\.\. main -> main"):
        interpret_graph(RECURSIVE, "main", X, np.array(False), max_depth=1)


SYMBOLIC = module_of("""
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n + 1",), "float32")):
        n = T.int64()
        m = T.int64()
        cls = Module
        a = R.call_tir(cls.double_any, (x,), out_sinfo=R.Tensor((n,), "float32"))
        b = R.match_cast(y, R.Tensor((m,), "float32"))
        c = R.call_tir(cls.double_any, (b,), out_sinfo=R.Tensor((m,), "float32"))
        return (a, c, R.shape([n, m]))
""")


def test_sizes_follow_from_arguments_and_casts():
    a, c, shape = interpret_graph(SYMBOLIC, "main", X, np.ones(5, "float32"))
    assert a.tolist() == [0.0, 2.0, 4.0, 6.0]
    assert c.tolist() == [2.0] * 5
    assert shape == (4, 5)


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((X,), IRTypeError, r"main takes 2 argument\(s\), got 1"),
        (
            (X, X.astype("int32")),
            IRTypeError,
            "argument y of main has dtype int32, expected float32",
        ),
        ((X, X), IRValueError, "argument y of main has extent 4 in dimension 0, expected 5"),
        (
            (X.reshape(2, 2), X),
            IRValueError,
            r"argument x of main has 2 dimension\(s\), expected 1",
        ),
        ((X, 3), IRTypeError, "argument y of main must be an array, got int"),
    ],
)
def test_arguments_that_do_not_fit_are_named(args, error, message):
    with pytest.raises(error, match=message):
        interpret_graph(SYMBOLIC, "main", *args)


def test_a_cast_that_does_not_hold_is_an_error():
    mod = module_of("""
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")):
            y = R.match_cast(x, F4)
            return y
    """)
    with pytest.raises(IRValueError, match="y of main has extent 3 in dimension 0, expected 4"):
        interpret_graph(mod, "main", X[:3])
