"""The energy that this machine takes, as RAPL counts it (running average power limit)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from search.errors import TuningError

POWERCAP: Final = Path("/sys/class/powercap")
"""Where Linux shows the counters, of AMD's processors too."""
_PACKAGE: Final = re.compile(r"intel-rapl:\d+")
"""A zone that is a whole processor; those below it are counted in it."""
_SECONDS: Final = 0.25
"""How long a candidate runs: a counter moves about once a millisecond."""
_MICRO: Final = 1e-6


class TimedCall(Protocol):
    """A call that can be repeated, see `codegen.PreparedCall`."""

    def time(self, count: int, /) -> object:
        """Call so often."""


class EnergyMeter:
    """The counters of all processors of this machine; TuningError where they cannot be read."""

    def __init__(self, root: Path = POWERCAP) -> None:
        reason = why_not(root)
        if reason is not None:
            raise TuningError(f"the energy of candidates cannot be measured: {reason}")
        self._zones = _zones(root)
        self._ranges = [int((zone / "max_energy_range_uj").read_text()) for zone in self._zones]

    def read(self) -> list[int]:
        """Return the microjoules on each counter."""
        return [int((zone / "energy_uj").read_text()) for zone in self._zones]

    def joules_since(self, before: Sequence[int]) -> float:
        """Return the joules since a reading; a counter may have begun anew once."""
        spent = 0
        for then, now, most in zip(before, self.read(), self._ranges, strict=True):
            spent += now - then if now >= then else now - then + most
        return spent * _MICRO


def joules_per_call(call: TimedCall, seconds: float, meter: EnergyMeter) -> float:
    """Return the joules that the machine takes for a call of so many seconds, on average.

    It is called for a quarter of a second. Counted is all that the processors take meanwhile, what
    they take when they idle and what other processes do included.
    """
    count = max(1, round(_SECONDS / seconds))
    before = meter.read()
    call.time(count)
    return meter.joules_since(before) / count


def why_not(root: Path = POWERCAP) -> str | None:
    """Return why energy cannot be measured here, and what to do about it; None if it can."""
    zones = _zones(root)
    if not zones:
        return (
            f"there is no counter {root}/intel-rapl:0 (virtual machines seldom have one, other "
            "processors than those of x86 have none)"
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
