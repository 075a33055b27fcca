"""What a run leaves, how it goes on, and that it can be repeated."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

import search as ms
from codegen.target import host
from search.cost_model import RandomModel, XGBModel
from search.loop import tune_run
from search.measure_callback import MeasureCallback
from search.reports.live_display import Progress
from search.reports.run_directory import TRIALS, load_run
from search.run import MODEL_FILE, Run
from search.runner import RunnerResult
from tests.search.compatible_programs import product
from tests.search.made_up_runs import TARGET, LateFiles, ScriptFiles, TimesOfScripts, task
from tests.search.programs import Matmul, split_j

EIGHT = ms.TuneConfig(8, num_trials_per_iter=4, num_confirmed=0)

Wider = product(32, 64, 32)

CONFIRMED = ms.TuneConfig(8, num_trials_per_iter=4)


class StopAfter(MeasureCallback):
    """Is Ctrl-C at the end of a trial."""

    def __init__(self, trials: int) -> None:
        self.left = trials

    def apply_to_trial(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def on_a_busy_machine_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of measuring the best again do not end because other programs take the time."""
    monkeypatch.setattr("search.run._LEAST_SECONDS", 60.0)


def run(
    folder: Path,
    *tasks: ms.TuneContext,
    config: ms.TuneConfig = EIGHT,
    builder: type[ScriptFiles] = ScriptFiles,
    runner: TimesOfScripts | None = None,
    stop_after: int = 0,
    **parts: object,
) -> Run:
    """Run to the end, or up to a Ctrl-C after so many trials."""
    made = replace(
        config,
        builder=builder(folder / "artifacts"),
        runner=runner or TimesOfScripts(),
        measure_callbacks=[*MeasureCallback.create("default"), StopAfter(stop_after)],
        on_interrupt="return",
        **{"cost_model": "random", **parts},
    )
    with Run.open(tasks or [task()], [1.0] * max(1, len(tasks)), folder, made) as opened:
        tune_run(opened)
    return opened


def test_every_trial_leaves_a_line_whatever_became_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_up = {
        1: RunnerResult(error_msg="too slow", seconds=30.0),
        2: RunnerResult(error_msg="argument 2 is wrong", seconds=0.5, stage="check"),
        3: RunnerResult((7.0,), seconds=7.5, stopped=True),
    }
    run(tmp_path, runner=TimesOfScripts(made_up.get))
    trials = load_run(tmp_path).trials
    assert [t.stage for t in trials] == ["done", "run", "check", "stopped", *["done"] * 4]
    assert [t.number for t in trials] == list(range(8))
    assert [t.batch for t in trials] == [0] * 4 + [1] * 4
    assert [t.error for t in trials[:4]] == [None, "too slow", "argument 2 is wrong", None]
    assert [t.measure_secs for t in trials[:4]] == [3.0, 30.0, 0.5, 7.5]
    assert {t.build_secs for t in trials} == {2.0}
    assert trials[3].run_secs == (7.0,)
    assert {t.task for t in trials} == {"main"}
    assert [t.time for t in trials] == sorted(t.time for t in trials)
    assert (
        "4 trials measured, 2 failed, 1 ended early as too slow, 4 in all; the best so far takes "
        in capsys.readouterr().err
    )


def test_a_trial_that_cannot_be_built_leaves_a_line(tmp_path: Path) -> None:
    class NotTheSecond(ScriptFiles):
        def _built(self, entry: ms.builder.BuilderInput) -> ms.builder.BuilderResult:
            built = super()._built(entry)
            failed = ms.builder.BuilderResult(error_msg="no such instruction", seconds=1.0)
            return failed if self.count == 3 else built  # the first is the unscheduled program

    runner = TimesOfScripts()
    run(tmp_path, builder=NotTheSecond, runner=runner)
    trials = load_run(tmp_path).trials
    assert [t.stage for t in trials[:3]] == ["done", "build", "done"]
    assert trials[1].error == "no such instruction"
    assert (trials[1].build_secs, trials[1].measure_secs, trials[1].run_secs) == (1.0, 0.0, ())
    assert len(runner.log) == 7


def test_after_an_interruption_trials_are_counted_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, stop_after=3)
    assert len(load_run(tmp_path)) == 3, "the one at hand is kept"
    assert "Interrupted: all measurements are kept" in capsys.readouterr().err
    run(tmp_path)
    assert [t.number for t in load_run(tmp_path)] == list(range(8))
    assert "Resuming after 3 of 8 trials" in capsys.readouterr().err


