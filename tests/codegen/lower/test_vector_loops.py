"""Loops that become vectors, and the values in them."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from codegen.compile import llvm_source
from codegen.lower import lower
from tensorir import parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.rewriting.visit import walk

# ------------------------ What a vectorized loop may not do for lanes that a condition switches off

PROGRAM = """
@T.prim_func
def main(a: T.handle, B: T.Buffer((16,), "int32")):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    for i in T.vectorized(16):
        if i < n{condition}:
{body}
"""


def program(condition: str, body: str) -> PrimFunc:
    indented = "\n".join(" " * 12 + line for line in body.splitlines())
    func = parse(PROGRAM.format(condition=condition, body=indented))
    assert isinstance(func, PrimFunc)
    return func


def unguarded_loads(func: PrimFunc) -> list[str]:
    """Return the loads of A that no mask and no branch guards."""
    found = []

    def visit(node: object, guarded: bool) -> None:
        if isinstance(node, s.IfThenElse):
            visit(node.condition, guarded)
            visit(node.then_case, True)
            return
        for part in walk(node) if isinstance(node, e.PrimExpr) else ():  # type: ignore[arg-type]
            is_load = isinstance(part, e.BufferLoad) and part.buffer.name == "A"
            if is_load and not guarded and part.predicate is None:  # type: ignore[attr-defined]
                found.append(str(part))
        if isinstance(node, s.SeqStmt):
            for part in node.seq:
                visit(part, guarded)
        elif isinstance(node, s.BufferStore):
            visit(node.value, guarded)
            if node.predicate is not None:
                visit(node.predicate, guarded)
        elif isinstance(node, s.LetStmt):
            visit(node.value, guarded)
            visit(node.body, guarded)
        elif isinstance(node, s.For):
            visit(node.extent, guarded)
            visit(node.body, guarded)

    visit(func.body, False)
    return found


CASES = {
    "the right side of a conjunction": (" and A[i] > 2", "B[i] = 1"),
    "a value": ("", "B[i] = A[i]"),
    "a shared value": ("", "B[i] = A[n - 1]"),
    "an inner condition": ("", "if A[n - 1] > 2:\n    B[i] = i"),
    "an inner extent": ("", "for j in range(A[n - 1]):\n    B[i] = B[i] + j"),
    "a bound value": ("", "v: T.int32 = A[n - 1]\nB[i] = v + i"),
}


@pytest.mark.parametrize(("condition", "body"), CASES.values(), ids=CASES)
def test_memory_behind_a_condition_is_not_touched(condition: str, body: str) -> None:
    func = program(condition, body)
    assert unguarded_loads(codegen.lower(func, "llvm", until="vectorize")) == []
    compiled = codegen.build(func, "llvm")["main"]
    for n in (0, 3, 16):
        a = np.arange(n, dtype="int32")
        found, expected = np.zeros(16, "int32"), np.zeros(16, "int32")
        interpret(func, a, expected)
        compiled(a, found)
        np.testing.assert_array_equal(found, expected)


def test_the_check_sees_an_unguarded_load() -> None:
    func = program("", "B[i] = A[i]")
    assert isinstance(func.body, s.For)
    bare = func.with_body(func.body.body.then_case)  # type: ignore[attr-defined]
    assert len(unguarded_loads(bare)) == 1


def test_a_vectorized_loop_of_symbolic_extent_runs_serially() -> None:
    func = parse(
        """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    B = T.match_buffer(b, (n,), "int32")
    for i in T.vectorized(n):
        B[i] = A[i] + 1
"""
    )
    assert isinstance(func, PrimFunc)
    compiled = codegen.build(func, "llvm")["main"]
    for n in (0, 1, 21):
        a, b = np.arange(n, dtype="int32"), np.zeros(n, "int32")
        compiled(a, b)
        np.testing.assert_array_equal(b, a + 1)


def test_a_parallel_loop_inside_a_vectorized_one() -> None:
    func = parse(
        """
@T.prim_func
def main(A: T.Buffer((8, 16), "int32"), B: T.Buffer((8, 16), "int32")):
    for j in T.vectorized(16):
        for i in T.parallel(8):
            if i * 16 + j < 100:
                B[i, j] = A[i, j] + 1
