"""The spellings of printed programs and traces."""

from __future__ import annotations

from typing import Final, Literal, get_args

from tensorir.errors import IRValueError

Dialect = Literal["tensorir", "tvm"]
"""The spelling of a printed text: of this project, or of TVM.

The spellings differ in their import lines; the parser accepts both, and older spellings of TVM.
"""

_DIALECTS: Final = get_args(Dialect)


def checked_dialect(dialect: Dialect) -> Dialect:
    """Return `dialect`. Raises IRValueError, which lists the valid names, for an unknown one."""
    if dialect not in _DIALECTS:
        raise IRValueError(f"dialect must be one of {', '.join(_DIALECTS)}, got {dialect!r}")
    return dialect
