"""Nothing that is passed to a function that tunes is dropped or noticed late."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import search as ms
from search.search_strategy import SearchStrategy
from search.tir_integration import tune_tir
from tensorir import IRModule, IRTypeError
from tests.search.programs import Matmul, adds_one, split_j
from tests.search.test_tune_calls import FEW, OF_TVM, PRETENDED, TARGET, SplitTheSecond

BOTH = IRModule({"matmul": Matmul["main"], "add": adds_one})


def later(folder: Path, **arguments: object) -> object:
    """Call `tune_tir` by its later signature."""
    return tune_tir(
        mod=Matmul, target=TARGET, work_dir=folder, max_trials_global=2, **{**OF_TVM, **arguments}
    )


def test_blocks_are_named(tmp_path: Path) -> None:
    with pytest.raises(ms.TuningError, match=r"unknown block 'D' in blocks; the blocks"):
        ms.tune_tir(Matmul, TARGET, FEW, tmp_path, blocks=["D"])
    best = ms.tune_tir(
        Matmul,
        TARGET,
        FEW,
        tmp_path,
        blocks=["C"],
        sch_rules=[SplitTheSecond()],
        postprocs=[],
        **PRETENDED,
    )
    assert best is not None
    assert [inst.kind.name for inst in best.trace.insts].count("SamplePerfectTile") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"num_tuning_cores": 0}, "num_threads is a positive count"),
        ({"strateg": "evolutionary"}, r"tune_module\(\) got an unexpected keyword .* 'strateg'"),
        ({"special_space": {"mian": split_j}}, r"special_space names 'mian'.*mean 'main'\?"),
        (
            {"strategy": "evolutonary"},
            r"unknown search strategy 'evolutonary'.*mean 'evolutionary'\?",
        ),
        ({"task_scheduler": "gradiant"}, r"unknown task scheduler 'gradiant'.*mean 'gradient'\?"),
        (
            {"database": "union"},
            r"a database cannot be made of the name 'union' here: .*\(\*databases\); give an ins",
        ),
        ({"database": "jsn"}, r"unknown database 'jsn'.*mean 'json'\?"),
        ({"cost_model": "xgbost"}, r"unknown cost model 'xgbost'.*mean 'xgb'\?"),
        ({"builder": "locl"}, r"unknown builder 'locl'.*mean 'local'\?"),
        ({"runner": "locl"}, r"unknown runner 'locl'.*mean 'local'\?"),
        (
            {"space": "post-order"},
            r"unknown space generator 'post-order'.*mean 'post-order-apply'\?",
        ),
        ({"measure_callbacks": "defaults"}, r"'defaults'.*mean 'default'\?"),
        (
            {"module_equality": "structual"},
            r"unknown module equality 'structual'.*mean 'structural'\?",
        ),
        ({"on_interrupt": "retrun"}, r"on_interrupt is 'raise' or 'return'.*mean 'return'\?"),
    ],
)
def test_what_is_misspelt_is_refused_before_anything_is_written(
    tmp_path: Path, arguments: dict[str, object], said: str
) -> None:
    with pytest.raises((ValueError, TypeError, ms.TuningError), match=said):
        later(tmp_path, **arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ms.TuneConfig(8, strategy="evolve"), "unknown search strategy 'evolve'"),
        (lambda: ms.TuneConfig(8, task_scheduler="greedy"), "unknown task scheduler 'greedy'"),
        (
            lambda: ms.TuneConfig(8, search_strategy_config={"population": 8}),
            "cannot be made of the name 'evolutionary' here: got an unexpected keyword argument "
            r"'population', it takes \(population_size=None, ",
        ),
        (
            lambda: ms.tune_tir(Matmul, TARGET, FEW, sch_rule=[]),
            r"tune_tir has no argument 'sch_rule'; did you mean 'sch_rules'\?",
        ),
        (lambda: ms.tune_tir(Matmul, TARGET, FEW, seed=-1), "seed is an int from 0 to .*, got -1"),
        (
            lambda: ms.tune_tir(Matmul, TARGET, FEW, seed="1"),
            "seed is an int from 0 to .*, got '1'",
        ),
        (lambda: ms.TuneConfig(8, verbose="all"), "verbose is an int of at least 0, got 'all'"),
        (
            lambda: ms.tune_tir(Matmul, TARGET, FEW, "x", blocks="C"),
            "blocks is a list of names of blocks, got the string 'C'",
        ),
        (lambda: ms.tune_tir(Matmul, TARGET, FEW, 5), "work_dir is the path of a directory, got 5"),
        (
            lambda: ms.tune_tasks(
                tasks=[Matmul], task_weights=[1.0], work_dir="x", max_trials_global=1
            ),
            r"tasks\[0\] is a TuneContext, got ",
        ),
        (
            lambda: ms.tune_tasks(
                tasks=[ms.TuneContext(Matmul, target=TARGET)],
                task_weights=[1.0],
                work_dir="x",
                max_trials_global=1,
            ),
            'task "main" has no space_generator: pass one to TuneContext',
        ),
    ],
)
def test_wrong_values_are_refused_at_the_call(
    call: Callable[[], object], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, TypeError, ms.TuningError), match=said):
        call()
    assert not list(tmp_path.iterdir())


class Empty(SearchStrategy):
    """Has nothing to measure, and says so by an empty list."""

    def __init__(self) -> None:
        self.asked = 0

    def pre_tuning(self, *_: object, **__: object) -> None: ...

    def post_tuning(self) -> None: ...

    def generate_measure_candidates(self) -> list[ms.MeasureCandidate]:
        self.asked += 1
        return []

    def notify_runner_results(self, *_: object) -> None: ...


@pytest.mark.parametrize("scheduler", ["gradient", "round-robin"])
def test_a_strategy_of_empty_batches_ends(
    tmp_path: Path, scheduler: str, capsys: pytest.CaptureFixture[str]
) -> None:
    strategy = Empty()
    later(tmp_path, strategy=strategy, space=split_j, task_scheduler=scheduler)
    assert (
        'Task #0 "main" ends: its search strategy gave 3 empty batches' in capsys.readouterr().err
    )


def test_a_search_without_a_good_trial_does_not_doubt_its_own_database(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = ms.TuneConfig(2, strategy=Empty())
    assert ms.tune_tir(Matmul, TARGET, config, tmp_path, space=split_j) is None
    assert not [record for record in caplog.records if record.name == "tensorir.search"]


def test_a_work_dir_that_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(ms.TuningError, match=f"written to work_dir {path}: it is a file; give a"):
        later(path)


@pytest.mark.parametrize(
    "ask",
    [
        lambda path: ms.apply_database(Matmul, path, TARGET),
        lambda path: ms.find_schedules(Matmul, path, TARGET),
        lambda path: ms.compile_tir(path, Matmul, TARGET),
    ],
)
def test_a_path_is_no_database(tmp_path: Path, ask: Callable[[str], object]) -> None:
    with pytest.raises(
        IRTypeError, match=r"expected a Database, got str: .*JSONDatabase\(work_dir"
    ):
        ask(str(tmp_path))


def test_a_module_without_functions(tmp_path: Path) -> None:
    with pytest.raises(ms.TuningError, match="has no function to tune: it is empty"):
        ms.tune_tir(IRModule({}), TARGET, FEW, tmp_path)
