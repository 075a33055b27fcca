"""tensorize: machine code of the intrinsics here, and intrinsics of users."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from tensorir import parse
from tensorir.interp import interpret, random_arguments
from tensorir.tensor_intrin import TensorIntrin, dot_product
from tests.schedule.cases import program
from tests.schedule.transformation import apply, scheduled

BYTES = program("BYTES", "tensorize")
SERVER = "llvm -mcpu=sapphirerapids -num-cores=1"

BFLOATS = """\
@T.prim_func
def main(
    A: T.Buffer((32, 64), "bfloat16"),
    B: T.Buffer((32, 16, 2), "bfloat16"),
    C: T.Buffer((32, 16), "float32"),
):
    for i_0, k_0, i_1, j, k_1 in T.grid(2, 2, 16, 16, 32):
        with T.block("C"):
            vi = T.axis.spatial(32, i_0 * 16 + i_1)
            vj = T.axis.spatial(16, j)
            vk = T.axis.reduce(64, k_0 * 32 + k_1)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + T.Cast("float32", A[vi, vk]) * T.Cast(
                "float32", B[vk // 2, vj, vk % 2]
            )
"""

TILES_OF_BYTES = (
    BFLOATS.replace("bfloat16", "int8")
    .replace('A: T.Buffer((32, 64), "int8")', 'A: T.Buffer((32, 128), "uint8")')
    .replace("(32, 16, 2)", "(32, 16, 4)")
    .replace("float32", "int32")
    .replace("16, 16, 32)", "16, 16, 64)")
    .replace("reduce(64, k_0 * 32", "reduce(128, k_0 * 64")
    .replace("vk // 2, vj, vk % 2", "vk // 4, vj, vk % 4")
)


def tensorize(name, depth=3, block="C", **options):
    """Tensorize the loop around `block` that has `depth` others around it."""

    def call(sch):
        loop = sch.get_loops(sch.get_block(block))[depth]
        sch.tensorize(loop, name, **options)

    return call


def assert_machine_code_computes(sch, before):
    """Check compiled code against the program before, on values over the whole range of bytes."""
    rng = np.random.default_rng(5)
    given = []
    for array in random_arguments(parse(before), 5):
        if array.dtype.itemsize == 1:
            limits = np.iinfo(array.dtype)
            array = rng.integers(limits.min, limits.max + 1, array.shape).astype(array.dtype)
        given.append(array)
    expected = [array.copy() for array in given]
    actual = [array.copy() for array in given]
    interpreted = [array.copy() for array in given]
    interpret(parse(before), *expected)
    interpret(sch.mod, *interpreted)
    codegen.build(sch.mod, "host")["main"](*actual)
    for got, other, wanted in zip(actual, interpreted, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)
        np.testing.assert_allclose(other, wanted, rtol=1e-5)


# ------------------------------------------------------------------------------- the intrinsics here


def test_the_portable_implementation():
    sch = apply(BYTES, tensorize("dot_16x4_portable"))
    assert_machine_code_computes(sch, BYTES)


@pytest.mark.parametrize(
    ("name", "call", "instruction"),
    [
        ("dot_16x4_avx512", "pmaddw.d.512", "vpmaddwd"),
        ("dot_16x4_vnni", "vpdpbusd.512", "vpdpbusd"),
    ],
)
def test_dot_products(name, call, instruction):
    sch = apply(BYTES, tensorize(name))
    assert call in sch.mod.script()
    assert instruction in codegen.build(sch.mod, SERVER).inspect_asm()


@pytest.mark.parametrize(
    ("before", "name", "depth", "product"),
    [
        (BFLOATS, "amx_16x16x32_bf16bf16f32", 2, "tdpbf16ps"),
        (TILES_OF_BYTES, "amx_16x16x64_u8i8i32", 2, "tdpbusd"),
    ],
)
def test_matrix_tiles(before, name, depth, product):
    sch = scheduled(before, tensorize(name, depth))
    block = sch.get(sch.get_block("C_o"))
    views = {view.source.buffer.name: view for view in block.match_buffers}
    deep = views["A"].buffer.shape[1].value
    assert (
        str(views["A"].source)
        == f"A[vi_o * 16:vi_o * 16 + 16, vk_o * {deep}:vk_o * {deep} + {deep}]"
    )
    assert str(views["C"].source) == "C[vi_o * 16:vi_o * 16 + 16, 0:16]"
    assert [b.name for b in block.alloc_buffers] == ["shape"]
    assert f"llvm.x86.{product}" in sch.mod.script()
    assert product in codegen.build(sch.mod, SERVER).inspect_asm()
    assert block.init is not None


# ------------------------------------------------------------------------------------- loop or block


def test_tensorized_loops_can_be_scheduled_further():
    def call(sch):
        tensorize("dot_16x4_portable")(sch)
        i, j_0, k_0 = sch.get_loops(sch.get_block("C_o"))
        sch.reorder(j_0, i)
        sch.parallel(j_0)
        sch.decompose_reduction(sch.get_block("C_o"), k_0)

    sch = apply(BYTES, call)
    assert_machine_code_computes(sch, BYTES)


# -------------------------------------------------------------------------------- intrinsics of users

PRODUCT = """\
@T.prim_func
def main(
    A: T.Buffer((4,), offset_factor=1),
    B: T.Buffer((4,), offset_factor=1),
    C: T.Buffer((4,), offset_factor=1),
):
    with T.block("root"):
        T.reads(A[0:4], B[0:4])
        T.writes(C[0:4])
"""
PRODUCT_LOOP = """\
        for i in range(4):
            with T.block("product"):
                vi = T.axis.spatial(4, i)
                C[vi] = A[vi] * B[vi]
"""
PRODUCT_VECTOR = """\
        C[0:4] = A[0:4] * B[0:4]
"""

ROWS = """\
@T.prim_func
def main(X: T.Buffer((3, 8)), Y: T.Buffer((8,)), Z: T.Buffer((5, 8))):
    for i, j_0, j_1 in T.grid(3, 2, 4):
        with T.block("Z"):
            vi = T.axis.spatial(3, i)
            vj = T.axis.spatial(8, j_0 * 4 + j_1)
            Z[vi + 2, vj] = X[vi, vj] * Y[vj]
"""


@pytest.fixture
def register(monkeypatch):
    """Register intrinsics for one test."""
    TensorIntrin.names()
    monkeypatch.setattr(TensorIntrin, "_registry", dict(TensorIntrin._registry))

    def add(name, desc, impl):
        TensorIntrin.register(name, parse(desc), parse(impl))

    return add


def test_an_intrinsic_of_a_user(register):
    register("product_4", PRODUCT + PRODUCT_LOOP, PRODUCT + PRODUCT_VECTOR)
    after = """\
@T.prim_func
def main(X: T.Buffer((3, 8)), Y: T.Buffer((8,)), Z: T.Buffer((5, 8))):
    for i, j_0 in T.grid(3, 2):
        with T.block("Z_o"):
            vi_o, vj_o = T.axis.remap("SS", [i, j_0])
            T.reads(X[vi_o, vj_o * 4:vj_o * 4 + 4], Y[vj_o * 4:vj_o * 4 + 4])
            T.writes(Z[vi_o + 2, vj_o * 4:vj_o * 4 + 4])
            A = T.match_buffer(X[vi_o, vj_o * 4:vj_o * 4 + 4], (4,), offset_factor=1)
            B = T.match_buffer(Y[vj_o * 4:vj_o * 4 + 4], (4,), offset_factor=1)
            C = T.match_buffer(Z[vi_o + 2, vj_o * 4:vj_o * 4 + 4], (4,), offset_factor=1)
            C[0:4] = A[0:4] * B[0:4]
"""
    sch = apply(ROWS, tensorize("product_4", 2, "Z"), after)
    assert_machine_code_computes(sch, ROWS)


def test_arithmetic_is_compared_under_the_ranges_of_the_axes(register):
    scaled = PRODUCT_LOOP.replace("A[vi] * B[vi]", "A[vi] * B[vi] * T.Cast('float32', vi % 4)")
    register("product_4", PRODUCT + scaled, PRODUCT + scaled)
    before = ROWS.replace("X[vi, vj] * Y[vj]", "X[vi, vj] * Y[vj] * T.Cast('float32', vj % 4)")
    apply(before, tensorize("product_4", 2, "Z"))


def test_annotations_and_buffers_of_the_implementation_are_added(register):
    header = PRODUCT + '        T.block_attr({"kind": "intrinsic", "width": 4})\n'
    through_memory = """\
        t = T.alloc_buffer((4,), scope="local")
        for i in range(4):
            t[i] = A[i] * B[i]
        for i in range(4):
            C[i] = t[i]
"""
    register("product_4", PRODUCT + PRODUCT_LOOP, header + through_memory)

    def call(sch):
        outer = sch.blockize(sch.get_loops(sch.get_block("Z"))[2])
        sch.annotate(outer, "kind", "mine")
        sch.tensorize(outer, "product_4")

    sch = apply(ROWS, call)
    block = sch.get(sch.get_block("Z_o"))
    assert {key: getattr(v, "value", v) for key, v in block.annotations.items()} == {
        "kind": "mine",
        "width": 4,
    }
    assert [(b.name, b.scope()) for b in block.alloc_buffers] == [("t", "local")]
    assert_machine_code_computes(sch, ROWS)


def test_a_built_in_intrinsic_is_made_once_when_it_is_looked_up(monkeypatch):
    made = []

    def make():
        made.append(dot_product.INTRINSICS["dot_16x4_vnni"]())
        return made[-1]

    monkeypatch.setattr(TensorIntrin, "_registry", {"dot": make})
    assert TensorIntrin.names() == ["dot"]
    assert not made
    assert TensorIntrin.get("dot") is TensorIntrin.get("dot") is made[0]
    assert len(made) == 1
