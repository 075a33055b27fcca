"""The schedule as an object: how it is made, what it knows, how handles live and errors read."""

from __future__ import annotations

import numpy as np
import pytest

from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from tensorir import IRModule, assert_structural_equal, parse
from tensorir.errors import WellFormedError
from tensorir.nodes.expr import Var
from tensorir.nodes.stmt import Block, For
from tests.schedule.programs import STAGES

COPY = """\
@T.prim_func
def {name}(A: T.Buffer((96,)), C: T.Buffer((96,))):
    for i in range(96):
        with T.block("C"):
            vi = T.axis.spatial(96, i)
            C[vi] = A[vi]
"""


def functions(*names: str) -> IRModule:
    return IRModule({name: parse(COPY.format(name=name)) for name in names})


@pytest.fixture
def sch() -> Schedule:
    return Schedule(parse(STAGES), seed=42, debug_mask="all")


# ------------------------------------------------------------------------------------- constructor


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"mod": 3}, TypeError, "Schedule takes an IRModule or PrimFunc, got int"),
        ({"mod": STAGES}, TypeError, "Schedule takes an IRModule or PrimFunc, got str"),
        ({"seed": "1"}, TypeError, "seed takes an int or None, got str"),
        ({"seed": 1.0}, TypeError, "seed takes an int or None, got float"),
        ({"seed": np.int64(1)}, TypeError, "seed takes an int or None, got int64"),
        ({"seed": 0}, ValueError, r"seed must be an int in \[1, 2147483647\], got 0"),
        ({"seed": -1}, ValueError, "got -1"),
        ({"seed": 2147483648}, ValueError, "got 2147483648"),
        (
            {"debug_mask": "some"},
            ValueError,
            "debug_mask must be 'all', 'none' or an int, got 'some'",
        ),
        ({"debug_mask": 1.0}, TypeError, "debug_mask takes a str or int, got float"),
        ({"debug_mask": None}, TypeError, "debug_mask takes a str or int, got NoneType"),
        ({"debug_mask": -2}, ValueError, "debug_mask must be at least -1, got -2"),
        ({"error_render_level": "short"}, ValueError, "'detail', 'fast' or 'none', got 'short'"),
        ({"error_render_level": None}, ValueError, "'detail', 'fast' or 'none', got None"),
        ({"enable_check": 1}, TypeError, "enable_check takes a bool, got int"),
        ({"enable_check": None}, TypeError, "enable_check takes a bool, got NoneType"),
    ],
)
def test_arguments_that_are_refused(options, kind, words):
    options = {"mod": parse(STAGES), **options}
    with pytest.raises(kind, match=words):
        Schedule(options.pop("mod"), **options)


def test_options_go_by_keyword_only():
    with pytest.raises(TypeError, match="positional"):
        Schedule(parse(STAGES), 1)


def test_programs_that_are_not_well_formed_are_refused():
    text = STAGES.replace("A[vi, vj]", "A[i, vj]")
    with pytest.raises(WellFormedError, match="loop variable i"):
        Schedule(parse(text, check_well_formed=False))


@pytest.mark.parametrize(
    ("mask", "bits"),
    [("none", 0), ("all", 3), (0, 0), (1, 1), (2, 2), (3, 3), (-1, 3), (True, 1), (False, 0)],
)
def test_debug_mask(mask, bits):
    sch = Schedule(parse(STAGES), debug_mask=mask)
    assert sch.state.debug_mask == bits
    sch.compute_inline("B")


@pytest.mark.parametrize("seed", [1, 42, 2147483647])
def test_a_seed_determines_what_is_drawn(seed):
    first, second = (Schedule(parse(STAGES), seed=seed) for _ in range(2))
    assert [first.fork_seed() for _ in range(5)] == [second.fork_seed() for _ in range(5)]


def test_without_a_seed_schedules_differ():
    assert len({Schedule(parse(STAGES)).fork_seed() for _ in range(5)}) > 1


# ------------------------------------------------------------------------- the function worked on


def test_the_function_that_is_worked_on():
    assert Schedule(parse(STAGES)).func_working_on.name_hint == "main"
    assert Schedule(functions("f", "main")).func_working_on.name_hint == "main"
    assert Schedule(functions("f")).func_working_on.name_hint == "f"
    assert Schedule(functions("f", "g")).func_working_on is None
    entry = parse(
        COPY.format(name="g").replace(
            "):\n", '):\n    T.func_attr({"tir.is_entry_func": True})\n', 1
        )
    )
    mod = IRModule({**functions("f", "main").functions, "g": entry})
    assert Schedule(mod).func_working_on.name_hint == "g"


