"""Checking values against the types that a program expects, before or between its steps.

Raises IRTypeError for a wrong kind or dtype, IRValueError for a wrong shape or layout; both name
the value, the expectation and the actual value.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from codegen.runtime.arguments import NUMBER, integer_of
from codegen.runtime.array_view import (
    NAMES_OF_ML_DTYPES,
    is_negated,
    narrow_dtype,
    remedy_for,
    view_of,
)
from codegen.runtime.bfloat16_array import BFloat16Array
from codegen.runtime.ndarray import (
    ArrayCopies,
    NDArray,
    address_of,
    aligned_array,
    array_over,
)
from codegen.runtime.ndarray import array as copy_of
from codegen.signature import Dim, dim_text, evaluate_dim
from codegen.vm import program as p
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import integer_limits
from tensorir.semantics.conversions import stored

if TYPE_CHECKING:
    from codegen.devices.array import GpuDevice


@dataclass(slots=True)
class Matcher:
    """Puts values into slots and registers; shapes define sizes, which are added to `sizes`."""

    place: str
    slots: Any
    registers: list[Any]
    sizes: dict[str, int]
    copies: list[NDArray]
    """Receives converted values: arrays of lists and numbers, contiguous copies, and memory of the
    host for arrays on the GPU, which own it."""
    device: GpuDevice | None = None
    """The GPU whose arrays are accepted."""
    _waiting: list[tuple[str, str, Dim, int, str]] = field(default_factory=list)

    def match(self, pattern: p.Pattern, value: Any) -> None:
        """Check a value and put it into the slot and register of the pattern."""
        if isinstance(pattern, p.TensorPattern):
            self._tensor(pattern, value)
        elif isinstance(pattern, p.TuplePattern):
            if not isinstance(value, (tuple, list)) or len(value) != len(pattern.elements):
                self._wrong_kind(pattern.name, f"a tuple of {len(pattern.elements)}", value)
            for part, element in zip(pattern.elements, value, strict=True):
                self.match(part, element)
        elif isinstance(pattern, p.ShapePattern):
            self._shape(pattern, value)
        elif isinstance(pattern, p.ScalarPattern):
            self._scalar(pattern, value)
        else:
            self._keep(pattern.register, as_value(value))

    def finish(self, slots: Iterable[tuple[str, int]]) -> None:
        """Check the extents that depend on later sizes; put the sizes into their slots."""
        for name, place, dim, actual, whole in self._waiting:
            expected = evaluate_dim(dim, self.sizes)
            if expected is None:
                self._fail(name, f"nothing determines its extent {dim_text(dim)}")
            if expected != actual:
                self._fail(
                    name, f"{place} is {actual}, expected {expected} ({dim_text(dim)}){whole}"
                )
        for name, slot in slots:
            if name in self.sizes:
                self.slots[slot] = self.sizes[name]

    def _keep(self, register: int, value: Any) -> None:
        if register != p.NONE:
            self.registers[register] = value

    def _tensor(self, pattern: p.TensorPattern, value: Any) -> None:
        array = self._array(pattern, value)
        if pattern.shape is not None:
            self._extents(pattern.name, pattern.shape, array.shape, "dimension")
        elif pattern.ndim not in (-1, array.ndim):
            self._fail(
                pattern.name,
                f"expected {pattern.ndim} dimension(s), got {array.ndim}: {array.shape}",
            )
        if pattern.written and not array.flags.writeable:
            self._fail(pattern.name, "the function writes to it, but the array is read-only")
        if pattern.slot != p.NONE:
            if not (array.flags.c_contiguous and array.flags.aligned):
                if pattern.written:
                    self._fail(
                        pattern.name,
                        f"the function writes to it, but the array of shape {array.shape} has byte "
                        f"strides {array.strides}; it has to be contiguous in row-major order and "
                        "aligned: pass a contiguous copy and read the result from that",
                    )
                array = self._copy(array)
            self.slots[pattern.slot] = address_of(array)
        self._keep(pattern.register, array)

    def _array(self, pattern: p.TensorPattern, value: Any) -> NDArray:
        """Return an argument as an array, of the expected dtype if there is one."""
        expected = None if pattern.dtype is None else DataType(pattern.dtype)
        if is_negated(value) and not pattern.written:
            value = value.resolve_neg()
        if isinstance(value, (bool, int, float, list, tuple)) and expected and not pattern.written:
            try:
                return self._copy(stored(value, expected))
            except (IRTypeError, IRValueError) as problem:
                raise type(problem)(f"{self._where(pattern.name)}: {problem}") from None
        found = self._on_host(value) or _typed_array(value)
        if found is None:
            remedy = self._how_to_make(value, pattern.dtype)
            self._wrong_kind(
                pattern.name, f"an array of {pattern.dtype or 'numbers'}", value, remedy
            )
        array, narrow = found
        if expected is None:
            return array
        if array.dtype != expected.to_numpy() or narrow not in (None, expected):
            raise IRTypeError(
                f"{self._where(pattern.name)}: expected an array of {expected}, got "
                f"{narrow or array.dtype}; {remedy_for(expected)}"
            )
        return array

    def _on_host(self, value: Any) -> tuple[NDArray, DataType] | None:
        """Return unwritten memory of the host for an array on the GPU; None for other values."""
        gpu = self.device
        if gpu is None or not is_on_device(value) or value.device.process is not gpu.process:
            return None
        self.copies.append(aligned_array(value.shape, value.dtype.to_numpy()))
        self.copies[-1]._owner = value
        return self.copies[-1], value.dtype

    def _how_to_make(self, value: Any, dtype: str | None) -> str:
        """Return the remedy for numbers or an array of another device, else ""."""
        if is_on_device(value):
            return f" on {value.device}, but the function runs on {self.device or 'the CPU'}"
        if not isinstance(value, (bool, int, float, tuple, list)):
            return ""
        shown = "values" if isinstance(value, (tuple, list)) else repr(value)
        kind = "" if dtype is None else f", {str(DataType(dtype).to_numpy())!r}"
        return f"; make it one by numpy.array({shown}{kind})"

    def _copy(self, array: Any) -> NDArray:
        self.copies.append(copy_of(array))
        return self.copies[-1]

    def _extents(
        self, name: str, dims: tuple[Dim, ...], actual: tuple[int, ...], what: str
    ) -> None:
        if len(dims) != len(actual):
            wanted = ", ".join(dim_text(d) for d in dims)
            self._fail(
                name, f"expected {len(dims)} {what}(s) ({wanted}), got {len(actual)}: {actual}"
            )
        for axis, (dim, extent) in enumerate(zip(dims, actual, strict=True)):
            if isinstance(dim, str) and dim not in self.sizes:
                self.sizes[dim] = extent
                continue
            expected = evaluate_dim(dim, self.sizes)
            if expected == extent:
                continue
            shown = ", ".join(dim_text(d) for d in dims)
            whole = f": got shape {actual}, expected ({shown})"
            if expected is None:
                self._waiting.append((name, f"{what} {axis}", dim, extent, whole))
            else:
                named = "" if isinstance(dim, int) else f" ({dim_text(dim)})"
                self._fail(name, f"{what} {axis} is {extent}, expected {expected}{named}{whole}")

    def _shape(self, pattern: p.ShapePattern, value: Any) -> None:
        try:
            extents = tuple(operator.index(n) for n in value)
        except TypeError:
            self._wrong_kind(pattern.name, "a tuple of integers", value)
        if min(extents, default=0) < 0:
            self._fail(pattern.name, f"an extent is at least 0, got {extents}")
        if pattern.extents is not None:
            self._extents(pattern.name, pattern.extents, extents, "extent")
        elif pattern.ndim not in (-1, len(extents)):
            self._fail(pattern.name, f"expected {pattern.ndim} integer(s), got {len(extents)}")
        self._keep(pattern.register, extents)

    def _scalar(self, pattern: p.ScalarPattern, value: Any) -> None:
        dtype = DataType(pattern.dtype)
        if not dtype.is_integral:
            if not isinstance(value, NUMBER):
                self._wrong_kind(pattern.name, "a number", value)
            self._keep(pattern.register, float(value))
            return
        number = integer_of(value)
        if number is None:
            self._wrong_kind(pattern.name, f"an integer for {dtype}", value)
        low, high = integer_limits(dtype)
        if not low <= number <= high:
            self._fail(pattern.name, f"{number} does not fit {dtype}")
        if pattern.value is not None:
            self._extents(pattern.name, (pattern.value,), (number,), "value")
        self._keep(pattern.register, bool(number) if dtype.is_bool else number)

    def _where(self, name: str) -> str:
        return f"{self.place}{name!r}"

    def _wrong_kind(self, name: str, expected: str, value: Any, remedy: str = "") -> NoReturn:
        raise IRTypeError(
            f"{self._where(name)}: expected {expected}, got {type(value).__name__}"
            + (f" of {len(value)}" if isinstance(value, (tuple, list)) else "")
            + remedy
        )

    def _fail(self, name: str, reason: str) -> NoReturn:
        raise IRValueError(f"{self._where(name)}: {reason}")


def is_on_device(value: Any) -> bool:
    """Return True for an array in the memory of a GPU (`codegen.devices.array.DeviceArray`)."""
    return isinstance(value, ArrayCopies) and not isinstance(value, np.ndarray)


def as_array(value: Any) -> NDArray | None:
    """Return an array-like as an NDArray over the same memory; None for other values.

    Dtypes that NumPy lacks are held as bits.
    """
    found = _typed_array(value)
    return None if found is None else found[0]


def _typed_array(value: Any) -> tuple[NDArray, DataType | None] | None:
    """Return an array-like as an NDArray over the same memory, and its dtype if NumPy lacks it."""
    kind = type(value)
    if kind is NDArray:
        return value, None
    if kind is BFloat16Array:
        return value.bits, value.dtype
    if not isinstance(value, np.ndarray):
        view = view_of(value)
        return None if view is None else (array_over(view), narrow_dtype(view.dtype))
    if value.dtype.isbuiltin != 1:
        named = NAMES_OF_ML_DTYPES.get(value.dtype.name)
        if named is not None:
            narrow = DataType(named)
            return value.view(narrow.to_numpy()).view(NDArray), narrow
        if not value.dtype.isnative:
            raise IRTypeError(f"an array of {value.dtype} has a foreign byte order; convert it")
    return value.view(NDArray), None


def as_value(value: Any) -> Any:
    """Return an array as an NDArray, also inside tuples and lists; other values unchanged."""
    if isinstance(value, (tuple, list)):
        return tuple(as_value(part) for part in value)
    if isinstance(value, np.generic):
        return value
    array = as_array(value)
    return value if array is None else array
