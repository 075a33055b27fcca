"""Times torch's products of narrow matrices on one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from serve import seconds_of, serve

torch.set_num_threads(1)

_SECONDS = 0.01
"""How long a measurement lasts at least."""


def _bytes(n: int) -> Callable[[], torch.Tensor]:
    a, b = (torch.randint(-128, 128, (n, n), dtype=torch.int8) for _ in range(2))
    return lambda: torch._int_mm(a, b)


def _floats(n: int, dtype: torch.dtype) -> Callable[[], torch.Tensor]:
    a, b = (torch.randn(n, n).to(dtype) for _ in range(2))
    return lambda: a @ b


_CALLS: dict[str, Callable[[int], Callable[[], torch.Tensor]]] = {
    "int8": _bytes,
    "bfloat16": lambda n: _floats(n, torch.bfloat16),
    "float32": lambda n: _floats(n, torch.float32),
}


def time_matmul(dtype: str, n: int) -> dict[str, Any]:
    """Return the seconds of a product of n x n matrices."""
    call = _CALLS[dtype](n)
    call()
    return {"seconds": seconds_of(call, _SECONDS)}


if __name__ == "__main__":
    serve(f"torch {torch.__version__}", {"time": time_matmul})
