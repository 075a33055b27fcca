"""The speed of this machine: measured once, cached, and shown.

`machine_speed` is for users who state fractions of a peak or of a bandwidth. The search uses
`known_speed` if candidates run on this machine. Otherwise, or if the environment describes a
simulated machine, it uses the table in `codegen.target.cpu_cores`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from codegen.errors import CodegenError
from codegen.machine import measure as _measure
from codegen.machine.measure import (
    keep_speed,
    kept_speed,
    peak_flops,
    read_bandwidth,
)
from codegen.machine.speed import MachineSpeed
from codegen.target import Target, as_target, host

__all__ = [
    "MachineSpeed",
    "known_speed",
    "learn_speed",
    "machine_speed",
    "peak_flops",
    "read_bandwidth",
]

logger = logging.getLogger("tensorir.codegen")

_known: Final[dict[str, MachineSpeed | None]] = {}
"""The cached speeds, by target; None for targets of other machines."""


def machine_speed(
    target: str | Mapping[str, Any] | Target | None = None, *, again: bool = False
) -> MachineSpeed:
    """Return the measured speed of one core of this machine with the vectors of a target.

    It is measured once, in less than a second, and kept in the user's cache directory
    (`$XDG_CACHE_HOME`, `~/.cache`). `again` measures now, so that a comparison uses the current
    load and temperature of the machine. The default target is the current one, else this machine.

    Raises CodegenError if code for the target cannot run here, or if measured figures are
    implausible.
    """
    chosen = as_target(target)
    found = None if again else kept_speed(chosen)
    if found is None:
        found = _measure.measure(chosen)
        reason = found.implausible()
        if reason is not None:
            raise CodegenError(
                f"this machine could not be measured: {reason}; try again when it is less busy"
            )
        keep_speed(chosen, found)
    return found


def known_speed(target: Target) -> MachineSpeed | None:
    """Return the cached speed; None without one, or if the target is not this machine.

    The result for a simulated machine is None.
    """
    key = str(target)
    if key not in _known:
        _known[key] = kept_speed(target) if _is_this_machine(target) else None
    return _known[key]


def learn_speed(target: Target) -> None:
    """Measure this machine for `known_speed`, if the target is this machine.

    If the measurement fails, a warning says so, and the figures of the CPU model are used.
    """
    if not _is_this_machine(target) or known_speed(target) is not None:
        return
    try:
        speed = _known[str(target)] = machine_speed(target)
        logger.info(
            "A core of this machine does %.1f GFLOPS and reads %.1f GB/s from memory",
            speed.peak_flops / 1e9,
            speed.read[-1] / 1e9,
        )
    except CodegenError as error:
        logger.warning("%s. The figures of the CPU model %s are used instead", error, target.mcpu)


def _is_this_machine(target: Target) -> bool:
    return target.is_host and not host.is_made_up()
