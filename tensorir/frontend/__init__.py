"""Trained models as modules with a graph function `main`.

    mod = frontend.from_onnx("resnet18.onnx")
    mod = frontend.from_exported_program(torch.export.export(model.eval(), (x,)))

Reading a model file executes no code and opens no file outside of the model's folder. The
subpackages: `onnx`, `torch`.
"""

from typing import TYPE_CHECKING

from tensorir.lazy_names import names_on_use

if TYPE_CHECKING:
    from tensorir.frontend.onnx.graph_import import from_onnx as from_onnx
    from tensorir.frontend.onnx.limits import ImportLimitError as ImportLimitError
    from tensorir.frontend.onnx.limits import ImportLimits as ImportLimits
    from tensorir.frontend.torch.exported_program import (
        from_exported_program as from_exported_program,
    )

__all__ = ["ImportLimitError", "ImportLimits", "from_exported_program", "from_onnx"]

__getattr__ = names_on_use(__name__)
