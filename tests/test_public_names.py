"""Every public name is there, whether it loads at once or when it is first asked for."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from tensorir.errors import TensorIRError

PACKAGES = ["tensorir", "schedule", "codegen", "search"]


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names(package):
    module = importlib.import_module(package)
    for name in module.__all__:
        value = getattr(module, name)
        assert value is getattr(module, name)
        home = getattr(value, "__module__", None)
        assert home is None or not callable(value) or home.split(".")[0] in (*PACKAGES, "builtins")


def test_a_name_that_is_not_there():
    search, codegen = importlib.import_module("search"), importlib.import_module("codegen")
    with pytest.raises(AttributeError, match="'search' has no attribute 'tune_tri'; did you mean"):
        _ = search.tune_tri
    with pytest.raises(AttributeError, match="'codegen' has no attribute 'vm_biuld'; did you mean"):
        _ = codegen.vm_biuld
    assert issubclass(search.errors.TuningError, TensorIRError)


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_what_is_loaded_only_when_it_is_used():
    code = """
import sys, tensorir, schedule, codegen, search
heavy = ["lark", "llvmlite", "xgboost", "sqlite3", "search.tune", "codegen.vm"]
print([name for name in heavy if name in sys.modules])
print(callable(search.random_search), callable(codegen.lower), search.tune_tir.__name__)
"""
    assert run(code) == "[]\nTrue True tune_tir"
