"""Operators that NumPy computes at run time.

Importing this package imports every module in it, so a module of new operators is a new file.
"""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