"""
    )
    assert isinstance(func, PrimFunc)
    a, b = np.arange(128, dtype="int32").reshape(8, 16), np.zeros((8, 16), "int32")
    codegen.build(func, "llvm -num-cores=2")["main"](a, b)
    np.testing.assert_array_equal(b, np.where(a < 100, a + 1, 0))


@pytest.mark.parametrize("noalias", [True, False])
@pytest.mark.parametrize("otherwise", ["", "        else:\n            B[j] = 6\n"])
def test_a_condition_that_its_branch_changes_is_evaluated_once_a_lane(
    noalias: bool, otherwise: str
) -> None:
    func = parse(
        f"""
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    T.func_attr({{"tir.noalias": {noalias}}})
    for j in T.vectorized(8):
        if A[j] > 0:
            A[j] = -1
            B[j] = 5
{otherwise}"""
    )
    assert isinstance(func, PrimFunc)
    a = np.array([1, 0, 2, -3, 4, 0, 0, 1], "int32")
    b = np.zeros(8, "int32")
    expected = a.copy(), b.copy()
    interpret(func, *expected)
    codegen.build(func)["main"](a, b)
    np.testing.assert_array_equal(a, expected[0])
    np.testing.assert_array_equal(b, expected[1])


def choices(depth: int) -> str:
    """Return choices by what is loaded, each in the condition of the next."""
    value = "A[i]"
    for k in range(depth):
        value = f"T.if_then_else({value} < {k - 3}, A[(i + {k}) % 16] + 1, A[15 - i])"
    return value


@pytest.mark.parametrize("depth", [3, 10, 20])
def test_choices_inside_one_another_share_their_masks(depth: int) -> None:
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    T.func_attr({{"tir.noalias": True}})
    for i in T.vectorized(16):
        B[i] = {choices(depth)}
""")
    lowered = lower(func, "llvm -mcpu=skylake-avx512 -num-cores=1")
    assert not any(isinstance(node, s.For) for node in walk(lowered.body))
    assert sum(1 for _ in walk(lowered.body)) < 60 * depth * depth
    given = np.arange(16, dtype="int32")[::-1] - 4
    expected, found = np.zeros(16, "int32"), np.zeros(16, "int32")
    interpret(func, given.copy(), expected)
    codegen.build(func, "llvm -num-cores=1")["main"](given.copy(), found)
    np.testing.assert_array_equal(found, expected)


# --------------------------- Short innermost loops become vectors where that cannot change a result


def lowered(body: str, *, noalias: bool = True, shape: str = "(1024,)") -> str:
    attribute = 'T.func_attr({"tir.noalias": True})' if noalias else ""
    func = parse(
        f"""
@T.prim_func
def main(A: T.Buffer({shape}, "float32"), B: T.Buffer({shape}, "float32")):
    {attribute}
    for k in range(8):
        {body}
"""
    )
    assert isinstance(func, PrimFunc)
    return codegen.lower(func, "llvm", until="vectorize_innermost").script()


def test_neighbours_in_memory_become_a_vector() -> None:
    text = lowered("for j in range(16):\n            A[k * 16 + j] = A[k * 16 + j] + B[j] * B[k]")
    assert "for j in T.vectorized(16):" in text


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("for j in range(16):\n            A[j + 1] = A[j]", "reads what another iteration writes"),
        (
            "for j in range(16):\n            A[k] = A[k] + B[j]",
            "all iterations store to one place",
        ),
        ("for j in range(16):\n            A[j] = B[j * 8]", "would need a gather"),
        ("for j in range(16):\n            A[j * 2] = B[j]", "would need a scatter"),
        ("for j in range(3):\n            A[j] = B[j]", "too short"),
        ("for j in range(128):\n            A[j] = B[j]", "LLVM does it better"),
        (
            "for j in range(16):\n            A[j] = T.if_then_else(j < 3, B[j], T.float32(0))",
            "lanes differ",
        ),
        (
            'for j in range(16):\n            A[j] = T.call_extern("float32", "rand")',
            "an effect",
        ),
    ],
)
def test_anything_else_stays_as_it_is(body: str, why: str) -> None:
    assert "T.vectorized" not in lowered(body), why


def test_parameters_that_may_overlap_stay_scalar() -> None:
    body = "for j in range(16):\n            A[j] = B[j]"
    assert "T.vectorized" in lowered(body)
    assert "T.vectorized" not in lowered(body, noalias=False)


