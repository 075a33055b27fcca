"""The kinds of GPU targets: their options, their defaults, and the limits of a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from codegen.errors import TargetError

WARP: Final = 32
"""The threads whose accesses are made together; also where a program may not rely on it."""
SECTOR: Final = 32
"""The bytes of the unit of transfer of global memory."""
GRID_ROWS: Final = 65535
"""The most thread blocks in the axes y and z of a grid: CUDA programming guide."""
BANKS: Final = 32
"""The banks of shared memory, each of which gives 4 bytes in a cycle."""


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """A part of an NVIDIA GPU that runs blocks, by the tables of the CUDA programming guide."""

    threads: int
    """The most threads of all blocks that it holds at once; so `blocks`."""
    blocks: int
    shared_bytes: int
    registers: int
    """The number of its 32-bit registers."""

    @staticmethod
    def of(arch: str, registers: int = 65536) -> Multiprocessor:
        """Return the multiprocessor of an architecture such as `sm_80`; a large one if unknown."""
        threads, blocks, kib = _MULTIPROCESSORS.get(arch.rstrip("a"), (2048, 32, 228))
        return Multiprocessor(threads, blocks, kib << 10, registers)

    def resident_blocks(self, threads: int, registers: int, shared_bytes: int) -> tuple[int, str]:
        """Return the number of blocks of a kernel for which there is room, and what limits it.

        A block has so many threads, of so many registers each (0 if unknown), and bytes.
        """
        warps = -(-threads // WARP)
        # Registers are given to warps in units of 256, shared memory to blocks in units of 1024.
        of_a_warp = -(-registers * WARP // 256) * 256
        of_a_block = -(-shared_bytes // 1024) * 1024 + 1024
        limits = {
            "threads": self.threads // (warps * WARP),
            "blocks": self.blocks,
            "registers": self.registers // max(1, of_a_warp * warps),
            "shared memory": self.shared_bytes // of_a_block,
        }
        limit = min(limits, key=lambda name: limits[name])
        return limits[limit], limit

    def occupancy(self, threads: int, blocks: int) -> float:
        """Return the fraction of its threads that so many blocks occupy."""
        return blocks * -(-threads // WARP) * WARP / self.threads


@dataclass(frozen=True, slots=True)
class GpuLimits:
    """The resources of a GPU that a kernel may use. Sizes are in bytes."""

    max_threads_per_block: int
    max_shared_memory_per_block: int
    thread_warp_size: int
    """The number of threads that run in lock step; 1 where a program may not rely on any."""
    l2_cache_size_bytes: int
    """0 if unknown."""
    multiprocessor: Multiprocessor
    tensor_core_dtypes: frozenset[str] = frozenset()
    """The dtypes of the factors that `wmma` multiplies, by NVIDIA's names; empty without."""
    mma_dtypes: frozenset[str] = frozenset()
    """The dtypes of the factors that `mma.sync` multiplies in tiles of 16 x 16 sums."""
    max_vector_bytes: int = 16
    """The widest load or store of a thread."""
    shuffled_lanes: int = 1
    """The number of lanes that read each other's registers; 1 without warp shuffles."""
    copies_asynchronously: bool = False
    """True if threads copy to shared memory while they compute (`sm_80` and later)."""
    max_local_memory_per_thread: int = 1 << 30


_MULTIPROCESSORS: Final = {
    "sm_50": (2048, 32, 64),
    "sm_52": (2048, 32, 96),
    "sm_53": (2048, 32, 64),
    "sm_60": (2048, 32, 64),
    "sm_61": (2048, 32, 96),
    "sm_62": (2048, 32, 64),
    "sm_70": (2048, 32, 96),
    "sm_72": (2048, 32, 96),
    "sm_75": (1024, 16, 64),
    "sm_80": (2048, 32, 164),
    "sm_86": (1536, 16, 100),
    "sm_87": (1536, 16, 164),
    "sm_89": (1536, 24, 100),
    "sm_90": (2048, 32, 228),
    "sm_100": (2048, 32, 228),
    "sm_103": (2048, 32, 228),
    "sm_120": (1536, 24, 100),
    "sm_121": (1536, 24, 100),
}
"""Threads, blocks and KiB of shared memory of a multiprocessor."""

DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "cuda": {
        "arch": "sm_80",
        "max_threads_per_block": 1024,
        "max_shared_memory_per_block": 49152,
        "thread_warp_size": 32,
        "registers_per_block": 65536,
    },
    "rocm": {
        "mcpu": "gfx90a",
        "max_threads_per_block": 1024,
        "max_shared_memory_per_block": 65536,
        "thread_warp_size": 64,
        "registers_per_block": 131072,
    },
    "opencl": {
        "max_threads_per_block": 256,
        "max_shared_memory_per_block": 32768,
        "thread_warp_size": 1,
    },
}
"""The options of each kind of GPU target that a description may leave out."""

TRIPLES: Final = {
    "cuda": "nvptx64-nvidia-cuda",
    "rocm": "amdgcn-amd-amdhsa",
    "opencl": "spirv64-unknown-unknown",
}
"""LLVM's name of the processor of each kind of GPU target."""

FEATURES: Final = frozenset({"fma", "f16c"})
"""What all GPUs have, by the names that LLVM has for CPUs: fused multiply-add, and conversions
between float16 and float32."""

GPU_NUMBERS: Final[dict[str, tuple[int, int]]] = {
    "max_threads_per_block": (1, 1 << 16),
    "max_num_threads": (1, 1 << 16),
    "max_shared_memory_per_block": (0, 1 << 30),
    "thread_warp_size": (1, 1024),
    "registers_per_block": (0, 1 << 24),
    "l2_cache_size_bytes": (0, 1 << 40),
}
"""The options that are integers, with the least and the largest value of each."""

