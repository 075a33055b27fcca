"""Kernels: names, objects, processes that compile."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
from graph_modules import module_of

import codegen
from codegen import compile_units, kept_files, kernel
from codegen.compile import llvm_source
from codegen.compile_units import compiled
from codegen.errors import CodegenError, LinkError
from codegen.kept_files import KeptFiles
from codegen.kernel import Kernel, Unit, _Objects
from codegen.signature import read_object_code
from codegen.target import Target, host
from codegen.worker_pool import Job, Outcome, WorkerPool
from tensorir import IRModule, parse
from tensorir.interp.graphs import interpret_graph
from tensorir.transform import BindParams, FoldConstant

# --------------------------- One kernel, one object: what else is in a module changes nothing of it

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


# ----------------- A function of a program may have any name: it is not the C function of that name

NAMES = ["memcpy", "memset", "floor", "trunc", "fmod", "fmodf", "free", "aligned_alloc", "malloc",
         "GOMP_parallel", "omp_get_num_threads", "main", "a.b", "a b", "llvm.sqrt.f32", "é",
         "parallel1.body", "tensorir.kernel.f", "__tensorir_constants"]  # fmt: skip

ALL_OF_C = """
@T.prim_func
def f(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32"), n: T.int32):
    T.func_attr({"global_symbol": "NAME", "tir.noalias": True})
    S = T.alloc_buffer((n,), "float32")
    Z = T.allocate_const([1.5, 2.5], "float32", [2])
    C = T.Buffer((2,), "float32", data=Z)
    for i in T.parallel(n):
        S[i] = T.fmod(T.floor(A[i]), T.float32(3)) + T.trunc(A[i]) + T.atan2(A[i], C[i % 2])
    T.evaluate(T.call_extern("handle", "memcpy", B.data, S.data, T.Cast("int64", n) * T.int64(4)))
"""


def expected(a: np.ndarray) -> np.ndarray:
    constants = np.where(np.arange(len(a)) % 2, 2.5, 1.5)
    return np.fmod(np.floor(a), 3) + np.trunc(a) + np.arctan2(a, constants)


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_of_any_name_calls_what_is_called_so_in_c(name: str) -> None:
    module = codegen.build(parse(ALL_OF_C.replace("NAME", name)))
    a, b = np.linspace(-9, 9, 4096, dtype="float32"), np.zeros(4096, "float32")
    module.get_function(name)(a, b, 4096)
    np.testing.assert_allclose(b, expected(a), rtol=1e-5)
    again = codegen.Module.from_object(module.object_code)
    again[name](a, np.zeros(4096, "float32"), 4096)
    assert list(again) == [name]


@pytest.mark.parametrize("name", NAMES)
def test_a_library_is_called_by_the_names_of_the_program(name: str, tmp_path: Path) -> None:
    module = codegen.build(parse(ALL_OF_C.replace("NAME", name)))
    if name.isascii():
        assert f"tensorir.kernel.{name}" in module.inspect_llvm()
    module.export_library(tmp_path / "lib.so")
    loaded = codegen.load_module(tmp_path / "lib.so")
    a, b = np.linspace(-9, 9, 4096, dtype="float32"), np.zeros(4096, "float32")
    loaded.get_function(name)(a, b, 4096)
    np.testing.assert_allclose(b, expected(a), rtol=1e-5)


def test_a_library_does_not_define_functions_of_c(tmp_path: Path) -> None:
    """A program that links it goes on to call those of the C library."""
    functions = {
        name: parse(COPY.replace("NAME", name)) for name in ("free", "floor", "double", "copy")
    }
    module = codegen.build(functions)
    module.export_library(tmp_path / "lib.so")
    library = ctypes.CDLL(str(tmp_path / "lib.so"))
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", tmp_path / "lib.so"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert {"copy", "tensorir.kernel.free"} <= set(symbols)
    assert not {"free", "floor", "double"} & set(symbols)
    a, b = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    assert library.copy(ctypes.c_void_p(a.ctypes.data), ctypes.c_void_p(b.ctypes.data)) == 0
    assert b.tolist() == a.tolist()
    header = module.c_header()
    assert "int32_t copy(const float* A" in header
    assert "free" not in header
    (tmp_path / "lib.h").write_text(header)
    compiler = shutil.which("cc")
    assert compiler is not None
    subprocess.run([compiler, "-Wall", "-Werror", "-fsyntax-only", tmp_path / "lib.h"], check=True)


COPY = """
@T.prim_func
def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    T.func_attr({"global_symbol": "NAME"})
    for i in range(4):
        B[i] = A[i]
"""


def test_functions_of_one_name_for_c_cannot_be_in_a_library(tmp_path: Path) -> None:
    module = codegen.build({name: parse(COPY.replace("NAME", "copy")) for name in ("one", "two")})
    a, b = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    module["two"](a, b)
    assert b.tolist() == a.tolist()
    with pytest.raises(
        LinkError,
        match=r"'one' and 'two' have the same global_symbol, copy, but names must be unique",
    ):
        module.export_library(tmp_path / "lib.so")


@pytest.mark.parametrize("name", ["tensorir.kernel.f", "a b", ""])
def test_an_extern_has_a_name_of_c(name: str) -> None:
    with pytest.raises(CodegenError, match=r"'.*' is not a valid name of a C function"):
        codegen.build(
            parse(f"""
@T.prim_func
def f(A: T.Buffer((1,), "int32")):
    A[0] = T.call_extern("int32", "{name}")
""")
        )


def test_a_model_has_kernels_and_functions_of_any_name(tmp_path: Path) -> None:
    mod = module_of("""
    @T.prim_func(private=True)
    def memcpy(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i] * T.float32(3)

    @R.function
    def free(x: R.Tensor((4,), "float32")):
        cls = Module
        y = R.call_tir(cls.memcpy, (x,), out_sinfo=R.Tensor((4,), "float32"))
        return (x, y)
    """)
    executable = codegen.vm_build(mod, "llvm")
    x = np.arange(4, dtype="float32")
    copy, thrice = codegen.VirtualMachine(executable)["free"](x)
    assert copy.tolist() == x.tolist()
    assert thrice.tolist() == (x * 3).tolist()
    executable.export_library(tmp_path / "model.so")
    loaded = codegen.VirtualMachine(codegen.load_module(tmp_path / "model.so"))
    assert loaded["free"](x)[1].tolist() == (x * 3).tolist()


# --------------------------------------------------------- Objects on the disk, for other processes

UNIT = (
    llvm_source(
        parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in range(8):
        A[i] = A[i] * T.float32(5.125)
"""),  # type: ignore[arg-type]
        Target("llvm"),
    )
    .kernels[0]
    .code
)


