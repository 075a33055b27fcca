"""CPUs and features of a target: names that LLVM knows, and what this machine can run."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from codegen import LinkError, Target, TargetError
from codegen.compiled_kernels import compiled_kernel
from codegen.target import host, llvm_names
from codegen.target.presets import ARCHITECTURES, BASELINE_FEATURES, CPU_FEATURES, KNOWN_FEATURES
from search.space_generator.space_generator import preset_kind
from tensorir import IRModule, parse

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
        ("-mcpu=haswel", r"no CPU 'haswel' of x86_64; did you mean haswell\?"),
        ("-mcpu=Skylake_AVX512", r"no CPU 'Skylake_AVX512' of x86_64; did you mean skylake-avx512"),
        ("-mcpu=nothing-like-it-at-all", r"no CPU 'nothing-like-it-at-all' of x86_64; -mcpu=nat"),
        (
            "-mcpu=haswell -mattr=+avx512_vnni",
            r"no feature 'avx512_vnni' .*did you mean avx512vnni",
        ),
        ("-mcpu='x", r"No closing quotation; close the quotation or leave it out"),
        ("-mattr=+avx2,-fmaa", r"no feature 'fmaa' of x86_64; did you mean fma"),
        ("-mcpu=pentium", r"cannot compile for pentium on x86_64: 64-bit code requested"),
        (
            "-mcpu=x86-64 -mattr=-sse2",
            r"cannot compile for x86-64 -sse2 on x86_64: .*SSE2 disabled",
        ),
        (
            "-mcpu=cortex-a72",
            r"cortex-a72 is a CPU of aarch64, .* as in -mtriple=aarch64-linux-gnu",
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
            r"of riscv64; did you mean sifive-u74",
        ),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a99", r"of aarch64; did you mean cortex-a7"),
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
    words = f"main cannot run here: the code is for {FOREIGN}, and this machine is {host.machine()}"
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
    with pytest.raises(TargetError, match=f"takes a power of two from 64 to 2048, got '{width}'"):
        Target(f"llvm -vector-width={width}")
