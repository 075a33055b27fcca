"""Index maps that TVM saved as graphs of nodes."""

from __future__ import annotations

import json

import pytest

from schedule import Schedule, Trace
from schedule.operands.index_maps import read_index_map
from tensorir import Var, assert_structural_equal, parse

BEFORE = """
@T.prim_func
def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
    B = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * T.float32(2)
"""


def dump(*nodes, root=1):
    """Return a dump of nodes that count from 1, each a type and its attributes, data or text."""
    written = [{"type_key": ""}]
    for kind, content in nodes:
        if isinstance(content, dict):
            written.append({"type_key": kind, "attrs": {k: str(v) for k, v in content.items()}})
        elif isinstance(content, list):
            written.append({"type_key": kind, "data": content})
        else:
            written.append({"type_key": kind, "repr_str": content})
    attrs = {"tvm_version": "0.19.0"}
    return json.dumps({"root": root, "nodes": written, "b64ndarrays": [], "attrs": attrs})


TILED = dump(
    ("tir.IndexMap", {"initial_indices": 2, "final_indices": 8, "inverse_index_map": 0}),
    ("Array", [3, 5]),
    ("tir.Var", {"name": 4, "dtype": "int32", "type_annotation": 0, "span": 0}),
    ("runtime.String", "i"),
    ("tir.Var", {"name": 6, "dtype": "int32", "type_annotation": 0, "span": 0}),
    ("runtime.String", "j"),
    ("IntImm", {"dtype": "int32", "value": 4, "span": 0}),
    ("Array", [9, 5, 10]),
    ("tir.FloorDiv", {"a": 3, "b": 7, "dtype": "int32", "span": 0}),
    ("tir.FloorMod", {"a": 3, "b": 7, "dtype": "int32", "span": 0}),
)


def test_reads_the_map():
    assert str(read_index_map(TILED, {})) == "lambda i, j: (i // 4, j, i % 4,)"


def test_a_variable_of_the_trace_stands_for_what_was_sampled():
    text = dump(
        ("tir.IndexMap", {"initial_indices": 2, "final_indices": 5, "inverse_index_map": 0}),
        ("Array", [3]),
        ("tir.Var", {"name": 4, "dtype": "int32"}),
        ("runtime.String", "i"),
        ("Array", [6]),
        ("tir.FloorDiv", {"a": 3, "b": 7}),
        ("tir.Var", {"name": 8, "dtype": "int32"}),
        ("runtime.String", "v2"),
    )
    sampled = Var("v2", "int32")
    index_map = read_index_map(text, {"v2": sampled})
    assert index_map.final_indices[0].b is sampled


def test_a_trace_with_a_dump_replays():
    rows = [
        ["GetBlock", [], ["B", "main"], ["b0"]],
        ["TransformLayout", ["b0", TILED], [0, 1, None, 0], []],
    ]
    replayed = Schedule(parse(BEFORE))
    Trace.apply_json_to_schedule([rows, []], replayed)
    expected = Schedule(parse(BEFORE))
    expected.transform_layout("B", ("write", 0), lambda i, j: (i // 4, j, i % 4))
    assert_structural_equal(replayed.mod, expected.mod)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not an index map"),
        ("{}", "nodes"),
        (dump(("Array", [])), "its root is a Array"),
        (dump(("tir.IndexMap", {"initial_indices": 2, "final_indices": 9})), "not an index map"),
        (
            dump(
                ("tir.IndexMap", {"initial_indices": 2, "final_indices": 3}),
                ("Array", []),
                ("Array", [4]),
                ("tir.Call", {"op": 0}),
            ),
            "a node of type Call",
        ),
        (
            dump(
                ("tir.IndexMap", {"initial_indices": 2, "final_indices": 3}),
                ("Array", []),
                ("Array", [4]),
                ("tir.Add", {"a": 4, "b": 4}),
            ),
            "not an index map",
        ),
    ],
)
def test_anything_else_is_refused(text, words):
    with pytest.raises(TypeError, match=words):
        read_index_map(text, {})
