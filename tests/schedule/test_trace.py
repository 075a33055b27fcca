"""Traces: what was done, as data that can be shown, stored, changed and done again."""

from __future__ import annotations

import json

import pytest

from schedule import BlockRV, InstructionKind, Schedule, ScheduleError, Trace, TraceError
from tensorir import assert_structural_equal, parse
from tests.schedule.programs import STAGES

MM = """\
@T.prim_func
def main(X: T.Buffer((128, 32)), W: T.Buffer((32, 64)), Y: T.Buffer((128, 64))):
    for i, j, k in T.grid(128, 64, 32):
        with T.block("mm"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Y[vi, vj] = T.float32(0)
            Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vk, vj]
"""

MM_PYTHON = [
    'b0 = sch.get_block(name="mm", func_name="main")',
    "l1, l2, l3 = sch.get_loops(block=b0)",
    "v4, v5 = sch.sample_perfect_tile(loop=l1, n=2, max_innermost_factor=16, decision=[8, 16])",
    "l6, l7 = sch.split(loop=l1, factors=[v4, v5], preserve_unit_iters=True, "
    "disable_predication=False)",
    "sch.reorder(l6, l2, l3, l7)",
    'b8 = sch.cache_write(block=b0, write_buffer_index=0, storage_scope="global")',
    "sch.reverse_compute_at(block=b8, loop=l6, preserve_unit_loops=True, index=-1)",
    'sch.annotate(block_or_loop=b0, ann_key="my.tag", ann_val="S")',
    "sch.enter_postproc()",
    "b9 = sch.decompose_reduction(block=b0, loop=l2)",
]

