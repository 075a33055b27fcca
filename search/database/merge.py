"""Records of several databases in one, none of them twice."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from search.database.best_records import with_traces
from search.database.database import Database
from search.database.records import TuningRecord, Workload
from search.database.target_key import target_key


def merge_into(destination: Database, sources: Sequence[Database]) -> int:
    """Add the records of other databases to one; return how many were added.

    A record that is there already is left out: one of the same program, target and trace with the
    same times. What was measured again stays, as by it the winner of a search is told. The records
    of a source keep their order; those whose traces cannot be read are left out, with a warning.
    """
    keys: dict[Workload, str] = {}

    def identity(record: TuningRecord) -> Hashable:
        workload = record.workload
        if workload not in keys:
            keys[workload] = destination.workload_key(workload.mod)
        target = None if record.target is None else target_key(record.target)
        return keys[workload], target, record.trace_key, tuple(record.run_secs or ())

    known = {identity(record) for record in destination.get_all_tuning_records()}
    added = 0
    for source in sources:
        new = []
        for record, _ in with_traces(source.get_all_tuning_records()):
            # a workload has its key from the destination once it is known there
            destination.commit_workload(record.workload.mod)
            key = identity(record)
            if key not in known:
                known.add(key)
                new.append(record)
        if new:
            destination.commit_records(new)
        added += len(new)
    return added
