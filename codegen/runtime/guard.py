"""Running a function on arrays next to inaccessible memory.

For fuzzing: each array is copied into separate pages, once right after an inaccessible page and
once right before one, so that reading or writing a byte outside stops the process with SIGSEGV
instead of going unnoticed. Use a process that may die.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from typing import Any, Literal

from codegen.errors import ExecutionError
from codegen.runtime.arguments import BoundArguments
from codegen.signature import Signature

_PROT_NONE = 0
_PAGE = mmap.PAGESIZE


def run_guarded(signature: Signature, bound: BoundArguments, run: Callable[[Any], int]) -> int:
    """Call `run` on slots whose arrays are next to guard pages; copy outputs back.

    The function runs twice on the same inputs; what the second run wrote is kept. Returns its
    status.
    """
    status = _run_at(signature, bound, run, "start")
    return status or _run_at(signature, bound, run, "end")


def _run_at(
    signature: Signature,
    bound: BoundArguments,
    run: Callable[[Any], int],
    place: Literal["start", "end"],
) -> int:
    slots = type(bound.slots)(*bound.slots)
    copies: list[tuple[int, int, int, mmap.mmap, bool]] = []
    for k, (parameter, view) in enumerate(zip(signature.parameters, bound.views, strict=True)):
        if view is None:
            continue
        low, high = view.extent_bytes()
        pages, start = guarded_pages(high - low, place)
        ctypes.memmove(start, low, high - low)
        slots[k] += start - low
        copies.append((low, high, start, pages, parameter.written))
    status = run(slots)
    for low, high, start, pages, written in copies:
        if written and place == "end":
            ctypes.memmove(low, start, high - low)
        _protect(_address(pages), len(pages), mmap.PROT_READ | mmap.PROT_WRITE)
        pages.close()
    return status


def guarded_pages(nbytes: int, place: Literal["start", "end"]) -> tuple[mmap.mmap, int]:
    """Return pages and the address in them at which `nbytes` are next to an inaccessible page."""
    inner = -(-nbytes // _PAGE) * _PAGE
    pages = mmap.mmap(-1, inner + 2 * _PAGE)
    base = _address(pages)
    _protect(base, _PAGE, _PROT_NONE)
    _protect(base + _PAGE + inner, _PAGE, _PROT_NONE)
    first = base + _PAGE
    return pages, first if place == "start" else first + inner - nbytes


def _address(pages: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(pages))


def _protect(address: int, size: int, protection: int) -> None:
    mprotect = ctypes.CDLL(None, use_errno=True).mprotect
    mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if mprotect(address, size, protection):
        raise ExecutionError(f"guard pages: mprotect failed with errno {ctypes.get_errno()}")
