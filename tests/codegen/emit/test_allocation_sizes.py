"""Buffers whose bytes do not fit 64 bits are errors, never small allocations."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from codegen.errors import ExecutionError, LoweringError
from tensorir import parse

PROGRAM = """
from tensorir import T

@T.prim_func
def main(a: T.handle, b: T.handle, width: T.int64):
    n = T.int64()
    A = T.match_buffer(a, (n,))
    B = T.match_buffer(b, (n,))
    C = T.alloc_buffer((n * width, width))
    for i in range(n):
        with T.block("fill"):
            v = T.axis.spatial(n, i)
            C[v, 0] = A[v] + T.float32(1)
    for i in range(n):
        with T.block("copy"):
            v = T.axis.spatial(n, i)
            B[v] = C[v, 0]
"""


def test_a_size_that_wraps_when_the_program_runs_is_out_of_memory() -> None:
    main = codegen.build(parse(PROGRAM))["main"]
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    main(x, y, 3)
    np.testing.assert_array_equal(y, 2)
    with pytest.raises(ExecutionError, match="could not be allocated"):
        main(x, y, 1 << 31)  # 4 * 2**31 * 2**31 * 4 bytes are 2**66, which wraps to 0


FIXED = """
from tensorir import T

@T.prim_func
def main(P: T.Buffer((4,), "int64"), B: T.Buffer((4,), "float32")):
    C = T.alloc_buffer((1 << 40, 1 << 40))
    for i in range(4):
        with T.block("fill"):
            v = T.axis.opaque(4, i)
            C[P[v], P[v]] = T.float32(1)
    for i in range(4):
        with T.block("copy"):
            v = T.axis.spatial(4, i)
            B[v] = C[P[v], P[v]]
"""


def test_a_size_that_wraps_is_refused_by_the_compiler() -> None:
    with pytest.raises(LoweringError, match=r"the buffer C.* would have [\d,]+ bytes"):
        codegen.build(parse(FIXED))
