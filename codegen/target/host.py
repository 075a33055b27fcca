"""Facts about the machine that this process runs on, without loading LLVM.

Linux provides them in /proc and /sys; on other systems the fallbacks are conservative, and LLVM
provides the name and features of the CPU.

The environment variable `TENSORIR_HOST` simulates another machine, for example to try a smaller
one: `mcpu=znver3,l1=32768,l2=524288,l3=33554432,cores=1` (sizes in bytes, of one core's data
caches). `mcpu` is a model of `codegen.target.presets`; missing fields are those of this machine.
The speed of a simulated machine is not measured but read from the table of
`codegen.target.cpu_cores`; `measured=no` alone does the same for this machine. Child processes
inherit it. Code for a simulated CPU runs only if the real CPU can run it.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from codegen.errors import TargetError
from codegen.target.presets import CPU_FEATURES

_VARIABLE: Final = "TENSORIR_HOST"
_CPU_DIR: Final = Path("/sys/devices/system/cpu")
_CPU_INFO: Final = Path("/proc/cpuinfo")
_IDENTITY: Final = (
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "stepping",
    "CPU implementer",
    "CPU variant",
    "CPU part",
    "CPU revision",
)
"""The fields of /proc/cpuinfo that describe a CPU model on x86 and on Arm."""
_KERNEL_TO_LLVM: Final = {
    "pni": "sse3",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "abm": "lzcnt",
    "bmi1": "bmi",
    "avx_vnni": "avxvnni",
    "avx_vnni_int8": "avxvnniint8",
    "avx512_vnni": "avx512vnni",
    "avx512_bf16": "avx512bf16",
    "avx512_fp16": "avx512fp16",
    "amx_tile": "amx-tile",
    "amx_int8": "amx-int8",
    "amx_bf16": "amx-bf16",
    "asimd": "neon",
    "asimddp": "dotprod",
    "asimdhp": "fullfp16",
}
"""Features whose name in /proc/cpuinfo differs from LLVM's name."""


@dataclass(frozen=True, slots=True)
class CacheSizes:
    """Data cache sizes in bytes as one core sees them; 0 where unknown."""

    l1: int = 0
    l2: int = 0
    l3: int = 0


@dataclass(frozen=True, slots=True)
class _SimulatedHost:
    """A simulated machine that the environment describes; None and 0 keep this machine's value."""

    mcpu: str | None = None
    l1: int = 0
    l2: int = 0
    l3: int = 0
    cores: int = 0
    measured: bool = True
    """False if its speed must not be measured; the speed of a simulated machine never is."""


@cache
def _simulated_host() -> _SimulatedHost:
    parts: dict[str, Any] = {}
    for part in filter(None, os.environ.get(_VARIABLE, "").split(",")):
        name, _, value = part.strip().partition("=")
        if name == "mcpu" and value in CPU_FEATURES:
            parts[name] = value
        elif (name, value) == ("measured", "no"):
            parts[name] = False
        elif name in ("l1", "l2", "l3", "cores") and value.isdecimal() and int(value) > 0:
            parts[name] = int(value)
        else:
            raise TargetError(
                f"the environment variable {_VARIABLE} has {part!r}; its parts are mcpu=MODEL, a "
                "model of codegen.target.presets, l1=, l2=, l3= (bytes) and cores= with "
                "positive integers, and measured=no"
            )
    return _SimulatedHost(**parts)


def is_made_up() -> bool:
    """Return True if the environment simulates a machine, or disables measuring."""
    return _simulated_host() != _SimulatedHost()


@cache
def cpu_identity() -> str:
    """Return the system's description of the CPU model, without microcode."""
    text = system_text(_CPU_INFO)
    if not text:
        return f"{platform.machine()} {platform.processor()}"
    first = text.split("\n\n")[0]
    fields = dict(re.findall(r"^(.*?)\s*:\s*(.*)$", first, re.MULTILINE))
    return ", ".join(f"{name} {fields[name]}" for name in _IDENTITY if name in fields)


def cpu_name() -> str:
    """Return LLVM's name of this CPU model."""
    made_up = _simulated_host().mcpu
    if made_up is not None:
        return made_up
    import llvmlite.binding as llvm  # noqa: PLC0415 - LLVM loads on first use

    return str(llvm.get_host_cpu_name())


def llvm_features() -> list[str]:
    """Return the features, on or off (`+avx2`, `-fma`), that `cpu_name` does not determine."""
    if _simulated_host().mcpu is not None:
        return []
    import llvmlite.binding as llvm  # noqa: PLC0415 - LLVM loads on first use

    return str(llvm.get_host_cpu_features().flatten()).split(",")


def missing_features(needed: Iterable[str]) -> list[str]:
    """Return the needed features, by LLVM's names, that the real CPU of this machine lacks."""
    maybe = set(needed) - _true_cpu_features()
    if not maybe:
        return []
    import llvmlite.binding as llvm  # noqa: PLC0415 - LLVM loads on first use

    found = llvm.get_host_cpu_features()
    return sorted(name for name in maybe if not found.get(name, False))


