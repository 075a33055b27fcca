"""Every converter of an operator of torch, beside torch: as it is exported, and decomposed."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="models of torch need the extra `torch`")

from torch import tensor
from torch.nn import functional as F  # noqa: F401 (in the calls)

from tensorir import frontend
from tests.exported import Several, built, compare
from tests.text_cases import rows_of

A = torch.ops.aten


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


X = randn(3, 4)
Y = randn(3, 4, seed=1)
ROW = randn(4, seed=2)
NEAR = torch.rand(3, 4, generator=torch.Generator().manual_seed(3)) * 0.9 + 0.05  # within (0, 1)
INTS = tensor([[7, -3, 0, 5], [2, -8, 9, 1], [4, 4, -1, 6]])
SMALL = tensor([[3, -2, 1, 2], [1, 3, -4, 2], [2, -1, 3, 5]], dtype=torch.int32)
MASK = X > 0
CUBE = randn(2, 3, 4, seed=4)
IMAGE = randn(2, 4, 7, 6, seed=5)
SIGNAL = randn(2, 4, 9, seed=6)
VOLUME = randn(1, 2, 4, 5, 4, seed=7)


GROUPS: dict[str, list[tuple[str, ...]]] = {}
for row in rows_of(Path(__file__).with_name("torch_operators.txt")):
    GROUPS.setdefault(row.title, []).append(row.cells)


@pytest.mark.parametrize("decomposed", [False, True], ids=["exported", "decomposed"])
@pytest.mark.parametrize("group", GROUPS)
def test_operators_compute_what_torch_computes(group: str, decomposed: bool) -> None:
    (names, values), *calls = GROUPS[group]
    inputs = eval(f"({values},)")
    module = Several([eval(f"lambda {names}: {call}") for (call,) in calls])
    program = torch.export.export(module, inputs)
    if decomposed:
        program = program.run_decompositions()
    mod = frontend.from_exported_program(program)
    compare(built(mod)["main"](*inputs), module(*inputs), rtol=1e-5, atol=1e-5)