def test_the_screen_names_the_work_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Mock(Progress)
    monkeypatch.setattr("search.run.live_display", lambda *_: screen)
    run(tmp_path, task("first"), task("second", program=Wider))
    phases = [call.args for call in screen.phase.call_args_list]
    assert phases[:4] == [
        ("measuring the machine",),
        ("generating design spaces", 0, 2),
        ("generating design spaces", 1, 2),
        ("sampling",),
    ]


def test_builds_go_on_while_another_candidate_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late builder has built what was measured and no more, where measuring may overlap."""
    monkeypatch.setattr(host, "physical_cores", lambda: 2)
    built: list[int] = []

    class Seen(LateFiles):
        def __init__(self, folder: Path) -> None:
            super().__init__(folder)
            runner.result_of = lambda _: built.append(self.count)

    for overlap in (True, False):
        runner = TimesOfScripts(overlap=overlap)
        config = ms.TuneConfig(3, num_trials_per_iter=3, num_confirmed=0)
        run(tmp_path / str(overlap), config=config, builder=Seen, runner=runner)
    assert built == [2, 3, 4, 4, 4, 4], "with the unscheduled program"


def test_an_interrupted_run_resumes_with_its_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(tmp_path, cost_model="xgb", stop_after=6)
    assert isinstance(first.cost_model, XGBModel)
    assert first.cost_model.data_size == 6
    second = run(tmp_path, cost_model="xgb")
    assert f"The cost model is loaded from {tmp_path / MODEL_FILE}" in capsys.readouterr().err
    assert isinstance(second.cost_model, XGBModel)
    assert second.cost_model.data_size == 8
    run(tmp_path, cost_model="xgb")
    assert "The cost model is loaded" not in capsys.readouterr().err, "that run is a new one"


def test_a_model_that_cannot_be_loaded_learns_from_the_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, cost_model="xgb", stop_after=6)
    path = tmp_path / MODEL_FILE
    path.write_bytes(path.read_bytes()[:-100])
    second = run(tmp_path, cost_model="xgb")
    shown = capsys.readouterr().err
    assert f"[WARNING] The cost model is trained again: {path} was changed, by another run" in shown
    assert isinstance(second.cost_model, XGBModel)
    assert second.cost_model.data_size == 8


# ------------------------------------------------------------------------------- which run goes on


def trials_of(folder: Path) -> list[str]:
    return [trial.task for trial in load_run(folder)] if (folder / TRIALS.file).exists() else []


def test_a_run_of_one_program_knows_nothing_of_that_of_another(tmp_path: Path) -> None:
    """B, then A up to a Ctrl-C, then B and A again: A goes on where it was, B is made anew."""
    of_a = partial(task, program=Matmul)
    of_b = partial(task, program=Wider)
    run(tmp_path, of_b())
    run(tmp_path, of_a(), stop_after=6)
    assert len(run(tmp_path, of_b(seed=2)).database) == 8 + 6 + 8
    assert len(run(tmp_path, of_b()).database) == 8 + 6 + 8 + 8
    assert len(run(tmp_path, of_a()).database) == 8 + 6 + 8 + 8 + 2
    assert not list(tmp_path.glob("unfinished_run.*"))


def test_another_run_starts_anew_beside_one_that_was_interrupted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, task(), stop_after=6)
    capsys.readouterr()
    four = ms.TuneConfig(4, num_trials_per_iter=4, num_confirmed=0)
    run(tmp_path, task(seed=2), config=four)
    shown = capsys.readouterr().err
    assert "Resuming" not in shown
    assert f"This run is new: an unfinished run in {tmp_path} has another program" in shown
    assert len(trials_of(tmp_path)) == 10
    run(tmp_path, task())
    assert "Resuming after 6 of 8 trials" in capsys.readouterr().err
    assert len(trials_of(tmp_path)) == 12


def test_the_model_of_an_interrupted_run_is_not_that_of_the_run_after_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, task(), cost_model="xgb", stop_after=6)
    run(tmp_path, task(program=Wider), cost_model="xgb")
    again = run(tmp_path, task(), cost_model="xgb")
    shown = capsys.readouterr().err
    assert f"The cost model is trained again: {tmp_path / MODEL_FILE} was changed" in shown
    assert "The cost model is loaded" not in shown
    assert isinstance(again.cost_model, XGBModel)
    assert again.cost_model.data_size == 8 + 8, "from the database, which has the other run"


def test_trials_whose_records_are_gone_are_made_again(tmp_path: Path) -> None:
    run(tmp_path, stop_after=6, database="memory")
    assert len(run(tmp_path, database="memory").database) == 8


def test_the_users_own_model_is_left_as_it_was_given(tmp_path: Path) -> None:
    class Untouched(RandomModel):
        def load(self, path: object) -> None:
            raise AssertionError

    run(tmp_path, cost_model=Untouched(seed=1), stop_after=2)
    assert len(run(tmp_path, cost_model=Untouched(seed=1)).database) == 8


@pytest.mark.parametrize("of", ["work_dir", "its parent"])
def test_a_directory_that_cannot_be_written_is_named_at_the_start(tmp_path: Path, of: str) -> None:
    file = tmp_path / "file"
    file.touch()
    folder = file if of == "work_dir" else file / "folder"
    with pytest.raises(ms.TuningError, match=f"nothing can be written to work_dir {folder}: "):
        ms.tune_tir(Matmul, TARGET, ms.TuneConfig(1), folder, space=split_j)


FULL_DISK = """
import resource, sys
sys.dont_write_bytecode = True  # the next process would read what was cut short
import search as ms
from tests.search.programs import Matmul, split_j
sys.dont_write_bytecode = True  # which the limit would cut short
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    ms.tune_tir(Matmul, "llvm -num-cores=1", ms.TuneConfig(1), sys.argv[1], space=split_j)
except ms.TuningError as error:
    sys.exit(str(error))
