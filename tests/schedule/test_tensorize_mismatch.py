"""tensorize refuses what does not match: both programs are shown, and where they first differ."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from schedule import Schedule, ScheduleError
from tensorir import parse
from tensorir.interp import interpret, random_arguments
from tensorir.tensor_intrin import TensorIntrin
from tests.schedule.cases import program
from tests.schedule.transformation import apply, parsed, refused

HEADER = """\
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
VECTOR = HEADER + "        C[0:4] = A[0:4] * B[0:4]\n"
STORE = "C[vi] = A[vi] * B[vi]"
LOOP = f"""\
        for i in range(4):
            with T.block("product"):
                vi = T.axis.spatial(4, i)
                {STORE}
"""

UNDER_AN_IF = LOOP.replace(STORE, f"if vi < 3:\n                    {STORE}")
TWICE = """\
        for i in range(4):
            C[i] = A[i] * B[i]
        for i in range(4):
            C[i] = C[i] * B[i]
"""
PLAIN = """\
        for i in range(4):
            C[i] = A[i] * B[i]
"""
MATRIX = """\
@T.prim_func
def main(A: T.Buffer((1, 4), offset_factor=1), C: T.Buffer((4,), offset_factor=1)):
    with T.block("root"):
        T.reads(A[0, 0:4])
        T.writes(C[0:4])
        for i in range(4):
            C[i] = A[0, i]
"""

DESCRIPTIONS = {
    "product_4": HEADER + LOOP,
    "plain_4": HEADER + PLAIN,
    "twice_4": HEADER + TWICE,
    "under_an_if_4": HEADER + UNDER_AN_IF,
    "square_4": HEADER + LOOP.replace("B[vi]", "A[vi]"),
}


@pytest.fixture(autouse=True)
def descriptions(monkeypatch):
    """Register the descriptions of this file for one test."""
    TensorIntrin.names()
    monkeypatch.setattr(TensorIntrin, "_registry", dict(TensorIntrin._registry))
    for name, text in DESCRIPTIONS.items():
        TensorIntrin.register(name, parsed(text), parsed(VECTOR))
    TensorIntrin.register("matrix_4", parsed(MATRIX), parsed(MATRIX))


NESTED = """\
@T.prim_func
def main(X: T.Buffer((3, 9)), Y: T.Buffer((9,)), Z: T.Buffer((3, 9))):
    for i, j in T.grid(3, 2):
        with T.block("Z_o"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(X[vi, 0:9], Y[0:9])
            T.writes(Z[vi, 0:9])
            for l in range(4):
                with T.block("Z"):
                    vl = T.axis.spatial(4, l)
                    T.reads(X[vi, 0:9], Y[0:9])
                    T.writes(Z[vi, 0:9])
                    Z[vi, vj * 4 + vl] = X[vi, vj * 4 + vl] * Y[vj * 4 + vl]
"""

FLAT = """\
@T.prim_func
def main(X: T.Buffer((3, 9)), Y: T.Buffer((9,)), Z: T.Buffer((3, 9))):
    for i, j in T.grid(3, 2):
        with T.block("Z_o"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(X[vi, 0:9], Y[0:9])
            T.writes(Z[vi, 0:9])
            for l in range(4):
                Z[vi, vj * 4 + l] = X[vi, vj * 4 + l] * Y[vj * 4 + l]
"""

LOOPS = """\
@T.prim_func
def main(X: T.Buffer((3, 8)), Y: T.Buffer((8,)), Z: T.Buffer((3, 8))):
    for i, j_0, j_1 in T.grid(3, 4, 2):
        with T.block("Z"):
            vi = T.axis.spatial(3, i)
            vj = T.axis.spatial(8, j_0 * 2 + j_1)
            Z[vi, vj] = X[vi, vj] * Y[vj]
"""


def nested(old, new):
    return NESTED.replace(old, new)


def flat(old, new):
    return FLAT.replace(old, new)


VALUE = "X[vi, vj * 4 + vl] * Y[vj * 4 + vl]"
PLACE = "Z[vi, vj * 4 + vl]"


