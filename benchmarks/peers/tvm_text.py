"""Programs of this project as programs of apache-tvm."""

from __future__ import annotations

import re
from typing import Any

from tvm.script import from_source

_NEW_NAMES = {
    "T.block(": "T.sblock(",
    "T.alloc_buffer(": "T.sblock_alloc_buffer(",
    "T.block_attr(": "T.sblock_attr(",
    "@T.prim_func\n": "@T.prim_func(s_tir=True)\n",
    "# from tvm.script import tir as T\n": "",
}


def parse(program: str) -> Any:
    """Return the program under the names that this release has for blocks."""
    text = re.sub(r"^from tensorir import .*\n", "", program)
    try:
        from tvm.script import tirx  # noqa: F401, PLC0415 - only later releases have it
    except ImportError:
        return from_source(text)
    for old, new in _NEW_NAMES.items():
        text = text.replace(old, new)
    return from_source(text)
