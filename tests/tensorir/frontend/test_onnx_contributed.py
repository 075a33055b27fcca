"""Operators of ONNX Runtime's own domain, beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from tensorir import frontend
from tensorir.transform import LegalizeOps

onnx = pytest.importorskip("onnx", reason="reading ONNX models takes the package onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="outputs are compared with its outputs")
helper = onnx.helper


def test_fused_operators_of_transformers() -> None:
    rng = np.random.default_rng(0)
    weights = {
        "words": rng.standard_normal((10, 8)),
        "places": rng.standard_normal((6, 8)),
        "kinds": rng.standard_normal((2, 8)),
        "gamma": rng.standard_normal(8),
        "beta": rng.standard_normal(8),
        "w": rng.standard_normal((8, 8)),
    }
    microsoft = {"domain": "com.microsoft"}
    nodes = [
        helper.make_node(
            "EmbedLayerNormalization",
            ["ids", "segments", "words", "places", "kinds", "gamma", "beta", "mask"],
            ["embedded", "lengths"],
            **microsoft,
        ),
        helper.make_node("FusedMatMul", ["embedded", "w"], ["p"], transB=1, alpha=0.5, **microsoft),
        helper.make_node("BiasGelu", ["p", "beta"], ["a"], **microsoft),
        helper.make_node("FastGelu", ["a", "gamma"], ["b"], **microsoft),
        helper.make_node("QuickGelu", ["b"], ["c"], **microsoft),
        helper.make_node("Gelu", ["c"], ["d"], **microsoft),
        helper.make_node(
            "SkipLayerNormalization",
            ["d", "embedded", "gamma", "beta"],
            ["y", "", "", "total"],
            epsilon=1e-5,
            **microsoft,
        ),
    ]
    kinds = onnx.TensorProto
    graph = helper.make_graph(
        nodes,
        "graph",
        [
            helper.make_tensor_value_info(name, kinds.INT32, [2, 5])
            for name in ("ids", "segments", "mask")
        ],
        [
            helper.make_tensor_value_info("y", kinds.FLOAT, None),
            helper.make_tensor_value_info("total", kinds.FLOAT, None),
            helper.make_tensor_value_info("lengths", kinds.INT32, None),
        ],
        [onnx.numpy_helper.from_array(a.astype("float32"), n) for n, a in weights.items()],
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
        ir_version=9,
    )
    ids = rng.integers(0, 10, (2, 5)).astype("int32")
    segments = rng.integers(0, 2, (2, 5)).astype("int32")
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "int32")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = session.run(None, {"ids": ids, "segments": segments, "mask": mask})
    built = codegen.vm_build(LegalizeOps()(frontend.from_onnx(model)), "llvm")
    outputs = codegen.VirtualMachine(built, codegen.cpu())["main"](ids, segments, mask)
    for output, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(output, wanted, rtol=1e-4, atol=1e-4)