@pytest.mark.parametrize(
    ("before", "intrin", "reason"),
    [
        (
            flat("range(4)", "range(3)"),
            "plain_4",
            "the extents of loops differ: `3`, described as `4`",
        ),
        (
            flat("range(4)", "range(1, 5)"),
            "plain_4",
            "where loops start differ: `1`, described as `0`",
        ),
        (
            flat("range(4)", "T.vectorized(4)"),
            "plain_4",
            "the kinds or annotations of loops differ",
        ),
        (
            flat("range(4)", 'T.serial(4, annotations={"pragma": 1})'),
            "plain_4",
            "the kinds or annotations of loops differ",
        ),
        (NESTED, "plain_4", "found BlockRealize where the description has BufferStore"),
        (FLAT, "product_4", "found BufferStore where the description has BlockRealize"),
        (FLAT, "twice_4", "found For where the description has SeqStmt"),
        (
            FLAT + FLAT[FLAT.index("            for l") :] * 2,
            "twice_4",
            "the number of statements differs",
        ),
        (
            nested(f"{PLACE} =", f"if vl < 3:\n                        {PLACE} ="),
            "under_an_if_4",
            "IfThenElse cannot be matched",
        ),
        (
            nested("T.axis.spatial(4, l)", "T.axis.reduce(4, l)"),
            "product_4",
            "block Z has the axes R(4), the description's product S(4)",
        ),
        (
            nested("vl = T.axis.spatial(4, l)", "vl = T.axis.spatial(4, l)\n"
                   "                    vu = T.axis.spatial(1, 0)"),
            "product_4",
            "block Z has the axes S(4), S(1), the description's product S(4)",
        ),
        (
            nested("(4, l)\n", "(4, l)\n                    T.where(l < 3)\n"),
            "product_4",
            "predicates differ: `l < 3`, described as `T.bool(True)`",
        ),
        (
            nested("(4, l)", "(4, 3 - l)"),
            "product_4",
            "bindings differ: `3 - l`, described as `i`",
        ),
        (nested("(4, l)", "(5, l)"), "product_4", "domains of axes differ: `5`, described as `4`"),
        (
            nested(f"{PLACE} =", f"with T.init():\n                        {PLACE} = T.float32(0)\n"
                   f"                    {PLACE} ="),
            "product_4",
            "only one of the blocks has an init",
        ),
        (
            nested(f"{PLACE} =", f"t = T.alloc_buffer((1,))\n                    {PLACE} ="),
            "product_4",
            "the block allocates or matches buffers",
        ),
        (
            nested(f"{PLACE} = {VALUE}", "Z.vstore([vi, T.ramp(0, 1, 4)], "
                   "T.broadcast(T.float32(0), 4), predicate=T.broadcast(T.bool(True), 4))"),
            "product_4",
            "only one of the stores has a predicate",
        ),
        (
            nested("X: T.Buffer((3, 9))", 'X: T.Buffer((3, 9), "float64")').replace(
                "= X[vi, vj * 4 + vl]", '= T.Cast("float32", X[vi, vj * 4 + vl])'
            ),
            "product_4",
            "X holds float64 in global memory, the description's A float32 in global",
        ),
        (
            nested("X: T.Buffer((3, 9))", 'X: T.Buffer((3, 9), scope="shared")'),
            "product_4",
            "X holds float32 in shared memory, the description's A float32 in global",
        ),
        (
            nested("* Y[vj * 4 + vl]", "* X[vi, vj * 4 + vl]"),
            "product_4",
            "B would match several buffers",
        ),
        (NESTED, "square_4", "A would match several buffers"),
        (
            flat("* Y[vj * 4 + l]", "").replace("X[vi, vj * 4 + l]", "Y[vj * 4 + l]"),
            "matrix_4",
            "Y has too few dimensions",
        ),
        (nested("= X[vi, vj * 4 + vl]", "= X[vi, vj * 4 + 3 - vl]"), "product_4",
         "the indices of X differ"),
        (nested("= X[vi, vj * 4 + vl]", "= X[vi, vl * 2]"), "product_4",
         "the indices of X differ"),
        (nested("= X[vi, vj * 4 + vl]", "= X[vl // 2, vj * 4 + vl]"), "product_4",
         "the indices of X differ"),
        (
            nested(VALUE, "X[vi, vj * 4 + vl] * X[vi, vj * 4 + vl + 1]"),
            "square_4",
            "X is accessed at several offsets",
        ),
        (nested(" * Y", " + Y"), "product_4", "the expressions differ"),
        (nested(VALUE, f"{VALUE} * Y[vj * 4 + vl]"), "product_4", "the expressions differ"),
        (nested(VALUE, "Y[vj * 4 + vl] * T.float32(2)"), "product_4", "the expressions differ"),
    ],
)  # fmt: skip
def test_refused(before, intrin, reason):
    def call(sch):
        sch.tensorize(sch.get_block("Z_o"), intrin)

    words = f"does not match the tensor intrin '{intrin}': {reason}"
    refused(before, call, "TensorIntrinMismatchError", words, ["block Z_o"])


