"""A picture of a graph function shows its calls, in order."""

from __future__ import annotations

import matplotlib as mpl
import pytest

import search
from search.errors import TuningError
from tensorir import IRModule, parse
from tensorir.transform import default_pipeline

mpl.use("Agg")


def module() -> IRModule:
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 8), "float32")):
        with R.dataflow():
            y = R.matmul(R.reshape(x, (2, 16)), R.reshape(w, (16, 4)))
            z = R.nn.relu(y)
            R.output(z)
        return z
""")
    assert isinstance(mod, IRModule)
    return mod


def texts(mod: IRModule) -> list[str]:
    return [text.get_text() for text in search.plot.graph(mod).texts if text.get_text()]


def test_operators_and_kernels() -> None:
    assert texts(module()) == ["x", "w", "reshape", "reshape", "matmul", "relu"]
    assert texts(default_pipeline()(module())) == ["x", "w", "view", "view", "fused_matmul_relu"]


def test_a_function_that_is_not_there() -> None:
    with pytest.raises(
        TuningError, match=r"unknown graph function 'other'; the functions are \['main'\]"
    ):
        search.plot.graph(module(), "other")
