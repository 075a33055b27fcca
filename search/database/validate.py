"""The validation of a database: records that cannot be read, replayed or reproduced."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from codegen import Target
from search.builder import Builder, BuilderInput, BuilderResult
from search.database.programs import keyed_records
from search.errors import DatabaseError
from search.runner import Runner, RunnerInput
from tensorir.errors import TensorIRError
from tensorir.text_table import aligned, html_table

if TYPE_CHECKING:
    from search.database.database import Database
    from search.database.records import TuningRecord
    from search.runner.measure_candidate import MeasureCandidate
    from tensorir.function import IRModule

Kind = Literal["entry", "trace", "replay", "build", "run", "time"]
"""The kind of a fault.

An `"entry"`, a line of a file or a row of a table, or its `"trace"` cannot be read; it does not
`"replay"` on its program; the scheduled program does not `"build"`; it does not `"run"` or computes
a wrong result; or its `"time"` differs from the recorded one.
"""


@dataclass(frozen=True)
class Finding:
    """A fault of a record."""

    number: int | None
    """The index of the record in the database, from 0; None for an entry that cannot be read."""
    workload: str
    target: str
    kind: Kind
    text: str


class Findings(list[Finding]):
    """The faults that a validation found, as a list and as a table."""

    def __init__(
        self, findings: Iterable[Finding] = (), checked: int = 0, measured: int = 0
    ) -> None:
        super().__init__(findings)
        self.checked = checked
        """The number of replayed records."""
        self.measured = measured
        """The number of records that were built and run."""

    def rows(self) -> list[tuple[str, ...]]:
        """Return a heading, and a row of texts for each fault."""
        return [
            ("Record", "Fault", "Program", "What is wrong"),
            *(
                (
                    "" if one.number is None else str(one.number),
                    one.kind,
                    one.workload,
                    one.text.strip().partition("\n")[0],
                )
                for one in self
            ),
        ]

    @property
    def _summary(self) -> str:
        return f"{self.checked} records replayed, {self.measured} run: {len(self)} findings"

    def __str__(self) -> str:
        return f"{self._summary}\n{aligned(self.rows())}" if self else self._summary

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self._summary)}</p>{html_table(self.rows())}"


def validate(
    database: Database,
    *,
    runner: str | Runner | None = None,
    builder: str | Builder = "local",
    factor: float = 1.5,
) -> Findings:
    """Replay the records of a database, and return the faults.

    With a runner, the valid records are built and run, too. Their results are compared with those
    of the unscheduled program, and their times with the recorded ones, from which they may differ
    by `factor`.
    """
    measurement = None if runner is None else _Measurement(builder, runner, factor)
    records = list(keyed_records(database))
    findings = Findings(
        (Finding(None, "", "", "entry", text) for text in database.unreadable()), len(records)
    )
    try:
        for number, (key, record) in enumerate(records):
            for kind, text in _faults(record, measurement):
                findings.append(Finding(number, key, str(record.target or ""), kind, text))
            findings.measured += measurement is not None and record.is_valid
    finally:
        if measurement is not None:
            measurement.close()
    return findings


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
    """Builds and runs records; each unscheduled program is built once."""

    def __init__(self, builder: str | Builder, runner: str | Runner, factor: float) -> None:
        self._builder = Builder.create(builder)
        self._runner = Runner.create(runner)
        pairs = ((self._builder, builder), (self._runner, runner))
        self._own = [part for part, given in pairs if part is not given]
        self._factor = factor
        self._references: dict[tuple[str, Target], str] = {}

    def faults(
        self, record: TuningRecord, candidate: MeasureCandidate
    ) -> Iterator[tuple[Kind, str]]:
        """Build and run a record, and yield its faults."""
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
