"""Kernels of a model get the schedules of a database, then default ones, or stay as they are."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from importlib import metadata

import numpy as np
import pytest

import codegen
from codegen import history as seam
from schedule import Schedule
from tensorir import IRModule, parse
from tensorir.extensions import SCHEDULES, extension
from tensorir.function import PrimFunc

TARGET = codegen.Target("llvm -num-cores=1")

MODEL = parse(
    """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def double(A: T.Buffer((64, 64)), C: T.Buffer((64, 64))):
        for i, j in T.grid(64, 64):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] * T.float32(2)

    @T.prim_func(private=True)
    def total(A: T.Buffer((64, 64)), C: T.Buffer((64,))):
        for i, j in T.grid(64, 64):
            with T.block("C"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vj]

    @T.prim_func(private=True)
    def negate(A: T.Buffer((64,)), C: T.Buffer((64,))):
        for i in range(64):
            with T.block("C"):
                vi = T.axis.spatial(64, i)
                C[vi] = -A[vi]

    @R.function
    def main(x: R.Tensor((64, 64), "float32")):
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((64, 64), "float32"))
            b = R.call_tir(cls.total, (a,), out_sinfo=R.Tensor((64,), "float32"))
            c = R.call_tir(cls.negate, (b,), out_sinfo=R.Tensor((64,), "float32"))
            R.output(c)
        return c
"""
)
X = np.random.default_rng(0).random((64, 64), np.float32)


class Notes:
    """Marks functions of some names as scheduled, and remembers what it was asked for."""

    def __init__(self, note: str, *names: str) -> None:
        self.note = note
        self.names = names
        self.asked: list[str] = []

    def schedules_of(
        self, functions: Mapping[str, PrimFunc], target: codegen.Target, weight_bytes: int = 0
    ) -> dict[str, PrimFunc]:
        assert target == TARGET
        self.asked += functions
        marks = {"tir.is_scheduled": True, "note": self.note}
        return {name: functions[name].with_attr(marks) for name in self.names if name in functions}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[metadata.EntryPoint]]:
    """The packages that make schedules, as their metadata says; none to begin with."""
    entries: list[metadata.EntryPoint] = []
    monkeypatch.setattr(metadata, "entry_points", lambda group: entries)
    for cached in (extension, seam.default_schedules):
        cached.cache_clear()
    yield entries
    for cached in (extension, seam.default_schedules):
        cached.cache_clear()


MADE = Notes("default", "double", "total")


@pytest.fixture
def default(installed: list[metadata.EntryPoint]) -> Notes:
    """What makes default schedules, in the place of that of the search."""
    installed.append(metadata.EntryPoint("own", f"{__name__}:default_notes", SCHEDULES))
    MADE.asked.clear()
    return MADE


def default_notes() -> Notes:
    return MADE


def notes(executable: codegen.Executable) -> dict[str, str]:
    result = codegen.VirtualMachine(executable)["main"](X)
    np.testing.assert_allclose(np.asarray(result), -2 * X.sum(1), rtol=1e-5)
    functions = executable.mod.prim_funcs().items()
    return {name: str(func.attrs["note"]) for name, func in functions if "note" in func.attrs}


def test_a_database_is_asked_first_and_what_it_lacks_gets_a_default(default: Notes) -> None:
    database = Notes("record", "total")
    executable = codegen.vm_build(MODEL, TARGET, database=database)
    assert notes(executable) == {"double": "default", "total": "record"}
    assert sorted(database.asked) == ["double", "negate", "total"]
    assert default.asked == ["double"], "the third is too small to matter"


def test_defaults_are_made_without_a_database_and_not_on_request(default: Notes) -> None:
    assert notes(codegen.vm_build(MODEL, TARGET)) == {"double": "default", "total": "default"}
    assert notes(codegen.vm_build(MODEL, TARGET, default_schedules=False)) == {}


def test_what_somebody_has_scheduled_stays_as_it_is(default: Notes) -> None:
    sch = Schedule(IRModule({"main": MODEL["double"]}))
    sch.vectorize(sch.get_loops(sch.get_block("C"))[1])
    by_hand = MODEL.clone()
    by_hand["double"] = sch.mod["main"]
    by_hand["total"] = MODEL["total"].with_attr("tir.is_scheduled", True)
    assert notes(codegen.vm_build(by_hand, TARGET)) == {}
    assert default.asked == []


def test_a_path_is_no_database() -> None:
    with pytest.raises(codegen.CodegenError, match="got str; open the directory of a search"):
        codegen.vm_build(MODEL, TARGET, database="./tune_model")  # type: ignore[arg-type]


def test_without_one_kernels_stay_and_a_warning_says_so_once(
    installed: list[metadata.EntryPoint], caplog: pytest.LogCaptureFixture
) -> None:
    assert not installed
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert notes(codegen.vm_build(MODEL, TARGET)) == {}
    assert caplog.text.count("no installed package provides default schedules") == 1
