"""Converters of ONNX operators, by family; importing this package imports every module in it.

The modules: `attention`, `control_flow`, `convolutions`, `creation`, `elementwise`, `images`,
`indexing`, `microsoft`, `products`, `quantization`, `recurrent`, `reductions`, `sequences`,
`shapes`.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