@pytest.fixture(autouse=True)
def configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_files, "_kept", None)
    monkeypatch.setattr(kept_files, "_is_configured", False)


def never(unit: Unit) -> bytes:
    raise AssertionError("the object was made")


def test_nothing_is_kept_unless_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(kept_files.VARIABLE, raising=False)
    _Objects(1 << 20).get(UNIT, Unit.made)
    assert not [*tmp_path.iterdir()]


def test_another_process_takes_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    codegen.keep_objects()
    made = _Objects(1 << 20).get(UNIT, Unit.made)
    (file,) = (tmp_path / "tensorir" / "objects").iterdir()
    assert _Objects(1 << 20).get(UNIT, never) == made
    for content in (b"", file.read_bytes()[:-1], file.read_bytes() + b"x"):
        file.write_bytes(content)
        assert _Objects(1 << 20).get(UNIT, lambda unit: b"new") == b"new"


def test_the_environment_switches_it_on(tmp_path: Path) -> None:
    build = (
        "import codegen, tensorir; codegen.build(tensorir.parse('''\n"
        "@T.prim_func\n"
        "def main(A: T.Buffer((8,), 'float32')):\n"
        "    for i in range(8):\n"
        "        A[i] = A[i] * T.float32(7.125)\n"
        "'''), 'llvm')"
    )
    times = []
    for _ in range(2):
        subprocess.run(
            [sys.executable, "-c", build],
            check=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, kept_files.VARIABLE: str(tmp_path / "objects")},
        )
        times.append({f.name: f.stat().st_ctime_ns for f in (tmp_path / "objects").iterdir()})
    assert times[0].keys() == times[1].keys()
    assert len(times[0]) == 2  # the code and the entry


def test_the_folder_stays_small_and_what_was_used_last_stays(tmp_path: Path) -> None:
    kept = KeptFiles(tmp_path, limit_bytes=10_000)
    for k in range(40):
        kept.put(b"%d" % k, bytes(1000))
        file = kept._path(b"%d" % k)
        os.utime(file, (k, k))
        assert kept.get(b"0") is not None or k == 0  # which makes it the newest
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 11_250
    assert kept.get(b"0") == kept.get(b"39") == bytes(1000)
    assert kept.get(b"5") is None