"""


def test_a_full_disk_is_named_at_the_start(tmp_path: Path) -> None:
    ended = subprocess.run(
        # -B: bytecode that is cut short at 1,000 bytes would be read by whoever imports it next.
        [sys.executable, "-B", "-c", FULL_DISK, str(tmp_path)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stderr.startswith(f"nothing can be written to work_dir {tmp_path}: File too large")
    assert "with space left on its disk" in ended.stderr
    assert not list(tmp_path.iterdir())


def microseconds(*times: float) -> RunnerResult:
    return RunnerResult(tuple(t * 1e-6 for t in times))


def test_those_that_are_far_behind_are_not_measured_again(tmp_path: Path) -> None:
    runner = TimesOfScripts(lambda k: microseconds(100 * (k + 1) if k < 8 else 110))
    made = run(tmp_path, config=CONFIRMED, runner=runner)
    assert len(made.database) == 10, "with the unscheduled program, and the best once more"
    assert len(set(runner.log[8:])) == 1


def test_what_the_search_began_with_is_measured_again_beside_the_best(tmp_path: Path) -> None:
    """The first trial took 140 us at first, and takes 90 when it is measured in turns."""
    first = (140, 145, 150, 160, 100, 101, 102, 103)
    runner = TimesOfScripts(
        lambda k: microseconds(first[k] if k < 8 else (100, 101, 102, 103, 90)[(k - 8) % 5]),
    )
    made = run(tmp_path, config=CONFIRMED, runner=runner)
    records = made.database.get_all_tuning_records()
    assert len(records) == 14, "with the unscheduled program, and the new times of five"
    best = made.database.query_tuning_record(Matmul, TARGET)
    assert best is not None
    assert str(best.trace) == str(records[0].trace)
    (winner,) = [task.winner for task in made.scheduler.tasks]
    assert winner is not None
    assert winner.median == pytest.approx(90e-6)


def test_an_interrupted_run_names_no_winner(tmp_path: Path) -> None:
    assert len(run(tmp_path, config=CONFIRMED, stop_after=6).database) == 6
    assert len(run(tmp_path, config=CONFIRMED).database) > 8, "the run that goes on does"


def test_a_run_killed_while_it_measures_the_best_again_does_only_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted_at_the_end(k: int) -> RunnerResult | None:
        if k == 8 + 4 * 5:
            raise KeyboardInterrupt
        return microseconds(100 + k if k < 8 else 200 + k / 100)

    runner = TimesOfScripts(interrupted_at_the_end)
    first = run(tmp_path, config=CONFIRMED, runner=runner)
    assert len(first.database) == 13, "with the unscheduled program, and four measured again"
    capsys.readouterr()
    runner = TimesOfScripts(lambda _: microseconds(150))
    second = run(tmp_path, config=CONFIRMED, runner=runner)
    assert "Resuming after 8 of 8 trials" in capsys.readouterr().err
    assert len(load_run(tmp_path)) == 8
    assert len(second.database) > 13
