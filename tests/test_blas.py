"""The routines of `benchmarks.blas`, as machine code, next to NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from benchmarks.blas import ROUTINES, TARGET


@pytest.mark.parametrize("name", ROUTINES)
def test_a_routine_at_an_odd_size(name: str) -> None:
    routine = ROUTINES[name]
    n = {1: 1009, 2: 61, 3: 77}[routine.level]
    arguments = routine.arguments(n)
    expected = routine.reference(*[np.copy(value) for value in arguments])
    expected = expected if isinstance(expected, tuple) else (expected,)
    codegen.build(routine.scheduled(n).mod, TARGET)["main"](*arguments)
    for got, wanted in zip(arguments[-len(expected) :], expected, strict=True):
        np.testing.assert_allclose(got, np.broadcast_to(wanted, got.shape), rtol=1e-4, atol=1e-4)