def test_blocks_are_looked_up_in_the_function_that_is_worked_on():
    sch = Schedule(functions("f", "g"))
    with pytest.raises(ValueError, match=r"get_block needs func_name: .*\['f', 'g'\]"):
        sch.get_block("C")
    sch.get_block("C", func_name="f")
    sch.work_on("g")
    assert sch.func_working_on.name_hint == "g"
    sch.parallel(sch.get_loops(sch.get_block("C"))[0])
    assert "T.parallel" in sch.mod["g"].script()
    assert "T.parallel" not in sch.mod["f"].script()
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="C", func_name="f")',
        'b1 = sch.get_block(name="C", func_name="g")',
        "l2, = sch.get_loops(block=b1)",
        "sch.parallel(loop=l2)",
    ]


def test_unknown_functions(sch):
    with pytest.raises(ValueError, match=r'Cannot find global var "f" .*it has \[\'main\'\]'):
        sch.work_on("f")
    with pytest.raises(ValueError, match=r'unknown function "f"; the module has \[\'main\'\]'):
        sch.get_block("C", func_name="f")
    assert sch.func_working_on.name_hint == "main"
    assert not sch.trace.insts


# ---------------------------------------------------------------------------------- mod and trace


def test_modules_that_were_handed_out_do_not_change(sch):
    before, text = sch.mod, sch.mod.script()
    assert sch.mod is before
    sch.compute_inline("B")
    assert sch.mod is not before
    assert before.script() == text


def test_what_is_not_recorded(sch):
    block = sch.get_block("B")
    sch.work_on("main")
    sch.seed(3)
    sch.fork_seed()
    sch.copy()
    sch.get(block)
    sch.get_sref(block)
    sch.can_decompose_padding(block, sch.get_loops(block)[0])
    sch.remove_rv(block)
    assert [inst.kind.name for inst in sch.trace.insts] == ["GetBlock", "GetLoops"]


def test_show(sch, capsys):
    sch.get_block("B")
    sch.show()
    shown = capsys.readouterr().out
    assert shown.index("def main(") < shown.index("def apply_trace(") < shown.index("b0 = sch.")


# ------------------------------------------------------------------------------------------- seeds


def test_fork_seed_of_known_seeds(sch):
    assert sch.fork_seed() == 431226885
    # The state advances as if a number had been drawn: the second one after seed 42.
    assert sch.fork_seed() == 1226992407 * 32767 % 1999999973
    sch.seed(42)
    assert sch.fork_seed() == 431226885
    sch.seed(1)
    drawn = [48271, 182605794, 1291394886]
    assert [sch.fork_seed() for _ in drawn] == [n * 32767 % 1999999973 for n in drawn]


@pytest.mark.parametrize(("seed", "same"), [(0, 1), (2147483647, 1), (2147483689, 42)])
def test_seeds_are_taken_modulo_the_range_of_the_engine(sch, seed, same):
    sch.seed(seed)
    first = sch.fork_seed()
    sch.seed(same)
    assert sch.fork_seed() == first


def test_seed_from_the_device_and_seeds_that_are_refused(sch):
    drawn = set()
    for _ in range(5):
        sch.seed(-1)
        drawn.add(sch.fork_seed())
    assert len(drawn) > 1
    with pytest.raises(ValueError, match=r"-1 \(taken from the device\) or at least 0, got -2"):
        sch.seed(-2)
    for wrong in ("1", 1.5, None):
        with pytest.raises(TypeError, match=r"Schedule\.seed: `seed` takes an int, got"):
            sch.seed(wrong)


# ----------------------------------------------------------------------------------------- handles


def test_get(sch):
    block = sch.get_block("B")
    i, j = sch.get_loops(block)
    assert isinstance(sch.get(block), Block)
    assert sch.get(block).name_hint == "B"
    assert isinstance(sch.get(j), For)
    assert sch.get(j).loop_var.name == "j"
    assert sch.get(sch.get_sref(i)) is sch.get(i)
    v = sch.sample_categorical([3, 5], [0.5, 0.5], decision=1)
    assert isinstance(v, Var)
    assert str(v.dtype) == "int32"
    assert sch.get(v) == 5
    assert sch.get(v * 4 + 1) == 21
    assert sch.get(v - v) == 0
    with pytest.raises(ValueError, match="is not a constant number"):
        sch.get(sch.get(i).extent + sch.get(sch.get_block("C")).body.value.b)


def test_get_sref(sch):
    block = sch.get_block("B")
    i, _ = sch.get_loops(block)
    sref = sch.get_sref(block)
    assert sch.get_sref(sref.stmt) is sref
    assert sch.get_sref(sch.get(i)) is sch.get_sref(i)
    assert sch.get_sref(sch.get_block("B")) is sref
    old = sch.get(block)
    sch.annotate(block, "key", 1)
    assert sref.stmt is sch.get(block)
    with pytest.raises(IndexError, match="not part of the schedule's current program"):
        sch.get_sref(old)


