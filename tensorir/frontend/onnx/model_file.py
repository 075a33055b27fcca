"""Model files and their external data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.onnx.dtypes import array_of, held_dtype, narrow_integer
from tensorir.frontend.onnx.schemas import onnx_package
from tensorir.frontend.onnx.stored_weights import MappedFile, without_weights
from tensorir.nodes.dtype import DataType
from tensorir.relax.expr import Constant

_DIGITS: Final = 19
"""The maximum number of digits in a byte count."""
_SHOWN: Final = 80


@dataclass
class Model:
    """A model: its message, its file, and the operator versions by domain."""

    proto: Any
    path: Path | None = None
    opsets: dict[str, int] = field(default_factory=dict)
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The positions in the file of the weight elements that were removed from the message."""
    _files: dict[Path, MappedFile] = field(default_factory=dict)

    def weights(self) -> Iterator[tuple[Any, Constant]]:
        """Return the weights of the graph, each with its message.

        Elements in a file are read when they are used. Raises IRValueError for two weights of the
        same name, and the errors of `tensor`.
        """
        names = set()
        for k, tensor in enumerate(self.proto.graph.initializer):
            if tensor.name in names:
                raise IRValueError(f"there are two weights {tensor.name!r}")
            names.add(tensor.name)
            yield tensor, self.tensor(tensor, self.places.get(k))

    def tensor(self, tensor: Any, stored: tuple[int, int] | None = None) -> Constant:
        """Return a tensor of the model; `stored` is the position of its elements in the file.

        External data are memory-mapped, not read. Raises IRValueError for data that are missing,
        too short, or outside of the model's folder.
        """
        if stored is None and tensor.data_location != onnx_package().TensorProto.EXTERNAL:
            return Constant(*array_of(tensor))
        name, path = f"the tensor {tensor.name!r}", self.path
        dtype, shape = held_dtype(tensor.data_type), tuple(tensor.dims)
        is_packed = narrow_integer(tensor.data_type) is not None
        if stored is None:
            needed = None if is_packed else math.prod(shape) * dtype.nbytes
            path, stored = self._external(tensor, name, needed)
        assert path is not None
        if is_packed:
            return Constant(*array_of(self._with_elements(tensor, path, stored)))
        _check_bytes(name, shape, dtype, stored[1])
        if not stored[1]:
            return Constant(np.empty(shape, dtype.to_numpy()), dtype)
        return self._constant_in_file(path, stored, shape, dtype)

    def _external(self, tensor: Any, name: str, needed: int | None) -> tuple[Path, tuple[int, int]]:
        """Return the file and position of external data; the default length reaches to its end."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        path = self._data_file(entries.get("location", ""), name)
        size = path.stat().st_size
        offset = _number(entries.get("offset", "0"), name)
        rest = size - offset if needed is None else needed
        length = _number(entries.get("length", str(max(0, rest))), name)
        if offset + length > size:
            raise IRValueError(
                f"{name} ends at byte {offset + length} of {path.name}, which has {size} bytes"
            )
        return path, (offset, length)

    def _constant_in_file(
        self, path: Path, place: tuple[int, int], shape: Sequence[int], dtype: DataType
    ) -> Constant:
        """Return a tensor whose elements are in a file."""
        file, kind = self._mapped_file(path), dtype.to_numpy()
        return Constant.made_by(lambda: file.array(place, kind).reshape(shape), shape, dtype)

    def _mapped_file(self, path: Path) -> MappedFile:
        if path not in self._files:
            self._files[path] = MappedFile(path)
        return self._files[path]

    def _with_elements(self, tensor: Any, path: Path, place: tuple[int, int]) -> Any:
        """Return the message of a tensor, with its packed elements read from a file."""
        result = onnx_package().TensorProto()
        result.CopyFrom(tensor)
        result.ClearField("external_data")
        result.data_location = onnx_package().TensorProto.DEFAULT
        result.raw_data = self._mapped_file(path).array(place, np.dtype(np.uint8)).tobytes()
        return result

    def _data_file(self, location: str, place: str) -> Path:
        """Return the path of an external data file, which must be in the model's folder."""
        if self.path is None:
            raise IRValueError(
                f"{place} is in the external file {shown(location)}; call from_onnx with the "
                "path of the model instead of its message"
            )
        if not location or "\0" in location or Path(location).is_absolute():
            raise IRValueError(f"{place} is in {shown(location)}, which must be a relative path")
        try:
            folder = self.path.parent.resolve()
            path = (folder / location).resolve()  # symbolic links are followed
            is_file = path.is_file()
        except (OSError, RuntimeError) as error:  # RuntimeError for links in a circle
            raise IRValueError(
                f"{place} is in {shown(location)}, which cannot be opened: {_reason(error)}"
            ) from error
        if not path.is_relative_to(folder):
            raise IRValueError(
                f"{place} is in {shown(location)}, outside of the folder of the model; move it "
                "into that folder"
            )
        if not is_file:
            raise IRValueError(
                f"{place} is in {shown(location)}, but the model's folder has no such file"
            )
        return path


