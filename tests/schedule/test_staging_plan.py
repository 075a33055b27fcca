"""What a plan of staging guarantees: nothing is read from a copy that was not stored there before.

The interpreter gives new buffers zeros, and the programs start from other numbers, so what a copy
that was not filled loses shows.
"""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule import BlockRV, Schedule, ScheduleError
from tensorir import parse
from tensorir.interp import interpret

HEAD = "@T.prim_func\ndef main(A: T.Buffer((6,)), C: T.Buffer((6,)), n: T.int32):\n"
SPATIAL = """\
with T.block("C"):
    vi = T.axis.spatial(6, i)
    T.reads(A[vi]{read})
    T.writes(C[vi])
"""
REDUCE = """\
for k in range({steps}):
    with T.block("C"):
        vi = T.axis.spatial(6, i)
        vk = T.axis.reduce({steps}, k)
        T.reads(A[vi])
        T.writes(C[vi])
        with T.init():
"""
STORE = "C[vi] = A[vi] + T.float32(1)\n"

WRAPPERS = (
    "for {v} in range(n):",
    "for {v} in range(2):",
    "if n > 1:",
    "{v}: T.int32 = n * 2",
)
"""What may stand around a store inside of a block, or around a block; lets among it."""


def wrapped(text: str, wrappers: list[str], prefix: str) -> str:
    for depth, wrapper in enumerate(wrappers):
        line = wrapper.format(v=f"{prefix}{depth}")
        indent = "" if "T.int32" in line else "    "
        text = f"{line}\n{textwrap.indent(text, indent)}"
    return text


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Return a program in which the number of stores follows from `n`, in whatever way."""
    inner = draw(st.lists(st.sampled_from(WRAPPERS), max_size=2))
    if draw(st.booleans()):
        init = wrapped("C[vi] = T.float32(0)\n", inner, "t")
        steps = draw(st.sampled_from(["n", "3"]))
        body = textwrap.indent(init, " " * 12) + " " * 8 + "C[vi] = C[vi] + A[vi]\n"
        block = REDUCE.format(steps=steps) + body
    else:
        reads = draw(st.booleans())
        store = "C[vi] = C[vi] + A[vi]\n" if reads else STORE
        if draw(st.booleans()):
            store = f"if vi < n:\n    {store}else:\n    {STORE}"
        body = textwrap.indent(wrapped(store, inner, "t"), "    ")
        block = SPATIAL.format(read=", C[vi]" if reads else "") + body
    around = draw(st.lists(st.sampled_from(WRAPPERS), max_size=2))
    nest = f"for i in range(6):\n{textwrap.indent(wrapped(block, around, 'r'), '    ')}"
    outside = draw(st.lists(st.sampled_from(WRAPPERS), max_size=1))
    return HEAD + textwrap.indent(wrapped(nest, outside, "s"), "    ")


CALLS = {
    "cache_write": lambda s, b: s.cache_write(b, 0, "global"),
    "cache_inplace": lambda s, b: s.cache_inplace(b, 1, "global"),
    "reindex": lambda s, b: s.reindex(b, ("write", 0)),
    "reindex_cache_write": lambda s, b: s.reindex_cache_write(b, 0, "global", lambda *v: v[:1]),
    "write_at": lambda s, b: s.write_at(s.get_loops(b)[0], b, 0, "global"),
    "pad_einsum": lambda s, b: s.pad_einsum(b, [4] * len(s.get(b).iter_vars)),
}


def assert_same(text: str, call: str) -> None:
    """Check that a program computes the same after a call, unless the call is refused."""
    func = parse(text)
    sch = Schedule(func, debug_mask="all")
    block: BlockRV = sch.get_block("C")
    try:
        CALLS[call](sch, block)
    except ScheduleError:
        return
    for n in (0, 1, 3):
        expected = [np.arange(1, 7, dtype="float32"), np.full(6, 9, "float32")]
        actual = [array.copy() for array in expected]
        interpret(func, *expected, n)
        interpret(sch.mod, *actual, n)
        np.testing.assert_array_equal(actual[1], expected[1], f"{call}, n = {n}\n{text}")


@given(programs(), st.sampled_from(sorted(CALLS)))
def test_nothing_is_read_before_it_is_stored(text: str, call: str) -> None:
    assert_same(text, call)


@pytest.mark.parametrize("call", ["cache_write", "reindex", "reindex_cache_write", "write_at"])
@pytest.mark.parametrize(
    ("inner", "around", "outside"),
    [([WRAPPERS[0]], [], []), ([], [WRAPPERS[0]], []), ([], [], [WRAPPERS[0]])],
    ids=["in the block", "around the block", "around the loops"],
)
def test_loops_without_an_iteration_store_nothing(
    call: str, inner: list[str], around: list[str], outside: list[str]
) -> None:
    block = SPATIAL.format(read="") + textwrap.indent(wrapped(STORE, inner, "t"), "    ")
    nest = f"for i in range(6):\n{textwrap.indent(wrapped(block, around, 'r'), '    ')}"
    assert_same(HEAD + textwrap.indent(wrapped(nest, outside, "s"), "    "), call)


@pytest.mark.parametrize("call", ["cache_write", "reindex", "reindex_cache_write", "write_at"])
def test_an_init_that_may_store_nothing_does_not_fill_a_copy(call: str) -> None:
    init = "            for t in range(n):\n                C[vi] = T.float32(0)\n"
    block = REDUCE.format(steps="3") + init + "        C[vi] = C[vi] + A[vi]\n"
    assert_same(
        HEAD + textwrap.indent(f"for i in range(6):\n{textwrap.indent(block, '    ')}", "    "),
        call,
    )


def test_a_reduction_without_steps_needs_no_fill() -> None:
    block = (
        REDUCE.format(steps="n")
        + "            C[vi] = T.float32(0)\n        C[vi] = C[vi] + A[vi]\n"
    )
    text = HEAD + textwrap.indent(f"for i in range(6):\n{textwrap.indent(block, '    ')}", "    ")
    sch = Schedule(parse(text))
    sch.cache_write("C", 0, "global")
    assert len(sch.get_child_blocks(sch.get_block("root"))) == 2


def test_both_branches_of_a_condition_may_store() -> None:
    body = "    if n > 3:\n        C[vi] = A[vi]\n    else:\n        C[vi] = A[vi] * T.float32(2)\n"
    block = SPATIAL.format(read="") + body
    text = HEAD + textwrap.indent(f"for i in range(6):\n{textwrap.indent(block, '    ')}", "    ")
    sch = Schedule(parse(text))
    sch.cache_write("C", 0, "global")
    assert len(sch.get_child_blocks(sch.get_block("root"))) == 2
