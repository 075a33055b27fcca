"""The main loop of a worker process: receive a job, do it, answer, until the pipe is closed."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any, Final, Literal, TypeAlias

Answer: TypeAlias = tuple[Literal["ready", "began", "value", "error"], Any]

_PR_SET_PDEATHSIG: Final = 1


def serve(file_descriptor: int) -> None:
    """Serve jobs that arrive on a socket as pickled `(function, args)`.

    The first message is a function that the jobs will call, so that unpickling imports its module,
    and the initializer; each may be None. The process confirms the arrival of each job, which
    tells a crash of the job from a death before it. The answer to a job that raises is a text.
    """
    _die_with_parent()
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(file_descriptor)
    try:
        message = connection.recv_bytes()
    except (EOFError, ConnectionResetError):
        return
    _, initializer = pickle.loads(message)  # an error here, even EOFError, ends the process
    if initializer is not None:
        initializer()
    try:
        _answer(connection, ("ready", os.getpid()))
        while True:
            message = connection.recv_bytes()
            _answer(connection, ("began", None))
            _answer(connection, _do(message))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _do(message: bytes) -> Answer:
    try:
        function, args = pickle.loads(message)
    except Exception as error:  # noqa: BLE001  whatever importing the user's module raises
        return "error", (
            f"a worker process cannot import a function given to the search: {error!r}; "
            "define it in a notebook, a script or a module that can be imported"
        )
    try:
        return "value", function(*args)
    except Exception as error:  # noqa: BLE001  whatever a candidate does is its own failure
        return "error", "".join(traceback.format_exception(error, limit=-6))


def _answer(connection: Connection, answer: Answer) -> None:
    try:
        message = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001  an object of the user may raise anything
        text = f"the return value of a function cannot leave its worker process: {error}"
        message = pickle.dumps(("error", text))
    connection.send_bytes(message)


def _die_with_parent() -> None:
    """Have the system end this process with its parent, even when it hangs in native code."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
