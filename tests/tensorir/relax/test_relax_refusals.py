"""What operators say to operands that do not go together: the cases of `refusals.txt`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tensorir import IRTypeError, IRValueError, relax
from tensorir.nodes.expr import Var
from tensorir.nodes.ops import floordiv
from tensorir.relax import Constant, ShapeStructInfo, TensorStructInfo, op
from tests.text_cases import check_lines


def tensor(*shape: int, dtype: str = "float32") -> relax.Var:
    return relax.Var("x", TensorStructInfo(shape, dtype))


def said(call: str) -> str:
    names = (Constant, ShapeStructInfo, TensorStructInfo, Var, floordiv, tensor)
    try:
        eval(call, {"np": np, "op": op, **{x.__name__: x for x in names}})
    except (IRTypeError, IRValueError) as error:
        return f"{type(error).__name__}: {' / '.join(str(error).splitlines())}"
    return "nothing is said"


def test_what_is_refused(pytestconfig: pytest.Config) -> None:
    check_lines(Path(__file__).with_name("refusals.txt"), ">>> ", said, pytestconfig)
