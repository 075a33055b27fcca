"""Schedules of programs in which other statements than loops stand around blocks."""

from __future__ import annotations

import pytest

from schedule import Schedule
from schedule.analysis.dependency import dependencies
from schedule.analysis.region_cover import covers_reads
from schedule.stmt_cursor import NOTHING, with_child_replaced
from tensorir import assert_structural_equal, parse
from tensorir.nodes.buffer import decl_buffer
from tensorir.nodes.expr import Var
from tensorir.nodes.ops import as_expr, const
from tensorir.nodes.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    DeclBuffer,
    Evaluate,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)
from tests.schedule.transformation import apply, refused

HEADER = """\
@T.prim_func
def main(A: T.Buffer((5, 4)), C: T.Buffer((5, 4)), N: T.Buffer((2,), "int32")):
"""
WRAPPERS = {
    "declared buffer": 'X = T.decl_buffer((20,), "float32", data=A.data)',
    "allocation": 'x = T.allocate([4], "float32", "global")',
    "constant": 'x = T.allocate_const([1, 2, 3], "int32", [3])',
    "let": "x: T.int32 = N[0]",
    "attribute": 'T.attr(A.data, "key", 1)',
    "assert": 'assert N[0] == N[0], "message"',
    "if": "if N[0] < N[1]:",
    "else": "if N[0] >= N[1]:\n    T.evaluate(N[0])\nelse:",
}
NEST = """\
for i, j in T.grid(5, 4):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[vi, vj] * T.float32(2)
"""


def under(wrapper: str, nest: str) -> str:
    """Return statements below another one."""
    deeper = "    " if wrapper.endswith(":") else ""
    return wrapper + "\n" + "".join(f"{deeper}{line}\n" for line in nest.splitlines())


def program(*statements: str) -> str:
    """Return a function with statements one after another."""
    lines = "\n".join(statements).splitlines()
    return HEADER + "".join(f"    {line}\n" for line in lines if line)


# ---------------------------------------------------------------------------------------- editing


@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS)
def test_loops_below_any_statement_are_changed(wrapper):
    def call(sch: Schedule) -> None:
        i, j = sch.get_loops("C")
        outer, inner = sch.split(i, [2, None])
        sch.parallel(outer)
        sch.reorder(j, inner)
        sch.unroll(sch.fuse(j, inner))
        sch.annotate(sch.get_block("C"), "note", 1)

    after = """\
for i_0 in T.parallel(2):
    for ji in T.unroll(12):
        with T.block("C"):
            vi = T.axis.spatial(5, i_0 * 3 + ji % 3)
            vj = T.axis.spatial(4, ji // 3)
            T.where(i_0 * 3 + ji % 3 < 5)
            T.block_attr({"note": 1})
            C[vi, vj] = A[vi, vj] * T.float32(2)
"""
    apply(program(under(wrapper, NEST)), call, program(under(wrapper, after)))


def test_loops_below_while_are_changed():
    before = program(under("while N[0] < 3:", NEST + "N[0] = N[0] + 1\n"))
    parts = """\
for j, i in T.grid(4, 5):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[vi, vj] * T.float32(2)
N[0] = N[0] + 1
"""
    apply(
        before,
        lambda sch: sch.reorder(*reversed(sch.get_loops("C"))),
        program(under("while N[0] < 3:", parts)),
    )


def test_loops_below_several_statements_are_changed():
    wrapper = "\n".join(WRAPPERS[k] for k in ("declared buffer", "attribute", "constant", "if"))
    halved = NEST.replace("i, j in T.grid(5, 4)", "i, j0, j1 in T.grid(5, 2, 2)").replace(
        'T.axis.remap("SS", [i, j])', "T.axis.spatial(5, i), T.axis.spatial(4, j0 * 2 + j1)"
    )
    apply(
        program(under(wrapper, NEST)),
        lambda sch: sch.split(sch.get_loops("C")[1], [None, 2]),
        program(under(wrapper, halved)),
    )


