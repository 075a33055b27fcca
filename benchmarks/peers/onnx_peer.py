"""Times a model file in ONNX Runtime."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import onnxruntime
from serve import digest, seconds_of, serve_timers


def prepare(model: str, inputs: str, threads: int, **_: Any) -> Any:
    """Make a session of a model file, for the arrays of an `.npz` file."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in np.load(inputs).items():
        binding.bind_cpu_input(name, array)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    call = partial(session.run_with_iobinding, binding)
    call()
    answer = {"digest": digest(binding.copy_outputs_to_cpu()[0])}
    return answer, {"main": partial(seconds_of, call)}


serve_timers(f"ONNX Runtime {onnxruntime.__version__}", prepare)
