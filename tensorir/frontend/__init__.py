"""Trained models as modules with a graph function `main`.

    mod = frontend.from_onnx("resnet18.onnx")

A model file is data: reading it executes nothing, and reads nothing outside of its folder. The
rooms: `onnx`.
"""

from typing import TYPE_CHECKING

from tensorir.lazy_names import names_on_use

if TYPE_CHECKING:
    from tensorir.frontend.onnx.from_onnx import from_onnx as from_onnx

__all__ = ["from_onnx"]

__getattr__ = names_on_use(__name__)
