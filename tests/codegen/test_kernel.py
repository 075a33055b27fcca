"""One kernel, one object: what else is in a module changes nothing of it."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from codegen import kernel
from codegen.signature import read_object_code
from tensorir import IRModule, parse

TILE = """
    @T.prim_func(private=True)
    def tile(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
        T.func_attr({"tir.noalias": True})
        for i in range(16):
            for j in T.vectorized(16):
                B[i, j] = A[i, j] * T.float32(2)
"""
SCALAR = """
    @T.prim_func(private=True)
    def scalar(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
        T.func_attr({"tir.noalias": True})
        for i in range(16):
            for j in range(16):
                B[i, j] = A[j, i] + T.float32(1)
"""
MODEL = """
    @R.function
    def main(x: R.Tensor((16, 16), "float32")):
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.tile, (x,), out_sinfo=R.Tensor((16, 16), "float32"))
            z = R.call_tir(cls.scalar, (y,), out_sinfo=R.Tensor((16, 16), "float32"))
            R.output(z)
        return z
"""


def module(*parts: str) -> IRModule:
    mod = parse("@I.ir_module\nclass Module:\n" + "\n".join(parts))
    assert isinstance(mod, IRModule)
    return mod


def objects(data: bytes) -> dict[str, bytes]:
    info, members = read_object_code(data)
    return {s.name: members[f"code{number}.o"] for number, s in enumerate(info.functions)}


@pytest.mark.parametrize("name", ["tile", "scalar"])
def test_a_kernel_is_the_same_bytes_alone_in_a_module_and_in_a_model(name: str) -> None:
    text = {"tile": TILE, "scalar": SCALAR}[name]
    alone = objects(codegen.compile_object(module(text)))[name]
    for mod in (module(TILE, SCALAR), module(SCALAR, TILE)):
        assert objects(codegen.compile_object(mod))[name] == alone
    executable = codegen.vm_build(module(TILE, SCALAR, MODEL), "llvm")
    assert objects(executable.module.object_code)[name] == alone


def test_the_name_of_a_kernel_does_not_change_its_code() -> None:
    one, two = (codegen.build(module(TILE.replace("tile", name))) for name in ("tile", "main"))
    assert (
        one.inspect_asm().replace(".tile", ".main").replace('"tile', '"main') == two.inspect_asm()
    )


def test_a_kernel_is_not_compiled_into_its_entry_a_second_time() -> None:
    text = codegen.build(module(SCALAR)).inspect_llvm()
    entry = text[text.index("i32 @tensorir.entry.scalar(") :]
    assert "call i32 @tensorir.kernel.scalar(" in entry
    assert "fadd" in text
    assert "fadd" not in entry


def test_an_object_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    emit = kernel.object_code

    def counting(text: str, *options: object) -> bytes:
        made.append(text)
        return emit(text, *options)  # type: ignore[arg-type]

    monkeypatch.setattr(kernel, "object_code", counting)
    monkeypatch.setattr(kernel, "_objects", kernel._Objects(1 << 20))
    codegen.build(module(TILE, SCALAR))
    assert len(made) == 2
    codegen.build(module(SCALAR))
    assert len(made) == 3, "its entry, which only functions that are called from outside have"
    codegen.vm_build(module(TILE, SCALAR, MODEL), "llvm")
    assert len(made) == 5, "the chain that calls both is new, and so is its entry"
    codegen.build(module(SCALAR.replace("T.float32(1)", "T.float32(2)")))
    assert len(made) == 6, "the entry of another program with the same arguments is the same"
    codegen.build(module(SCALAR), "llvm -opt-level=1")
    assert len(made) == 8


def test_objects_are_kept_up_to_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "object_code", lambda text, *_: bytes(100))
    kept = kernel._Objects(250)
    monkeypatch.setattr(kernel, "_objects", kept)
    kernels = [codegen.compile.llvm_source(module(TILE.replace("2)", f"{k})"))) for k in range(4)]
    for source in kernels:
        source.kernels[0].code.object_code()
    assert len(kept._known) == 2


def test_assertions_of_several_functions_are_told_apart() -> None:
    mod = module(
        """
    @T.prim_func
    def inner(A: T.Buffer((1,), "int32")):
        assert A[0] != 1, "inner refuses 1"
        assert A[0] != 2, "inner refuses 2"
        A[0] = 0

    @T.prim_func
    def main(A: T.Buffer((1,), "int32")):
        T.func_attr({"global_symbol": "main"})
        assert A[0] != 3, "main refuses 3"
        T.call_tir_function(A)
""".replace("T.call_tir_function(A)", "T.evaluate(Module.inner(A.data))")
    )
    main = codegen.build(mod)["main"]
    for value, who in ((1, "inner"), (2, "inner"), (3, "main")):
        with pytest.raises(codegen.AssertionFailedError, match=f"main: {who} refuses {value}"):
            main(np.array([value], "int32"))


def test_each_function_calls_its_own_library_functions() -> None:
    calls = []
    for name in ("kernel_test.a", "kernel_test.b"):
        codegen.register_func(name, lambda x, name=name: calls.append(name), override=True)
    codegen.build(
        module(
            """
    @T.prim_func
    def inner(A: T.Buffer((1,), "int32")):
        T.evaluate(T.call_packed("kernel_test.a", A))

    @T.prim_func
    def main(A: T.Buffer((1,), "int32")):
        T.func_attr({"global_symbol": "main"})
        T.evaluate(T.call_packed("kernel_test.b", A))
        T.evaluate(Module.inner(A.data))
"""
        )
    )["main"](np.zeros(1, "int32"))
    assert calls == ["kernel_test.b", "kernel_test.a"]
