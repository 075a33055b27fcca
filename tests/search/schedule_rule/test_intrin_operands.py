"""Operands are brought into the form in which the instructions of a target read them."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
import search as ms
from codegen.target.machine_intrinsics import refusal_of
from schedule import Schedule
from search.feature_extractor import NestFeature
from search.postproc import Postproc
from search.schedule_rule import MultiLevelTilingWithIntrin
from search.search_strategy.trace_application import TraceApplication
from tensorir import assert_structural_equal
from tensorir.te.index_dtype import with_index_dtype
from tensorir.tensor_intrin import TensorIntrin
from tests.search.schedule_rule.programs import Reference, program

X86 = "llvm -mtriple=x86_64-linux-gnu -num-cores=1 -mcpu="
ARM = "llvm -mtriple=aarch64-linux-gnu -num-cores=1 -mcpu="

PRODUCT = """
@T.prim_func
def main(A: T.Buffer((8, 16), "{a}"), B: T.Buffer((16, 32), "{b}"), C: T.Buffer((8, 32), "{c}")):
    T.func_attr({{"tir.noalias": True}})
    for i, j, k in T.grid(8, 32, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.{c}(0)
            C[vi, vj] = C[vi, vj] + T.Cast("{c}", A[vi, vk]) * T.Cast("{c}", B[vk, vj])
"""


def product(a: str = "uint8", b: str = "int8", c: str = "int32") -> str:
    return PRODUCT.format(a=a, b=b, c=c)


TRANSPOSED_LEFT = (
    product()
    .replace("A: T.Buffer((8, 16)", "A: T.Buffer((16, 8)")
    .replace("A[vi, vk]", "A[vk, vi]")
)
TRANSPOSED_RIGHT = (
    product()
    .replace("B: T.Buffer((16, 32)", "B: T.Buffer((32, 16)")
    .replace("B[vk, vj]", "B[vj, vk]")
)
CONVOLUTION = """
@T.prim_func
def main(X: T.Buffer((1, 6, 6, 8), "uint8"), W: T.Buffer((3, 3, 8, 16), "int8"), Y: T.Buffer((1, 4, 4, 16), "int32")):
    T.func_attr({"tir.noalias": True})
    for n, h, w, o, r, s, c in T.grid(1, 4, 4, 16, 3, 3, 8):
        with T.block("C"):
            vn, vh, vw, vo, vr, vs, vc = T.axis.remap("SSSSRRR", [n, h, w, o, r, s, c])
            with T.init():
                Y[vn, vh, vw, vo] = 0
            Y[vn, vh, vw, vo] = Y[vn, vh, vw, vo] + T.Cast("int32", X[vn, vh + vr, vw + vs, vc]) * T.Cast("int32", W[vr, vs, vc, vo])
"""


def assert_same(sch: Schedule, text: str) -> None:
    Reference(program(text)).check(sch.mod)


def tiled(text: str, intrin: str, cpu: str = f"{X86}znver4") -> Schedule:
    """Tile a program for an intrinsic, nothing sampled, and check that it computes the same."""
    func = program(text)
    rule = MultiLevelTilingWithIntrin(intrin, "SR")
    rule._initialize_with_tune_context(ms.TuneContext(func, target=cpu, rand_state=1))
    before = Schedule(func, seed=1, debug_mask="all")
    (sch,) = rule.apply(before, before.get_block("C"))
    assert_same(sch, text)
    again = Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)
    return sch


def candidates(text: str, target: str) -> list[Schedule]:
    """Return a sampled and postprocessed candidate of every design that a target gets."""
    context = ms.TuneContext(
        program(text),
        target=target,
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        rand_state=1,
    )
    application = TraceApplication(context)
    made = [application.apply(s.trace, resample=True) for s in context.generate_design_space()]
    return [sch for sch in made if sch is not None]


# ------------------------------------------------------------------------------------- the copies


def test_the_indices_of_a_program_may_have_64_bits() -> None:
    """As those of the operators of graph functions do; those of intrinsics have 32."""
    func = with_index_dtype(program(product()), "int64")
    sch = Schedule(func, seed=1, debug_mask="all")
    (made,) = MultiLevelTilingWithIntrin("dot_16x4_vnni", "SR").apply(sch, sch.get_block("C"))
    made.tensorize(made.get_loops(made.get_block("C"))[-2], "dot_16x4_vnni")
    assert_same(made, product())


def shapes(sch: Schedule) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the dtype and shape of each buffer that a program allocates."""
    buffers = sch.get(sch.get_block("root")).alloc_buffers
    return {b.name: (str(b.dtype), tuple(int(n) for n in b.shape)) for b in buffers}


@pytest.mark.parametrize(
    ("text", "intrin", "copies"),
    [
        (TRANSPOSED_RIGHT, "dot_16x4_vnni", {"B_global": ("int8", (2, 4, 16, 4))}),
        (
            TRANSPOSED_LEFT,
            "dot_16x4_vnni",
            {"A_global": ("uint8", (8, 4, 4)), "B_global": ("int8", (2, 4, 16, 4))},
        ),
        (CONVOLUTION, "dot_16x4_vnni", {"W_global": ("int8", (1, 3, 3, 2, 16, 4))}),
        (
            product("int8"),
            "dot_16x2_i16i16s32_avx512",
            {"A_global": ("int16", (8, 16)), "B_global": ("int16", (2, 8, 16, 2))},
        ),
        (
            product("int16", "int16"),
            "dot_16x2_i16i16s32_avx512",
            {"B_global": ("int16", (2, 8, 16, 2))},
        ),
    ],
    ids=["transposed right", "transposed left", "convolution", "wider", "16 bits"],
)
def test_operands_get_the_layout_and_dtype_that_an_instruction_reads(
    text: str, intrin: str, copies: dict[str, tuple[str, tuple[int, ...]]]
) -> None:
    assert shapes(tiled(text, intrin)) == copies


def test_a_weight_with_a_free_layout_is_packed_when_a_model_is_built() -> None:
    text = product().replace('{"tir.noalias": True}', '{"layout_free_buffers": [1]}')
    for sch in candidates(text, f"{X86}znver4"):
        copy = sch.get(sch.get_block("B_global"))
        assert copy.annotations["meta_schedule.layout_rewrite_preproc"]
        assert list(shapes(sch)).count("B_global") == 1


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        (product("int8", "int8"), {"A_offset": ("uint8", (8, 16)), "C_offset": ("int32", (32,))}),
        (
            product("uint8", "uint8"),
            {"B_offset": ("int8", (2, 4, 16, 4)), "C_offset": ("int32", (8,))},
        ),
    ],
    ids=["left", "right"],
)
def test_bytes_of_the_other_sign_are_offset_if_the_rule_may(
    text: str, moved: dict[str, tuple[str, tuple[int, ...]]]
) -> None:
    func = program(text)
    for other_sign in (False, True):
        rule = MultiLevelTilingWithIntrin("dot_16x4_vnni", "SR", other_sign=other_sign)
        rule._initialize_with_tune_context(ms.TuneContext(func, target=f"{X86}znver4"))
        before = Schedule(func, debug_mask="all")
        (sch,) = rule.apply(before, before.get_block("C"))
        assert (sch is before) is not other_sign
    found = shapes(sch)
    found.pop("B_global", None)
    assert found == moved
    assert_same(sch, text)


