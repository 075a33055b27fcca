"""Programs measured on arrays of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import search as ms
from search.errors import TuningError
from tensorir import parse
from tensorir.function import IRModule, PrimFunc

TARGET = "llvm -num-cores=1"
TWO = ms.TuneConfig(2, num_confirmed=1)
HASH = """
@T.prim_func
def main(A: T.Buffer((100,), "float32"), I: T.Buffer((16,), "int32"), C: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = A[I[vi] * I[vi] - 9800]
"""
INSIDE = np.full(16, 99, np.int32)
"""99 * 99 - 9800 is 1; numbers that are made up are below 8."""


def function(text: str) -> PrimFunc:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


Tune = Callable[..., object]


@pytest.fixture
def tune(tmp_path: Path, measured: dict[str, object]) -> Tune:
    def run(**arguments: object) -> object:
        options = {"cost_model": "random", **measured, **arguments}
        return ms.tune_tir(function(HASH), TARGET, TWO, tmp_path, **options)

    return run


@pytest.mark.parametrize("form", [lambda data: data, lambda data: lambda: data])
def test_a_program_is_measured_on_arrays_that_are_given(
    tune: Tune, form: Callable[[object], object]
) -> None:
    assert tune(input_data=form({"I": INSIDE})) is not None


def test_arrays_that_lead_outside_are_refused_before_a_candidate_runs(tune: Tune) -> None:
    with pytest.raises(
        TuningError, match="A is read out of bounds along axis 0 of extent 100, at"
    ) as error:
        tune(input_data={"I": INSIDE + 1})
    assert 'give arrays with valid indices by input_data={"I": ...}' in str(error.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"J": INSIDE}, "input_data names 'J'; the parameters are A, I, C"),
        (
            {"I": INSIDE[:3]},
            r"input_data\['I'\] has the shape \(3,\) and dtype int32; the program ta",
        ),
        (
            {"I": INSIDE.astype("int64")},
            r"has the shape \(16,\) and dtype int64; the program takes",
        ),
        ([INSIDE], "input_data is a mapping from names of parameters to arrays"),
    ],
)
def test_other_names_shapes_and_types_are_refused_at_the_call(
    tmp_path: Path, tune: Tune, data: object, said: str
) -> None:
    with pytest.raises(TuningError, match=said):
        tune(input_data=data)
    assert not list(tmp_path.iterdir())


def test_tune_module_takes_them_by_function(tmp_path: Path, measured: dict[str, object]) -> None:
    mod = IRModule({"hash": function(HASH)})
    data = {"hash": {"I": INSIDE}}
    database = ms.tune_module(
        mod,
        TARGET,
        tmp_path,
        2,
        cost_model="random",
        input_data=data,
        num_confirmed=0,
        **measured,
    )
    assert ms.compile_tir(database, mod["hash"], TARGET) is not None
    with pytest.raises(TuningError, match=r"input_data names 'hush', .* did you mean 'hash'\?"):
        ms.tune_module(mod, TARGET, tmp_path, 2, input_data={"hush": {}})
