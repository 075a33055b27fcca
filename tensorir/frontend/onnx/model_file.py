"""Model files, and the data beside them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.onnx.dtypes import array_of, dtype_of
from tensorir.frontend.onnx.optional_package import onnx_package
from tensorir.nodes.dtype import DataType


@dataclass
class Model:
    """A model: its message, and the folder that its data may lie in."""

    proto: Any
    folder: Path | None = None
    opsets: dict[str, int] = field(default_factory=dict)

    def array(self, tensor: Any) -> tuple[NDArray[Any], DataType]:
        """Return the elements of a tensor of the model and their dtype.

        Data beside the model file are mapped, not read. Raises IRValueError for data that are
        missing, too short, or not in the folder of the model.
        """
        if tensor.data_location != onnx_package().TensorProto.EXTERNAL:
            return array_of(tensor)
        entries = {entry.key: entry.value for entry in tensor.external_data}
        place = f"the tensor {tensor.name}"
        dtype = dtype_of(tensor.data_type)
        shape = tuple(tensor.dims)
        path = self._data_file(entries.get("location", ""), place)
        element = dtype.to_numpy()
        count = int(np.prod(shape, dtype=object)) if shape else 1
        offset = _number(entries.get("offset", "0"), place)
        length = _number(entries.get("length", str(count * element.itemsize)), place)
        if length != count * element.itemsize:
            raise IRValueError(f"{place} of {shape} {dtype} is said to take {length} bytes")
        if offset + length > path.stat().st_size:
            raise IRValueError(
                f"{place} ends at byte {offset + length} of {path.name}, which has "
                f"{path.stat().st_size} bytes"
            )
        if count == 0:
            return np.empty(shape, element), dtype
        return np.memmap(path, element, "r", offset, shape), dtype

    def _data_file(self, location: str, place: str) -> Path:
        """Return the file of external data, which is in the folder of the model."""
        if self.folder is None:
            raise IRValueError(
                f"{place} is in the file {location!r} beside the model; give from_onnx the path of "
                "the model"
            )
        if not location or "\0" in location or Path(location).is_absolute():
            raise IRValueError(f"{place} is in {location!r}, which must be a relative path")
        folder = self.folder.resolve()
        path = (folder / location).resolve()  # symbolic links are followed
        if not path.is_relative_to(folder):
            raise IRValueError(
                f"{place} is in {location!r}, outside of the folder of the model; nothing is read "
                "there"
            )
        if not path.is_file():
            raise IRValueError(f"{place} is in {location!r}, which is no file beside the model")
        return path


def read_model(model: Any) -> Model:
    """Return a model from its path or message.

    Raises IRValueError for a file that is no model.
    """
    onnx = onnx_package()
    if isinstance(model, (str, Path)):
        path = Path(model)
        if not path.is_file():
            raise IRValueError(f"there is no model file {str(path)!r}")
        proto = onnx.ModelProto()
        try:
            proto.ParseFromString(path.read_bytes())
        except Exception as error:
            raise IRValueError(f"{path.name} is no ONNX model: {error}") from error
        return _checked(Model(proto, path.parent))
    if not isinstance(model, onnx.ModelProto):
        raise IRTypeError(
            "from_onnx takes the path of a model file or an onnx.ModelProto, got "
            f"{type(model).__name__}"
        )
    return _checked(Model(model))


def _checked(model: Model) -> Model:
    onnx = onnx_package()
    if not model.proto.HasField("graph"):
        raise IRValueError("the model has no graph; is it an ONNX file?")
    model.opsets = opset_versions(model.proto.opset_import)
    newest = onnx.defs.onnx_opset_version()
    if model.opsets.get("", 1) > newest:
        raise IRValueError(
            f"the model uses opset {model.opsets['']}, but onnx {onnx.__version__} knows {newest} "
            "at most; install a newer onnx"
        )
    return model


def opset_versions(imports: Any) -> dict[str, int]:
    """Return the versions of operators by domain; "ai.onnx" is another name of ""."""
    return {"" if o.domain == "ai.onnx" else o.domain: o.version for o in imports}


def _number(text: str, place: str) -> int:
    if not text.isdecimal():
        raise IRValueError(f"{place} has {text!r} in place of a number of bytes")
    return int(text)