def test_a_buffer_that_the_description_does_not_use():
    text = (HEADER + LOOP).replace("* B[vi]", "")
    TensorIntrin.register("copy_4", parsed(text), parsed(VECTOR))
    before = nested(" * Y[vj * 4 + vl]", "")

    def call(sch):
        sch.tensorize(sch.get_block("Z_o"), "copy_4")

    words = "the description does not use its buffer B"
    refused(before, call, "TensorIntrinMismatchError", words, ["block Z_o"])


# ------------------------------------------------------------------------------------ what is shown


def test_the_message_shows_both_programs_and_the_difference():
    sch = Schedule(parse(nested(" * Y", " + Y")), error_render_level="fast")
    with pytest.raises(ScheduleError) as caught:
        sch.tensorize(sch.get_block("Z_o"), "product_4")
    assert (
        str(caught.value)
        == """\
tensorize: block "Z_o" does not match the tensor intrin 'product_4': the expressions differ [TensorIntrinMismatchError]

The first difference: the block has
X[vi, vj * 4 + vl] + Y[vj * 4 + vl]
where the intrinsic has
A[vi] * B[vi]

The block is
with T.block("Z_o", no_realize=True):
    vi = T.axis.spatial(3)
    vj = T.axis.spatial(2)
    X = T.Buffer((3, 9))
    Y = T.Buffer((9,))
    T.reads(X[vi, 0:9], Y[0:9])
    Z = T.Buffer((3, 9))
    T.writes(Z[vi, 0:9])
    for l in range(4):
        with T.block("Z"):
            vl = T.axis.spatial(4, l)
            T.reads(X[vi, 0:9], Y[0:9])
            T.writes(Z[vi, 0:9])
            Z[vi, vj * 4 + vl] = X[vi, vj * 4 + vl] + Y[vj * 4 + vl]

The intrinsic is described as
from tensorir import T

@T.prim_func
def main(A_handle: T.handle, B_handle: T.handle, C_handle: T.handle):
    A = T.match_buffer(A_handle, (4,), offset_factor=1)
    B = T.match_buffer(B_handle, (4,), offset_factor=1)
    C = T.match_buffer(C_handle, (4,), offset_factor=1)
    with T.block("root"):
        T.reads(A[0:4], B[0:4])
        T.writes(C[0:4])
        for i in range(4):
            with T.block("product"):
                vi = T.axis.spatial(4, i)
                T.reads(A[vi], B[vi])
                T.writes(C[vi])
                C[vi] = A[vi] * B[vi]

Hint: split, reorder and blockize until loops, axes and accesses are those of the description"""
    )


def test_a_loop_that_was_given_is_named():
    def call(sch):
        sch.tensorize(sch.get_loops(sch.get_block("Z"))[2], "product_4")

    error = refused(
        LOOPS,
        call,
        "TensorIntrinMismatchError",
        "loop `j_1` does not match the tensor intrin 'product_4': "
        "the extents of loops differ: `2`, described as `4`",
        ["loop j_1"],
    )
    assert 'with T.block("Z_o", no_realize=True):' in error.message


# ------------------------------------------------------------------------------------ layout in memory

TRANSPOSED = program("TRANSPOSED", "tensorize")


def dot_products(name):
    def call(sch):
        sch.tensorize(sch.get_loops(sch.get_block("C"))[1], name)

    return call


def test_an_implementation_that_takes_any_strides():
    sch = apply(TRANSPOSED, dot_products("dot_16x4_portable"))
    given = random_arguments(parsed(TRANSPOSED))
    expected = [array.copy() for array in given]
    interpret(parsed(TRANSPOSED), *expected)
    codegen.build(sch.mod, "host")["main"](*given)
    np.testing.assert_array_equal(given[2], expected[2])


# --------------------------------------------------------------------------------- before any matching


def test_a_name_of_no_intrinsic():
    def call(sch):
        sch.tensorize(sch.get_block("Z_o"), "product_5")

    error = refused(NESTED, call, "ArgumentError", "names no tensor intrinsic 'product_5'", [])
    assert isinstance(error, ValueError)
    assert "dot_16x4_vnni" in str(error)
