"""The validation of the records of a database: whether they still hold."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from codegen import Target
from search.builder import Builder, BuilderInput, BuilderResult
from search.errors import DatabaseError
from search.runner import Runner, RunnerInput
from tensorir.errors import TensorIRError
from tensorir.text_table import html_table

if TYPE_CHECKING:
    from search.database.records import TuningRecord
    from search.runner.measure_candidate import MeasureCandidate
    from tensorir.function import IRModule

Kind = Literal["entry", "trace", "replay", "build", "run", "time"]
"""The kind of a fault.

An `"entry"`, a line of a file or a row of a table, or its `"trace"` cannot be read; it does not
`"replay"` on its program; the scheduled program does not `"build"`, does not `"run"` or computes
something else; or its `"time"` is another.
"""


@dataclass(frozen=True)
class Finding:
    """Something wrong with a record."""

    number: int | None
    """The place of the record in the database, from 0; None for an entry that cannot be read."""
    workload: str
    target: str
    kind: Kind
    text: str


class Findings(Sequence[Finding]):
    """The faults that a validation found, as a list and as a table."""

    def __init__(self, checked: int, measured: int, findings: Sequence[Finding]) -> None:
        self.checked = checked
        """Records that were replayed."""
        self.measured = measured
        """Records that were built and run."""
        self._findings = list(findings)

    def __len__(self) -> int:
        return len(self._findings)

    def __getitem__(self, index: int) -> Finding:  # type: ignore[override]
        return self._findings[index]

    def __str__(self) -> str:
        said = f"{self.checked} records replayed, {self.measured} run: {len(self)} findings"
        rows = [
            f"{'' if f.number is None else f.number:>7}  {f.kind:7}{f.workload:22}"
            f"{f.text.strip().partition(chr(10))[0]}"
            for f in self
        ]
        return "\n".join([said, *rows])

    def _repr_html_(self) -> str:
        rows = [("record", "fault", "workload", "target", "text")]
        for f in self:
            number = "" if f.number is None else str(f.number)
            rows.append((number, f.kind, f.workload, f.target, f.text))
        return f"<p>{html.escape(str(self).partition(chr(10))[0])}</p>{html_table(rows)}"


def validate(
    records: Sequence[tuple[str, TuningRecord]],
    unreadable: Sequence[str] = (),
    *,
    runner: str | Runner | None = None,
    builder: str | Builder = "local",
    factor: float = 1.5,
) -> Findings:
    """Replay records, which come with the keys of their workloads, and return the faults.

    With a runner, the valid ones are built and run, too. Their results are compared with those of
    the unscheduled program, and their times with the recorded ones, which they may miss by `factor`
    in either direction.
    """
    measurement = None if runner is None else _Measurement(builder, runner, factor)
    measured = 0
    findings = [Finding(None, "", "", "entry", text) for text in unreadable]
    try:
        for number, (key, record) in enumerate(records):
            for kind, text in _faults(record, measurement):
                findings.append(Finding(number, key, str(record.target or ""), kind, text))
            measured += measurement is not None and record.is_valid
    finally:
        if measurement is not None:
            measurement.close()
    return Findings(len(records), measured, findings)


def _faults(record: TuningRecord, measurement: _Measurement | None) -> Iterator[tuple[Kind, str]]:
    try:
        record.trace  # noqa: B018  reads it
        candidate = record.as_measure_candidate()
    except DatabaseError as error:
        yield "trace", str(error)
    except TensorIRError as error:
        yield "replay", str(error)
    else:
        if measurement is not None and record.is_valid:
            yield from measurement.faults(record, candidate)


class _Measurement:
    """Builds and runs records; the unscheduled programs are built once."""

    def __init__(self, builder: str | Builder, runner: str | Runner, factor: float) -> None:
        self._builder = Builder.create(builder)
        self._runner = Runner.create(runner)
        self._own = [
            part
            for part, given in ((self._builder, builder), (self._runner, runner))
            if part is not given
        ]
        self._factor = factor
        self._references: dict[tuple[str, Target], str] = {}

    def faults(
        self, record: TuningRecord, candidate: MeasureCandidate
    ) -> Iterator[tuple[Kind, str]]:
        """Yield the faults of a record that show when it is built and run."""
        target = record.target or Target("llvm")
        place = (record.workload.script, target)
        if place not in self._references:
            reference = self._build(record.workload.mod, target)
            if reference.artifact_path is None:
                yield "build", f"unscheduled: {reference.error_msg}"
                return
            self._references[place] = reference.artifact_path
        built = self._build(candidate.mod, target)
        if built.artifact_path is None:
            yield "build", str(built.error_msg)
            return
        same_arguments = candidate.measured_mod is candidate.mod
        entry = RunnerInput(
            built.artifact_path,
            target.kind,
            candidate.args_info,
            self._references[place] if same_arguments else None,
        )
        (future,) = self._runner.run([entry])
        result = future.result().checked()
        self._builder.remove_artifact(built.artifact_path)
        now = result.median_secs
        if now is None:
            yield "run", str(result.error_msg)
            return
        ratio = now / record.mean_seconds
        if not 1 / self._factor <= ratio <= self._factor:
            yield (
                "time",
                f"{now:.3e} s now, {record.mean_seconds:.3e} s recorded: {ratio:.2f} times",
            )

    def close(self) -> None:
        """Remove the unscheduled programs and end the processes that were started."""
        for path in self._references.values():
            self._builder.remove_artifact(path)
        for part in self._own:
            part.close()

    def _build(self, mod: IRModule, target: Target) -> BuilderResult:
        (result,) = self._builder.build([BuilderInput(mod, target)])
        return result
