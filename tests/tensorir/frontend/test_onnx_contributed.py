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


FLOATS = np.random.default_rng(1)


def compared(node: object, inputs: dict[str, np.ndarray], weights: dict[str, np.ndarray]) -> None:
    """Compare all outputs of one node with ONNX Runtime's."""
    outputs = [name for name in node.output if name]  # type: ignore[attr-defined]
    graph = helper.make_graph(
        [node],
        "graph",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(a.dtype), list(a.shape)
            )
            for name, a in inputs.items()
        ],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs],
        [onnx.numpy_helper.from_array(a, name) for name, a in weights.items()],
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
        ir_version=9,
    )
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    built = codegen.vm_build(LegalizeOps()(frontend.from_onnx(model)), "llvm -opt-level=1")
    found = codegen.VirtualMachine(built, codegen.cpu())["main"](*inputs.values())
    for one, other in zip(found if len(outputs) > 1 else [found], expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def floats(*shape: int) -> np.ndarray:
    return FLOATS.standard_normal(shape).astype("float32")


MASKS = {
    "none": None,
    "ends": np.array([3, 5], "int32"),
    "ends and begins": np.array([3, 5, 1, 0], "int32"),
    "positions": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "int32"),
    "pairs": (FLOATS.random((2, 5, 5)) < 0.8).astype("int32"),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention(mask: str, unidirectional: int) -> None:
    given = MASKS[mask]
    inputs = {"x": floats(2, 5, 8)} | ({} if given is None else {"mask": given})
    names = ["x", "w", "b", *(["mask"] if given is not None else [])]
    node = helper.make_node(
        "Attention",
        names,
        ["y"],
        domain="com.microsoft",
        num_heads=2,
        unidirectional=unidirectional,
    )
    compared(node, inputs, {"w": floats(8, 24), "b": floats(24)})


def test_attention_with_a_past_a_bias_and_narrower_values() -> None:
    past = {"x": floats(2, 3, 8), "past": floats(2, 2, 2, 4, 4)}
    node = helper.make_node(
        "Attention", ["x", "w", "b", "", "past"], ["y", "present"],
        domain="com.microsoft", num_heads=2, unidirectional=1,
    )  # fmt: skip
    compared(node, past, {"w": floats(8, 24), "b": floats(24)})
    node = helper.make_node(
        "Attention", ["x", "w", "b", "", "", "bias"], ["y"],
        domain="com.microsoft", num_heads=2, qkv_hidden_sizes=[8, 8, 4], scale=0.3,
    )  # fmt: skip
    inputs = {"x": floats(2, 5, 8), "bias": floats(2, 2, 5, 5)}
    compared(node, inputs, {"w": floats(8, 20), "b": floats(20)})


@pytest.mark.parametrize("mask", ["none", "ends", "positions"])
def test_quantized_attention(mask: str) -> None:
    given = MASKS[mask]
    inputs = {"x": FLOATS.integers(0, 255, (2, 5, 8)).astype("uint8")}
    inputs |= {} if given is None else {"mask": given}
    names = ["x", "w", "b", "xs", "ws", "mask" if given is not None else "", "xz", "wz"]
    weights = {
        "w": FLOATS.integers(-127, 127, (8, 24)).astype("int8"),
        "b": floats(24),
        "xs": np.float32(0.01),
        "ws": np.float32(0.02),
        "xz": np.uint8(120),
        "wz": np.int8(0),
    }
    node = helper.make_node("QAttention", names, ["y"], domain="com.microsoft", num_heads=2)
    compared(node, inputs, {name: np.asarray(a) for name, a in weights.items()})


def test_attention_of_several_heads() -> None:
    inputs = {"q": floats(2, 3, 8), "k": floats(2, 5, 8), "v": floats(2, 5, 8)}
    node = helper.make_node(
        "MultiHeadAttention", ["q", "k", "v", "b", "mask"], ["y"],
        domain="com.microsoft", num_heads=2,
    )  # fmt: skip
    compared(node, inputs | {"mask": MASKS["positions"]}, {"b": floats(24)})
    past = {"pk": floats(2, 2, 4, 4), "pv": floats(2, 2, 4, 4)}
    node = helper.make_node(
        "MultiHeadAttention", ["q", "k", "v", "", "", "", "pk", "pv"], ["y", "a", "b"],
        domain="com.microsoft", num_heads=2,
    )  # fmt: skip
    compared(node, inputs | past, {})
