"""Loops after lowering: their structure, choices, single iterations; the forms between passes."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import codegen
from codegen.kept_files import lowering_digest
from codegen.lower import PASSES, lower, passes_for
from codegen.lower.divide_at_choices import MOST, divide_at_choices
from codegen.lower.forms import GONE
from schedule import Schedule
from tensorir import parse
from tensorir.errors import WellFormedError
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.node import Node
from tensorir.rewriting.visit import Rewriter, children, statements
from tensorir.workloads import create

# -------------------------------- Loops after lowering: their structure, choices, single iterations

# --------------------------------- Loops run in pieces, in each of which the same values are chosen

PROGRAM = """
@T.prim_func
def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), C: T.Buffer((96,), "float32")):
    T.func_attr({{"tir.noalias": True}})
{body}
"""


def program(body: str) -> PrimFunc:
    indented = "\n".join("    " + line for line in body.strip("\n").splitlines())
    func = parse(PROGRAM.format(body=indented))
    assert isinstance(func, PrimFunc)
    return func


def pieces(func: PrimFunc) -> list[tuple[int, int]]:
    """Return where the loops of a program begin, and their extents."""
    loops = [node for node in statements(func.body) if isinstance(node, s.For)]
    return [(int(loop.min), int(loop.extent)) for loop in loops]  # type: ignore[call-overload]


def test_code_grows_to_a_limit() -> None:
    def divided(count: int) -> int:
        value = "A[0]"
        for k in range(1, count):
            value = f"T.if_then_else(i >= {k}, B[0], {value})"
        return len(pieces(divide_at_choices(program(f"for i in range(96): C[i] = {value}"))))

    assert divided(MOST) == MOST
    assert divided(MOST + 1) == 1


# Lowering keeps the loops that a schedule states: their order, their nesting, their extents

Shape = tuple[Any, ...]
"""Loops side by side: name, extent and the loops inside of each."""
Change = Callable[[Schedule], None]


def loops(node: Node) -> Shape:
    """Return the loops that run more than once as a forest: name, extent and what is inside."""
    if isinstance(node, s.For):
        inside = loops(node.body)
        extent = int(node.extent)  # type: ignore[call-overload]
        return inside if extent == 1 else ((node.loop_var.name, extent, inside),)
    return tuple(
        loop
        for part in children(node)
        if isinstance(part, (s.Stmt, s.Block))
        for loop in loops(part)
    )


def without_marked(node: Node, marked: frozenset[str]) -> Shape:
    """Return the loops but for those of these names, which a mark asks to lower."""

    def drop(shape: Shape) -> Shape:
        kept: list[Any] = []
        for name, extent, inside in shape:
            rest = drop(inside)
            kept.extend(rest if name.removesuffix("_p") in marked else [(name, extent, rest)])
        return tuple(kept)

    return drop(loops(node))


def scheduled(name: str, change: Change, **sizes: int) -> PrimFunc:
    sch = Schedule(create(name, **sizes))
    change(sch)
    func = next(iter(sch.mod.functions.values()))
    assert isinstance(func, PrimFunc)
    return func


def plain(sch: Schedule) -> None:
    del sch


def tiled(order: str) -> Change:
    """Return a schedule that splits all loops of a matmul and puts them in an order."""

    def change(sch: Schedule) -> None:
        b, i, j, k = sch.get_loops(sch.get_block("Z"))
        parts = {}
        for name, loop, factors in (("i", i, [None, 5]), ("j", j, [None, 7]), ("k", k, [None, 3])):
            parts[name + "0"], parts[name + "1"] = sch.split(loop, factors)
        sch.reorder(b, *(parts[part] for part in order.split()))

    return change


def marked(sch: Schedule) -> None:
    tiled("i0 j0 k0 k1 i1 j1")(sch)
    nest = sch.get_loops(sch.get_block("Z"))
    sch.parallel(nest[1])
    sch.unroll(nest[5])
    sch.vectorize(nest[6])
    sch.decompose_reduction(sch.get_block("Z"), nest[3])


def cached(sch: Schedule) -> None:
    tiled("i0 j0 k0 k1 i1 j1")(sch)
    block = sch.get_block("Z")
    copy = sch.cache_write(block, 0, "global")
    sch.reverse_compute_at(copy, sch.get_loops(block)[2])


MATMUL = {"b": 2, "n": 20, "m": 21, "k": 24}
MATMULS = {
    "plain": plain,
    "i j k": tiled("i0 j0 k0 i1 j1 k1"),
    "k outside": tiled("k0 k1 i0 j0 i1 j1"),
    "k between": tiled("i0 j0 k0 i1 k1 j1"),
    "cached": cached,
}


def convolution(order: str) -> Change:
    def change(sch: Schedule) -> None:
        block = sch.get_block("conv2d_nhwc")
        names = dict(
            zip(["n", "h", "w", "co", "rh", "rw", "rc"], sch.get_loops(block), strict=True)
        )
        sch.reorder(*(names[name] for name in order.split()))

    return change


CONVOLUTION = {"h": 6, "w": 6, "ci": 3, "co": 5}
CONVOLUTIONS = {
    "plain": plain,
    "channels last": convolution("n h w rh rw rc co"),
    "window outside": convolution("rh rw n co h w rc"),
}


@pytest.mark.parametrize("name", MATMULS)
def test_a_matmul(name: str) -> None:
    change = MATMULS[name]
    func = scheduled("GMM", change, **MATMUL)
    assert loops(lower(func, "llvm").body) == loops(func.body)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution(name: str) -> None:
    change = CONVOLUTIONS[name]
    func = scheduled("C2D", change, **CONVOLUTION)
    assert loops(lower(func, "llvm").body) == loops(func.body)


def test_marks_lower_the_nestthey_are_on_and_no_others() -> None:
    func = scheduled("GMM", marked, **MATMUL)
    names = frozenset(
        node.loop_var.name
        for node in _all_loops(func.body)
        if node.kind in (s.ForKind.UNROLLED, s.ForKind.VECTORIZED)
    )
    assert without_marked(lower(func, "llvm").body, names) == without_marked(func.body, names)


def _all_loops(node: Node) -> list[s.For]:
    found = [node] if isinstance(node, s.For) else []
    parts = [part for part in children(node) if isinstance(part, (s.Stmt, s.Block))]
    return found + [loop for part in parts for loop in _all_loops(part)]


@pytest.mark.parametrize(
    ("workload", "sizes", "changes"),
    [("GMM", MATMUL, MATMULS), ("C2D", CONVOLUTION, CONVOLUTIONS)],
)
def test_different_nestgive_different_code(
    workload: str, sizes: dict[str, int], changes: dict[str, Change]
) -> None:
    texts = {lower(scheduled(workload, c, **sizes), "llvm").script() for c in changes.values()}
    assert len(texts) == len(changes)


# ------------------------------------------------------------ A pass that breaks a program is named

LOWERING = sys.modules[PASSES[0][1].__module__.rpartition(".")[0]]

FUNC = parse(
    """
