"""The weights in a model file, which are memory-mapped instead of read.

A model file is a message of protocol buffers: fields, each a tag and a value. Most bytes are the
elements of the weights. They are removed from the message before it is parsed; their positions are
kept.
Source: the encoding of protocol buffers (https://protobuf.dev/programming-guides/encoding), and the
field numbers in `onnx.proto`.
"""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

LEAST: Final = 1 << 12
"""The elements of a weight are mapped if they have at least this number of bytes."""

_GRAPH: Final = 7
"""The field number of the graph in a model."""
_INITIALIZER: Final = 5
"""The field number of a weight in a graph."""
_RAW_DATA: Final = 9
"""The field number of the elements in a weight."""
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


class _OtherEncodingError(Exception):
    """A file does not have the expected encoding; the parser of `onnx` then reports the error."""


@dataclass
class StoredWeights:
    """A model file without the elements of its weights, and their positions."""

    message: bytes
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The offset and the size in bytes of a weight's elements, by the position of the weight in the
    graph.
    """


def without_weights(path: Path) -> StoredWeights:
    """Return a model file without the elements of long weights."""
    size = path.stat().st_size
    if size < LEAST:
        return StoredWeights(path.read_bytes())
    data = np.memmap(path, np.uint8, "r")
    try:
        graphs = [f for f in _fields(data, 0, size) if f.number == _GRAPH]
        if len(graphs) != 1 or graphs[0].kind != _LENGTH:
            raise _OtherEncodingError
        return _without_weights(data, graphs[0])
    except _OtherEncodingError:
        return StoredWeights(path.read_bytes())


class MappedFile:
    """A memory-mapped file: its bytes are read on use and released when unreferenced.

    The mapping lives as long as this object or an array of it, even if the file is removed.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def array(self, place: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return an array of little-endian elements; `place` is their offset and size in bytes."""
        start, length = place
        found = np.frombuffer(
            self._content, dtype.newbyteorder("<"), length // dtype.itemsize, start
        )
        weakref.finalize(found, _release_pages, self._content, start, length).atexit = False
        return found


def _release_pages(content: mmap.mmap, start: int, length: int) -> None:
    """Release the memory pages that hold only these bytes; a later access reads them again."""
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (start + length) // mmap.PAGESIZE * mmap.PAGESIZE
    if first < end and hasattr(mmap, "MADV_DONTNEED"):
        content.madvise(mmap.MADV_DONTNEED, first, end - first)


@dataclass(frozen=True)
class _Field:
    number: int
    kind: int
    first: int
    """The position of its tag."""
    start: int
    """The position of its value, after the length."""
    end: int


def _fields(data: NDArray[np.uint8], start: int, end: int) -> Iterator[_Field]:
    """Yield the fields of a message between two positions."""
    place = start
    while place < end:
        first = place
        tag, place = _varint(data, place, end)
        number, kind = tag >> 3, tag & 7
        begin = place
        if kind == _VARINT:
            _, place = _varint(data, place, end)
        elif kind == _LENGTH:
            length, begin = _varint(data, place, end)
            place = begin + length
        elif kind in (_FIXED64, _FIXED32):
            place += 8 if kind == _FIXED64 else 4
        else:
            raise _OtherEncodingError
        if place > end or number == 0:
            raise _OtherEncodingError
        yield _Field(number, kind, first, begin, place)


def _varint(data: NDArray[np.uint8], place: int, end: int) -> tuple[int, int]:
    """Return a number encoded in groups of seven bits, lowest first, and the position after it."""
    result = shift = 0
    while place < end and shift < 64:
        byte = int(data[place])
        place += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, place
        shift += 7
    raise _OtherEncodingError


def _as_varint(number: int) -> bytes:
    groups = []
    while number >= 0x80:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def _without_weights(data: NDArray[np.uint8], graph: _Field) -> StoredWeights:
    places: dict[int, tuple[int, int]] = {}
    kept: list[bytes] = []  # of the graph
    copied = graph.start
    weights = (f for f in _fields(data, graph.start, graph.end) if f.number == _INITIALIZER)
    for k, weight in enumerate(weights):
        if weight.kind != _LENGTH:
            raise _OtherEncodingError
        if weight.end - weight.start < LEAST:
            continue
        elements = [f for f in _fields(data, weight.start, weight.end) if f.number == _RAW_DATA]
        if len(elements) != 1 or elements[0].kind != _LENGTH:
            continue  # they are stored as numbers one by one
        (raw,) = elements
        places[k] = (raw.start, raw.end - raw.start)
        rest = _bytes(data, weight.start, raw.first) + _bytes(data, raw.end, weight.end)
        kept += [
            _bytes(data, copied, weight.first),
            _as_varint(_INITIALIZER << 3 | _LENGTH),
            _as_varint(len(rest)),
            rest,
        ]
        copied = weight.end
    kept.append(_bytes(data, copied, graph.end))
    message = [
        _bytes(data, 0, graph.first),
        _as_varint(_GRAPH << 3 | _LENGTH),
        _as_varint(sum(map(len, kept))),
        *kept,
        _bytes(data, graph.end, len(data)),
    ]
    return StoredWeights(b"".join(message), places)


def _bytes(data: NDArray[np.uint8], start: int, end: int) -> bytes:
    return data[start:end].tobytes()
