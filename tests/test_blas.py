"""The routines of `benchmarks.blas`, as machine code, next to NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy import outer, tril

import codegen
from benchmarks.blas import ROUTINES
from benchmarks.blas_timings import arguments_of


def symmetric(a: np.ndarray) -> np.ndarray:
    return tril(a) + tril(a, -1).T


def lower_of(value: np.ndarray, c: np.ndarray) -> np.ndarray:
    return tril(value) + np.triu(c, 1)


EXPECTED: dict[str, Callable[..., Any]] = {
    "copy": lambda x, y: (x,),
    "swap": lambda x, y: (y, x),
    "scal": lambda a, x: (a * x,),
    "axpy": lambda a, x, y: (a * x + y,),
    "axpby": lambda a, x, b, y: (a * x + b * y,),
    "rot": lambda c, s, x, y: (c * x + s * y, c * y - s * x),
    "rotm": lambda h, x, y: (h[1] * x + h[3] * y, h[2] * x + h[4] * y),
    "dot": lambda x, y, r: (x @ y,),
    "nrm2": lambda x, r: (np.linalg.norm(x),),
    "asum": lambda x, r: (abs(x).sum(),),
    "iamax": lambda x, q: (abs(x).argmax(),),
    "gemv": lambda A, x, y: (A @ x,),
    "gemv.T": lambda A, x, y: (A.T @ x,),
    "ger": lambda a, x, y, A: (A + a * outer(x, y),),
    "syr": lambda a, x, A: (A + a * tril(outer(x, x)),),
    "syr2": lambda a, x, y, A: (A + a * tril(outer(x, y) + outer(y, x)),),
    "symv": lambda A, x, y: (symmetric(A) @ x,),
    "trmv": lambda L, x: (tril(L) @ x,),
    "trmv.T": lambda L, x: (tril(L).T @ x,),
    "trsv": lambda L, x: (np.linalg.solve(tril(L), x),),
    "gemm": lambda A, B, C: (A @ B,),
    "gemm.TN": lambda A, B, C: (A.T @ B,),
    "gemm.NT": lambda A, B, C: (A @ B.T,),
    "symm": lambda A, B, C: (symmetric(A) @ B,),
    "syrk": lambda A, C: (lower_of(A @ A.T, C),),
    "syr2k": lambda A, B, C: (lower_of(A @ B.T + B @ A.T, C),),
    "trmm": lambda L, B: (tril(L) @ B,),
    "trsm": lambda L, B: (np.linalg.solve(tril(L), B),),
}
"""The last parameters of each routine after a call."""


@pytest.mark.parametrize("name", ROUTINES)
def test_a_routine_at_an_odd_size(name: str) -> None:
    routine = ROUTINES[name]
    n = {1: 1009, 2: 61, 3: 77}[routine.level]
    rng = np.random.default_rng(1)
    arguments = arguments_of(routine, n)
    if "L" in routine.parameters:
        arguments[0] += rng.standard_normal((n, n)).astype("float32") / n
    expected = EXPECTED[name](*[np.copy(value) for value in arguments])
    codegen.build(routine.scheduled(n).mod, "llvm -num-cores=1")["main"](*arguments)
    for got, wanted in zip(arguments[-len(expected) :], expected, strict=True):
        np.testing.assert_allclose(got, np.broadcast_to(wanted, got.shape), rtol=1e-4, atol=1e-4)
