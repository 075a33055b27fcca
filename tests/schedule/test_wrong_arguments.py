"""Whatever a primitive is given, it does its work or says what is wrong, and changes nothing then."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedule import BlockRV, InstructionKind, LoopRV, Schedule, ScheduleError
from schedule.decisions.tiles import PartitionedTileDomain, PerfectTileDomain
from schedule.operands.handles import (
    BlockOperand,
    BlockOrLoopOperand,
    BlocksOrLoopOperand,
    LoopOperand,
)
from schedule.operands.operand import Operand
from schedule.random_state import RandomState
from tensorir import parse
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.expr import Var
from tensorir.nodes.ops import const

PROGRAM = parse(
    """\
@T.prim_func
def main(A: T.Buffer((8, 6)), D: T.Buffer((8,))):
    B = T.alloc_buffer((8, 6))
    C = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
    for i, k in T.grid(8, 6):
        with T.block("D"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                D[vi] = T.float32(0)
            D[vi] += C[vi, vk]
"""
)
ANYTHING = [
    None, True, False, 0, 1, 2, 3, -1, -2, 7, 1 << 31, -(1 << 31), 1 << 40, 1 << 63, 10**30, -(10**30),
    0.0, 0.5, 1.0, -1.5, math.nan, math.inf, "", "B", "nothing", "local", "read", "threadIdx.x", "\x00",
    b"B", (), [], {}, set(), [None], [None, None], [0], [-1], [2, 3], [1 << 40, 1 << 40], [10**30, None],
    [[1], [2]], [math.nan], [math.inf, 1.0], [0.5, 0.5], ["B", "C"], ["B", None], {"a": 1}, {1: [2]},
    {"a": {"b": math.nan}}, object(), int, len, lambda: 0, lambda i, j: (j, i), lambda *a: a[::-1],
    lambda i, j: (i + 0.5, j), lambda i, j: None, lambda i, j: (i, i), lambda i, j: "x", lambda i, j: (),
    IndexMap.from_func(lambda i: (i // 2, i % 2), ndim=1), Var("v"), Var("v") + 1, const(3), const(2.5),
    const(True), BlockRV(), LoopRV(), LoopRV.inline_rv(), ("read", 0), ("read", 9), ("write", "x"),
    ("side", 0), ("read", -1), slice(1), range(3), 1j,
]  # fmt: skip
KINDS = [
    kind
    for kind in InstructionKind.all()
    if kind.function.__module__.startswith("schedule.primitives.")
]
values = st.sampled_from(ANYTHING) | st.lists(st.sampled_from(ANYTHING), max_size=3)


def fitting(sch: Schedule, operand: Operand) -> list[object]:
    """Return arguments of the kind that an operand is of, or almost."""
    blocks = [sch.get_block(name) for name in ("B", "C", "D", "root")]
    loops = [loop for block in blocks for loop in sch.get_loops(block)]
    return {
        BlockOperand: [*blocks, "B", "C", blocks[:2]],
        LoopOperand: loops,
        BlockOrLoopOperand: [*blocks, *loops],
        BlocksOrLoopOperand: [*loops, blocks[:2]],
    }.get(type(operand), [0, 1, 2, -1, [None, 2], [2, 4], "local", ("write", 0)])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.method)
@given(data=st.data())
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_call_succeeds_or_says_what_is_wrong(kind, data):
    sch = Schedule(PROGRAM, seed=1, error_render_level="fast")
    args = []
    options = {}
    for param in kind.params:
        good = st.sampled_from(fitting(sch, param.operand))
        value = data.draw(good | good | values, label=param.name)
        if param.keyword_only:
            options[param.name] = value
        elif param.variadic:
            args += value if isinstance(value, list) else [value]
        else:
            args.append(value)
    if kind.has_decision:
        options["decision"] = data.draw(st.none() | values, label="decision")
    before, recorded = sch.mod, list(sch.trace.insts)
    try:
        getattr(sch, kind.method)(*args, **options)
    except ScheduleError as error:
        assert sch.mod is before
        assert sch.trace.insts == recorded
        message = str(error)
        assert message
    else:
        sch.state.verify()
        assert sch.mod is before or not kind.is_pure
        sch.trace.as_json()
        sch.trace.as_python()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s, i: s.sample_perfect_tile(i, 2, 0), "`max_innermost_factor` is 0; it must be at"),
        (lambda s, i: s.sample_perfect_tile(i, 2, -2), "or -1 for no limit"),
        (lambda s, i: s.sample_perfect_tile(i, 10**9), "`n` gives 1000000000 parts: a tile has"),
        (lambda s, i: s.sample_perfect_tile(i, 2, decision=[2, 1.5]), "`decision` takes"),
        (lambda s, i: s.sample_partitioned_tile(i, 2, 2, 4), r"`partition_pos` is 2; .*\[0, 1\]"),
        (lambda s, i: s.sample_partitioned_tile(i, 2, 0, 0), "`innerpart_factor` is 0"),
        (lambda s, i: s.sample_categorical([1, 2], [1.0, math.nan]), r"`probs\[1\]` is nan"),
        (lambda s, i: s.sample_categorical([1, 2], [1.0, -1.0]), r"`probs\[1\]` is -1.0"),
        (lambda s, i: s.sample_categorical([1, 2], [0, 0]), "`probs` has the sum 0"),
        (lambda s, i: s.sample_categorical([1 << 31], [1.0]), r"`candidates\[0\]` is beyond int32"),
        (lambda s, i: s.sample_categorical([1], [1.0], decision="0"), "`decision` takes"),
        (lambda s, i: s.sample_compute_location("B", decision=0.5), "`decision` takes"),
        (lambda s, i: s.unroll(LoopRV.inline_rv()), "marks a compute location"),
        (
            lambda s, i: s.annotate(i, "key", 10**30),
            "the resulting program cannot exist: Literal value",
        ),
        (lambda s, i: s.transform_block_layout("B", int), "is not a valid index map"),
        (lambda s, i: s.get_block("B", "other"), 'unknown function "other"'),
    ],
)
def test_what_is_wrong_is_said(call, words):
    sch = Schedule(PROGRAM, seed=1, error_render_level="fast")
    (i, _) = sch.get_loops("B")
    before = list(sch.trace.insts)
    with pytest.raises(ScheduleError, match=words):
        call(sch, i)
    assert sch.trace.insts == before


@pytest.mark.parametrize("prime", [(1 << 61) - 1, 4294967311 * 2])
def test_an_extent_beyond_32_bits_is_tiled_at_once(prime):
    text = "@T.prim_func\ndef main(A: T.Buffer((1,))):\n    for i in range(T.int64({})):\n"
    text += "        with T.block('A'):\n            vi = T.axis.opaque(T.int64({}), i)\n"
    text += "            A[0] = T.float32(1)\n"
    sch = Schedule(parse(text.format(prime, prime)), seed=1)
    (loop,) = sch.get_loops("A")
    tile = [sch.get(part) for part in sch.sample_perfect_tile(loop, 3, 64)]
    assert math.prod(tile) == prime


def test_a_tile_that_is_hardly_ever_drawn():
    primes = math.prod([2, 3, 5, 7, 11, 13, 17, 19, 23])
    tile = PartitionedTileDomain(primes, 8, 7, primes).sample(RandomState(1))
    assert tile[7] == primes
    tile = PerfectTileDomain(primes, 2, 1).sample(RandomState(1))
    assert tile[1] == 1
    assert math.prod(tile) == primes
