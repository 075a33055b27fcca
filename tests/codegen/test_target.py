"""Targets: names, cores, quotas, hosts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import codegen
from codegen import LinkError, Target, TargetError
from codegen.compiled_kernels import compiled_kernel
from codegen.target import host, llvm_names
from codegen.target.cpu_cores import CORES
from codegen.target.host import quota_of
from codegen.target.presets import ARCHITECTURES, BASELINE_FEATURES, CPU_FEATURES, KNOWN_FEATURES
from search.space_generator.space_generator import preset_kind
from tensorir import IRModule, parse

# ---------------------------------------------------------------- GPUs


@pytest.mark.parametrize(
    ("description", "arch", "threads", "shared"),
    [
        ("opencl", "", 256, 32768),
        ("cuda -arch=sm_90 -max_shared_memory_per_block=100000", "sm_90", 1024, 100000),
        ("nvidia/nvidia-a100", "sm_80", 1024, 49152),
        ("rocm -mcpu=gfx942", "gfx942", 1024, 65536),
        ({"kind": "cuda", "arch": "sm_86", "thread_warp_size": 32}, "sm_86", 1024, 49152),
    ],
)
def test_the_limits_of_a_gpu(
    description: str | dict[str, object], arch: str, threads: int, shared: int
) -> None:
    target = Target(description)
    assert target.gpu is not None
    assert (target.arch, target.keys) == (arch, (target.kind, "gpu"))
    assert target.gpu.max_threads_per_block == threads
    assert target.gpu.max_shared_memory_per_block == shared
    assert not target.is_host
    assert Target(str(target)) == Target(target.to_dict()) == target


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ("cuda -arch=sm_33", r"unknown architecture 'sm_33' of a cuda target; known are sm_50"),
        ("rocm -mcpu=znver3", r"-mcpu of a rocm target is a name such as gfx90a, got 'znver3'"),
        (
            "opencl -mcpu=x",
            r"unknown option -mcpu of target kind opencl; its options are -keys, -max_thr",
        ),
        (
            "cuda -arch=sm_86 -max_shared_memory_per_block=101377",
            r"block=101377 of a cuda target is more than a block of sm_86 may .* most is 101376",
        ),
        (
            "cuda -arch=sm_61 -max_shared_memory_per_block=65536",
            "sm_61 may have; the most is 49152",
        ),
        ("cuda -max_threads_per_block=0", r"must be an integer from 1 to 65536, got '0'"),
    ],
)
def test_a_wrong_description_of_a_gpu(description: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        Target(description)


# -------------- CPUs and features of a target: names that LLVM knows, and what this machine can run

TRIPLES = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
FOREIGN = "aarch64" if host.machine() == "x86_64" else "x86_64"
X86 = "llvm -mtriple=x86_64-linux-gnu"

DOUBLE = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = A[i] * T.float32(2)
"""


def test_native_is_this_machine() -> None:
    assert Target("llvm -mcpu=native -num-cores=2") == Target("llvm -num-cores=2")
    assert Target("llvm -mcpu=native").is_host
    assert Target({"kind": "llvm", "mcpu": "native"}).mcpu == host.cpu_name()
    with pytest.raises(TargetError, match=rf"native is the CPU of this .* target is of {FOREIGN}"):
        Target(f"llvm -mcpu=native -mtriple={TRIPLES[FOREIGN]}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-mcpu=haswel", r"no CPU 'haswel' for x86_64; did you mean haswell\?"),
        (
            "-mcpu=Skylake_AVX512",
            r"no CPU 'Skylake_AVX512' for x86_64; did you mean skylake-avx512",
        ),
        ("-mcpu=nothing-like-it-at-all", r"no CPU 'nothing-like-it-at-all' for x86_64; -mcpu=nat"),
        (
            "-mcpu=haswell -mattr=+avx512_vnni",
            r"no feature 'avx512_vnni' .*did you mean avx512vnni",
        ),
        ("-mcpu='x", r"No closing quotation; close the quotation or remove it"),
        ("-mattr=+avx2,-fmaa", r"no feature 'fmaa' for x86_64; did you mean fma"),
        ("-mcpu=pentium", r"cannot compile for pentium on x86_64: 64-bit code requested"),
        (
            "-mcpu=x86-64 -mattr=-sse2",
            r"cannot compile for x86-64 -sse2 on x86_64: .*SSE2 disabled",
        ),
        (
            "-mcpu=cortex-a72",
            r"cortex-a72 is a CPU of aarch64, .* for example -mtriple=aarch64-linux-gnu",
        ),
    ],
)
def test_names_that_llvm_cannot_compile_for(options: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        Target(f"{X86} {options}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "llvm -mtriple=riscv64-linux-gnu -mcpu=sifive-u75",
            r"for riscv64; did you mean sifive-u74",
        ),
        (
            "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a99",
            r"for aarch64; did you mean cortex-a7",
        ),
        ("llvm -mtriple=aarch64-linux-gnu -mattr=+dotproduct", r"did you mean dotprod\?"),
        ("llvm -mtriple=foo-linux-gnu", r"no code generator for the triple 'foo-linux-gnu'"),
    ],
)
def test_names_of_other_architectures(text: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        Target(text)


@pytest.mark.parametrize("architecture", sorted(TRIPLES))
def test_llvm_knows_the_names_of_the_table(architecture: str) -> None:
    """Nobody asks LLVM about them."""
    names = llvm_names.names_of(TRIPLES[architecture])
    cpus = {cpu for cpu in CPU_FEATURES if ARCHITECTURES[cpu] == architecture}
    assert cpus <= names.cpus
    assert KNOWN_FEATURES[architecture] <= names.features
    of_models = set().union(*(CPU_FEATURES[cpu] for cpu in cpus))
    assert of_models <= KNOWN_FEATURES[architecture] | BASELINE_FEATURES[architecture]


def test_names_of_the_table_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm_names, "_run", None)
    for cpu, architecture in ARCHITECTURES.items():
        Target(f"llvm -mcpu={cpu} -mtriple={TRIPLES[architecture]}")
    Target(f"{X86} -mcpu=skylake-avx512 -mattr=+avx512vnni,-fma")


