"""Small ONNX files that describe large programs: read within bounds, or refused by a sentence."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codegen
from codegen.errors import ExecutionError
from tensorir import IRTypeError, IRValueError, frontend
from tensorir.frontend import ImportLimitError, ImportLimits
from tests.text_cases import check_lines

onnx = pytest.importorskip("onnx", reason="reading ONNX models takes the package onnx")
node, FLOAT, INT64 = onnx.helper.make_node, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
MEMORY = 2 << 30
"""Bytes of addresses that a test may take, a deep stack among them."""


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """Let whatever allocates much fail."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def model(
    nodes: Sequence[Any],
    weights: dict[str, Any] | None = None,
    x: Sequence[int | str] = (2,),
    output: str = "y",
    opset: int = 18,
    **kwargs: Any,
) -> Any:
    """Return a model with a float32 input x; weights are integers unless they are arrays."""
    arrays = {
        name: value if isinstance(value, np.ndarray) else np.array(value, np.int64)
        for name, value in (weights or {}).items()
    }
    graph = onnx.helper.make_graph(
        list(nodes),
        "graph",
        [onnx.helper.make_tensor_value_info("x", FLOAT, x)],
        [onnx.helper.make_tensor_value_info(output, FLOAT, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    imports = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("mine", 1)]
    return onnx.helper.make_model(graph, opset_imports=imports, **kwargs)


def chain(count: int, step: Callable[[str, str], Any], first: str = "x") -> list[Any]:
    """Return nodes that each take the result of the one before; the last gives "last"."""
    names = [first, *(f"v{k}" for k in range(count - 1)), "last"]
    return [step(a, b) for a, b in pairwise(names)]


def twice(op_type: str, **attributes: Any) -> Callable[[str, str], Any]:
    """Return a step that gives its input to an operator twice."""
    return lambda a, b: node(op_type, [a, a], [b], **attributes)


def doubling_functions(count: int) -> Any:
    """Return a model of functions that each call the one before twice."""
    imports = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("mine", 1)]
    bodies = [[node("Relu", ["a"], ["b"])]]
    for k in range(1, count):
        bodies.append(
            [
                node(f"F{k - 1}", ["a"], ["t"], domain="mine"),
                node(f"F{k - 1}", ["t"], ["b"], domain="mine"),
            ]
        )
    functions = [
        onnx.helper.make_function("mine", f"F{k}", ["a"], ["b"], body, imports)
        for k, body in enumerate(bodies)
    ]
    call = node(f"F{count - 1}", ["x"], ["y"], domain="mine")
    return model([call], functions=functions)


def nested_loops(depth: int, innermost: Any, trips: int) -> Any:
    """Return a model of loops inside of one another, each of so many rounds."""

    def body(level: int) -> Any:
        inner = innermost
        if level:
            inner = node("Loop", ["trips", "", f"s{level}"], [f"t{level}"], body=body(level - 1))
        info = onnx.helper.make_tensor_value_info
        return onnx.helper.make_graph(
            [node("Identity", [f"c{level}"], [f"d{level}"]), inner],
            f"round{level}",
            [
                info(f"k{level}", INT64, []),
                info(f"c{level}", onnx.TensorProto.BOOL, []),
                info(f"s{level}", FLOAT, None),
            ],
            [
                info(f"d{level}", onnx.TensorProto.BOOL, []),
                info(f"t{level}", FLOAT, None),
            ],
        )

    return model([node("Loop", ["trips", "", "x"], ["y"], body=body(depth))], {"trips": trips})


def fill(shape: str = "s") -> Any:
    """Return the node that makes a tensor of a shape."""
    return node("ConstantOfShape", [shape], ["y"])


# ------------------------------------------------------------------------------------ refused


def unpooled(**weights: Any) -> Any:
    step = node("MaxUnpool", ["x", "places", *weights], ["y"], kernel_shape=[2, 2])
    return model([step], {"places": np.zeros((1, 1, 2, 2), np.int64), **weights}, x=[1, 1, 2, 2])


def with_a_name_that_is_no_text() -> Any:
    value = onnx.helper.make_tensor_value_info
    scale = onnx.helper.make_tensor("scale", FLOAT, [], [0.5])
    steps = [node("Mul", ["p", "scale"], ["q"])]
    p, q = (value(name, FLOAT, ["B", "H", "L", "S"]) for name in "pq")
    scaled = onnx.helper.make_graph(steps, "scaled", [p], [q], [scale])
    domain = "ai.onnx.preview"
    step = node("FlexAttention", ["x", "x", "x"], ["y"], domain=domain, prob_mod=scaled)
    proto = model([step], x=[1, 2, 4, 8])
    proto.opset_import.append(onnx.helper.make_opsetid(domain, 1))
    before, _, after = proto.SerializeToString().rpartition(b"scale")  # the name of the weight
    return onnx.load_from_string(before + b"sca\xe6e" + after)


def scales(values: Sequence[float]) -> Any:
    """Return a model that scales a picture."""
    return model(
        [node("Resize", ["x", "", "scales"], ["y"])],
        {"scales": np.array(values, np.float32)},
        x=[1, 1, 2, 2],
    )


def sequence_of(op_type: str, inputs: Sequence[str]) -> Any:
    """Return a model that takes a sequence of two tensors apart, by positions of shape (0,)."""
    nodes = [node("SequenceConstruct", ["x", "x"], ["q"]), node(op_type, inputs, ["y"])]
    return model(nodes, {"none": np.zeros(0, np.int64)})


def loop_of(trips: str, go_on: str) -> Any:
    """Return a model of a loop whose `none` has no element."""
    proto = nested_loops(0, node("Relu", ["s0"], ["t0"]), 2)
    proto.graph.node[0].input[:2] = [trips, go_on]
    empty = np.zeros(0, np.int64 if trips else bool)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(empty, "none"))
    return proto


