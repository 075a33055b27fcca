"""Workloads, tensor intrinsics, files that are replaced."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from workload_references import expected as expected_output

import codegen
from tensorir import IRValueError, assert_structural_equal, parse, verify_well_formed
from tensorir.interp import interpret, random_arguments
from tensorir.replaced_file import replaced_file
from tensorir.tensor_intrin import TensorIntrin
from tensorir.workloads import WORKLOADS, create, get
from tests.recorded import RECORDED, recorded

# ----------------------------- The operator suite: programs as published, results as NumPy has them

PUBLISHED = {
    **{f"{name}[0]": (name, {}) for name in WORKLOADS},
    "c1d": ("C1D", {"l": 16, "ci": 8, "co": 8, "stride": 1}),
    "c2d": ("C2D", {"h": 8, "w": 8, "ci": 4, "co": 8, "kernel": 3, "stride": 1, "padding": 1}),
    "cap": ("CAP", {"h": 6, "w": 6, "ci": 2, "co": 2, "stride": 1}),
    "cbr": ("CBR", {"h": 8, "w": 8, "ci": 4, "co": 8, "kernel": 3, "stride": 1, "padding": 1}),
    "dep": ("DEP", {"h": 8, "w": 8, "c": 8}),
    "nrm": ("NRM", {"b": 2, "m": 16, "n": 16}),
    "sfm": ("SFM", {"m": 16, "n": 32}),
    "t2d": ("T2D", {"ci": 8, "co": 4}),
    "tbg": ("TBG", {"length": 8, "heads": 2, "dim": 16}),
}
"""Names of programs in the vectors: workload and changes of its first configuration."""

SMALL = [
    ("C1D", {"n": 2, "l": 12, "ci": 4, "co": 6, "dilation": 2}),
    ("C1D", {"l": 9, "ci": 4, "co": 6, "groups": 2}),
    ("C2D", {"h": 9, "w": 8, "ci": 3, "co": 5, "kernel": 3, "padding": 1}),
    ("C2D", {"h": 6, "w": 7, "ci": 3, "co": 5, "kernel": 1, "stride": 1, "padding": 0}),
    ("C3D", {"d": 4, "h": 5, "w": 6, "ci": 2, "co": 3, "kernel": 3, "padding": 1}),
    ("GMM", {"b": 2, "n": 5, "m": 7, "k": 9}),
    ("GRP", {"h": 6, "w": 7, "ci": 8, "co": 12}),
    ("DIL", {"h": 9, "w": 8, "ci": 3, "co": 4, "kernel": 3, "padding": 1}),
    ("DEP", {"h": 7, "w": 6, "c": 5}),
    ("DEP", {"h": 7, "w": 6, "c": 3, "factor": 2, "stride": 2, "dilation": 2}),
    ("T2D", {"h": 3, "w": 4, "ci": 5, "co": 3}),
    ("T2D", {"h": 3, "w": 4, "ci": 2, "co": 3, "kernel": 3, "stride": 1}),
    ("T2D", {"h": 3, "w": 4, "ci": 2, "co": 3, "kernel": 5, "stride": 3, "padding": 0}),
    ("CAP", {"h": 6, "w": 5, "ci": 2, "co": 3}),
    ("CAP", {"h": 4, "w": 4, "ci": 2, "co": 3, "capsule": 2}),
    ("NRM", {"b": 3, "m": 7, "n": 5}),
    ("SFM", {"m": 5, "n": 11}),
    ("CBR", {"h": 9, "w": 8, "ci": 3, "co": 4, "kernel": 3, "padding": 1}),
    ("CBR", {"h": 9, "w": 8, "ci": 3, "co": 4, "kernel": 3, "padding": 2, "dilation": 2}),
    ("TBG", {"batch": 2, "length": 5, "heads": 3, "dim": 4}),
]


def published():
    found = {}
    for name in RECORDED:
        for entry in recorded(name):
            if entry["workload"] in PUBLISHED:
                found[entry["workload"]] = entry["before"]
    return [pytest.param(name, text, id=name) for name, text in found.items()]


@pytest.mark.parametrize(("name", "text"), published())
def test_programs_are_the_published_ones(name, text):
    workload, changes = PUBLISHED[name]
    func = create(workload, **changes)
    assert_structural_equal(func, parse(text))
    assert func.script(dialect="tvm") == text


def arrays(func, seed=0):
    """Return inputs in [-1, 1) and an output that is nowhere a result."""
    rng = np.random.default_rng(seed)
    shapes = [[int(n) for n in func.buffer_map[p].shape] for p in func.params]
    inputs = [rng.uniform(-1, 1, shape).astype("float32") for shape in shapes[:-1]]
    return inputs, np.full(shapes[-1], np.nan, "float32")


@pytest.mark.parametrize(("name", "changes"), SMALL)
def test_machine_code_computes_what_numpy_does(name, changes):
    func = create(name, **changes)
    verify_well_formed(func)
    inputs, output = arrays(func)
    codegen.build(func, target="llvm -num-cores=1")["main"](*inputs, output)
    expected = expected_output(name, *inputs, **changes)
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)


TINY = {
    "C1D": {"l": 5, "ci": 2, "co": 2},
    "C2D": {"h": 4, "w": 3, "ci": 2, "co": 2, "kernel": 3, "padding": 1},
    "C3D": {"d": 3, "h": 3, "w": 3, "ci": 1, "co": 2, "kernel": 2, "padding": 1},
    "GMM": {"n": 3, "m": 4, "k": 5},
    "GRP": {"h": 3, "w": 3, "ci": 4, "co": 4},
    "DIL": {"h": 5, "w": 5, "ci": 1, "co": 2, "kernel": 2, "padding": 1},
    "DEP": {"h": 4, "w": 3, "c": 2},
    "T2D": {"h": 2, "w": 2, "ci": 2, "co": 2},
    "CAP": {"h": 3, "w": 3, "ci": 1, "co": 1, "capsule": 2},
    "NRM": {"b": 2, "m": 3, "n": 4},
    "SFM": {"m": 3, "n": 4},
    "CBR": {"h": 3, "w": 3, "ci": 2, "co": 2, "kernel": 3, "padding": 1},
    "TBG": {"length": 3, "heads": 2, "dim": 4},
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_interpreter_computes_what_numpy_does(name):
    func = create(name, **TINY[name])
    inputs, output = arrays(func)
    interpret(func, *inputs, output)
    expected = expected_output(name, *inputs, **TINY[name])
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_configuration_is_a_function(name):
    for idx in range(len(get(name).configurations)):
        func = create(name, idx)
        verify_well_formed(func)
        assert_structural_equal(parse(func.script()), func)


def test_names_indices_and_parameters_that_do_not_exist():
    with pytest.raises(IRValueError, match="unknown workload 'XYZ'; the workloads are C1D, C2D"):
        create("XYZ")
    with pytest.raises(IRValueError, match="GMM has configurations 0 to 3, got 4"):
        create("GMM", 4)
    with pytest.raises(IRValueError, match=r"GMM has no parameter rows; it has b, n, m, k"):
        create("GMM", rows=3)


# The registry of tensor intrinsics, and what makes a description and an implementation a pair

BUILT_IN = [
    "amx_16x16x32_bf16bf16f32",
    "amx_16x16x64_u8i8i32",
    "dot_16x2_bf16bf16f32_avx512",
    "dot_16x2_i16i16s32_avx512",
    "dot_16x4_avx512",
    "dot_16x4_portable",
    "dot_16x4_vnni",
    "dot_4x2_bf16bf16f32_bfdot",
    "dot_4x4_u8i8s32_usdot",
    "dot_8x2_bf16bf16f32_avx512",
    "dot_8x2_i16i16s32_avx2",
    "dot_8x4_i8i8s32_vnniint8",
    "dot_8x4_vnni",
]
INTEGER_DOTS = [name for name in BUILT_IN if name.startswith("dot") and "bf16" not in name]

COPY = """\
@T.prim_func
def main(A: T.Buffer((4,), offset_factor=1), B: T.Buffer((4,), offset_factor=1)):
    with T.block("root"):
        T.reads(A[0:4])
        T.writes(B[0:4])
        for i in range(4):
            B[i] = A[i]
