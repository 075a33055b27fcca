"""A pass of one's own: on a module, between passes of lowering, timed and printed."""

from __future__ import annotations

import io

import numpy as np
import pytest

import codegen
from codegen.lower import ADD_LOWER_PASS
from tensorir import IRModule, IRTypeError, IRValueError, WellFormedError, parse, renew_defs
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import FloatImm
from tensorir.rewriting.visit import Rewriter
from tensorir.transform import (
    PassContext,
    PassInstrument,
    PassTimingInstrument,
    PrintAfter,
    PrintBefore,
    Sequential,
    VerifyAfterEach,
    module_pass,
    prim_func_pass,
)

MOD = IRModule(
    {
        "main": parse(
            """
@T.prim_func
def main(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32")):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    for i in range(8):
        for j in T.vectorized(16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
"""
        )
    }
)


class Threes(Rewriter):
    def rewrite_FloatImm(self, node: FloatImm) -> FloatImm:
        return FloatImm(node.dtype, 3.0)


@prim_func_pass(name="Triple")
def triple(func, mod, ctx):
    return func.with_body(Threes()(func.body))


def factor(**options):
    """Return by what a build under a context multiplies."""
    with PassContext(**options):
        lib = codegen.build(MOD, "llvm")
    a, b = np.ones((8, 16), "float32"), np.zeros((8, 16), "float32")
    lib["main"](a, b)
    return b[0, 0]


def test_it_runs_on_a_module() -> None:
    assert "T.float32(3.0)" in Sequential([triple])(MOD).script()


@pytest.mark.parametrize("place", [0, 1, 2, 3, "open_blocks", "vectorize"])
def test_it_runs_between_passes_of_lowering(place) -> None:
    assert factor() == 2
    assert factor(config={ADD_LOWER_PASS: [(place, triple)]}) == 3


def test_what_is_inserted_is_among_the_passes() -> None:
    with PassContext(config={ADD_LOWER_PASS: [("open_blocks", triple)]}):
        text = codegen.lower(MOD["main"], until="Triple").script()
    assert "T.float32(3.0)" in text
    assert "T.block" in text


def test_it_is_timed_and_printed_among_them() -> None:
    file, timing = io.StringIO(), PassTimingInstrument()
    instruments = [timing, PrintAfter("Triple", "vectorize", file=file)]
    factor(instruments=instruments, config={ADD_LOWER_PASS: [("flatten_buffers", triple)]})
    rows = [line.split()[0] for line in timing.render().splitlines()]
    expected = [name for name, _ in codegen.PASSES]
    expected.insert(expected.index("flatten_buffers") + 1, "Triple")
    assert rows == [*expected, "total"]
    first, second = file.getvalue().split("# after ")[1:]
    assert first.startswith("Triple\n")
    assert "T.vectorized(16)" in first
    assert second.startswith("vectorize\n")
    assert "T.vectorized" not in second


def test_passes_of_a_graph_and_of_its_kernels_are_seen_by_the_same_instruments() -> None:
    file = io.StringIO()
    with PassContext(instruments=[PrintBefore("twice", "unroll", file=file)]):

        @module_pass(name="twice")
        def twice(mod, ctx):
            return mod

        codegen.build(twice(MOD), "llvm")
    titles = [line for line in file.getvalue().splitlines() if line.startswith("# before")]
    assert titles == ["# before twice", "# before unroll"]


def test_passes_of_lowering_can_be_skipped() -> None:
    class Without(PassInstrument):
        def should_run(self, mod, info):
            return info.name != "vectorize_innermost"

    serial = IRModule({"main": parse(MOD["main"].script().replace("T.vectorized", "range"))})
    for options in ({"instruments": [Without()]}, {"disabled_pass": ["vectorize_innermost"]}):
        with PassContext(**options):
            assert "T.grid(8, 16)" in codegen.lower(serial["main"]).script()
    assert "T.grid(8, 16)" not in codegen.lower(serial["main"]).script()


def test_one_that_breaks_a_program_is_named() -> None:
    class Bare(Rewriter):
        def rewrite_For(self, node: s.For) -> s.Stmt:
            return self(node.body)

    bare = prim_func_pass(lambda f, mod, ctx: f.with_body(Bare()(f.body)), name="Bare")
    with (
        PassContext(instruments=[VerifyAfterEach()], config={ADD_LOWER_PASS: [(1, bare)]}),
        pytest.raises(WellFormedError) as raised,
    ):
        codegen.lower(MOD["main"], verify=False)
    assert "in the pass Bare" in raised.value.__notes__


def test_misuse_is_named() -> None:
    with pytest.raises(IRValueError, match="Triple has the unknown place 'flatten'; places are"):
        factor(config={ADD_LOWER_PASS: [("flatten", triple)]})
    with pytest.raises(IRTypeError, match="pairs of a place and a pass"):
        factor(config={ADD_LOWER_PASS: [(0, lambda func: func)]})
    two = module_pass(
        lambda mod, ctx: IRModule({**mod.functions, "more": renew_defs(mod["main"])}), name="Two"
    )
    with pytest.raises(IRValueError, match="Two returned 2 functions instead of one"):
        factor(config={ADD_LOWER_PASS: [(3, two)]})
    assert isinstance(MOD["main"], PrimFunc)