@pytest.mark.parametrize(
    ("location", "offset", "message"),
    [
        ("data", "9" * 5000, r"'9+'... \(5000 characters\) in place of a number of bytes"),
        ("data", "\u0663", "in place of a number of bytes"),
        ("a" * 300, "0", r"'a+'... \(300 characters\), which cannot be opened"),
        ("a/" * 5000, "0", "which cannot be opened"),
        ("circle", "0", "'circle', which cannot be opened: its symbolic links form a circle"),
    ],
)
def test_places_of_data_that_do_not_exist_are_refused(
    tmp_path: Path, location: str, offset: str, message: str
) -> None:
    proto = model([node("Relu", ["w"], ["y"])])
    tensor = proto.graph.initializer.add(name="w", data_type=FLOAT, dims=[4])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset)):
        tensor.external_data.add(key=key, value=value)
    (tmp_path / "data").write_bytes(b"\0" * 16)
    (tmp_path / "circle").symlink_to("other")
    (tmp_path / "other").symlink_to("circle")
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(IRValueError, match=message):
        frontend.from_onnx(path)


def test_a_path_that_is_too_long_is_refused() -> None:
    with pytest.raises(IRValueError, match=r"\(305 characters\) cannot be opened"):
        frontend.from_onnx("a" * 300 + ".onnx")


# ------------------------------------------------------------------------------------ read


@pytest.mark.parametrize("op_type", ["Mul", "Add"])
def test_a_size_that_grows_too_long_is_computed_when_the_model_runs(op_type: str) -> None:
    """24 times `s * s` is a product of 16 million factors; 70 times `s + s` has no 64 bits."""
    count = 24 if op_type == "Mul" else 70
    proto = model(
        [node("Shape", ["x"], ["s"]), *chain(count, twice(op_type), "s"), fill("last")], x=["n"]
    )
    main = frontend.from_onnx(proto)["main"]
    assert str(main.ret_struct_info) == 'R.Tensor((value,), dtype="float32")'


