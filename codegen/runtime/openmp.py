"""Finding an OpenMP runtime on this machine.

A runtime that the process has loaded already is preferred, because two runtimes would compete for
the cores; then the system's runtime; then a runtime in a Python package.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from codegen.abi import OPENMP_SYMBOLS
from codegen.target.host import system_text

_RUNTIME: Final = re.compile(r"/lib(?:gomp|omp|iomp5)[-\w.]*\.(?:so|dylib)[\w.]*$")
_SYSTEM_NAMES: Final = ("libgomp.so.1", "libomp.so", "libomp.so.5", "libiomp5.so", "libomp.dylib")
_SPIN_COUNT: Final = "GOMP_SPINCOUNT"
_SPIN_SETTINGS: Final = (_SPIN_COUNT, "OMP_WAIT_POLICY")
_PACKAGES: Final = ("xgboost", "sklearn", "scikit_learn", "torch")
"""Packages whose wheels contain a runtime in `<package>.libs` or `<package>/lib`."""


@cache
def runtime() -> ctypes.CDLL | None:
    """Return the OpenMP runtime that parallel loops use, None if this machine has none."""
    for path in _candidates():
        try:
            with _short_spinning():
                library = ctypes.CDLL(path)
        except OSError:
            continue
        if all(hasattr(library, symbol) for symbol in OPENMP_SYMBOLS):
            return library
    return None


@contextmanager
def _short_spinning() -> Iterator[None]:
    """Make libgomp, which reads its environment when it is loaded, spin for a short time only.

    By default a waiting thread spins for about 10 milliseconds before it sleeps. On a busy machine
    it then occupies the core that the awaited thread needs. A setting of the user is respected.
    """
    if any(name in os.environ for name in _SPIN_SETTINGS):
        yield
        return
    os.environ[_SPIN_COUNT] = "5000"
    try:
        yield
    finally:
        del os.environ[_SPIN_COUNT]


def spin_for_milliseconds() -> None:
    """Make threads that wait for a parallel loop spin for some milliseconds before they sleep.

    This is for a process that measures alone, before its first parallel loop: waking a thread takes
    up to a quarter of a millisecond.
    """
    if not any(name in os.environ for name in _SPIN_SETTINGS):
        os.environ[_SPIN_COUNT] = "200000"


def wake_threads(count: int) -> None:
    """Wake this number of threads, which wait for a parallel loop for a while before they sleep."""
    library = runtime()
    if library is not None:
        nothing = ctypes.CDLL(None).free  # of a null pointer
        library.GOMP_parallel(nothing, None, count, 0)


def symbol_addresses() -> dict[str, int]:
    """Return the addresses of the runtime's entry points; all 0 without a runtime."""
    library = runtime()
    if library is None:
        return dict.fromkeys(OPENMP_SYMBOLS, 0)
    return {
        symbol: ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0
        for symbol in OPENMP_SYMBOLS
    }


def _candidates() -> Iterator[str]:
    yield from _loaded_runtimes()
    yield from _SYSTEM_NAMES
    for package in _PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.origin:
            continue
        home = Path(spec.origin).parent
        for folder in (home.parent / f"{package}.libs", home / "lib"):
            yield from (str(p) for p in sorted(folder.glob("lib*omp*")) if _RUNTIME.search(str(p)))


def _loaded_runtimes() -> list[str]:
    lines = system_text(Path("/proc/self/maps")).splitlines()
    paths = (line.split(maxsplit=5)[-1] for line in lines)
    return list(dict.fromkeys(p for p in paths if _RUNTIME.search(p)))
