"""Fusion of calls, and the passes that prepare it: views, separate outputs, transposes."""

from __future__ import annotations

import numpy as np
import pytest
from graph_modules import is_same, module_of

import tensorir
from tensorir import IRTypeError, IRValueError, relax, te, topi, verify_well_formed
from tensorir.interp.graphs import interpret_graph
from tensorir.memory.reshaping import flatten_indices, unravel_index
from tensorir.nodes.stmt import Block
from tensorir.relax import op
from tensorir.relax.calls import CALL_TIR, view
from tensorir.relax.function import graph_functions
from tensorir.rewriting.visit import walk
from tensorir.transform import (
    AnnotateTIROpPattern,
    CanonicalizeBindings,
    CombineTransposes,
    DeadCodeElimination,
    FoldConstant,
    FuseOps,
    FuseTIR,
    LegalizeOps,
    PassContext,
    RewriteDataflowReshape,
    SeparateOutputs,
    Sequential,
    SinkViews,
    default_pipeline,
)

# --------------------------------------------------------------------------------- FuseOps, FuseTIR

FUSE = Sequential([RewriteDataflowReshape(), FuseOps(), FuseTIR(), DeadCodeElimination()])


def legal(body: str, *, params: str = 'x: R.Tensor((4, 8), "float32")'):
    """Return the module of a graph function, one binding a line, with operators as kernels."""
    lines = "\n".join(f"            {line.strip()}" for line in body.strip().splitlines())
    text = (
        f"@I.ir_module\nclass Module:\n    @R.function\n    def main({params}):\n"
        f"        with R.dataflow():\n{lines}\n            R.output(y)\n        return y\n"
    )
    return LegalizeOps()(tensorir.parse(text))


def kernels(mod) -> list[str]:
    """Return the names of the calls of tensor functions in `main`, in order."""
    bindings = mod["main"].body.bindings
    values = [b.value for b in bindings if isinstance(b.value, relax.Call)]
    return [v.args[0].name for v in values if v.op is CALL_TIR]


def same_results(before, after, *shapes) -> None:
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    verify_well_formed(after)
    expected, found = (interpret_graph(mod, "main", *args) for mod in (before, after))
    np.testing.assert_array_equal(expected, found)


WEIGHTS = (
    'x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 6), "float32"), b: R.Tensor((6,), "float32")'
)
MATRICES = ((4, 8), (8, 6), (6,))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a = R.exp(x); y = R.negative(a)", ["fused_exp_negative"]),
        ("m = R.matmul(x, w); a = R.add(m, b); y = R.nn.relu(a)", ["fused_matmul_add_relu"]),
        # Diamonds: both ways of what a product gives, and two uses of an element-wise call.
        ("c = R.matmul(x, w); r = R.nn.relu(c); y = R.add(r, c)", ["fused_matmul_relu_add"]),
        ("a = R.exp(x); p = R.negative(a); q = R.sqrt(a); y = R.add(p, q)",
         ["fused_exp_negative_sqrt_add"]),
        # Element-wise before a softmax would be computed again for each of its stages.
        ("a = R.nn.relu(x); y = R.nn.softmax(a)", ["relu", "softmax"]),
        ("a = R.nn.softmax(x); y = R.nn.relu(a)", ["fused_softmax_relu"]),
        ("a = R.nn.relu(x); y = R.matmul(a, w)", ["relu", "matmul"]),
        # Two products are two functions; the sum belongs to the one that comes to it first.
        ("p = R.matmul(x, w); q = R.matmul(x, w); s = R.exp(q); y = R.add(p, s)",
         ["fused_matmul_exp", "fused_matmul_add"]),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else None,
)  # fmt: skip
def test_what_becomes_one_function(body, expected):
    mod = legal(body.replace("; ", "\n"), params=WEIGHTS)
    after = FUSE(mod)
    assert kernels(after) == expected
    same_results(mod, after, *MATRICES)


def test_a_group_is_a_private_function_with_constants_as_arguments():
    mod = legal("a = R.add(x, x)\ny = R.multiply(a, R.const([1.0, 2.0], 'float32'))",
                params='x: R.Tensor((3, 2), "float32")')  # fmt: skip
    after = FuseOps()(mod)
    group = after["fused_add_multiply"]
    assert [p.name for p in group.params] == ["x", "param_0"]
    assert "global_symbol" not in group.attrs
    assert group.attrs["Primitive"]
    same_results(mod, after, (3, 2))


def reshape(x, *shape):
    extents = [te.const(n, "int64") for n in shape]
    return te.compute(
        extents, lambda *i: x[tuple(unravel_index(flatten_indices(i, extents), x.shape))]
    )


