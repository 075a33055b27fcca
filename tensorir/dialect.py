"""The spellings of printed programs and traces."""

from __future__ import annotations

from typing import Final, Literal, get_args

from tensorir.errors import IRValueError

Dialect = Literal["tensorir", "tvm", "tvm-0.10"]
"""The spelling of a text: that of this project, of TVM, or of TVM before release 0.11.

They differ in the lines that make the names of the dialect known; the oldest also in the spelling
of buffers, loops and the module. All are read.
"""

_DIALECTS: Final = get_args(Dialect)


def checked_dialect(dialect: Dialect) -> Dialect:
    """Return `dialect`; IRValueError names the known ones if it is none of them."""
    if dialect not in _DIALECTS:
        raise IRValueError(f"dialect must be one of {', '.join(_DIALECTS)}, got {dialect!r}")
    return dialect
