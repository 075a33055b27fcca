"""A fact lives as long as the scope that gave it."""

from __future__ import annotations

from tensorir import Range, Var, parse, simplify
from tensorir.arith import Analyzer
from tensorir.arith.linear import Linear
from tensorir.nodes.buffer import decl_buffer
from tensorir.nodes.ops import floordiv, logical_and

i, j, n, m = Var("i"), Var("j"), Var("n"), Var("m")


def test_an_extent_is_positive_inside_its_loop_only():
    analyzer = Analyzer()
    with analyzer.loop_scope(i, 0, n):
        assert analyzer.can_prove(n >= 1)
        assert analyzer.can_prove(i < n)
    assert not analyzer.can_prove(n >= 1)
    assert not analyzer.can_prove(i < n)


def test_leaving_a_scope_restores_what_was_computed_before():
    analyzer = Analyzer()
    analyzer.bind(i, Range(8))
    assert str(analyzer.simplify(i // 4)) == "i // 4"
    with analyzer.constraint_scope(i < 4):
        assert str(analyzer.simplify(i // 4)) == "0"
    assert str(analyzer.simplify(i // 4)) == "i // 4"


def test_a_scope_ends_where_an_exception_leaves_it():
    analyzer = Analyzer()
    try:
        with analyzer.scope():
            analyzer.bind(i, Range(n))
            raise KeyError
    except KeyError:
        pass
    assert not analyzer.can_prove(i < n)


def test_binding_anew_forgets_what_followed_from_the_old_binding():
    analyzer = Analyzer()
    analyzer.bind(i, Range(n))
    analyzer.bind(j, i + 1)
    analyzer.bind(i, Range(m), allow_override=True)
    assert analyzer.can_prove(i < m)
    assert analyzer.can_prove(m >= 1)
    assert not analyzer.can_prove(i < n)
    assert not analyzer.can_prove(n >= 1)
    assert not analyzer.can_prove_equal(j, i + 1)


def test_binding_anew_forgets_assumptions_about_quotients():
    analyzer = Analyzer()
    analyzer.bind(i, Range(100))
    with analyzer.constraint_scope(floordiv(i, 4) + j < n):
        assert analyzer.can_prove(floordiv(i, 4) + j < n)
        analyzer.bind(i, Range(50), allow_override=True)
        assert not analyzer.can_prove(floordiv(i, 4) + j < n)


def test_an_inner_loop_over_the_same_variable_hides_the_outer_one():
    analyzer = Analyzer()
    with analyzer.loop_scope(i, 0, n):
        with analyzer.loop_scope(i, 5, m):
            assert analyzer.can_prove(i >= 5)
            assert not analyzer.can_prove(i < n)
        assert analyzer.can_prove(i < n)


def test_bounds_are_those_of_the_analyzer_that_is_asked():
    narrow, wide = Analyzer(), Analyzer()
    narrow.bind(i, Range(4))
    wide.bind(i, Range(100))
    shared = Linear({i: 2}, 1)
    assert narrow.linearizer.bound(shared) == (1, 7)
    assert wide.linearizer.bound(shared) == (1, 199)


def test_what_a_condition_says_of_memory_does_not_last():
    counter = decl_buffer((1,), "int32", "counter")
    analyzer = Analyzer()
    with analyzer.constraint_scope(logical_and(counter[0] < 5, i < 5)):
        assert not analyzer.can_prove(counter[0] < 5)
        assert analyzer.can_prove(i < 5)


GUARDED = """
@T.prim_func
def main(a: T.handle, B: T.Buffer((2,), "int32")):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    for i in range(n):
        B[0] = 1
    if n > 0:
        B[1] = A[n - 1]
"""


def test_simplify_leaves_loops():
    assert "if 1 <= n:" in simplify(parse(GUARDED)).script()


def test_factors_of_an_extent_are_positive_only_if_they_may_be_sizes():
    analyzer = Analyzer()
    analyzer.bind(j, Range(-4, 4))
    with analyzer.loop_scope(i, 0, n * m):
        assert analyzer.can_prove(n >= 1)
    with analyzer.loop_scope(i, 0, j * j):
        assert not analyzer.can_prove(j >= 1)


def test_a_proof_tries_few_facts_however_many_loops_there_are(monkeypatch):
    sizes, loops = [Var(f"n{k}") for k in range(200)], [Var(f"i{k}") for k in range(200)]
    analyzer = Analyzer()
    for var, size in zip(loops, sizes, strict=True):
        analyzer.bind(var, Range(size))
    tried = []
    plus = Linear.plus
    total = sum(loops[1:], loops[0])
    goal = analyzer.linear(sizes[0]).plus(analyzer.linear(total), -1)
    monkeypatch.setattr(Linear, "plus", lambda self, *args: tried.append(self) or plus(self, *args))
    assert not analyzer.linearizer.at_least_zero(goal)
    assert 0 < len(tried) < 10