def test_reshapes_at_the_ends_of_a_group_are_views_and_inside_of_it_loops():
    x = relax.Var("x", relax.TensorStructInfo((4, 6), "float32"))
    w = relax.Var("w", relax.TensorStructInfo((6, 6), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x, w]):
        with bb.dataflow():
            m = bb.emit_te(topi.matmul, x, w)
            r = bb.emit_te(reshape, m, 2, 2, 6)
            e = bb.emit_te(topi.exp, r)
            f = bb.emit_te(reshape, e, 12, 2)
            n = bb.emit_te(topi.negative, f)
            y = bb.emit_output(bb.call_te(reshape, n, 24))
        bb.emit_func_output(y)
    mod = bb.get()
    after = FUSE(mod)
    expected = tensorir.parse(
        """
    @R.function
    def main(x: R.Tensor((4, 6), "float32"), w: R.Tensor((6, 6), "float32")):
        with R.dataflow():
            m = R.call_tir(I.GlobalVar("matmul"), (x, w), out_sinfo=R.Tensor((4, 6), "float32"))
            r = R.memory.view(m, R.shape([2, 2, 6]))
            n = R.call_tir(I.GlobalVar("fused_exp_negative"), (r,), R.Tensor((12, 2), "float32"))
            y = R.memory.view(n, R.shape([24]))
            R.output(y)
        return y
    """,
        check_well_formed=False,
    )
    tensorir.assert_structural_equal(after["main"], expected)
    blocks = [n.name_hint for n in walk(after["fused_exp_negative"].body) if isinstance(n, Block)]
    assert blocks == ["root", "T_exp", "T_reshape", "T_negative"]
    same_results(mod, after, (4, 6), (6, 6))


def test_symbolic_sizes_become_parameters_where_no_shape_says_them():
    def spread(t, count):
        return te.compute((t.shape[0] * count,), lambda i: t[i % t.shape[0], 0])

    n, m = (te.var(name, "int64") for name in "nm")
    x = relax.Var("x", relax.TensorStructInfo((n, 4), "float32"))
    flat = relax.Var("flat", relax.TensorStructInfo((n * m,), "float32"))
    k = relax.Var("k", relax.ShapeStructInfo((m,)))
    bb = relax.BlockBuilder()
    with bb.function("main", [x, flat, k]):
        with bb.dataflow():
            a = bb.emit_te(topi.exp, x)
            b = bb.emit_te(spread, a, relax.PrimValue(m))
            y = bb.emit_output(bb.call_te(topi.exp, b))
        bb.emit_func_output(y)
    mod = bb.get()
    after = FUSE(mod)
    assert kernels(after) == ["fused_exp_spread_exp"]
    verify_well_formed(after)
    args = np.arange(12, dtype="float32").reshape(3, 4), np.zeros(6, "float32"), (2,)
    np.testing.assert_array_equal(
        interpret_graph(mod, "main", *args), interpret_graph(after, "main", *args)
    )


def test_a_view_inside_of_a_group_whose_shapes_do_not_say_a_size():
    n, m = (te.var(name, "int64") for name in "nm")
    x = relax.Var("x", relax.TensorStructInfo((n * m,), "float32"))
    k = relax.Var("k", relax.ShapeStructInfo((n, m)))
    bb = relax.BlockBuilder()
    with bb.function("main", [x, k]):
        with bb.dataflow():
            a = bb.emit_te(topi.exp, x)
            b = bb.emit(view(a, [n * m, 1]))
            y = bb.emit_output(bb.call_te(lambda t: te.compute(t.shape, lambda i, j: -t[i, j]), b))
        bb.emit_func_output(y)
    mod = bb.get()
    after = Sequential([FuseOps(), FuseTIR(), DeadCodeElimination()])(mod)
    assert len(kernels(after)) == 1
    assert verify_well_formed(after)
    args = np.arange(6, dtype="float32"), (2, 3)
    np.testing.assert_array_equal(
        interpret_graph(mod, "main", *args), interpret_graph(after, "main", *args)
    )


def test_a_chain_that_reads_what_is_before_several_times_is_cut():
    def cubed(x):
        return te.compute(x.shape, lambda i: x[i] * x[i] * x[i], name="cubed")

    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = x
            for _ in range(20):
                y = bb.emit_te(cubed, y)
            y = bb.emit_output(bb.call_te(cubed, y))
        bb.emit_func_output(y)
    counts = [name.count("cubed") for name in kernels(FUSE(bb.get()))]
    assert sum(counts) == 21
    assert max(counts) == 5


