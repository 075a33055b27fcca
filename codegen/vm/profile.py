"""The time of each call in a graph function."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any, Final

import numpy as np

from codegen.runtime.ndarray import Device
from codegen.vm import program as p
from codegen.vm.build import compile_lowered
from codegen.vm.executable import Executable
from codegen.vm.frame import Frame
from codegen.vm.graph_function import GraphFunction, Link
from codegen.vm.steps import linked_functions
from tensorir.script.display import preformatted
from tensorir.text_table import aligned
from tensorir.transform.fuse_ops import FUSED_OPERATORS

_RUNS: Final = 3
_LONGEST: Final = 48
"""Characters of a text in a table: models name things at any length."""


@dataclass(frozen=True, slots=True)
class Row:
    """One call of the program: the callee, the binding, the arguments, the time."""

    name: str
    kind: str
    """`kernel`, `library` or `graph function`; the time of the last excludes its own calls."""
    binding: str
    arguments: str
    operators: str
    """The operators of a fused kernel: `matmul + add`."""
    count: int
    us: float
    percent: float


@dataclass(frozen=True, repr=False)
class Report:
    """The calls of one run in order of their first start; times are in microseconds.

    The last row of its table is the time between the calls, so that the table sums to the total.
    """

    function: str
    rows: tuple[Row, ...]
    total_us: float
    """From the first call to the end of the last."""

    def table(self, *, sort: bool = False) -> str:
        """Return the rows as text, with `sort` the slowest first.

        Long texts are shortened in their middle; `csv` and `json` have all of them.
        """
        rows = sorted(self.rows, key=lambda r: -r.us) if sort else self.rows
        cells: list[tuple[str, ...]] = [tuple(Row.__slots__)]
        cells += [
            (
                *map(_shortened, astuple(r)[:5]),
                str(r.count),
                f"{r.us:.2f}",
                f"{r.percent:.1f}",
            )
            for r in rows
        ]
        between = max(0.0, self.total_us - sum(r.us for r in self.rows))
        share = 100 * between / self.total_us if self.total_us else 0.0
        cells.append(("between calls", *[""] * 5, f"{between:.2f}", f"{share:.1f}"))
        text = aligned(cells, ("count", "us", "percent"))
        return f"{text}\n{self.function}: {self.total_us:.2f} us in all"

    def csv(self) -> str:
        """Return the rows as comma-separated values with a header."""
        out = io.StringIO()
        names = list(Row.__slots__)
        writer = csv.DictWriter(out, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in self.rows)
        return out.getvalue()

    def json(self) -> str:
        """Return the report as JSON."""
        content = {
            "function": self.function,
            "total_us": self.total_us,
            "calls": [asdict(row) for row in self.rows],
        }
        return json.dumps(content, indent=1)

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return preformatted(self.table())


class _Recorder:
    """Wraps steps so that they record their times."""

    def __init__(self) -> None:
        self.active = False
        self.times: dict[tuple[str, str, str, str], list[float]] = {}
        self.spent = 0.0
        """Seconds of recording itself, which belong to no row."""
        self._inner = 0.0

    def watch(self, link: Link) -> Link:
        """Return a link whose steps are recorded."""

        def watched(step: p.Step, owner: GraphFunction) -> Callable[[Frame], object]:
            run = link(step, owner)
            described = _described(step)
            if described is None:
                return run
            binding, describe = described

            def recorded(frame: Frame) -> None:
                if not self.active:
                    run(frame)
                    return
                entered = time.perf_counter()
                name, kind, arguments = describe(frame)
                key = (name, kind, f"{owner.name}: {binding}", arguments)
                times = self.times.setdefault(key, [])
                outer, self._inner = self._inner, 0.0
                start = time.perf_counter()
                run(frame)
                end = time.perf_counter()
                times.append(end - start - self._inner)
                left = time.perf_counter()
                self.spent += (start - entered) + (left - end)
                self._inner = outer + (left - entered)

            return recorded

        return watched


_Describe = Callable[[Frame], tuple[str, str, str]]


def _described(step: p.Step) -> tuple[str, _Describe] | None:
    if isinstance(step, p.Run):
        run = step
        return step.binding, lambda _: (run.function, "kernel", run.operands)
    if isinstance(step, (p.CallLibrary, p.CallGraph)):
        call = step
        kind = "library" if isinstance(step, p.CallLibrary) else "graph function"
        binding = step.binding.partition(": ")[2].partition(" = ")[0]
        return binding, lambda frame: (
            call.function,
            kind,
            ", ".join(_value_text(frame.registers[k]) for k in call.arguments),
        )
    return None


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    kept = _LONGEST - len("...")
    return f"{text[: kept - kept // 2]}...{text[-(kept // 2) :]}"


def _value_text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    return type(value).__name__


def profile(
    executable: Executable, name: str, args: Sequence[Any], device: Device | None = None
) -> Report:
    """Run a function of an executable some times and report the median run, call by call."""
    parts = compile_lowered(executable.mod, executable.module.target, one_by_one=True)
    recorder = _Recorder()
    function = linked_functions(parts, recorder.watch, device)[name]
    prepared = function.prepare(*args)
    prepared()
    recorder.active = True
    runs = []
    for _ in range(_RUNS):
        recorder.times, recorder.spent = {}, 0.0
        start = time.perf_counter()
        prepared()
        total = time.perf_counter() - start - recorder.spent
        runs.append((total, recorder.times))
    total, recorded = sorted(runs, key=lambda run: run[0])[_RUNS // 2]
    kernels = executable.mod.prim_funcs()
    rows = []
    for key, times in recorded.items():
        func = kernels.get(key[0])
        operators = () if func is None else func.attrs.get(FUSED_OPERATORS, ())
        shown = " + ".join(map(str, operators))
        percent = 100 * sum(times) / total if total else 0.0
        rows.append(Row(*key, shown, len(times), sum(times) * 1e6, percent))
    return Report(name, tuple(rows), total * 1e6)
