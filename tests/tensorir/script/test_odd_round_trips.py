"""Programs that no one writes by hand read back as they were, in every form of the text."""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tensorir import GlobalVar, I, IRModule, PrimFunc, R, T, parse
from tensorir.comparison.equal import get_first_structural_mismatch
from tensorir.comparison.structural_hash import structural_hash
from tensorir.errors import DiagnosticError
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Range, decl_buffer
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import FloatImm, IntImm, IterVar, PointerType, PrimType, Ramp, SizeVar, Var
from tensorir.nodes.ops import const
from tensorir.relax.expr import Constant

INTEGERS = ["int4", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
INDICES = ["int8", "int16", "int32", "int64"]
FLOATS = ["float16", "float32", "float64", "bfloat16", "e4m3_float8", "e5m2_float8"]
ODD = "a\"]); import os\n\t'#\\ \u2028\x00\x7f\ud800é\u202e"


def function(body, *buffers, attrs=None, params=()):
    handles = [Var(f"{buffer.name}_handle", "handle") for buffer in buffers]
    buffer_map = dict(zip(handles, buffers, strict=True))
    attrs = {"global_symbol": "main"} if attrs is None else attrs
    return PrimFunc([*handles, *params], body, None, buffer_map, attrs)


NOTHING = function(s.Evaluate(const(0)), attrs={})


def assert_reads_back(program, dialects=("tensorir", "tvm")):
    for dialect in dialects:
        for sugar in (True, False):
            text = program.script(dialect=dialect, syntax_sugar=sugar, show_meta=True)
            again = parse(text, check_well_formed=False)
            assert get_first_structural_mismatch(program, again) is None, text
            assert structural_hash(program) == structural_hash(again)
            assert again.script(dialect=dialect, syntax_sugar=sugar, show_meta=True) == text


def stored(value, *params):
    """Return a function that stores a value."""
    buffer = decl_buffer((4,), value.dtype, name="A")
    return function(s.BufferStore(buffer, value, [const(0)]), buffer, params=params)


# -------------------------------------------------------------------------------------- constants


@given(st.data())
def test_integers(data):
    dtype = data.draw(st.sampled_from(INTEGERS))
    low, high = e.integer_limits(DataType(dtype))
    value = IntImm(dtype, data.draw(st.sampled_from([low, high, 0]) | st.integers(low, high)))
    x = Var("x", dtype)
    assert_reads_back(stored(value))
    assert_reads_back(stored(e.Sub(e.Max(x, value), value), x))


SPECIAL = st.sampled_from([math.inf, -math.inf, math.nan, -0.0])


@given(st.data())
def test_floats(data):
    dtype = data.draw(st.sampled_from(FLOATS))
    anything = st.floats() if dtype == "float64" else st.floats(-1, 1, width=16)
    number = FloatImm(dtype, data.draw(SPECIAL | anything))
    x = Var("x", dtype)
    assert_reads_back(stored(number))
    assert_reads_back(stored(e.Sub(e.Max(x, number), number), x))


@pytest.mark.parametrize("value", [5e-324, 1e-45, 1e-12, 0.1, 448.0])
def test_floats_that_are_hard_to_spell(value):
    assert_reads_back(stored(FloatImm("float64", value)))


def memory(array, dtype, extents=None, annotations=None):
    pointer = Var("p", PointerType(PrimType(dtype)))
    extents = [const(n) for n in array.shape] if extents is None else extents
    body = s.Evaluate(const(0))
    return function(s.AllocateConst(pointer, dtype, extents, array, body, annotations))


@given(st.sampled_from(["float16", "float32", "float64"]), st.data())
def test_constant_memory_keeps_every_bit(dtype, data):
    size = int(dtype[5:])
    kinds = [0, 1, 1 << (size - 1), (1 << size) - 1, (1 << (size - 1)) - 1]
    bits = data.draw(st.lists(st.sampled_from(kinds) | st.integers(0, kinds[3]), max_size=5))
    special = np.array([np.nan, np.inf, -np.inf, -0.0], dtype)
    array = np.concatenate([special, np.array(bits, f"uint{size}").view(dtype)])
    assert_reads_back(memory(array, dtype))


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("int64", [-(1 << 63), (1 << 63) - 1]),
        ("uint64", [(1 << 64) - 1]),
        ("bool", [True, False]),
        ("bfloat16", [0x7FC0, 1, 0xFFFF]),
        ("e4m3_float8", [0x7F, 0x80, 1]),
        ("e5m2_float8", [0x7C, 0xFF]),
    ],
)
def test_constant_memory_of_other_types(dtype, values):
    array = np.array(values, DataType(dtype).to_numpy())
    assert_reads_back(memory(array, dtype))


