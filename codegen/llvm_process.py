"""LLVM in a separate process: units in, objects out.

LLVM's Python binding lets one thread at a time into LLVM, so several cores take several processes.
One is a fresh interpreter rather than a fork, which LLVM's and OpenMP's threads would not survive.
It receives and sends pickled messages over pipes, and ends when its input ends.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

from codegen.errors import CodegenError

if TYPE_CHECKING:
    from codegen.kernel import Unit


class LLVMProcess:
    """A process that compiles units; for use by one thread."""

    def __init__(self) -> None:
        path = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from codegen.llvm_process import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the process that started it, which ends it
        )

    def object_code(self, unit: Unit) -> bytes | None:
        """Return the object of a unit, None if the process has ended.

        Raises CodegenError for code that LLVM rejects.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            pickle.dump(unit, stdin)
            stdin.flush()
            made, problem = pickle.load(stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            return None
        if problem is not None:
            raise CodegenError(problem)
        return bytes(made)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def serve() -> None:
    """Answer on the standard output until the standard input ends."""
    asked, told = sys.stdin.buffer, _private_output()
    while True:
        try:
            unit = pickle.load(asked)
        except EOFError:
            return
        answer: tuple[bytes | None, str | None]
        try:
            answer = unit.object_code(), None
        except CodegenError as problem:
            answer = None, str(problem)
        pickle.dump(answer, told)
        told.flush()


def _private_output() -> BinaryIO:
    """Return the standard output, and redirect later prints to standard error."""
    told: Any = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return told  # type: ignore[no-any-return]
