"""Which programs count as another one with longer loops, and how many times the iterations."""

import pytest

from search import compatible_factor
from search.database import ModuleEquality
from search.task import normalize_mod
from tensorir import T, parse, workloads
from tensorir.function import IRModule
from tests.search.compatible_programs import convolution, product


@pytest.mark.parametrize(
    ("longer", "factor"),
    [
        ((64, 64, 64), 1),
        ((128, 128, 128), 8),
        ((64, 64, 192), 3),
        ((64, 64, 96), None),
        ((32, 64, 64), None),
        ((128, 32, 64), None),
    ],
)
def test_lengths_are_multiples(longer: tuple[int, int, int], factor: float | None) -> None:
    assert compatible_factor(product(64, 64, 64), product(*longer)) == factor


def test_iterations_of_all_blocks_count() -> None:
    """The block that pads has (8 + 2)^2 * 4 iterations an image, the other 8^2 * 4 * 9 * 4."""
    assert compatible_factor(convolution(batch=1), convolution(batch=8)) == 8
    assert compatible_factor(convolution(channels=4), convolution(channels=8)) == pytest.approx(
        (400 + 2 * 9216) / (400 + 9216)
    )


def sliding_sum(length: int, window: int, step: int = 1) -> IRModule:
    """Return a sum of so many neighbours at so many places."""
    read = (length - 1) * step + window

    @T.prim_func
    def main(A: T.Buffer((read,), "float32"), B: T.Buffer((length,), "float32")):
        for i, r in T.grid(length, window):
            with T.block("B"):
                vi, vr = T.axis.remap("SR", [i, r])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi * step + vr]

    return IRModule({"main": main})


def test_a_window_is_told_from_a_reduction_by_how_it_is_read() -> None:
    """What is read has 20 elements for 16 sums of 5, and 36 for 32: no multiple, and none needed."""
    recorded = sliding_sum(16, 5)
    assert compatible_factor(recorded, sliding_sum(32, 5)) == 2
    assert compatible_factor(recorded, sliding_sum(16, 10)) is None
    assert compatible_factor(recorded, sliding_sum(32, 10)) is None
    assert compatible_factor(sliding_sum(16, 5, step=2), sliding_sum(32, 5, step=2)) == 2
    assert compatible_factor(sliding_sum(16, 5, step=2), sliding_sum(32, 5, step=4)) is None
    assert compatible_factor(sliding_sum(1, 16), sliding_sum(1, 32)) == 2, "it sees everything"


def test_numbers_that_are_coincidences_do_not_follow() -> None:
    """A bound of 3 on a length of 64 is not 67 on one of 128, but it would be as far from both."""

    def masked(length: int, bound: int) -> IRModule:
        @T.prim_func
        def main(A: T.Buffer((length,), "float32"), B: T.Buffer((length,), "float32")):
            for i in range(length):
                with T.block("B"):
                    vi = T.axis.spatial(length, i)
                    B[vi] = T.if_then_else(vi < bound, A[vi], T.float32(0))

        return IRModule({"main": main})

    assert compatible_factor(masked(64, 60), masked(128, 124)) == 2
    assert compatible_factor(masked(64, 64), masked(128, 128)) == 2
    assert compatible_factor(masked(64, 60), masked(128, 60)) == 2, "the same"
    assert compatible_factor(masked(64, 60), masked(128, 61)) is None
    assert compatible_factor(masked(64, 130), masked(128, 194)) is None


def test_attributes_and_data_are_the_same() -> None:
    small, large = product(64, 64, 64), product(128, 128, 128)
    for attrs, factor in (
        ({"layout_free_buffers": [1]}, None),
        ({"op_pattern": 4, "global_symbol": "fused"}, 8),
    ):
        changed = IRModule({"main": large["main"].with_attr(attrs)})
        assert compatible_factor(small, changed) == factor
    free = [
        IRModule({"main": mod["main"].with_attr({"layout_free_buffers": [place]})})
        for mod, place in ((small, 1), (large, 0), (large, 1))
    ]
    assert compatible_factor(free[0], free[1]) is None
    assert compatible_factor(free[0], free[2]) == 8


@pytest.mark.parametrize(
    ("name", "doubled", "factor"),
    [
        ("C1D", "l", 2),
        ("C2D", "ci", 2),
        ("C2D", "co", 2),
        ("C2D", "w", 2),
        ("C2D", "kernel", None),
        ("DEP", "c", 2),
        ("DEP", "stride", None),
        ("T2D", "h", 2),
        ("T2D", "kernel", None),
        ("GRP", "h", 2),
        ("GRP", "groups", None),
        ("CAP", "co", 2),
        ("SFM", "n", 2),
        ("NRM", "m", 2),
        ("TBG", "heads", 2),
        ("CBR", "n", 2),
        ("CBR", "padding", None),
    ],
)
def test_operators_of_networks(name: str, doubled: str, factor: float | None) -> None:
    """Their sizes are lengths but for windows and how these move; padded parts count less."""
    before = workloads.get(name).parameters()
    recorded = normalize_mod(workloads.create(name))
    longer = normalize_mod(workloads.create(name, **{doubled: 2 * before[doubled]}))
    found = compatible_factor(recorded, longer)
    assert found == (None if factor is None else pytest.approx(factor, rel=0.02))


def test_programs_that_differ_in_lengths_are_found_by_one_hash() -> None:
    equality = ModuleEquality.create("ignore-lengths")
    small, large = product(64, 64, 64), product(128, 32, 8)
    assert equality.equal(small, large)
    assert equality.hash(small) == equality.hash(large)
    assert not equality.equal(small, convolution())
    assert equality.hash(small) != equality.hash(convolution())
    wide = parse(small.script().replace("(64, 64, 64)", "(T.int64(64), T.int64(64), T.int64(64))"))
    assert isinstance(wide, IRModule)
    assert not equality.equal(small, wide), "types count"
    assert equality.hash(small) != equality.hash(wide)
