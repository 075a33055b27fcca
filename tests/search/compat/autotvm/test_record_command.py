"""`python -m search.compat.autotvm.record`: logs on the command line."""

from __future__ import annotations

import pytest

from search import autotvm
from search.compat.autotvm import MeasureErrorNo, MeasureInput, MeasureResult
from search.compat.autotvm.record import append_to_file, load_from_file, split_workload
from search.compat.autotvm.record.__main__ import main
from tests.search.compat.autotvm.templates import TUTORIAL


@pytest.fixture
def log(tmp_path):
    """Three records of one task, one of another."""
    path = tmp_path / "some.log"
    for index, size, cost in ((0, 64, 3.0), (9, 64, 1.0), (10, 64, 2.0), (3, 32, 4.0)):
        task = autotvm.task.create(TUTORIAL, (size, 16, 16, "float32"), "llvm")
        inp = MeasureInput(task.target, task, task.space.get(index))
        append_to_file(path, [(inp, MeasureResult((cost,), MeasureErrorNo.NO_ERROR, 0.5, 1.0))])
    return str(path)


def test_some_records_are_read(log, capsys):
    main(["--mode", "read", "--i", log, "--begin", "1", "--end", "2"])
    assert (
        capsys.readouterr().out
        == """\
Task(func_name=test/matmul, args=(64, 16, 16, 'float32'), workload=('test/matmul', 64, 16, 16, \
'float32'))
llvm -keys=cpu
[('tile_y', [-1, 4]), ('tile_x', [-1, 2])],None,9
MeasureResult(costs=(1.0,), error_no=MeasureErrorNo.NO_ERROR, all_cost=0.5, timestamp=1.0)

"""
    )


def test_programs_and_their_code_are_shown(log, capsys):
    options = ["--ir", "--code", "--template", "tests.search.compat.autotvm.templates"]
    main(["--i", log, "--begin", "1", "--end", "2", *options])
    text = capsys.readouterr().out
    assert "for i_0, j_0, k, i_1, j_1 in T.grid(16, 8, 16, 4, 2):" in text
    assert "i32 @tensorir.kernel.main(" in text


def test_the_best_are_picked(log, capsys):
    main(["--mode", "pick", "--i", log])
    assert capsys.readouterr().out == f"2 record(s) in {log}.best.log\n"
    assert [inp.config.index for inp, _ in load_from_file(f"{log}.best.log")] == [9, 3]
    main(["--mode", "pick", "--i", log, "--o", f"{log}.2"])
    assert capsys.readouterr().out == f"2 record(s) in {log}.2\n"


def test_each_task_gets_a_log(log, capsys):
    append_to_file(log, list(load_from_file(log))[:1])
    main(["--mode", "split", "--i", log])
    assert capsys.readouterr().out.split() == [f"{log}.000.wkl", f"{log}.001.wkl"]
    parts = [[inp.config.index for inp, _ in load_from_file(f"{log}.00{k}.wkl")] for k in (0, 1)]
    assert parts == [[0, 9, 10], [3]]
    first, _ = split_workload(log, clean=False)
    assert len(list(load_from_file(first))) == 4


def test_what_cannot_be_done_ends_with_a_message(log, capsys, monkeypatch):
    with pytest.raises(SystemExit, match="1"):
        main(["--i", f"{log}.not"])
    assert "record: [Errno 2] No such file" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="1"):
        main(["--i", log, "--template", "no_such_module"])
    assert "No module named 'no_such_module'" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["--i", log, "--begin", "3", "--end", "1"])
    assert "--begin 3 --end 1: expected" in capsys.readouterr().err
    monkeypatch.setattr("search.compat.autotvm.task.TASK_TABLE", {})
    with pytest.raises(SystemExit, match="1"):
        main(["--i", log, "--ir"])
    assert "unknown template 'test/matmul'" in capsys.readouterr().err