def test_a_long_extent_becomes_a_size_of_its_own() -> None:
    """Each pooling makes `(n + 1) // 2` of the extent before."""
    pool = chain(
        30,
        lambda a, b: node(
            "MaxPool", [a], [b], kernel_shape=[2], strides=[2], pads=[1, 0], ceil_mode=1
        ),
    )
    proto = model(pool, x=[1, 1, "n"], output="last")
    main = frontend.from_onnx(proto, limits=ImportLimits(max_terms=40))["main"]
    (_, _, extent) = main.ret_struct_info.shape
    assert len(str(extent)) < 80


def test_loops_inside_of_loops_are_read_few_times() -> None:
    """Each step is read again where its value changes its shape, each time with all inside."""
    grown = node("Concat", ["s0", "x"], ["t0"], axis=0)
    mod = frontend.from_onnx(nested_loops(7, grown, 2))
    assert len(mod.functions) < 40
    assert str(mod["main"].ret_struct_info.dtype) == "float32"


def test_rounds_of_loops_inside_of_loops_are_read_one_by_one_only_if_they_are_few() -> None:
    mod = frontend.from_onnx(nested_loops(8, node("Relu", ["s0"], ["t0"]), 12))
    assert str(mod["main"].ret_struct_info) == 'R.Tensor((2,), dtype="float32")'


def test_limits_can_be_raised() -> None:
    proto = doubling_functions(6)
    with pytest.raises(ImportLimitError, match=r"at most 60 allowed; .*max_nodes=\.\.\."):
        frontend.from_onnx(proto, limits=ImportLimits(max_nodes=60))
    assert frontend.from_onnx(proto, limits=ImportLimits(max_nodes=100))["main"]
    with pytest.raises(IRValueError, match="max_depth must be an integer of at least 0, got 'x'"):
        ImportLimits(max_depth="x")  # type: ignore[arg-type]


# ------------------------------------------------------------------------------- built and run


def test_a_long_chain_of_layers_is_a_few_kinds_of_kernels() -> None:
    layers = [
        layer
        for k in range(100)
        for layer in (
            node("Add", [f"v{k}", "one"], [f"a{k}"]),
            node("Relu", [f"a{k}"], [f"v{k + 1}"]),
        )
    ]
    layers[0].input[0] = "x"
    proto = model(layers, {"one": np.ones(1, np.float32)}, x=[64], output="v100")
    executable = codegen.vm_build(frontend.from_onnx(proto), default_schedules=False)
    kernels = executable.mod.prim_funcs().values()
    assert len(kernels) == 2
    assert max(func.script().count("with T.block(") for func in kernels) <= 65  # one is the root
    x = np.arange(-400, 112, 8, dtype=np.float32)
    result = codegen.VirtualMachine(executable)["main"](x)
    np.testing.assert_array_equal(result, np.maximum(x + 1, 0) + 99)


def test_doubled_constants_are_not_computed_while_a_model_is_built() -> None:
    proto = model(
        [*chain(24, twice("Concat", axis=0), "w"), node("ReduceMax", ["last"], ["y"], keepdims=0)],
        {"w": np.ones(2, np.float32)},
    )
    executable = codegen.vm_build(frontend.from_onnx(proto), default_schedules=False)
    assert executable.constants.nbytes < 4 << 20


def test_memory_that_there_is_not_is_an_error_that_names_the_value() -> None:
    proto = model(
        [node("Pad", ["x", "widths"], ["y"])], {"widths": [0, 10**9, 0, 10**9]}, x=["n", 2]
    )
    executable = codegen.vm_build(frontend.from_onnx(proto), default_schedules=False)
    main = codegen.VirtualMachine(executable)["main"]
    with pytest.raises(
        ExecutionError,
        match=r"main: result, float32 of shape \(1000000, 2000000002\): 8,000,000,008,000,000 bytes "
        "cannot be allocated",
    ):
        main(np.zeros((1000000, 2), np.float32))


def said(call: str) -> str:
    try:
        frontend.from_onnx(eval(call))
    except (IRTypeError, IRValueError) as error:
        return f"{type(error).__name__}: {' / '.join(str(error).splitlines())}"
    return "nothing is said"


def test_what_is_refused(pytestconfig: pytest.Config) -> None:
    check_lines(Path(__file__).with_name("onnx_refusals.txt"), ">>> ", said, pytestconfig)
