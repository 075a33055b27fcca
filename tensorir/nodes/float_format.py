"""Floating-point formats: precision, smallest and largest numbers."""

from __future__ import annotations

from typing import Final, NamedTuple

from tensorir.nodes.dtype import DataType


class Format(NamedTuple):
    """A binary floating-point format, as in IEEE 754."""

    precision: int
    """Significant bits of a normal number, including the leading one."""
    last_place: int
    """Exponent of the smallest subnormal number."""
    largest: float
    """The largest finite number."""


FORMATS: Final[dict[str, Format]] = {
    "float64": Format(53, -1074, 1.7976931348623157e308),
    "float32": Format(24, -149, 3.4028234663852886e38),
    "float16": Format(11, -24, 65504.0),
    "bfloat16": Format(8, -133, 3.3895313892515355e38),
    "e4m3_float8": Format(4, -9, 448.0),
    "e5m2_float8": Format(3, -16, 57344.0),
}


def holds_values_of(wide: DataType, narrow: DataType) -> bool:
    """Return True if a type can represent every number of another type of the same kind."""
    if wide.lanes != narrow.lanes or wide.is_bool or narrow.is_bool:
        return False
    if wide.is_integral and narrow.is_integral:
        if wide.is_int == narrow.is_int:
            return wide.bits >= narrow.bits
        return wide.is_int and wide.bits > narrow.bits
    a, b = FORMATS.get(wide.element), FORMATS.get(narrow.element)
    if a is None or b is None:
        return False
    return a.precision >= b.precision and a.last_place <= b.last_place and a.largest >= b.largest
