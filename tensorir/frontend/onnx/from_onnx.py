"""The entrance: a model of the Open Neural Network Exchange becomes a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorir.frontend.onnx.graph_import import GraphImport
from tensorir.frontend.onnx.limits import DEFAULT_LIMITS, ImportLimits
from tensorir.frontend.onnx.model_file import Model, read_model
from tensorir.function import IRModule
from tensorir.nodes.expr import PrimExpr
from tensorir.recursion import any_depth


@any_depth
def from_onnx(
    model: Any,
    shape_dict: Mapping[str, Sequence[int | str | PrimExpr]] | None = None,
    dtype_dict: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    keep_params_in_input: bool = False,
    limits: ImportLimits = DEFAULT_LIMITS,
) -> IRModule:
    """Return a module whose graph function `main` computes an ONNX model.

    `model` is the path of a model file, or an `onnx.ModelProto`. Its inputs are the parameters of
    `main`, under their names (what is no letter, digit or underscore becomes an underscore); one
    output is the result, several are a tuple. Weights are constants of the program; with
    `keep_params_in_input` they are parameters behind the inputs (the attribute `num_input` says
    where they begin), and the attribute `params` of the module holds them by name.

    `shape_dict` gives shapes of inputs, whose names of dimensions (strings) are symbolic sizes;
    other inputs have the shapes that the model states, and a dimension that it leaves open is a
    symbolic size: one of a name for the whole model, so that what the model calls alike is equal.
    `dtype_dict` gives dtypes of inputs whose dtype the model does not state. `opset` reads the
    nodes as another version of the standard operators than the model says.

    Integers that only shapes are computed from are known while the model is read. Where nodes need
    numbers that are not, the numbers are looked at when the model runs; where sizes have to be
    equal and nobody knows that they are, that is checked when the model runs.

    `limits` bounds how far a small file may grow while it is read.

    Raises IRValueError or IRTypeError that names the node: for what is not read as a model or
    breaks the rules of one, an opset that is newer than the package `onnx`, operands that do not go
    together, and for operators without a converter, all of them at once; ImportLimitError, an
    IRValueError, for a model that grows beyond a limit. NaN and infinite weights are kept as they
    are.
    """
    source: Model = read_model(model)
    importing = GraphImport(source, opset, limits)
    return importing.module(shape_dict or {}, dtype_dict, keep_params_in_input)