def test_a_file_that_another_process_has_removed_is_no_problem(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "removed").symlink_to(tmp_path / "nowhere")
    KeptFiles(tmp_path, 1 << 20).put(b"key", b"data")
    assert not caplog.records


def test_files_on_a_read_only_file_system_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    kept = KeptFiles(tmp_path, 1 << 20)
    kept.put(b"key", b"data")
    monkeypatch.setattr(os, "utime", refused)
    assert kept.get(b"key") == b"data"


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    kept = KeptFiles(folder, 1 << 20)
    kept.put(b"key", b"data")
    assert not [*folder.iterdir()]
    folder.chmod(0o700)
    kept.put(b"key", b"data")
    assert kept.get(b"key") == b"data"
    folder.chmod(0o777)
    assert kept.get(b"key") is None


# ------------------------------ Many kernels are compiled in several processes, to the same objects

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
    monkeypatch.setattr(host, "physical_cores", lambda: 3)
    monkeypatch.setattr(compile_units, "_WORTH_A_PROCESS", 2)
    asked: list[Job] = []
    ask = WorkerPool.submit

    def watched(self: WorkerPool, job: Job, timeout_sec: float) -> Future[Outcome]:
        asked.append(job)
        return ask(self, job, timeout_sec)

    monkeypatch.setattr(WorkerPool, "submit", watched)
    given = kernels(12, 1000)
    found, objects = compiled(given, len(given))
    assert found == given
    assert asked
    for one, made in zip(given, objects, strict=True):
        assert made["code"] == one.code.made()
    asked.clear()
    compiled(given, len(given))
    assert not asked  # they are known


def test_few_kernels_are_compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "physical_cores", lambda: 3)
    monkeypatch.setattr(compile_units, "_WORTH_A_PROCESS", WORTH_A_PROCESS)
    monkeypatch.setattr(WorkerPool, "__init__", lambda self: pytest.fail("a process was started"))
    compiled(kernels(4, 2000), 4)


def test_a_worker_that_llvm_ends_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "physical_cores", lambda: 2)
    monkeypatch.setattr(compile_units, "_WORTH_A_PROCESS", 2)
    lost: Future[Outcome] = Future()
    lost.set_result(Outcome("crash", "the worker process was ended by SIGABRT"))
    monkeypatch.setattr(WorkerPool, "submit", lambda *_: lost)
    given = kernels(6, 5000)
    _, objects = compiled(given, len(given))
    assert [made["code"] for made in objects] == [one.code.made() for one in given]


# ---------------------------- Constants are folded by compiled functions once `codegen` is imported

LAYOUT = """
    @R.function
    def main(w: R.Tensor((512, 512), "float32")):
        cls = Module
        y = R.call_tir(cls.transpose, (w,), out_sinfo=R.Tensor((512, 512), "float32"))
        return y

    @T.prim_func(private=True)
    def transpose(A: T.Buffer((512, 512), "float32"), B: T.Buffer((512, 512), "float32")):
        for i, j, k in T.grid(512, 512, 8):
            with T.block("transpose"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    B[vi, vj] = T.float32(0)
                B[vi, vj] = B[vi, vj] + A[vj, vi]
"""


def test_what_is_too_long_for_the_interpreter_is_compiled_once(monkeypatch):
    made = []
    object_code = kernel.object_code

    def counting(text, *options):
        made.append(text)
        return object_code(text, *options)

    monkeypatch.setattr(kernel, "object_code", counting)
    w = np.arange(512 * 512, dtype="float32").reshape(512, 512)
    for _ in range(2):
        # Functions of another parse are not the same nodes, but the same programs.
        mod = FoldConstant()(BindParams("main", {"w": w})(module_of(LAYOUT)))
        assert "call_tir" not in mod["main"].script()
        np.testing.assert_array_equal(interpret_graph(mod, "main"), w.T * 8)
    assert len(made) == 2, "the kernel and its entry"


def test_constants_of_every_layout_are_passed():
    w = np.arange(4, dtype="float32")[::-1]
    mod = module_of("""
        @R.function
        def main(w: F4):
            cls = Module
            y = R.call_tir(cls.double, (w,), out_sinfo=F4)
            return y
    """)
    folded = FoldConstant()(BindParams("main", {"w": w})(mod))
    assert interpret_graph(folded, "main").tolist() == [6.0, 4.0, 2.0, 0.0]
