"""Nodes of a user's own: one file says what their fields mean, and everything else follows."""

from __future__ import annotations

import pickle

import pytest

import codegen
from tensorir import (
    T,
    expr_deep_equal,
    get_first_structural_mismatch,
    renew_defs,
    simplify,
    structural_equal,
    structural_hash,
    substitute,
    verify_well_formed,
)
from tensorir.function import PrimFunc
from tensorir.interp import InterpreterError, interpret, random_arguments
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, PrimExpr, Var
from tensorir.nodes.node import Field, Node, body, buffer, definition, label, part
from tensorir.nodes.ops import const
from tensorir.nodes.stmt import BufferStore, Evaluate, Stmt
from tensorir.rewriting.visit import children, collect_vars, rewrite, walk
from tensorir.script import printer


class Clamp(PrimExpr):
    """A value that is not above a limit; `reason` is for people."""

    fields = ("dtype", part("value"), part("limit"), label("reason"))
    __slots__ = fields[1:]

    def __init__(self, value: PrimExpr, limit: PrimExpr, reason: str = "") -> None:
        self.value = value
        self.limit = limit
        self.reason = reason
        self.dtype = value.dtype


class Twice(Stmt):
    """Run `body` with `step` at `first`, then at the next number, if `gate` is not 0 there."""

    fields = (definition("step"), part("first"), buffer("gate"), body("body"))
    __slots__ = fields

    def __init__(self, step: Var, first: PrimExpr, gate: Buffer, body: Stmt) -> None:
        self.step = step
        self.first = first
        self.gate = gate
        self.body = body


@T.prim_func
def plain(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(7):
        with T.block("b"):
            vi = T.axis.spatial(7, i)
            B[vi] = A[vi] + T.float32(3)


def clamped(limit: float = 5.0, reason: str = "") -> PrimFunc:
    """Return the program with an expression of one's own."""

    def limited(node: BufferStore) -> Stmt:
        return BufferStore(
            node.buffer, Clamp(node.value, const(limit, "float32"), reason), node.indices
        )

    return plain.with_body(rewrite(plain.body, {BufferStore: limited}))


def twice() -> PrimFunc:
    """Return the program with a statement of one's own, which defines a variable."""
    step = Var("step", "int32")

    def doubled(node: BufferStore) -> Stmt:
        inner = BufferStore(node.buffer, node.value, [node.indices[0] + step])
        return Twice(step, const(0), node.buffer, inner)

    return plain.with_body(rewrite(plain.body, {BufferStore: doubled}))


def the(kind: type[Node], func: PrimFunc) -> Node:
    return next(node for node in walk(func.body) if type(node) is kind)


OWN = [pytest.param(clamped, id="expression"), pytest.param(twice, id="statement")]


def test_it_is_walked() -> None:
    clamp = the(Clamp, clamped())
    assert isinstance(clamp, Clamp)
    assert children(clamp) == (clamp.value, clamp.limit)
    statement = the(Twice, twice())
    assert isinstance(statement, Twice)
    assert children(statement) == (statement.first, statement.body)
    assert any(isinstance(node, BufferLoad) for node in walk(statement))


def test_it_is_rebuilt_where_a_part_changes() -> None:
    clamp = the(Clamp, clamped(reason="why"))
    assert isinstance(clamp, Clamp)
    (axis,) = collect_vars(clamp)
    new = substitute(clamp, {axis: 3})
    assert type(new) is Clamp
    assert new.limit is clamp.limit
    assert new.reason == "why"
    assert not collect_vars(new)
    assert substitute(clamp, {Var("other", "int32"): 1}) is clamp
    assert clamp.with_(limit=const(1.0)).value is clamp.value


@pytest.mark.parametrize("make", OWN)
def test_copies_are_equal_and_hash_alike(make: type) -> None:
    func = make()
    copy = renew_defs(func)
    assert structural_equal(func, copy)
    assert structural_equal(func, pickle.loads(pickle.dumps(func)))
    assert structural_hash(func) == structural_hash(copy)
    assert not structural_equal(func, plain)


def test_what_it_defines_is_new_in_a_copy() -> None:
    func = twice()
    old, new = the(Twice, func), the(Twice, renew_defs(func))
    assert isinstance(old, Twice)
    assert isinstance(new, Twice)
    assert new.step is not old.step
    assert new.gate is not old.gate
    assert new.step in collect_vars(new.body)
    assert old.step not in collect_vars(new.body)


def test_a_difference_is_found_and_a_label_is_none() -> None:
    assert structural_equal(clamped(reason="a"), clamped(reason="b"))
    found = get_first_structural_mismatch(clamped(5.0), clamped(6.0))
    assert found is not None
    assert found[0].endswith(".value.limit.value")
    a, b = the(Clamp, clamped(5.0)), the(Clamp, clamped(6.0))
    assert not expr_deep_equal(a, b)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", OWN)
def test_it_is_well_formed_where_its_variables_are(make: type) -> None:
    assert verify_well_formed(make())
    statement = the(Twice, twice())
    assert isinstance(statement, Twice)
    outside = PrimFunc([statement.gate], Evaluate(statement.step))
    assert not verify_well_formed(outside, assert_mode=False)


def test_it_is_printed_in_a_default_form() -> None:
    assert "B[vi] = T.Clamp(A[vi] + T.float32(3.0), T.float32(5.0), " in clamped().script()
    assert "with T.Twice(step, 0, B):\n                B[vi + step] = " in twice().script()


def test_it_is_printed_by_a_function_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printer, "EXPRESSIONS", dict(printer.EXPRESSIONS))
    printer.register_text(Clamp, lambda p, n: (f"{p(n.value, printer.ATOM)} up to {p(n.limit)}", 0))
    assert "B[vi] = (A[vi] + T.float32(3.0)) up to T.float32(5.0)" in clamped().script()


@pytest.mark.parametrize("make", OWN)
def test_it_stays_when_a_program_is_simplified(make: type) -> None:
    assert structural_equal(simplify(make()), make())


@pytest.mark.parametrize(
    ("make", "name"),
    [pytest.param(clamped, "Clamp", id="expression"), pytest.param(twice, "Twice", id="statement")],
)
def test_what_has_no_meaning_for_it_says_so(make: type, name: str) -> None:
    func = make()
    with pytest.raises(InterpreterError, match=f"unknown to the interpreter: {name}"):
        interpret(func, *random_arguments(func))
    with pytest.raises(codegen.CodegenError, match=f"cannot compile plain: {name} "):
        codegen.build(func, target="llvm")


def test_rewritten_to_nodes_with_a_meaning_it_runs() -> None:
    func = clamped(4.5)
    known = func.with_body(rewrite(func.body, {Clamp: lambda n: T.min(n.value, n.limit)}))
    a, b = random_arguments(known)
    codegen.build(known, target="llvm")["plain"](a, b)
    assert (b[:7] == (a[:7] + 3).clip(max=4.5)).all()


def test_what_a_class_says_must_be_what_it_is_built_from() -> None:
    class Odd(PrimExpr):
        fields = ("dtype", part("value"))
        __slots__ = fields[1:]

        def __init__(self, operand: PrimExpr) -> None:
            self.value = operand
            self.dtype = operand.dtype

    assert isinstance(Odd.roles[1], Field)
    with pytest.raises(TypeError, match="the parameter operand of Odd is not one of its fields"):
        substitute(Odd(Var("x", "int32")), {Var("y", "int32"): 1})
