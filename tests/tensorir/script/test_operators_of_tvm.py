"""Programs that Apache TVM 0.27.0 printed are read, and read back from our own text.

`tests/vectors/operators.json.gz` maps a name to the text of one function. They came about in an
environment with apache-tvm 0.27.0.post1 by `te.create_prim_func` of the operators of `topi` and of
stages written by hand, and by `relax.transform.LegalizeOps` of functions with one call of an
operator of `relax.op`, over dtypes (float16/32/64, bfloat16, 8-bit floats, signed and unsigned
integers, bool) and shapes, dynamic ones too; each was printed by `.script()`. Those of the family
`lowered` are some of these after each of the passes from `LowerInitBlock` to
`CommonSubexprElim`, with the lets, views and allocations that passes leave.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path

import pytest

from tensorir import assert_structural_equal, parse

FILE = Path(__file__).parents[2] / "vectors" / "operators.json.gz"


@cache
def programs() -> dict[str, str]:
    with gzip.open(FILE, "rt", encoding="utf-8") as file:
        texts: dict[str, str] = json.load(file)["programs"]
    return texts


@pytest.mark.parametrize("family", ["lowered", "relax", "te", "topi"])
def test_operators_read_back(family: str) -> None:
    names = [name for name in programs() if name.startswith(f"{family}.")]
    assert names
    failed = {}
    for name in names:
        try:
            program = parse(programs()[name])
            assert_structural_equal(parse(program.script()), program)
        except (ValueError, TypeError, RuntimeError) as error:
            failed[name] = str(error)
    assert failed == {}


def test_a_product_of_dynamic_sizes_is_the_one_written_here() -> None:
    written = parse("""
@T.prim_func(private=True)
def main(x: T.handle, y: T.handle, z: T.handle):
    T.func_attr({"tir.noalias": True})
    n, m = T.int64(), T.int64()
    X = T.match_buffer(x, (n, m), "float32")
    Y = T.match_buffer(y, (m, T.int64(16)), "float32")
    Z = T.match_buffer(z, (n, T.int64(16)), "float32")
    for i, j, k in T.grid(n, T.int64(16), m):
        with T.block("matmul"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Z[vi, vj] = T.float32(0)
            Z[vi, vj] = Z[vi, vj] + X[vi, vk] * Y[vk, vj]
""")
    assert_structural_equal(parse(programs()["relax.matmul.dyn"]), written)