def test_remove_rv(sch):
    block = sch.get_block("B")
    loop, _ = sch.get_loops(block)
    v = sch.sample_categorical([2, 4], [0.5, 0.5])
    for rv in (block, loop, v):
        sch.remove_rv(rv)
        with pytest.raises(IndexError, match="does not belong to this schedule"):
            sch.get(rv)
        with pytest.raises(IndexError, match="does not belong to this schedule"):
            sch.remove_rv(rv)
    with pytest.raises(IndexError, match="the number"):
        sch.get(v + 1)


def test_handles_that_no_schedule_made(sch):
    for unknown, call in (
        (BlockRV(), sch.get_loops),
        (LoopRV(), sch.parallel),
        (Var("v", "int32"), sch.get),
    ):
        with pytest.raises(IndexError, match="does not belong to this schedule"):
            call(unknown)
    assert not sch.trace.insts


def test_a_handle_whose_loop_is_gone(sch):
    loops = sch.get_loops("B")
    sch.fuse(*loops)
    for loop in loops:
        with pytest.raises(ValueError, match="no longer exists: fuse replaced it"):
            sch.parallel(loop)
    assert sch.trace.insts[-1].kind.name == "Fuse"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: s.get(3), r"Schedule\.get_sref: `rv_or_stmt` takes a BlockRV, LoopRV, Block or"),
        (lambda s: s.get_sref("B"), r"Schedule\.get_sref: `rv_or_stmt` takes .*, got str: 'B'"),
        (
            lambda s: s.remove_rv("B"),
            r"Schedule\.remove_rv: `rv` takes a BlockRV, LoopRV or ExprRV",
        ),
        (lambda s: s.work_on(3), r"Schedule\.work_on: `func_name` takes a str, got int: 3"),
        (lambda s: s.get_block(3), r"Schedule\.get_block: `name` takes str, got int: 3"),
        (lambda s: s.get_block("B", 3), r"Schedule\.get_block: `func_name` takes str \| None, got"),
        (lambda s: s.get_block(), r"Schedule\.get_block\(\) is missing the argument 'name'"),
        (lambda s: s.get_block("B", title=1), r"get_block\(\) got an unexpected argument 'title'"),
        (lambda s: s.get_block("B", "main", 1), r"get_block\(\) got too many arguments"),
        (lambda s: s.get_block("B", name="B"), r"got multiple values for argument 'name'"),
        (lambda s: s.get_loops(1.5), r"Schedule\.get_loops: `block` takes a BlockRV or the name"),
        (lambda s: s.parallel("i"), r"Schedule\.parallel: `loop` takes a LoopRV, got str: 'i'"),
        (
            lambda s: s.parallel(s.get_block("B")),
            r"Schedule\.parallel: `loop` takes a LoopRV, got BlockRV",
        ),
        (
            lambda s: s.split(s.get_loops("B")[0], [np.int64(2), None]),
            r"Schedule\.split: `factors\[0\]` takes an int, an ExprRV or None, got int64",
        ),
        (
            lambda s: s.split(s.get_loops("B")[0], [2, "4"]),
            r"Schedule\.split: `factors\[1\]` takes an int, an ExprRV or None, got str: '4'",
        ),
        (
            lambda s: s.split(s.get_loops("B")[0], 2),
            r"Schedule\.split: `factors` takes a list of int, ExprRV or None, got int: 2",
        ),
        (
            lambda s: s.split(s.get_loops("B")[0], [2, 4], preserve_unit_iters=1),
            r"Schedule\.split: `preserve_unit_iters` takes bool, got int: 1",
        ),
        (
            lambda s: s.reorder(s.get_loops("B")[0], 3),
            r"Schedule\.reorder: `ordered_loops\[1\]` takes a LoopRV, got int: 3",
        ),
        (
            lambda s: s.annotate(s.get_block("B"), "key", object()),
            r"Schedule\.annotate: `ann_val` takes a str, int, float, ExprRV",
        ),
        (
            lambda s: s.annotate(s.get_block("B"), "key", {"a": [1, None]}),
            r"Schedule\.annotate: `ann_val\['a'\]\[1\]` takes a str",
        ),
        (
            lambda s: s.annotate("B", "key", 1),
            r"Schedule\.annotate: `block_or_loop` takes a BlockRV",
        ),
    ],
)
def test_wrong_types_name_the_method_and_the_parameter(sch, call, words):
    program = sch.mod["main"]
    with pytest.raises(TypeError, match=words):
        call(sch)
    assert sch.mod["main"] is program
    assert all(inst.kind.is_pure for inst in sch.trace.insts)


