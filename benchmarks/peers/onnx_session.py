"""Times a model file in ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from serve import digest, seconds_of, serve

_calls: dict[str, Any] = {}


def prepare(model: str, inputs: str, threads: int, **_: Any) -> dict[str, Any]:
    """Make a session of a model file, for the arrays of an `.npz` file."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feeds = dict(np.load(inputs))
    _calls["main"] = lambda: session.run(None, feeds)
    return {"digest": digest(np.asarray(_calls["main"]()[0])), "forms": ["main"]}


def run(form: str, least: float) -> dict[str, Any]:
    """Return the seconds of a call."""
    return {"seconds": seconds_of(_calls[form], least)}


serve(f"ONNX Runtime {onnxruntime.__version__}", {"prepare": prepare, "run": run})
