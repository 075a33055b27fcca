"""The explorer: what it shows of a schedule, and what it does on request."""

from __future__ import annotations

import json

import pytest

from schedule import Schedule
from schedule.library import microkernel
from search.errors import ArgumentError, TuningError
from search.explorer import Explorer
from search.explorer.accesses import block_accesses
from tensorir import assert_structural_equal, parse
from tensorir.function import IRModule, PrimFunc
from tests.matmul import matmul

TARGET = "llvm -mcpu=znver3 -num-cores=1"
MATMUL = parse(matmul(32, 128, 64, noalias=True))


def tiled(mod: PrimFunc = MATMUL) -> Schedule:
    sch = Schedule(mod)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, 2, decision=[4, 8]))
    sch.reorder(i0, k, i1, j)
    sch.sample_categorical([1, 2, 4], [0.5, 0.25, 0.25], decision=1)
    return sch


def test_the_program_after_each_step() -> None:
    explorer = Explorer(tiled(), TARGET)
    data = explorer.data(whole=True)
    assert [step["text"] for step in data["steps"]] == [
        'b0 = sch.get_block(name="C", func_name="main")',
        "l1, l2, l3 = sch.get_loops(block=b0)",
        "v4, v5 = sch.sample_perfect_tile(loop=l1, n=2)",
        "l6, l7 = sch.split(loop=l1, factors=[v4, v5])",
        "sch.reorder(l6, l3, l7, l2)",
        "v8 = sch.sample_categorical(candidates=[1, 2, 4], probs=[0.5, 0.25, 0.25])",
    ]
    assert data["shown"] == [0, 0, 0, 0, 1, 2, 2]
    assert [step["pure"] for step in data["steps"]] == [True, True, True, False, False, True]
    lines = [text.strip() for text, _ in data["programs"][2]["lines"]]
    assert "for i_0, k, i_1, j in T.grid(4, 64, 8, 128):" in lines
    assert json.loads(json.dumps(data)) == data


def test_the_decisions_and_their_alternatives() -> None:
    steps = Explorer(tiled(), TARGET).data()["steps"]
    assert [step["decision"] for step in steps if step["decision"]] == [
        {"kind": "tile", "value": [4, 8], "extent": 32, "limit": 16},
        {"kind": "choice", "value": 1, "options": [[0, "1"], [1, "2"], [2, "4"]]},
    ]


def test_the_parts_of_a_line_and_their_facts() -> None:
    explorer = Explorer(tiled(), TARGET)
    view = explorer.view(len(explorer))
    keys = {text.strip(): keys for text, keys in view["lines"]}
    assert keys["for i_0, k, i_1, j in T.grid(4, 64, 8, 128):"] == ["L0", "L1", "L2", "L3", "B0"]
    store = "C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]"
    assert keys[store][:3] == ["D:C", "D:A", "D:B"]
    assert view["parts"]["B1"]["label"] == "block C"
    assert view["parts"]["L2"]["facts"] == [
        "8 iterations, serial",
        "touches 4.53 KiB (fits L1): C 4 KiB, B 512 bytes, A 32 bytes",
    ]
    assert view["parts"]["L2"]["bytes"] == 4096 + 512 + 32
    assert view["parts"]["D:B"]["facts"] == ["64 x 128 float32, global memory", "32 KiB"]
    assert view["parts"]["B1"]["share"] == pytest.approx(1.0)
    assert view["cycles"] > 0


def test_instructions_belong_to_the_blocks_that_they_compute() -> None:
    sch = Schedule(MATMUL)
    microkernel(sch, sch.get_block("C"), rows=4, columns=16, lanes=8)
    explorer = Explorer(sch, TARGET)
    machine = explorer.details()["machine"]
    labels = {key: part["label"] for key, part in explorer.view(len(explorer))["parts"].items()}
    updates = [keys for text, keys in machine["asm"] if "vfmadd" in text]
    assert len(updates) >= 8
    assert {labels[keys[0]] for keys in updates} == {"block C_update"}
    assert all("loop k" in [labels[key] for key in keys] for keys in updates)
    assert machine["facts"]["D:C"][-1] == "sums in registers while k runs, 8 vectors of 8"
    assert machine["facts"]["D:B"] == [
        "load for update of C: 2 vectors of 8 (contiguous) in each iteration of k, "
        "moves by 128 elements"
    ]