def test_levels_limits_and_kinds_that_are_stated():
    mod = legal("a = R.exp(x)\nb = R.sqrt(a)\ny = R.negative(b)")
    assert FuseOps(fuse_opt_level=0)(mod)["main"] is mod["main"]
    with PassContext(opt_level=0):
        assert FuseOps()(mod)["main"] is mod["main"]
    assert len(graph_functions(FuseOps(max_group_size=2)(mod))) == 2
    stated = AnnotateTIROpPattern()(mod)
    assert [int(stated[name].attrs["op_pattern"]) for name in ("exp", "sqrt", "negative")] == [
        0
    ] * 3
    stated["sqrt"] = stated["sqrt"].with_attr("op_pattern", 8)
    assert AnnotateTIROpPattern()(stated)["sqrt"] is stated["sqrt"]
    assert FuseOps()(stated)["main"] is stated["main"]
    assert "op_pattern" not in FuseTIR()(stated)["sqrt"].attrs
    stated["sqrt"] = stated["sqrt"].with_attr("op_pattern", 5)
    with pytest.raises(IRTypeError, match=r"op_pattern of sqrt must be one of 0 \(elementwise\)"):
        FuseOps()(stated)
    with pytest.raises(IRValueError, match="max_group_size must be at least 1, got 0"):
        FuseOps(max_group_size=0)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("y: F4 = R.call_pure_packed('f', x, sinfo_args=(F4,))", "it calls"),
        ("y = R.match_cast(x, F4)", "it checks y by match_cast"),
        ("y = R.call_tir(cls.add, (x, R.const([1.0, 2.0, 3.0, 4.0], 'float32')), out_sinfo=F4)",
         "which is not one of its tensors; pass it as a parameter"),
        ("y = x", "each of its results must be the output of another call"),
    ],
)  # fmt: skip
def test_groups_by_hand_that_are_no_tensor_function(body, reason):
    mod = module_of(f"""
    @R.function(private=True)
    def group(x: F4):
        R.func_attr({{"Primitive": True}})
        cls = Module
        {body}
        return y
    """)
    with pytest.raises(IRTypeError, match=reason):
        FuseTIR()(mod)


def test_the_default_pipeline_makes_one_function_of_a_layer():
    mod = tensorir.parse("""
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 6), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.nn.relu(a)
                c = R.exp(R.matmul(x, w))
                y = R.add(b, c)
                R.output(y)
            return y
    """)
    after = default_pipeline()(mod)
    assert kernels(after) == ["fused_matmul_relu_exp_add"]
    operators = after["fused_matmul_relu_exp_add"].attrs["fused_operators"]
    assert [str(name) for name in operators] == ["matmul", "relu", "exp", "add"]
    assert "FuseOps()" in repr(default_pipeline())
    same_results(LegalizeOps()(mod), after, (4, 8), (8, 6))


# ---------------------------------------------------------------------------------- SeparateOutputs


def test_results_that_are_computed_together_stay_so():
    mod = module_of("""
    @R.function
    def main(x: F4):
        cls = Module
        t = R.call_tir(cls.both, (x,), out_sinfo=[F4, F4])
        return t
    """)
    assert is_same(SeparateOutputs()(mod), mod)


def test_symbolic_sizes_go_along():
    n, k = te.var("n", "int64"), te.var("k", "int64")
    x = te.placeholder((n,), name="x")
    parts = [te.compute((n,), lambda i: x[i] * 2.0), te.compute((k,), lambda i: x[i % n])]
    func = te.create_prim_func([x, *parts, k], "int64").without_attr("global_symbol")
    mod = tensorir.parse(
        """
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def parts(X: T.Buffer((4,), "float32")):
            T.evaluate(0)

        @R.function
        def main(x: R.Tensor(("n",), "float32"), s: R.Shape(["k"])):
            n, k = T.int64(), T.int64()
            cls = Module
            t = R.call_tir(cls.parts, (x,), [R.Tensor((n,), "float32"), R.Tensor((k,), "float32")], tir_vars=R.shape([k]))
            return t
    """,
        check_well_formed=False,
    )
    mod["parts"] = func
    after = SeparateOutputs()(mod)
    assert {"parts_0", "parts_1"} <= set(after)
    assert len(after["parts_0"].params) == 2
    assert len(after["parts_1"].params) == 3
    assert verify_well_formed(after)
    args = np.arange(3, dtype="float32"), (5,)
    old, new = (interpret_graph(m, "main", *args) for m in (mod, after))
    for a, b in zip(old, new, strict=True):
        np.testing.assert_array_equal(a, b)


# -------------------------------------------------------------------------------- CombineTransposes

COMBINE = Sequential([CombineTransposes(), CanonicalizeBindings(), DeadCodeElimination()])
RNG = np.random.default_rng(0)


def constant(*shape):
    return relax.const(RNG.random(shape).astype("float32"))