def test_constant_memory_says_all_there_is():
    text = memory(np.array([np.nan, -np.inf, 0.5, -np.nan], "float32"), "float32").script()
    assert 'T.allocate_const(["nan", "-inf", 0.5, "0xffc00000"], "float32", [4])' in text
    extents = [const(2), const(1, "int64")]
    noted = memory(np.zeros((2, 1), "int8"), "int8", extents, {"note": {ODD: 1.5}})
    assert_reads_back(noted)


@pytest.mark.parametrize(("element", "shown"), [("none", "'none'"), ("0x123456789", "'0x1234")])
def test_elements_that_are_none(element, shown):
    text = memory(np.array([np.inf], "float32"), "float32").script().replace("inf", element)
    with pytest.raises(
        DiagnosticError, match=f"{shown}.* cannot be an element of an array of float32"
    ):
        parse(text)


# ----------------------------------------------------------------------------------------- slices


def gather(base, stride, lanes, *params):
    """Return `B[0:lanes] = A[base:...:stride]`."""
    a, b = (decl_buffer((const(64, base.dtype),), name=name) for name in "AB")
    to = Ramp(const(0, base.dtype), const(1, base.dtype), lanes)
    body = s.BufferStore(b, e.BufferLoad(a, [Ramp(base, stride, lanes)]), [to])
    return function(body, a, b, params=params)


@given(
    st.sampled_from(INDICES),
    st.integers(-60, 60),
    st.integers(-5, 5),
    st.integers(2, 16),
    st.booleans(),
)
def test_vectors_of_any_stride(dtype, base, stride, lanes, symbolic):
    i = Var("i", dtype)
    first = e.Add(i, const(base, dtype)) if symbolic and base else const(base, dtype)
    assert_reads_back(gather(first, const(stride, dtype), lanes, i))


def test_a_slice_whose_end_is_no_number_of_its_type():
    func = gather(const(100, "int8"), const(2, "int8"), 16)
    assert "A[T.Ramp(T.int8(100), T.int8(2), 16)]" in func.script()
    assert_reads_back(func)


@pytest.mark.parametrize(
    ("text", "base", "stride", "lanes"),
    [
        ("7:-1:-1", 7, -1, 8),
        ("14:-2:-2", 14, -2, 8),
        ("15:0:-2", 15, -2, 8),
        ("::-4", 15, -4, 4),
        ("::4", 0, 4, 4),
        ("1::5", 1, 5, 3),
        ("6::-3", 6, -3, 3),
    ],
)
def test_slices_with_steps(text, base, stride, lanes):
    func = parse(f"""
from tensorir import T
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    B[0:{lanes}] = A[{text}]
""")
    (index,) = func.body.value.indices
    assert (index.base.value, index.stride.value, index.lanes) == (base, stride, lanes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0:8:0", "the step of a slice must be a constant other than 0, got 0"),
        (
            "0:8:-1",
            "a slice in a vector access must have a constant length of at least 1, got 0:8:-1",
        ),
        ("8:0", "a slice in a vector access must have a constant length of at least 1, got 8:0:1"),
        ("0:n", "a slice in a vector access must have a constant length of at least 1, got 0:n:1"),
    ],
)
def test_slices_of_no_length(text, words):
    with pytest.raises(DiagnosticError, match=words):
        parse(f"""
from tensorir import T
@T.prim_func
def main(A: T.Buffer((16,), "float32"), n: T.int32):
    A[{text}] = T.Broadcast(T.float32(0), 8)
""")


# -------------------------------------------------------------------------- types of what is counted


@given(
    st.sampled_from([*INDICES, "uint32"]),
    st.sampled_from([(), ("int32",), ("int64",)]),
    st.sampled_from(["zero", "four", "var", "size", "twice"]),
    st.booleans(),
)
def test_types_of_offsets_and_strides(dtype, dims, kind, strided):
    var = SizeVar("o", dtype) if kind == "size" else Var("o", dtype)
    plain = {"zero": const(0, dtype), "four": const(4, dtype), "twice": e.Mul(var, const(2, dtype))}
    buffer = decl_buffer(
        [const(4, dim) for dim in dims],
        name="A",
        elem_offset=plain.get(kind, var),
        strides=[Var("s", dtype) for _ in dims] if strided else None,
    )
    assert_reads_back(function(s.Evaluate(const(0)), buffer))


@given(
    st.sampled_from(INDICES),
    st.sampled_from([*INDICES, "uint8", "uint64"]),
    st.integers(0, 2),
    st.lists(st.sampled_from([0, 2, 3, 4]), min_size=1, max_size=3),
)
def test_types_of_loops_and_axes(dtype, loop_dtype, low, kinds):
    loop = Var("i", loop_dtype)
    dom = Range.from_min_extent(const(low, dtype), const(4, dtype))
    axes = [IterVar(dom, Var("v", dtype), kind) for kind in kinds]
    block = s.Block(axes, [], [], "inner", s.Evaluate(T.call_extern("int32", "f", axes[0].var)))
    values = [e.Cast(dtype, loop) if loop_dtype[0] == "u" else loop for _ in axes]
    realize = s.BlockRealize(values, const(True), block)
    bounds = const(low, loop_dtype), const(4, loop_dtype)
    nest = s.For(loop, *bounds, s.ForKind.SERIAL, realize)
    root = s.Block([], [], [], "root", nest)
    assert_reads_back(function(s.BlockRealize([], const(True), root)))


