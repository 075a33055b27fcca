"""What a run is measuring, said to the other runs on its database, and what those have measured.

A claim is a lease: it is renewed while the run lives, and ends soon after the run is killed.
"""

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
"""The seconds for which a claim is believed after it was last renewed."""
_RENEWALS: Final = 3
"""How often it is renewed in that time."""

_BATCHES_IN_VAIN: Final = 4
"""The batches without a new candidate after which a strategy counts as exhausted."""

logger = logging.getLogger("tensorir.search")


@dataclass
class _OfTask:
    """What is known of a task."""

    owner: str
    place: int = 0
    """The place in the database up to which its records are known."""
    own: set[bytes] = field(default_factory=set)
    """The keys of the traces that this run has measured or is measuring."""
    waiting: dict[bytes, MeasureCandidate] = field(default_factory=dict)
    """The candidates that another run is measuring; if it is killed, this one may."""
    asked: set[bytes] = field(default_factory=set)
    """The keys of all that was asked for."""
    in_vain: int = 0
    """The batches since one had a candidate that was not asked for before."""


class Claims:
    """Leaves out of batches what others on the same database measure, or have measured.

    Databases without claims grant everything, and tell no news. While one on a server does not
    answer, everything is granted too: something may then be measured twice, and nothing waits.
    """

    def __init__(self, database: Database, seconds: int = LEASE_SECONDS) -> None:
        self._database = database
        self._seconds = seconds
        self._tasks: dict[TuneContext, _OfTask] = {}
        self._over = threading.Event()
        self._renewing: threading.Thread | None = None

    def known(self, task: TuneContext) -> list[TuningRecord]:
        """Return all records of a task, from which on there is news."""
        return self._behind(task, 0)

    def news(self, task: TuneContext) -> list[TuningRecord]:
        """Return the records of a task that other runs have committed since the last time."""
        if not self._database.has_claims:
            return []
        mine = self._of(task)
        try:
            records = self._behind(task, mine.place)
        except DatabaseError as error:
            logger.debug("No news of other runs: %s", error)
            return []
        return [record for record in records if record.trace_key not in mine.own]

    def take(
        self, task: TuneContext, candidates: Sequence[MeasureCandidate]
    ) -> list[MeasureCandidate]:
        """Return those of candidates that this run is to measure; each of them once."""
        if not self._database.has_claims:
            return list(candidates)
        mine = self._of(task)
        keyed = {key_of(candidate): candidate for candidate in candidates}
        is_new = not keyed.keys() <= mine.asked
        mine.asked.update(keyed)
        try:
            granted = self._granted(task, keyed)
        except DatabaseError as error:
            logger.warning(
                "What others measure is not known, and may be measured here again: %s", error
            )
            mine.own.update(keyed)
            granted = list(keyed.values())
        mine.in_vain = 0 if is_new or granted else mine.in_vain + 1
        return granted

    def _granted(
        self, task: TuneContext, keyed: Mapping[bytes, MeasureCandidate]
    ) -> list[MeasureCandidate]:
        mine = self._of(task)
        assert task.mod is not None
        assert task.target is not None
        workload = self._database.commit_workload(task.mod)
        answer = self._database.claim(workload, task.target, list(keyed), mine.owner, self._seconds)
        mine.own |= answer.granted
        for key, candidate in keyed.items():
            mine.waiting.pop(key, None)
            if key not in answer.granted and key not in answer.measured:
                mine.waiting[key] = candidate
        if answer.granted:
            self._keep_renewing()
        return [candidate for key, candidate in keyed.items() if key in answer.granted]

    def is_exhausted(self, task: TuneContext) -> bool:
        """Say whether a strategy gives nothing any more but what others have claimed.

        However many runs there are, each finds its own candidates as long as there are new ones.
        """
        return self._of(task).in_vain >= _BATCHES_IN_VAIN

    def left_behind(self, task: TuneContext, most: int) -> list[MeasureCandidate]:
        """Return up to `most` candidates that were refused because another run had claimed them.

        That run was killed, or ended before it measured them.
        """
        waiting = self._of(task).waiting
        try:
            return self._granted(task, dict(islice(waiting.items(), most))) if waiting else []
        except DatabaseError as error:
            logger.debug("What others have left is not known: %s", error)
            return []

    def release(self, task: TuneContext) -> None:
        """End the claims of a task: what was measured has records."""
        if self._database.has_claims:
            try:
                self._database.renew_claims(self._of(task).owner, 0)
            except DatabaseError as error:
                logger.debug("The claims of a task end by themselves: %s", error)

    def close(self) -> None:
        """End all claims."""
        self._over.set()
        if self._renewing is not None:
            self._renewing.join()
        for task in self._tasks:
            self.release(task)

    def _of(self, task: TuneContext) -> _OfTask:
        return self._tasks.setdefault(task, _OfTask(uuid.uuid4().hex))

    def _behind(self, task: TuneContext, place: int) -> list[TuningRecord]:
        assert task.mod is not None
        workload = self._database.commit_workload(task.mod)
        records, self._of(task).place = self._database.records_behind(workload, task.target, place)
        return records

    def _keep_renewing(self) -> None:
        if self._renewing is None:
            self._renewing = threading.Thread(target=self._renew, name="claims", daemon=True)
            self._renewing.start()

    def _renew(self) -> None:
        while not self._over.wait(self._seconds / _RENEWALS):
            for task in list(self._tasks.values()):
                try:
                    self._database.renew_claims(task.owner, self._seconds)
                except DatabaseError as error:
                    logger.debug("Claims are not renewed: %s", error)


def key_of(candidate: MeasureCandidate) -> bytes:
    """Return the `trace_key` that the record of a candidate will have."""
    return digest(json_line(candidate.sch.trace.as_json()).encode())