# --------------------------------------------------------------------------------------- removing


def block(name: str) -> BlockRealize:
    return BlockRealize((), True, Block((), (), (), name, Evaluate(as_expr(1))))


X = Var("x", "int32")
POINTER = Var("p", "handle")
CONDITION = X < 3
FOR_THE_BODY = {
    "if": lambda body: IfThenElse(CONDITION, body),
    "let": lambda body: LetStmt(X, const(1), body),
    "allocation": lambda body: Allocate(POINTER, "int32", [const(1)], as_expr(True), body),
    "constant": lambda body: AllocateConst(POINTER, "int32", [const(1)], [1], body),
    "declared buffer": lambda body: DeclBuffer(decl_buffer((1,), "int32", "B"), body),
    "attribute": lambda body: AttrStmt("node", "key", const(1), body),
}
DOES_MORE = {
    "assert": lambda body: AssertStmt(CONDITION, as_expr("message"), body),
    "while": lambda body: While(CONDITION, body),
}


@pytest.mark.parametrize("around", FOR_THE_BODY.values(), ids=FOR_THE_BODY)
def test_a_statement_that_nothing_is_left_of_goes_as_well(around):
    first, second = block("first"), block("second")
    assert with_child_replaced(around(first), first, None) is NOTHING
    assert with_child_replaced(SeqStmt([second, around(first)]), first, None) is second
    assert_structural_equal(
        with_child_replaced(around(SeqStmt([first, second])), first, None), around(second)
    )


@pytest.mark.parametrize("around", DOES_MORE.values(), ids=DOES_MORE)
def test_a_statement_that_does_something_itself_stays(around):
    first = block("first")
    assert_structural_equal(with_child_replaced(around(first), first, None), around(NOTHING))


def test_branches_that_nothing_is_left_of():
    first, second = block("first"), block("second")
    both = IfThenElse(CONDITION, first, second)
    left = with_child_replaced(both, second, None)
    assert_structural_equal(left, IfThenElse(CONDITION, first))
    left = with_child_replaced(both, first, None)
    assert_structural_equal(left, IfThenElse(CONDITION, NOTHING, second))
    assert with_child_replaced(left, second, None) is NOTHING


KINDS = {**FOR_THE_BODY, **DOES_MORE, "sequence": lambda body: SeqStmt([block("other"), body])}


@pytest.mark.parametrize("around", KINDS.values(), ids=KINDS)
def test_a_child_is_found_below_any_statement(around):
    old, new = block("old"), block("new")
    nested = around(around(old))
    assert_structural_equal(with_child_replaced(nested, old, new), around(around(new)))
    with pytest.raises(LookupError, match="not right below its parent"):
        with_child_replaced(nested, new, old)


def test_the_kinds_are_all_there_are():
    leaves = {"BufferStore", "Evaluate", "Block", "BlockRealize", "For"}
    made = {type(around(block("body"))).__name__ for around in KINDS.values()}
    ours = {kind for kind in Stmt.__subclasses__() if kind.__module__.startswith("tensorir.")}
    assert {kind.__name__ for kind in ours} == made | leaves


def test_a_block_is_not_searched():
    inner = block("inner")
    outer = BlockRealize((), True, Block((), (), (), "outer", inner))
    with pytest.raises(LookupError):
        with_child_replaced(outer, inner, None)


def test_inlining_leaves_no_empty_statement():
    inlined = NEST.replace("T.float32(2)", "T.float32(2) + T.float32(1)")
    apply(
        program(ALLOCATED, under('with T.attr(A.data, "key", 1):', PRODUCER), CONSUMER),
        lambda sch: sch.compute_inline("B"),
        program(inlined),
    )


# ----------------------------------------------------------------------- what runs, and how often

