"""Dot products of bytes for ARM: what they compute, the instructions, and the designs with them."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
import search as ms
from schedule import Schedule
from search.search_strategy.trace_application import TraceApplication
from tensorir import TensorIntrin, parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret, random_arguments

DOTPROD = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod -num-cores=4"
NEON = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon -num-cores=4"
DENSE = """
@T.prim_func
def main(A: T.Buffer((4, 8), "{a}"), B: T.Buffer((4, 2, 4, 4), "{b}"), C: T.Buffer((4, 16), "{c}")):
    T.func_attr({{"tir.noalias": True}})
    for i, j, k in T.grid(4, 16, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.{c}(0)
            C[vi, vj] = C[vi, vj] + T.Cast("{c}", A[vi, vk]) * T.Cast("{c}", B[vj // 4, vk // 4, vj % 4, vk % 4])
"""
INTRINSICS = [
    ("dot_4x4_i8i8s32_sdot", DOTPROD, ("int8", "int8", "int32"), "sdot"),
    ("dot_4x4_u8u8u32_udot", DOTPROD, ("uint8", "uint8", "uint32"), "udot"),
    ("dot_4x4_u8u8i32_hdot", DOTPROD, ("uint8", "uint8", "int32"), "udot"),
    ("dot_4x4_i8i8s32_neon", NEON, ("int8", "int8", "int32"), "smull"),
]


ENCODINGS = {
    "sdot": ((0xFFE0FC00, 0x4E809400), (0xFFC0F400, 0x4F80E000)),
    "udot": ((0xFFE0FC00, 0x6E809400), (0xFFC0F400, 0x6F80E000)),
    "smull": ((0xBFE0FC00, 0x0E20C000),),
}
"""Masks and what is left under them: all 16 bytes by 16 bytes, or by four of them again."""


def has_instruction(data: bytes, name: str) -> bool:
    """Say whether code has an instruction, wherever its words begin."""
    words = np.concatenate(
        [np.frombuffer(data[at : at + (len(data) - at) // 4 * 4], "<u4") for at in range(4)]
    )
    return any(bool(((words & mask) == code).any()) for mask, code in ENCODINGS[name])


def dense(types: tuple[str, str, str]) -> PrimFunc:
    func = parse(DENSE.format(**dict(zip("abc", types, strict=True))))
    assert isinstance(func, PrimFunc)
    return func


def tensorized(name: str, func: PrimFunc) -> Schedule:
    sch = Schedule(func, debug_mask="all")
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 4])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i, j0, k0, j1, k1)
    sch.decompose_reduction(block, k0)
    sch.tensorize(j1, name)
    return sch


@pytest.mark.parametrize(("name", "_", "types", "__"), INTRINSICS)
def test_an_implementation_computes_what_its_description_says(
    name: str, _: str, types: tuple[str, str, str], __: str
) -> None:
    intrin = TensorIntrin.get(name)
    assert intrin is not None
    a, b, c = (np.dtype(t) for t in types)
    low, high = np.iinfo(a).min, np.iinfo(a).max
    extremes = np.array([low, low, low, low], a), np.full((4, 4), low, b)
    other = np.array([low, high, -1 if low else 1, 5], a), np.arange(16).reshape(4, 4).astype(b)
    for left, right in (extremes, other):
        sums, expected = (np.arange(4).astype(c) for _ in range(2))
        interpret(intrin.impl, left, right, sums)
        interpret(intrin.desc, left, right, expected)
        np.testing.assert_array_equal(sums, expected)


@pytest.mark.parametrize(("name", "target", "types", "instruction"), INTRINSICS)
def test_a_tensorized_product_is_compiled_to_the_instruction(
    name: str, target: str, types: tuple[str, str, str], instruction: str
) -> None:
    func = dense(types)
    sch = tensorized(name, func)
    expected = random_arguments(func, 0)
    actual = [a.copy() for a in expected]
    interpret(func, *expected)
    interpret(sch.mod, *actual)
    np.testing.assert_array_equal(actual[2], expected[2])
    assert has_instruction(codegen.compile_object(sch.mod, target), instruction)


def test_a_target_without_the_instruction_is_told_what_to_name() -> None:
    sch = tensorized("dot_4x4_i8i8s32_sdot", dense(("int8", "int8", "int32")))
    said = r"needs dotprod, .* for example 'llvm -mtriple=aarch64-linux-gnu -mattr=\+dotprod'"
    with pytest.raises(codegen.CodegenError, match=said):
        codegen.compile_object(sch.mod, NEON)


@pytest.mark.parametrize(("name", "target", "types", "instruction"), INTRINSICS)
def test_design_spaces_of_arm_have_the_intrinsic(
    name: str, target: str, types: tuple[str, str, str], instruction: str
) -> None:
    func = dense(types)
    context = ms.TuneContext(
        func,
        target=target,
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        rand_state=1,
    )
    spaces = context.generate_design_space()
    assert spaces
    application = TraceApplication(context)
    candidates = [application.apply(space.trace.simplified(True)) for space in spaces]
    programs = [sch.mod for sch in candidates if sch is not None]
    assert any(f"llvm.aarch64.neon.{instruction}" in mod.script() for mod in programs)
    expected = random_arguments(func, 0)
    interpret(func, *expected)
    for mod in programs:
        actual = random_arguments(func, 0)
        interpret(mod, *actual)
        np.testing.assert_array_equal(actual[2], expected[2])
