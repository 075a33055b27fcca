"""Exported libraries, called as C calls them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import codegen
from codegen.vm.c_entry import DTYPES
from codegen.vm.c_library import library_name
from tensorir.nodes.dtype import DataType


class Tensor(ctypes.Structure):
    """`tensorir_tensor` of the header."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("shape", ctypes.c_int64 * 8),
    )


class Workspace(ctypes.Structure):
    """`tensorir_workspace` of the header."""

    _fields_ = (("memory", ctypes.c_void_p), ("bytes", ctypes.c_int64), ("owner", ctypes.c_void_p))


def tensor_of(value: Any) -> Tensor:
    """Return an array, or a tuple of extents, as a tensor over its memory."""
    if isinstance(value, tuple):
        return Tensor(None, DTYPES["int64"], len(value), value)
    dtype = str(value.dtype)
    return Tensor(value.ctypes.data, DTYPES[dtype], value.ndim, tuple(value.shape))


class CModel:
    """A library at a path, with the functions of its header."""

    def __init__(self, path: Path) -> None:
        self.name = library_name(path)
        self.library = ctypes.CDLL(str(path))
        self._function("message").restype = ctypes.c_char_p
        self._function("free").argtypes = [ctypes.c_void_p]
        self.workspace = Workspace()

    def _function(self, name: str) -> Any:
        return getattr(self.library, f"{self.name}_{name}")

    def message(self, status: int) -> str:
        """Return the text of a status."""
        return str(self._function("message")(status).decode())

    def call(
        self,
        inputs: Sequence[Any],
        outputs: int,
        function: str = "main",
        workspace: Workspace | None = None,
        given: Sequence[NDArray[Any] | None] = (),
    ) -> list[Any]:
        """Return the outputs of a call, in memory of the library unless it is `given`.

        AssertionError with the message for a status other than 0.
        """
        tensors = (Tensor * max(1, len(inputs)))(*map(tensor_of, inputs))
        results = (Tensor * max(1, outputs))()
        for tensor, array in zip(results, given, strict=False):
            tensor.data = None if array is None else array.ctypes.data
        reference = None if workspace is None else ctypes.byref(workspace)
        status = self._function(function)(tensors, results, reference)
        found = [self._taken(tensor) for tensor in results[:outputs]] if not status else []
        kept = [*given, *[None] * (outputs - len(given))]
        for tensor, array in zip(results[:outputs], kept, strict=True):
            if array is None:
                self._function("free")(tensor.data)
        assert not status, self.message(status)
        return found

    def shapes(self, inputs: Sequence[Any], outputs: int, function: str = "main") -> list[Any]:
        """Return the shapes that are known before a call."""
        tensors = (Tensor * max(1, len(inputs)))(*map(tensor_of, inputs))
        for tensor in tensors:
            tensor.data = None
        results = (Tensor * max(1, outputs))()
        status = self._function(f"{function}_shapes")(tensors, results)
        assert not status, self.message(status)
        return [tuple(t.shape[: t.ndim]) for t in results[:outputs]]

    def free(self, workspace: Workspace) -> None:
        """Free the memory of a workspace."""
        self._function("free_workspace")(ctypes.byref(workspace))

    @staticmethod
    def _taken(tensor: Tensor) -> Any:
        shape = tuple(tensor.shape[: tensor.ndim])
        if not tensor.data:
            return shape
        names = {code: name for name, code in DTYPES.items()}
        dtype = DataType(names[tensor.dtype]).to_numpy()
        size = int(np.prod(shape)) * dtype.itemsize
        data = ctypes.string_at(tensor.data, size)
        return np.frombuffer(data, dtype).reshape(shape)


def exported(executable: codegen.Executable, folder: Path, name: str = "model") -> CModel:
    """Export an executable and load it."""
    executable.export_library(folder / f"lib{name}.so")
    return CModel(folder / f"lib{name}.so")


def leaves(value: Any) -> list[Any]:
    """Return the arrays of a result of the virtual machine."""
    if isinstance(value, tuple) and not all(isinstance(part, int) for part in value):
        return [leaf for part in value for leaf in leaves(part)]
    return [value]
