"""Programs in processes of their own that need not import the packages again.

A server imports them once and forks for each program; `tests/program_server.py` is its script.
Where processes cannot be forked safely, each program gets a new interpreter.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LIMIT = 300
"""Seconds after which a program is ended."""
CAN_FORK = sys.platform == "linux"
IMPORTED = (
    "codegen.vm",
    "llvmlite.binding",
    "onnx",
    "search.history.default_schedules",
    "search.tune",
    "sqlite3",
    "tensorir.frontend",
    "tensorir.relax.op",
    "xgboost",
)


class Done(NamedTuple):
    """The exit status of a program and its output, errors included."""

    returncode: int
    output: str


class ProgramServer:
    """Runs Python files; a context, at whose end the server ends."""

    def __enter__(self) -> ProgramServer:
        self._server = _start([__file__], pipe=subprocess.PIPE) if CAN_FORK else None
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.communicate()

    def run(self, file: Path, *arguments: str, folder: Path) -> Done:
        """Run `python FILE ARGUMENTS` in a folder."""
        output = folder / "output.txt"
        if self._server is None:
            with output.open("w") as stream:
                process = _start([str(file), *arguments], pipe=stream, cwd=folder)
                return Done(process.wait(LIMIT), output.read_text())
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        request = [str(output), str(folder), str(file), *arguments]
        print(json.dumps(request), file=self._server.stdin, flush=True)
        return Done(int(self._server.stdout.readline()), output.read_text())


def _start(command: list[str], pipe: object, cwd: Path | None = None) -> subprocess.Popen[str]:
    host = os.environ["TENSORIR_HOST"]
    if "cores=" not in host:
        host += ",cores=1"  # searches build in fewer processes, each of which imports everything
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TENSORIR_HOST": host},
        stdin=subprocess.PIPE,
        stdout=pipe,
        stderr=None if pipe == subprocess.PIPE else subprocess.STDOUT,
        text=True,
    )


def serve() -> None:
    """Run the program of each line of the standard input, and answer with its exit status."""
    for name in IMPORTED:
        import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(*json.loads(line))
            return
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _become(output: str, folder: str, *command: str) -> None:
    """Run a program instead of the server."""
    signal.alarm(LIMIT)
    os.chdir(folder)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    stream = os.open(output, os.O_WRONLY | os.O_CREAT)
    os.dup2(stream, 1)
    os.dup2(stream, 2)
    sys.argv = list(command)
    sys.path[0] = str(Path(command[0]).parent)
    runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    serve()