# --------------------------------------------------------------------------- which target gets what

BYTES, SIGNED = ("uint8", "int8", "int32"), ("int8", "int8", "int32")
BFLOATS = ("bfloat16", "bfloat16", "float32")


@pytest.mark.parametrize(
    ("target", "types", "instruction"),
    [
        (f"{X86}znver4", BYTES, "vpdpbusd.512"),
        (f"{X86}znver4 -vector-width=256", BYTES, "vpdpbusd.256"),
        (f"{X86}alderlake", BYTES, "vpdpbusd.256"),
        (f"{X86}arrowlake", SIGNED, "vpdpbssd.256"),
        (f"{X86}znver4", SIGNED, "vpdpbusd.512"),
        (f"{X86}alderlake", ("uint8", "uint8", "int32"), "vpdpbusd.256"),
        (f"{X86}skylake-avx512", BYTES, "pmaddw.d.512"),
        (f"{X86}haswell", BYTES, "avx2.pmadd.wd"),
        (f"{X86}haswell", SIGNED, "avx2.pmadd.wd"),
        (f"{X86}haswell", ("uint8", "uint8", "int32"), "avx2.pmadd.wd"),
        (f"{X86}cooperlake", BFLOATS, "dpbf16ps.512"),
        (f"{X86}znver4 -vector-width=256", BFLOATS, "dpbf16ps.256"),
        (f"{ARM}neoverse-n2", BYTES, "usdot"),
        (f"{ARM}neoverse-n2", BFLOATS, "bfdot"),
        (f"{ARM}neoverse-n1", SIGNED, "sdot"),
        (f"{ARM}neoverse-n1", BYTES, "sdot"),
        (f"{ARM}cortex-a72", SIGNED, "smull"),
    ],
)
def test_every_design_uses_the_best_instruction_of_the_target(
    target: str, types: tuple[str, str, str], instruction: str
) -> None:
    made = candidates(product(*types), target)
    assert made
    assert all(instruction in sch.mod.script() for sch in made)
    assert codegen.compile_object(made[0].mod, target)
    if types[2] == "int32":
        assert_same(made[-1], product(*types))


