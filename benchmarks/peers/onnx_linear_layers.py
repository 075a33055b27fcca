"""Times the model of two linear layers in ONNX Runtime, on one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from serve import digest, inputs, seconds_of, serve

_calls: dict[str, Callable[[], object]] = {}


def prepare(shapes: list[list[int]], **_: Any) -> dict[str, Any]:
    """Make a session for the graph; its weights are constants, which it may pack."""
    x, *parameters = inputs(shapes)
    names = ["w0", "b0", "w1", "b1"]
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "w0", "b0"], ["h"], transB=1),
            helper.make_node("Relu", ["h"], ["a"]),
            helper.make_node("Gemm", ["a", "w1", "b1"], ["y"], transB=1),
        ],
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [shapes[0][0], shapes[4][0]])],
        [numpy_helper.from_array(p, n) for p, n in zip(parameters, names, strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    # Bound once, so that a call copies and allocates nothing.
    binding = session.io_binding()
    y = onnxruntime.OrtValue.ortvalue_from_shape_and_type(
        [shapes[0][0], shapes[4][0]], x.dtype, "cpu"
    )
    binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(x))
    binding.bind_ortvalue_output("y", y)
    _calls[""] = lambda: session.run(None, {"x": x})
    _calls["bound"] = lambda: session.run_with_iobinding(binding)
    _calls["bound"]()
    return {"digest": digest(y.numpy()), "forms": list(_calls)}


def run(form: str, least: float) -> dict[str, Any]:
    return {"seconds": seconds_of(_calls[form], least)}


serve(f"ONNX Runtime {onnxruntime.__version__}", {"prepare": prepare, "run": run})
