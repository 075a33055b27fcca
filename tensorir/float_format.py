"""The floating point formats: their precision, smallest and largest numbers."""

from __future__ import annotations

from typing import Final, NamedTuple


class Format(NamedTuple):
    """A binary floating point format of IEEE's kind."""

    precision: int
    """Bits of a normal number, the leading one included."""
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
