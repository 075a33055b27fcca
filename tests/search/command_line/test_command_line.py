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

import numpy as np
import pytest

from schedule import Trace
from search.command_line.main import main
from search.database import database_at
from tensorir import frontend
from tests.search.models.network_programs import TARGET, X, dense_model, in_numpy

ROOT = Path(__file__).parents[3]

TWICE = ["--input", "x={folder}/x.npy", "--input", "x={folder}/x.npy"]


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


def test_a_search_begins_with_a_trace_that_is_known(
    folder: Path, quick: None, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["matmul.py", "--trials", "1", "--work-dir", "found", "--target", TARGET]
    assert main(["tune", *arguments, "--initial", "trace.json"]) == 0
    (record,) = database_at(folder / "found").get_all_tuning_records()
    known = Trace.load(folder / "trace.json").as_json(remove_postproc=True)
    assert record.trace.as_json(remove_postproc=True) == known
    assert main(["tune", *arguments, "--initial", "none.json"]) == 2
    assert "there is no file none.json" in capsys.readouterr().err


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


@pytest.mark.parametrize(
    ("code", "arguments", "message"),
    [
        (2, ["run", "none.onnx"], "there is no file none.onnx"),
        (2, ["run", "{folder}"], "is a directory, not a program or a model"),
        (1, ["run", "{folder}/model.txt"], "model.txt does not define a program"),
        (1, ["run", "{folder}/x.npy"], "x.npy is not UTF-8 text"),
        (
            2,
            ["run", "{model}", "--shape", "x:3"],
            "a shape is given as NAME=1,3,224,224, got 'x:3'",
        ),
        (2, ["run", "{model}", "--input", "y=y.npy"], "the model has no input 'y'; it has x"),
        (2, ["run", "{model}", "--input", "x"], "an input is given as NAME=FILE.npy, got 'x'"),
        (2, ["run", "{model}", "--input", "x={model}"], "model.onnx is no array file of NumPy"),
        (2, ["run", "{model}", "--input", "x=none.npy"], "none.npy: No such file or directory"),
        (2, ["run", "{model}", "--output", "/proc/none/y.npz"], "there is no directory /proc/none"),
        (2, ["tune", "none.onnx"], "there is no file none.onnx"),
        (2, ["tune", "{model}"], "missing option --trials N or --seconds S"),
        (2, ["tune", "{model}", "--seconds", "-1"], "max_seconds is a number of seconds above 0"),
        (2, ["tune", "{model}", "--seconds", "inf"], "above 0 and at most 1e+09, got inf"),
        (2, ["tune", "{model}", "--trials", "9" * 20], "max_trials_global is at most 10995116"),
        (2, ["tune", "{model}", "--trials", "1", "--runner", "lokal"], "did you mean 'local'"),
        (
            2,
            ["tune", "{model}", "--work-dir", "{folder}/w", "--trials", "1"],
            "max_trials_global is 1, and the model has 2 kernels to tune",
        ),
        (2, ["run", "{model}", "--target", "cuda"], "cuda"),
        (2, ["run", "{model}", "--work-dir", "{folder}/w"], "there is no database"),
        (2, ["run", "{model}", *TWICE], "the input 'x' is given twice"),
        (
            2,
            ["tune", "{model}", "--work-dir", "{folder}/w", "--trials", "9", "--only", "conv"],
            "no kernel name contains one of ['conv']; the kernels are wide, narrow",
        ),
    ],
)
def test_what_does_not_work_is_said_last_and_ends_with_its_exit_code(
    code: int,
    arguments: list[str],
    message: str,
    model: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "model.txt").write_text("")
    np.save(tmp_path / "x.npy", X)
    assert main([text.format(model=model, folder=tmp_path) for text in arguments]) == code
    said = capsys.readouterr()
    assert said.out == ""
    *doing, error = said.err.splitlines()
    assert all(line.startswith(("tensorir: reading ", "tensorir: building")) for line in doing)
    assert error.startswith("tensorir: error: ")
    assert message in error
    assert not (tmp_path / "w").exists()


def test_the_help_has_examples_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert "\n      tensorir tune model.onnx --seconds 600 --work-dir tuned\n" in said
    assert "130 after Ctrl-C" in said
    assert "Search for the schedules that make a program or a model fast." in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tune", "model.onnx", "--trails", "9"], "No such option"),
        (["tune", "model.onnx", "--trials", "0"], "'--trials'"),
        (["tune", "model.onnx", "--trials", "many"], "(see tensorir tune --help)"),
        (["tune"], "PROGRAM"),
        (["tone"], "Did you mean 'tune'?"),
    ],
)
def test_arguments_that_it_does_not_take_end_with_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("tensorir: error: ")
    assert message in line


def test_without_arguments_it_shows_its_help_and_ends_with_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 2
    assert "Usage: tensorir" in capsys.readouterr().out


def test_ctrl_c_ends_with_130(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    program = (
        "import sys\n"
        "from tensorir import frontend\n"
        "from tests.search.models.network_programs import dense_model\n"
        "frontend.from_onnx = lambda path, shapes: dense_model()\n"
        "from search.command_line.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    arguments = ["tune", f"{tmp_path}/model.onnx", "--work-dir", str(tmp_path), "--trials", "500"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    records = tmp_path / "database_tuning_record.json"
    while process.poll() is None and not (records.exists() and records.read_text()):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "tensorir: interrupted" in said
    assert records.read_text()
