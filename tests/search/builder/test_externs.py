"""A program that is measured calls the C functions of mathematics, and others only by leave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import codegen
import search as ms
from search.builder.builder import build_and_export
from search.errors import TuningError
from tensorir import parse
from tensorir.function import IRModule
from tests.search.test_tune_calls import TARGET

PROGRAM = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = {value}
"""


def program(value: str) -> IRModule:
    return IRModule({"main": parse(PROGRAM.format(value=value))})  # type: ignore[dict-item]


@pytest.fixture
def refusal(tmp_path: Path) -> Callable[..., str]:
    """A function that builds a program as a worker does; it returns the error, empty for none."""

    def build(mod: IRModule, f_build: Any = None, allowed: frozenset[str] = frozenset()) -> str:
        target = codegen.Target(TARGET)
        try:
            folder = str(tmp_path)
            build_and_export(mod, target, None, f_build, None, folder, allow_externs=allowed)
        except TuningError as error:
            return str(error)
        return ""

    return build


def test_no_shell_command_of_a_program_is_run(tmp_path: Path, measured: dict[str, Any]) -> None:
    """A program of a stranger is data until it is measured."""
    marker = tmp_path / "attacked"
    called = f'T.cast(T.call_extern("int32", "system", "touch {marker}"), "float32")'
    with pytest.raises(TuningError) as refused:
        ms.tune_tir(program(called), TARGET, ms.TuneConfig(2), tmp_path / "found", **measured)
    assert "the program calls the C function 'system'" in str(refused.value)
    assert "allow_externs=('system',)" in str(refused.value)
    assert not marker.exists()


@pytest.mark.parametrize("call", ["call_extern", "call_pure_extern"])
def test_other_c_functions_are_not_built(refusal: Callable[..., str], call: str) -> None:
    called = program(f'T.{call}("float32", "drand48")')
    assert "calls the C function 'drand48'" in refusal(called)
    assert not refusal(called, allowed=frozenset(["drand48"]))
    assert refusal(called, allowed=frozenset(["drand"]))
    own = refusal(called, f_build=lambda mod, target, _: codegen.build(mod, target))
    assert "calls the C function 'drand48'" in own, "a build function is no way around it"


@pytest.mark.parametrize(
    "value",
    [
        'T.call_pure_extern("float32", "tgammaf", A[vi])',
        'T.call_llvm_pure_intrin("float32", "llvm.fabs", T.uint32(1), A[vi])',
        "T.sinh(A[vi])",
    ],
)
def test_mathematical_functions_are_built(refusal: Callable[..., str], value: str) -> None:
    assert not refusal(program(value))
