"""ONNX models become graph functions: names, shapes, weights, functions, what is refused."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codegen
from tensorir import IRTypeError, IRValueError, frontend
from tensorir.transform import LegalizeOps

onnx = pytest.importorskip("onnx", reason="reading ONNX models takes the package onnx")
helper, FLOAT, INT64 = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def model(
    nodes: Sequence[Any],
    inputs: dict[str, Sequence[int | str]],
    outputs: Sequence[str],
    weights: dict[str, Any] | None = None,
    opset: int = 17,
    **kwargs: Any,
) -> Any:
    """Return a model over float32 inputs; weights are arrays."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **kwargs)


def run(proto: Any, *inputs: Any) -> Any:
    """Import, build and run a model."""
    return compiled(proto)(*inputs)


def test_a_model_is_a_graph_function() -> None:
    proto = model(
        [
            helper.make_node("Add", ["x", "w"], ["sum.1"]),
            helper.make_node("Relu", ["sum.1"], ["out"]),
        ],
        {"x": ["batch", 2]},
        ["out"],
        {"w": np.array([1, -1], "float32")},
    )
    mod = frontend.from_onnx(proto)
    assert (
        mod.script()
        == """\
from tensorir import I, R, T

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("batch", 2), dtype="float32")) -> R.Tensor(("batch", 2), dtype="float32"):
        batch = T.int64()
        with R.dataflow():
            sum_1: R.Tensor((batch, 2), dtype="float32") = R.add(x, R.const([1.0, -1.0], "float32"))
            out: R.Tensor((batch, 2), dtype="float32") = R.nn.relu(sum_1)
            R.output(out)
        return out"""
    )
    x = np.array([[1, 2], [-3, 4], [0, 0]], "float32")
    np.testing.assert_array_equal(
        run(proto, x).numpy(), np.maximum(x + np.array([1, -1], "float32"), 0)
    )


def test_sizes_that_have_to_be_equal_are_checked_when_the_model_runs() -> None:
    proto = model(
        [helper.make_node("Add", ["x", "y"], ["out"])], {"x": ["n", 2], "y": ["m", 2]}, ["out"]
    )
    x = np.ones((3, 2), "float32")
    np.testing.assert_array_equal(run(proto, x, x).numpy(), x + x)
    with pytest.raises(IRValueError, match=r"dimension 0 is 2, expected 3"):
        run(proto, x, x[:2])


def test_all_unsupported_operators_are_said_at_once() -> None:
    proto = model(
        [
            helper.make_node("Foo", ["x"], ["a"], name="first"),
            helper.make_node("Foo", ["a"], ["b"]),
            helper.make_node("Bar", ["b"], ["c"], domain="my.domain"),
        ],
        {"x": [2]},
        ["c"],
    )
    with pytest.raises(IRValueError) as caught:
        frontend.from_onnx(proto)
    assert str(caught.value) == (
        "the model has 2 operator(s) that are not supported:\n"
        "  Foo: 2 node(s), 'first', 'b'\n"
        "  my.domain.Bar: 1 node(s), 'c'"
    )


# --------------------------------------------------------------------------------- sizes and shapes


def calls(mod: Any) -> list[str]:
    """Return the values that variables are bound to, as the script has them."""
    lines = [line.strip() for line in mod.script().splitlines()]
    return [line.partition(" = ")[2] for line in lines if " = R." in line]


def test_integers_that_shapes_are_computed_from_are_known() -> None:
    """As `torch` exports `x.view(x.shape[0], -1, 2 * heads)`."""
    proto = model(
        [
            helper.make_node("Shape", ["x"], ["shape"]),
            helper.make_node("Gather", ["shape", "zero"], ["n"], axis=0),
            helper.make_node("Unsqueeze", ["n", "axes"], ["row"]),
            helper.make_node("Mul", ["heads", "two"], ["width"]),
            helper.make_node("Concat", ["row", "rest", "width"], ["target"], axis=0),
            helper.make_node("Reshape", ["x", "target"], ["out"]),
        ],
        {"x": ["n", 3, 8]},
        ["out"],
        {
            "zero": np.array(0),
            "axes": np.array([0]),
            "heads": np.array([2]),
            "two": np.array([2]),
            "rest": np.array([-1]),
        },
    )
    assert calls(frontend.from_onnx(proto)) == ["R.reshape(x, R.shape([n, 6, 4]))"]