ALLOCATED = "B = T.alloc_buffer((5, 4))"
PRODUCER = """\
for i, j in T.grid(5, 4):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] * T.float32(2)
"""
CONSUMER = """\
for i, j in T.grid(5, 4):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = B[vi, vj] + T.float32(1)
"""
FLAT_CONSUMER = CONSUMER.replace("B[vi, vj]", "X[vi * 4 + vj]")
IF_AROUND_PRODUCER = program(ALLOCATED, under("if N[0] < 3:", PRODUCER), CONSUMER)


def into_consumer(sch: Schedule) -> None:
    sch.compute_at("B", sch.get_loops("C")[0])


def into_producer(sch: Schedule) -> None:
    sch.reverse_compute_at("C", sch.get_loops("B")[0])


def between(*statements: str) -> str:
    return program(ALLOCATED, PRODUCER, *statements, CONSUMER)


OTHERS = {
    "if": (IF_AROUND_PRODUCER, "GuardedBlockError", "only under `if N[0] < 3`"),
    "while": (
        program(ALLOCATED, under("while N[0] < 3:", PRODUCER + "N[0] = 3"), CONSUMER),
        "GuardedBlockError",
        'block "B" runs only under `while N[0] < 3`',
    ),
    "store": (
        between("B[0, 0] = T.float32(7)"),
        "BareAccessError",
        'B, which block "B" touches, is also written outside of the blocks in block "root"',
    ),
    "store to what is read": (
        between("A[0, 0] = T.float32(7)"),
        "BareAccessError",
        'A, which block "B" touches, is also written',
    ),
    "load": (
        between('N[0] = T.cast(B[0, 0], "int32")'),
        "BareAccessError",
        'B, which block "B" touches, is also read',
    ),
    "condition": (
        between(under("if B[0, 0] < T.float32(3):", "N[1] = 5")),
        "BareAccessError",
        "is also read",
    ),
    "let": (between("x: T.float32 = B[0, 0]"), "BareAccessError", "is also read"),
    "assert": (between('assert B[0, 0] < T.float32(1000), ""'), "BareAccessError", "is also read"),
    "pointer": (
        between('T.evaluate(T.call_extern("int32", "f", B.data))'),
        "BareAccessError",
        "is also written",
    ),
    "alias": (
        program(ALLOCATED, "X = T.decl_buffer((20,), data=B.data)", PRODUCER, FLAT_CONSUMER),
        "AliasedBufferError",
        'B, which block "B" touches, shares its memory with X, which block "C" touches',
    ),
}


READS = ("load", "condition", "let", "assert")
"""Those that only read what the producer has stored."""


@pytest.mark.parametrize(("before", "code", "words"), OTHERS.values(), ids=OTHERS)
def test_a_block_that_other_statements_matter_to_is_not_moved(before, code, words):
    refused(before, into_consumer, code, words)


@pytest.mark.parametrize("kind", OTHERS)
def test_other_statements_may_read_what_is_inlined(kind):
    before, code, words = OTHERS[kind]
    if kind in READS:
        apply(before, lambda sch: sch.compute_inline("B"))
    else:
        refused(before, lambda sch: sch.compute_inline("B"), code, words)


@pytest.mark.parametrize("kind", OTHERS)
def test_a_copy_beside_a_block_needs_all_that_it_touches_in_blocks(kind):
    before, code, words = OTHERS[kind]
    if code == "GuardedBlockError":
        code, words = "NotStagePipelineError", "reads more than its producers write"
    refused(before, lambda sch: sch.reindex("B", ("write", 0)), code, words)


def test_the_copy_of_what_is_written_below_a_condition_stands_there():
    copied = """\
for ax0, ax1 in T.grid(5, 4):
    with T.block("C_reindex"):
        v0, v1 = T.axis.remap("SS", [ax0, ax1])
        C[v0, v1] = C_reindex[v0, v1]
"""
    computed = NEST.replace("C[", "C_reindex[")
    apply(
        program(under("if N[0] < 3:", NEST)),
        lambda sch: sch.reindex("C", ("write", 0)),
        program("C_reindex = T.alloc_buffer((5, 4))", under("if N[0] < 3:", computed + copied)),
    )


