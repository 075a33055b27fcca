"""Default schedules for the kernels of a model that a build finds no record of."""

from __future__ import annotations

import logging
import tomllib
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import codegen
import search as ms
from codegen.history import Schedules, default_schedules
from codegen.kept_files import kept_files
from codegen.target import host
from schedule import Schedule
from search.history import default_schedules as module_here
from search.history.default_designs import Choice, choose
from search.history.default_schedules import DefaultSchedules
from tensorir import IRModule, assert_structural_equal, parse
from tensorir.extensions import SCHEDULES
from tensorir.function import PrimFunc
from tests.search.anchored_programs import TARGET
from tests.search.compatible_programs import convolution, product

HERE = codegen.Target(TARGET)


def kernels(*sizes: int) -> dict[str, PrimFunc]:
    return {f"product_{n}": product(n, 16, 16)["main"] for n in sizes}


Call = tuple[int, bool, bool]
"""The number of rows of a product, whether a choice was given, and whether it is for this one."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """Return the choices that this process makes, in order."""
    made: list[Call] = []

    def counted(
        program: IRModule, target: codegen.Target, like: Choice | None, *, is_same: bool, cold: bool
    ) -> tuple[Schedule, Choice | None]:
        (rows, _) = next(iter(program.prim_func("main").buffer_map.values())).shape
        made.append((int(str(rows)), like is not None, is_same))
        return choose(program, target, like, is_same=is_same, cold=cold)

    monkeypatch.setattr(module_here, "choose", counted)
    monkeypatch.setattr(host, "physical_cores", lambda: 1)
    return made


def test_programs_of_one_structure_share_the_search(calls: list[Call]) -> None:
    makes = DefaultSchedules()
    functions = {**kernels(16, 32), "again": product(16, 16, 16)["main"]}
    found = makes.schedules_of(functions, HERE)
    assert list(found) == ["product_16", "product_32", "again"]
    assert calls == [(16, False, False), (32, True, False)]
    makes.schedules_of(kernels(32), HERE)
    assert len(calls) == 2
    expected = ms.default_schedule(product(16, 16, 16), TARGET).mod["main"].body
    assert_structural_equal(found["product_16"].body, expected)


def test_a_later_process_takes_the_choices_from_the_disk(
    calls: list[Call], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TENSORIR_CACHE", str(tmp_path))
    kept_files.cache_clear()
    first = DefaultSchedules().schedules_of(kernels(16, 32), HERE)
    calls.clear()
    again = DefaultSchedules().schedules_of(kernels(16, 32, 64), HERE)
    assert calls == [(16, True, True), (32, True, True), (64, True, False)]
    for name, func in first.items():
        assert_structural_equal(again[name].body, func.body)
    # A damaged file is made again, and nothing of another release is used.
    for file in (tmp_path / "schedules").iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    calls.clear()
    DefaultSchedules().schedules_of(kernels(16), HERE)
    monkeypatch.setattr(module_here, "sources_stamp", lambda: "another release")
    DefaultSchedules().schedules_of(kernels(16), HERE)
    assert calls == [(16, False, False)] * 2
    kept_files.cache_clear()


def test_a_choice_that_does_not_apply_is_ignored() -> None:
    small = product(16, 16, 16)
    expected, choice = choose(small, HERE)
    _, other = choose(convolution(), HERE)
    assert choice is not None
    assert other is not None
    unknown = Choice(choice.blocks, other.trace, choice.score)
    for like in (other, unknown):
        for is_same in (False, True):
            made, own = choose(small, HERE, like, is_same=is_same)
            assert_structural_equal(made.mod, expected.mod)
            assert own is not None


def test_a_program_that_a_choice_suits_less_is_searched_itself() -> None:
    small = product(16, 16, 16)
    expected, own = choose(small, HERE)
    _, other = choose(product(64, 64, 64), HERE)
    assert own is not None
    assert other is not None
    far_better = replace(other, score=own.score + 1)
    made, found = choose(small, HERE, far_better)
    assert_structural_equal(made.mod, expected.mod)
    assert found is not None
    assert found.as_json() == own.as_json()


def test_several_processes_schedule_all_programs(caplog: pytest.LogCaptureFixture) -> None:
    functions = kernels(16, 32, 48, 64)
    found = DefaultSchedules().schedules_of(functions, HERE)
    assert list(found) == list(functions)
    assert not caplog.records
    for n, func in zip((16, 32, 48, 64), found.values(), strict=True):
        a, b = (np.random.default_rng(0).random(s, np.float32) for s in ((n, 16), (16, 16)))
        c = np.zeros((n, 16), np.float32)
        codegen.build(func.with_attr("global_symbol", "main"), TARGET)["main"](a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_what_cannot_be_scheduled_stays_as_it_is_and_one_line_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(program: IRModule, *_: object, **__: object) -> Schedule:
        raise ZeroDivisionError("a rule of somebody\nwas given\n" + program.script())

    monkeypatch.setattr(module_here, "choose", fails)
    monkeypatch.setattr(host, "physical_cores", lambda: 1)
    with caplog.at_level(logging.DEBUG, "tensorir.search"):
        assert DefaultSchedules().schedules_of(kernels(16), HERE) == {}
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG
    assert record.getMessage() == (
        'Function "product_16" has no default schedule and is unchanged: '
        "ZeroDivisionError: a rule of somebody"
    )


def test_the_package_says_where_its_schedules_are() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    (value,) = project["entry-points"][SCHEDULES].values()
    make = metadata.EntryPoint("search", value, SCHEDULES).load()
    assert isinstance(make(), Schedules)
    assert type(default_schedules()) is make, "as it is installed"


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


SCALED = parse(
    """
@T.prim_func
def main(A: T.Buffer((64, 48)), count: T.int64, scale: T.float32, C: T.Buffer((64, 48))):
    for i, j, k in T.grid(64, 48, count):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vj] * scale
"""
)


def test_a_parameter_that_is_a_number_is_no_reason_to_stay_as_it_is() -> None:
    found = DefaultSchedules().schedules_of({"main": SCALED}, HERE)["main"]
    assert found.attrs["tir.is_scheduled"]
    a = np.random.default_rng(0).random((64, 48), np.float32)
    built = codegen.build(found.with_attr("global_symbol", "main"), TARGET)["main"]
    for count in (0, 1, 5):
        c = np.full((64, 48), -1, np.float32)
        built(a, count, 3.0, c)
        np.testing.assert_allclose(c, a * 3 * count, rtol=1e-5)
