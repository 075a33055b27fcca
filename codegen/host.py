"""What is known about the machine this process runs on, without loading LLVM.

Linux tells all of it in /proc and /sys; elsewhere the fallbacks are conservative and LLVM is asked
for the name and features of the CPU.
"""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

_CPU_DIR: Final = Path("/sys/devices/system/cpu")
_KERNEL_TO_LLVM: Final = {
    "pni": "sse3",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "abm": "lzcnt",
    "avx512_vnni": "avx512vnni",
    "avx512_bf16": "avx512bf16",
    "avx512_fp16": "avx512fp16",
    "amx_tile": "amx-tile",
    "amx_int8": "amx-int8",
    "amx_bf16": "amx-bf16",
    "asimd": "neon",
}
"""Features whose name in /proc/cpuinfo is not the one LLVM uses."""


@dataclass(frozen=True, slots=True)
class CacheSizes:
    """Data cache sizes in bytes as one core sees them; 0 where unknown."""

    l1: int = 0
    l2: int = 0
    l3: int = 0


@cache
def cpu_features() -> frozenset[str]:
    """Return the features of this CPU under LLVM's names; empty where the system does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return frozenset()
    found = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    words = found[1].split() if found else []
    return frozenset(_KERNEL_TO_LLVM.get(word, word) for word in words)


@cache
def machine() -> str:
    """Return the architecture, such as `x86_64` or `aarch64`."""
    return architecture(platform.machine())


def architecture(name: str) -> str:
    """Return the one name of an architecture that is known by several."""
    return name.lower().replace("amd64", "x86_64").replace("arm64", "aarch64")


def logical_cores() -> int:
    """Return how many hardware threads this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def physical_cores() -> int:
    """Return how many cores, hyper-threads not counted, this process may use."""
    try:
        return len(core_groups())
    except AttributeError:
        return os.cpu_count() or 1


def core_groups() -> list[frozenset[int]]:
    """Return the cores that this process may use, each as its logical cores (hyper-threads).

    Raises AttributeError where the system does not tell what a process may use.
    """
    allowed = os.sched_getaffinity(0)
    by_id: dict[object, set[int]] = {}
    by_siblings: dict[object, set[int]] = {}
    for cpu in sorted(allowed):
        topology = _CPU_DIR / f"cpu{cpu}/topology"
        core = _first_line(topology / "core_id") or str(cpu)
        by_id.setdefault((_first_line(topology / "physical_package_id"), core), set()).add(cpu)
        siblings = _first_line(topology / "thread_siblings_list") or str(cpu)
        by_siblings.setdefault(siblings, set()).add(cpu)
    # Some hypervisors give every virtual CPU core_id 0; the sibling lists are right there.
    groups = max(by_id, by_siblings, key=len)
    return [frozenset(group) for group in groups.values()]


@cache
def cache_sizes() -> CacheSizes:
    """Return the sizes of the data caches of core 0."""
    sizes = {"1": 0, "2": 0, "3": 0}
    for index in sorted((_CPU_DIR / "cpu0/cache").glob("index*")):
        level = _first_line(index / "level")
        if level in sizes and _first_line(index / "type") != "Instruction":
            sizes[level] = _bytes(_first_line(index / "size"))
    return CacheSizes(sizes["1"], sizes["2"], sizes["3"])


def _first_line(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not found:
        return 0
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]]
