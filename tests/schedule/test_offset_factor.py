"""offset_factor at the ends of the types; the rest is in `primitives/offset_factor.txt`."""

from __future__ import annotations

import numpy as np

from tensorir.interp import interpret
from tests.schedule.cases import program
from tests.schedule.transformation import apply

PRODUCT = program("PRODUCT", "offset_factor")


def offset(index, dtype):
    return lambda sch: sch.offset_factor("C", index, dtype)


def extremes(types):
    """Return factors that are as small and as large as they get."""
    rng = np.random.default_rng(0)
    ends = [np.array([np.iinfo(t).min, np.iinfo(t).max], t) for t in types]
    return rng.choice(ends[0], (3, 8)), rng.choice(ends[1], (8, 5))


def assert_right(sch, types=("int8", "int8")):
    a, b = extremes(types)
    c = np.zeros((3, 5), "int32")
    interpret(sch.mod, a, b, c)
    np.testing.assert_array_equal(c, 7 + a.astype("int32") @ b.astype("int32"))


def test_the_left_factor():
    assert_right(apply(PRODUCT, offset(0, "uint8")))


def test_the_right_factor_and_back_to_signed():
    text = PRODUCT.replace('B: T.Buffer((8, 5), "int8")', 'B: T.Buffer((8, 5), "uint8")')
    sch = apply(text, offset(1, "int8"))
    assert_right(sch, ("int8", "uint8"))


def test_both_factors_one_after_the_other():
    def both(sch):
        sch.offset_factor("C", 0, "uint8")
        sch.offset_factor("C", 1, "uint8")

    sch = apply(PRODUCT, both)
    assert "C_offset_1" in sch.mod.script()
    assert_right(sch)


def test_sums_that_wrap_wrap_alike():
    text = PRODUCT.replace("int8", "int16")
    sch = apply(text, offset(0, "uint16"))
    a, b = extremes(("int16", "int16"))
    c = np.zeros((3, 5), "int32")
    interpret(sch.mod, a, b, c)
    exact = 7 + a.astype("int64") @ b.astype("int64")
    np.testing.assert_array_equal(c, exact.astype("int32"))
