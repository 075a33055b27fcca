"""Time proofs under many symbolic loops: `python -m benchmarks.proofs`.

Milliseconds of processor time for one question to an analyzer that knows 8, 16 or 24 nested loops
`for i_k in range(n_k)`, the best of several. A question that cannot be answered costs the most,
since every known fact might help; the cost is to grow no worse than linearly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tensorir import PrimExpr, Range, Var
from tensorir.arith import Analyzer

LOOPS = (8, 16, 24)
REPEATS = 7

Question = Callable[[Sequence[Var], Sequence[Var]], PrimExpr]


def _total(variables: Sequence[Var]) -> PrimExpr:
    total: PrimExpr = variables[0]
    for var in variables[1:]:
        total = total + var
    return total


QUESTIONS: dict[str, tuple[bool, Question]] = {
    "i0*4 + 3 < n0*4": (True, lambda i, n: i[0] * 4 + 3 < n[0] * 4),
    "i0 + i1 < n0 + n1 - 1": (True, lambda i, n: i[0] + i[1] < n[0] + n[1] - 1),
    "i0 + i1 < n0": (False, lambda i, n: i[0] + i[1] < n[0]),
    "sum(i) < n0": (False, lambda i, n: _total(i) < n[0]),
    "sum(i) < sum(n) - 24": (False, lambda i, n: _total(i) < _total(n) - 24),
}


def milliseconds(loops: int, bounded: bool, question: Question) -> tuple[bool, float]:
    """Return the answer and the time that it took; sizes are at most 100 if `bounded`."""
    sizes = [Var(f"n{k}") for k in range(loops)]
    variables = [Var(f"i{k}") for k in range(loops)]
    goal = question(variables, sizes)
    best, answer = float("inf"), False
    for _ in range(REPEATS):
        analyzer = Analyzer()
        for size in sizes if bounded else ():
            analyzer.bind(size, Range(1, 101))
        for var, size in zip(variables, sizes, strict=True):
            analyzer.bind(var, Range(size))
        start = time.process_time()
        answer = analyzer.can_prove(goal)
        best = min(best, time.process_time() - start)
    return answer, best * 1e3


def main() -> None:
    """Print a table."""
    print(f"{'question':28}{'sizes':>10}" + "".join(f"{n:>10}" for n in LOOPS))
    for bounded in (False, True):
        for name, (expected, question) in QUESTIONS.items():
            row = [milliseconds(loops, bounded, question) for loops in LOOPS]
            assert all(answer == expected for answer, _ in row), name
            cells = "".join(f"{time_ms:10.3f}" for _, time_ms in row)
            print(f"{name:28}{'1..100' if bounded else 'any':>10}{cells}")


if __name__ == "__main__":
    main()
