"""Calls from machine code into Python.

Compiled code calls one C function of its module, a ctypes callback. The callback acquires the
interpreter's lock, which was released to call the compiled code, makes the arguments, and calls the
library function. Arrays are views of the program's memory, valid until the library function
returns.
"""

from __future__ import annotations

import ctypes
import operator
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from codegen.errors import ExecutionError, LinkError
from codegen.library_functions import LibraryFunction, get_global_func, library_error, missing_text
from codegen.runtime.ndarray import FIRST_ADDRESS, MEMORY, NDArray
from codegen.signature import Argument, ArrayArgument, LibraryCall, TextArgument
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import INT32
from tensorir.nodes.expr import integer_limits

_CALLBACK: Final = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_size_t)
_DONE: Final = 1
_FAILED: Final = 0
"""ctypes returns the same value for an exception in the callback, for example from a signal."""

_Reader: TypeAlias = Callable[[tuple[Any, ...]], Any]
"""A function that makes an argument from the values of all slots."""


class LibraryCalls:
    """The library calls of one loaded module, by function; must live as long as its code.

    Raises LinkError naming all functions that are not registered.
    """

    def __init__(self, calls: Mapping[str, Sequence[LibraryCall]]) -> None:
        names = dict.fromkeys(call.function for of_one in calls.values() for call in of_one)
        functions = {name: get_global_func(name, True) for name in names}
        missing = [name for name, function in functions.items() if function is None]
        if missing:
            raise LinkError(f"the program cannot be loaded: {missing_text(missing)}")
        self._failures: dict[int, BaseException] = {}
        """The exception that a call raised, by thread, until `failure` takes it."""
        self._callbacks = {
            name: _CALLBACK(
                partial(self._call, [_Site(call, functions[call.function]) for call in of_one])  # type: ignore[arg-type]
            )
            for name, of_one in calls.items()
        }
        self.addresses = {
            name: ctypes.cast(callback, ctypes.c_void_p).value or 0
            for name, callback in self._callbacks.items()
        }
        """For each function that has calls, the C function that it calls for them:
        `int32_t(int32_t call, int64_t* slots)`, which returns 0 if it failed."""

    def _call(self, sites: Sequence[_Site], number: int, slots: int) -> int:
        try:
            sites[number](slots)
        except BaseException as problem:  # noqa: BLE001 - raised again by the caller of the code
            self._failures[threading.get_ident()] = problem
            return _FAILED
        return _DONE

    def failure(self) -> BaseException:
        """Return and forget the exception that stopped the compiled function of this thread."""
        return self._failures.pop(
            threading.get_ident(), ExecutionError("a library function was interrupted")
        )


class _Site:
    """One call: the readers of its arguments, and the called function."""

    def __init__(self, call: LibraryCall, function: LibraryFunction) -> None:
        self._name = call.function
        self._function = function
        self._wants_result = call.wants_result
        self._form = "=q"
        self._slots = 1
        self._readers = [self._reader(argument) for argument in call.arguments]
        self._unpack = struct.Struct(self._form).unpack_from

    def __call__(self, slots: int) -> None:
        values = self._unpack(MEMORY, slots - FIRST_ADDRESS)
        args = [read(values) for read in self._readers]
        try:
            result = self._function(*args)
            if self._wants_result:
                ctypes.c_int32.from_address(slots).value = _as_int32(result)
        except BaseException as problem:
            # The traceback may keep the arguments longer than the memory of the program exists.
            for arg in args:
                if isinstance(arg, NDArray):
                    arg.detach()
            if isinstance(problem, Exception):
                raise library_error(self._name, args, problem) from problem
            raise

    def _reader(self, argument: Argument) -> _Reader:
        if isinstance(argument, ArrayArgument):
            return self._array_reader(argument)
        if isinstance(argument, TextArgument):
            text = argument.text
            return lambda values: text
        slot = self._slot({"float": "d", "uint": "Q"}.get(argument.kind, "q"))
        if argument.kind == "bool":
            return lambda values: bool(values[slot])
        return operator.itemgetter(slot)

    def _slot(self, form: str) -> int:
        self._form += form
        self._slots += 1
        return self._slots - 1

    def _array_reader(self, argument: ArrayArgument) -> _Reader:
        kind, lanes = argument.dtype.element.to_numpy(), argument.dtype.lanes
        at, data = NDArray.at, self._slot("Q")
        shape = [self._extent_reader(n) for n in argument.shape]
        strides = None
        if argument.strides is not None:
            strides = [self._extent_reader(n) for n in argument.strides]
        inner_shape = (lanes,) if lanes > 1 else ()
        inner_strides = (kind.itemsize,) if lanes > 1 else ()
        size = kind.itemsize * lanes
        if strides is None and None not in argument.shape:
            fixed = (*(n for n in argument.shape if n is not None), *inner_shape)
            return lambda values: at(values[data], fixed, kind)

        def read(values: tuple[Any, ...]) -> NDArray:
            extents = (*(extent(values) for extent in shape), *inner_shape)
            steps = None
            if strides is not None:
                steps = (*(stride(values) * size for stride in strides), *inner_strides)
            return at(values[data], extents, kind, None, steps)

        return read

    def _extent_reader(self, extent: int | None) -> _Reader:
        if extent is None:
            return operator.itemgetter(self._slot("q"))
        return lambda values: extent


def _as_int32(result: Any) -> int:
    """Return the result of a library function as the int32 that the program expects.

    None counts as 0.
    """
    if result is None:
        return 0
    try:
        number = operator.index(result)
    except TypeError:
        kind = type(result).__name__
        raise IRTypeError(f"the program uses the result as an int32, got {kind}") from None
    low, high = integer_limits(INT32)
    if not low <= number <= high:
        raise IRValueError(f"the program uses the result as an int32, which {number} does not fit")
    return number