@pytest.mark.parametrize(
    ("target", "types"),
    [
        (f"{X86}x86-64-v2", BYTES),
        (f"{X86}sandybridge", SIGNED),
        (f"{X86}haswell", BFLOATS),
        (f"{X86}cascadelake", BFLOATS),
        (f"{X86}skylake-avx512 -vector-width=128", BYTES),
        (f"{ARM}cortex-a72", BYTES),
        (f"{ARM}neoverse-n1", BFLOATS),
    ],
)
def test_targets_without_an_instruction_never_see_its_designs(
    target: str, types: tuple[str, str, str]
) -> None:
    made = candidates(product(*types), target)
    assert made
    assert all("call_llvm" not in sch.mod.script() for sch in made)
    assert codegen.compile_object(made[0].mod, target)


@pytest.mark.parametrize("target", [f"{X86}haswell", f"{X86}alderlake", f"{X86}znver4"])
@pytest.mark.parametrize("preset", ["vnni", "avx512", "avx2", "dotprod"])
def test_presets_of_other_machines_offer_nothing_that_cannot_be_built(
    preset: str, target: str
) -> None:
    """Named for the wrong target, a preset has the designs that suit it, if any."""
    context = ms.TuneContext(
        program(product()), target=target, space_generator=preset, rand_state=1
    )
    names = {
        value
        for space in context.generate_design_space()
        for block in space.state.blocks("main")
        if (value := block.block.annotations.get("meta_schedule.auto_tensorize"))
    }
    for name in names:
        intrin = TensorIntrin.get(name)
        assert intrin is not None
        assert refusal_of(intrin.impl, codegen.Target(target)) is None


# ---------------------------------------------------------------------------------- register tiles

LARGE = """
@T.prim_func
def main(A: T.Buffer((12, 16), "uint8"), B: T.Buffer((16, 48), "int8"), C: T.Buffer((12, 48), "int32")):
    T.func_attr({"tir.noalias": True})
    for i, j, k in T.grid(12, 48, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vk, vj])
"""


def tile_of(sch: Schedule) -> list[int]:
    """Return the extents of the unrolled loops right around the update of an intrinsic."""
    loops = [sch.get(loop) for loop in sch.get_loops(sch.get_block("C_o_update"))]
    kinds = [loop.kind.name for loop in loops]
    count = kinds.count("UNROLLED")
    assert kinds[len(kinds) - count :] == ["UNROLLED"] * count
    return [int(loop.extent) for loop in loops[len(loops) - count :]]


@pytest.mark.parametrize(
    ("target", "intrin", "registers"),
    [
        (f"{X86}znver4", "dot_16x4_vnni", 32),
        (f"{X86}haswell", "dot_8x2_i16i16s32_avx2", 16),
    ],
)
def test_the_sums_of_an_instruction_get_a_register_tile(
    target: str, intrin: str, registers: int
) -> None:
    sch = tiled(LARGE, intrin, target)
    with codegen.Target(target):
        for postproc in Postproc.create("avx2"):
            assert postproc.apply(sch)
    assert_same(sch, LARGE)
    rows, vectors = tile_of(sch)
    assert 8 <= rows * vectors <= registers - 2


@pytest.mark.parametrize("target", [f"{X86}znver4", f"{X86}haswell"])
def test_features_see_that_tile(target: str) -> None:
    text = LARGE.replace("12", "192").replace("48", "192").replace("16", "192")
    context = ms.TuneContext(
        program(text), target=target, space_generator="post-order-apply", rand_state=1
    )
    context.generate_design_space()
    feature = NestFeature.names.index("main.accumulators")
    for sch in candidates(text, target):
        (row,) = NestFeature().extract_from(context, [ms.MeasureCandidate(sch, [])])
        assert round(2 ** row[0, feature]) == np.prod(tile_of(sch))
