"""The commands that look at programs, traces and records, on a search that was made up."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schedule import Schedule, Trace
from search.command_line.main import main
from search.database import database_at
from tensorir import assert_structural_equal, parse
from tensorir.script.script_file import read_script_file
from tests.codegen.vm.c_model import CModel

ONE_CORE = ("--target", "llvm -num-cores=1")
Said = Callable[..., str]
Told = Callable[..., dict[str, Any]]


@pytest.fixture
def said(folder: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    """What a command prints that ends as expected."""

    def run(*arguments: str, code: int = 0) -> str:
        assert main(arguments) == code, capsys.readouterr().err
        return capsys.readouterr().out

    return run


@pytest.fixture
def told(said: Said) -> Told:
    """What a command reports as JSON, which is all that it prints."""

    def run(*arguments: str, code: int = 0) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(said(*arguments, "--json", code=code))
        return report

    return run


# ---------------------------------------------------------------------------------- show and replay


def test_what_is_shown_of_a_program_can_be_read_again(folder: Path, said: Said, told: Told) -> None:
    program = read_script_file(folder / "matmul.py")
    assert_structural_equal(parse(said("show", "matmul.py")), program)
    (folder / "shown.json").write_text(json.dumps(told("show", "matmul.py")))
    assert_structural_equal(parse(said("show", "shown.json")), program)
    assert said("show", "matmul.py", "--dialect", "tvm").startswith("# from tvm.script import")


def test_the_best_of_a_search_is_shown(folder: Path, said: Said) -> None:
    sch = Schedule(read_script_file(folder / "matmul.py"))  # type: ignore[arg-type]
    Trace.load(folder / "trace.json").apply_to_schedule(sch, remove_postproc=False)
    assert sch.mod.script() in said("show", "tuned")
    assert "def apply_trace(sch" in said("show", "tuned", "--trace")


def test_the_space_of_a_program(told: Told) -> None:
    spaces = told("show", "matmul.py", "--space", "--target", "llvm -num-cores=1")["spaces"]
    assert spaces
    assert "tile of loop 0 of C" in [one["name"] for one in spaces[0]["decisions"]]


@pytest.mark.parametrize("name", ["trace.json", "trace.py"])
def test_a_trace_is_replayed(name: str, folder: Path, said: Said) -> None:
    trace = Trace.load(folder / "trace.json")
    (folder / "trace.py").write_text(trace.script())
    sch = Schedule(read_script_file(folder / "matmul.py"))  # type: ignore[arg-type]
    trace.apply_to_schedule(sch, remove_postproc=False)
    printed = said("replay", name, "matmul.py", "--output", "scheduled.py")
    assert printed == "the scheduled program is in scheduled.py\n"
    assert_structural_equal(read_script_file(folder / "scheduled.py"), sch.mod)


def test_a_replayed_program_is_timed(told: Told, said: Said) -> None:
    report = told("replay", "trace.json", "matmul.py", "--build", "--target", "llvm -num-cores=1")
    assert report["seconds"] > 0
    assert report["unscheduled_seconds"] > 0


# ------------------------------------------------------------------------------------------- run


def test_a_program_is_run_on_inputs_of_ones_own(folder: Path, said: Said, told: Told) -> None:
    a = np.random.default_rng(0).standard_normal((16, 16)).astype("float32")
    np.save(folder / "a.npy", a)
    np.save(folder / "eye.npy", np.eye(16, dtype="float32"))
    inputs = ["--input", "A=a.npy", "--input", "B=eye.npy"]
    report = told("run", "matmul.py", "--work-dir", "tuned", *inputs, "--output", "c.npz")
    assert report["made_up_inputs"] == []
    assert report["outputs"][0]["name"] == "C"
    with np.load(folder / "c.npz") as results:
        np.testing.assert_allclose(results["C"], a, rtol=1e-5)
    assert "random inputs: A, B" in said("run", "matmul.py", "--repeat", "0")


# -------------------------------------------------------------------------------------- explain


def test_a_model_and_a_program_are_built_for_c(folder: Path, told: Told) -> None:
    report = told("build", "model.onnx", "-o", "libdense.so", "--target", "llvm -opt-level=1")
    assert (report["library"], report["header"]) == ("libdense.so", "dense.h")
    assert report["bytes"] == (folder / "libdense.so").stat().st_size
    (y,) = CModel(folder / "libdense.so").call([np.load("image.npy")], 1)
    assert y.shape == (16, 24)
    program = told("build", "matmul.py", "-o", "libmatmul.so", "--work-dir", "tuned", *ONE_CORE)
    assert "const float* A /* [16][16] */" in (folder / program["header"]).read_text()


def test_a_kernel_is_explained_as_written_and_as_scheduled(told: Told, said: Said) -> None:
    target = ["--target", "llvm -num-cores=1"]
    assert len(told("explain", "matmul.py", *target)["loops"]) >= 3
    assert len(told("explain", "matmul.py", *target, "--work-dir", "tuned")["loops"]) >= 4
    assert "becomes" in said("explain", "matmul.py", *target)


def test_a_kernel_of_a_model_is_explained(said: Said) -> None:
    assert "C" in said("explain", "model.onnx", "--only", "narrow")


def test_a_search_is_explained(told: Told) -> None:
    report = told("explain", "tuned")
    assert report["heading"].startswith("tuned: 4 measurements of 1 task")
    assert {"Best of each task", "How measurements ended"} <= {
        section["title"] for section in report["sections"]
    }


# ---------------------------------------------------------------------------------------------- db


def test_the_best_is_saved_and_replays(folder: Path, said: Said, told: Told) -> None:
    assert Trace.from_python(said("db", "best", "tuned").partition("\n\n")[2])
    (best,) = told("db", "best", "tuned", "--save", "best")["best"]
    assert "sch" not in best
    assert said("replay", best["trace_file"], best["program_file"]) == said(
        "replay", "trace.json", "matmul.py"
    )


def test_records_go_from_files_to_sql_to_a_log_and_back(
    folder: Path, told: Told, said: Said
) -> None:
    assert told("db", "convert", "tuned", "tuned.sqlite")["added"] == 4
    assert told("db", "convert", "tuned.sqlite", "tuned.log", "--log")["added"] == 4
    again = told("db", "convert", "tuned.log", "again.json", "--program", "matmul.py")
    assert again["added"] == 4
    first = database_at(folder / "tuned").get_all_tuning_records()
    last = database_at(folder / "again.json").get_all_tuning_records()
    assert [r.trace_text for r in last] == [r.trace_text for r in first]
    assert [r.run_secs for r in last] == [r.run_secs for r in first]
    assert told("explain", "tuned.log")["kind"] == "log"


def test_merging_adds_no_record_twice(told: Told) -> None:
    once = told("db", "merge", "tuned", "--into", "all.sqlite")
    assert (once["added"], once["known"]) == (4, 0)
    twice = told("db", "merge", "tuned", "all.sqlite", "--into", "all.sqlite")
    assert (twice["added"], twice["records"]) == (0, 4)


def test_the_best_record_is_kept(folder: Path, told: Told) -> None:
    best = told("db", "list", "tuned")["programs"][0]["seconds"]
    for _ in range(2):  # what is there already is not added again
        assert told("db", "prune", "tuned", "--output", "best.sqlite")["records"] == 1
    assert told("db", "list", "best.sqlite")["programs"][0]["seconds"] == best
    kept = told("db", "prune", "tuned", "--keep", "2", "--output", "two.sqlite")
    assert kept["records"] == 2
    assert len(database_at(folder / "tuned")) == 4
    assert told("db", "prune", "tuned", "--keep", "2")["records"] == 2
    assert len(database_at(folder / "tuned")) == 2
    told("db", "convert", "tuned", "tuned.log", "--log")
    assert told("db", "prune", "tuned.log", "--output", "best.log")["records"] == 1


def test_a_record_that_does_not_hold_is_named_and_ends_with_1(folder: Path, told: Told) -> None:
    assert told("db", "validate", "tuned")["faults"] == []
    path = folder / "tuned" / "database_tuning_record.json"
    first, *others = path.read_text().splitlines(True)
    path.write_text(first.replace('"C"', '"D"') + "".join(others))
    report = told("db", "validate", "tuned", code=1)
    assert [(fault["number"], fault["kind"]) for fault in report["faults"]] == [(0, "replay")]
