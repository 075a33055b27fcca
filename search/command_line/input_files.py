"""The inputs that somebody gives for a run, as files of NumPy, and the results as such files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from search.command_line.error_line import checking_arguments
from search.errors import ArgumentError
from search.kinds import nearest
from tensorir.replaced_file import replaced_file

_SHOWN: Final = 5


def given_arrays(texts: Sequence[str], known: Sequence[str], what: str) -> dict[str, NDArray[Any]]:
    """Return the arrays that are given by `NAME=FILE.npy`, by name; `known` are those of `what`.

    ArgumentError for another form, a name that is given twice or that `what` does not have, and a
    file of another kind; OSError for one that cannot be read. No object of a file is unpickled.
    """
    given: dict[str, NDArray[Any]] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if name in given:
            raise ArgumentError(f"the input {name!r} is given twice")
        if not equals or not path:
            raise ArgumentError(f"an input is given as NAME=FILE.npy, got {text!r}")
        if name not in known:
            raise ArgumentError(
                f"the {what} has no input {name!r}; it has {', '.join(known)}{nearest(name, known)}"
            )
        try:
            with checking_arguments():
                array = np.load(path, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ArgumentError(f"{path} is no array file of NumPy: {error}") from error
        if not isinstance(array, np.ndarray):
            raise ArgumentError(f"{path} holds several arrays; write one by numpy.save")
        given[name] = array
    return given


def save_arrays(path: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to a file of `numpy.savez`; a reader never sees half of it."""
    with replaced_file(path) as file:
        np.savez(file, **dict(arrays))  # type: ignore[arg-type]


def described(array: NDArray[Any]) -> dict[str, Any]:
    """Return shape, dtype and first values of an array as plain data."""
    return {"shape": list(array.shape), "dtype": str(array.dtype), "values": _first(array)}


def described_in_words(name: str, array: NDArray[Any]) -> str:
    """Return shape, dtype and first values of an array as a line of text."""
    values = ", ".join(f"{value:.6g}" for value in _first(array))
    more = ", ..." if array.size > _SHOWN else ""
    return f"{name}: {array.dtype}{list(array.shape)} {values}{more}"


def _first(array: NDArray[Any]) -> list[float]:
    return [float(value) for value in array.reshape(-1)[:_SHOWN]]