def test_why_a_schedule_is_slow() -> None:
    sch = Schedule(MATMUL)
    i, j, k = sch.get_loops("C")
    sch.reorder(j, k, i)
    explorer = Explorer(sch, TARGET)
    assert explorer.view(len(explorer))["peak"] < 0.05
    facts = explorer.details()["machine"]["facts"]
    assert facts["D:A"] == [
        "load for update of C: 1 element in each iteration of i, moves by 64 elements"
    ]
    assert facts["D:C"][-1].startswith(
        "sums in memory while k runs, 1 element (8 would hide the latency of an update): an access"
    )


def test_accesses_in_their_order() -> None:
    explorer = Explorer(tiled(), TARGET)
    loads = {a["buffer"]: a["at"] for a in explorer.details()["accesses"]["B1"]}
    assert loads["B"][:130] == [*range(128), 0, 1]
    assert loads["A"][127:129] == [0, 64]


def test_iterations_beyond_the_end_access_nothing() -> None:
    mod = parse("""
    @T.prim_func
    def main(A: T.Buffer((10,)), B: T.Buffer((10,))):
        for i in range(10):
            with T.block("B"):
                vi = T.axis.spatial(10, i)
                B[vi] = A[vi]
    """)
    sch = Schedule(mod)
    sch.split(sch.get_loops("B")[0], [None, 4])
    (accesses,) = Explorer(sch, TARGET).details()["accesses"].values()
    assert [access["at"] for access in accesses] == [list(range(10))] * 2


def accesses_of(program: str) -> dict[str, list[tuple[str, list[int | None]]]]:
    """The accesses of each block of a program, such as `("load of A", [0, None, 1])`."""
    return {
        key: [(f"{a['kind']} of {a['buffer']}", a["at"]) for a in accesses]
        for key, accesses in block_accesses(parse(program)).items()
    }


def test_a_value_under_a_condition_is_loaded_where_it_holds() -> None:
    found = accesses_of("""
    @T.prim_func
    def main(A: T.Buffer((4,)), C: T.Buffer((2,)), B: T.Buffer((6,))):
        for i in range(6):
            with T.block("B"):
                v = T.axis.spatial(6, i)
                B[v] = T.if_then_else(1 <= v and v < 5, A[v - 1], C[v // 5])
    """)
    assert found == {
        "B1": [
            ("load of A", [None, 0, 1, 2, 3, None]),
            ("load of C", [0, None, None, None, None, 1]),
            ("store of B", [0, 1, 2, 3, 4, 5]),
        ]
    }


def test_the_right_side_of_and_and_or_is_loaded_if_the_left_side_leaves_it_open() -> None:
    found = accesses_of("""
    @T.prim_func
    def main(A: T.Buffer((4,), "bool"), B: T.Buffer((4,), "bool"), C: T.Buffer((4,), "bool")):
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                B[v] = 1 <= v and A[v - 1]
                C[v] = 3 <= v or A[v + 1]
    """)
    assert found == {
        "B1": [
            ("load of A", [None, 0, 1, 2]),
            ("store of B", [0, 1, 2, 3]),
            ("load of A", [1, 2, 3, None]),
            ("store of C", [0, 1, 2, 3]),
        ]
    }


def test_both_branches_of_an_if_are_shown() -> None:
    found = accesses_of("""
    @T.prim_func
    def main(A: T.Buffer((4,)), B: T.Buffer((4,))):
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                if v < 2:
                    B[v] = A[v]
                else:
                    B[v] = A[v - 2]
    """)
    assert found == {
        "B1": [
            ("load of A", [0, 1, None, None]),
            ("store of B", [0, 1, None, None]),
            ("load of A", [None, None, 0, 1]),
            ("store of B", [None, None, 2, 3]),
        ]
    }


def test_a_sum_is_initialised_in_its_first_iteration() -> None:
    found = accesses_of("""
    @T.prim_func
    def main(A: T.Buffer((2, 3)), B: T.Buffer((2,))):
        for i, k in T.grid(4, 3):
            with T.block("B"):
                T.where(1 <= i and i < 3)
                v, r = T.axis.spatial(2, i - 1), T.axis.reduce(3, k)
                with T.init():
                    B[v] = T.float32(0)
                B[v] = B[v] + A[v, r]
    """)
    assert found == {
        "B1": [
            ("store of B", [0, None, None, 1, None, None]),
            ("load of B", [0, 0, 0, 1, 1, 1]),
            ("load of A", [0, 1, 2, 3, 4, 5]),
            ("store of B", [0, 0, 0, 1, 1, 1]),
        ]
    }


def test_a_block_that_runs_an_unknown_number_of_times_is_left_out() -> None:
    found = accesses_of("""
    @T.prim_func
    def main(A: T.Buffer((1,), "int32"), B: T.Buffer((1,))):
        while A[0] > 0:
            with T.block("B"):
                v = T.axis.spatial(1, 0)
                B[v] = T.float32(0)
                A[v] = A[v] - 1
    """)
    assert found == {}


