"""Times an exported program in torch: as it is, and compiled where that works."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from serve import digest, seconds_of, serve

sys.path.insert(0, str(Path(__file__).parents[1]))  # the models, which need torch alone

import torch_models

_calls: dict[str, Any] = {}


def prepare(name: str, inputs: str, threads: int, **_: Any) -> dict[str, Any]:
    """Make a model of `benchmarks/torch_models.py`, for the arrays of an `.npz` file."""
    torch.set_num_threads(threads)
    if name not in torch_models.MODELS:
        raise LookupError(f"{name} is an ONNX file only")
    module = torch_models.MODELS[name]()[0].eval()
    arrays = [torch.from_numpy(array) for array in np.load(inputs).values()]
    _calls.clear()
    with torch.inference_mode():
        _calls["eager"] = lambda: module(*arrays)
        first = _first(_calls["eager"]())
        compiled = torch.compile(module)
        try:
            compiled(*arrays)
            _calls["compiled"] = lambda: compiled(*arrays)
        except Exception as error:  # noqa: BLE001 - a machine without a compiler has no such form
            print(f"torch.compile: {error}", file=sys.stderr)
    return {"digest": digest(first.numpy()), "forms": list(_calls)}


def run(form: str, least: float) -> dict[str, Any]:
    """Return the seconds of a call."""
    with torch.inference_mode():
        return {"seconds": seconds_of(_calls[form], least)}


def _first(result: Any) -> torch.Tensor:
    return result[0] if isinstance(result, (tuple, list)) else result


serve(f"torch {torch.__version__.partition('+')[0]}", {"prepare": prepare, "run": run})