def read_model(model: Any) -> Model:
    """Return a model from its path or message.

    Raises IRValueError for an invalid file. Raises IRTypeError for another argument.
    """
    onnx = onnx_package()
    if isinstance(model, (str, Path)):
        path = Path(model)
        try:
            is_file = path.is_file()
            stored = without_weights(path) if is_file else None
        except OSError as error:
            raise IRValueError(
                f"the model file {shown(str(path))} cannot be opened: {_reason(error)}"
            ) from error
        if stored is None:
            raise IRValueError(f"the model file {shown(str(path))} does not exist")
        return _check_model(Model(_parse(stored.message, path.name), path, places=stored.places))
    if not isinstance(model, onnx.ModelProto):
        raise IRTypeError(
            "from_onnx expects the path of a model file or an onnx.ModelProto, got "
            f"{type(model).__name__}; read bytes by onnx.load_from_string"
        )
    return _check_model(Model(model))


def _parse(message: bytes, name: str) -> Any:
    proto = onnx_package().ModelProto()
    wrong: type[Exception] = import_module("google.protobuf.message").DecodeError
    try:
        proto.ParseFromString(message)
    except wrong as error:
        raise IRValueError(f"{name} is not an ONNX model, or is incomplete: {error}") from error
    return proto


def _check_model(model: Model) -> Model:
    onnx = onnx_package()
    if not model.proto.HasField("graph"):
        name = "the model" if model.path is None else model.path.name
        empty = model.path is not None and model.path.stat().st_size == 0
        raise IRValueError(
            f"{name} is empty, not an ONNX model; check that the download was complete"
            if empty
            else f"{name} does not contain a graph; is it an ONNX file?"
        )
    model.opsets = opset_versions(model.proto.opset_import)
    newest = onnx.defs.onnx_opset_version()
    if model.opsets.get("", 1) > newest:
        raise IRValueError(
            f"the model uses opset {model.opsets['']}, but onnx {onnx.__version__} supports "
            f"at most {newest}; install a newer onnx"
        )
    return model


def opset_versions(imports: Any) -> dict[str, int]:
    """Return the versions of operators by domain; "ai.onnx" is another name of "".

    Raises IRValueError for an invalid version.
    """
    versions = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in imports}
    for domain, version in versions.items():
        if not 1 <= version < 1 << 31:
            raise IRValueError(f"invalid opset version {version} of the domain {domain!r}")
    return versions


def shown(text: str) -> str:
    """Return a name quoted for messages, shortened if it is long."""
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}... ({len(text)} characters)"


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) else None
    return text or "its symbolic links form a circle"


def _check_bytes(place: str, shape: Sequence[int], dtype: DataType, given: int) -> None:
    needed = math.prod(shape) * dtype.nbytes
    if min(shape, default=0) < 0 or needed != given:
        raise IRValueError(
            f"{place} of {list(shape)} {dtype} takes {needed} bytes, but there are {given}"
        )


def _number(text: str, place: str) -> int:
    if not (text.isdecimal() and text.isascii() and len(text) <= _DIGITS):
        raise IRValueError(
            f"{place} has {shown(text)} in place of a number of bytes, which has at most {_DIGITS} "
        )
    return int(text)
