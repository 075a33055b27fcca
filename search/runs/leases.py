"""Leases on candidates, by which several runs on one database measure nothing twice."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from search.database.records import TuningRecord, digest
from search.errors import DatabaseError
from search.lines import json_line
from search.runner.measure_candidate import MeasureCandidate

if TYPE_CHECKING:
    from search.context import TuneContext
    from search.database import Database

LEASE_SECONDS: Final = 60
"""The seconds for which a lease is valid after it was last renewed."""
_RENEWALS: Final = 3
"""The number of renewals in that time."""

_REPEATED_BATCHES: Final = 4
"""The batches without a new candidate after which a strategy counts as exhausted."""

logger = logging.getLogger("tensorir.search")


@dataclass
class _TaskLeases:
    """The leases of this run on candidates of a task."""

    owner: str
    place: int = 0
    """The position in the database up to which records were read."""
    own: set[bytes] = field(default_factory=set)
    """The keys of the traces that this run has measured or is measuring."""
    waiting: dict[bytes, MeasureCandidate] = field(default_factory=dict)
    """The candidates that another run is measuring; if that is killed, this run measures them."""
    seen: set[bytes] = field(default_factory=set)
    """The keys of all candidates of the strategy."""
    repeated: int = 0
    """The number of batches since one had a new candidate."""


class Leases:
    """Removes from batches the candidates that other runs on the same database measure.

    A lease is renewed while its run lives, and expires soon after the run is killed. A database
    without leases grants everything and never reports news. If a server does not answer, everything
    is granted, too: then a candidate may be measured twice, but the run does not wait.
    """

    def __init__(self, database: Database, seconds: int = LEASE_SECONDS) -> None:
        self._database = database
        self._seconds = seconds
        self._tasks: dict[TuneContext, _TaskLeases] = {}
        self._over = threading.Event()
        self._renewing: threading.Thread | None = None

    def known(self, task: TuneContext) -> list[TuningRecord]:
        """Return all records of a task; `news` returns later ones."""
        return self._records_after(task, 0)

    def news(self, task: TuneContext) -> list[TuningRecord]:
        """Return the records of a task that other runs have committed since the last call."""
        if not self._database.has_claims:
            return []
        mine = self._leases_of(task)
        try:
            records = self._records_after(task, mine.place)
        except DatabaseError as error:
            logger.debug("No news of other runs: %s", error)
            return []
        return [record for record in records if record.trace_key not in mine.own]

    def acquire(
        self, task: TuneContext, candidates: Sequence[MeasureCandidate]
    ) -> list[MeasureCandidate]:
        """Return the candidates that this run has to measure, each of them once."""
        if not self._database.has_claims:
            return list(candidates)
        mine = self._leases_of(task)
        keyed = {key_of(candidate): candidate for candidate in candidates}
        is_new = not keyed.keys() <= mine.seen
        mine.seen.update(keyed)
        try:
            granted = self._claim(task, keyed)
        except DatabaseError as error:
            logger.warning(
                "Candidates of other runs may be measured here again, because the database does "
                "not answer: %s",
                error,
            )
            mine.own.update(keyed)
            granted = list(keyed.values())
        mine.repeated = 0 if is_new or granted else mine.repeated + 1
        return granted

    def _claim(
        self, task: TuneContext, keyed: Mapping[bytes, MeasureCandidate]
    ) -> list[MeasureCandidate]:
        mine = self._leases_of(task)
        workload = self._database.commit_workload(task.program)
        answer = self._database.claim(
            workload, task.known_target, list(keyed), mine.owner, self._seconds
        )
        mine.own |= answer.granted
        for key, candidate in keyed.items():
            mine.waiting.pop(key, None)
            if key not in answer.granted and key not in answer.measured:
                mine.waiting[key] = candidate
        if answer.granted and self._renewing is None:
            self._renewing = threading.Thread(target=self._renew, name="leases", daemon=True)
            self._renewing.start()
        return [candidate for key, candidate in keyed.items() if key in answer.granted]

    def is_exhausted(self, task: TuneContext) -> bool:
        """Return True if a strategy only repeats candidates that other runs measure.

        Each of many runs finds its own candidates as long as there are new ones.
        """
        return self._leases_of(task).repeated >= _REPEATED_BATCHES

    def expired(self, task: TuneContext, most: int) -> list[MeasureCandidate]:
        """Return up to `most` candidates that another run had leased and has not measured."""
        waiting = self._leases_of(task).waiting
        try:
            return self._claim(task, dict(islice(waiting.items(), most))) if waiting else []
        except DatabaseError as error:
            logger.debug("Expired leases are not known: %s", error)
            return []

    def release(self, task: TuneContext) -> None:
        """End the leases of a task: its candidates have records now."""
        if self._database.has_claims:
            self._renew_task(self._leases_of(task), 0)

    def close(self) -> None:
        """End all leases."""
        self._over.set()
        if self._renewing is not None:
            self._renewing.join()
        for task in self._tasks:
            self.release(task)

    def _leases_of(self, task: TuneContext) -> _TaskLeases:
        return self._tasks.setdefault(task, _TaskLeases(uuid.uuid4().hex))

    def _records_after(self, task: TuneContext, place: int) -> list[TuningRecord]:
        workload = self._database.commit_workload(task.program)
        records, self._leases_of(task).place = self._database.records_behind(
            workload, task.target, place
        )
        return records

    def _renew(self) -> None:
        while not self._over.wait(self._seconds / _RENEWALS):
            for task in list(self._tasks.values()):
                self._renew_task(task, self._seconds)

    def _renew_task(self, task: _TaskLeases, seconds: int) -> None:
        """Make the leases of a task last for so many seconds from now on."""
        try:
            self._database.renew_claims(task.owner, seconds)
        except DatabaseError as error:
            logger.debug("Leases are not renewed, and expire: %s", error)


def key_of(candidate: MeasureCandidate) -> bytes:
    """Return the `trace_key` that the record of a candidate will have."""
    return digest(json_line(candidate.sch.trace.as_json()).encode())
