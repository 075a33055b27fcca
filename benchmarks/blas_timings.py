"""The routines of `benchmarks.blas` next to OpenBLAS, interleaved in one process, on one core."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

import codegen
from benchmarks.blas import Routine, shape_of

TARGET: Final = "llvm -num-cores=1"
SIZES: Final = {1: (100_000, 100_003), 2: (1024, 1009), 3: (512, 509)}
"""The sizes of the table, for each level."""
TURNS: Final = 40
SCALARS: Final = {"a": -1.0, "b": 0.5, "c": 0.6, "s": 0.8}
"""Values of the scalar parameters."""

ROW, N, T, LOWER, NONUNIT, LEFT = 101, 111, 112, 122, 131, 141
"""Enumerators of CBLAS."""

CALLS: Final[dict[str, Callable[..., tuple[Any, ...]]]] = {
    "scopy": lambda n, x, y: (n, x, 1, y, 1),
    "sswap": lambda n, x, y: (n, x, 1, y, 1),
    "sscal": lambda n, a, x: (n, a, x, 1),
    "saxpy": lambda n, a, x, y: (n, a, x, 1, y, 1),
    "saxpby": lambda n, a, x, b, y: (n, a, x, 1, b, y, 1),
    "srot": lambda n, c, s, x, y: (n, x, 1, y, 1, c, s),
    "srotm": lambda n, h, x, y: (n, x, 1, y, 1, h),
    "sdot": lambda n, x, y, r: (n, x, 1, y, 1),
    "snrm2": lambda n, x, r: (n, x, 1),
    "sasum": lambda n, x, r: (n, x, 1),
    "isamax": lambda n, x, q: (n, x, 1),
    "sgemv": lambda n, A, x, y: (ROW, N, n, n, 1.0, A, n, x, 1, 0.0, y, 1),
    "sgemv.T": lambda n, A, x, y: (ROW, T, n, n, 1.0, A, n, x, 1, 0.0, y, 1),
    "sger": lambda n, a, x, y, A: (ROW, n, n, a, x, 1, y, 1, A, n),
    "ssyr": lambda n, a, x, A: (ROW, LOWER, n, a, x, 1, A, n),
    "ssyr2": lambda n, a, x, y, A: (ROW, LOWER, n, a, x, 1, y, 1, A, n),
    "ssymv": lambda n, A, x, y: (ROW, LOWER, n, 1.0, A, n, x, 1, 0.0, y, 1),
    "strmv": lambda n, L, x: (ROW, LOWER, N, NONUNIT, n, L, n, x, 1),
    "strmv.T": lambda n, L, x: (ROW, LOWER, T, NONUNIT, n, L, n, x, 1),
    "strsv": lambda n, L, x: (ROW, LOWER, N, NONUNIT, n, L, n, x, 1),
    "sgemm": lambda n, A, B, C: (ROW, N, N, n, n, n, 1.0, A, n, B, n, 0.0, C, n),
    "sgemm.TN": lambda n, A, B, C: (ROW, T, N, n, n, n, 1.0, A, n, B, n, 0.0, C, n),
    "sgemm.NT": lambda n, A, B, C: (ROW, N, T, n, n, n, 1.0, A, n, B, n, 0.0, C, n),
    "ssymm": lambda n, A, B, C: (ROW, LEFT, LOWER, n, n, 1.0, A, n, B, n, 0.0, C, n),
    "ssyrk": lambda n, A, C: (ROW, LOWER, N, n, n, 1.0, A, n, 0.0, C, n),
    "ssyr2k": lambda n, A, B, C: (ROW, LOWER, N, n, n, 1.0, A, n, B, n, 0.0, C, n),
    "strmm": lambda n, L, B: (ROW, LEFT, LOWER, N, NONUNIT, n, n, 1.0, L, n, B, n),
    "strsm": lambda n, L, B: (ROW, LEFT, LOWER, N, NONUNIT, n, n, 1.0, L, n, B, n),
}
"""The arguments of the functions of CBLAS, from n and the arguments of the program."""


def arguments_of(routine: Routine, n: int) -> list[Any]:
    """Return random arguments; L is so close to 1 that its repeated use overflows nowhere."""
    rng = np.random.default_rng(0)
    values: list[Any] = []
    for name in routine.parameters.split():
        value = rng.standard_normal(shape_of(name, n))
        if name == "L":
            value = value / n**2 + np.eye(n)
        elif name == "h":
            value = np.array([-1, 0.6, -0.8, 0.8, 0.6])
        values.append(SCALARS.get(name, value.astype("int32" if name == "q" else "float32")))
    return values


def print_table(routines: Mapping[str, Routine]) -> None:
    """Print microseconds of a call of each routine and of OpenBLAS, as Markdown."""
    print("| routine | n | us | OpenBLAS | ratio | ms to schedule |\n|---|---|---|---|---|---|")
    ratios = []
    for name, routine in routines.items():
        for n in SIZES[routine.level]:
            scheduled, ours, theirs = _compare(name, routine, n)
            ratios.append(theirs / ours)
            cells = f"{ours:.1f} | {theirs:.1f} | {ratios[-1]:.2f} | {scheduled:.1f}"
            print(f"| {name} | {n} | {cells} |", flush=True)
    print(f"\ngeometric mean of the ratios: {np.exp(np.mean(np.log(ratios))):.2f}")


def _compare(name: str, routine: Routine, n: int) -> tuple[float, float, float]:
    """Return ms to schedule, and microseconds of a call of ours and of OpenBLAS.

    The least of interleaved turns counts. The time of a call from Python that does nothing is
    deducted from that of OpenBLAS.
    """
    routine.scheduled(n)
    start = time.process_time()
    sch = routine.scheduled(n)
    scheduled = time.process_time() - start
    library = codegen.build(sch.mod, TARGET)
    arguments = arguments_of(routine, n)
    copies = [np.copy(a) if isinstance(a, np.ndarray) else a for a in arguments]
    key = "isamax" if name == "iamax" else "s" + name
    openblas = _openblas()
    function = getattr(openblas, f"scipy_cblas_{key.split('.')[0]}64_")
    values = [_passed(value) for value in CALLS[key](n, *copies)]
    nothing = openblas.scipy_cblas_sscal64_, [_passed(x) for x in (0, 1.0, copies[-1], 1)]
    number = max(1, int(0.002 / _seconds(function, values, 1)))
    turns = []
    for _ in range(TURNS):
        ours = library.time_evaluator("main", number=number, repeat=1)(*arguments).min
        turns.append((ours, _seconds(function, values, number), _seconds(*nothing, number)))
    ours, theirs, idle = np.min(turns, axis=0) * 1e6
    return scheduled * 1e3, ours, theirs - idle


def _openblas() -> ctypes.CDLL:
    folder = Path(np.__file__).parent.parent / "numpy.libs"
    openblas = ctypes.CDLL(str(next(folder.glob("libscipy_openblas64_*"))))
    openblas.scipy_openblas_set_num_threads64_(1)
    return openblas


def _passed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_float(value) if isinstance(value, float) else ctypes.c_int64(value)


def _seconds(function: Any, values: list[Any], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        function(*values)
    return (time.perf_counter() - start) / number