# ---------------------------------------------------------------------------- other machines


def test_a_foreign_target_builds_and_inspects_but_does_not_run() -> None:
    target = Target(f"llvm -mtriple={TRIPLES[FOREIGN]} -num-cores=1")
    module = codegen.build(parse(DOUBLE), target)
    assert "tensorir.kernel.main" in module.inspect_asm()
    assert codegen.Module.from_object(module.object_code).object_code == module.object_code
    a, b = np.ones(8, "float32"), np.zeros(8, "float32")
    words = f"main cannot run here: the code is for {FOREIGN}, but this machine is {host.machine()}"
    with pytest.raises(LinkError, match=words):
        module(a, b)
    with pytest.raises(LinkError, match=words):
        module["main"].prepare(a, b).time()
    with pytest.raises(LinkError, match=words):
        module.time_evaluator("main", codegen.cpu())(a, b)
    with pytest.raises(LinkError, match=words):
        module["main"].address  # noqa: B018 - reading it is what is refused
    assert not b.any()
    reason = codegen.why_not_here(target)
    assert reason is not None
    assert "build it for the target 'host'" in reason
    assert codegen.why_not_here("llvm") is None


def test_features_that_the_cpu_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any feature beyond its architecture's, and code for one with FMA."""
    monkeypatch.setattr(host, "machine", lambda: "x86_64")
    monkeypatch.setattr(host, "missing_features", sorted)
    target = Target("llvm -mcpu=haswell -mtriple=x86_64-linux-gnu")
    reason = codegen.why_not_here(target)
    assert reason is not None
    assert "fma" in reason
    assert codegen.why_not_here("llvm -mcpu=x86-64 -mtriple=x86_64-linux-gnu") is None


def test_constants_are_folded_here_whatever_the_model_is_built_for() -> None:
    mod = parse(DOUBLE.replace("def main", "def double"))
    a, b = np.ones(8, "float32"), np.zeros(8, "float32")
    with Target(f"llvm -mtriple={TRIPLES[FOREIGN]}"):
        run = compiled_kernel(IRModule({"double": mod}), "double")
    assert run is not None
    assert run((a, b))
    assert b.tolist() == [2.0] * 8


# ----------------------------------------------------------------------------- width of vectors


@pytest.mark.parametrize(
    ("options", "bits", "registers", "preset"),
    [
        ("-mcpu=cascadelake", 512, 32, "vnni"),
        ("-mcpu=cascadelake -vector-width=256", 256, 32, "vnni"),
        ("-mcpu=skylake-avx512", 512, 32, "avx512"),
        ("-mcpu=skylake-avx512 -vector-width=128", 128, 32, "llvm"),
        ("-mcpu=knl -vector-width=256", 256, 16, "avx2"),
        ("-mcpu=haswell", 256, 16, "avx2"),
        ("-mcpu=haswell -vector-width=512", 256, 16, "avx2"),
        ("-mcpu=x86-64", 128, 16, "llvm"),
    ],
)
def test_registers_and_presets_follow_the_usable_width(
    options: str, bits: int, registers: int, preset: str
) -> None:
    target = Target(f"{X86} {options}")
    assert (target.vector_bits, target.vector_registers) == (bits, registers)
    assert target.vector_lanes(32) == bits // 32
    assert preset_kind(target) == preset


@pytest.mark.parametrize("width", [128, 256])
def test_no_instruction_is_wider_than_asked(width: int) -> None:
    text = codegen.build(
        parse("""
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((64,), "int8")):
    for i in T.vectorized(64):
        B[i] = T.exp(A[i]) + T.Cast("float32", C[i])
"""),
        f"{X86} -mcpu=cascadelake -vector-width={width}",
    ).inspect_asm()
    assert "%zmm" not in text
    assert ("%ymm" in text) == (width == 256)


@pytest.mark.parametrize("width", ["100", "63", "4096", "wide"])
def test_a_width_is_a_power_of_two(width: str) -> None:
    with pytest.raises(TargetError, match=f"must be a power of two from 64 to 2048, got '{width}'"):
        Target(f"llvm -vector-width={width}")


