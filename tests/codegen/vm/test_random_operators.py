"""Random graphs of operators give what they mean; `benchmarks.fuzz operators` runs more of them."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from benchmarks.fuzz.operators import (
    check,
    compare,
    expected,
    graph_of,
    interpreted,
    operator_graph,
)
from tensorir import verify_well_formed
from tensorir.transform import FoldBatchNorm, LegalizeOps


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_pipelines_keep_what_operators_mean(seed: int) -> None:
    check(seed, guard_pages=False)


@pytest.mark.parametrize("seed", [1, 3, 12])
def test_special_values_and_empty_axes_give_what_numpy_and_torch_give(seed: int) -> None:
    pytest.importorskip("torch", reason="the results are those of torch")
    from benchmarks.fuzz.special_values import check_special  # noqa: PLC0415

    check_special(seed)


def test_random_graphs_are_well_formed_and_the_same_for_a_seed() -> None:
    for seed in range(6):
        mod = operator_graph(seed).mod
        assert verify_well_formed(mod)
        assert mod.script() == operator_graph(seed).mod.script()


def test_weights_that_are_wrong_by_a_hundredth_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def rounded(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
        return (array * 1.01).astype(dtype)

    monkeypatch.setattr(sys.modules[FoldBatchNorm.__module__], "_round", rounded)
    found = folded = 0
    for seed in range(40):
        graph = graph_of(seed)
        wrong = FoldBatchNorm()(graph.mod)
        if wrong is graph.mod:
            continue
        inputs = graph.inputs(1)
        folded += 1
        try:
            result = interpreted(LegalizeOps()(wrong), inputs)
            compare(result, expected(graph, inputs), graph.facts, "folded")
        except AssertionError:
            found += 1
        if found == 2:
            return
    raise AssertionError(f"{found} of {folded} were found")
