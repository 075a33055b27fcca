"""Making sure that the CPU of this process can run code with certain features."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import cache
from typing import Final

from codegen import host
from codegen.errors import LinkError

_ARCH_PRCTL: Final = 158
_REQUEST_PERMISSION: Final = 0x1023
_TILE_DATA: Final = 18


def prepare_host(features: Iterable[str]) -> None:
    """Make sure that this machine can run code with these features; LinkError if it cannot."""
    needed = set(features)
    missing = sorted(needed - host.cpu_features())
    if missing:
        raise LinkError(
            f"the code uses {', '.join(missing)}, which this CPU does not have; "
            f"build it for the target 'host'"
        )
    if any(feature.startswith("amx-") for feature in needed):
        _request_tiles()


@cache
def _request_tiles() -> None:
    """Ask the system for the tile registers, which a process gets on demand only (Linux 5.16)."""
    system = ctypes.CDLL(None, use_errno=True)
    if system.syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) != 0:
        number = ctypes.get_errno()
        raise LinkError(f"the system does not grant the AMX tile registers (errno {number})")
