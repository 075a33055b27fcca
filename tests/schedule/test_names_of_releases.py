"""Names that other releases of TVM use are understood."""

from __future__ import annotations

import json

import pytest

from schedule import InstructionKind, Schedule, Trace
from tensorir import parse
from tests.schedule.transformation import apply

TEXT = """\
@T.prim_func
def main(A: T.Buffer((7, 4)), B: T.Buffer((7, 4))):
    for i, j in T.grid(7, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
"""


def test_newest_names_of_methods_and_instructions():
    sch = Schedule(parse(TEXT))
    sch.transform_block_layout(sch.get_sblock("B"), lambda i, j: (j, i))
    assert sch.trace.as_python()[0] == 'b0 = sch.get_block(name="B", func_name="main")'
    stored = json.dumps(sch.trace.as_json())
    newer = stored.replace("GetBlock", "GetSBlock").replace("BlockLayout", "SBlockLayout")
    assert Trace.from_json(newer).as_json() == sch.trace.as_json()
    assert InstructionKind.get("GetSBlock") is InstructionKind.get("GetBlock")


def test_layout_of_a_trace_of_0_9():
    sch = Schedule(parse(TEXT))
    rows = [
        ["GetBlock", [], ["B", "main"], ["b0"]],
        ["TransformLayout", ["b0"], [0, 1, "lambda i, j: (j, i)"], []],
    ]
    Trace.from_json([rows, []]).apply_to_schedule(sch, remove_postproc=False)
    assert sch.trace.as_python()[-1] == (
        'sch.transform_layout(block=b0, buffer=("write", 0), index_map=lambda i, j: (j, i,), '
        "pad_value=None, assume_injective_transform=False)"
    )


def test_bind_is_recorded():
    def call(sch):
        i, j = sch.get_loops(sch.get_block("B"))
        sch.bind(i, "blockIdx.x")
        sch.bind(j, "threadIdx.x")

    sch = apply(TEXT, call)
    assert sch.trace.as_python()[-1] == 'sch.bind(loop=l2, thread_axis="threadIdx.x")'
    assert sch.trace.as_json()[0][-1] == ["Bind", ["l2"], ["threadIdx.x"], []]


@pytest.mark.parametrize(
    "row",
    [
        ["TransformLayout", ["b0", '{"root": 1}'], [0, 1, None, 0], []],
        ["TransformLayout", ["b0", "lambda i, j: (j, i)"], [0, 1, '{"root": 1}', 0], []],
        ["TransformBlockLayout", ["b0"], ['{"root": 1}'], []],
    ],
)
def test_dumps_of_other_objects_are_refused(row):
    rows = [["GetBlock", [], ["B", "main"], ["b0"]], row]
    with pytest.raises(TypeError, match="the object dump is not an index map"):
        Trace.from_json([rows, []])
