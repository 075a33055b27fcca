"""Graphs of tensors become functions with the published names, blocks and regions."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from tensorir import (
    Block,
    IRModule,
    IRTypeError,
    IRValueError,
    T,
    assert_structural_equal,
    decl_buffer,
    parse,
    te,
    verify_well_formed,
)
from tensorir.interp import interpret
from tensorir.nodes.expr import BufferLoad
from tensorir.nodes.stmt import BufferStore, For, ForKind
from tensorir.rewriting.visit import walk
from tests.recorded import RECORDED, recorded


def body(func):
    """Return the lines of a function after its signature and attributes."""
    return func.script().split('T.func_attr({"tir.noalias": True})\n')[1]


def blocks(func):
    """Return the blocks of a function by name, in program order."""
    return {node.name_hint: node for node in walk(func.body) if isinstance(node, Block)}


def checked(*ops, **options):
    """Return the function of `ops`, which is well-formed and survives its own text."""
    func = te.create_prim_func(list(ops), **options)
    verify_well_formed(func)
    assert_structural_equal(parse(func.script()), func)
    return func


# --------------------------------------------------------------------------- programs of the vectors


def matmul(n, m, k):
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), "k")
    return a, b, te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")


def matmul_relu():
    a, b, c = matmul(16, 16, 16)
    return a, b, te.compute((16, 16), lambda *i: te.max(c(*i), 0.0))


def chain():
    a = te.placeholder((30, 21), name="A")
    b = te.compute((30, 21), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((30, 21), lambda i, j: b[i, j] + 1.0, name="C")
    return a, te.compute((21, 30), lambda i, j: c[j, i] - a[j, i], name="D")


def rowmax():
    a = te.placeholder((8, 64), name="A")
    k = te.reduce_axis((0, 64), "k")
    m = te.compute((8,), lambda i: te.max(a[i, k], axis=k), name="M")
    return a, te.compute((8, 64), lambda i, j: a[i, j] - m[i], name="E")


def stencil():
    a = te.placeholder((16, 16), name="A")

    def padded(i0, i1):
        inside = te.all(i0 >= 1, i0 < 17, i1 >= 1, i1 < 17)
        return te.if_then_else(inside, a[i0 - 1, i1 - 1], 0.0)

    pad = te.compute((18, 18), padded, name="pad")
    k, m = te.reduce_axis((0, 3), "k"), te.reduce_axis((0, 3), "l")
    s = te.compute((16, 16), lambda i, j: te.sum(pad[i + k, j + m], axis=[k, m]), name="S")
    return a, te.compute((16, 16), lambda i, j: s[i, j] * 0.111, name="R")


PROGRAMS = {
    "MM128": lambda: matmul(128, 128, 128),
    "matmul": lambda: matmul(16, 24, 32),
    "mm_relu": matmul_relu,
    "chain": chain,
    "rowmax": rowmax,
    "stencil": stencil,
}


def published():
    found = {}
    for name in RECORDED:
        for entry in recorded(name):
            if entry["workload"] in PROGRAMS:
                found[entry["workload"]] = entry["before"]
    return [pytest.param(name, text, id=name) for name, text in found.items()]


@pytest.mark.parametrize(("name", "text"), published())
def test_programs_are_the_published_ones(name, text):
    func = te.create_prim_func(PROGRAMS[name]())
    assert_structural_equal(func, parse(text))
    assert func.script(dialect="tvm") == text


# ------------------------------------------------------------------------------------------- stages


def test_attributes_and_parameters():
    func = checked(*matmul(8, 16, 32))
    assert [param.name for param in func.params] == ["var_A", "var_B", "var_C"]
    assert func.attrs["global_symbol"] == "main"
    assert int(func.attrs["tir.noalias"]) == 1


def test_parameters_come_in_the_order_asked_for():
    a, b, c = matmul(8, 16, 32)
    func = checked(c, b, a)
    assert [func.buffer_map[p].name for p in func.params] == ["C", "B", "A"]


def test_one_tensor_alone():
    ones = te.compute((4,), lambda i: te.const(1.0, "float32"), name="ones")
    out = np.zeros(4, "float32")
    interpret(te.create_prim_func(ones), out)
    np.testing.assert_array_equal(out, 1)


def test_one_graph_gives_independent_functions():
    tensors = matmul(8, 16, 32)
    first, second = te.create_prim_func(tensors), te.create_prim_func(tensors)
    assert_structural_equal(first, second)
    verify_well_formed(IRModule({"first": first, "second": second}))


def test_names_that_repeat():
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0)
    c = te.compute((4,), lambda i: b[i] + 1.0)
    d = te.compute((4,), lambda i: c[i] + 1.0)
    assert list(blocks(checked(a, d))) == ["root", "compute", "compute_1", "compute_2"]


def test_rank_zero():
    a = te.placeholder((), name="a")
    twice = te.compute((), lambda: a() * 2.0, name="b")
    found = np.zeros((), "float32")
    interpret(checked(a, twice), np.array(3, "float32"), found)
    assert found == 6


def argmax_of(rows, columns):
    index = te.placeholder((rows, columns), "int32", name="index")
    value = te.placeholder((rows, columns), name="value")
    argmax = te.comm_reducer(
        lambda x, y: (te.Select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda i, v: (te.const(-1, i), te.min_value(v)),
    )
    k = te.reduce_axis((0, columns), "k")
    best = te.compute((rows,), lambda i: argmax((index[i, k], value[i, k]), axis=k), name="argmax")
    return index, value, *best


def test_components_of_a_reduction_compiled():
    func = te.create_prim_func(argmax_of(4, 8))
    values = np.random.default_rng(0).random((4, 8), "float32")
    index = np.broadcast_to(np.arange(8, dtype="int32"), (4, 8)).copy()
    where, most = np.zeros(4, "int32"), np.zeros(4, "float32")
    codegen.build(func, target="llvm -num-cores=1")["main"](index, values, where, most)
    np.testing.assert_array_equal(where, values.argmax(1))
    np.testing.assert_array_equal(most, values.max(1))


# ------------------------------------------------------------------------- domains that depend on axes


def test_dependent_domains_are_nested_blocks():
    x = te.placeholder((8, 8), name="X")

    def triangle(i):
        k = te.reduce_axis((0, i + 1), "k")
        return te.sum(x[i, k], axis=k)

    func = checked(x, te.compute((8,), triangle, name="Y"))
    assert (
        body(func)
        == """\
    # with T.block("root"):
    for i in range(8):
        with T.block("Y_l1"):
            v_i = T.axis.spatial(8, i)
            T.reads(X[v_i, 0:v_i + 1])
            T.writes(Y[v_i])
            for k in range(v_i + 1):
                with T.block("Y"):
                    v_i_1 = T.axis.spatial((v_i, v_i + 1), v_i)
                    v_k = T.axis.reduce(v_i + 1, k)
                    T.reads(X[v_i_1, v_k])
                    T.writes(Y[v_i_1])
                    with T.init():
                        Y[v_i_1] = T.float32(0.0)
                    Y[v_i_1] = Y[v_i_1] + X[v_i_1, v_k]"""
    )
    data, out = np.random.default_rng(0).random((8, 8), "float32"), np.zeros(8, "float32")
    codegen.build(func, target="llvm -num-cores=1")["main"](data, out)
    np.testing.assert_allclose(out, np.tril(data).sum(1), rtol=1e-6)


def test_reduction_axes_that_depend_on_each_other_start_once():
    x = te.placeholder((6, 6, 6), name="X")

    def element(i):
        a = te.reduce_axis((0, i + 1), "a")
        b = te.reduce_axis((0, a + 1), "b")
        return te.sum(x[i, a, b], axis=[a, b])

    func = checked(x, te.compute((6,), element, name="Y"))
    data, out = np.random.default_rng(0).random((6, 6, 6), "float32"), np.zeros(6, "float32")
    expected = [sum(data[i, a, : a + 1].sum() for a in range(i + 1)) for i in range(6)]
    interpret(func, data, out)
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    codegen.build(func, target="llvm -num-cores=1")["main"](data, out)
    np.testing.assert_allclose(out, expected, rtol=1e-6)


# --------------------------------------------------------------------------- symbols and index dtype


def test_scalars_are_parameters():
    a, alpha = te.placeholder((4,), name="A"), te.var("alpha", "float32")
    func = checked(a, alpha, te.compute((4,), lambda i: a[i] * alpha, name="B"))
    data, out = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    interpret(func, data, 3.0, out)
    np.testing.assert_array_equal(out, data * 3)


def test_wide_dimensions_give_wide_loops():
    n = te.const(4, "int64")
    a = te.placeholder((n,), name="A")
    func = checked(a, te.compute((n,), lambda i: a[i] + 1.0, name="B"))
    loop = func.body.block.body
    assert loop.loop_var.dtype == loop.body.block.iter_vars[0].var.dtype == "int64"


def test_index_dtype_override_keeps_values():
    counts = te.compute((4,), lambda i: i * 3, name="counts")
    func = checked(counts, index_dtype_override="int64")
    out = np.zeros(4, "int32")
    interpret(func, out)
    np.testing.assert_array_equal(out, [0, 3, 6, 9])


# ---------------------------------------------------------------------------------------- attributes


def test_attributes_become_annotations():
    a = te.placeholder((4,), name="A")
    attrs = {"axis": 1, "of": a, "workload": "dropped", "list": [1, {"deep": "text"}]}
    func = checked(a, te.compute((4,), lambda i: a[i] + 1.0, name="B", attrs=attrs))
    notes = func.body.block.body.body.block.annotations
    assert sorted(notes) == ["axis", "list", "of"]
    assert int(notes["axis"]) == 1
    assert notes["of"] is func.buffer_map[func.params[0]]


def test_layout_free_placeholders():
    a, b, _ = matmul(8, 16, 32)
    scale = te.compute((32, 16), lambda i, j: b[i, j] * 2.0, name="scale")
    k = te.reduce_axis((0, 32), "k")
    c = te.compute(
        (8, 16),
        lambda i, j: te.sum(a[i, k] * scale[k, j] * b[k, j], axis=k),
        name="C",
        attrs={"layout_free_placeholders": [scale, b]},
    )
    func = te.create_prim_func([a, b, c])
    assert [int(k) for k in func.attrs["layout_free_buffers"]] == [1]
    notes = blocks(func)["C"].annotations
    assert [buffer.name for buffer in notes["layout_free_placeholders"]] == ["scale"]


# ----------------------------------------------------------------------------------- extern functions


@T.prim_func
def double(X: T.Buffer((4, 4), "float32"), Y: T.Buffer((4, 4), "float32")):
    T.func_attr({"global_symbol": "double"})
    half = T.alloc_buffer((4, 4), "float32")
    for i, j in T.grid(4, 4):
        with T.block("half"):
            vi, vj = T.axis.remap("SS", [i, j])
            half[vi, vj] = X[vi, vj] * T.float32(0.5)
    for i, j in T.grid(4, 4):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = half[vi, vj] * T.float32(4)


def test_extern_primfunc_that_does_not_fit():
    with pytest.raises(IRValueError, match=r"shapes \(4, 5\) and \(4, 4\) differ"):
        te.extern_primfunc([te.placeholder((4, 5), name="A")], double)
    with pytest.raises(
        IRTypeError, match="passes tensor A as X: dtype mismatch, int32 and float32"
    ):
        te.extern_primfunc([te.placeholder((4, 4), "int32", name="A")], double)
    with pytest.raises(IRValueError, match=r"reads 1 buffer\(s\), got 0 tensor\(s\)"):
        te.extern_primfunc([], double)


@T.prim_func
def scale(x: T.handle, y: T.handle):
    n, step = T.int32(), T.int32()
    X = T.match_buffer(x, (n, 4), strides=(step, 1))
    Y = T.match_buffer(y, (n, 4))
    for i, j in T.grid(n, 4):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vi, vj] * T.Cast("float32", step)


def test_extern_primfunc_with_a_symbolic_layout():
    a = te.placeholder((6, 4), name="A")
    func = checked(a, te.extern_primfunc([a], scale, name="B"))
    data, out = np.ones((6, 4), "float32"), np.zeros((6, 4), "float32")
    interpret(func, data, out)
    assert (out == 4).all()


def copy_of(ins, outs):
    i = te.var("i")
    body = BufferStore(outs[0], BufferLoad(ins[0], [i]), [i])
    return For(i, te.const(0), te.const(8), ForKind.SERIAL, body)


def test_extern_of_a_call():
    a = te.placeholder((8,), name="A")
    sums, count = te.extern(
        [(2, 4), (1,)],
        [a],
        lambda ins, outs: T.call_extern(
            "int32", "f", ins[0].access_ptr("r"), outs[0].access_ptr("w"), outs[1].data
        ),
        name="calls",
        dtype=["float32", "int32"],
        attrs={"note": 1},
    )
    assert [t.name for t in (sums, count)] == ["calls.v0", "calls.v1"]
    func = checked(a, sums, count)
    block = func.body.block
    reads, writes = ([str(r) for r in regions] for regions in (block.reads, block.writes))
    assert reads == ["A[0:8]"]
    assert writes == ["calls_v0[0:2, 0:4]", "calls_v1[0]"]


@pytest.mark.parametrize("layout", [{"strides": [16, 1]}, {"elem_offset": 4}])
def test_arguments_have_the_layouts_that_a_function_wants(layout):
    a = te.placeholder((4, 8), name="A")
    given = decl_buffer((4, 8), name="given", **layout)

    def compute(ins, outs):
        return T.call_packed("f", ins[0], outs[0])

    b = te.extern((4, 8), [a], compute, name="B", in_buffers=given)
    c = te.compute((4, 8), lambda i, j: a[i, j] + b[i, j], name="C")
    (_, *params) = (func := te.create_prim_func([c, a, b])).params
    first, second = (func.buffer_map[param] for param in params)
    assert [int(n) for n in first.strides] == layout.get("strides", [])
    assert int(first.elem_offset) == layout.get("elem_offset", 0)
    assert not second.strides
    doubled = te.compute((4, 8), lambda i, j: a[i, j] * 2.0, name="D")
    func = te.create_prim_func([a, te.extern((4, 8), [doubled], copy_of_matrix), b])
    assert "D = T.alloc_buffer((4, 8))" in func.script()
    wanted = te.extern((4, 8), [doubled], compute, name="E", in_buffers=given)
    with pytest.raises(IRValueError, match="needs the tensor D with strides"):
        te.create_prim_func([a, wanted])
    with pytest.raises(IRValueError, match="needs another layout of tensor A"):
        te.create_prim_func([a, b, te.extern((4, 8), [a], copy_of_matrix)])


def copy_of_matrix(ins, outs):
    return BufferStore(outs[0], ins[0][0, 0], [te.const(0), te.const(0)])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"inputs": [1]}, IRTypeError, "needs tensors, got int as input 0"),
        ({"inputs": []}, IRTypeError, "do not determine the dtypes of its outputs"),
        ({"dtype": ["int8", "int8"]}, IRValueError, r"1 output\(s\), and 2 dtype\(s\)"),
        ({"fcompute": lambda ins, outs: None}, IRTypeError, "or an expression, got NoneType"),
        ({"in_buffers": []}, IRValueError, r"has 1 input\(s\), and 0 in_buffer\(s\)"),
        ({"in_buffers": decl_buffer((9,))}, IRValueError, r"shapes \(8\) and \(9\) differ"),
        ({"out_buffers": decl_buffer((8,), "int8")}, IRTypeError, "dtype mismatch"),
    ],
)
def test_externs_that_do_not_fit(options, error, message):
    a = te.placeholder((8,), name="A")
    with pytest.raises(error, match=message):
        te.extern(**{"shape": (8,), "inputs": [a], "fcompute": copy_of, **options})


# ------------------------------------------------------------------------------------------- refused


def test_inputs_must_be_arguments():
    a, _, c = matmul(4, 4, 4)
    with pytest.raises(
        IRValueError, match="the tensor B is needed, but does not appear as a function argument"
    ):
        te.create_prim_func([a, c])


def test_arguments_must_be_tensors_or_variables():
    a, b, c = matmul(4, 4, 4)
    with pytest.raises(IRTypeError, match="needs tensors and variables, got str as item 1: 'B'"):
        te.create_prim_func([a, "B", c])
    with pytest.raises(IRTypeError, match="got PlaceholderOp as item 0"):
        te.create_prim_func([a.op])
    with pytest.raises(IRValueError, match=r"A occurs twice in the arguments of"):
        te.create_prim_func([a, b, c, a])


def test_variables_must_be_defined():
    a, n, k = te.placeholder((4,), name="A"), te.var("n"), te.reduce_axis((0, 4), "k")
    scaled = te.compute((4,), lambda i: a[i] * n, name="scaled")
    with pytest.raises(IRValueError, match="'scaled' uses the undefined variable n"):
        te.create_prim_func([a, scaled])
    checked(a, n, scaled)
    loose = te.compute((4,), lambda i: a[i] * a[k], name="loose")
    with pytest.raises(
        IRValueError, match=r"undefined variable k: .* must be passed to the reducer"
    ):
        te.create_prim_func([a, loose])
