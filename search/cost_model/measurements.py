"""The measurements that a cost model has learned from, and their file."""

from __future__ import annotations

import contextlib
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

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
"""The exceptions that NumPy and zipfile raise for a truncated or changed file."""


class Cost(NamedTuple):
    """The time of a candidate in seconds, or a lower bound of it.

    The bound of a failure is infinite. The bound of a trial that was ended early is its time so
    far.
    """

    seconds: float
    is_bound: bool = False


FAILURE = Cost(np.inf, is_bound=True)

Measured: TypeAlias = tuple[NDArray[np.float32], Cost]
"""The features [rows, columns] and the cost of a candidate."""


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Candidates of several workloads.

    `log_seconds`, `is_bound` and `workload` (an index) have one entry for each candidate.
    """

    packed: PackedFeatures
    log_seconds: Floats
    is_bound: NDArray[np.bool_]
    workload: NDArray[np.intp]


class Measurements:
    """All measurements that a cost model was updated with.

    `workloads` has the measured candidates of each workload, by the keys of both.
    """

    def __init__(self) -> None:
        self.workloads: dict[str, dict[str, Measured]] = {}

    def __len__(self) -> int:
        return sum(map(len, self.workloads.values()))

    def knows(self, key: str, candidate: str) -> bool:
        """Return True if there is a measurement of a candidate of a workload."""
        return candidate in self.workloads.get(key, ())

    def add(self, key: str, candidate: str, rows: NDArray[Any], cost: Cost) -> None:
        """Add the features (at least one row) and the cost of a candidate of a workload.

        A later measurement of a candidate replaces the earlier one.
        """
        self.workloads.setdefault(key, {})[candidate] = (rows.astype(np.float32), cost)

    def training_set(self, most: int) -> TrainingSet:
        """Return at most `most` candidates, in equal numbers for all workloads.

        Workloads with fewer candidates contribute all of them, and the others share the rest.
        """
        shares = _fair_shares([len(w) for w in self.workloads.values()], most)
        chosen = [
            _evenly_spaced(list(workload.values()), share)
            for workload, share in zip(self.workloads.values(), shares, strict=True)
        ]
        measured = [one for of_workload in chosen for one in of_workload]
        return TrainingSet(
            PackedFeatures.of([rows for rows, _ in measured]),
            np.log([cost.seconds for _, cost in measured]),
            np.array([cost.is_bound for _, cost in measured], np.bool_),
            np.repeat(np.arange(len(chosen)), [len(of_workload) for of_workload in chosen]),
        )


def _evenly_spaced(measured: Sequence[Measured], count: int) -> list[Measured]:
    """Return `count` measurements, evenly spaced in the order of their times, with the fastest."""
    if len(measured) <= count:
        return list(measured)
    order = np.argsort([cost.seconds for _, cost in measured], kind="stable")
    return [measured[k] for k in order[np.linspace(0, len(measured) - 1, count).astype(int)]]


def _fair_shares(sizes: Sequence[int], total: int) -> list[int]:
    """Split `total` into equal shares; what exceeds a size is divided among the others."""
    shares = [0] * len(sizes)
    for rank, index in enumerate(sorted(range(len(sizes)), key=lambda k: sizes[k])):
        share = min(sizes[index], total // (len(sizes) - rank))
        shares[index] = share
        total -= share
    return shares


class OutdatedModelError(TuningError):
    """A saved cost model was made by another version, or with other features."""


@dataclass(frozen=True, eq=False)
class SavedModel:
    """Measurements, the number of them for each workload at the last training, and the boosters.

    `features` describes the extractor of the features.
    """

    measurements: Measurements
    trained_sizes: dict[str, int]
    boosters: list[bytes]
    features: str

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file atomically."""
        workloads = self.measurements.workloads
        measured = [one for workload in workloads.values() for one in workload.values()]
        features = [rows for rows, _ in measured]
        arrays: dict[str, Any] = {
            "version": np.array(_VERSION),
            "features": np.array(self.features),
            "workloads": np.array(list(workloads), dtype=np.str_),
            "candidates": np.array([key for w in workloads.values() for key in w], np.str_),
            "sizes": np.array([len(workload) for workload in workloads.values()], np.int64),
            "trained_sizes": np.array([self.trained_sizes.get(k, 0) for k in workloads], np.int64),
            "seconds": np.array([cost.seconds for _, cost in measured], np.float64),
            "is_bound": np.array([cost.is_bound for _, cost in measured], np.bool_),
            "row_counts": np.array([len(rows) for rows in features], np.int64),
            "rows": np.concatenate(features) if features else np.zeros((0, 0), np.float32),
            "booster_sizes": np.array([len(raw) for raw in self.boosters], np.int64),
            "boosters": np.frombuffer(b"".join(self.boosters), np.uint8),
        }
        with replaced_file(path) as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)

    @staticmethod
    def read(path: str | os.PathLike[str], features: str) -> SavedModel:
        """Read a file, without unpickling.

        Raises OutdatedModelError if another version or another extractor made it, TuningError if
        the file is not a saved model.
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
                    f"the cost model {path} was made with {saved['features']}, and not with "
                    f"{features}: the model is not used"
                )
            return _decode(saved)


@contextlib.contextmanager
def read_arrays(path: str | os.PathLike[str]) -> Iterator[dict[str, NDArray[Any]]]:
    """Provide the arrays of a file by name, without unpickling.

    Raises TuningError if the file is missing or is not a file of arrays, and for a KeyError,
    TypeError or ValueError in the body of the `with`.
    """
    try:
        with np.load(Path(path), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        yield arrays
    except FileNotFoundError:
        raise TuningError(f"there is no saved cost model {path}") from None
    except _NOT_SAVED as error:
        raise TuningError(
            f"{path} is not a saved cost model: {error}; delete it to start without one"
        ) from error


def _decode(saved: dict[str, Any]) -> SavedModel:
    counts = {len(saved[name]) for name in ("candidates", "seconds", "is_bound", "row_counts")}
    names = [str(name) for name in saved["workloads"]]
    if counts != {int(saved["sizes"].sum())}:
        raise ValueError("the lengths of its arrays differ")
    costs = iter(zip(saved["seconds"].tolist(), saved["is_bound"].tolist(), strict=True))
    candidates = iter(saved["candidates"].tolist())
    features = iter(_split_rows(saved["rows"], saved["row_counts"]))
    measurements = Measurements()
    for name, size in zip(names, saved["sizes"].tolist(), strict=True):
        for _ in range(size):
            measurements.add(name, next(candidates), next(features), Cost(*next(costs)))
    return SavedModel(
        measurements,
        dict(zip(names, saved["trained_sizes"].tolist(), strict=True)),
        [piece.tobytes() for piece in _split_rows(saved["boosters"], saved["booster_sizes"])],
        str(saved["features"]),
    )


def _split_rows(whole: Any, sizes: Any) -> list[Any]:
    """Split an array along its first dimension."""
    return np.split(whole, np.cumsum(sizes)[:-1]) if len(sizes) else []
