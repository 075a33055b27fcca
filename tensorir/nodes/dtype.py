"""Scalar and vector data types.

A `DataType` is an interned string, its canonical text (`"float32x16" == DataType("float32x16")`),
with its parts as attributes. So a comparison of types compares two short strings, and reading the
number of bits is an attribute access.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import numpy as np

TypeCode = Literal["int", "uint", "float", "bfloat", "e4m3_float", "e5m2_float", "handle"]

_TEXT: Final = re.compile(
    r"(?P<base>int|uint|float|bfloat|bool|handle)(?P<bits>\d+)?(?:x(?P<lanes>\d+))?"
)
_FP8: Final = re.compile(r"(?P<base>e[45]m[32]_float)8(?:x(?P<lanes>\d+))?")
_NEWER_FP8: Final = re.compile(r"float8_(?:(e4m3)fn|(e5m2))(?=x|$)")
_DEFAULT_BITS: Final = {"int": 32, "uint": 32, "float": 32, "bfloat": 16, "handle": 64}
_LEGAL_BITS: Final = {"float": (16, 32, 64), "bfloat": (16,), "handle": (64,)}


class DataType(str):
    """A dtype: `code` (kind of number), `bits` of one element, `lanes` of a vector.

    >>> DataType("float32x16").lanes
    16
    >>> DataType("int") == "int32"
    True

    Raises ValueError for an unknown type.
    """

    code: TypeCode
    bits: int
    lanes: int

    _interned: Final[dict[str, DataType]] = {}

    def __new__(cls, text: str) -> DataType:
        """Return the unique object for `text`."""
        known = cls._interned.get(text)
        if known is not None:
            return known
        code, bits, lanes = _parts(text)
        canonical = _spell(code, bits, lanes)
        result = cls._interned.get(canonical)
        if result is None:
            result = super().__new__(cls, canonical)
            result.code, result.bits, result.lanes = code, bits, lanes
            result.is_int = code == "int"
            result.is_uint = code == "uint"
            result.is_bool = code == "uint" and bits == 1
            result.is_integral = code in ("int", "uint")
            result.is_float = code == "float"
            result.is_floating = code in ("float", "bfloat", "e4m3_float", "e5m2_float")
            result.is_handle = code == "handle"
            cls._interned[canonical] = result
        cls._interned[text] = result
        return result

    is_int: bool
    """Signed integer."""
    is_uint: bool
    """Unsigned integer, including bool."""
    is_bool: bool
    is_integral: bool
    """Signed or unsigned integer, including bool."""
    is_float: bool
    """IEEE float16/32/64 only."""
    is_floating: bool
    """Any floating-point format, including bfloat16 and 8-bit formats."""
    is_handle: bool

    def __reduce__(self) -> tuple[type[DataType], tuple[str]]:
        """Pickle as text, so that unpickling returns the interned object."""
        return (DataType, (str(self),))

    @property
    def element(self) -> DataType:
        """The same type with one lane."""
        return self if self.lanes == 1 else self.with_lanes(1)

    def with_lanes(self, lanes: int) -> DataType:
        """Return the vector type with `lanes` elements of this type."""
        return DataType(_spell(self.code, self.bits, lanes))

    def with_bits(self, bits: int) -> DataType:
        """Return the type with the same code and lanes and with `bits` per element."""
        return DataType(_spell(self.code, bits, self.lanes))

    @property
    def nbytes(self) -> int:
        """The size of one value in memory in bytes; a bool occupies a byte."""
        return max(1, self.bits // 8) * self.lanes

    def to_numpy(self) -> np.dtype[np.generic]:
        """Return the NumPy type of one element.

        Bfloat16 and fp8 are stored as unsigned integers.
        """
        if self.is_bool:
            return np.dtype(np.bool_)
        if self.code == "bfloat":
            return np.dtype(np.uint16)
        if self.code in ("e4m3_float", "e5m2_float"):
            return np.dtype(np.uint8)
        if self.is_handle or self.bits not in (8, 16, 32, 64):
            raise ValueError(f"dtype {self} has no NumPy equivalent")
        return np.dtype(f"{self.code}{self.bits}")


def _parts(text: str) -> tuple[TypeCode, int, int]:
    if text in ("void", ""):
        return "handle", 0, 0
    fp8 = _FP8.fullmatch(_NEWER_FP8.sub(r"\1\2_float8", text))
    if fp8:
        return fp8["base"], 8, int(fp8["lanes"] or 1)  # type: ignore[return-value]
    found = _TEXT.fullmatch(text)
    if not found:
        raise ValueError(f"unknown type {text!r}; a dtype looks like 'float32', 'int8', 'bool'")
    base, lanes = found["base"], int(found["lanes"] or 1)
    if base == "bool":
        if found["bits"]:
            raise ValueError(f"unknown type {text!r}; bool has no number of bits")
        return "uint", 1, lanes
    bits = int(found["bits"] or _DEFAULT_BITS[base])
    legal = _LEGAL_BITS.get(base, range(1, 65))
    if bits not in legal or lanes < 1:
        raise ValueError(f"unknown type {text!r}; {base} has no {bits}-bit form with {lanes} lanes")
    return base, bits, lanes  # type: ignore[return-value]


def _spell(code: str, bits: int, lanes: int) -> str:
    if code == "handle" and bits == 0:
        return "void"
    if code == "uint" and bits == 1 and lanes == 1:
        return "bool"
    base = code if code == "handle" else f"{code}{bits}"
    return base if lanes == 1 else f"{base}x{lanes}"


BOOL: Final = DataType("bool")
INT32: Final = DataType("int32")
INT64: Final = DataType("int64")
FLOAT32: Final = DataType("float32")
FLOAT64: Final = DataType("float64")
HANDLE: Final = DataType("handle")
VOID: Final = DataType("void")
