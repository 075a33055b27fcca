"""Processes that are forks of one process which has imported the packages.

A fork starts in milliseconds; an interpreter that imports the packages takes a third of a second of
CPU time, and the tests start hundreds of them.
"""

from __future__ import annotations

import atexit
import gc
import multiprocessing
import os
import runpy
import subprocess
import sys
import types
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import IO, Any

import pytest

_SERVER = multiprocessing.get_context("forkserver")
_PRELOADED = """
codegen.vm.build search.loop search.models.tune_model search.reports.report search.runs.name_winner
search.command_line.main search.runner.measure tests.forked tests.search.programs
cloudpickle llvmlite.binding numpy.testing xgboost
"""
_SERVER.set_forkserver_preload(_PRELOADED.split())


class Forked:
    """A process with the interface of `subprocess.Popen`, as far as the tests use it.

    `command` is an interpreter with `-c` and a program, `-m` and a module, or the path of a program,
    and arguments; numbers in `pass_fds` are replaced among them.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | str | None = None,
        pass_fds: Sequence[int] = (),
        stdin: int | None = None,
        stdout: int | IO[Any] = subprocess.DEVNULL,
        stderr: int | IO[Any] = subprocess.DEVNULL,
        start_new_session: bool = False,
    ) -> None:
        outputs = [
            None
            if out == subprocess.DEVNULL
            else DupFd(out if isinstance(out, int) else out.fileno())
            for out in (stdout, stderr)
        ]
        self._process = _SERVER.Process(
            target=_run,
            args=(
                list(map(str, command[1:])),
                dict(os.environ if env is None else env),
                os.fspath(cwd or os.getcwd()),
                {str(fd): DupFd(fd) for fd in pass_fds},
                outputs,
                start_new_session,
                gc.get_threshold(),
            ),
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit code, None while the process runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; raise TimeoutError if it takes longer than `timeout` seconds."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise TimeoutError(f"the process runs for more than {timeout} s")
        return code

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process."""
        self._process.kill()


def run(
    command: Sequence[str | Path], folder: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder for five minutes at most; return its exit code and its output."""
    with (folder / ".stdout").open("w+") as out, (folder / ".stderr").open("w+") as err:
        process = Forked(command, env=env, cwd=folder, stdout=out, stderr=err)
        try:
            code = process.wait(300)
        finally:
            process.kill()
        texts = [(folder / name).read_text() for name in (".stdout", ".stderr")]
    return subprocess.CompletedProcess(command, code, *texts)


def fork_workers(patch: pytest.MonkeyPatch) -> None:
    """Make the workers of a search forks; compile in this process."""
    from codegen import worker_pool  # noqa: PLC0415 - after the environment is set

    forks = types.SimpleNamespace(Popen=Forked, DEVNULL=subprocess.DEVNULL)
    patch.setattr(worker_pool, "subprocess", forks)


def measure_briefly(patch: pytest.MonkeyPatch) -> None:
    """Let searches with default options measure for a moment only."""
    patch.setattr("search.runner.local_runner._REPEAT_MS", 1)
    patch.setattr("search.runs.confirm_best._FEWEST_ROUNDS", 1)
    patch.setattr("search.runs.confirm_best._LEAST_ROUNDS", 1)
    patch.setattr("search.runs.confirm_best._MOST_ROUNDS", 2)
    patch.setattr("search.search_strategy.evolutionary_search._TRIAL_SECONDS", 0.01)


def _run(
    arguments: list[str],
    env: dict[str, str],
    folder: str,
    passed: dict[str, Any],
    outputs: Sequence[Any],
    new_session: bool,
    thresholds: tuple[int, int, int],
) -> None:
    """Run a program in this process, which ends with it."""
    # What the server imported is neither searched for cycles nor copied for that.
    gc.freeze()
    gc.set_threshold(*thresholds)
    # Forks of a fork come from the same server; Python 3.11 would start another one.
    forkserver._forkserver.ensure_running = lambda: None  # type: ignore[method-assign]
    if new_session:
        os.setsid()
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    for number, out in enumerate(outputs, 1):
        file = os.open(os.devnull, os.O_WRONLY) if out is None else out.detach()
        os.dup2(file, number)
        os.close(file)
    sys.path[:0] = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    fork_workers(pytest.MonkeyPatch())
    measure_briefly(pytest.MonkeyPatch())
    numbers = {number: str(fd.detach()) for number, fd in passed.items()}
    kind, *rest = (numbers.get(argument, argument) for argument in arguments)
    code: Any = 0
    try:
        # `sys.modules["__main__"]` stays, since a fork of this fork would run its file again.
        if kind == "-m":
            sys.argv = rest
            runpy.run_module(rest[0], run_name="__main__")
        else:
            sys.argv = [kind, *rest[1:]] if kind == "-c" else [kind, *rest]
            text = rest[0] if kind == "-c" else Path(kind).read_text()
            sys.path.insert(0, os.path.dirname(kind))
            exec(compile(text, kind, "exec"), {"__name__": "__main__", "__file__": kind})
    except SystemExit as end:
        code = end.code
        if isinstance(code, str):
            sys.stderr.write(f"{code}\n")
            code = 1
    except BaseException:  # noqa: BLE001  as an interpreter does
        sys.excepthook(*sys.exc_info())
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)