def test_where_and_equal_of_sizes_are_decided() -> None:
    """As `torch` exports `x.expand(-1, 4)`: a size is not -1."""
    proto = model(
        [
            helper.make_node("Shape", ["y"], ["shape"]),
            helper.make_node("Equal", ["shape", "minus"], ["is_minus"]),
            helper.make_node("Where", ["is_minus", "ones", "shape"], ["target"]),
            helper.make_node("Expand", ["x", "target"], ["out"]),
        ],
        {"x": [1, 4], "y": ["n", 4]},
        ["out"],
        {"minus": np.array([-1, -1]), "ones": np.array([1, 1])},
    )
    assert calls(frontend.from_onnx(proto)) == ["R.broadcast_to(x, R.shape([n, 4]))"]


def test_a_shape_that_is_an_input_is_looked_at_when_the_model_runs() -> None:
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["out"])],
        "graph",
        [
            helper.make_tensor_value_info("x", FLOAT, [2, "n"]),
            helper.make_tensor_value_info("shape", INT64, [3]),
        ],
        [helper.make_tensor_value_info("out", FLOAT, None)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    x = np.arange(12, dtype="float32").reshape(2, 6)
    main = compiled(proto)
    for shape in ([3, 2, 2], [0, -1, 1]):
        np.testing.assert_array_equal(
            main(x, np.array(shape)).numpy(), x.reshape([2 if n == 0 else n for n in shape])
        )
    with pytest.raises(codegen.LibraryFunctionError, match=r"cannot be reshaped to \[5, 5, -1\]"):
        main(x, np.array([5, 5, -1]))


def compiled(proto: Any) -> Callable[..., Any]:
    """Return the function of a model, compiled without schedules."""
    mod = LegalizeOps()(frontend.from_onnx(proto))
    return codegen.VirtualMachine(codegen.vm_build(mod, "llvm"), codegen.cpu())["main"]


def test_sizes_that_data_decide() -> None:
    proto = model(
        [
            helper.make_node("NonZero", ["x"], ["places"]),
            helper.make_node("Transpose", ["places"], ["out"], perm=[1, 0]),
        ],
        {"x": [2, 3]},
        ["out"],
    )
    assert calls(frontend.from_onnx(proto)) == [
        "R.nonzero(x)",
        'R.match_cast(places, R.Tensor((places_0, places_1), dtype="int64"))',
        "R.permute_dims(places1, axes=[1, 0])",
    ]
    x = np.array([[0, 1, 0], [2, 0, 3]], "float32")
    np.testing.assert_array_equal(run(proto, x).numpy(), np.argwhere(x))


def test_shapes_and_dtypes_of_inputs_may_be_stated() -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["out"])],
        "graph",
        [helper.make_tensor_value_info("x", 0, None)],
        [helper.make_tensor_value_info("out", 0, None)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    mod = frontend.from_onnx(proto, shape_dict={"x": ["n", 3]}, dtype_dict={"x": "float64"})
    assert str(mod["main"].params[0].struct_info) == 'R.Tensor((n, 3), dtype="float64")'
    with pytest.raises(IRValueError, match=r"the input 'x' has an unknown shape; state it"):
        frontend.from_onnx(proto)
    with pytest.raises(IRValueError, match=r"a shape is given for the unknown input 'z'; .* are x"):
        frontend.from_onnx(proto, shape_dict={"z": [1]})
    graph.input[0].CopyFrom(helper.make_tensor_value_info("x", 1, ["n", 3]))
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    with pytest.raises(IRValueError, match=r"1 dimensions for the input 'x'; .* has 2: \(n, 3\)"):
        frontend.from_onnx(proto, shape_dict={"x": [1]})


def test_weights_may_be_parameters() -> None:
    w = np.array([1, -1], "float32")
    proto = model([helper.make_node("Add", ["x", "w.0"], ["out"])], {"x": [2]}, ["out"], {"w.0": w})
    mod = frontend.from_onnx(proto, keep_params_in_input=True)
    main = mod["main"]
    assert [p.name for p in main.params] == ["x", "w_0"]
    assert [p.name for p in main.weights] == ["w_0"]
    np.testing.assert_array_equal(mod.attrs["params"]["w_0"], w)


# ----------------------------------------------------------------------------------------- functions


def test_functions_of_a_model_are_expanded() -> None:
    scaled = helper.make_function(
        "mine",
        "Scaled",
        ["a"],
        ["b"],
        [
            helper.make_node("Constant", [], ["factor"]),
            helper.make_node("Mul", ["a", "factor"], ["b"]),
        ],
        [helper.make_opsetid("", 17)],
        attributes=["by"],
    )
    reference = scaled.node[0].attribute.add()
    reference.name, reference.ref_attr_name = "value_float", "by"
    reference.type = onnx.AttributeProto.FLOAT
    proto = model(
        [
            helper.make_node("Scaled", ["x"], ["y"], domain="mine", by=2.0),
            helper.make_node("Scaled", ["y"], ["out"], domain="mine", by=3.0),
        ],
        {"x": [2]},
        ["out"],
        functions=[scaled],
    )
    assert calls(frontend.from_onnx(proto)) == [
        'R.multiply(x, R.const(2.0, "float32"))',
        'R.multiply(b, R.const(3.0, "float32"))',
    ]


def test_an_operator_without_a_converter_is_what_onnx_defines_it_by() -> None:
    proto = model(
        [helper.make_node("SwiGLU", ["x", "y"], ["out"])], {"x": [3], "y": [3]}, ["out"], opset=28
    )
    x, y = np.array([1, -2, 3], "float32"), np.array([2, 2, -1], "float32")
    expected = x / (1 + np.exp(-x)) * y
    np.testing.assert_allclose(run(proto, x, y).numpy(), expected, rtol=1e-6)


def test_a_function_that_depends_on_attributes_sees_those_that_are_given() -> None:
    # The body of this loss has a node whose ignore_index refers to that of the loss.
    proto = model(
        [
            helper.make_node("Cast", ["y"], ["labels"], to=onnx.TensorProto.INT64),
            helper.make_node("SoftmaxCrossEntropyLoss", ["x", "labels"], ["/loss/out.0"]),
        ],
        {"x": [3, 5], "y": [3]},
        ["/loss/out.0"],
        opset=13,
    )
    x = np.random.default_rng(0).standard_normal((3, 5)).astype("float32")
    y = np.array([0, 3, 1], "float32")
    log_softmax = x - np.log(np.exp(x).sum(1, keepdims=True))
    expected = -log_softmax[np.arange(3), y.astype(int)].mean()
    np.testing.assert_allclose(run(proto, x, y).numpy(), expected, rtol=1e-6)


# ------------------------------------------------------------------------------- weights and files


def external(tmp_path: Path, location: str) -> Path:
    """Return the path of a model whose weight is in another file."""
    proto = model(
        [helper.make_node("Add", ["x", "w"], ["out"])],
        {"x": [2]},
        ["out"],
        {"w": np.array([1, 2], "float32")},
    )
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": "4", "length": "8"}.items():
        tensor.external_data.add(key=key, value=value)
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_external_data_lie_beside_the_model(tmp_path: Path) -> None:
    path = external(tmp_path, "data/w.bin")
    (tmp_path / "data").mkdir()
    np.array([7, 8, 9], "float32").tofile(tmp_path / "data" / "w.bin")
    assert calls(frontend.from_onnx(path)) == ['R.add(x, R.const([8.0, 9.0], "float32"))']
    with pytest.raises(
        IRValueError, match=r"in the external file 'data/w.bin'; .* the path of the model"
    ):
        frontend.from_onnx(onnx.load(path, load_external_data=False))


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("none.bin", r"'w' is in 'none.bin', but the model's folder has no such file"),
        ("../w.bin", r"'w' is in '../w.bin', outside of the folder of the model"),
        ("/etc/hostname", r"'w' is in '/etc/hostname', which must be a relative path"),
        ("link.bin", r"'w' is in 'link.bin', outside of the folder of the model"),
        ("short.bin", r"'w' ends at byte 12 of short.bin, which has 8 bytes"),
        (".", r"'w' is in '.', but the model's folder has no such file"),
        ("", r"'w' is in '', which must be a relative path"),
    ],
)
def test_external_data_elsewhere_are_not_read(tmp_path: Path, location: str, message: str) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    np.zeros(3, "float32").tofile(tmp_path / "w.bin")
    np.zeros(2, "float32").tofile(folder / "short.bin")
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(IRValueError, match=message):
        frontend.from_onnx(external(folder, location))


