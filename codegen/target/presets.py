"""Target descriptions by name, and the features of the CPU models of LLVM."""

from __future__ import annotations

from typing import Final

from codegen.target.gpu import GPU_PRESETS

_SSE: Final = frozenset({"sse", "sse2"})
_V2: Final = _SSE | {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"}
_AVX: Final = _V2 | {"avx"}
_V3: Final = _AVX | {"avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"}
_V4: Final = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_AVX_VNNI: Final = _V3 | {"avxvnni"}
_AVX_VNNI_INT8: Final = _AVX_VNNI | {"avxvnniint8"}
_VNNI: Final = _V4 | {"avx512vnni"}
_BF16: Final = _VNNI | {"avx512bf16"}
_AMX: Final = _BF16 | {"avxvnni", "avx512fp16", "amx-tile", "amx-int8", "amx-bf16"}
_KNL: Final = _V3 | {"avx512f", "avx512cd"}
_NEON: Final = frozenset({"neon", "fma", "f16c"})
_DOTPROD: Final = _NEON | {"dotprod", "fullfp16"}
_I8MM: Final = _DOTPROD | {"i8mm", "bf16"}


def _models(features: frozenset[str], names: str) -> dict[str, frozenset[str]]:
    return dict.fromkeys(names.split(), features)


CPU_FEATURES: Final[dict[str, frozenset[str]]] = {
    **_models(_SSE, "x86-64 core2 nocona k8"),
    **_models(_V2, "x86-64-v2 nehalem westmere silvermont goldmont tremont"),
    **_models(_AVX, "sandybridge btver2 bdver1"),
    **_models(_AVX | {"f16c"}, "ivybridge"),
    **_models(
        _V3,
        "x86-64-v3 haswell core-avx2 broadwell skylake znver1 znver2 znver3",
    ),
    **_models(_AVX_VNNI, "alderlake raptorlake meteorlake gracemont"),
    **_models(
        _AVX_VNNI_INT8,
        "arrowlake lunarlake sierraforest grandridge clearwaterforest pantherlake",
    ),
    **_models(_KNL, "knl knm"),
    **_models(_V4, "x86-64-v4 skylake-avx512 skx cannonlake"),
    **_models(
        _VNNI,
        "cascadelake icelake-client icelake-server tigerlake rocketlake",
    ),
    **_models(_BF16, "cooperlake znver4"),
    **_models(_BF16 | {"avxvnni"}, "znver5"),
    **_models(_AMX, "sapphirerapids emeraldrapids graniterapids"),
    **_models(_NEON, "cortex-a53 cortex-a57 cortex-a72"),
    **_models(_DOTPROD, "cortex-a76 neoverse-n1 apple-m1"),
    **_models(_I8MM, "neoverse-n2 neoverse-v1 neoverse-v2 apple-m2 apple-m3 apple-m4"),
}
"""The features that code generation uses, of CPU models by LLVM's name."""

ARCHITECTURES: Final[dict[str, str]] = {
    cpu: "aarch64" if "neon" in features else "x86_64" for cpu, features in CPU_FEATURES.items()
}
"""The architecture of each of these CPU models."""

KNOWN_FEATURES: Final[dict[str, frozenset[str]]] = {
    "x86_64": _AMX | _AVX_VNNI_INT8,
    "aarch64": frozenset({"neon", "dotprod", "fullfp16", "i8mm", "bf16"}),
}
"""Names of features that are accepted without asking LLVM."""

BASELINE_FEATURES: Final[dict[str, frozenset[str]]] = {"x86_64": _SSE, "aarch64": _NEON}
"""The features that code generation uses and that every CPU of an architecture has."""

PRESETS: Final[dict[str, dict[str, str | int]]] = {
    "x86-64": {"kind": "llvm", "mcpu": "x86-64"},
    "x86-64-v2": {"kind": "llvm", "mcpu": "x86-64-v2"},
    "x86-64-v3": {"kind": "llvm", "mcpu": "x86-64-v3"},
    "x86-64-v4": {"kind": "llvm", "mcpu": "x86-64-v4"},
    **{
        f"aws/cpu/c5.{size}": {"kind": "llvm", "mcpu": model, "num-cores": cores}
        for size, cores, model in (
            ("large", 1, "skylake-avx512"),
            ("xlarge", 2, "skylake-avx512"),
            ("2xlarge", 4, "skylake-avx512"),
            ("4xlarge", 8, "skylake-avx512"),
            ("9xlarge", 18, "skylake-avx512"),
            ("12xlarge", 24, "cascadelake"),
            ("18xlarge", 36, "skylake-avx512"),
            ("24xlarge", 48, "cascadelake"),
        )
    },
    **GPU_PRESETS,
}
"""Whole targets by name. `host`, which depends on the machine, is made in `codegen.target`."""
