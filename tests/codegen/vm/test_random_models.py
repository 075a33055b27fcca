"""Random graphs run as the interpreter says; `benchmarks.fuzz graphs` runs as many as one likes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import codegen
from benchmarks.fuzz.graphs import LIBRARY, check


@pytest.fixture(autouse=True)
def library() -> Iterator[None]:
    yield
    for name in LIBRARY:
        if name in codegen.list_global_func_names():
            codegen.remove_global_func(name)


@pytest.mark.parametrize("seed", range(7))
def test_results_are_those_of_the_interpreter(seed: int) -> None:
    check(seed, guard_pages=False)
