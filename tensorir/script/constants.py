"""Arrays in script text: short arrays as literals, others as metadata in front of the program.

`load_json` reads the metadata that TVM prints.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tensorir.errors import IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.relax.expr import Constant, const_of

KEY: Final = "relax.expr.Constant"
LEFT_OUT: Final = "# Metadata omitted. Use show_meta=True in script() method to show it."
_LONGEST_INLINE: Final = 16
"""The maximum number of elements of an array literal, which is in one line."""
_MAGIC: Final = 0xDD5E40F096B4A13F
_HEAD: Final = struct.Struct("<QQiiiBBH")
"""The header of a TVM array: magic number, a reserved word, device (kind, number), rank, dtype
(code, bits, lanes).
"""
_CODES: Final = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}


def inline_text(constant: Constant, *, scalars_only: bool) -> str | None:
    """Return a constant as `{R}.const(values, dtype)` if that is short and reads back with the same
    bits.
    """
    array = constant.data
    dtype = constant.struct_info.dtype  # type: ignore[attr-defined]
    if array.size > (1 if scalars_only else _LONGEST_INLINE) or (scalars_only and array.ndim):
        return None
    if str(array.dtype) != dtype:
        return None
    shown = _digits(array)
    text = "{R}.const(" + _list_text(shown) + f', "{dtype}")'
    again = const_of(shown, dtype).data
    same = again.shape == array.shape and again.tobytes() == array.tobytes()
    return text if same else None


def _digits(array: np.ndarray[Any, Any]) -> Any:
    """Return the elements with the fewest digits that distinguish them."""
    if array.dtype.kind != "f":
        return array.tolist()
    shortest = [float(str(x)) for x in array.ravel()]
    nested = np.array(shortest, dtype=object).reshape(array.shape).tolist()
    exact = np.array_equal(np.asarray(shortest).astype(array.dtype), array.ravel(), equal_nan=True)
    return nested if exact else array.tolist()


def _list_text(values: Any) -> str:
    if isinstance(values, list):
        return "[" + ", ".join(map(_list_text, values)) + "]"
    text = repr(values)
    return f'"{text}"' if text in ("nan", "inf", "-inf") else text


def elements_text(array: np.ndarray[Any, Any]) -> str:
    """Return the elements of an array, separated by commas, in the form that `array_of_elements`
    reads.

    Special values are in quotes: `"inf"`, `"nan"`, and other NaNs by their bits, `"0xffc00000"`.
    """
    texts = [repr(x) for x in array.ravel().tolist()]
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return ", ".join(texts)
    bits = array.ravel().view(f"u{array.itemsize}").tolist()
    default_nan = np.array(np.nan, array.dtype).view(f"u{array.itemsize}").item()
    for k, value in enumerate(np.isfinite(array.ravel()).tolist()):
        if not value:
            unusual = texts[k] == "nan" and bits[k] != default_nan
            texts[k] = f'"{bits[k]:#x}"' if unusual else f'"{texts[k]}"'
    return ", ".join(texts)


def array_of_elements(values: Any, dtype: str) -> np.ndarray[Any, Any]:
    """Return an array of elements, which may be in quotes.

    Raises IRValueError for invalid elements.
    """
    kind = DataType(dtype)
    storage = kind.to_numpy()
    if isinstance(values, str):
        raise IRValueError(f"the elements of an array must be a list, got {values!r}")
    if not isinstance(values, (list, tuple)) or not any(isinstance(x, str) for x in values):
        return np.asarray(values, storage)
    array = np.empty(len(values), storage)
    bits = array.view(f"u{storage.itemsize}")
    for k, value in enumerate(values):
        try:
            if isinstance(value, str) and value.startswith("0x"):
                bits[k] = int(value, 16)
            else:
                array[k] = float(value) if isinstance(value, str) else value
        except (ValueError, OverflowError):
            raise IRValueError(f"{value!r} cannot be an element of an array of {kind}") from None
    return array


def array_of_bytes(dtype: str, shape: Sequence[int], data: str) -> Constant:
    """Return the constant of `shape` whose little-endian bytes are given as base64 text."""
    kind = DataType(dtype)
    storage = kind.to_numpy().newbyteorder("<")
    try:
        content = base64.b64decode(data, validate=True)
    except ValueError as error:
        raise IRValueError(f"the bytes of an array must be base64 text: {error}") from None
    sizes = [int(size) for size in shape]
    count = int(np.prod(sizes, dtype=object))
    if min(sizes, default=0) < 0 or len(content) != count * storage.itemsize:
        raise IRValueError(
            f"an array of {kind} with shape {tuple(sizes)} has {count * storage.itemsize} bytes, "
            f"not {len(content)}"
        )
    array = np.frombuffer(content, storage).reshape(sizes)
    return Constant(array.astype(kind.to_numpy()), kind)


class LeftOut:
    """The value of `metadata` in a text without arrays; reading an array is an error."""

    def __getitem__(self, key: object) -> Any:
        raise IRValueError(
            "the arrays of this program are not part of the text; print it by "
            "script(show_meta=True)"
        )


# ------------------------------------------------------------------------------- metadata of TVM


def load_json(text: str) -> dict[str, list[Any]]:
    """Return the metadata of a text: lists by key, whose items are constants for arrays and None
    otherwise.

    Reads the formats of TVM 0.19 (`type_key`, `b64ndarrays`) and 0.27 (`type`, `ffi.Tensor`).
    Raises IRValueError for text that is not of this form.
    """
    try:
        document = json.loads(text)
        nodes, arrays = document["nodes"], document.get("b64ndarrays", [])
        root = nodes[document["root"] if "root" in document else document["root_index"]]
        if "keys" in root:
            keys, lists = root["keys"], root["data"]
        else:
            keys = [nodes[k]["data"] for k in root["data"][::2]]
            lists = root["data"][1::2]
        return {
            str(key): [_constant(nodes[k], nodes, arrays) for k in nodes[at]["data"]]
            for key, at in zip(keys, lists, strict=True)
        }
    except (ValueError, LookupError, TypeError, AttributeError, struct.error) as error:
        if isinstance(error, IRValueError):
            raise
        raise IRValueError(f"the text is not the metadata of a program: {error}") from error


def _constant(
    node: dict[str, Any], nodes: list[dict[str, Any]], arrays: list[str]
) -> Constant | None:
    """Return the array of a node of the document; None for a node that is not an array."""
    if node.get("type_key") == "relax.expr.Constant":
        return _array(arrays[int(node["attrs"]["data"])])
    if node.get("type") in ("ir.GenericConst", "relax.expr.Constant"):
        fields = node["data"]
        return _array(nodes[fields["value" if "value" in fields else "data"]]["data"])
    return None


def _array(text: str) -> Constant:
    """Return the array in base64 text of TVM's binary format."""
    data = base64.b64decode(text, validate=True)
    magic, _, _, _, rank, code, bits, lanes = _HEAD.unpack_from(data)
    if magic != _MAGIC or lanes != 1 or code not in _CODES:
        raise IRValueError("the metadata has an array in an unknown format")
    boolean = _CODES[code] == "bool" or (code, bits) == (1, 1)
    dtype = DataType("bool" if boolean else f"{_CODES[code]}{bits}")
    shape = struct.unpack_from(f"<{rank}q", data, _HEAD.size)
    begin = _HEAD.size + 8 * rank
    (count,) = struct.unpack_from("<q", data, begin)
    content = data[begin + 8 :]
    storage = dtype.to_numpy().newbyteorder("<")
    if min(shape, default=0) < 0 or not (
        count == len(content) == int(np.prod(shape, dtype=object)) * storage.itemsize
    ):
        raise IRValueError(
            f"an array of the metadata has {len(content)} bytes, which do not fit its shape"
        )
    return Constant(np.frombuffer(content, storage).reshape(shape).astype(dtype.to_numpy()), dtype)
