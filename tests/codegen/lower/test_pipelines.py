"""Software pipelines on a CPU: a product of packed tiles, and random loops beside serial ones."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import codegen
from schedule import Schedule
from tensorir import parse, te
from tensorir.interp import interpret

ANNOTATIONS = 'annotations={{"software_pipeline_stage": {}, "software_pipeline_order": {}}}'


def test_a_product_of_packed_tiles() -> None:
    a, b = te.placeholder((40, 64), name="A"), te.placeholder((64, 48), name="B")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute((40, 48), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, c]))
    block = sch.get_block("C")
    packed = sch.cache_read(block, 1, "global")
    i, j, k = sch.get_loops(block)
    (k0, k1), (j0, j1) = sch.split(k, [None, 8]), sch.split(j, [None, 16])
    sch.reorder(j0, k0, i, k1, j1)
    sch.compute_at(packed, k0)
    sch.vectorize(j1)
    sch.vectorize(sch.get_loops(packed)[-1])
    sch.decompose_reduction(block, k0)
    sch.annotate(k0, "software_pipeline_stage", [0, 1])
    sch.annotate(k0, "software_pipeline_order", [0, 1])
    lowered = codegen.lower(sch.mod["main"], until="pipeline_loops").script()
    assert "B_global = T.alloc_buffer((2, 8, 16))" in lowered
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((40, 64), (64, 48)))
    result = np.zeros((40, 48), np.float32)
    codegen.build(sch.mod)["main"](x, y, result)
    np.testing.assert_array_equal(result, x @ y)


# ---------------------------------------------------------------------------------- random programs

MEMORY = ("P", "Q", "X", "Y")
"""Two buffers that each iteration has to itself, and two arguments."""


@st.composite
def statements(draw: st.DrawFn) -> list[str]:
    """Statements of a loop over i; a buffer of the loop is written before it is read."""
    made: list[str] = []
    written: set[str] = set()
    for k in range(draw(st.integers(1, 3))):
        readable = [name for name in MEMORY if name in written or name in "XY"]
        terms = [f"A[i, j] * {len(made) + 1}"]
        for name in draw(st.lists(st.sampled_from(readable), max_size=2, unique=True)):
            place = f"i + {draw(st.integers(0, 3))}, " if name in "XY" else ""
            terms.append(f"{name}[{place}{draw(st.sampled_from(['j', '3 - j']))}]")
        # The last statement keeps what the first one computed.
        target = "P" if k == 0 else draw(st.sampled_from(MEMORY))
        place = f"i + {draw(st.integers(0, 3))}, j" if target in "XY" else "j"
        made.append(f"for j in range(4):\n    {target}[{place}] = {' + '.join(terms)}")
        written.add(target)
    made.append("for j in range(4):\n    Y[i, j] = P[3 - j]")
    return made


def program(body: list[str], extent: str, annotations: str) -> str:
    parts = "\n".join(body).replace("\n", "\n            ")
    return f"""
@T.prim_func
def main(a: T.handle, x: T.handle, y: T.handle, n: T.int32):
    T.func_attr({{"tir.noalias": True}})
    A = T.match_buffer(a, (n, 4), "int32")
    X = T.match_buffer(x, (n + 3, 4), "int32")
    Y = T.match_buffer(y, (n + 3, 4), "int32")
    for i in T.serial({extent}, {annotations}):
        with T.block():
            P = T.alloc_buffer((4,), "int32")
            Q = T.alloc_buffer((4,), "int32")
            {parts}
"""


def results(text: str, n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-9, 9, (rows, 4), dtype=np.int32) for rows in (n, n + 3, n + 3)]
    interpret(codegen.lower(parse(text)), *arrays, n)
    return arrays


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    data=st.data(), body=statements(), n=st.sampled_from((6, 5, 7, 2, 0)), is_known=st.booleans()
)
def test_random_loops(data: st.DataObject, body: list[str], n: int, is_known: bool) -> None:
    """A pipeline computes what the loop does, or is refused; one of a single stage never is."""
    stages = data.draw(st.lists(st.integers(0, 3), min_size=len(body), max_size=len(body)))
    if data.draw(st.booleans()):
        stages.sort()
    order = data.draw(st.permutations(range(len(body))))
    is_serial = data.draw(st.integers(0, 3)) == 0
    if is_serial:
        stages, order = [2] * len(body), list(range(len(body)))
    extent = str(n) if is_known else "n"
    expected = results(program(body, extent, "annotations={}"), n)
    pipeline = program(body, extent, ANNOTATIONS.format(stages, order))
    try:
        found = results(pipeline, n)
    except codegen.CodegenError:
        assert not is_serial
        return
    for old, new in zip(expected, found, strict=True):
        np.testing.assert_array_equal(old, new)
