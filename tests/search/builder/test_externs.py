"""A program that is measured calls the C functions of mathematics, and others only by leave."""

from __future__ import annotations

from pathlib import Path

import pytest

import codegen
import search as ms
from search.builder import BuilderInput, BuilderResult, LocalBuilder
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


def build(mod: IRModule, **options: object) -> BuilderResult:
    builder = LocalBuilder(max_workers=1, **options)  # type: ignore[arg-type]
    (result,) = builder.build([BuilderInput(mod, codegen.Target(TARGET))])
    builder.close()
    return result


def test_no_shell_command_of_a_program_is_run(tmp_path: Path) -> None:
    """A program of a stranger is data until it is measured."""
    marker = tmp_path / "attacked"
    called = f'T.cast(T.call_extern("int32", "system", "touch {marker}"), "float32")'
    with pytest.raises(TuningError) as refused:
        ms.tune_tir(program(called), TARGET, ms.TuneConfig(2), tmp_path / "found")
    assert "the program calls the C function 'system'" in str(refused.value)
    assert "allow_externs=('system',)" in str(refused.value)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('T.call_extern("float32", "drand48")', "calls the C function 'drand48'"),
        ('T.call_pure_extern("float32", "drand48")', "calls the C function 'drand48'"),
    ],
)
def test_other_c_functions_are_not_built(value: str, text: str) -> None:
    assert text in str(build(program(value)).error_msg)


@pytest.mark.parametrize(
    "value",
    [
        'T.call_pure_extern("float32", "tgammaf", A[vi])',
        'T.call_llvm_pure_intrin("float32", "llvm.fabs", T.uint32(1), A[vi])',
        "T.sinh(A[vi])",
    ],
)
def test_mathematical_functions_are_built(value: str) -> None:
    assert build(program(value)).error_msg is None


def test_a_name_that_is_allowed_is_built() -> None:
    called = program('T.call_extern("float32", "drand48")')
    assert build(called, allow_externs=["drand48"]).error_msg is None
    assert build(called, allow_externs=["drand"]).error_msg is not None
    with pytest.raises(
        TuningError,
        match=r"allow_externs is a collection of C function names, as in \('drand48',\)",
    ):
        LocalBuilder(allow_externs="drand48")


def test_a_build_function_of_the_user_is_no_way_around_it() -> None:
    called = program('T.call_extern("float32", "drand48")')
    found = build(called, f_build=lambda mod, target, _: codegen.build(mod, target))
    assert "calls the C function 'drand48'" in str(found.error_msg)
