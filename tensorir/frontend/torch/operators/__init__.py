"""Converters of ATen's operators; importing this package imports every module in it.

The modules: `creation`, `elementwise`, `indexing`, `products`, `recurrent`, `reductions`,
`shapes`, `windows`.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
