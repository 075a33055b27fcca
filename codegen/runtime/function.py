"""One compiled function: checking its arguments, calling it, reporting errors."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np

from codegen.abi import LIBRARY_FAILED, OUT_OF_MEMORY, status_of
from codegen.errors import AssertionFailedError, ExecutionError, LinkError
from codegen.runtime.arguments import ArgumentChecker, BoundArguments
from codegen.runtime.guard import run_guarded
from codegen.runtime.jit import LoadedCode
from codegen.runtime.timed_loop import Batch, flush_views, time_calls
from codegen.signature import Signature
from tensorir.errors import IRTypeError
from tensorir.nodes.dtype import DataType

ENTRY: Final = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
"""Converts the address of an entry to a callable, whose argument is the address of the slots."""


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A function with checked arguments; a repeated call has an overhead of a microsecond.

    The arrays must stay at the same addresses, which are part of the call.
    """

    _function: Function
    _bound: BoundArguments

    def __call__(self) -> Any:
        """Run the function and return its result."""
        return self._function.run(self._bound)

    def time(self, number: int = 1) -> Batch:
        """Run the function `number` times in a compiled loop and time the whole batch.

        Raises ExecutionError if a run fails; the remaining runs do not start.
        """
        batch = time_calls(self._function.entry, self._bound.slots, number)
        if batch.status:
            self._function.fail(batch.status)
        return batch

    def flush_non_first(self) -> None:
        """Drop the argument arrays, except the first, from all caches (x86 only)."""
        self.flush(range(1, len(self._bound.views)))

    def flush(self, positions: Iterable[int]) -> None:
        """Drop the arguments at these positions from all caches (x86 only)."""
        flush_views(self._bound.views[k] for k in positions)


class Function:
    """A compiled function; call it with arrays (outputs are written in place) and scalars."""

    def __init__(self, code: LoadedCode, signature: Signature, guard_pages: bool = False) -> None:
        self._code = code
        self.signature = signature
        self._call: Callable[[Any], int] = self._refuse
        if code.refusal is None:
            self._call = ENTRY(self.entry)
        self._checker = ArgumentChecker(signature)
        self._guard_pages = guard_pages

    @property
    def name(self) -> str:
        """The name in the module."""
        return self.signature.name

    @property
    def entry(self) -> int:
        """Address of the entry that takes its arguments from an array of slots.

        Raises LinkError, as `address` does, for code that cannot run here.
        """
        return self._code.entries.get(self.name) or self._refuse()

    @property
    def address(self) -> int:
        """Address of the C function."""
        return self._code.addresses.get(self.name) or self._refuse()

    def _refuse(self, *_: object) -> NoReturn:
        raise LinkError(f"{self.name} cannot run here: {self._code.refusal}")

    def __call__(self, *args: Any) -> Any:
        """Check the arguments, run, and return the value of `T.ret` (None without).

        Raises IRTypeError or IRValueError for arguments that do not fit and LinkError for code that
        cannot run on this machine (`codegen.why_not_here`), before anything runs;
        AssertionFailedError for an assertion of the program; LibraryFunctionError for what a
        library function raised; ExecutionError when memory runs out.
        """
        return self.run(self._checker.bind(args))

    def prepare(self, *args: Any) -> PreparedCall:
        """Check the arguments once, for many calls."""
        return PreparedCall(self, self._checker.bind(args))

    def run(self, bound: BoundArguments) -> Any:
        """Run on checked arguments."""
        if self._guard_pages:
            status = run_guarded(self.signature, bound, self._call)
        else:
            status = self._call(bound.slots)
        if status:
            self.fail(status)
        if self.signature.result is None:
            return None
        return _decode(self.signature.result, bound.result.value)

    def fail(self, status: int) -> None:
        """Raise the error of a status other than 0."""
        if status == OUT_OF_MEMORY:
            raise ExecutionError(
                f"{self.name}: memory for a temporary buffer could not be allocated"
            )
        if status == LIBRARY_FAILED and self._code.library is not None:
            raise self._code.library.failure()
        messages = [text for text in self._code.info.messages if status_of(text) == status]
        if messages:
            raise AssertionFailedError(f"{self.name}: {' (or) '.join(messages)}")
        raise ExecutionError(f"{self.name} stopped with status {status}")

    def __reduce__(self) -> NoReturn:
        """Raise an error: a function is pickled with its module."""
        raise IRTypeError(
            f"the compiled function {self.name} cannot be pickled or copied alone; pickle its "
            f'module, and use module["{self.name}"]'
        )

    def __repr__(self) -> str:
        return f"<compiled function {self.signature}>"


def _decode(dtype: DataType, slot: int) -> Any:
    raw = struct.pack("<q", slot)
    if dtype.is_bool:
        return bool(raw[0] & 1)
    value = np.frombuffer(raw, dtype.to_numpy(), 1)[0]
    return value.item()
