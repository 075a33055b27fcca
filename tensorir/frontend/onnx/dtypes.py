"""ONNX's dtypes and arrays as the package's dtypes and arrays."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorir.errors import IRValueError
from tensorir.frontend.onnx.schemas import onnx_package
from tensorir.nodes.dtype import DataType

_NAMES = {
    "FLOAT": "float32", "DOUBLE": "float64", "FLOAT16": "float16", "BFLOAT16": "bfloat16",
    "FLOAT8E4M3FN": "e4m3_float8", "FLOAT8E5M2": "e5m2_float8", "BOOL": "bool",
    "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64",
    "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64",
}  # fmt: skip


class NarrowInteger(NamedTuple):
    """A dtype of integers of fewer than 8 bits, each stored in one byte, and its range."""

    name: str
    dtype: DataType
    low: int
    high: int


_NARROW = {
    "INT4": NarrowInteger("int4", DataType("int8"), -8, 7),
    "UINT4": NarrowInteger("uint4", DataType("uint8"), 0, 15),
    "INT2": NarrowInteger("int2", DataType("int8"), -2, 1),
    "UINT2": NarrowInteger("uint2", DataType("uint8"), 0, 3),
}


@cache
def _names_by_number() -> dict[int, str]:
    return {number: name for name, number in onnx_package().TensorProto.DataType.items()}


def dtype_of(number: int) -> DataType:
    """Return the dtype with an ONNX number. Raises IRValueError if it is not supported here."""
    name = _names_by_number().get(number)
    if name is None or name == "UNDEFINED":
        raise IRValueError(f"{number} is not the number of an ONNX dtype")
    if name in _NARROW:
        raise IRValueError(
            f"{name.lower()} is not supported here; only Cast, QuantizeLinear and "
            "DequantizeLinear accept and return it"
        )
    if name not in _NAMES:
        raise IRValueError(f"tensors of {name.lower()} are not supported")
    return DataType(_NAMES[name])


def narrow_integer(number: int) -> NarrowInteger | None:
    """Return the narrow integer dtype with an ONNX number; None for another dtype."""
    return _NARROW.get(_names_by_number().get(number, ""))


def held_dtype(number: int) -> DataType:
    """Return the dtype that holds the elements of an ONNX dtype; IRValueError if unsupported."""
    narrow = narrow_integer(number)
    return dtype_of(number) if narrow is None else narrow.dtype


def dtype_number(dtype: str) -> int:
    """Return the ONNX number of a dtype. Raises IRValueError if ONNX does not have it."""
    for name, known in _NAMES.items():
        if known == dtype:
            return int(onnx_package().TensorProto.DataType.Value(name))
    raise IRValueError(f"ONNX does not have the dtype {dtype}")


def array_of(tensor: Any) -> tuple[NDArray[Any], DataType]:
    """Return the elements of a tensor of a model and their dtype.

    Elements of types that NumPy lacks are returned as their bits, as in a `Constant`. Raises
    IRValueError for an unsupported dtype or an incomplete tensor.
    """
    dtype = held_dtype(tensor.data_type)
    try:
        array = onnx_package().numpy_helper.to_array(tensor)
    except (ValueError, TypeError) as error:
        raise IRValueError(f"the tensor {tensor.name} is not complete: {error}") from error
    if narrow_integer(tensor.data_type) is not None:
        return np.asarray(array).astype(dtype.to_numpy()), dtype
    return np.asarray(array).view(dtype.to_numpy()) if dtype.is_floating else array, dtype
