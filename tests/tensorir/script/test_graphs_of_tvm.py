"""Modules with graph functions that Apache TVM 0.27.0 printed are read, and read back from ours.

`tests/vectors/graphs.json.gz` maps a name to the text of one module. They came about in an
environment with apache-tvm 0.27.0.post1: modules written with `@I.ir_module` (calls of all kinds,
symbolic sizes, branches, constants, operators), each after every pass from `LegalizeOps` to
`LowerAllocTensor`, printed by `.script(show_meta=True)`.
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

FILE = Path(__file__).parents[2] / "vectors" / "graphs.json.gz"


@cache
def programs() -> dict[str, str]:
    with gzip.open(FILE, "rt", encoding="utf-8") as file:
        texts: dict[str, str] = json.load(file)["programs"]
    return texts


@pytest.mark.parametrize("name", programs())
def test_modules_read_back(name: str) -> None:
    module = parse(programs()[name])
    assert_structural_equal(parse(module.script(show_meta=True)), module)


def test_the_arrays_of_the_metadata_are_those_of_the_program() -> None:
    module = parse(programs()["Constants.FuseTIR"])
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
