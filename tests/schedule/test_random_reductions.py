"""Whatever the loops around a reduction do, a sequence of calls keeps its result or is refused."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import Schedule, ScheduleError
from tensorir import parse
from tensorir.interp import interpret

FORMS = {
    "plain": ({"i": 3, "k": 4}, "i", "k", "True"),
    "split": ({"i": 3, "o": 2, "k": 3}, "i", "o * 3 + k", "o * 3 + k < 4"),
    "fused": ({"f": 12}, "f // 4", "f % 4", "True"),
    "tiles of a fused loop": ({"g": 6, "f": 2}, "(g * 2 + f) // 4", "(g * 2 + f) % 4", "True"),
    "falling": ({"i": 3, "k": 4}, "i", "3 - k", "True"),
    "repeated": ({"i": 3, "k": 4, "r": 2}, "i", "k", "True"),
    "repeated steps": ({"i": 3, "k": 8}, "i", "k // 2", "True"),
    "repeated rows": ({"i": 6, "k": 4}, "i // 2", "k", "True"),
    "without the last": ({"i": 3, "k": 4}, "i", "k", "k < 3"),
    "a triangle": ({"i": 3, "k": 4}, "i", "k", "k <= i"),
}
"""The extents of loops, what the two axes are bound to, and where the block runs."""


def program(form: str, order: list[str], falling_producer: bool) -> str:
    extents, row, step, predicate = FORMS[form]
    loops = [name for name in order if name in extents]
    header = ", ".join(loops)
    sizes = ", ".join(str(extents[name]) for name in loops)
    place = "3 - vk" if falling_producer else "vk"
    return f"""\
@T.prim_func
def main(A: T.Buffer((3, 4), "int32"), D: T.Buffer((3,), "int32")):
    P = T.alloc_buffer((3, 4), "int32")
    C = T.alloc_buffer((3,), "int32")
    for i, k in T.grid(3, 4):
        with T.block("P"):
            vi, vk = T.axis.remap("SS", [i, k])
            P[vi, {place}] = A[vi, vk] * 3
    for {header} in T.grid({sizes}):
        with T.block("C"):
            vi = T.axis.spatial(3, {row})
            vk = T.axis.reduce(4, {step})
            T.where({predicate})
            with T.init():
                C[vi] = 1
            C[vi] = C[vi] + P[vi, vk]
    for i in range(3):
        with T.block("D"):
            vi = T.axis.spatial(3, i)
            D[vi] = C[vi] * 2
"""


class NoLoop(Exception):
    """A block has no loops to choose from."""


def at(sch, block, k):
    """Return a loop around a block; its innermost one if there are fewer."""
    loops = sch.get_loops(block)
    if not loops:
        raise NoLoop
    return loops[min(k, len(loops) - 1)]


CALLS = {
    "compute_at": lambda s, b, k, other: s.compute_at(b, at(s, other, k)),
    "reverse_compute_at": lambda s, b, k, other: s.reverse_compute_at(b, at(s, other, k)),
    "reorder": lambda s, b, k, other: s.reorder(at(s, b, k), at(s, b, k + 1)),
    "decompose_reduction": lambda s, b, k, other: s.decompose_reduction(b, at(s, b, k)),
    "rfactor": lambda s, b, k, other: s.rfactor(at(s, b, k), 0),
    "blockize": lambda s, b, k, other: s.blockize(at(s, b, k)),
    "compute_inline": lambda s, b, k, other: s.compute_inline(b),
    "reverse_compute_inline": lambda s, b, k, other: s.reverse_compute_inline(b),
    "fuse": lambda s, b, k, other: s.fuse(*s.get_loops(b)[:2]),
    "split": lambda s, b, k, other: s.split(at(s, b, k), [None, 2 + k]),
}


@settings(max_examples=80)
@given(
    form=st.sampled_from(sorted(FORMS)),
    order=st.permutations(["f", "g", "i", "k", "o", "r"]),
    falling_producer=st.booleans(),
    lines=st.lists(
        st.tuples(
            st.sampled_from(sorted(CALLS)),
            st.sampled_from(["P", "C", "C", "D"]),
            st.integers(0, 2),
            st.sampled_from(["P", "C", "D"]),
        ),
        min_size=1,
        max_size=5,
    ),
)
def test_the_result_stays(form, order, falling_producer, lines):
    func = parse(program(form, order, falling_producer))
    sch = Schedule(func, error_render_level="none")
    for name, block, k, other in lines:
        try:
            CALLS[name](sch, block, k, other)
        except (ScheduleError, NoLoop):
            continue
    values = np.random.default_rng(0).integers(-9, 9, (3, 4)).astype("int32")
    expected, actual = np.zeros(3, "int32"), np.zeros(3, "int32")
    interpret(func, values, expected)
    interpret(sch.mod, values, actual)
    np.testing.assert_array_equal(actual, expected)
