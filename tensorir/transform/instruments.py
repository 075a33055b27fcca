"""Instruments that observe passes as they run: printing, timing, checking."""

from __future__ import annotations

import sys
import time
from typing import Final, TextIO

from tensorir.errors import noting
from tensorir.function import BaseFunc, IRModule
from tensorir.transform.pass_context import PassInfo, verify_result


class PassInstrument:
    """Observes passes; override the methods that are needed."""

    def enter_pass_ctx(self) -> None:
        """Called when the context is entered."""

    def exit_pass_ctx(self) -> None:
        """Called when the context is left."""

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """Return False to skip the pass."""
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Called with the module before a pass."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Called with the module after a pass."""


class PrintBefore(PassInstrument):
    """Prints the module before passes with the given names; by default before all passes."""

    def __init__(self, *names: str, file: TextIO | None = None) -> None:
        self._names: Final = frozenset(names)
        self._file = file

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Print the module."""
        if not self._names or info.name in self._names:
            _show(f"# before {info.name}", mod.functions, self._file)


class _Comparing(PassInstrument):
    """Stores the module before each running pass; passes may be nested."""

    def __init__(self) -> None:
        self._before: list[IRModule] = []

    def enter_pass_ctx(self) -> None:
        """Drop the modules of passes that raised an error."""
        self._before.clear()

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Store the module."""
        self._before.append(mod.clone())


class PrintAfter(_Comparing):
    """Prints the functions that passes with the given names changed.

    The default is all passes.
    """

    def __init__(self, *names: str, file: TextIO | None = None) -> None:
        super().__init__()
        self._names: Final = frozenset(names)
        self._file = file

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Print the changed functions."""
        before = self._before.pop()
        if self._names and info.name not in self._names:
            return
        changed = {n: f for n, f in mod.functions.items() if before.functions.get(n) is not f}
        removed_names = [name for name in before if name not in mod]
        removed = f"; removed: {', '.join(removed_names)}" if removed_names else ""
        same = "" if changed or removed_names else " changed nothing"
        _show(f"# after {info.name}{same}{removed}", changed, self._file)


PrintBeforeAll = PrintBefore
"""Prints the module before every pass."""
PrintAfterAll = PrintAfter
"""Prints after every pass the functions that it changed."""


class VerifyAfterEach(_Comparing):
    """Verifies modules after every pass. Raises WellFormedError, which names the pass.

    `TENSORIR_VERIFY=1` in the environment does the same in every context.
    """

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Check the result of the pass."""
        with noting(f"in the pass {info.name}"):
            verify_result(self._before.pop(), mod)


class PassTimingInstrument(PassInstrument):
    """Measures the time of passes; call `render` inside of the context or after it."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, str, float]] = []
        self._running: list[tuple[int, float]] = []

    def enter_pass_ctx(self) -> None:
        """Delete the times of an earlier use."""
        self._rows.clear()
        self._running.clear()

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Start the clock of a pass."""
        self._rows.append((len(self._running), info.name, 0.0))
        self._running.append((len(self._rows) - 1, time.perf_counter()))

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Stop the clock of a pass."""
        row, start = self._running.pop()
        depth, name, _ = self._rows[row]
        self._rows[row] = (depth, name, time.perf_counter() - start)

    def render(self) -> str:
        """Return a table of passes in order, inner passes indented: milliseconds, percent of the
        total.
        """
        total = sum(seconds for depth, _, seconds in self._rows if depth == 0)
        width = max((2 * depth + len(name) for depth, name, _ in self._rows), default=0)
        lines = [
            f"{'  ' * depth + name:<{width}}  {seconds * 1e3:9.3f} ms"
            f"  {100 * seconds / total if total else 0:5.1f} %"
            for depth, name, seconds in self._rows
        ]
        return "\n".join([*lines, f"{'total':<{width}}  {total * 1e3:9.3f} ms"])


def _show(title: str, functions: dict[str, BaseFunc], file: TextIO | None) -> None:
    text = IRModule(functions).script() if functions else ""
    (file or sys.stdout).write(f"{title}\n{text}\n" if text else f"{title}\n")
