"""Trained models, on inputs of their real use, beside ONNX Runtime."""

from __future__ import annotations

import pytest

import codegen
from benchmarks.model_zoo import MODELS, arrays, difference, reference
from tensorir import frontend
from tensorir.transform import LegalizeOps

pytest.importorskip("onnx", reason="reading ONNX models takes the package onnx")
pytest.importorskip("onnxruntime", reason="outputs are compared with those of onnxruntime")


@pytest.mark.parametrize("name", [m.name for m in MODELS.values() if m.is_small])
def test_a_model_computes_what_it_was_trained_for(name: str) -> None:
    model = MODELS[name]
    path = model.path()
    if path is None:
        pytest.skip(f"the model is in the package {model.package}, which is not installed")
    mod = LegalizeOps()(frontend.from_onnx(path, shape_dict=model.shapes))
    built = codegen.vm_build(mod, "llvm -opt-level=1")
    inputs = model.inputs()
    outputs = arrays(codegen.VirtualMachine(built, codegen.cpu())["main"](*inputs.values()))
    assert difference(outputs, reference(model, inputs)) < model.tolerance
    assert model.answer(outputs) == model.expected