def test_tuples_stand_for_lists_and_booleans_for_integers(sch):
    i, _ = sch.get_loops("B")
    _, inner = sch.split(i, (4, 2))
    assert sch.get(inner).extent.value == 2
    sch.compute_at("B", sch.get_loops("C")[0], index=False)
    assert sch.trace.as_json()[0][-1][2] == [0, 0]


# ------------------------------------------------------------------------------------------- copies


def test_copies_are_independent(sch):
    block = sch.get_block("B")
    loops = sch.get_loops(block)
    twin = sch.copy()
    assert twin.mod["main"] is sch.mod["main"]
    assert twin.trace is not sch.trace
    assert twin.trace.as_json() == sch.trace.as_json()
    text = sch.mod.script()
    twin.fuse(*loops)
    assert sch.mod.script() == text
    assert len(sch.trace.insts) == 2
    assert len(twin.trace.insts) == 3
    sch.parallel(loops[0])
    assert "parallel" not in twin.mod.script()
    with pytest.raises(ValueError, match="no longer exists"):
        twin.get(loops[0])


def test_handles_made_before_a_copy_are_valid_in_both(sch):
    block = sch.get_block("B")
    loop = sch.get_loops(block)[0]
    v = sch.sample_categorical([2, 4], [0.5, 0.5], decision=1)
    twin = sch.copy()
    for one in (sch, twin):
        outer, inner = one.split(loop, [None, v])
        assert one.get(inner).extent.value == 4
        assert one.get(block).name_hint == "B"
        other = twin if one is sch else sch
        for new in (outer, inner):
            with pytest.raises(IndexError, match="does not belong to this schedule"):
                other.get(new)
    assert_structural_equal(sch.mod, twin.mod)
    assert sch.trace.as_json() == twin.trace.as_json()


def test_the_random_state_of_a_copy_is_forked(sch):
    twin = sch.copy()
    expected = Schedule(parse(STAGES), seed=431226885)
    assert twin.fork_seed() == expected.fork_seed()
    advanced = Schedule(parse(STAGES), seed=2027382)
    assert sch.fork_seed() == advanced.fork_seed()


def test_copies_keep_the_settings():
    sch = Schedule(functions("f", "g"), debug_mask=2, error_render_level="fast", enable_check=False)
    sch.work_on("g")
    twin = sch.copy()
    assert twin.func_working_on.name_hint == "g"
    assert twin.error_render_level == "fast"
    assert twin.state.debug_mask == 2
    assert twin.state.enable_check is False
    twin.work_on("f")
    assert sch.func_working_on.name_hint == "g"


# ------------------------------------------------------------------------------------------- errors


def failure(level: str) -> ScheduleError:
    sch = Schedule(parse(STAGES), error_render_level=level)
    with pytest.raises(ScheduleError) as caught:
        sch.compute_at("B", sch.get_loops("B")[0])
    return caught.value


def test_errors_in_detail():
    assert (
        str(failure("detail"))
        == """\
compute-at: block "B" is already below loop `i` [NotInSameScopeError]

from tensorir import I, T

@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
        # with T.block("root"):
        B = T.alloc_buffer((8, 6))
        for i, j in T.grid(8, 6):
            ^
            with T.block("B"):
            ^^^^^^^^^^^^^^^^^^
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi, vj])
                T.writes(B[vi, vj])
                B[vi, vj] = A[vi, vj] * T.float32(2.0)
        for x, y in T.grid(8, 6):
            with T.block("C"):
                vx, vy = T.axis.remap("SS", [x, y])
                T.reads(B[vx, vy])
                T.writes(C[vx, vy])
                C[vx, vy] = B[vx, vy] + T.float32(1.0)

Hint: give a loop around another block
The schedule is unchanged."""
    )


def test_errors_that_nobody_reads():
    error = failure("none")
    assert str(error) == "(not rendered)"
    assert error.code == "NotInSameScopeError"


# ------------------------------------------------------------------------------------ enable_check


def test_checks_that_cannot():
    sch = Schedule(parse(STAGES), enable_check=False)
    i, j = sch.get_loops("B")
    for call, code in (
        (lambda: sch.split(i, [3, 2]), "WrongFactorError"),
        (lambda: sch.fuse(j, i), "OuterNotInnerParent"),
        (lambda: sch.compute_inline("C"), "OutputBlockError"),
    ):
        with pytest.raises(ScheduleError) as caught:
            call()
        assert caught.value.code == code
