"""Settings that all tests share."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

os.environ["TENSORIR_VERIFY"] = "1"
os.environ["MPLBACKEND"] = "Agg"
# Nothing is taken from an earlier run, or left to a later one.
os.environ["TENSORIR_CACHE"] = "0"
# What tests see does not depend on how fast the machine is that they run on.
os.environ.setdefault("TENSORIR_HOST", "measured=no")
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    # The tests start hundreds of processes, each of which would compile all that it imports; this one
    # would compile all tests.
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

# Trees of nodes have no cycles, and looking for some took a tenth of the time of the tests.
gc.set_threshold(200_000, 20, 50)

sys.path.insert(0, str(Path(__file__).parent))

settings.register_profile(
    "ci",
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("deep", max_examples=5000, deadline=None)
settings.load_profile("ci")
# Examples must not contain constants of whatever modules a worker has loaded: which tests ran before
# would change them. Reading all modules takes three seconds.
providers.is_local_module_file = lambda path: False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite the results of text cases")


def pytest_collection_finish() -> None:
    """Leave what was imported out of all later collections, which many tests ask for."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Make collections at the end cheap: pytest asks for five, to find errors in finalizers."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def with_cache(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a user: what one program chose and built is there for the next."""
    return {**os.environ, "TENSORIR_CACHE": str(tmp_path_factory.mktemp("cache", numbered=False))}


@pytest.fixture(autouse=True, scope="session")
def _no_llvm_processes() -> Iterator[None]:
    """Compile in this process only: `make test` occupies all cores anyway.

    A process for LLVM costs as much CPU time as compiling ten kernels.
    """
    from codegen import compile_units  # noqa: PLC0415 - after the environment is set

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile_units, "_WORTH_A_PROCESS", sys.maxsize)
        patch.setattr(import_module("codegen.vm.build"), "_CALLS_A_PROCESS", sys.maxsize)
        yield
