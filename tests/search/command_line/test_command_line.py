"""The command `tensorir`: what it prints, how it ends."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from schedule import Trace
from search.command_line.main import main
from search.database import database_at
from tensorir import frontend
from tests.search.models.network_programs import TARGET, X, dense_model, in_numpy

ROOT = Path(__file__).parents[3]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file that stands for a model, whatever is in it."""
    monkeypatch.setattr(frontend, "from_onnx", lambda path, shapes: dense_model(), raising=False)
    path = tmp_path / "model.onnx"
    path.write_bytes(b"")
    return str(path)


def test_a_model_is_run_on_an_input(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", X)
    output = tmp_path / "y.npz"
    code = main(
        [
            "run",
            model,
            "--target",
            TARGET,
            "--input",
            f"x={tmp_path}/x.npy",
            "--output",
            str(output),
        ]
    )
    said = capsys.readouterr().out
    assert code == 0
    assert "output 0: float32[16, 24] " in said
    assert "a call takes " in said
    assert "made up" not in said
    assert "reading" not in said  # what is being done is on standard error
    with np.load(output) as results:
        np.testing.assert_allclose(results["output_0"], in_numpy(X), rtol=1e-4)


def test_inputs_are_made_up_and_results_printed_as_json(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", model, "--target", TARGET, "--json", "--repeat", "0"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["made_up_inputs"] == ["x"]
    assert report["call_seconds"] is None
    assert [(x["shape"], x["dtype"]) for x in report["outputs"]] == [([16, 24], "float32")]


def test_a_profile_names_kernels(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", model, "--target", TARGET, "--profile", "--repeat", "1"]) == 0
    assert "narrow" in capsys.readouterr().out


def test_a_model_is_tuned_and_run_with_what_was_found(
    model: str,
    tmp_path: Path,
    quick: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    work_dir = str(tmp_path / "tuned")
    arguments = ["tune", model, "--target", TARGET, "--work-dir", work_dir, "--trials", "2"]
    assert main([*arguments, "--json"]) == 0
    said = capsys.readouterr()
    report = json.loads(said.out)
    assert [(t["name"], t["trials"], t["weight"]) for t in report["tasks"][:2]] == [
        ("wide", 1, 2),
        ("narrow", 1, 1),
    ]
    assert "Total trials: 2" in said.err
    assert main(["run", model, "--target", TARGET, "--work-dir", work_dir, "--json"]) == 0


def test_a_search_begins_with_a_trace_that_is_known(folder: Path, quick: None) -> None:
    arguments = ["matmul.py", "--trials", "1", "--work-dir", "found", "--target", TARGET]
    assert main(["tune", *arguments, "--initial", "trace.json"]) == 0
    (record,) = database_at(folder / "found").get_all_tuning_records()
    known = Trace.load(folder / "trace.json").as_json(remove_postproc=True)
    assert record.trace.as_json(remove_postproc=True) == known


@pytest.mark.parametrize("place", ["all.sqlite", "sqlite:///all.sqlite"])
def test_the_command_that_tuning_ends_with_finds_the_records(
    folder: Path, quick: None, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    arguments = ["matmul.py", "--trials", "1", "--work-dir", "found", "--target", TARGET]
    assert main(["tune", *arguments, "--database", place]) == 0
    _, _, call = capsys.readouterr().out.strip().rpartition("; call it with tensorir ")
    assert call == f"run matmul.py --database all.sqlite --target '{TARGET}'"
    assert main(shlex.split(call)) == 0


TWO = """\
@I.ir_module
class Two:
    @T.prim_func
    def exp(A: T.Buffer((8192,), "float32"), B: T.Buffer((8192,), "float32")):
        for i in range(8192):
            with T.block("B"):
                v = T.axis.spatial(8192, i)
                B[v] = T.exp(A[v])

    @T.prim_func
    def tanh(A: T.Buffer((8192,), "float32"), B: T.Buffer((8192,), "float32")):
        for i in range(8192):
            with T.block("B"):
                v = T.axis.spatial(8192, i)
                B[v] = T.tanh(A[v])
"""


def test_the_functions_of_a_script_are_tuned_together_into_a_file_of_records(
    folder: Path, quick: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "two.py").write_text(TWO)
    arguments = ["two.py", "--trials", "2", "--work-dir", "found", "--database", "all.sqlite"]
    assert main(["tune", *arguments, "--json"]) == 0
    tasks = json.loads(capsys.readouterr().out)["tasks"]
    assert [(task["name"], task["trials"]) for task in tasks] == [("exp", 1), ("tanh", 1)]
    assert len(database_at(folder / "all.sqlite")) == 2
    assert main(["run", "two.py", "--database", "all.sqlite"]) == 1
    assert "the module has no entry function, only ['exp', 'tanh']" in capsys.readouterr().err


def test_without_arguments_it_shows_its_help_and_ends_with_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 2
    assert "Usage: tensorir" in capsys.readouterr().out


def test_ctrl_c_ends_with_130(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "search.command_line.tune.tune_tir", Mock(side_effect=KeyboardInterrupt(""))
    )
    assert main(["tune", "matmul.py", "--trials", "1"]) == 130
    assert capsys.readouterr().err.endswith("\ntensorir: interrupted\n")


def test_ctrl_c_ends_with_one_sentence_and_a_second_one_with_none(folder: Path) -> None:
    program = (
        "import sys, threading, time\n"
        "from search.command_line import main, tune\n"
        "from tests.search.test_tune_calls import PRETENDED\n"
        "of_programs = tune.tune_tir\n"
        "tune.tune_tir = lambda *args, **told: of_programs(*args, **{**told, **PRETENDED})\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()  # the process waits for it\n"
        "sys.exit(main.main())\n"
    )
    arguments = ["tune", "matmul.py", "--work-dir", "found", "--trials", "5000"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    records = folder / "found" / "database_tuning_record.json"
    while process.poll() is None and not (records.exists() and records.read_text()):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    said = next(line for line in process.stderr if "nterrupted" in line)
    process.send_signal(signal.SIGINT)
    _, more = process.communicate(timeout=60)
    assert said == "tensorir: Interrupted: all measurements are kept, and the same call resumes\n"
    assert (process.returncode, more) == (-signal.SIGINT, "")
    assert records.read_text()
