"""Default schedules for the kernels of a model that a build finds no record of."""

from __future__ import annotations

import logging
import tomllib
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import codegen
import search as ms
from codegen.schedules import GROUP, Schedules, default_schedules
from search.database import MemoryDatabase
from search.dispatch import default_schedules as module_here
from search.dispatch.default_schedules import DefaultSchedules
from tensorir import IRModule, assert_structural_equal
from tensorir.function import PrimFunc
from tests.search.anchored_programs import TARGET
from tests.search.compatible_programs import product

HERE = codegen.Target(TARGET)


def kernels(*sizes: int) -> dict[str, PrimFunc]:
    return {f"product_{n}": product(n, 16, 16)["main"] for n in sizes}


def test_each_program_is_scheduled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[IRModule] = []

    def counted(program: IRModule, target: codegen.Target) -> PrimFunc:
        made.append(program)
        return ms.default_schedule(program, target).mod.prim_func("main")

    monkeypatch.setattr(module_here, "scheduled_by_default", counted)
    monkeypatch.setattr(module_here.host, "physical_cores", lambda: 1)
    makes = DefaultSchedules()
    functions = {**kernels(16, 32), "again": product(16, 16, 16)["main"]}
    found = makes.schedules_of(functions, HERE)
    assert list(found) == ["product_16", "product_32", "again"]
    assert len(made) == 2
    makes.schedules_of(kernels(32), HERE)
    assert len(made) == 2
    expected = ms.default_schedule(product(32, 16, 16), TARGET).mod["main"].body
    assert_structural_equal(found["product_32"].body, expected)


def test_several_processes_give_the_same_schedules() -> None:
    functions = kernels(16, 32, 48)
    found = DefaultSchedules().schedules_of(functions, HERE)
    assert list(found) == list(functions)
    for name, func in found.items():
        assert_structural_equal(
            func.body, ms.default_schedule(functions[name], TARGET).mod["main"].body
        )


def test_what_cannot_be_scheduled_stays_as_it_is_and_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(program: IRModule, target: codegen.Target) -> PrimFunc:
        raise ZeroDivisionError("a rule of somebody")

    monkeypatch.setattr(module_here, "scheduled_by_default", fails)
    with caplog.at_level(logging.WARNING):
        assert DefaultSchedules().schedules_of(kernels(16), HERE) == {}
    assert 'Function "product_16" has no default schedule and stays as it is: ' in caplog.text
    assert "ZeroDivisionError: a rule of somebody" in caplog.text


def test_the_package_says_where_its_schedules_are() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (value,) = project["entry-points"][GROUP].values()
    make = metadata.EntryPoint("search", value, GROUP).load()
    assert isinstance(make(), Schedules)
    assert type(default_schedules()) is make, "importing the search offers the same"


def test_a_database_answers_builds_of_models_with_records_of_shorter_programs() -> None:
    database = MemoryDatabase()
    assert isinstance(database, Schedules)
    short = product(16, 16, 16)
    workload = database.commit_workload(short)
    sch = ms.default_schedule(short, TARGET)
    database.commit_tuning_record(
        ms.database.TuningRecord(
            sch.trace, workload, [1e-6], ms.TuneContext(short, target=TARGET).target
        )
    )
    found = database.schedules_of({"long": product(32, 16, 16)["main"], **kernels(16)}, HERE)
    assert sorted(found) == ["long", "product_16"]
    with ms.History(database) as history:
        assert list(history.schedules_of({"long": product(32, 16, 16)["main"]}, HERE)) == []


def test_results_are_those_of_the_program() -> None:
    (func,) = kernels(64).values()
    scheduled = DefaultSchedules().schedules_of({"main": func}, HERE)["main"]
    a, b = (np.random.default_rng(0).random(s, np.float32) for s in ((64, 16), (16, 16)))
    results = []
    for version in (func, scheduled):
        c = np.zeros((64, 16), np.float32)
        codegen.build(version.with_attr("global_symbol", "main"), TARGET)["main"](a, b, c)
        results.append(c)
    np.testing.assert_allclose(*results, rtol=1e-5)
