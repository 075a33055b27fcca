"""Packages whose public names are imported on first use.

A package that most programs use in part writes the imports of its names under `if TYPE_CHECKING:`,
where type checkers and readers look for them, and

    __getattr__ = names_on_use(__name__)

imports each name when it is first accessed.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tensorir.syntax_trees import syntax_tree


def names_on_use(package: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package: it imports the names that `if TYPE_CHECKING:` lists.

    Modules of the package are imported at first access, too. Raises AttributeError for other names.
    """

    @cache
    def places() -> dict[str, tuple[str, str]]:
        return _imports_for_checkers(package)

    def load(name: str) -> Any:
        found = places().get(name)
        if found is not None and found[0] != package:
            module, original = found
            owner = import_module(module)
            value = getattr(owner, original, None) or import_module(f"{module}.{original}")
        elif not name.startswith("_") and find_spec(f"{package}.{name}") is not None:
            value = import_module(f"{package}.{name}")
        else:
            similar = get_close_matches(name, places(), 1)
            hint = f"; did you mean {similar[0]}?" if similar else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        # A public name of the package takes precedence over a module of the same name.
        setattr(sys.modules[package], name, value)
        return value

    return load


def _imports_for_checkers(package: str) -> dict[str, tuple[str, str]]:
    """Return, for each public name of a package, the module that defines it and its name there."""
    spec = sys.modules[package].__spec__
    text = spec.loader.get_source(package) if spec is not None else None  # type: ignore[union-attr]
    found: dict[str, tuple[str, str]] = {}
    for node in syntax_tree(text or "").body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for line in node.body:
                assert isinstance(line, ast.ImportFrom)
                for alias in line.names:
                    found[alias.asname or alias.name] = (str(line.module), alias.name)
    return found