def test_a_block_is_not_moved_to_where_only_some_of_its_consumers_run():
    halves = [CONSUMER.replace('"C"', f'"{name}"') for name in ("low", "high")]
    branches = under("if N[0] < 3:", halves[0]) + under("else:", halves[1])
    words = 'block "B" cannot move under loop `i`, which runs only under `if N[0] < 3`'
    refused(
        program(ALLOCATED, PRODUCER, branches),
        lambda sch: sch.reverse_compute_at("B", sch.get_loops("low")[0], index=0),
        "GuardedBlockError",
        words,
        ["block B", "loop i"],
    )


def test_a_copy_of_a_buffer_that_has_another_name_is_not_made():
    before, code, words = OTHERS["alias"]
    refused(before, lambda sch: sch.cache_write("B", 0, "local"), code, words)
    refused(before, lambda sch: sch.cache_read("C", 0, "local"), code, "shares its memory with B")


@pytest.mark.parametrize(
    "call",
    [
        lambda sch: sch.set_scope("B", 0, "local"),
        lambda sch: sch.unsafe_set_dtype("B", 0, "float16"),
    ],
    ids=["set_scope", "unsafe_set_dtype"],
)
@pytest.mark.parametrize("declaration", ["T.decl_buffer", "T.Buffer"])
def test_memory_that_has_another_name_stays_as_it_is(declaration, call):
    before = OTHERS["alias"][0].replace("T.decl_buffer", declaration)
    refused(before, call, "AliasedBufferError", 'B, which block "B" touches, shares its memory')


def test_a_consumer_of_what_is_stored_under_a_condition_stays():
    refused(IF_AROUND_PRODUCER, into_producer, "NotStagePipelineError", "reads more than its")


@pytest.mark.parametrize(
    ("lines", "accepted"),
    [
        ((under("if N[0] < 3:", PRODUCER + CONSUMER),), True),
        ((under("if N[0] < 3:", PRODUCER), under("else:", CONSUMER)), False),
        ((under("if N[0] < 3:", PRODUCER), under("if N[0] < 3:", CONSUMER)), False),
        ((under("while N[0] < 3:", PRODUCER + CONSUMER + "N[0] = 3"),), True),
    ],
    ids=["the same condition", "its other branch", "equal conditions", "the same while"],
)
def test_a_condition_that_holds_for_producer_and_consumer(lines, accepted):
    state = Schedule(parse(program(ALLOCATED, *lines))).state
    root = state.root("main")
    consumer = state.child_blocks(root)[1]
    assert covers_reads(state, consumer, dependencies(state, root)) == accepted


def test_blocks_that_write_one_memory_depend_on_each_other():
    sch = Schedule(parse(OTHERS["alias"][0]))
    assert [sch.get(b).name_hint for b in sch.get_consumers(sch.get_block("B"))] == ["C"]
    assert [sch.get(b).name_hint for b in sch.get_producers(sch.get_block("C"))] == ["B"]


def test_a_view_shares_the_memory_of_what_it_views():
    before = program(
        """\
for o in range(1):
    with T.block("outer"):
        vo = T.axis.spatial(1, o)
        T.reads(A[0:5, 0:4])
        T.writes(A[0:5, 0:4], C[0:5, 0:4])
        V = T.match_buffer(A[0:5, 0:4], (5, 4))
        for i, j in T.grid(5, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                V[vi, vj] = T.float32(2)
        for i, j in T.grid(5, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + T.float32(1)
"""
    )
    refused(before, into_producer, "AliasedBufferError", 'A, which block "C" touches')


