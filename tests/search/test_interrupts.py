"""Ctrl-C keeps what was measured, and ends the script that searches."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import search as ms
from search.database import JSONDatabase
from search.options import delay_interrupt

SCRIPT = """
import signal
import sys
import time

import search as ms
from search.measure_callback import MeasureCallback
from tests.search.programs import Matmul, split_j
from tests.search.test_tune_calls import OneMillisecond, Pretend

folder, how, cleanup = sys.argv[1:]
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the parent ignores it


class Third(MeasureCallback):
    def __init__(self):
        self.count = 0

    def apply_to_trial(self, *_):
        self.count += 1
        if self.count == 3:
            print("interrupt me", flush=True)
            time.sleep(0.5)

    def apply(self, *_):
        if cleanup == "slow":
            print("interrupt me again", flush=True)
            time.sleep(0.5)
            print("cleaned up", flush=True)


for operator in range(2):
    ms.tune_tir(
        Matmul,
        "llvm -num-cores=1",
        ms.TuneConfig(6, num_confirmed=0),
        folder,
        space=split_j,
        builder=Pretend(),
        runner=OneMillisecond(),
        cost_model="random",
        measure_callbacks=[*MeasureCallback.create("default"), Third()],
        on_interrupt=how,
        seed=1,
    )
    print("operator", operator, "is done", flush=True)
"""


def interrupted(folder: Path, how: str, cleanup: str = "fast") -> tuple[int, str, str]:
    """Run the script, send SIGINT whenever it asks, and return its end and what it wrote."""
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), how, cleanup],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as child:
        lines = []
        assert child.stdout is not None
        assert child.stderr is not None
        for line in child.stdout:
            lines.append(line)
            if line.startswith("interrupt me"):
                child.send_signal(signal.SIGINT)
        said = child.stderr.read()
        return child.wait(), "".join(lines), said


def test_a_script_ends_with_the_interrupt_when_everything_is_kept(tmp_path: Path) -> None:
    """A second interrupt waits, too."""
    code, wrote, said = interrupted(tmp_path, "raise", "slow")
    assert code == -signal.SIGINT
    kept = "Interrupted: all measurements are kept, and the same call resumes"
    assert said.endswith(f"\nKeyboardInterrupt: {kept}\n")
    assert "cleaned up" in wrote
    assert "operator" not in wrote
    assert len(JSONDatabase(work_dir=tmp_path)) == len(ms.load_run(tmp_path)) == 3


def test_who_wants_the_best_so_far_gets_it(tmp_path: Path) -> None:
    code, wrote, _ = interrupted(tmp_path, "return")
    assert code == 0
    assert "operator 0 is done" in wrote
    assert "operator 1 is done" in wrote


def test_the_third_interrupt_is_not_put_off() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the parent ignores it
    done: list[int] = []

    def interrupted_often() -> None:
        with delay_interrupt():
            for number in range(4):
                signal.raise_signal(signal.SIGINT)
                done.append(number)

    with pytest.raises(KeyboardInterrupt):
        interrupted_often()
    assert done == [0, 1]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
