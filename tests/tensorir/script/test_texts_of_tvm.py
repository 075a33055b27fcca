"""Programs that Apache TVM 0.27.0 printed are read, and read back from our own text.

`tests/vectors/operators.json.gz` maps a name to the text of one function. They came about in an
environment with apache-tvm 0.27.0.post1 by `te.create_prim_func` of the operators of `topi` and of
stages written by hand, and by `relax.transform.LegalizeOps` of functions with one call of an
operator of `relax.op`, over dtypes (float16/32/64, bfloat16, 8-bit floats, signed and unsigned
integers, bool) and shapes, dynamic ones too; each was printed by `.script()`. Those of the family
`lowered` are some of these after each of the passes from `LowerInitBlock` to
`CommonSubexprElim`, with the lets, views and allocations that passes leave.

`tests/vectors/graphs.json.gz` maps a name to the text of one module, made in the same environment:
modules written with `@I.ir_module` (calls of all kinds, symbolic sizes, branches, constants,
operators), each after every pass from `LegalizeOps` to `LowerAllocTensor`, printed by
`.script(show_meta=True)`.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tensorir import IRModule, assert_structural_equal, parse
from tensorir.relax import Constant
from tensorir.rewriting.visit import walk


@cache
def programs(file_name: str) -> dict[str, str]:
    path = Path(__file__).parents[2] / "vectors" / f"{file_name}.json.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        texts: dict[str, str] = json.load(file)["programs"]
    return texts


@pytest.mark.parametrize("family", ["lowered", "relax", "te", "topi"])
def test_operators_read_back(family: str) -> None:
    texts = programs("operators")
    names = [name for name in texts if name.startswith(f"{family}.")]
    assert names
    failed = {}
    for name in names:
        try:
            program = parse(texts[name])
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
    assert_structural_equal(parse(programs("operators")["relax.matmul.dyn"]), written)


@pytest.mark.parametrize("name", programs("graphs"))
def test_modules_read_back(name: str) -> None:
    module = parse(programs("graphs")[name])
    assert_structural_equal(parse(module.script(show_meta=True)), module)


def test_the_arrays_of_the_metadata_are_those_of_the_program() -> None:
    module = parse(programs("graphs")["Constants.FuseTIR"])
    assert isinstance(module, IRModule)
    arrays = [n.data for n in walk(module["main"]) if isinstance(n, Constant)]
    counted = np.arange(40, dtype="float32").reshape(2, 20)
    for found, expected in zip(
        arrays,
        [counted, 1.5, True, [True, False], counted.astype("float16"), np.int32(3)],
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)
    assert [str(a.dtype) for a in arrays] == [
        "float32", "float32", "bool", "bool", "float16", "int32",
    ]  # fmt: skip