def cpu_features() -> frozenset[str]:
    """Return the features of this CPU by LLVM's names, from the system or else from LLVM."""
    made_up = _simulated_host().mcpu
    return _true_cpu_features() if made_up is None else CPU_FEATURES[made_up]


@cache
def _true_cpu_features() -> frozenset[str]:
    text = system_text(_CPU_INFO)
    found = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    if found is None:
        return _features_that_llvm_sees()
    return frozenset(_KERNEL_TO_LLVM.get(word, word) for word in found[1].split())


def _features_that_llvm_sees() -> frozenset[str]:
    import llvmlite.binding as llvm  # noqa: PLC0415 - LLVM loads on first use

    return frozenset(name for name, present in llvm.get_host_cpu_features().items() if present)


@cache
def machine() -> str:
    """Return the architecture, such as `x86_64` or `aarch64`."""
    return architecture(platform.machine())


def architecture(name: str) -> str:
    """Return the canonical name of an architecture."""
    return name.lower().replace("amd64", "x86_64").replace("arm64", "aarch64")


def logical_cores() -> int:
    """Return the number of hardware threads that this process may use, limited by its CPU quota."""
    return _usable(lambda: sum(map(len, core_groups())))


def physical_cores() -> int:
    """Return the number of physical cores that this process may use, limited by its CPU quota."""
    return _usable(lambda: len(core_groups()))


def _usable(count: Callable[[], int]) -> int:
    try:
        cores = count()
    except AttributeError:
        return os.cpu_count() or 1
    quota = core_quota()
    return cores if quota is None else min(cores, quota)


def core_groups() -> list[frozenset[int]]:
    """Return the cores that this process may run on, each as its logical cores (hyper-threads).

    A CPU quota may limit the process to less time; `physical_cores` respects it.

    Raises AttributeError if the system does not report the cores of a process.
    """
    allowed = os.sched_getaffinity(0)
    by_id: dict[object, set[int]] = {}
    by_siblings: dict[object, set[int]] = {}
    for cpu in sorted(allowed):
        topology = _CPU_DIR / f"cpu{cpu}/topology"
        core = system_text(topology / "core_id") or str(cpu)
        by_id.setdefault((system_text(topology / "physical_package_id"), core), set()).add(cpu)
        siblings = system_text(topology / "thread_siblings_list") or str(cpu)
        by_siblings.setdefault(siblings, set()).add(cpu)
    # Some hypervisors give every virtual CPU core_id 0; the sibling lists are correct there.
    groups = max(by_id, by_siblings, key=len)
    return [frozenset(group) for group in groups.values()][: _simulated_host().cores or None]


@cache
def cache_sizes() -> CacheSizes:
    """Return the sizes of the data caches of core 0."""
    sizes = {"1": 0, "2": 0, "3": 0}
    for index in sorted((_CPU_DIR / "cpu0/cache").glob("index*")):
        level = system_text(index / "level")
        if level in sizes and system_text(index / "type") != "Instruction":
            sizes[level] = _bytes(system_text(index / "size"))
    made_up = _simulated_host()
    return CacheSizes(made_up.l1 or sizes["1"], made_up.l2 or sizes["2"], made_up.l3 or sizes["3"])


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not found:
        return 0
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]]


# ---------------------------------------------------------------------------------------- CPU quota
#
# The CPU quota of this process: the quotas of its control groups (Linux).
#
# A container with a quota of two cores may run on all sixteen cores, for the time of two; a process
# that uses more is paused, which spoils any measurement.


_MEMBERSHIP: Final = Path("/proc/self/cgroup")
_MOUNTS: Final = Path("/sys/fs/cgroup")


@cache
def core_quota() -> int | None:
    """Return the quota in cores, rounded down but at least 1; None without a quota."""
    return quota_of(_MEMBERSHIP, _MOUNTS)


def quota_of(membership: Path, mounts: Path) -> int | None:
    """Return `core_quota` for a file like /proc/self/cgroup and the mount point of control groups.

    The smallest quota of nested groups counts. Versions 1 and 2 of control groups are supported.
    """
    found = [cores for folder in _folders(membership, mounts) for cores in _quotas(folder)]
    return max(1, int(min(found))) if found else None


def _folders(membership: Path, mounts: Path) -> Iterator[Path]:
    """Yield the folders of the groups of this process, and of their parent groups."""
    for line in system_text(membership).splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if hierarchy == "0" and not controllers:
            roots = [mounts, mounts / "unified"]
        elif "cpu" in controllers.split(","):
            roots = [mounts / controllers, mounts / "cpu"]
        else:
            continue
        parts = [part for part in group.split("/") if part not in ("", "..")]
        for root in roots:
            # A container may see only its own group, as the root.
            yield from (root.joinpath(*parts[:depth]) for depth in range(len(parts) + 1))


def _quotas(folder: Path) -> Iterator[float]:
    limits = [system_text(folder / "cpu.max").split()]
    limits.append([system_text(folder / f"cpu.cfs_{what}_us") for what in ("quota", "period")])
    for limit in limits:
        if len(limit) == 2 and all(word.isdecimal() for word in limit) and int(limit[1]) > 0:
            yield int(limit[0]) / int(limit[1])


def system_text(path: Path) -> str:
    """Return the stripped text of a system file; "" if it does not exist."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
