"""The table of a log, and the explanation of its best line."""

import json
import logging

import pytest

from search import TuningError
from search.compat.auto_scheduler import MeasureErrorNo, explain_log, to_database
from tests.search.compat.auto_scheduler.workloads import LINE, measured, task_of, write


@pytest.fixture
def log(tmp_path):
    """Three schedules of this project, of which one failed, then two of Ansor."""
    task = task_of("demo_mm", 64, 32, 96)
    path = write(
        tmp_path / "log.json",
        measured(task, "C", 4, 0.001),
        measured(task, "C", 8, 0.002),
        measured(task, "C", 16, 1.0, error=MeasureErrorNo.RUN_TIMEOUT),
    )
    with path.open("a") as file:
        file.write(f"{LINE}\n{LINE.replace('[4, 1, 8]', '[2, 2, 8]').replace('0.00012', '0.0002')}")
    return path


def test_the_best_line_is_taken_apart(log):
    text = str(explain_log(log))
    assert "5 measurements of 1 task" in text
    assert "r[0]" in text
    assert "the mean is 120.0 us" in text
    assert '["FU", 2, [0, 1]]' in text
    assert "fuse adjacent loops; an empty list adds" in text
    assert "What matters in demo_mm(64, 32, 96)" in text


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ('[["TR", [3]]]', "the schedule as a trace; print_best prints it"),
        ('[["XX", 2]]', "an unknown step"),
        ('[["SP", 2, 0, 64, [[4], 1e400], 1]]', "SP 2.0=[[4], Infinity]"),
    ],
)
def test_malformed_steps_are_explained(tmp_path, steps, text):
    task = json.dumps(json.loads(LINE)["i"][0])
    line = f'{{"i": [{task}, [[], {steps}]], "r": [[0.1], 0, 0.1, 1], "v": "v0.6"}}\n'
    (tmp_path / "log.json").write_text(line)
    assert text in str(explain_log(tmp_path / "log.json"))
    assert len(to_database(tmp_path / "log.json")) == 0


def test_an_unknown_workload_has_steps_and_costs(log, tmp_path):
    path = tmp_path / "elsewhere.json"
    path.write_text(log.read_text().replace("demo_mm", "elsewhere"))
    best = explain_log(path).table().best()
    assert best["cost"] == 0.00012
    assert best["SP 2.0[1]"] == 4
    assert best["gflops"] is best["parallel_extent"] is None


def test_the_line_taken_apart_is_the_one_that_is_applied(tmp_path):
    task = task_of("demo_mm", 64, 32, 96)
    lucky, other = measured(task, "C", 4, 0.001), measured(task, "C", 8, 0.0011)
    again = measured(task, "C", 8, 0.00105)
    path = write(tmp_path / "log.json", lucky, other, again)
    fields = {field.name: field.value for field in explain_log(path).fields}
    assert json.loads(fields["r[0]"]) == [0.00105]


def test_other_lines_and_files(log, tmp_path, caplog):
    with log.open("a") as file:
        file.write("\n# a comment\n{\n")
    with caplog.at_level(logging.WARNING):
        assert explain_log(log).left_out == 1
    (tmp_path / "empty.json").write_text("# nothing\n")
    with pytest.raises(TuningError, match=r"no line of .*empty\.json is a record"):
        explain_log(tmp_path / "empty.json")
    with pytest.raises(IsADirectoryError):
        explain_log(tmp_path)
    with pytest.raises(TypeError, match="not"):
        explain_log(0)  # Opened as a descriptor it would wait for the terminal.
