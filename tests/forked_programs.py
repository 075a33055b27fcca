"""Run programs in copies of one process that has imported the packages, which takes a second."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SERVER = """
import atexit, os, runpy, sys, traceback
import codegen, schedule, search, tensorir

for folder in sys.stdin:
    child = os.fork()
    if not child:
        os.chdir(folder.rstrip())
        output = os.open("output", os.O_CREAT | os.O_WRONLY)
        os.dup2(output, 1)
        os.dup2(output, 2)
        code = 0
        try:
            runpy.run_path("program.py", run_name="__main__")
        except BaseException:
            traceback.print_exc()
            code = 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            atexit._run_exitfuncs()
            os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
ROOT = Path(__file__).parents[1]


class ProgramServer:
    """A process that forks one for each program."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, program: str, folder: Path) -> None:
        """Run a program in a folder; AssertionError with its output if it fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        (folder / "program.py").write_text(program)
        self._process.stdin.write(f"{folder}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "0\n", (folder / "output").read_text()

    def close(self) -> None:
        """Let the process end."""
        self._process.communicate()
