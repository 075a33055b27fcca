"""Checks that the CPU of this process can run code for a target."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from codegen.emit.optimize import binding
from codegen.errors import LinkError
from codegen.signature import ModuleInfo
from codegen.target import Target, as_target, host

_ARCH_PRCTL: Final = 158
_REQUEST_PERMISSION: Final = 0x1023
_TILE_DATA: Final = 18


def why_not_here(target: str | Target | None = None) -> str | None:
    """Return a sentence why code for a target cannot run in this process; None if it can.

    Code for another architecture or system, for CPU features that this machine lacks, or for a GPU
    without a device or a runtime, cannot run here. It can still be built, inspected and exported.
    """
    chosen = as_target(target)
    if chosen.gpu is not None:
        from codegen.devices.array import device  # noqa: PLC0415 - for GPUs only

        try:
            device(chosen)
        except LinkError as problem:
            return str(problem)
        return None
    return _refusal(chosen.architecture, chosen.mtriple, chosen.required_features)


def why_not_loaded(info: ModuleInfo) -> str | None:
    """Return a sentence why compiled code cannot run in this process; None if it can."""
    return _refusal(info.architecture, Target(info.target).mtriple, frozenset(info.needed_features))


@cache
def _refusal(architecture: str, triple: str | None, features: frozenset[str]) -> str | None:
    if sys.platform == "win32":
        return (
            "compiled code runs on Linux and macOS, and on Windows in its subsystem for Linux "
            "(WSL); here it can be built, inspected and exported"
        )
    remedy = "build it for the target 'host' to run it here"
    if architecture != host.machine():
        return f"the code is for {architecture}, but this machine is {host.machine()}; {remedy}"
    if triple is not None and _object_format(triple) != _object_format(None):
        return f"the code is for {triple}, which is not the system of this process; {remedy}"
    missing = host.missing_features(features)
    if missing:
        return f"the code uses {', '.join(missing)}, which this CPU does not have; {remedy}"
    return None


def _object_format(triple: str | None) -> Any:
    return binding().get_object_format(triple)


def prepare_host(features: Iterable[str]) -> None:
    """Ask the system to enable these CPU features for this process; LinkError if it refuses."""
    if any(feature.startswith("amx-") for feature in features):
        _request_tiles()


@cache
def _request_tiles() -> None:
    """Request the AMX tile registers, which Linux (since 5.16) enables on demand only."""
    system = ctypes.CDLL(None, use_errno=True)
    if system.syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) != 0:
        number = ctypes.get_errno()
        raise LinkError(
            f"the system does not grant the AMX tile registers (errno {number}); build for a "
            "target with -mattr=-amx-tile"
        )
