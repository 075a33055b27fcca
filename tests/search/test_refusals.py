"""What is said to calls that cannot be meant: the cases of `refusals.txt`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import search as ms
from schedule import Schedule
from search.builder import LocalBuilder
from search.database import Database
from search.mutator import MutateTileSize
from search.tir_integration import tune_tir as module_of_tvm
from tensorir import IRModule
from tests.search.anchored_programs import graph_function
from tests.search.programs import Matmul, adds_one, split_all, split_j
from tests.search.test_tune_calls import FEW, OF_TVM, PRETENDED, TARGET, SplitTheSecond
from tests.text_cases import check_lines

CASES = Path(__file__).with_name("refusals.txt")


def tune(**options: Any) -> object:
    given = {"config": FEW, "work_dir": "w", "space": split_all, **PRETENDED, **options}
    return ms.tune_tir(Matmul, TARGET, **given)


def module(**options: Any) -> object:
    given = {"mod": Matmul, "target": TARGET, "work_dir": "w", "max_trials_global": 2}
    return module_of_tvm(**{**given, **OF_TVM, **options})


def of_another_program() -> Schedule:
    sch = Schedule(adds_one)
    sch.parallel(sch.get_loops(sch.get_block("B"))[0])
    return sch


NAMES = {
    **{x.__name__: x for x in (Database, IRModule, LocalBuilder, MutateTileSize, Schedule)},
    **{
        x.__name__: x
        for x in (SplitTheSecond, graph_function, module, of_another_program, split_all)
    },
    "adds_one": adds_one,
    "BOTH": IRModule({"matmul": Matmul["main"], "add": adds_one}),
    "FEW": FEW,
    "Matmul": Matmul,
    "TARGET": TARGET,
    "__file__": __file__,
    "ms": ms,
    "split_j": split_j,
    "task": lambda: ms.TuneContext(Matmul, target=TARGET),
    "tune": tune,
}


def test_what_cannot_be_meant_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    _, searching = CASES.read_text().split("\n== In the search\n")

    def said(call: str) -> str:
        found = "nothing is said"
        try:
            eval(call, dict(NAMES))
        except Exception as error:  # noqa: BLE001
            text = " / ".join(str(error).splitlines())
            found = f"{type(error).__name__}: {text}".replace(__file__, Path(__file__).name)
        is_empty = not any(path.is_file() for path in tmp_path.rglob("*"))
        assert f">>> {call}\n" in searching or is_empty, call
        return found

    check_lines(CASES, ">>> ", said, request.config)