# ---------- What cores of CPU models do, for targets that need not be the machine that tests run on

LEVELS = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "nocona", "k8"}


def test_every_cpu_model_with_features_has_a_core() -> None:
    assert CPU_FEATURES.keys() - CORES.keys() == LEVELS
    assert not CORES.keys() - CPU_FEATURES.keys()


@pytest.mark.parametrize("model", CPU_FEATURES)
def test_facts_of_a_target_are_plausible(model: str) -> None:
    triple = " -mtriple=aarch64-linux-gnu" if "neon" in CPU_FEATURES[model] else ""
    target = Target(f"llvm -mcpu={model}{triple or ' -mtriple=x86_64-linux-gnu'}")
    assert 0.5 <= target.fma_units <= 4
    assert 2 <= target.fma_latency <= 6
    assert 16 << 10 <= target.caches.l1 <= target.caches.l2 <= target.caches.l3
    first, second, memory = target.core.fetch_cycles
    assert 0.5 <= first <= second <= memory <= 20


def test_units_are_counted_in_vectors_of_the_target() -> None:
    def facts(text: str) -> tuple[float, int]:
        return Target(text).fma_units, Target(text).fma_latency

    assert facts("llvm -mcpu=znver3") == (2, 4)
    assert facts("llvm -mcpu=znver4") == (1, 4)
    assert facts("llvm -mcpu=znver4 -vector-width=256") == (2, 4)
    assert facts("llvm -mcpu=haswell") == (2, 5)
    assert facts("llvm -mcpu=sandybridge") == (1, 3)
    assert facts("llvm -mcpu=neoverse-v2 -mtriple=aarch64-linux-gnu") == (4, 2)


def test_a_model_without_figures_is_like_most_with_such_vectors() -> None:
    level = Target("llvm -mcpu=x86-64-v3 -mtriple=x86_64-linux-gnu")
    assert (level.fma_units, level.fma_latency, level.core.load_bits) == (2, 4, 256)
    old = Target("llvm -mcpu=x86-64-v2 -mtriple=x86_64-linux-gnu")
    assert (old.fma_units, old.fma_latency, old.core.load_bits) == (1, 3, 128)


# ------------------------------ Quotas of control groups count where the number of cores is decided

V2 = "0::/user/app\n"
V1 = "12:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n"


@pytest.mark.parametrize(
    ("membership", "files", "cores"),
    [
        (V2, {}, None),
        (V2, {"user/app/cpu.max": "max 100000"}, None),
        (V2, {"user/app/cpu.max": "250000 100000"}, 2),
        (V2, {"user/app/cpu.max": "max 100000", "user/cpu.max": "300000 100000"}, 3),
        (V2, {"user/app/cpu.max": "400000 100000", "user/cpu.max": "100000 100000"}, 1),
        ("0::/\n", {"cpu.max": "50000 100000"}, 1),
        ("0::/../../host/path\n", {"cpu.max": "200000 100000"}, 2),
        (
            V1,
            {
                "cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "150000",
                "cpu,cpuacct/docker/abc/cpu.cfs_period_us": "50000",
            },
            3,
        ),
        (V1, {"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, 2),
        (V1, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        (None, {"cpu.max": "100000 100000"}, None),
    ],
)
def test_the_tightest_quota_counts(
    membership: str | None, files: dict[str, str], cores: int | None, tmp_path: Path
) -> None:
    if membership is not None:
        (tmp_path / "cgroup").write_text(membership)
    for name, text in files.items():
        path = tmp_path / "mounts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert quota_of(tmp_path / "cgroup", tmp_path / "mounts") == cores


def test_a_process_counts_no_more_cores_than_its_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "core_groups", lambda: [frozenset({k, k + 8}) for k in range(8)])
    monkeypatch.setattr(host, "core_quota", lambda: 3)
    assert (host.physical_cores(), host.logical_cores()) == (3, 3)
    monkeypatch.setattr(host, "core_quota", lambda: 12)
    assert (host.physical_cores(), host.logical_cores()) == (8, 12)
    monkeypatch.setattr(host, "core_quota", lambda: None)
    assert (host.physical_cores(), host.logical_cores()) == (8, 16)


# ------------- A machine that the environment makes up takes the place of the one that tests run on

ASK = """
from codegen import Target
from codegen.target import host
target = Target("llvm")
print(target.mcpu, target.vector_bits, target.caches.l1, host.physical_cores())
"""


def asked(description: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TENSORIR_HOST": description}
    return subprocess.run([sys.executable, "-c", ASK], env=env, capture_output=True, text=True)


def test_the_environment_makes_up_a_machine() -> None:
    assert asked("mcpu=sandybridge,l1=16384,cores=1").stdout.split() == [
        "sandybridge", "256", "16384", "1",
    ]  # fmt: skip


def test_a_wrong_description_says_what_it_may_have() -> None:
    for wrong in ("mcpu=pentium9", "l1=32KiB"):
        error = asked(wrong).stderr.splitlines()[-1]
        assert f"TENSORIR_HOST has '{wrong}'; its parts are mcpu=MODEL" in error
