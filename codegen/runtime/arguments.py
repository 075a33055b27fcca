"""Checking the arguments of a compiled function before anything runs.

Errors name the function and the parameter: IRTypeError (a TypeError) for a wrong count, kind or
dtype, IRValueError (a ValueError) for a wrong shape, layout, alignment, an output that cannot be
written, or memory shared between parameters that `tir.noalias` promises to be distinct.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np

from codegen.runtime.array_view import ArrayView, is_negated, remedy_for, view_of
from codegen.runtime.ndarray import address_of, array_over
from codegen.runtime.ndarray import array as copy_of
from codegen.runtime.overlap import Span, overlap
from codegen.signature import Dim, Parameter, Signature, dim_text, evaluate_dim
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import integer_limits
from tensorir.semantics import rounding, to_bits
from tensorir.semantics.conversions import stored

NUMBER: Final = (int, float, np.integer, np.floating)
"""The classes that are accepted as a number."""


@dataclass(slots=True)
class BoundArguments:
    """Checked arguments as slots of a compiled function, and the objects that keep them alive."""

    slots: Any
    views: list[ArrayView | None]
    owners: Any
    result: Any


class ArgumentChecker:
    """The argument checks of a signature, prepared once."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        parameters = signature.parameters
        self._slot_type = ctypes.c_int64 * max(
            1, len(parameters) + len(signature.symbols) + (signature.result is not None)
        )
        self._static = (
            all(isinstance(dim, int) for p in parameters for dim in p.dims)
            and not signature.symbols
        )
        self._buffers = [k for k, p in enumerate(parameters) if p.kind == "buffer"]
        self._is_distinct = signature.noalias and any(parameters[k].written for k in self._buffers)

    def bind(self, args: Sequence[Any]) -> BoundArguments:
        """Return the checked arguments; raise for the first wrong one."""
        signature = self.signature
        parameters = signature.parameters
        if len(args) != len(parameters):
            raise IRTypeError(
                f"{signature.name} has {len(parameters)} parameter(s), got {len(args)} "
                "argument(s): "
                f"{signature}"
            )
        slots = self._slot_type()
        views: list[ArrayView | None] = []
        values: dict[str, int] = {}
        for k, (parameter, arg) in enumerate(zip(parameters, args, strict=True)):
            if parameter.kind == "buffer":
                view = self._view(parameter, arg)
                views.append(view)
                slots[k] = view.address
                continue
            views.append(None)
            if parameter.kind == "pointer":
                slots[k] = self._pointer(parameter, arg)
            else:
                slots[k] = self._scalar(parameter, arg, values)
        for _ in range(1 if self._static else 2):
            # In the second pass every variable has a value, including variables that earlier
            # dimensions use.
            for k in self._buffers:
                self._check_layout(parameters[k], views[k], values)  # type: ignore[arg-type]
        for k in self._buffers:
            offset = parameters[k].elem_offset
            if offset != 0:
                # Element 0 of the array is element `offset` of the memory the function addresses.
                itemsize = parameters[k].dtype.element.nbytes
                slots[k] -= (evaluate_dim(offset, values) or 0) * itemsize
        if not self._static:
            self._bind_symbols(slots, values)
        if self._is_distinct:
            self._check_overlap(views)
        result = None
        if signature.result is not None:
            result = ctypes.c_int64()
            slots[len(slots) - 1] = ctypes.addressof(result)
        return BoundArguments(slots, views, args, result)

    # ------------------------------------------------------------------------------------- arrays

    def _view(self, parameter: Parameter, arg: Any) -> ArrayView:
        if not parameter.written and is_negated(arg):
            arg = arg.resolve_neg()
        elif not parameter.written and isinstance(arg, (bool, int, float, list, tuple)):
            return self._of_numbers(parameter, arg)
        try:
            view = view_of(arg)
        except IRTypeError as problem:
            raise IRTypeError(f"{self._place(parameter)}: {problem}") from None
        if view is None:
            self._fail_type(
                parameter,
                f"expected an array of {parameter.dtype}, got {type(arg).__name__}; pass a NumPy "
                f"array or anything with __dlpack__ or __array_interface__",
            )
        expected = parameter.dtype.element
        if view.dtype is not expected and view.dtype != expected.to_numpy().name:
            self._fail_type(
                parameter,
                f"expected an array of {expected}, got {view.dtype}; {remedy_for(expected)}",
            )
        self._check_writable(parameter, view)
        if parameter.written or parameter.strides or _is_compact(view):
            return view
        return _view_of_copy(array_over(view), view.dtype)

    def _of_numbers(self, parameter: Parameter, numbers: Any) -> ArrayView:
        dtype = parameter.dtype.element
        try:
            return _view_of_copy(stored(numbers, dtype), dtype)
        except (IRTypeError, IRValueError) as problem:
            raise type(problem)(f"{self._place(parameter)}: {problem}") from None

    def _check_writable(self, parameter: Parameter, view: ArrayView) -> None:
        if view.read_only and parameter.written:
            self._fail_value(parameter, "the function writes to it, but the array is read-only")

    def _check_layout(self, parameter: Parameter, view: ArrayView, values: dict[str, int]) -> None:
        shape = view.shape
        lanes = parameter.dtype.lanes
        if lanes > 1:
            shape = self._without_lanes(parameter, view)
        if shape != parameter.shape:
            self._match_shape(parameter, shape, values)
        if parameter.strides:
            self._match_strides(parameter, view, shape, values)
        elif not _is_compact(view):
            self._fail_value(
                parameter,
                f"the function writes to it, but the array of shape {view.shape} has byte strides "
                f"{view.strides}, but it must be contiguous in row-major order; pass a contiguous "
                f"array, such as codegen.empty({view.shape}, {str(view.dtype)!r}), and copy the "
                "result from it",
            )
        if isinstance(parameter.elem_offset, str):
            values.setdefault(parameter.elem_offset, 0)
        if view.address % parameter.dtype.element.nbytes:
            self._fail_value(
                parameter,
                f"the data at address {view.address:#x} is not aligned to its "
                f"{parameter.dtype.element.nbytes}-byte elements",
            )

    def _without_lanes(self, parameter: Parameter, view: ArrayView) -> tuple[int, ...]:
        lanes = parameter.dtype.lanes
        if not view.shape or view.shape[-1] != lanes:
            self._fail_value(
                parameter,
                f"elements of {parameter.dtype} need a last dimension of {lanes}, the array has "
                f"shape {view.shape}",
            )
        return view.shape[:-1]

    def _match_shape(
        self, parameter: Parameter, shape: tuple[int, ...], values: dict[str, int]
    ) -> None:
        wanted = parameter.shape
        if len(shape) != len(wanted):
            self._fail_value(
                parameter,
                f"expected {len(wanted)} dimension(s) {_shape_text(wanted)}, got {len(shape)}: "
                f"{shape}",
            )
        for axis, (dim, extent) in enumerate(zip(wanted, shape, strict=True)):
            self._match(parameter, f"dimension {axis}", dim, extent, values, shape)

    def _match(
        self,
        parameter: Parameter,
        place: str,
        dim: Dim,
        actual: int,
        values: dict[str, int],
        shape: tuple[int, ...],
    ) -> None:
        if isinstance(dim, str) and dim not in values:
            values[dim] = actual
            return
        expected = evaluate_dim(dim, values)
        if expected is not None and expected != actual:
            named = "" if isinstance(dim, int) else f" ({dim_text(dim)})"
            self._fail_value(
                parameter,
                f"{place} is {actual}, expected {expected}{named}: the array has shape {shape}, "
                f"the function needs {_shape_text(parameter.shape)}",
            )

    def _match_strides(
        self,
        parameter: Parameter,
        view: ArrayView,
        shape: tuple[int, ...],
        values: dict[str, int],
    ) -> None:
        itemsize = view.dtype.nbytes
        strides = view.strides if view.strides is not None else _compact_strides(shape, itemsize)
        for axis, (dim, stride) in enumerate(zip(parameter.strides, strides, strict=True)):
            if stride % itemsize:
                self._fail_value(parameter, f"stride {axis} is not a multiple of the element size")
            is_used = shape[axis] != 1 and 0 not in shape
            if is_used or (isinstance(dim, str) and dim not in values):
                self._match(parameter, f"stride {axis}", dim, stride // itemsize, values, shape)

    def _check_overlap(self, views: list[ArrayView | None]) -> None:
        spans = [
            Span(*view.extent_bytes(), parameter.written, parameter.name)
            for parameter, view in zip(self.signature.parameters, views, strict=True)
            if view is not None
        ]
        found = overlap(spans)
        if found is not None:
            raise IRValueError(
                f"{self.signature.name}: {found} share memory, but the function is marked "
                "tir.noalias and writes to one of them; pass a copy"
            )

    # ------------------------------------------------------------------------------------ scalars

    def _scalar(self, parameter: Parameter, arg: Any, values: dict[str, int]) -> int:
        dtype = parameter.dtype
        if dtype.is_integral:
            number = integer_of(arg)
            if number is None:
                self._fail_type(
                    parameter, f"expected an integer for {dtype}, got {type(arg).__name__}"
                )
            low, high = integer_limits(dtype)
            if not low <= number <= high:
                self._fail_value(parameter, f"{number} does not fit {dtype}")
            values[parameter.name] = number
            return slot_of(number, dtype)
        if not isinstance(arg, NUMBER):
            self._fail_type(parameter, f"expected a number for {dtype}, got {type(arg).__name__}")
        return slot_of(arg, dtype)

    def _pointer(self, parameter: Parameter, arg: Any) -> int:
        if arg is None:
            return 0
        if isinstance(arg, int):
            return arg - (1 << 64) if arg >> 63 else arg
        if isinstance(arg, ctypes.c_void_p):
            return arg.value or 0
        view = view_of(arg)
        if view is None:
            self._fail_type(
                parameter, f"expected an address, None or an array, got {type(arg).__name__}"
            )
        self._check_writable(parameter, view)
        return view.address

    def _bind_symbols(self, slots: Any, values: dict[str, int]) -> None:
        first = len(self.signature.parameters)
        for k, (name, dtype) in enumerate(self.signature.symbols):
            value = values.get(name)
            if value is None:
                raise IRValueError(
                    f"{self.signature.name}: the arguments do not determine the symbolic extent "
                    f"{name}; declare it as a separate dimension or pass it as an argument"
                )
            low, high = integer_limits(dtype)
            if not low <= value <= high:
                raise IRValueError(f"{self.signature.name}: {name} = {value} does not fit {dtype}")
            slots[first + k] = value
        for parameter in self.signature.parameters:
            for dim in parameter.dims:
                if evaluate_dim(dim, values) is None:
                    raise IRValueError(
                        f"{self.signature.name}: the arguments do not determine extent "
                        f"{dim_text(dim)} of {parameter.name!r}"
                    )

    # ------------------------------------------------------------------------------------- errors

    def _place(self, parameter: Parameter) -> str:
        position = self.signature.parameters.index(parameter) + 1
        return f"{self.signature.name}: argument {position} ({parameter.name!r})"

    def _fail_type(self, parameter: Parameter, reason: str) -> NoReturn:
        raise IRTypeError(f"{self._place(parameter)}: {reason}")

    def _fail_value(self, parameter: Parameter, reason: str) -> NoReturn:
        raise IRValueError(f"{self._place(parameter)}: {reason}")


def slot_of(number: Any, dtype: DataType) -> int:
    """Return a number of a dtype as a slot: a signed integer of 64 bits."""
    if not dtype.is_integral:
        return to_bits(rounding(dtype)(float(number)), dtype)
    value = int(number)
    return value - (1 << 64) if value >> 63 > 0 else value


def integer_of(value: Any) -> int | None:
    """Return an integer or truth value as an integer, None for anything else."""
    try:
        return int(value) if isinstance(value, np.bool_) else operator.index(value)
    except TypeError:
        return None


def _shape_text(shape: tuple[Dim, ...]) -> str:
    return "(" + ", ".join(dim_text(d) for d in shape) + ("," if len(shape) == 1 else "") + ")"


def _compact_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides: list[int] = []
    size = itemsize
    for extent in reversed(shape):
        strides.insert(0, size)
        size *= extent
    return tuple(strides)


def _view_of_copy(values: Any, dtype: DataType) -> ArrayView:
    """Return a copy of elements, contiguous and aligned, as a view that keeps it alive."""
    copy = copy_of(values)
    return ArrayView(address_of(copy), dtype, copy.shape, None, False, copy)


def _is_compact(view: ArrayView) -> bool:
    if view.strides is None or 0 in view.shape:
        return True
    wanted = _compact_strides(view.shape, view.dtype.nbytes)
    return all(
        n == 1 or actual == expected
        for n, actual, expected in zip(view.shape, view.strides, wanted, strict=True)
    )