MM_JSON = [
    [
        ["GetBlock", [], ["mm", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
        ["SamplePerfectTile", ["l1"], [2, 16], ["v4", "v5"]],
        ["Split", ["l1", "v4", "v5"], [1, 0], ["l6", "l7"]],
        ["Reorder", ["l6", "l2", "l3", "l7"], [], []],
        ["CacheWrite", ["b0", []], [0, "global"], ["b8"]],
        ["ReverseComputeAt", ["b8", "l6"], [1, -1], []],
        ["Annotate", ["b0", '"S"'], ["my.tag"], []],
    ],
    [[2, [8, 16]]],
]

ROW = """\
@T.prim_func
def main(A: T.Buffer(({0},)), C: T.Buffer(({0},))):
    for i in range({0}):
        with T.block("C"):
            vi = T.axis.spatial({0}, i)
            C[vi] = A[vi]
"""


def worked_example() -> Schedule:
    sch = Schedule(parse(MM), debug_mask="all")
    block = sch.get_block("mm")
    i, j, k = sch.get_loops(block)
    factors = sch.sample_perfect_tile(i, n=2, decision=[8, 16])
    i0, i1 = sch.split(i, factors=factors)
    sch.reorder(i0, j, k, i1)
    copy = sch.cache_write(block, 0, "global")
    sch.reverse_compute_at(copy, i0, preserve_unit_loops=True)
    sch.annotate(block, "my.tag", "S")
    sch.enter_postproc()
    sch.decompose_reduction(block, j)
    return sch


def tiled(extent: int = 96, seed: int = 42) -> Schedule:
    """Split the only loop by sampled factors."""
    sch = Schedule(parse(ROW.format(extent)), seed=seed)
    (loop,) = sch.get_loops("C")
    sch.split(loop, sch.sample_perfect_tile(loop, n=3, decision=[4, 3, 8]))
    return sch


def extents(sch: Schedule, block: str = "C") -> list[int]:
    return [sch.get(loop).extent.value for loop in sch.get_loops(block)]


def kinds(trace: Trace) -> list[str]:
    return [inst.kind.name for inst in trace.insts]


def replay(rows: list, decisions: list = (), program: str = STAGES) -> Schedule:
    sch = Schedule(parse(program), debug_mask="all")
    Trace.apply_json_to_schedule([rows, [*decisions]], sch)
    return sch


# ------------------------------------------------------------------------------ the worked example


def test_worked_example_as_python():
    trace = worked_example().trace
    assert trace.as_python() == MM_PYTHON
    assert trace.as_python(remove_postproc=True) == MM_PYTHON[:8]
    calls = "\n".join("  " + line for line in MM_PYTHON)
    assert str(trace) == (
        f"from schedule import Schedule\n\ndef apply_trace(sch: Schedule) -> None:\n{calls}"
    )
    assert trace.script(dialect="tvm") == (
        f"# from tvm import tir\ndef apply_trace(sch: tir.Schedule) -> None:\n{calls}"
    )


def test_worked_example_as_json():
    trace = worked_example().trace
    assert trace.as_json(remove_postproc=True) == MM_JSON
    insts, decisions = trace.as_json()
    assert insts == [
        *MM_JSON[0],
        ["EnterPostproc", [], [], []],
        ["DecomposeReduction", ["b0", "l2"], [], ["b9"]],
    ]
    assert decisions == MM_JSON[1]


# ------------------------------------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("value", "text", "stored"),
    [
        ("SSR", '"SSR"', '"SSR"'),
        ("", '""', '""'),
        (3, "3", 3),
        (0.25, "0.25", 0.25),
        (0.1, "0.10000000000000001", 0.1),
        (1.0, "1.0", 1.0),
        ([1, [2, "x"]], '[1, [2, "x"]]', [1, [2, '"x"']]),
        ({"b": 1, "a": "x"}, '{"a": "x", "b": 1}', {"b": 1, "a": '"x"'}),
    ],
)
def test_values_in_python_and_json(value, text, stored):
    sch = Schedule(parse(ROW.format(8)))
    sch.annotate(sch.get_block("C"), "key", value)
    line = f'sch.annotate(block_or_loop=b0, ann_key="key", ann_val={text})'
    assert sch.trace.as_python()[-1] == line
    rows = json.loads(json.dumps(sch.trace.as_json()))[0]
    assert rows[-1] == ["Annotate", ["b0", stored], ["key"], []]
    again = replay(rows, program=ROW.format(8))
    assert_structural_equal(again.mod, sch.mod)
    assert again.trace.as_json() == sch.trace.as_json()


def test_instructions_as_text():
    insts = worked_example().trace.insts
    assert [str(inst) for inst in insts[:5]] == [
        '_ = sch.get_block(name="mm", func_name="main")',
        "_, _, _ = sch.get_loops(block=_)",
        "_, _ = sch.sample_perfect_tile(loop=_, n=2, max_innermost_factor=16)",
        "_, _ = sch.split(loop=_, factors=[_, _], preserve_unit_iters=True, "
        "disable_predication=False)",
        "sch.reorder(_, _, _, _)",
    ]
    sch = Schedule(parse(ROW.format(96)))
    (loop,) = sch.get_loops("C")
    v = sch.sample_categorical([2, 4], [0.5, 0.5])
    sch.split(loop, [None, v * 2])
    sch.transform_layout("C", "C", lambda i: (i // v, i % v))
    assert "factors=[None, _ * 2]" in str(sch.trace.insts[-3])
    assert "index_map=lambda i: (i // _, i % _,)" in str(sch.trace.insts[-1])


def test_an_instruction_that_was_not_recorded_in_the_trace():
    sch = worked_example()
    with pytest.raises(ValueError, match="not produced by an instruction of the trace"):
        Trace(sch.trace.insts[1:]).as_python()


def test_show(capsys):
    tiled().trace.show()
    assert "sch.sample_perfect_tile(" in capsys.readouterr().out


# --------------------------------------------------------------------------------------- instructions


def test_what_an_instruction_holds():
    inst = worked_example().trace.insts[5]
    assert inst.kind is InstructionKind.get("CacheWrite")
    assert not inst.kind.is_pure
    assert InstructionKind.get("GetBlock").is_pure
    block, consumers = inst.inputs
    assert isinstance(block, BlockRV)
    assert consumers == ()
    assert inst.attrs == (0, "global")
    assert len(inst.outputs) == 1


def test_an_unknown_kind():
    with pytest.raises(AttributeError, match="AttributeError: unknown instruction kind 'Nop'"):
        InstructionKind.get("Nop")


def test_append_and_pop():
    source = tiled().trace
    trace = Trace()
    for inst in source.insts:
        trace.append(inst, source.get_decision(inst))
    assert str(trace) == str(source)
    split, nothing = trace.pop()
    assert split.kind.name == "Split"
    assert nothing is None
    tile, decision = trace.pop()
    assert tile.kind.name == "SamplePerfectTile"
    assert [*decision] == [4, 3, 8]
    assert trace.get_decision(tile) is None
    trace.append(tile)
    assert trace.as_json()[1] == []
    while trace.insts:
        trace.pop()
    assert trace.pop() is None
    assert len(source.insts) == 4


def test_decisions_are_those_of_one_instruction():
    trace = tiled().trace
    _, loops, tile, split = trace.insts
    assert [*trace.get_decision(tile)] == [4, 3, 8]
    assert trace.get_decision(loops) is None
    assert trace.get_decision(split) is None


# ------------------------------------------------------------------------------------ with_decision


def test_with_decision():
    sch = tiled()
    inst = sch.trace.insts[2]
    other = sch.trace.with_decision(inst, [2, 48, 1], remove_postproc=False)
    assert other.get_decision(inst) == [2, 48, 1]
    assert [*sch.trace.get_decision(inst)] == [4, 3, 8]
    assert other.insts == sch.trace.insts
    assert other.insts is not sch.trace.insts
    again = Schedule(parse(ROW.format(96)))
    other.apply_to_schedule(again, remove_postproc=False)
    assert extents(again) == [2, 48, 1]


# --------------------------------------------------------------------------------------- simplified


def test_simplified_drops_what_nothing_uses():
    sch = Schedule(parse(STAGES), seed=1)
    sch.get_block("C")
    block = sch.get_block("B")
    loops = sch.get_loops(block)
    sch.get_consumers(block)
    sch.sample_perfect_tile(loops[1], n=2)
    v = sch.sample_categorical([2, 4], [0.5, 0.5], decision=1)
    sch.split(loops[0], [None, v])
    sch.get_child_blocks(block)
    simple = sch.trace.simplified(remove_postproc=False)
    assert simple.as_python() == [
        'b0 = sch.get_block(name="B", func_name="main")',
        "l1, l2 = sch.get_loops(block=b0)",
        "v3 = sch.sample_categorical(candidates=[2, 4], probs=[0.5, 0.5], decision=1)",
        "l4, l5 = sch.split(loop=l1, factors=[None, v3], preserve_unit_iters=True, "
        "disable_predication=False)",
    ]
    assert simple.as_json()[1] == [[2, 1]]
    assert len(sch.trace.insts) == 8
    again = Schedule(parse(STAGES))
    simple.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


def test_simplified_sees_uses_in_lists_expressions_dicts_and_index_maps():
    sch = Schedule(parse(STAGES))
    producer, consumer = sch.get_block("B"), sch.get_block("C")
    sch.cache_read(consumer, 0, "local", [consumer])
    sch.cache_write(producer, 0, "local", [sch.get_block("B_local")])
    v = [sch.sample_categorical([2, 4], [0.5, 0.5]) for _ in range(4)]
    sch.split(sch.get_loops(consumer)[0], [None, v[0] * 2])
    sch.annotate(consumer, "list", [v[1]])
    sch.annotate(consumer, "dict", {"a": v[2]})
    sch.transform_layout(consumer, "C", lambda i, j: (i // v[3], j, i % v[3]))
    assert kinds(sch.trace.simplified(remove_postproc=False)) == kinds(sch.trace)


def test_simplified_and_postprocessing():
    sch = worked_example()
    assert kinds(sch.trace.simplified(remove_postproc=True)) == [row[0] for row in MM_JSON[0]]
    assert kinds(sch.trace.simplified(remove_postproc=False)) == kinds(sch.trace)
    sch = Schedule(parse(STAGES))
    sch.get_block("B")
    sch.enter_postproc()
    assert kinds(sch.trace.simplified(remove_postproc=False)) == ["EnterPostproc"]
    assert kinds(sch.trace.simplified(remove_postproc=True)) == []


# ------------------------------------------------------------------------------------------- replay


@pytest.mark.parametrize(
    ("extent", "decision", "repaired"),
    [(96, [4, 5, 8], [1, 12, 8]), (96, [4, 3, 8], [4, 3, 8]), (40, [4, 3, 8], [1, 5, 8])],
)
def test_decisions_that_do_not_fit_are_repaired(extent, decision, repaired):
    rows = tiled().trace.as_json()[0]
    sch = replay(rows, [[2, decision]], ROW.format(extent))
    assert extents(sch) == repaired
    assert sch.trace.as_json()[1] == [[2, repaired]]


def test_a_decision_provider_may_ask_for_new_samples():
    drawn = set()
    for seed in range(1, 30):
        sch = Schedule(parse(ROW.format(96)), seed=seed)
        tiled().trace.apply_to_schedule(
            sch, remove_postproc=False, decision_provider=lambda *_: None
        )
        drawn.add(tuple(extents(sch)))
    assert len(drawn) > 5


def test_a_decision_where_there_is_none_to_make():
    sch = Schedule(parse(ROW.format(96)))
    with pytest.raises(ValueError, match="GetBlock: ValueError: the kind accepts no decision"):
        tiled().trace.apply_to_schedule(
            sch, remove_postproc=False, decision_provider=lambda *_: [1]
        )


def test_an_error_leaves_the_steps_before_it():
    source = Schedule(parse(ROW.format(96)))
    (loop,) = source.get_loops("C")
    outer, _ = source.split(loop, [None, 8])
    source.parallel(outer)
    sch = Schedule(parse(ROW.format(96).replace("C[vi] = A[vi]", "C[vi] = C[95 - vi] + A[vi]")))
    with pytest.raises(ScheduleError) as caught:
        source.trace.apply_to_schedule(sch, remove_postproc=False)
    assert caught.value.primitive == "parallel"
    assert kinds(sch.trace) == ["GetBlock", "GetLoops", "Split"]
    assert extents(sch) == [12, 8]


def test_a_handle_that_nothing_before_produced():
    insts = tiled().trace.insts
    sch = Schedule(parse(ROW.format(96)))
    with pytest.raises(IndexError, match="IndexError: the trace uses a random variable before"):
        Trace(insts[1:]).apply_to_schedule(sch, remove_postproc=False)


# ---------------------------------------------------------------------------------------- from JSON

GET = ["GetBlock", [], ["C", "main"], ["b0"]]
LOOPS = ["GetLoops", ["b0"], [], ["l1", "l2"]]
TILE = ["SamplePerfectTile", ["l1"], [2, 16], ["v3", "v4"]]


@pytest.mark.parametrize(
    ("stored", "kind", "words"),
    [
        # The whole is a list of instructions and a list of decisions.
        ({}, ValueError, "its instructions and its decisions"),
        ([], ValueError, "its instructions and its decisions"),
        ([[]], ValueError, "its instructions and its decisions"),
        ([[], [], []], ValueError, "its instructions and its decisions"),
        ([{}, []], ValueError, "its instructions and its decisions"),
        ([[], {}], ValueError, "its instructions and its decisions"),
        (None, ValueError, "its instructions and its decisions"),
        # A decision is an instruction and a value.
        ([[GET, LOOPS, TILE], [2]], ValueError, r"a decision is \[instruction index, value\]"),
        ([[GET, LOOPS, TILE], [[2]]], ValueError, r"a decision is \[instruction index, value\]"),
        ([[GET, LOOPS, TILE], [[2, 1, 1]]], ValueError, "a decision is"),
        ([[GET, LOOPS, TILE], [["2", [1, 8]]]], ValueError, "a decision is"),
        ([[GET, LOOPS, TILE], [[True, [1, 8]]]], ValueError, "a decision is"),
        ([[GET, LOOPS, TILE], [[3, [1, 8]]]], ValueError, "instruction 3, but there are 3"),
        ([[GET, LOOPS, TILE], [[-1, [1, 8]]]], ValueError, "instruction -1, but there are 3"),
        ([[GET, LOOPS, TILE], [[1, 0]]], ValueError, "GetLoops: ValueError: .* takes no decision"),
        # An instruction is a kind, inputs, attributes and outputs.
        ([["GetBlock"], []], ValueError, r"instruction 0 should be \[name, inputs, attrs, outputs"),
        ([[GET[:3]], []], ValueError, "instruction 0 should be"),
        ([[GET, [*LOOPS, []]], []], ValueError, "instruction 1 should be"),
        ([[[1, [], [], []]], []], ValueError, "instruction 0 should be"),
        ([[["GetBlock", "", ["C", "main"], ["b0"]]], []], ValueError, "instruction 0 should be"),
        ([[["GetBlock", [], "C", ["b0"]]], []], ValueError, "instruction 0 should be"),
        ([[["GetBlock", [], ["C", "main"], "b0"]], []], ValueError, "instruction 0 should be"),
        ([[["GetBlock", [], ["C", "main"], [0]]], []], ValueError, "instruction 0 should be"),
        (
            [[GET, ["Shuffle", [], [], []]], []],
            ValueError,
            "unknown instruction kind 'Shuffle'; import",
        ),
        ([[["GetBlok", [], [], []]], []], ValueError, r"kind 'GetBlok'; do you mean 'GetBlock'\?"),
        # Inputs are names, numbers, strings in quotes, and lists and dicts of those.
        ([[GET, ["GetLoops", [None], [], []]], []], TypeError, "an input cannot be None"),
        ([[GET, ["Annotate", ["b0", [1, None]], ["k"], []]], []], TypeError, "an input cannot be"),
        ([[GET, ["GetLoops", [""], [], []]], []], ValueError, "an input is an empty string"),
        ([[GET, ["GetLoops", ["b7"], [], []]], []], ValueError, "variable b7 is not defined"),
        ([[GET, ["GetLoops", ["l1"], [], ["l1"]]], []], ValueError, "variable l1 is not defined"),
        (
            [[GET, ["TransformLayout", ["b0", '{"root": 1}'], [0, 1, None, 0], []]], []],
            TypeError,
            "the object dump is not an index map",
        ),
        ([[GET, ["GetLoops", [3], [], []]], []], ValueError, "3 is not a block"),
        (
            [[GET, ["Unroll", ["b0"], [], []]], []],
            ValueError,
            r"1 \(Unroll\): `loop`: a block is no",
        ),
        (
            [[["GetBlock", [], [3, "main"], []]], []],
            TypeError,
            "`name`: a value is 3, but must be of type str",
        ),
        # Their numbers are those of the kind.
        (
            [[["GetBlock", [], [], ["b0"]]], []],
            ValueError,
            "kNumAttrs: `name` is missing, it has",
        ),
        ([[["GetBlock", [], ["C", "main", 1], ["b0"]]], []], ValueError, "kNumAttrs: 1 too many"),
        ([[GET, ["GetLoops", [], [], []]], []], ValueError, "GetLoops: ValueError: kNumInputs"),
        ([[GET, ["GetLoops", ["b0", "b0"], [], []]], []], ValueError, "kNumInputs: 1 too many"),
        ([[GET, ["GetLoops", ["b0"], [1], []]], []], ValueError, "GetLoops: ValueError: kNumAttrs"),
        (
            [[GET, ["GetLoops", ["b0"], [], ["l1"]]], []],
            ValueError,
            "instruction 1: GetLoops returned",
        ),
        ([[["GetBlock", [], ["C", "main"], []]], []], ValueError, "GetBlock returned 1 outputs"),
    ],
)
def test_malformed_json(stored, kind, words):
    sch = Schedule(parse(STAGES))
    program = sch.mod["main"]
    with pytest.raises(kind, match=words):
        Trace.apply_json_to_schedule(stored, sch)
    assert sch.mod["main"] is program


def test_what_fails_says_which_instruction_it_was():
    rows = [GET, LOOPS, ["Split", ["l1", 0, 4], [1, 0], ["l3", "l4"]]]
    trace = Trace.from_json([rows, []])
    with pytest.raises(ScheduleError) as caught:
        trace.apply_to_schedule(Schedule(parse(STAGES)), remove_postproc=False)
    assert caught.value.__notes__ == ["This was instruction 2 of the trace, Split."]


def test_text_that_is_no_json():
    with pytest.raises(ValueError, match="Expecting"):
        Trace.from_json("[[")


def test_strings_lose_one_pair_of_quotes():
    for text in ("", "b0", '"quoted"', "None", "lambda i: i"):
        sch = replay([GET, ["Annotate", ["b0", f'"{text}"'], ["key"], []]])
        assert sch.get(sch.get_block("C")).annotations["key"] == text


def test_every_output_has_a_name_of_its_own():
    again = ["GetBlock", [], ["B", "main"], ["b0"]]
    with pytest.raises(
        TraceError, match=r"instruction 1 \(GetBlock\): two outputs have the name 'b0'"
    ):
        Trace.from_json([[GET, again], []])
    with pytest.raises(TraceError, match="two outputs have the name 'inline'"):
        Trace.from_json([[["GetBlock", [], ["B", "main"], ["inline"]]], []])


def test_nothing_in_the_json_is_executed(tmp_path):
    target = tmp_path / "made"
    attack = f"__import__('pathlib').Path({str(target)!r}).touch()"
    for text in (attack, f"lambda i, j: ({attack}, j)"):
        rows = [GET, ["TransformLayout", ["b0", text], [0, 1, None, 0], []]]
        with pytest.raises((ValueError, RuntimeError)):
            replay(rows)
    assert not target.exists()


# ------------------------------------------------------------------------------- older releases

PREFIX = [
    ["GetBlock", [], ["B", "main"], ["b0"]],
    ["GetLoops", ["b0"], [], ["l1", "l2"]],
    ["GetBlock", [], ["C", "main"], ["b3"]],
    ["GetLoops", ["b3"], [], ["l4", "l5"]],
]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["Split", ["l1", 2, 4], [], ["l6", "l7"]], ["Split", ["l1", 2, 4], [1, 0], ["l6", "l7"]]),
        (
            ["Split", ["l1", "None", 4], [0], ["l6", "l7"]],
            ["Split", ["l1", "None", 4], [0, 0], ["l6", "l7"]],
        ),
        (["Fuse", ["l1", "l2"], [], ["l6"]], ["Fuse", ["l1", "l2"], [1], ["l6"]]),
        (["ComputeAt", ["b0", "l4"], [1], []], ["ComputeAt", ["b0", "l4"], [1, -1], []]),
        (
            ["ReverseComputeAt", ["b3", "l1"], [0], []],
            ["ReverseComputeAt", ["b3", "l1"], [0, -1], []],
        ),
        (
            ["CacheRead", ["b3"], [0, "local"], ["b6"]],
            ["CacheRead", ["b3", []], [0, "local"], ["b6"]],
        ),
        (
            ["CacheWrite", ["b0"], [0, "local"], ["b6"]],
            ["CacheWrite", ["b0", []], [0, "local"], ["b6"]],
        ),
        (["Blockize", ["l2"], [], ["b6"]], ["Blockize", ["l2"], [1], ["b6"]]),
        (
            ["TransformLayout", ["b0"], [0, 1, "lambda i, j: (j, i)"], []],
            ["TransformLayout", ["b0", "lambda i, j: (j, i,)"], [0, 1, None, 0], []],
        ),
        (
            ["TransformLayout", ["b0"], [0, 1, "lambda i, j: (j, i)", None], []],
            ["TransformLayout", ["b0", "lambda i, j: (j, i,)"], [0, 1, None, 0], []],
        ),
    ],
)
def test_what_older_releases_left_out_is_filled_in(old, new):
    sch = replay([*PREFIX, old])
    assert sch.trace.as_json()[0] == [*PREFIX, new]
    assert_structural_equal(replay([*PREFIX, new]).mod, sch.mod)
