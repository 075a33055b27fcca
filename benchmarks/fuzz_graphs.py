"""Random graphs through the executor, against what graph functions mean.

    python -m benchmarks.fuzz_graphs --seconds 120

Two of three are fused. Every graph is compiled with guard pages, called twice with other sizes,
and compared bit by bit with the interpreter. Batches run in a process of their own, which may die
of an access out of bounds. Each failure is printed as a test.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

import numpy as np

import codegen
from benchmarks.fuzz_batches import parser_of, run
from benchmarks.random_graphs import LIBRARY, random_graph
from benchmarks.random_kernels import KEPT, Refusal
from codegen.errors import LibraryFunctionError
from tensorir.errors import IRTypeError, IRValueError
from tensorir.interp import InterpreterError
from tensorir.interp.graphs import interpret_graph
from tensorir.transform import DataflowUseInplaceCalls, default_pipeline

BATCH = 20


def check(seed: int, *, guard_pages: bool = True) -> None:
    """Compile and call one random graph; AssertionError where a result differs.

    Results must not share memory with arguments, with one another, or with later results, and
    arguments must stay as they are.
    """
    for name, function in LIBRARY.items():
        codegen.register_func(name, function, override=True)
    failing = seed % 5 == 0
    graph = random_graph(
        seed, 4 + seed % 17, packed=seed % 2 == 0, failing=failing, chained=seed % 3 == 0
    )
    mod = default_pipeline()(graph.mod) if seed % 3 < 2 else graph.mod
    if seed % 4 < 3:
        mod = DataflowUseInplaceCalls(smallest=0)(mod)
    executable = codegen.vm_build(mod, "llvm", guard_pages=guard_pages)
    machine = codegen.VirtualMachine(executable, codegen.cpu())
    KEPT.clear()
    results: list[tuple[Any, Any]] = []
    for call in range(3):
        inputs = graph.inputs(call)
        before = [x.copy() for x in _arrays(inputs)]
        try:
            expected = interpret_graph(graph.mod, graph.entry, *inputs, library=LIBRARY)
        except (IRTypeError, IRValueError, InterpreterError, Refusal):
            assert failing, "the interpreter raised"
            # A call of a pure function that nobody needs is dropped, and its error with it.
            with suppress(IRTypeError, IRValueError, LibraryFunctionError):
                machine[graph.entry](*inputs)
            continue
        result = machine[graph.entry](*inputs)
        for x, y in zip(_arrays(inputs), before, strict=True):
            np.testing.assert_array_equal(x, y, "an argument was changed")
        results.append((result, expected))
        arrays = [*_arrays(inputs), *(x for r, _ in results for x in _arrays(r))]
        for k, x in enumerate(arrays):
            for y in arrays[k + 1 :]:
                assert not np.may_share_memory(x, y), "two arrays share memory"
    for result, expected in results:
        _compare(result, expected)
    for array, held in KEPT:
        np.testing.assert_array_equal(array, held, "what a library function kept was changed")


def _arrays(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [x for part in value for x in _arrays(part)]
    return [value] if isinstance(value, np.ndarray) else []


def _compare(result: Any, expected: Any) -> None:
    if isinstance(expected, (tuple, list)):
        assert isinstance(result, tuple)
        assert len(result) == len(expected)
        for part, wanted in zip(result, expected, strict=True):
            _compare(part, wanted)
        return
    np.testing.assert_array_equal(result, expected, strict=isinstance(expected, np.ndarray))


def main() -> int:
    """Run batches until the time is up; return the number of failures."""
    options = parser_of(__doc__).parse_args()
    return run(options, check, BATCH, "benchmarks.fuzz_graphs", "graph")


if __name__ == "__main__":
    sys.exit(main())
