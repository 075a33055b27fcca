"""The arrays of programs that TVM prints: JSON in front of the text, which is data only."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any, Final

import numpy as np

from tensorir.errors import IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.relax.expr import Constant

_MAGIC: Final = 0xDD5E40F096B4A13F
_HEAD: Final = struct.Struct("<QQiiiBBH")
"""Magic number, a reserved word, device (kind, number), rank, dtype (code, bits, lanes)."""
_CODES: Final = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}


def load_json(text: str) -> dict[str, list[Any]]:
    """Return the metadata of a text: lists by key, arrays among them as constants, else None.

    Reads what TVM 0.19 (`type_key`, `b64ndarrays`) and 0.27 (`type`, `ffi.Tensor`) print. Raises
    IRValueError for text that is not of this form.
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
    """Return the array that a node of the document is, None for another one."""
    if node.get("type_key") == "relax.expr.Constant":
        return _array(arrays[int(node["attrs"]["data"])])
    if node.get("type") in ("ir.GenericConst", "relax.expr.Constant"):
        fields = node["data"]
        return _array(nodes[fields["value" if "value" in fields else "data"]]["data"])
    return None


def _array(text: str) -> Constant:
    """Return the array that base64 text holds in TVM's binary form."""
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
