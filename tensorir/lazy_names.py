"""Packages whose public names are loaded where they are first asked for.

A package that most programs use in part writes the imports of its names under `if TYPE_CHECKING:`,
where type checkers and readers look for them, and

    __getattr__ = names_on_use(__name__)

does them one at a time, when somebody asks.
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
    """Return the `__getattr__` of a package: it imports what stands under `if TYPE_CHECKING:`.

    Modules of the package are loaded at first access, too. AttributeError for other names.
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
            near = get_close_matches(name, places(), 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        # What is a name of the package comes before a module that is called alike.
        setattr(sys.modules[package], name, value)
        return value

    return load


def _imports_for_checkers(package: str) -> dict[str, tuple[str, str]]:
    """Return the module that a package has each of its names from, and the name there."""
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
