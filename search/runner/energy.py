"""The energy consumption of this machine, from its RAPL counters (running average power limit)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from search.errors import TuningError

POWERCAP: Final = Path("/sys/class/powercap")
"""The folder of the counters on Linux, also for processors of AMD."""
_PACKAGE: Final = re.compile(r"intel-rapl:\d+")
"""The name of a zone for a whole processor, which includes its subzones."""
_SECONDS: Final = 0.25
"""The length of a measurement; a counter changes about once a millisecond."""
_MICRO: Final = 1e-6


class TimedCall(Protocol):
    """A call that can be repeated, see `codegen.PreparedCall`."""

    def time(self, count: int, /) -> object:
        """Call `count` times."""


class EnergyMeter:
    """The counters of all processors of this machine; TuningError if they cannot be read."""

    def __init__(self, root: Path = POWERCAP) -> None:
        reason = why_not(root)
        if reason is not None:
            raise TuningError(f"the energy of candidates cannot be measured: {reason}")
        self._zones = _zones(root)
        self._ranges = [int((zone / "max_energy_range_uj").read_text()) for zone in self._zones]

    def read(self) -> list[int]:
        """Return the microjoules of each counter."""
        return [int((zone / "energy_uj").read_text()) for zone in self._zones]

    def joules_since(self, before: Sequence[int]) -> float:
        """Return the joules since a reading; each counter may have overflowed once."""
        spent = 0
        for then, now, most in zip(before, self.read(), self._ranges, strict=True):
            spent += now - then if now >= then else now - then + most
        return spent * _MICRO


def joules_per_call(call: TimedCall, seconds: float, meter: EnergyMeter) -> float:
    """Return the mean energy in joules of a call that runs in `seconds`.

    Calls it for a quarter of a second. The counters include idle power and other processes.
    """
    count = max(1, round(_SECONDS / seconds))
    before = meter.read()
    call.time(count)
    return meter.joules_since(before) / count


def why_not(root: Path = POWERCAP) -> str | None:
    """Return why energy cannot be measured here, with a remedy; None if it can."""
    zones = _zones(root)
    if not zones:
        return (
            f"the counter {root}/intel-rapl:0 does not exist (only x86 processors have it, and few "
            "virtual machines)"
        )
    for zone in zones:
        try:
            (zone / "energy_uj").read_text()
        except OSError as error:
            return (
                f"{zone}/energy_uj cannot be read: {error.strerror}; an administrator may allow it "
                f"with chmod a+r {root}/intel-rapl:*/energy_uj"
            )
    return None


def _zones(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if _PACKAGE.fullmatch(path.name))