"""

COPY_VECTOR = """\
@T.prim_func
def main(X: T.Buffer((4,), offset_factor=1), Y: T.Buffer((4,), offset_factor=1)):
    with T.block("root"):
        T.reads(X[0:4])
        T.writes(Y[0:4])
        Y[0:4] = X[0:4]
"""


@pytest.fixture
def registry(monkeypatch):
    """A registry that is thrown away after the test."""
    TensorIntrin.names()
    monkeypatch.setattr(TensorIntrin, "_registry", dict(TensorIntrin._registry))


# ----------------------------------------------------------------------------------------- built in


def test_names_are_sorted():
    names = TensorIntrin.names()
    assert names == sorted(names)
    assert set(BUILT_IN) <= set(names)


@pytest.mark.parametrize("name", BUILT_IN)
def test_both_programs_are_well_formed_and_survive_printing(name):
    intrin = TensorIntrin.get(name)
    assert intrin is TensorIntrin.get(name)
    for func in (intrin.desc, intrin.impl):
        assert verify_well_formed(func)
        assert verify_well_formed(parse(func.script()))
    assert intrin.desc.body.block.name_hint == "root"


@pytest.mark.parametrize("name", INTEGER_DOTS)
def test_implementations_compute_what_is_described(name):
    """Exactly, also where products are as large as they get."""
    intrin = TensorIntrin.get(name)
    a_type, b_type = (np.dtype(str(b.dtype)) for b in list(intrin.desc.buffer_map.values())[:2])
    lanes, depth = (int(n) for n in intrin.desc.buffer_map[intrin.desc.params[1]].shape)
    rng = np.random.default_rng(3)
    ends = [(np.iinfo(t).min, np.iinfo(t).max) for t in (a_type, b_type)]
    for choice in ("any", (0, 0), (1, 0), (1, 1)):
        a, b = (
            rng.integers(low, high, shape, endpoint=True).astype(kind)
            if choice == "any"
            else np.full(shape, (low, high)[choice[k]], kind)
            for k, ((low, high), shape, kind) in enumerate(
                zip(ends, ((depth,), (lanes, depth)), (a_type, b_type), strict=True)
            )
        )
        c = rng.integers(-(2**31), 2**31, lanes).astype(np.int32)
        made, described = c.copy(), c.copy()
        interpret(intrin.impl, a, b, made)
        interpret(intrin.desc, a, b, described)
        wanted = (c.astype(np.int64) + b.astype(np.int64) @ a.astype(np.int64)).astype(np.int32)
        np.testing.assert_array_equal(made, wanted)
        np.testing.assert_array_equal(described, wanted)


@pytest.mark.parametrize("name", [name for name in BUILT_IN if "dot" in name and "bf16" in name])
def test_pairs_of_bfloat16_are_added_in_float32(name):
    intrin = TensorIntrin.get(name)
    lanes = int(intrin.desc.buffer_map[intrin.desc.params[2]].shape[0])
    rng = np.random.default_rng(3)
    wide = [rng.integers(-8, 8, shape).astype(np.float32) for shape in ((2,), (lanes, 2))]
    a, b = ((x.view(np.uint32) >> 16).astype(np.uint16) for x in wide)
    made, described = np.full(lanes, 0.5, np.float32), np.full(lanes, 0.5, np.float32)
    interpret(intrin.impl, a, b, made)
    interpret(intrin.desc, a, b, described)
    np.testing.assert_array_equal(made, 0.5 + wide[1] @ wide[0])
    np.testing.assert_array_equal(described, made)


def test_tiles_of_bytes_have_their_second_operand_interleaved():
    rng = np.random.default_rng(3)
    a = rng.integers(0, 256, (16, 64)).astype(np.uint8)
    b = rng.integers(-128, 128, (64, 16)).astype(np.int8)
    c = np.ones((16, 16), np.int32)
    packed = np.ascontiguousarray(b.reshape(16, 4, 16).transpose(0, 2, 1))
    interpret(TensorIntrin.get("amx_16x16x64_u8i8i32").desc, a, packed, c)
    np.testing.assert_array_equal(c, 1 + a.astype(np.int32) @ b.astype(np.int32))


def test_tiles_of_bfloat16_have_their_second_operand_interleaved():
    rng = np.random.default_rng(3)
    wide = [rng.integers(-8, 8, shape).astype(np.float32) for shape in ((16, 32), (32, 16))]
    a, b = ((x.view(np.uint32) >> 16).astype(np.uint16) for x in wide)
    c = np.zeros((16, 16), np.float32)
    packed = np.ascontiguousarray(b.reshape(16, 2, 16).transpose(0, 2, 1))
    interpret(TensorIntrin.get("amx_16x16x32_bf16bf16f32").desc, a, packed, c)
    np.testing.assert_array_equal(c, wide[0] @ wide[1])


# -------------------------------------------------------------------------------------- registering


@pytest.mark.usefixtures("registry")
def test_register_and_get():
    desc, impl = parse(COPY), parse(COPY_VECTOR)
    TensorIntrin.register("copy_4", desc, impl)
    found = TensorIntrin.get("copy_4")
    assert found.desc is desc
    assert found.impl is impl
    assert "copy_4" in TensorIntrin.names()
    arrays = random_arguments(desc)
    interpret(found.impl, *arrays)
    np.testing.assert_array_equal(arrays[1], arrays[0])


@pytest.mark.usefixtures("registry")
def test_a_name_that_is_taken():
    TensorIntrin.register("copy_4", parse(COPY), parse(COPY))
    with pytest.raises(IRValueError, match=r"'copy_4' is registered already.*override=True"):
        TensorIntrin.register("copy_4", parse(COPY), parse(COPY_VECTOR))
    with pytest.raises(IRValueError, match="'dot_16x4_vnni' is registered already"):
        TensorIntrin.register("dot_16x4_vnni", parse(COPY), parse(COPY))
    better = parse(COPY_VECTOR)
    TensorIntrin.register("copy_4", parse(COPY), better, override=True)
    assert TensorIntrin.get("copy_4").impl is better


def test_names_of_no_intrinsic():
    assert TensorIntrin.get("copy_5", allow_missing=True) is None
    with pytest.raises(
        IRValueError, match=r"unknown tensor intrinsic 'copy_5'; registered are .*vnni"
    ):
        TensorIntrin.get("copy_5")


SCALAR = COPY.replace("def main(", "def main(n: T.int32, ")
NO_BLOCK = """\
@T.prim_func
def main(A: T.Buffer((4,), offset_factor=1), B: T.Buffer((4,), offset_factor=1)):
    for i in range(4):
        B[i] = A[i]
