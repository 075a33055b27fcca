"""The sketches of programs, and how they print."""

from __future__ import annotations

import numpy as np
import pytest

import search as ms
from search.compat.auto_scheduler.sketch_policy import sketches
from search.schedule_rule import PackOperands, RFactorOverLanes, ScheduleRule
from tensorir import te
from tests.search.compat.auto_scheduler import ansor_programs
from tests.search.programs import Matmul, split_all

TARGET = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -num-cores=4"


MATMUL = ansor_programs.matmul(512, 512, 512).dag.func
CONV_BIAS_RELU = ansor_programs.conv2d_bias_relu(64, 28, 64).dag.func


def row_min():
    a = te.placeholder((10, 1024), name="A")
    k = te.reduce_axis((0, 1024), name="k")
    return te.create_prim_func([a, te.compute((10,), lambda i: te.min(a[i, k], axis=k), name="M")])


def scalar_sum():
    a = te.placeholder((128,), name="A")
    k = te.reduce_axis((0, 128), name="k")
    return te.create_prim_func([a, te.compute((1,), lambda i: te.sum(a[k], axis=k), name="S")])


def max_pool(window):
    a = te.placeholder((1, 56, 56, 64), name="A")
    y, x = (te.reduce_axis((0, window), name=name) for name in "yx")
    pooled = te.compute(
        (1, 27, 27, 64),
        lambda n, i, j, c: te.max(a[n, 2 * i + y, 2 * j + x, c], axis=[y, x]),
        name="pooled",
    )
    return te.create_prim_func([a, pooled])


def winograd():
    """A 3 x 3 convolution in tiles of 2 x 2 (Lavin and Gray, 2016), its weights transformed.

    The two transforms with constant matrices are left alone; Ansor has another rule for them.
    """
    alone = {"schedule_rule": "None"}
    x, w = te.placeholder((16, 16, 128), name="X"), te.placeholder((4, 4, 128, 128), name="W")
    b = constants([[1, 0, 0, 0], [0, 1, -1, 1], [-1, 1, 1, 0], [0, 0, 0, -1]], "B")
    a = constants([[1, 0], [1, 1], [1, -1], [0, -1]], "A")
    y, z, u, v = (te.reduce_axis((0, 4), name=name) for name in "yzuv")
    k = te.reduce_axis((0, 128), name="k")
    packed = te.compute(
        (4, 4, 49, 128),
        lambda e, f, p, c: te.sum(
            x[p // 7 * 2 + y, p % 7 * 2 + z, c] * b[y, e] * b[z, f], axis=[y, z]
        ),
        name="packed",
        attrs=alone,
    )
    products = te.compute(
        (4, 4, 49, 128),
        lambda e, f, p, o: te.sum(packed[e, f, p, k] * w[e, f, o, k], axis=k),
        name="products",
    )
    inverse = te.compute(
        (2, 2, 49, 128),
        lambda e, f, p, o: te.sum(products[u, v, p, o] * a[u, e] * a[v, f], axis=[u, v]),
        name="inverse",
        attrs=alone,
    )
    out = te.compute(
        (14, 14, 128), lambda i, j, o: inverse[i % 2, j % 2, i // 2 * 7 + j // 2, o], name="out"
    )
    return te.create_prim_func([x, w, out])


def constants(rows, name):
    """A matrix as Ansor's programs have it: a tensor that is computed of no other."""

    def at(i, j):
        value = te.const(0.0, "float32")
        for y, x in np.argwhere(rows):
            here = te.all(i == int(y), j == int(x))
            value = te.Select(here, te.const(rows[y][x], "float32"), value)
        return value

    return te.compute((len(rows), len(rows[0])), at, name=name)


@pytest.mark.parametrize(
    ("program", "count"),
    [
        (MATMUL, 3),
        (ansor_programs.matmul(8, 8, 512).dag.func, 5),
        (ansor_programs.two_matmuls(512).dag.func, 9),
        (CONV_BIAS_RELU, 3),
        (row_min(), 3),
        (ansor_programs.softmax(1, 1024).dag.func, 9),
        (scalar_sum(), 3),
        (max_pool(3), 3),
        (winograd(), 3),
    ],
)
def test_there_are_as_many_sketches_as_ansor_makes(program, count):
    """Rules of our own, which Ansor does not have, are left out."""
    own = (RFactorOverLanes, PackOperands)
    rules = [rule for rule in ScheduleRule.create("llvm") if not isinstance(rule, own)]
    space = ms.space_generator.PostOrderApply(sch_rules=rules)
    assert len(sketches(program, TARGET, space)) == count


def test_a_sketch_prints_with_its_holes():
    rules = [r for r in ScheduleRule.create("llvm") if not isinstance(r, PackOperands)]
    space = ms.space_generator.PostOrderApply(sch_rules=rules)
    text = str(sketches(MATMUL, TARGET, space)[1])
    assert (
        text
        == """\
sketch #1: 2.8e+07 programs
  rules: Multi-level Tiling with Fusion (SSRSRS), Add Cache Stage
  steps: PR SP SP SP RE CHW CA PR PR PR PR
  for i_0 in ?C.i[0]
    for j_0 in ?C.j[0]
      for i_1 in ?C.i[1]
        for j_1 in ?C.j[1]
          for k_0 in ?C.k[0]
            for i_2 in ?C.i[2]
              for j_2 in ?C.j[2]
                for k_1 in ?C.k[1]
                  for i_3 in ?C.i[3]
                    for j_3 in ?C.j[3]
                      C += ...
      for ax0 in inferred
        for ax1 in inferred
          C_global = ...
  holes:
    C.i                      512 in 4 parts, the last at most 64 (FillTileSize)
    C.j                      512 in 4 parts, the last at most 64 (FillTileSize)
    C.k                      512 in 2 parts, the last at most 512 (FillTileSize)
    unroll_explicit of root  0, 16, 64, 512 (Unroll)
    register_tile of root    16, 12 (none, tiles of registers are not in Ansor)
    parallel of root         0, 1, 2, 4, 8, 16, 32, 64 (Parallel)"""
    )


def test_a_factored_reduction():
    made = sketches(row_min(), TARGET)
    assert [sketch.rules for sketch in made].count(("Reduction Factorization",)) == 2
    assert [sketch.rules for sketch in made].count(("Skip",)) == 1
    for factored in (sketch for sketch in made if "RF" in sketch.steps):
        assert factored.holes[0].name == "M.k"
        assert any("?M.k[" in line for line in factored.loops)


def test_an_open_place_is_a_hole():
    rules = {hole.name: hole.rule for hole in sketches(CONV_BIAS_RELU, TARGET)[-1].holes}
    assert rules["location of pad"] == "ChangeComputeLocation"


def test_the_space_of_a_function_has_sketches_too():
    (sketch,) = sketches(Matmul, TARGET, split_all)
    assert [hole.site for hole in sketch.holes] == list(sketch.space.knobs)
    assert sketch.loops[-1].strip() == "C += ..."


def test_a_sketch_without_holes():
    space = ms.space_generator.PostOrderApply(sch_rules=[], postprocs=[], mutator_probs={})
    (sketch,) = sketches(Matmul, TARGET, space)
    assert (
        str(sketch)
        == """\
sketch #0: 1.0e+00 programs
  rules: Skip
  steps: none
  for i in 32
    for j in 32
      for k in 32
        C += ...
  no holes"""
    )
    page = sketch._repr_html_()
    assert page.startswith('<pre style="font-family: ')
    assert ">sketch #0" in page