_CUDA_ARCHITECTURES: Final = (
    *("sm_50", "sm_52", "sm_53", "sm_60", "sm_61", "sm_62", "sm_70", "sm_72", "sm_75", "sm_80"),
    *("sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103", "sm_103a"),
    *("sm_120", "sm_120a", "sm_121", "sm_121a"),
)


def check_architecture(kind: str, options: Mapping[str, Any]) -> None:
    """Raise TargetError for an architecture that a kind of GPU target does not have.

    Also for more shared memory than the blocks of an architecture may have.
    """
    if kind == "cuda":
        known = {**DEFAULTS[kind], **options}
        arch, shared = known["arch"], known["max_shared_memory_per_block"]
        if arch not in _CUDA_ARCHITECTURES:
            names = ", ".join(_CUDA_ARCHITECTURES)
            raise TargetError(f"unknown architecture {arch!r} of a cuda target; known are {names}")
        most = _most_shared_bytes(arch)
        if shared > most:
            raise TargetError(
                f"-max_shared_memory_per_block={shared} of a cuda target is more than a block of "
                f"{arch} may have; the most is {most}"
            )
    mcpu = options.get("mcpu")
    if kind == "rocm" and mcpu is not None and not mcpu.startswith("gfx"):
        raise TargetError(f"-mcpu of a rocm target is a name such as gfx90a, got {mcpu!r}")


def _most_shared_bytes(arch: str) -> int:
    """Return the bytes of shared memory that a block may have if its launch asks for them.

    CUDA programming guide, table of technical specifications: from `sm_80` on, 1 KiB of the memory
    of a multiprocessor belongs to the system for each block.
    """
    shared, version = Multiprocessor.of(arch).shared_bytes, _version(arch)
    return 48 << 10 if version < 70 else shared - (1024 if version >= 80 else 0)


def tensor_core_dtypes(arch: str, family: str) -> frozenset[str]:
    """Return the dtypes that instructions of a family multiply on an architecture (`sm_80`)."""
    first = _TENSOR_CORES[family]
    return frozenset(name for name in first if _version(arch) >= first[name])


def _version(arch: str) -> int:
    """Return the number in the name of an architecture, 0 for the empty name."""
    return int(arch.removeprefix("sm_").rstrip("a") or 0)


_TENSOR_CORES: Final = {
    "wmma": {"f16": 70, "s8": 72, "bf16": 80},
    "mma": {"f16": 80, "s8": 80, "bf16": 80},
}
"""The first architecture on which instructions multiply a dtype: PTX manual (`wmma.mma`, `mma`)."""


def limits_of(kind: str, options: Mapping[str, Any]) -> GpuLimits | None:
    """Return the limits that the options of a target give; None for a CPU."""
    if kind not in DEFAULTS:
        return None
    known = {**DEFAULTS[kind], **options}
    lanes = _shuffled_lanes(kind, known)
    return GpuLimits(
        known["max_threads_per_block"],
        known["max_shared_memory_per_block"],
        known["thread_warp_size"],
        known.get("l2_cache_size_bytes", 0),
        Multiprocessor.of(known.get("arch", ""), known.get("registers_per_block", 65536)),
        tensor_core_dtypes(known.get("arch", ""), "wmma"),
        tensor_core_dtypes(known.get("arch", ""), "mma"),
        shuffled_lanes=lanes,
        copies_asynchronously=kind == "cuda" and _version(known["arch"]) >= 80,
        max_local_memory_per_thread=_local_bytes(kind, lanes),
    )


def _local_bytes(kind: str, lanes: int) -> int:
    """Return the bytes of local memory of a thread.

    CUDA programming guide; LLVM's back end for AMD's GPUs, which addresses 8 MiB for a warp and
    needs some for itself. The devices of OpenCL declare no limit.
    """
    return {"cuda": 512 << 10, "rocm": (8 << 20) // lanes - 1024}.get(kind, 1 << 30)


def _shuffled_lanes(kind: str, options: Mapping[str, Any]) -> int:
    """Return the lanes of a warp for which code is generated, 1 without shuffles.

    LLVM has 32 lanes for AMD's architectures from gfx10 on, 64 before.
    """
    if kind == "opencl" or options["thread_warp_size"] == 1:
        return 1
    family = options.get("mcpu", "")[3:-2]
    return 64 if kind == "rocm" and family.isdigit() and int(family) < 10 else WARP


def _nvidia(arch: str, shared: int, l2_cache: int) -> dict[str, str | int]:
    return {
        "kind": "cuda",
        "arch": arch,
        "max_shared_memory_per_block": shared,
        "max_threads_per_block": 1024,
        "thread_warp_size": 32,
        "registers_per_block": 65536,
        "l2_cache_size_bytes": l2_cache,
    }


GPU_PRESETS: Final[dict[str, dict[str, str | int]]] = {
    "nvidia/nvidia-v100": _nvidia("sm_70", 49152, 6 << 20),
    "nvidia/nvidia-t4": _nvidia("sm_75", 49152, 4 << 20),
    "nvidia/nvidia-a10": _nvidia("sm_86", 49152, 6 << 20),
    "nvidia/nvidia-a100": _nvidia("sm_80", 49152, 40 << 20),
    "nvidia/nvidia-l4": _nvidia("sm_89", 49152, 48 << 20),
    "nvidia/nvidia-h100": _nvidia("sm_90a", 49152, 50 << 20),
    "nvidia/nvidia-h200": _nvidia("sm_90a", 49152, 50 << 20),
    "nvidia/geforce-rtx-3090": _nvidia("sm_86", 49152, 6 << 20),
    "nvidia/geforce-rtx-4090": _nvidia("sm_89", 49152, 72 << 20),
}
"""Whole targets of NVIDIA's devices by name."""
