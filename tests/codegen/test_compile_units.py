"""Many kernels are compiled in several processes, to the same objects."""

from __future__ import annotations

import os
import signal

import pytest

from codegen import compile_units
from codegen.compile import llvm_source
from codegen.compile_units import LLVMProcess, compiled
from codegen.errors import CodegenError
from codegen.kernel import Kernel, Unit
from codegen.target import Target
from tensorir import IRModule, parse

TARGET = Target("llvm")
WORTH_A_PROCESS = compile_units._WORTH_A_PROCESS
"""The value outside of the tests, which start no processes by default."""


def kernels(count: int, factor: int) -> list[Kernel]:
    """Return kernels that nothing has compiled before."""
    functions = "\n".join(
        f"""
    @T.prim_func
    def scale{k}(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = A[i] * T.float32({factor + k}.25)
"""
        for k in range(count)
    )
    mod = parse(f"@I.ir_module\nclass Module:\n{functions}")
    assert isinstance(mod, IRModule)
    return list(llvm_source(mod, TARGET).kernels)


def test_objects_are_those_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_units.host, "physical_cores", lambda: 3)
    monkeypatch.setattr(compile_units, "_WORTH_A_PROCESS", 2)
    asked: list[Unit] = []
    ask = LLVMProcess.object_code

    def watched(self: LLVMProcess, unit: Unit) -> bytes | None:
        asked.append(unit)
        return ask(self, unit)

    monkeypatch.setattr(LLVMProcess, "object_code", watched)
    given = kernels(12, 1000)
    found, objects = compiled(given, len(given))
    assert found == given
    assert asked
    for kernel, made in zip(given, objects, strict=True):
        assert made["code"] == kernel.code.made()
    asked.clear()
    compiled(given, len(given))
    assert not asked  # they are known


def test_few_kernels_are_compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_units.host, "physical_cores", lambda: 3)
    monkeypatch.setattr(compile_units, "_WORTH_A_PROCESS", WORTH_A_PROCESS)
    monkeypatch.setattr(LLVMProcess, "__init__", lambda self: pytest.fail("a process was started"))
    compiled(kernels(4, 2000), 4)


def test_what_llvm_rejects_in_a_process_is_an_error_here() -> None:
    process = LLVMProcess()
    try:
        with pytest.raises(CodegenError, match="LLVM rejects the generated code"):
            process.object_code(Unit("this is no LLVM IR", TARGET))
        good = kernels(1, 3000)[0].code
        assert process.object_code(good) == good.made()
    finally:
        process.close()


def test_a_process_that_was_killed_is_done_without() -> None:
    process = LLVMProcess()
    os.kill(process._process.pid, signal.SIGKILL)
    try:
        assert process.object_code(kernels(1, 4000)[0].code) is None
    finally:
        process.close()
