"""The names of `topi` and its subpackages: the operators that their modules declare."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

from tensorir.relax.declaration import FormulaOperator
from tensorir.relax.operator import Operator


def formulas(package: str, prefix: str = "") -> dict[str, Callable[..., Any]]:
    """Import the modules of a package; return the formulas of operators such as `nn.relu` by name.

    The prefix of an operator's name is omitted.
    """
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
    return {
        op.short_name.removeprefix(prefix): op.function
        for op in Operator.table.values()
        if isinstance(op, FormulaOperator)
        and op.function.__module__.startswith("tensorir.topi.")
        and op.short_name.startswith(prefix)
        and "." not in op.short_name.removeprefix(prefix)
    }
