"""The C functions that a program may call when it is measured.

A program from a stranger, in a file or a database, could do anything by
`T.call_extern("int32", "system", ...)`. So functions are allowed by name. This is not a sandbox: a
program reads and writes memory as well.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from codegen.object_code import read_object_code
from search.errors import TuningError

_OF_DOUBLES: Final = (  # those of float32 end with an f
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 "
    "fabs fdim floor fma fmax fmin fmod hypot ldexp lgamma log log10 log1p log2 nearbyint "
    "nextafter pow remainder rint round sin sinh sqrt tan tanh tgamma trunc"
)
MATHEMATICAL: Final = frozenset(
    name + suffix for name in _OF_DOUBLES.split() for suffix in ("", "f")
)
"""The functions of C's math.h whose arguments are numbers."""


def checked_names(names: Collection[str]) -> frozenset[str]:
    """Return `allow_externs` as a set; TuningError if it is a single string."""
    if isinstance(names, str):
        raise TuningError(f"allow_externs is a collection of C function names, as in ({names!r},)")
    return frozenset(names)


def check_externs(object_code: bytes, allowed: frozenset[str]) -> None:
    """Raise TuningError if compiled code calls a C function outside of math.h and `allowed`."""
    info, _ = read_object_code(object_code)
    for name in sorted({*info.externs} - MATHEMATICAL - allowed):
        raise TuningError(
            f"the program calls the C function {name!r}, but measured programs may call only "
            "mathematical ones; if you trust it, allow it by LocalBuilder or DaskRunner(..., "
            f"allow_externs=({name!r},)), or by --allow-extern {name} of `tensorir tune` and "
            "`tensorir worker`"
        )
