"""The interface between compiled code and the process that runs it: symbol names and statuses.

Our symbols contain a dot, which C identifiers do not have, so a function of a program may have any
name: the function `memcpy` gets the symbol `tensorir.kernel.memcpy`, and a call of `memcpy` still
reaches the C library. The text before the second dot separates the kinds of symbols. C can use
plain names only for functions of an exported library.
"""

from __future__ import annotations

import hashlib
from typing import Final

INFO_SYMBOL: Final = "tensorir.info"
"""The description of a library's functions, as JSON."""
PROGRAM_SYMBOL: Final = "tensorir.graph_functions"
"""The programs of a library's graph functions, as JSON."""
HEADER_SYMBOL: Final = "tensorir.header"
"""The C header of a library's graph functions."""
CONSTANTS_SYMBOL: Final = "__tensorir_constants"
"""The constants of a library's graph functions, one after the other."""
OPENMP_SYMBOLS: Final = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
"""The symbols of an OpenMP runtime that compiled code uses."""
OUT_OF_MEMORY: Final = -1
"""The status of a function whose allocation failed; 0 is success, positive statuses are
assertions.
"""
LIBRARY_FAILED: Final = -2
"""The status of a function that called a library function which raised an exception."""
_MOST: Final = 2**31 - 1


def kernel_symbol(name: str) -> str:
    """Return the symbol of the machine code of function `name` of a module."""
    return f"tensorir.kernel.{name}"


def entry_symbol(name: str) -> str:
    """Return the symbol of the entry to function `name`, with arguments in one array of slots."""
    return f"tensorir.entry.{name}"


def library_symbol(name: str) -> str:
    """Return the symbol that a function calls for `T.call_packed`; see `codegen.signature`."""
    return f"tensorir.library.{name}"


def local_symbol(name: str) -> str:
    """Return the symbol of a constant or helper that is private to one object."""
    return f"tensorir.local.{name}"


def status_of(message: str) -> int:
    """Return the status of a failed assertion with this message.

    It depends on the message only, so that the code of a function does not depend on other
    functions.
    """
    digest = hashlib.blake2b(message.encode(), digest_size=8).digest()
    return 1 + int.from_bytes(digest, "little") % _MOST
