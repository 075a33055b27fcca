"""The measurements that a cost model was shown, features and times, and the file of them."""

from __future__ import annotations

import contextlib
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from search.errors import TuningError
from search.feature_extractor import PackedFeatures
from tensorir.replaced_file import replaced_file

Floats = NDArray[np.float64]

_VERSION: Final = 2
_NOT_SAVED: Final = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    EOFError,
    OSError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)
"""The exceptions that NumPy and zipfile raise for a file that was cut short or changed."""


class Cost(NamedTuple):
    """The time of a candidate in seconds, or a bound below it.

    A failure is a candidate that takes at least forever; one whose measurement was ended early
    takes at least what was seen of it.
    """

    seconds: float
    is_bound: bool = False


FAILURE = Cost(np.inf, is_bound=True)


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Candidates of several workloads.

    `log_seconds`, `is_bound` and `workload` (an index) have one entry for each candidate.
    """

    packed: PackedFeatures
    log_seconds: Floats
    is_bound: NDArray[np.bool_]
    workload: NDArray[np.intp]


@dataclass(eq=False)
class WorkloadMeasurements:
    """The measurements of one workload for one target."""

    places: dict[str, int] = field(default_factory=dict)
    """The position of a candidate in the lists, by what tells it from others of the workload."""
    features: list[NDArray[np.float32]] = field(default_factory=list)
    """One array [rows, columns] for each candidate."""
    costs: list[Cost] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.costs)

    def spread(self, count: int) -> list[int]:
        """Return `count` of the candidates, evenly spaced in the order of their times.

        The fastest is among them. All of them if there are no more.
        """
        if len(self) <= count:
            return list(range(len(self)))
        order = np.argsort([cost.seconds for cost in self.costs], kind="stable")
        return [int(k) for k in order[np.linspace(0, len(self) - 1, count).astype(int)]]


class Measurements:
    """All that a cost model was shown, by a key for each workload."""

    def __init__(self) -> None:
        self.workloads: dict[str, WorkloadMeasurements] = {}

    def __len__(self) -> int:
        return sum(map(len, self.workloads.values()))

    def knows(self, key: str, candidate: str) -> bool:
        """Return True if there is a measurement of a candidate of a workload."""
        return key in self.workloads and candidate in self.workloads[key].places

    def add(self, key: str, candidate: str, rows: NDArray[Any], cost: Cost) -> None:
        """Add the rows of features (at least one) and the cost of a candidate of a workload.

        Of several measurements of a candidate the last one counts.
        """
        workload = self.workloads.setdefault(key, WorkloadMeasurements())
        place = workload.places.setdefault(candidate, len(workload.costs))
        workload.features[place : place + 1] = [rows.astype(np.float32)]
        workload.costs[place : place + 1] = [cost]

    def training_set(self, most: int) -> TrainingSet:
        """Return at most `most` candidates, about as many of each workload as it has.

        Workloads with few candidates give all of them, and the others share what is left.
        """
        shares = _fair_shares([len(w) for w in self.workloads.values()], most)
        features: list[NDArray[np.float32]] = []
        costs: list[Cost] = []
        owner: list[int] = []
        for index, (workload, share) in enumerate(
            zip(self.workloads.values(), shares, strict=True)
        ):
            for k in workload.spread(share):
                features.append(workload.features[k])
                costs.append(workload.costs[k])
                owner.append(index)
        return TrainingSet(
            PackedFeatures.of(features),
            np.log([cost.seconds for cost in costs]),
            np.array([cost.is_bound for cost in costs], np.bool_),
            np.array(owner, np.intp),
        )


def _fair_shares(sizes: Sequence[int], total: int) -> list[int]:
    """Return how many of `total` each gets: equal shares, except for those who have less."""
    shares = [0] * len(sizes)
    for rank, index in enumerate(sorted(range(len(sizes)), key=lambda k: sizes[k])):
        share = min(sizes[index], total // (len(sizes) - rank))
        shares[index] = share
        total -= share
    return shares


class OutdatedModelError(TuningError):
    """A saved cost model was made by another version, or of other features."""


@dataclass(frozen=True, eq=False)
class SavedModel:
    """Measurements, how many of each workload the boosters were trained on, and the boosters.

    `features` says which extractor made the rows.
    """

    measurements: Measurements
    trained_sizes: dict[str, int]
    boosters: list[bytes]
    features: str

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file; a reader never sees half of it."""
        workloads = self.measurements.workloads
        features = [rows for measured in workloads.values() for rows in measured.features]
        costs = [cost for measured in workloads.values() for cost in measured.costs]
        arrays: dict[str, Any] = {
            "version": np.array(_VERSION),
            "features": np.array(self.features),
            "workloads": np.array(list(workloads), dtype=np.str_),
            "candidates": np.array([c for w in workloads.values() for c in w.places], np.str_),
            "sizes": np.array([len(measured) for measured in workloads.values()], np.int64),
            "trained_sizes": np.array([self.trained_sizes.get(k, 0) for k in workloads], np.int64),
            "seconds": np.array([cost.seconds for cost in costs], np.float64),
            "is_bound": np.array([cost.is_bound for cost in costs], np.bool_),
            "row_counts": np.array([len(rows) for rows in features], np.int64),
            "rows": np.concatenate(features) if features else np.zeros((0, 0), np.float32),
            "booster_sizes": np.array([len(raw) for raw in self.boosters], np.int64),
            "boosters": np.frombuffer(b"".join(self.boosters), np.uint8),
        }
        with replaced_file(path) as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)

    @staticmethod
    def read(path: str | os.PathLike[str], features: str) -> SavedModel:
        """Read a file, which is data: nothing in it is run.

        Raises OutdatedModelError if another version of this program or another extractor made it,
        TuningError for a file that is no saved model.
        """
        with read_arrays(path) as saved:
            version = saved["version"].tolist() if "version" in saved else None
            if version != _VERSION:
                raise OutdatedModelError(
                    f"the cost model {path} has version {version}, and this package reads version "
                    f"{_VERSION}: the model is not used"
                )
            if str(saved["features"]) != features:
                raise OutdatedModelError(
                    f"the cost model {path} was made with {saved['features']}, and the one that "
                    f"loads it takes {features}: it is not used"
                )
            return _decoded(saved)


