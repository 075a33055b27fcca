"""Instructions of particular machines: compiled for targets that have them, and for no others."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from codegen import CodegenError, LinkError
from codegen.compile import llvm_source
from codegen.runtime import host_features
from codegen.target import host
from codegen.target.machine_intrinsics import FEATURES
from schedule import Schedule
from tensorir import parse
from tensorir.tensor_intrin import TensorIntrin

ARM_WITH_DOT_PRODUCTS = "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v2"
ARROW_LAKE = "llvm -mcpu=arrowlake"
SAPPHIRE_RAPIDS = "llvm -mcpu=sapphirerapids"

VECTOR = """\
@T.prim_func
def main(
    C: T.Buffer((16,), "int32"), A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")
):
    C[0:16] = T.call_llvm_pure_intrin(
        "int32x16", "llvm.x86.avx512.vpdpbusd.512", T.uint32(0), C[0:16], A[0:16], B[0:16]
    )
"""

TILES = """\
@T.prim_func
def main(
    A: T.Buffer((16, {depth}), "{a}"),
    B: T.Buffer((16, 16, {lane}), "{b}"),
    C: T.Buffer((16, 16), "{c}"),
):
    for i, j, k in T.grid(16, 16, {depth}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.{c}(0)
            C[vi, vj] = C[vi, vj] + T.Cast("{c}", A[vi, vk]) * T.Cast(
                "{c}", B[vk // {lane}, vj, vk % {lane}]
            )
"""


def tensorized(name):
    """Return a product of two tiles that an AMX intrinsic computes."""
    kinds = {
        "amx_16x16x64_u8i8i32": {"depth": 64, "lane": 4, "a": "uint8", "b": "int8", "c": "int32"},
        "amx_16x16x32_bf16bf16f32": {
            "depth": 32,
            "lane": 2,
            "a": "bfloat16",
            "b": "bfloat16",
            "c": "float32",
        },
    }
    sch = Schedule(parse(TILES.format(**kinds[name])))
    sch.tensorize(sch.get_loops(sch.get_block("C"))[0], name)
    return sch.mod


def assembly_of(program, target):
    return llvm_source(program, target).assembly()


# ---------------------------------------------------------------------- for a target that has them


@pytest.mark.parametrize(
    ("name", "product", "encoded"),
    [
        ("amx_16x16x64_u8i8i32", "tdpbusd", "c4e2695ec1"),
        ("amx_16x16x32_bf16bf16f32", "tdpbf16ps", "c4e26a5cc1"),
    ],
)
def test_tiles_are_multiplied_by_one_instruction(name, product, encoded):
    program = tensorized(name)
    # LLVM may copy the function into the one that unpacks its arguments.
    text = assembly_of(program, SAPPHIRE_RAPIDS).split(".Lfunc_end0:")[0]
    assert text.count(f"{product}\t%tmm2, %tmm1, %tmm0") == 1
    for other in ("ldtilecfg", "tileloadd", "tilestored", "tilerelease"):
        assert other in text
    data = codegen.compile_object(program, SAPPHIRE_RAPIDS)
    assert bytes.fromhex(encoded) in data


@pytest.mark.parametrize(
    ("name", "instruction"),
    [
        ("dot_16x4_vnni", "vpdpbusd"),
        ("dot_16x4_avx512", "vpmaddwd"),
        ("amx_16x16x64_u8i8i32", "tdpbusd"),
        ("amx_16x16x32_bf16bf16f32", "tdpbf16ps"),
    ],
)
def test_the_implementation_of_an_intrinsic_on_its_own(name, instruction):
    impl = TensorIntrin.get(name).impl
    assert instruction in assembly_of(impl, SAPPHIRE_RAPIDS)


def test_the_portable_implementation_needs_no_feature():
    impl = TensorIntrin.get("dot_16x4_portable").impl
    assert codegen.compile_object(impl, "llvm -mcpu=x86-64")


def test_features_may_be_added_to_a_cpu():
    target = "llvm -mcpu=skylake-avx512 -mattr=+avx512vnni"
    assert "vpdpbusd" in assembly_of(parse(VECTOR), target)


# ------------------------------------------------------------------------- for a target that has not


@pytest.mark.parametrize(
    ("target", "missing"),
    [
        ("llvm -mcpu=x86-64", "avx512f, avx512vnni"),
        ("llvm -mcpu=haswell", "avx512f, avx512vnni"),
        ("llvm -mcpu=skylake-avx512", "avx512vnni"),
        ("llvm -mcpu=cascadelake -mattr=-avx512vnni", "avx512vnni"),
    ],
)
def test_a_vector_instruction_is_refused(target, missing):
    with pytest.raises(CodegenError, match=f"vpdpbusd.512 needs {missing}, which the target") as e:
        codegen.compile_object(parse(VECTOR), target)
    assert "'llvm -mcpu=sapphirerapids'" in str(e.value)


@pytest.mark.parametrize("name", ["amx_16x16x64_u8i8i32", "amx_16x16x32_bf16bf16f32"])
@pytest.mark.parametrize("target", ["llvm -mcpu=cascadelake", "llvm -mcpu=x86-64-v4"])
def test_tiles_are_refused(name, target):
    with pytest.raises(CodegenError, match=r"needs amx-tile.*, which the target does not have"):
        codegen.compile_object(tensorized(name), target)


def test_tiles_are_refused_on_a_machine_without_them(monkeypatch):
    monkeypatch.setattr(host, "_simulated_host", lambda: host._SimulatedHost(mcpu="cascadelake"))
    with pytest.raises(CodegenError, match="needs amx-tile"):
        codegen.build(tensorized("amx_16x16x64_u8i8i32"), "host")


@pytest.mark.parametrize(
    "name",
    [
        "llvm.x86.avx512.vpdpwssd.512",
        "llvm.x86.no.such.instruction",
        "llvm.aarch64.neon.smmla.v4i32.v16i8",
        "llvm.arm.neon.vpadd.v4i32",
    ],
)
def test_unknown_instructions_are_refused(name):
    program = parse(VECTOR.replace("llvm.x86.avx512.vpdpbusd.512", name))
    with pytest.raises(CodegenError, match="unknown machine instruction") as caught:
        codegen.compile_object(program, SAPPHIRE_RAPIDS)
    assert f"instruction {name};" in str(caught.value)
    for known in FEATURES:
        assert known in str(caught.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            'C[0:8] = T.call_llvm_pure_intrin("int32x8", "llvm.x86.avx512.vpdpbusd.512", '
            "T.uint32(0), C[0:8], A[0:8], B[0:8])",
            r"has the operands \(int32x16, int32x16, int32x16\) and the result int32x16, "
            r"but is called with \(int32x8, int32x8, int32x8\) for int32x8",
        ),
        (
            'C[0:16] = T.call_llvm_pure_intrin("int32x16", "llvm.x86.avx512.vpdpbusd.512", '
            "T.uint32(0), C[0:16], A[0:16])",
            r"is called with \(int32x16, int32x16\) for int32x16",
        ),
        (
            'T.evaluate(T.call_llvm_intrin("void", "llvm.x86.tdpbusd", T.uint32(0), '
            "T.int8(0), T.int8(1), T.int8(8)))",
            "a tile is a constant int8 from 0 to 7",
        ),
        (
            'T.evaluate(T.call_llvm_intrin("void", "llvm.x86.tilezero", T.uint32(0), '
            'T.Cast("int8", C[0])))',
            "a tile is a constant int8 from 0 to 7",
        ),
        (
            'T.evaluate(T.call_llvm_intrin("void", "llvm.x86.tdpbusd", T.uint32(0), '
            "T.int32(0), T.int32(1), T.int32(2)))",
            r"is called with \(int32, int32, int32\) for void",
        ),
        (
            'T.evaluate(T.call_llvm_intrin("void", "llvm.x86.tdpbusd", T.uint32(0), '
            "T.int8(0), T.int8(1), T.int8(1)))",
            "llvm.x86.tdpbusd needs distinct tiles",
        ),
    ],
)
def test_operands_of_the_wrong_kind_are_refused(call, words):
    program = parse(VECTOR[: VECTOR.index("    C[0:16]")] + f"    {call}\n")
    with pytest.raises(CodegenError, match=words):
        codegen.compile_object(program, SAPPHIRE_RAPIDS)


def test_intrinsics_of_all_machines_are_passed_on():
    program = parse(
        """\
@T.prim_func
def main(A: T.Buffer((16,)), B: T.Buffer((16,))):
    B[0:16] = T.call_llvm_pure_intrin("float32x16", "llvm.fabs", T.uint32(1), A[0:16])
"""
    )
    values = np.linspace(-1, 1, 16).astype(np.float32)
    made = np.zeros(16, np.float32)
    codegen.build(program)["main"](values, made)
    np.testing.assert_array_equal(made, np.abs(values))


# ------------------------------------------------------------------------------------------- loading


@pytest.mark.parametrize("name", ["amx_16x16x64_u8i8i32", "amx_16x16x32_bf16bf16f32"])
def test_code_for_another_cpu_is_not_called(name, monkeypatch):
    monkeypatch.setattr(host, "machine", lambda: "x86_64")
    monkeypatch.setattr(
        host, "missing_features", lambda needed: [f for f in sorted(needed) if f.startswith("amx-")]
    )
    # Answers about this machine are neither used nor kept.
    monkeypatch.setattr(host_features, "_refusal", host_features._refusal.__wrapped__)
    data = codegen.compile_object(tensorized(name), SAPPHIRE_RAPIDS)
    for module in (
        codegen.Module.from_object(data),
        codegen.build(tensorized(name), SAPPHIRE_RAPIDS),
    ):
        parameters = module["main"].signature.parameters
        arrays = [codegen.empty(p.shape, p.dtype) for p in parameters]
        with pytest.raises(LinkError, match=r"main cannot run here: the code uses amx-bf16, amx-i"):
            module(*arrays)


@pytest.mark.parametrize("name", ["dot_16x4_vnni", "dot_16x4_avx512"])
@pytest.mark.parametrize("width", [128, 256])
def test_instructions_are_no_wider_than_the_target_may_use(name, width):
    """LLVM would end the process: it cannot split them."""
    impl = TensorIntrin.get(name).impl
    with pytest.raises(
        CodegenError, match=f"vectors of 512 bits, and -vector-width={width} disables"
    ):
        codegen.compile_object(impl, f"llvm -mcpu=cascadelake -vector-width={width}")
    assert codegen.compile_object(impl, "llvm -mcpu=cascadelake -vector-width=512")


def test_every_instruction_is_listed_with_features_that_a_cpu_has():
    machines = [codegen.Target(t) for t in (SAPPHIRE_RAPIDS, ARROW_LAKE, ARM_WITH_DOT_PRODUCTS)]
    for name, alternatives in FEATURES.items():
        assert alternatives
        for needed in alternatives:
            assert needed
            assert any(set(needed) <= target.features for target in machines), name


@pytest.mark.parametrize(
    ("name", "target", "instruction"),
    [
        ("dot_8x4_vnni", "llvm -mcpu=alderlake", "vpdpbusd"),
        ("dot_8x4_vnni", "llvm -mcpu=cascadelake -vector-width=256", "vpdpbusd"),
        ("dot_8x4_i8i8s32_vnniint8", ARROW_LAKE, "vpdpbssd"),
        ("dot_8x2_i16i16s32_avx2", "llvm -mcpu=haswell", "vpmaddwd"),
        ("dot_16x2_i16i16s32_avx512", "llvm -mcpu=skylake-avx512", "vpmaddwd"),
        ("dot_16x2_i16i16s32_avx512", "llvm -mcpu=cascadelake", "vpdpwssd"),
        ("dot_16x2_bf16bf16f32_avx512", "llvm -mcpu=cooperlake", "vdpbf16ps"),
        ("dot_8x2_bf16bf16f32_avx512", "llvm -mcpu=znver4 -vector-width=256", "vdpbf16ps"),
    ],
)
def test_dot_products_of_narrow_numbers_are_one_instruction_or_two(name, target, instruction):
    """The operand that all lanes share is a broadcast from memory or one of the instruction's."""
    text = assembly_of(TensorIntrin.get(name).impl, f"{target} -mtriple=x86_64-linux-gnu")
    text = text.split(".Lfunc_end0:")[0]
    assert text.count(instruction) == 1
    assert "vpinsr" not in text


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("dot_8x4_vnni", "haswell"),
        ("dot_8x4_i8i8s32_vnniint8", "alderlake"),
        ("dot_16x2_bf16bf16f32_avx512", "cascadelake"),
        ("dot_16x2_bf16bf16f32_avx512", "znver4 -vector-width=256"),
    ],
)
def test_targets_that_lack_them_are_refused(name, target):
    with pytest.raises(CodegenError, match=r"needs (avx|vectors)|works on vectors of 512 bits"):
        codegen.compile_object(TensorIntrin.get(name).impl, f"llvm -mcpu={target}")


def test_one_of_several_features_is_enough():
    impl = TensorIntrin.get("dot_8x4_vnni").impl
    with pytest.raises(CodegenError, match="needs avxvnni or avx512vl, avx512vnni, which"):
        codegen.compile_object(impl, "llvm -mcpu=haswell")
    for features in ("+avxvnni", "+avx512f,+avx512vl,+avx512vnni"):
        assert "vpdpbusd" in assembly_of(impl, f"llvm -mcpu=haswell -mattr={features}")
