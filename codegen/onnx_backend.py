"""The package as a backend of ONNX, with the interface of `onnx.backend` that ONNX tools use.

from onnx.backend.test import BackendTest
import codegen.onnx_backend
suite = BackendTest(codegen.onnx_backend, __name__).enable_report().test_cases
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from codegen.errors import CodegenError
from codegen.runtime.array_view import NAMES_OF_ML_DTYPES
from codegen.runtime.ndarray import cpu
from codegen.vm.build import vm_build
from codegen.vm.machine import VirtualMachine
from tensorir import frontend
from tensorir.frontend.onnx.dtypes import narrow_integer
from tensorir.nodes.dtype import DataType
from tensorir.relax.function import Function
from tensorir.relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from tensorir.transform import LegalizeOps

TARGET = "llvm -opt-level=1"
"""The target of models: fast compilation, since each runs a few times only."""


class Prepared:
    """A model that was compiled."""

    def __init__(self, model: Any, target: str = TARGET) -> None:
        mod = LegalizeOps()(frontend.from_onnx(model))
        main = mod["main"]
        assert isinstance(main, Function)
        self._result = main.ret_struct_info
        self._names = [_narrow_name(info) for info in model.graph.output]
        self._several = len(model.graph.output) > 1  # an input may be a sequence
        self._main = VirtualMachine(vm_build(mod, target), cpu())["main"]

    def run(self, inputs: Sequence[Any] | Mapping[str, Any], **_: Any) -> tuple[Any, ...]:
        """Return the outputs for inputs in order, as NumPy arrays."""
        values = list(inputs.values()) if isinstance(inputs, Mapping) else list(inputs)
        result = self._main(*map(_argument, values))
        info = self._result
        several = self._several and isinstance(info, TupleStructInfo)
        outputs = result if several else (result,)
        infos = info.elements if several and isinstance(info, TupleStructInfo) else (info,)
        arrays = [_array(v, i) for v, i in zip(outputs, infos, strict=True)]
        return tuple(
            array if name is None else array.astype(getattr(import_module("ml_dtypes"), name))
            for array, name in zip(arrays, self._names, strict=True)
        )


def supports_device(device: str) -> bool:
    """Return whether models run on a device, such as "CPU"."""
    return device.partition(":")[0] == "CPU"


def is_compatible(model: Any, device: str = "CPU", **_: Any) -> bool:
    """Return True, so that every model is tried."""
    return supports_device(device)


def prepare(model: Any, device: str = "CPU", **_: Any) -> Prepared:
    """Return a model that is ready to run."""
    if not supports_device(device):
        raise CodegenError(f"models run on the CPU, not on {device}")
    return Prepared(model)


def run_model(model: Any, inputs: Sequence[Any], device: str = "CPU", **_: Any) -> tuple[Any, ...]:
    """Run a model once."""
    return prepare(model, device).run(inputs)


def _argument(value: Any) -> Any:
    """Return an input as a model accepts it: numbers of dtypes that NumPy lacks as their bits."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_argument, value))
    if value is None:
        return None
    array = np.ascontiguousarray(value).reshape(np.shape(value))
    if array.dtype.name in ("int4", "int2", "uint4", "uint2"):
        return array.astype(array.dtype.name[:-1] + "8")
    if array.dtype.kind in "biuf" and array.dtype.isbuiltin == 1:
        return array
    return array.view(
        DataType(NAMES_OF_ML_DTYPES.get(array.dtype.name, array.dtype.name)).to_numpy()
    )


def _array(value: Any, info: StructInfo) -> Any:
    """Return an output in the form that ONNX's tools compare."""
    if isinstance(value, (list, tuple)):
        infos = info.elements if isinstance(info, TupleStructInfo) else [info] * len(value)
        return [_array(v, i) for v, i in zip(value, infos, strict=True)]
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    dtype = info.dtype if isinstance(info, TensorStructInfo) else None
    name = next((n for n, known in NAMES_OF_ML_DTYPES.items() if known == dtype), None)
    return array if name is None else array.view(getattr(import_module("ml_dtypes"), name))


def _narrow_name(info: Any) -> str | None:
    """Return the name of an output's dtype if it is an integer of fewer than 8 bits, else None."""
    narrow = narrow_integer(info.type.tensor_type.elem_type)
    return None if narrow is None else narrow.name
