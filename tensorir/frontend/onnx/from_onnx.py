"""The entry point: a model of the Open Neural Network Exchange becomes a module."""

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
    `main`, under their names; characters other than letters, digits and underscores become
    underscores. A single output is the result; several outputs are returned as a tuple. Weights are
    constants of the program. With `keep_params_in_input` they are parameters after the inputs (the
    attribute `num_input` is the number of inputs), and the attribute `params` of the module holds
    them by name.

    `shape_dict` gives shapes of inputs; a string in a shape names a symbolic size. Other inputs
    have the shapes that the model states. A dimension that the model leaves open is a symbolic
    size, one for each name in the whole model, so that dimensions of the same name are equal.
    `dtype_dict` gives dtypes of inputs without a dtype in the model. `opset` overrides the version
    of the standard operators that the model states.

    Integers that are used only to compute shapes are evaluated while the model is read. If a node
    needs a number that is not known then, the compiled model reads it at run time. If two sizes
    must be equal and are not provably equal, the compiled model checks them at run time.

    `limits` bounds how large a program a small file may produce.

    Raises IRValueError or IRTypeError, which name the node: for an invalid model, an opset that is
    newer than the package `onnx`, operands that do not match, and for operators without a converter
    (all of them in one error). Raises ImportLimitError, an IRValueError, for a model that exceeds a
    limit. NaN and infinite weights are kept.
    """
    source: Model = read_model(model)
    importing = GraphImport(source, opset, limits)
    return importing.module(shape_dict or {}, dtype_dict, keep_params_in_input)