def combined(formula, *shapes):
    """Return the tensor functions that are called after combining, which keeps results."""
    params = [
        relax.Var(f"x{k}", relax.TensorStructInfo(s, "float32")) for k, s in enumerate(shapes)
    ]
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            y = bb.emit_output(formula(*params))
        bb.emit_func_output(y)
    mod = LegalizeOps()(bb.get())
    after = COMBINE(mod)
    assert verify_well_formed(after)
    sizes = [[3 if n is N else n for n in shape] for shape in shapes]
    args = [RNG.random(size).astype("float32") for size in sizes]
    np.testing.assert_array_equal(
        interpret_graph(mod, "main", *args), interpret_graph(after, "main", *args)
    )
    values = [binding.value for binding in after["main"].body.bindings]
    return [v.args[0].name.rstrip("0123456789") for v in values if isinstance(v, relax.Call)]


def there(x):
    return op.permute_dims(x, (0, 2, 3, 1))


def back(x):
    return op.permute_dims(x, (0, 3, 1, 2))


def swapped(x):
    return op.permute_dims(x, (0, 2, 1, 3))


IMAGE = (2, 4, 5, 3)
N = te.var("n", "int64")


@pytest.mark.parametrize(
    ("formula", "shapes", "expected"),
    [
        (lambda x: op.exp(back(there(x))), [IMAGE], ["exp"]),
        (lambda x: op.exp(there(there(x))), [IMAGE], ["exp", "transpose"]),
        (lambda x: back(op.exp(there(x))), [IMAGE], ["exp"]),
        (lambda x: back(op.exp(there(x))), [(N, 4, 5, 3)], ["exp"]),
        (lambda x: back(op.clip(there(x), 0.0, 0.5) + constant(4)), [IMAGE], ["clip", "add"]),
        (lambda x: back(there(x) * constant(2, 5, 3, 4)), [IMAGE], ["multiply"]),
        (lambda x: back(there(x) + there(x)), [(1, 4, 5, 3)], ["add"]),
        (lambda x, y: back(op.exp(there(x)) + there(y)), [IMAGE, IMAGE], ["exp", "add"]),
        # One operand would have to be transposed for the other's sake.
        (lambda x, y: there(x) + y, [IMAGE, (2, 5, 3, 4)], ["permute_dims", "add"]),
        (lambda x: op.nn.softmax(there(x)), [IMAGE], ["permute_dims", "softmax"]),
        # Opaque functions read a tensor before a transpose that keeps its last dimension.
        (lambda x: swapped(op.nn.attention(*[swapped(x)] * 3)), [IMAGE], ["attention"]),
        (lambda x, y: op.nn.attention(x, swapped(y), swapped(y)), [IMAGE, (2, 5, 4, 3)], ["attention"]),
        (lambda x: op.nn.attention(*[swapped(x)] * 3), [(2, N, 4, 3)], ["attention", "permute_dims"]),
        (lambda x: op.nn.attention(*[there(x)] * 3), [IMAGE], ["permute_dims", "attention"]),
    ],
)  # fmt: skip
def test_what_is_left_of_transposes(formula, shapes, expected):
    assert combined(formula, *shapes) == expected


# ---------------------------------------------------------------- RewriteDataflowReshape, SinkViews


def test_the_view_of_a_row_is_no_view_of_the_result() -> None:
    body = """
    r = R.exp(v)
    s = R.reshape(r, R.shape([1, 8]))
    y = R.multiply(x, s)
    """
    params = 'x: R.Tensor((4, 8), "float32"), v: R.Tensor((8,), "float32")'
    mod = RewriteDataflowReshape()(legal(body, params=params))
    assert kernels(SinkViews()(mod)) == ["exp", "multiply"]


def test_views_of_constants_are_constants_that_share_data():
    data = np.arange(6, dtype="float32")
    mod = module_of("""
    @R.function
    def main():
        y = R.memory.view(R.const([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "float32"), R.shape([2, 3]))
        return y
    """)
    folded = FoldConstant()(mod)["main"].body.body
    assert folded.struct_info.static_shape == (2, 3)
    np.testing.assert_array_equal(folded.data, data.reshape(2, 3))


def test_what_cannot_be_viewed():
    x = relax.Var("x", relax.TensorStructInfo((2, 3), "float32"))
    assert view(x, [6]).struct_info.static_shape == (6,)
    with pytest.raises(IRValueError, match=r"another number than R.shape\(\[4\]\)"):
        view(x, [4])
    with pytest.raises(IRTypeError, match="whose shape and dtype are known, got"):
        view(relax.Var("x", relax.TensorStructInfo(None, "float32", 2)), [4])
    with pytest.raises(IRTypeError, match="state them by match_cast"):
        view(relax.Tuple([x]), [6])
