"""The operations per cycle of one core of each CPU model, and the sizes of its caches.

The figures are public: A. Fog, "Instruction tables" and "The microarchitecture of Intel, AMD and
VIA CPUs"; the optimisation guides of AMD, Arm and Intel. Properties that vary within a model (the
last cache, the speed of memory) are those of common servers, or of common PCs for PC models. Code
for a CPU model depends on these figures and not on the build machine; `codegen.machine_speed`
measures this machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from codegen.target.host import CacheSizes

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Core:
    """One core of a CPU. Times are in cycles of its clock."""

    fma_units: int
    """Multiply-adds of vectors of `fma_bits` that start each cycle; additions on a CPU without
    multiply-adds.
    """
    fma_bits: int
    fma_latency: int
    """Cycles from one update of an accumulator to the next."""
    loads: int
    """Loads of vectors of `load_bits` that start each cycle."""
    load_bits: int
    caches: CacheSizes
    fetch_cycles: tuple[float, float, float]
    """The additional cycles of a 64-byte line that a loop reads in order: from the second cache
    over the first, from the third over the second, and from memory over the third."""
    tlb: tuple[int, int]
    """The numbers of pages in the first and in the second TLB."""
    issue: int = 4
    """Instructions that start each cycle."""
    page_cycles: tuple[float, float] = (1.0, 8.0)
    """The additional cycles of a load that misses the first TLB, and of a load that misses the
    second TLB, among many such loads."""
    forward_cycles: int = 11
    """Cycles from one update of a sum in memory to the next."""

    def units(self, vector_bits: int) -> float:
        """Return the number of `vector_bits`-bit multiply-adds that start each cycle."""
        return self.fma_units * min(1.0, self.fma_bits / vector_bits)

    def vector_loads_per_cycle(self, vector_bits: int) -> float:
        """Return the number of `vector_bits`-bit loads that start each cycle."""
        return self.loads * min(1.0, self.load_bits / vector_bits)


def _caches(l1: int, l2: int, l3: int) -> CacheSizes:
    """Return cache sizes in bytes; `l1` and `l2` are in KiB, `l3` is in MiB."""
    return CacheSizes(l1 * _KIB, l2 * _KIB, l3 * _MIB)


_PC: Final = (1.0, 2.0, 8.0)
_SERVER: Final = (1.5, 3.0, 8.0)
_MESH: Final = (1.0, 5.0, 9.0)
_ZEN: Final = (1.0, 1.5, 6.0)
_SMALL: Final = (2.0, 5.0, 10.0)

_ROWS: Final = (
    ("core2", Core(1, 128, 3, 1, 128, _caches(32, 2048, 4), _SMALL, (256, 256))),
    ("nehalem westmere", Core(1, 128, 3, 1, 128, _caches(32, 256, 8), _SERVER, (64, 512))),
    ("sandybridge ivybridge", Core(1, 256, 3, 2, 128, _caches(32, 256, 8), _PC, (64, 512))),
    ("haswell core-avx2", Core(2, 256, 5, 2, 256, _caches(32, 256, 8), _PC, (64, 1024))),
    ("broadwell", Core(2, 256, 5, 2, 256, _caches(32, 256, 8), _PC, (64, 1536))),
    ("skylake", Core(2, 256, 4, 2, 256, _caches(32, 256, 8), _PC, (64, 1536))),
    (
        "skylake-avx512 skx cascadelake cooperlake",
        Core(2, 512, 4, 2, 512, _caches(32, 1024, 24), _MESH, (64, 1536)),
    ),
    ("cannonlake", Core(2, 256, 4, 2, 512, _caches(32, 256, 4), _PC, (64, 1536))),
    (
        "icelake-client rocketlake",
        Core(2, 256, 4, 2, 512, _caches(48, 512, 8), _PC, (64, 2048), 5),
    ),
    ("tigerlake", Core(2, 256, 4, 2, 512, _caches(48, 1280, 12), _PC, (64, 2048), 5)),
    ("icelake-server", Core(2, 512, 4, 2, 512, _caches(48, 1280, 48), _MESH, (64, 2048), 5)),
    (
        "sapphirerapids emeraldrapids graniterapids",
        Core(2, 512, 4, 2, 512, _caches(48, 2048, 96), _MESH, (96, 2048), 6),
    ),
    ("alderlake", Core(2, 256, 4, 3, 256, _caches(48, 1280, 24), _PC, (96, 2048), 6)),
    ("raptorlake meteorlake", Core(2, 256, 4, 3, 256, _caches(48, 2048, 24), _PC, (96, 2048), 6)),
    (
        "arrowlake lunarlake pantherlake",
        Core(2, 256, 4, 3, 256, _caches(48, 2560, 24), _PC, (128, 2048), 8),
    ),
    (
        "gracemont sierraforest grandridge",
        Core(2, 128, 6, 2, 128, _caches(32, 2048, 24), _SMALL, (48, 2048), 5),
    ),
    ("clearwaterforest", Core(4, 128, 4, 3, 128, _caches(32, 4096, 96), _SMALL, (64, 2048), 8)),
    ("silvermont goldmont", Core(1, 128, 3, 1, 128, _caches(24, 1024, 1), _SMALL, (48, 128), 2)),
    ("tremont", Core(1, 128, 3, 2, 128, _caches(32, 1536, 4), _SMALL, (48, 1024))),
    ("knl knm", Core(2, 512, 6, 2, 512, _caches(32, 1024, 1), _SMALL, (64, 256), 2)),
    ("btver2", Core(1, 128, 3, 1, 128, _caches(32, 2048, 2), _SMALL, (40, 512), 2)),
    ("bdver1", Core(2, 128, 5, 2, 128, _caches(16, 2048, 8), _SMALL, (32, 1024))),
    ("znver1", Core(2, 128, 5, 2, 128, _caches(32, 512, 8), _ZEN, (64, 1536), 5)),
    ("znver2", Core(2, 256, 5, 2, 256, _caches(32, 512, 16), _ZEN, (64, 2048), 6)),
    ("znver3", Core(2, 256, 4, 2, 256, _caches(32, 512, 32), _ZEN, (64, 2048), 6)),
    ("znver4", Core(2, 256, 4, 2, 256, _caches(32, 1024, 32), _ZEN, (72, 3072), 6)),
    ("znver5", Core(2, 512, 4, 2, 512, _caches(48, 1024, 32), _ZEN, (96, 4096), 8)),
    ("cortex-a53", Core(1, 128, 4, 1, 64, _caches(32, 512, 1), _SMALL, (10, 512), 2)),
    ("cortex-a57", Core(1, 128, 4, 1, 128, _caches(32, 2048, 2), _SMALL, (32, 1024), 3)),
    ("cortex-a72", Core(2, 128, 3, 1, 128, _caches(32, 1024, 2), _SMALL, (32, 1024), 3)),
    ("cortex-a76", Core(2, 128, 2, 2, 128, _caches(64, 512, 4), _SERVER, (48, 1280))),
    ("neoverse-n1", Core(2, 128, 2, 2, 128, _caches(64, 1024, 32), _SERVER, (48, 1280))),
    ("neoverse-n2", Core(2, 128, 2, 2, 128, _caches(64, 1024, 32), _SERVER, (44, 1280), 5)),
    ("neoverse-v1", Core(4, 128, 2, 3, 128, _caches(64, 1024, 32), _SERVER, (48, 2048), 8)),
    ("neoverse-v2", Core(4, 128, 2, 3, 128, _caches(64, 2048, 64), _SERVER, (48, 2048), 8)),
    (
        "apple-m1 apple-m2 apple-m3 apple-m4",
        Core(4, 128, 4, 3, 128, _caches(128, 12288, 16), _PC, (160, 3072), 8),
    ),
)

CORES: Final[dict[str, Core]] = {name: core for names, core in _ROWS for name in names.split()}
"""Cores by LLVM's name of the CPU model."""


def common_core(vector_bits: int, has_fma: bool) -> Core:
    """Return the figures of most cores with such vectors, for a model without figures."""
    caches = _caches(32, 512, 16)
    if has_fma:
        return Core(2, vector_bits, 4, 2, vector_bits, caches, _SERVER, (64, 1536))
    return Core(1, vector_bits, 3, 1, vector_bits, caches, _SERVER, (64, 512))