def owner(array: Any) -> Any:
    """Return what has the memory of an array."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array.obj if isinstance(array, memoryview) else array


def test_long_weights_are_mapped(tmp_path: Path) -> None:
    weights = {
        "w": np.arange(3000, dtype="float32"),
        "short": np.array([1], "float32"),
        "last": np.arange(3000, dtype="float32") + 1,
    }
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["a"]),
        helper.make_node("Mul", ["a", "short"], ["b"]),
        helper.make_node("Add", ["b", "last"], ["out"]),
    ]
    path = tmp_path / "model.onnx"
    path.write_bytes(model(nodes, {"x": [3000]}, ["out"], weights).SerializeToString())
    mod = frontend.from_onnx(path)
    consts = [b.value.args[1].data for b in mod["main"].body.bindings]
    for found, expected in zip(consts, weights.values(), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert isinstance(owner(consts[0]), mmap.mmap)
    x = np.full(3000, 2, "float32")
    result = codegen.VirtualMachine(codegen.vm_build(LegalizeOps()(mod), "llvm"), codegen.cpu())
    np.testing.assert_array_equal(result["main"](x).numpy(), x * weights["w"] + weights["last"])
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(IRValueError, match=r"model.onnx is not an ONNX model, or is incomplete"):
        frontend.from_onnx(path)


def test_weights_that_are_not_finite_are_kept() -> None:
    w = np.array([np.nan, np.inf], "float32")
    proto = model([helper.make_node("Add", ["x", "w"], ["out"])], {"x": [2]}, ["out"], {"w": w})
    np.testing.assert_array_equal(run(proto, np.zeros(2, "float32")).numpy(), w)


# ---------------------------------------------------------------------------------- what is refused


def relu(
    *inputs: str, op: str = "Relu", outputs: Sequence[str] = ("out",), **attributes: Any
) -> Any:
    return helper.make_node(op, list(inputs), list(outputs), name="here", **attributes)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            [relu("x", alpha=1.0)],
            r"node 'here' \(Relu\): unknown attribute alpha; the attributes are none",
        ),
        ([relu("x", "x")], r"node 'here' \(Relu\): expected 1 input\(s\), got 2"),
        ([relu("y")], r"node 'here' \(Relu\): the value 'y' is used before it is computed"),
        ([relu("x"), relu("x")], r"node 'here' \(Relu\): the value 'out' is computed twice"),
        ([relu("x", op="Softmax", axis=1.5)], r"the attribute axis is of kind FLOAT, not INT"),
        ([relu("x", op="Softmax", axis=5)], r"node 'here' \(Softmax\): .*axis 5"),
        ([relu("x", op="Concat")], r"node 'here' \(Concat\): the attribute axis is missing"),
        ([relu("x", "w", op="MatMul")], r"node 'here' \(MatMul\): .*shapes .* do not match"),
        (
            [relu("x", "w", op="Add")],
            r"node 'here' \(Add\): .*shapes \(2, 4\), \(3\) do not broadcast",
        ),
        (
            [relu("x", op="Cast", to=99)],
            r"node 'here' \(Cast\): 99 is not the number of an ONNX dtype",
        ),
        ([], r"the value 'out' is used before it is computed, or not at all"),
    ],
)
def test_errors_name_the_node(nodes: Sequence[Any], message: str) -> None:
    proto = model(nodes, {"x": [2, 4]}, ["out"], {"w": np.zeros(3, "float32")})
    with pytest.raises((IRValueError, IRTypeError), match=message):
        frontend.from_onnx(proto)


def test_a_symbolic_axis_is_not_split_into_no_parts() -> None:
    split = relu("x", "lengths", op="Split")
    proto = model([split], {"x": ["n", 4]}, ["out"], {"lengths": np.zeros(0, "int64")})
    with pytest.raises(IRValueError, match="1 outputs are used, but the operator has 0"):
        frontend.from_onnx(proto)


def test_models_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with pytest.raises(IRTypeError, match=r"got bytes; read bytes by onnx.load_from_string"):
        frontend.from_onnx(b"model")
    with pytest.raises(IRValueError, match=r"the model file .* does not exist"):
        frontend.from_onnx(path)
    path.write_bytes(b"this is no model at all")
    with pytest.raises(
        IRValueError, match=r"is not an ONNX model, or is incomplete|does not contain a graph"
    ):
        frontend.from_onnx(path)
    path.write_bytes(b"")
    with pytest.raises(IRValueError, match="is empty, not an ONNX model"):
        frontend.from_onnx(path)
    with pytest.raises(
        IRTypeError, match=r"expects the path of a model file or an onnx.ModelProto"
    ):
        frontend.from_onnx(3)


def test_an_opset_that_is_too_new() -> None:
    proto = model([relu("x")], {"x": [2]}, ["out"], opset=99)
    with pytest.raises(
        IRValueError, match=r"uses opset 99, but onnx .* supports at most \d+; install"
    ):
        frontend.from_onnx(proto)


def test_a_function_that_calls_itself_is_refused() -> None:
    endless = helper.make_function(
        "mine", "F", ["a"], ["b"], [helper.make_node("F", ["a"], ["b"], domain="mine")], []
    )
    proto = model(
        [helper.make_node("F", ["x"], ["out"], domain="mine")], {"x": [2]}, ["out"],
        functions=[endless],
    )  # fmt: skip
    with pytest.raises(IRValueError, match="calls itself"):
        frontend.from_onnx(proto)


def test_a_definition_that_onnx_does_not_make_is_refused() -> None:
    """ONNX reads no initializer by such a name in the text that it makes of the operator."""
    scores = [helper.make_tensor_value_info(name, FLOAT, None) for name in ("probs", "out")]
    halved = helper.make_graph(
        [helper.make_node("Mul", ["probs", "../half"], ["out"])],
        "halved",
        scores[:1],
        scores[1:],
        [onnx.numpy_helper.from_array(np.float32(0.5), "../half")],
    )
    attention = helper.make_node(
        "FlexAttention", ["q", "k", "v"], ["y"], domain="ai.onnx.preview", prob_mod=halved
    )
    proto = model([attention], {key: [1, 2, 3, 4] for key in "qkv"}, ["y"], opset=26)
    proto.opset_import.append(helper.make_opsetid("ai.onnx.preview", 1))
    with pytest.raises(IRValueError, match=r"node 'y' .*ONNX cannot define the operator"):
        frontend.from_onnx(proto)


def test_mutated_models_are_read_or_refused(tmp_path: Path) -> None:
    """More of them: `python -m benchmarks.fuzz models`."""
    from benchmarks.fuzz.models import is_read, mutated_bytes, mutated_message  # noqa: PLC0415

    seed = model(
        [
            helper.make_node("Shape", ["x"], ["shape"]),
            helper.make_node("Slice", ["shape", "w0", "w1"], ["target"]),
            helper.make_node("Softmax", ["x"], ["a"], axis=1),
            helper.make_node("Concat", ["target", "w1"], ["more"], axis=0),
            helper.make_node("Reshape", ["a", "more"], ["out"]),
        ],
        {"x": ["n", 4]},
        ["out"],
        {"w0": np.array([0]), "w1": np.array([1])},
    )
    path = tmp_path / "model.onnx"
    found = set()
    for number in range(200):
        rng = np.random.default_rng(number)
        if number % 2:
            data = mutated_bytes(rng, seed.SerializeToString())
        else:
            data = mutated_message(rng, seed).SerializeToString()
        path.write_bytes(data)
        found.add(is_read(path))
    assert found == {True, False}
