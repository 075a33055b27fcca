"""NaN, infinities, denormal numbers, zeros of both signs and empty tensors, beside torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="models of torch need the extra `torch`")

from torch import inf, nan
from torch.nn import functional as F

from tests.exported import Several, built, imported

SPECIAL = torch.tensor(
    [
        [nan, 1.0, -2.0, inf],
        [-inf, -inf, -inf, -inf],
        [inf, inf, -inf, 0.0],
        [1e-40, -1e-40, 1e-45, -0.0],
        [3.0, nan, -inf, 2.0],
        [0.0, -0.0, 88.0, -104.0],
    ]
)
EMPTY = torch.empty(3, 0)

GROUPS: dict[str, list[Callable[[Any], Any]]] = {
    "activations": [
        F.relu, F.relu6, F.silu, F.mish, F.hardswish, F.hardsigmoid, F.selu, F.elu, F.celu,
        F.softplus, F.softsign, F.logsigmoid, F.hardtanh, F.leaky_relu, F.hardshrink,
        F.softshrink, F.tanhshrink, torch.sigmoid, torch.tanh,
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: F.gelu(x.clamp(max=100)),  # torch's own gives NaN for an infinity
        lambda x: F.elu(x, 0.3),
        lambda x: F.celu(x, 2.0),
        lambda x: F.softplus(x, 2.0, 10.0),
        lambda x: F.threshold(x, 0.5, 20.0),
        lambda x: F.leaky_relu(x, 0.0),
        lambda x: F.prelu(x, torch.tensor([0.25], dtype=x.dtype)),
        lambda x: F.glu(x),
    ],
    "extrema": [
        lambda x: x.amax(1), lambda x: x.amin(0), torch.max, torch.min,
        lambda x: tuple(x.max(1)), lambda x: tuple(x.min(0)),
        lambda x: x.argmax(1), lambda x: x.argmin(1), lambda x: x.argmax(),
        lambda x: tuple(torch.aminmax(x, dim=1)), lambda x: tuple(torch.nanmedian(x, 1)),
        lambda x: tuple(x.sort(stable=True, dim=1)), lambda x: x.argsort(stable=True, dim=1),
        lambda x: torch.maximum(x, x.flip(0)), lambda x: torch.minimum(x, x.flip(0)),
        lambda x: x.clamp(-1, 1), lambda x: x.clamp_min(0.5), lambda x: x.clamp_max(0.5),
    ],
    "sums": [
        lambda x: x.sum(1), lambda x: x.prod(1), lambda x: x.mean(1), lambda x: x.var(1),
        lambda x: x.any(1), lambda x: x.all(1), lambda x: x.std(1), torch.sum, torch.prod,
        lambda x: x.logsumexp(1), lambda x: x.cumsum(1), lambda x: x.cumprod(1),
        lambda x: x.logcumsumexp(1),
        lambda x: torch.nansum(x, 1), lambda x: torch.nanmean(x, 1),
        lambda x: x.softmax(1), lambda x: x.log_softmax(1), lambda x: x.softmax(0),
        *[lambda x, p=p: torch.linalg.vector_norm(x, p, 1) for p in (1, 2, 3, inf, -inf)],
        lambda x: F.layer_norm(x, x.shape[1:]), F.normalize,
    ],
    "pooling": [
        lambda x: F.max_pool1d(x[None], 2, 1),
        lambda x: F.max_pool1d(x[None], 2, 1, 1),
        lambda x: F.max_pool2d(x[None], 2, 1, 1),
        lambda x: F.max_pool2d(x[None], (1, 2), 2, return_indices=True),
        lambda x: F.max_pool2d(x[None], 3, 2, 1, ceil_mode=True),
        lambda x: F.max_pool3d(x[None, None], (1, 2, 2), 1),
        lambda x: F.adaptive_max_pool2d(x[None], (3, 3)),
        lambda x: F.adaptive_max_pool2d(x[None], 1),
        lambda x: F.avg_pool2d(x[None], 2, 1),
        lambda x: F.adaptive_avg_pool2d(x[None], (3, 3)),
    ],
    "functions": [
        *[getattr(torch, name) for name in (
            "exp", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos",
            "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erf", "erfc",
            "lgamma", "sign", "sgn", "abs", "ceil", "floor", "round", "trunc", "frac", "reciprocal", "square",
            "isnan", "isinf", "isfinite", "neg", "logit", "nan_to_num",
        )],
        *[lambda x, p=p: x**p for p in (-1, -0.5, 0, 0.5, 1.5, 2, 3, 4)],
        lambda x: 2**x,
    ],
    "operators": [
        *[lambda x, f=f: f(x[:, :, None], x[:, None]) for f in (
            torch.add, torch.mul, torch.div, torch.pow, torch.fmod, torch.remainder,
            torch.floor_divide, torch.atan2, torch.copysign, torch.eq, torch.ne, torch.lt, torch.ge,
        )],
        lambda x: torch.where(x > 0, x, 0.0),
        lambda x: x.masked_fill(x != x, 0.0),
        lambda x: x.to(torch.bool), lambda x: x.to(torch.float16),
        lambda x: x.to(torch.bfloat16).to(torch.float32),
    ],
}  # fmt: skip


def compare(result: Any, expected: Any) -> None:
    """Compare tensors, NaN included; zeros of two signs are equal."""
    wanted = expected if isinstance(expected, (tuple, list)) else [expected]
    for array, tensor in zip(result, wanted, strict=True):
        assert array.shape == tuple(tensor.shape)
        assert str(array.dtype) == str(tensor.dtype).removeprefix("torch.")
        np.testing.assert_allclose(array.numpy(), tensor.numpy(), rtol=1e-5, atol=1e-6)


def check(functions: list[Callable[[Any], Any]], x: torch.Tensor) -> None:
    result = list(built(imported(Several(functions), (x,)))["main"](x))
    for function in functions:
        expected = function(x)
        count = len(expected) if isinstance(expected, tuple) else 1
        compare([result.pop(0) for _ in range(count)], expected)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("x", [SPECIAL, SPECIAL.double()], ids=["float32", "float64"])
def test_special_values_are_those_of_torch(group: str, x: torch.Tensor) -> None:
    check(GROUPS[group], x)


def _of_nothing(function: Callable[[Any], Any]) -> bool:
    try:
        function(EMPTY)
    except (RuntimeError, IndexError):
        return False
    return True


@pytest.mark.parametrize("group", [group for group in GROUPS if group != "pooling"])
def test_empty_tensors_give_what_torch_gives(group: str) -> None:
    check([f for f in GROUPS[group] if _of_nothing(f)], EMPTY)


def test_an_extent_of_0_is_an_extent() -> None:
    class Empty(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.reshape(0, 2), x.reshape(2, 0, 5), x.unsqueeze(2)

    result = built(imported(Empty(), (EMPTY,)))["main"](EMPTY)
    assert [x.shape for x in result] == [(0, 2), (2, 0, 5), (3, 0, 1)]