@T.prim_func
def main(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32")):
    for i in range(8):
        for j in T.vectorized(16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
"""
)
assert isinstance(FUNC, PrimFunc)


def with_pass(monkeypatch: pytest.MonkeyPatch, name: str, step: object) -> None:
    """Put another pass in the place of one."""
    passes = tuple((n, step if n == name else p) for n, p in PASSES)
    monkeypatch.setattr(LOWERING, "PASSES", passes)


@pytest.mark.parametrize("name", ["open_blocks", "remove_blocks", "flatten_buffers", "vectorize"])
def test_what_a_pass_leaves_behind(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with_pass(monkeypatch, name, lambda func: func.with_attr("touched", 1))
    with pytest.raises(WellFormedError, match=f"after {name}: the program has"):
        lower(FUNC, until=name, verify=True)


def test_a_variable_out_of_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    class DropLoops(Rewriter):
        def rewrite_For(self, node: s.For) -> s.Stmt:
            return self(node.body)

    with_pass(monkeypatch, "hoist_conditions", lambda func: func.with_body(DropLoops()(func.body)))
    with pytest.raises(WellFormedError, match=r"after hoist_conditions: .*undefined variable i"):
        lower(FUNC, verify=True)


def test_every_rule_belongs_to_a_pass() -> None:
    assert set(GONE) <= {name for of in ("llvm", "cuda") for name, _ in passes_for(of)}


def test_each_form_is_well_formed() -> None:
    lower(FUNC, verify=True)


# ---------------- Two processes of the same sources have one digest; other sources have another one


def test_another_lowering_has_another_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, copy = codegen.__path__[0], tmp_path / "codegen"
    shutil.copytree(here, copy, ignore=shutil.ignore_patterns("__pycache__"))
    ours = lowering_digest.__wrapped__()
    monkeypatch.setattr(codegen, "__path__", [str(copy)])
    assert lowering_digest.__wrapped__() == ours
    (copy / "lower" / "vectorize.py").write_text("# another one\n")
    assert lowering_digest.__wrapped__() != ours