def test_only_the_first_iterations_of_long_loops_are_computed() -> None:
    found = accesses_of("""
    @T.prim_func
    def main(B: T.Buffer((1 << 31, 1 << 31))):
        for i, j in T.grid(T.int64(1 << 31), T.int64(1 << 31)):
            with T.block("B"):
                v, w = T.axis.remap("SS", [i, j])
                B[v, w] = T.float32(0)
    """)
    assert found == {"B1": [("store of B", list(range(512)))]}


def test_accesses_that_depend_on_data_are_left_out() -> None:
    mod = parse("""
    @T.prim_func
    def main(A: T.Buffer((8,)), at: T.Buffer((8,), "int32"), n: T.int32, B: T.Buffer((8,))):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[at[vi]]
    """)
    assert Explorer(Schedule(mod), TARGET).details()["accesses"] == {}


def test_a_schedule_for_a_gpu() -> None:
    sch = Schedule(MATMUL)
    i, j, _ = sch.get_loops("C")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    explorer = Explorer(sch, "opencl")
    view = explorer.view(len(explorer))
    assert view["cycles"] is None
    assert view["parts"]["L1"]["facts"] == ["128 iterations, bound to threadIdx.x"]
    lines = [text for text, _ in explorer.details()["machine"]["asm"]]
    assert any("main_kernel" in line for line in lines)


def test_a_decision_is_changed() -> None:
    sch = tiled()
    explorer = Explorer(sch, TARGET)
    explorer.decide(2, [2, 16])
    assert "T.grid(2, 64, 16, 128)" in explorer.program().script()
    assert "T.grid(4, 64, 8, 128)" in sch.mod.script()
    again = Schedule(MATMUL)
    explorer.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, explorer.sch.mod)


def test_a_wrong_request_changes_nothing() -> None:
    explorer = Explorer(tiled(), TARGET)
    before = explorer.program()
    with pytest.raises(ArgumentError, match=r"step 0 has no decision; .* are \[2, 5\]"):
        explorer.decide(0, [4, 8])
    with pytest.raises(ArgumentError, match="there is no step 9; steps are 0 to 6"):
        explorer.view(9)
    for request in (
        {"do": "decide", "step": 2, "decision": "x"},
        {"do": "decide", "step": 5, "decision": 7},
        {"do": "view", "step": 99},
        {"do": "explode", "step": 0},
        {"do": "view"},
        {},
    ):
        assert explorer.respond(request)["error"], request
    assert explorer.program() is before


def test_answers_to_the_browser() -> None:
    explorer = Explorer(tiled(), TARGET)
    answer = explorer.respond({"do": "decide", "step": 2, "decision": [8, 4]})
    assert answer["data"]["steps"][2]["decision"]["value"] == [8, 4]
    assert [view is None for view in answer["data"]["programs"]] == [True, True, False]
    assert explorer.respond({"do": "view", "step": 0})["view"]["lines"]
    assert explorer.respond({"do": "details", "step": 0})["details"]["machine"]["asm"]
    assert "error" not in json.dumps(answer)


def test_a_program_is_measured_in_another_process() -> None:
    explorer = Explorer(tiled(), "llvm -num-cores=1")
    assert 0 < explorer.measure() < 1
    assert explorer.view(len(explorer))["seconds"] == explorer.measured[explorer.program()]


def test_a_program_that_cannot_be_measured() -> None:
    mod = parse("""
    @T.prim_func
    def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = T.call_extern("float32", "no_such_function", A[vi])
    """)
    explorer = Explorer(Schedule(mod), "llvm -num-cores=1")
    with pytest.raises(TuningError):
        explorer.measure()


def test_the_page_is_one_small_file(tmp_path) -> None:
    path = Explorer(tiled(), TARGET).save(tmp_path / "x.html")
    text = path.read_text()
    assert path.stat().st_size < 150_000
    assert text.count("</script>") == 2
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text


def test_a_frame_says_what_is_in_it() -> None:
    assert (
        ' title="Explorer of main: 6 instructions, 2 decisions" '
        in Explorer(tiled(), TARGET)._repr_html_()
    )


def test_a_module_of_several_functions() -> None:
    sch = Schedule(IRModule({"f": MATMUL, "g": MATMUL}))
    with pytest.raises(ArgumentError, match=r"give the function to explore: .* \['f', 'g'\]"):
        Explorer(sch, TARGET)
    with pytest.raises(ArgumentError, match="unknown function 'h'"):
        Explorer(sch, TARGET, "h")
    assert Explorer(sch, TARGET, "g").data()["title"] == "g"
