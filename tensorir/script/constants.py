"""Arrays in script text: small ones written out, others as metadata in front of the program."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tensorir.errors import IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.relax.expr import Constant, const_of

KEY: Final = "relax.expr.Constant"
LEFT_OUT: Final = "# Metadata omitted. Use show_meta=True in script() method to show it."
_LONGEST_INLINE: Final = 16
"""Elements of an array that is written out: one line, which is read at a glance."""


def inline_text(constant: Constant, *, scalars_only: bool) -> str | None:
    """Return a constant as `{R}.const(values, dtype)` if that is short and gives the same bits."""
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
    """Return the elements with as few digits as tell them from their neighbours."""
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
    """Return the elements of an array in a row, as `array_of_elements` reads them.

    What has no digits is in quotes: `"inf"`, `"nan"`, and another NaN by its bits, `"0xffc00000"`.
    """
    texts = [repr(x) for x in array.ravel().tolist()]
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return ", ".join(texts)
    bits = array.ravel().view(f"u{array.itemsize}").tolist()
    usual = np.array(np.nan, array.dtype).view(f"u{array.itemsize}").item()
    for k, value in enumerate(np.isfinite(array.ravel()).tolist()):
        if not value:
            unusual = texts[k] == "nan" and bits[k] != usual
            texts[k] = f'"{bits[k]:#x}"' if unusual else f'"{texts[k]}"'
    return ", ".join(texts)


def array_of_elements(values: Any, dtype: str) -> np.ndarray[Any, Any]:
    """Return the array of elements, some of them in quotes; IRValueError for what is no element."""
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
    """Return the constant of `shape` with the little-endian bytes that base64 text gives."""
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
            f"an array of {kind} of shape {tuple(sizes)} has {count * storage.itemsize} bytes, "
            f"not {len(content)}"
        )
    array = np.frombuffer(content, storage).reshape(sizes)
    return Constant(array.astype(kind.to_numpy()), kind)


class LeftOut:
    """`metadata` in a text that was printed without it."""

    def __getitem__(self, key: object) -> Any:
        raise IRValueError(
            "the arrays of this program are not part of the text; print it by "
            "script(show_meta=True)"
        )
