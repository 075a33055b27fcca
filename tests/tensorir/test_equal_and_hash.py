"""Equality and hashes agree: what is equal hashes alike, and what is not equal differs somewhere."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorir import I, R, T, expr_deep_equal, parse, structural_equal, structural_hash
from tensorir.errors import DiagnosticError
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import FloatImm, IntImm, PointerType, PrimType, StringImm, TupleType, Var
from tensorir.nodes.node import Attrs

NAN_BITS = np.array([0x7FC00000, 0xFFC00001], "uint32").view("float32")
VALUES = [
    *(0, 1, True, False, 1.0, 0.0, -0.0, 1e-12, math.nan, float("nan"), math.inf, None),
    *("1", "", "int8", DataType("int8"), (1,), [1], [1.0], (), [], [[1]], [[True]], {}, Attrs()),
    *({"a": 1}, Attrs({"a": 1}), {"a": True}, {"a": [1, {"b": -0.0}]}, {"a": (1, {"b": -0.0})}),
    *(np.float32(1), np.float64(1), np.int64(1), np.bool_(True)),
    *(IntImm("int32", 1), IntImm("int64", 1), IntImm("bool", 1), StringImm("1")),
    *(FloatImm("float32", v) for v in (0.0, -0.0, 1e-12, 1.0, math.nan)),
    *(FloatImm("float64", v) for v in (0.0, math.nan)),
    *(np.zeros(2), -np.zeros(2), np.zeros((2, 1)), np.zeros(4)[::2], np.zeros(2, ">f8")),
    *(NAN_BITS, NAN_BITS[::-1], NAN_BITS.view("int32"), [np.zeros(2)], {"a": np.zeros(2)}),
    *(IndexMap([i], [i]) for i in (Var("i"), Var("i"), Var("j"))),
    *(Var("x", kind) for kind in ("handle", PointerType(PrimType("int8")), TupleType())),
    *(Var("x", kind) for kind in ("int8", PrimType("int8"))),
]


@pytest.mark.parametrize("map_free_vars", [False, True])
def test_equal_values_are_those_of_one_hash(map_free_vars):
    for a, b in itertools.combinations_with_replacement(VALUES, 2):
        if isinstance(a, Var) and isinstance(b, Var) and a is not b and not map_free_vars:
            assert not structural_equal(a, b)
            continue
        same = structural_equal(a, b, map_free_vars)
        assert same is structural_equal(b, a, map_free_vars)
        assert same is (structural_hash(a) == structural_hash(b)), (a, b)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [(0.0, -0.0, False), (1e-12, 0.0, False), (math.nan, -math.nan, True), (0.1, 0.1, True)],
)
def test_floats_are_equal_that_are_one_number(a, b, same):
    x, y = FloatImm("float64", a), FloatImm("float64", b)
    assert structural_equal(x, y) is expr_deep_equal(x, y) is same
    assert (structural_hash(x) == structural_hash(y)) is same


@T.prim_func
def tensor(a: T.handle, B: T.Buffer((8,), "float32"), n: T.int64):
    T.func_attr({"flags": [1, True, 1.0], "nested": {"scale": -0.0}})
    m = T.int32()
    A = T.match_buffer(a, (8, m), "float32", strides=["s", 1], elem_offset=4)
    for i in T.serial(8, annotations={"pragma": 1}):
        for k in range(m):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.block_attr({"note": "text"})
                with T.init():
                    B[vi] = T.float32(0)
                x: T.float32 = A[vi, vk] * T.float32(0.5)
                B[vi] = T.Select(n > T.int64(3), B[vi] + x, T.exp(x))


@I.ir_module
class Graph:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), c: R.Prim("bool")):
        n = T.int64()
        weights = R.const([0.5, -0.0, 1.0, 1e-12], "float32")
        with R.dataflow():
            y = R.call_dps_packed("f", (x, weights), out_sinfo=R.Tensor((n, 4), "float32"))
            z = R.match_cast(y, R.Tensor((n, 4), "float32"))
            R.output(z)
        return R.call_packed("g", z, R.prim_value(T.int64(1)), R.str("s"), sinfo_args=R.Object)


TEXTS = [tensor.script(), Graph.script(show_meta=True)]
LITERAL = re.compile(r'(?<![\w.])(?:\d+(?:\.\d+)?|True|False|"\w+"|[a-z]\b)')
CHANGES = ["0", "1", "1.0", "-0.0", "True", "T.int64(1)", "T.float32(-0.0)", "n", "8", '"s"']


@given(st.sampled_from(TEXTS), st.data())
def test_changed_programs(text, data):
    program = parse(text)
    found = data.draw(st.sampled_from(list(LITERAL.finditer(text))))
    new = data.draw(st.sampled_from([*CHANGES, *LITERAL.findall(text)]))
    try:
        changed = parse(text[: found.start()] + new + text[found.end() :], check_well_formed=False)
    except DiagnosticError:
        return
    same = structural_equal(program, changed)
    assert same is structural_equal(changed, program)
    assert same is (structural_hash(program) == structural_hash(changed))