"""


@pytest.mark.parametrize(
    ("desc", "impl", "words"),
    [
        (SCALAR, COPY, "the description of a tensor intrinsic must have only buffer parameters"),
        (COPY, SCALAR, "the implementation of a tensor intrinsic must have only buffer parameters"),
        (
            COPY,
            COPY.replace("def main(", "def main(C: T.Buffer((4,)), "),
            "the description has 2 parameters, the implementation 3",
        ),
        (
            COPY,
            COPY_VECTOR.replace("Y: T.Buffer((4,)", "Y: T.Buffer((8,)"),
            "the description's buffer B and the implementation's Y differ in shape",
        ),
        (
            COPY,
            COPY.replace("A: T.Buffer((4,)", 'A: T.Buffer((4,), "int32"').replace(
                "= A[i]", '= T.Cast("float32", A[i])'
            ),
            "buffer A and the implementation's A differ in shape, dtype or storage scope",
        ),
        (
            COPY,
            COPY.replace("B: T.Buffer((4,)", 'B: T.Buffer((4,), scope="shared"'),
            "buffer B and the implementation's B differ",
        ),
    ],
)
@pytest.mark.usefixtures("registry")
def test_programs_that_do_not_fit_together(desc, impl, words):
    with pytest.raises(IRValueError, match=words):
        TensorIntrin.register("broken", parse(desc), parse(impl))
    assert "broken" not in TensorIntrin.names()


def test_a_program_without_a_root_block():
    with pytest.raises(
        IRValueError, match="the implementation of a tensor intrinsic must have a root"
    ):
        TensorIntrin(parse(COPY), parse(NO_BLOCK))
    with pytest.raises(
        IRValueError, match="the description of a tensor intrinsic must have a root"
    ):
        TensorIntrin(parse(NO_BLOCK), parse(COPY))


def test_threads_that_ask_while_the_first_are_registered_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = TensorIntrin.names()[0]
    monkeypatch.setattr(TensorIntrin, "_registry", {})
    monkeypatch.setattr(TensorIntrin, "_loaded", False)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: TensorIntrin.get(name), range(8)))
    assert len(set(found)) == 1


# ----------------------------------------------------- Files are replaced as a whole, or not at all


def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text("old")
    with replaced_file(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_the_old_file_stays_when_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text("old")
    lines = (b"%d" % (1 // n) for n in (1, 0))
    with pytest.raises(ZeroDivisionError), replaced_file(path) as file:
        file.writelines(lines)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    with replaced_file(path) as first, replaced_file(path) as second:
        first.write(b"a" * 10)
        second.write(b"b" * 4)
    assert path.read_text() == "a" * 10, "which was the last one to end"


def test_permissions_are_those_of_the_old_file_or_of_any_new_one(tmp_path: Path) -> None:
    path, plain = tmp_path / "log.json", tmp_path / "plain"
    plain.touch()
    with replaced_file(path):
        pass
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    with replaced_file(path):
        pass
    assert path.stat().st_mode & 0o777 == 0o640


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "log.json"
    with pytest.raises(FileNotFoundError) as caught, replaced_file(path):
        pass
    assert caught.value.filename == str(path)
