"""Places among the statements of a loop or block, and what is put there."""

import pytest

from schedule import Schedule
from schedule.stmt_cursor import StmtCursor
from tensorir import parse
from tensorir.nodes.expr import IntImm
from tensorir.nodes.stmt import Evaluate, IfThenElse, LetStmt

PROGRAM = """\
@T.prim_func
def main(A: T.Buffer((8,)), n: T.int32):
    with T.block("root"):
        for i in range(8):
            with T.block("first"):
                A[i] = T.float32(1)
            x: T.int32 = n * 2
            if x > 4:
                with T.block("second"):
                    A[i] = T.float32(2)
                for j in range(4):
                    with T.block("third"):
                        A[j] = T.float32(3)
            else:
                with T.block("fourth"):
                    A[i] = T.float32(4)
        with T.block("last"):
            A[0] = T.float32(5)
"""


@pytest.fixture
def state():
    return Schedule(parse(PROGRAM)).state


def sref(state, name):
    return next(s for s in state.blocks("main") if s.block.name_hint == name)


def loop(state):
    return sref(state, "first").parent


def names(stmts):
    return [type(stmt).__name__ for stmt in stmts]


def test_a_lone_statement_is_a_sequence_of_one(state):
    only = StmtCursor.below(sref(state, "third").parent)
    assert names(only.parts) == ["BlockRealize"]
    mark = Evaluate(IntImm("int32", 0))
    assert only.replace(only.stmt, mark) is only.stmt, "a no-op is no statement"


def test_the_gaps_around_a_statement(state):
    root = state.root("main")
    here = StmtCursor.below(root).around(sref(state, "last"))
    assert (here.first, here.last) == (1, 2)
    assert (here.before.first, here.before.last) == (1, 1)
    assert (here.after.first, here.after.last) == (2, 2)
    mark = Evaluate(state.func("main").params[1])
    before, after = here.before.replace(mark), here.after.replace(mark)
    assert before.seq == (root.block.body.seq[0], mark, root.block.body.seq[1])
    assert after.seq == (*root.block.body.seq, mark)


def test_conditions_and_bindings_are_seen_through(state):
    below = StmtCursor.below(loop(state))
    assert names(below.parts) == ["BlockRealize", "LetStmt"]
    third = below.around(sref(state, "third"))
    assert names([third.stmt]) == ["For"]
    assert [(type(w), part) for w, part in third.wrappers()] == [
        (IfThenElse, "then_case"),
        (LetStmt, "body"),
    ]


def test_the_fewest_statements_that_hold_several_blocks(state):
    below = StmtCursor.below(loop(state))
    pair = below.around(sref(state, "second"), sref(state, "third"))
    assert names(pair.stmts) == ["BlockRealize", "For"]
    assert [type(w) for w, _ in pair.wrappers()] == [IfThenElse, LetStmt]
    branches = below.around(sref(state, "second"), sref(state, "fourth"))
    assert names([branches.stmt]) == ["IfThenElse"]
    assert below.around(sref(state, "first"), sref(state, "third")).parts is below.parts


def test_the_order_of_blocks(state):
    below = StmtCursor.below(loop(state))
    places = [below.position(sref(state, name)) for name in ("first", "second", "third", "fourth")]
    assert places == [0, 1, 1, 1]
    with pytest.raises(IndexError, match="last"):
        below.position(sref(state, "last"))


@pytest.mark.parametrize(
    "wrapper",
    [
        "while A[0] > T.float32(0):",
        'assert n > 0, "positive"',
        'with T.attr(A.data, "key", n):',
        "D = T.decl_buffer((8,), data=A.data)\n",
        'with T.allocate([8], "float32", "global") as p:',
    ],
)
def test_other_wrappers(wrapper):
    inner = "            " if wrapper.endswith(":") else "        "
    text = f"""\
@T.prim_func
def main(A: T.Buffer((8,)), n: T.int32):
    with T.block("root"):
        {wrapper}
{inner}with T.block("only"):
{inner}    A[0] = T.float32(1)
"""
    state = Schedule(parse(text)).state
    root = state.root("main")
    here = StmtCursor.below(root).around(sref(state, "only"))
    assert names([here.stmt]) == ["BlockRealize"]
    ((around, part),) = here.wrappers()
    assert part == "body"
    assert around is root.block.body
    new = here.before.replace(Evaluate(state.func("main").params[1]))
    assert type(new) is type(around)
    assert names(new.body.seq) == ["Evaluate", "BlockRealize"]