@contextlib.contextmanager
def read_arrays(path: str | os.PathLike[str]) -> Iterator[dict[str, NDArray[Any]]]:
    """Give the arrays of a file by name; none of them may be an object, so nothing is unpickled.

    TuningError for a file that is missing or holds something else, and for what is found to be
    wrong with the arrays inside of the `with` (KeyError, TypeError, ValueError).
    """
    try:
        with np.load(Path(path), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        yield arrays
    except FileNotFoundError:
        raise TuningError(f"there is no saved cost model {path}") from None
    except _NOT_SAVED as error:
        raise TuningError(
            f"{path} is no saved cost model: {error}; delete it to start without one"
        ) from error


def _decoded(saved: dict[str, Any]) -> SavedModel:
    counts = {len(saved[name]) for name in ("candidates", "seconds", "is_bound", "row_counts")}
    names = [str(name) for name in saved["workloads"]]
    if counts != {int(saved["sizes"].sum())}:
        raise ValueError("its arrays are not of as many candidates as it says")
    costs = iter(zip(saved["seconds"].tolist(), saved["is_bound"].tolist(), strict=True))
    candidates = iter(saved["candidates"].tolist())
    features = iter(_pieces(saved["rows"], saved["row_counts"]))
    measurements = Measurements()
    for name, size in zip(names, saved["sizes"].tolist(), strict=True):
        for _ in range(size):
            measurements.add(name, next(candidates), next(features), Cost(*next(costs)))
    return SavedModel(
        measurements,
        dict(zip(names, saved["trained_sizes"].tolist(), strict=True)),
        [piece.tobytes() for piece in _pieces(saved["boosters"], saved["booster_sizes"])],
        str(saved["features"]),
    )


def _pieces(whole: Any, sizes: Any) -> list[Any]:
    """Cut an array along its first dimension."""
    return np.split(whole, np.cumsum(sizes)[:-1]) if len(sizes) else []