def test_accumulators_of_an_unvectorised_tile_are_vectors() -> None:
    func = parse(
        """
@T.prim_func
def main(A: T.Buffer((12, 20), "float32"), B: T.Buffer((20, 24), "float32"),
         C: T.Buffer((12, 24), "float32")):
    T.func_attr({"tir.noalias": True})
    for i, jo in T.grid(12, 3):
        for j in range(8):
            C[i, jo * 8 + j] = T.float32(0)
        for k, j in T.grid(20, 8):
            C[i, jo * 8 + j] = C[i, jo * 8 + j] + A[i, k] * B[k, jo * 8 + j]
"""
    )
    library = codegen.build(func, "llvm -num-cores=1")
    rng = np.random.default_rng(0)
    a, b = rng.random((12, 20), np.float32), rng.random((20, 24), np.float32)
    c = np.empty((12, 24), np.float32)
    library["main"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    multiplications = [line for line in library.inspect_llvm().splitlines() if "fmul" in line]
    assert multiplications
    assert all("<8 x float>" in line for line in multiplications)


# -------- Values that an iteration of a vectorized loop loads before it stores: indices with values

TARGET = "llvm -mcpu=haswell"

ARGMAX = """
@T.prim_func
def main(A: T.Buffer((24,), "float32"), I: T.Buffer((24,), "int32"), V: T.Buffer((24,), "float32")):
    T.func_attr({{"tir.noalias": True}})
    for j in T.vectorized({lanes}):
        {guard}
            i: T.int32 = T.Select(V[j] >= A[j], I[j], j)
            v: T.float32 = T.max(V[j], A[j])
            I[j] = i
            V[j] = v
"""


def argmax(lanes: int, guard: str = "with T.block(''):") -> PrimFunc:
    func = parse(ARGMAX.format(lanes=lanes, guard=guard))
    assert isinstance(func, PrimFunc)
    return func


def stored_lanes(func: PrimFunc) -> list[tuple[str, int]]:
    """Return the buffer and the number of lanes of each store, in order."""
    found = [node for node in walk(func.body) if isinstance(node, s.BufferStore)]
    return [(store.buffer.name, store.value.dtype.lanes) for store in found]


def check(func: PrimFunc) -> None:
    """Compare the lowered and the compiled program with the interpreter."""
    rng = np.random.default_rng(0)

    def arguments() -> list[np.ndarray]:
        values = [rng.integers(-4, 4, 24).astype("float32") for _ in range(2)]
        return [values[0], np.full(24, -1, "int32"), values[1]]

    given = arguments()
    expected, compiled, lowered = ([a.copy() for a in given] for _ in range(3))
    interpret(func, *expected)
    codegen.build(func)["main"](*compiled)
    interpret(lower(func), *lowered)
    for got in (compiled, lowered):
        assert all(np.array_equal(a, b) for a, b in zip(got, expected, strict=True))


def test_an_index_and_a_value_become_vectors() -> None:
    func = argmax(8)
    assert stored_lanes(lower(func, codegen.Target(TARGET))) == [("I", 8), ("V", 8)]
    check(func)


def test_each_piece_loads_before_it_stores() -> None:
    func = argmax(24)
    pieces = [("I", 8), ("V", 8)] * 3
    assert stored_lanes(lower(func, codegen.Target(TARGET))) == pieces
    check(func)


def test_a_condition_masks_loads_and_stores() -> None:
    func = argmax(24, "if A[j] > T.float32(0):")
    assert all(lanes == 8 for _, lanes in stored_lanes(lower(func, codegen.Target(TARGET))))
    check(func)


def test_the_last_lanes_of_a_tail() -> None:
    func = argmax(24, "if j < 21:")
    check(func)


def test_values_of_other_widths_share_the_lanes() -> None:
    func = parse(ARGMAX.format(lanes=24, guard="with T.block(''):").replace("int32", "int64"))
    assert isinstance(func, PrimFunc)
    stored = stored_lanes(lower(func, codegen.Target(TARGET)))
    assert {lanes for _, lanes in stored} == {4}


def test_lanes_that_share_an_element_stay_in_order() -> None:
    func = parse(ARGMAX.format(lanes=8, guard="with T.block(''):").replace("V[j]", "V[0]"))
    assert isinstance(func, PrimFunc)
    assert {lanes for _, lanes in stored_lanes(lower(func, codegen.Target(TARGET)))} == {1}


# ----------------------- Lanes that hold the numbers of their elements, the candidates of an argmax

FOUR_VECTORS = """
@T.prim_func
def main(B: T.Buffer((32000,), "{dtype}"), n: T.int32):
    for i in range(1000):
        for k in T.unroll(4):
            for j in T.vectorized(8):
                B[i * 32 + k * 8 + j] = {value}
"""


def ramp_program(value: str, dtype: str = "int32") -> PrimFunc:
    func = parse(FOUR_VECTORS.format(value=value, dtype=dtype))
    assert isinstance(func, PrimFunc)
    return func


def test_vectors_of_one_iteration_share_the_broadcast() -> None:
    func = ramp_program("i * 32 + k * 8 + j")
    assembly = llvm_source(func, "llvm -mcpu=haswell").assembly()
    body = assembly[assembly.index("tensorir.kernel.main:") :]
    assert body.count("vpbroadcastd") == 1


@pytest.mark.parametrize(
    "value",
    ["i * 32 + k * 8 + j", "i - 7 + (k - 5) * 8 + j", "k * 8 + 3 - i + j * n", "n * 4 - 9 + j"],
)
def test_they_hold_what_the_interpreter_says(value: str) -> None:
    func = ramp_program(value)
    for n in (3, 2**30):
        expected, found = np.zeros(32000, "int32"), np.zeros(32000, "int32")
        interpret(func, expected, n)
        codegen.build(func)["main"](found, n)
        np.testing.assert_array_equal(found, expected)