# ----------------------------------------------------------------------------------------- strings


NAMES = st.one_of(
    st.sampled_from(["a-b", "a b", "a_b", "class", "T", "I", "cls", "Module", "0", "", "_x", ODD]),
    st.text(max_size=4),
)


@settings(max_examples=15)
@example(["a b", "a-b", "a_b"], True)
@given(st.lists(NAMES, min_size=1, max_size=4, unique=True), st.booleans())
def test_functions_of_any_name(names, public):
    calls = [s.Evaluate(e.Call("void", GlobalVar(name), [])) for name in names]
    attrs = {"global_symbol": names[0]} if public else {}
    caller = function(s.sequence(calls), attrs=attrs)
    assert_reads_back(IRModule({**dict.fromkeys(names, NOTHING), "caller": caller}))
    assert_reads_back(function(s.Evaluate(const(0)), attrs={"global_symbol": names[0]}))


def test_functions_whose_names_are_no_names():
    module = IRModule({"a-b": NOTHING, "a_b": NOTHING, "class": NOTHING})
    assert (
        module.script()
        == """from tensorir import I, T

@I.ir_module
class Module:
    @T.prim_func(name="a-b", private=True)
    def a_b_1():
        T.evaluate(0)

    @T.prim_func(private=True)
    def a_b():
        T.evaluate(0)

    @T.prim_func(name="class", private=True)
    def class_1():
        T.evaluate(0)"""
    )


@I.ir_module
class Graphs:
    @T.prim_func(name="add one", private=True)
    def add_one(x: T.Buffer((2,), "float32"), y: T.Buffer((2,), "float32")):
        for i in range(2):
            y[i] = x[i] + T.float32(1)

    @R.function(name="for")
    def inner(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        cls = Graphs
        y = R.call_tir(cls.add_one, (x,), out_sinfo=R.Tensor((2,), "float32"))
        return R.call_packed("f", y, sinfo_args=R.Tensor((2,), "float32"))

    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        cls = Graphs
        y: R.Tensor((2,), "float32") = cls.inner(x)
        return y


def test_graph_functions_of_any_name():
    assert set(Graphs.functions) == {"add one", "for", "main"}
    assert Graphs["for"].attrs["global_symbol"] == "for"
    assert_reads_back(Graphs)


def test_the_text_runs_as_a_file(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(Graphs.script(), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("program", path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    assert get_first_structural_mismatch(program.Module, Graphs) is None


def test_the_option_name_of_a_lone_function():
    @T.prim_func(name="a-b")
    def a_b():
        T.evaluate(0)

    assert a_b.attrs["global_symbol"] == "a-b"
    with pytest.raises(DiagnosticError, match="the option name must be a string, the others bools"):
        parse("from tensorir import T\n@T.prim_func(name=True)\ndef f():\n    pass")


@settings(max_examples=20)
@given(NAMES, st.one_of(st.integers(-9, 9), st.booleans(), st.floats(width=32), NAMES))
def test_strings_of_any_kind(text, value):
    p = Var(text, PointerType(PrimType("int8"), text or "global"))
    block = s.BlockRealize([], const(True), s.Block([], [], [], text, s.Evaluate(const(0))))
    call = s.Evaluate(T.call_extern("int32", text, e.StringImm(text)))
    body = s.AttrStmt(e.StringImm(text), text, const(1), s.sequence([call, block]))
    loop = s.For(Var(text), const(0), const(2), s.ForKind.SERIAL, body, None, {text: [value]})
    memory = s.Allocate(p, "int8", [const(1)], const(True), loop, {text: {text: value}})
    root = s.Block([], [], [], "root", memory)
    attrs = {"global_symbol": "main", text: [value, {text: value}]}
    buffer = decl_buffer((4,), name=text)
    func = function(s.BlockRealize([], const(True), root), buffer, attrs=attrs)
    assert_reads_back(func)
    assert_reads_back(IRModule({"main": func}, attrs={text: value}))


def test_arrays_of_graphs_keep_every_bit():
    array = np.array([np.nan, -0.0, 1e-45, -np.inf], "float32")
    array[3:].view("uint32")[:] = 0xFFC00001
    builder = parse(
        "from tensorir import R\n@R.function\ndef main():\n    x = C\n    return x",
        {"C": Constant(array)},
    )
    assert_reads_back(builder, ["tensorir"])
