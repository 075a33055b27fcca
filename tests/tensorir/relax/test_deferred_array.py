"""Elements of constants that are made when they are read, and that nobody keeps."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorir import structural_equal
from tensorir.nodes.dtype import DataType
from tensorir.relax.deferred_array import LARGE, DeferredArray
from tensorir.relax.expr import Constant

SHAPE = (128, 256)
FLOAT = DataType("float32")


class Counted:
    """Makes an array, and counts how often."""

    def __init__(self, shape: tuple[int, ...] = SHAPE) -> None:
        self.calls = 0
        self._shape = shape

    def __call__(self) -> np.ndarray[Any, Any]:
        self.calls += 1
        return np.arange(np.prod(self._shape), dtype="float32").reshape(self._shape)


def test_a_large_array_is_made_for_each_reader_that_comes_after_the_last_one_left() -> None:
    make = Counted()
    constant = Constant.made_by(make, SHAPE, FLOAT)
    assert (constant.source.shape, constant.source.nbytes, make.calls) == (SHAPE, 128 << 10, 0)
    first = constant.data
    assert constant.data is first
    assert make.calls == 1
    assert not first.flags.writeable
    del first
    np.testing.assert_array_equal(constant.data, Counted()())
    assert make.calls == 2


def test_a_small_array_is_made_once() -> None:
    make = Counted((4,))
    constant = Constant.made_by(make, (4,), FLOAT)
    assert constant.data.tolist() == constant.data.tolist() == [0, 1, 2, 3]
    assert make.calls == 1
    assert constant.source.nbytes < LARGE


def test_what_is_kept_is_not_made_again() -> None:
    make = Counted()
    constant = Constant.made_by(make, SHAPE, FLOAT)
    assert isinstance(constant.source, DeferredArray)
    kept = constant.data
    constant.source.keep(kept)
    del kept
    assert constant.data.shape == SHAPE
    assert make.calls == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.reshaped((256, 128)).data.reshape(SHAPE),
        lambda c: c.transposed((1, 0)).data.T,
        lambda c: c.reshaped((2, 64, 256)).transposed((2, 0, 1)).data.transpose(1, 2, 0),
    ],
)
@pytest.mark.parametrize("later", [True, False])
def test_other_forms_have_the_same_elements(
    change: Callable[[Constant], np.ndarray[Any, Any]], later: bool
) -> None:
    make = Counted()
    constant = Constant.made_by(make, SHAPE, FLOAT) if later else Constant(make())
    np.testing.assert_array_equal(change(constant).reshape(SHAPE), make())
    assert change(constant).dtype == np.float32


def test_a_reshaped_array_in_memory_shares_it() -> None:
    array = Counted()()
    assert np.shares_memory(Constant(array).reshaped((256, 128)).data, array)


def test_equality_and_pickling_read_the_elements() -> None:
    constant = Constant.made_by(Counted(), SHAPE, FLOAT)
    assert structural_equal(constant, Constant(Counted()()))
    assert not structural_equal(constant, Constant(Counted()() + 1))
    assert structural_equal(pickle.loads(pickle.dumps(constant)), constant)


def test_types_that_numpy_lacks_are_held_by_their_bits() -> None:
    constant = Constant.made_by(
        lambda: np.zeros((256, 256), "uint16"), (256, 256), DataType("bfloat16")
    )
    assert str(constant.transposed((1, 0)).struct_info) == str(constant.struct_info)