# ------------------------------------------------------------------------------ order of iterations


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("N[0] = N[0] + 1", "outside of the blocks below it, N is written"),
        (
            'T.evaluate(T.call_extern("int32", "f", N.data))',
            "a function with a side effect is called",
        ),
        (under("if C[0, 0] < T.float32(3):", "T.evaluate(0)"), "C, which a block writes, is read"),
    ],
    ids=["store", "call", "load"],
)
@pytest.mark.parametrize(
    "call",
    [
        lambda sch: sch.parallel(sch.get_loops("C")[0]),
        lambda sch: sch.vectorize(sch.get_loops("C")[1]),
        lambda sch: sch.bind(sch.get_loops("C")[1], "threadIdx.x"),
        lambda sch: sch.reorder(*reversed(sch.get_loops("C"))),
    ],
    ids=["parallel", "vectorize", "bind", "reorder"],
)
def test_iterations_that_do_more_than_their_blocks_keep_their_order(statement, words, call):
    inner = "".join(f"    {line}\n" for line in statement.splitlines())
    refused(program(NEST + inner), call, "BareAccessError", words)


def test_a_condition_on_what_nothing_changes_leaves_iterations_independent():
    guarded = """\
for i in range(5):
    if N[0] < i:
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj]
"""
    apply(
        program(guarded),
        lambda sch: sch.parallel(sch.get_loops("C")[0]),
        program(guarded.replace("range(5)", "T.parallel(5)")),
    )


# ------------------------------------------------------------------------------------ splitting


@pytest.mark.parametrize(
    ("statement", "limited"),
    [
        ("N[0] = N[0] + i", "N[0] = N[0] + (i_0 * 3 + i_1)"),
        ("T.evaluate(A[i, 0])", "T.evaluate(A[i_0 * 3 + i_1, 0])"),
        ('assert A[i, 0] == A[i, 0], ""', 'assert A[i_0*3+i_1, 0] == A[i_0*3+i_1, 0], ""'),
    ],
    ids=["store", "evaluate", "assert"],
)
def test_statements_beside_blocks_do_not_run_in_iterations_that_a_split_adds(statement, limited):
    before = f"""\
for i in range(5):
    with T.block("C"):
        vi = T.axis.spatial(5, i)
        C[vi, 0] = A[vi, 0]
    {statement}
"""
    after = f"""\
for i_0, i_1 in T.grid(2, 3):
    with T.block("C"):
        vi = T.axis.spatial(5, i_0 * 3 + i_1)
        T.where(i_0 * 3 + i_1 < 5)
        C[vi, 0] = A[vi, 0]
    if i_0 * 3 + i_1 < 5:
        {limited}
"""
    apply(program(before), lambda sch: sch.split(sch.get_loops("C")[0], [2, 3]), program(after))


def test_a_condition_that_loads_is_not_evaluated_in_iterations_that_a_split_adds():
    before = """\
for i in range(5):
    if A[i, 0] > T.float32(0):
        with T.block("C"):
            vi = T.axis.spatial(5, i)
            C[vi, 0] = A[vi, 0]
"""
    after = """\
for i_0, i_1 in T.grid(2, 3):
    if i_0 * 3 + i_1 < 5:
        if A[i_0 * 3 + i_1, 0] > T.float32(0):
            with T.block("C"):
                vi = T.axis.spatial(5, i_0 * 3 + i_1)
                C[vi, 0] = A[vi, 0]
"""
    apply(program(before), lambda sch: sch.split(sch.get_loops("C")[0], [2, 3]), program(after))


# ------------------------------------------------------------------------------------- definitions


def test_a_block_does_not_leave_the_statement_that_defines_what_it_uses():
    consumer = under("x: T.float32 = A[0, 0]", CONSUMER.replace("T.float32(1)", "x"))
    before = program(ALLOCATED, PRODUCER, consumer)
    refused(before, into_producer, "OutOfScopeError", "undefined variable x")
    apply(before, into_consumer)
