"""Short innermost loops become vectors where that cannot change a result."""

import numpy as np
import pytest

import codegen
from tensorir import parse
from tensorir.function import PrimFunc


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
