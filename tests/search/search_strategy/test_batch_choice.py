"""A batch has the promising and the uncertain individuals, without near copies."""

from __future__ import annotations

from search.search_strategy.individual import Individual, choose_batch


class Space:
    """The part of a design space that a choice needs."""

    def __init__(self, index: int) -> None:
        self.index = index


SPACES = [Space(0), Space(1)]


def point(decisions: tuple[int, ...], mean: float, std: float = 0.0, space: int = 0) -> Individual:
    individual = Individual.at(SPACES[space], decisions)  # type: ignore[arg-type]
    individual.mean, individual.std = mean, std
    return individual


def chosen(pool: list[Individual], wanted: int, exploration: float = 1.0) -> list[object]:
    return [x.decisions for x in choose_batch(pool, wanted, exploration, lambda _: True)]


def test_without_doubt_the_best_are_chosen_best_first() -> None:
    pool = [point((0, 0), 0.2), point((1, 1), 0.9), point((2, 2), 0.5)]
    assert chosen(pool, 2) == [(1, 1), (2, 2)]


def test_doubt_counts_as_a_promise_as_much_as_exploration_says() -> None:
    pool = [point((0, 0), 0.8, 0.0), point((1, 1), 0.6, 0.3)]
    assert chosen(pool, 1, exploration=1.0) == [(1, 1)]
    assert chosen(pool, 1, exploration=0.5) == [(0, 0)]


def test_what_is_like_a_chosen_one_is_no_longer_in_doubt() -> None:
    near, far = point((0, 0, 0, 1), 0.5, 0.4), point((7, 7, 7, 7), 0.45, 0.4)
    pool = [point((0, 0, 0, 0), 0.6, 0.4), near, far]
    assert chosen(pool, 3) == [(0, 0, 0, 0), (7, 7, 7, 7), (0, 0, 0, 1)]


def test_the_same_decisions_in_another_space_are_nothing_alike() -> None:
    same, other = point((0, 0, 0), 0.5, 0.4), point((0, 0, 0), 0.5, 0.4, space=1)
    near = point((0, 0, 1), 0.55, 0.4)
    found = choose_batch([same, near, other], 2, 1.0, lambda _: True)
    assert found == [near, other]


def test_what_the_model_cannot_tell_from_a_chosen_or_a_measured_one_comes_last() -> None:
    pool = [point((k, k), 0.9 - 0.1 * k) for k in range(5)]
    for individual, number in zip(pool, (11, 11, 12, 13, 0), strict=True):
        individual.twins = number
    found = choose_batch(pool, 5, 1.0, lambda _: True, measured={12, 0})
    assert [x.decisions for x in found] == [(0, 0), (3, 3), (4, 4), (1, 1), (2, 2)]


def test_who_is_refused_leaves_the_place_to_the_next() -> None:
    pool = [point((0, 0), 0.9), point((1, 1), 0.8), point((2, 2), 0.7)]
    found = choose_batch(pool, 2, 1.0, lambda x: x.mean < 0.9)
    assert [x.decisions for x in found] == [(1, 1), (2, 2)]


def test_traces_of_no_space_take_part() -> None:
    foreign = Individual("a trace", mean=1.0)
    found = choose_batch([point((0, 0), 0.5), foreign], 5, 1.0, lambda _: True)
    assert found == [foreign, *found[1:]]
    assert len(found) == 2
