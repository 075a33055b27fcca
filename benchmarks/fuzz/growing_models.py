"""Small ONNX models that describe large programs, at random, for the fuzzer of models.

A model has a few layers over inputs and integers. Steps take results twice, are repeated in chains,
functions and loops, and have numbers at the ends of 64 bits: as sizes, attributes and shapes.
Takes the package onnx.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

NUMBERS = (
    -(1 << 63), -(1 << 40), -7, -2, -1, 0, 1, 1, 2, 2, 3, 4, 5, 64, 1 << 12, 1 << 20, 1 << 31,
    1 << 40, 1 << 50, 1 << 61, (1 << 63) - 1,
)  # fmt: skip
FLOATS = (0.0, 1.0, 2.0, 0.5, -1.0, 1e-30, 1e12, 1e38, float("nan"), float("inf"))
UNARY = ("Relu", "Sin", "Neg", "Identity", "Softmax", "Sigmoid")


@dataclass
class _Writer:
    """Nodes of a graph that is being made, and the names of its values."""

    rng: np.random.Generator
    helper: Any
    nodes: list[Any] = field(default_factory=list)
    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    floats: list[str] = field(default_factory=lambda: ["x"])
    integers: list[str] = field(default_factory=list)
    count: int = 0

    def one_of(self, values: Any) -> Any:
        """Return one of some values."""
        return values[int(self.rng.integers(len(values)))]

    def numbers(self, count: int) -> list[int]:
        """Return numbers, most of them small."""
        small = self.rng.random() < 0.6
        return [
            int(self.rng.integers(0, 5)) if small else self.one_of(NUMBERS) for _ in range(count)
        ]

    def name(self) -> str:
        """Return a name that no value has."""
        self.count += 1
        return f"v{self.count}"

    def weight(self, values: Any, dtype: Any = np.int64) -> str:
        """Return the name of a tensor of the model."""
        name = self.name()
        self.arrays[name] = np.array(values, dtype)
        return name

    def shape(self) -> str:
        """Return the name of integers that may be a shape."""
        if self.integers and self.rng.random() < 0.5:
            return str(self.one_of(self.integers))
        return self.weight(self.numbers(int(self.rng.integers(0, 4))))

    def scalar(self) -> str:
        """Return the name of a tensor that ought to have one element."""
        if self.rng.random() < 0.1:
            return self.weight(self.numbers(int(self.rng.integers(0, 3))))
        return self.weight(self.numbers(1)[0])

    def add(self, op_type: str, inputs: list[str], outputs: int = 1, **attributes: Any) -> str:
        """Write a node; return the name of its first output."""
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(self.helper.make_node(op_type, inputs, names, **attributes))
        return names[0]


INPUTS: dict[str, Callable[[_Writer], str]] = {
    "x": lambda w: w.one_of(w.floats),
    "i": lambda w: w.one_of(w.integers) if w.integers else w.shape(),
    "j": lambda w: w.one_of([*w.integers, w.weight(w.numbers(1))]),
    "s": _Writer.shape,
    "n": _Writer.scalar,
    "1": lambda w: w.weight(w.numbers(1)),
    "2": lambda w: w.weight(w.numbers(int(w.rng.integers(1, 3)))),
    "6": lambda w: w.weight(w.numbers(2 * int(w.rng.integers(1, 4)))),
    "c": lambda w: w.weight([w.one_of(FLOATS) for _ in range(w.rng.integers(0, 5))], np.float32),
    "p": lambda w: w.add("Reshape", [w.one_of(w.floats), w.weight([1, 1, 2, -1])]),
    "w": lambda w: w.weight(np.ones((1, 1, 2, 1)), np.float32),
    "v": lambda w: w.weight([0, 1], np.float32),
    "b": lambda w: w.weight(True, np.bool_),
    "-": lambda w: "",
}
"""Inputs: tensors of the model, integers, shapes, scalars, weights, pictures."""
INTEGERS: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("Shape", "x", {}),
    ("Mul Add Sub Div Max Concat Mod Equal", "ij", {}),
    ("Range", "nnn", {}),
    ("Gather ReduceProd Tile Expand", "is", {}),
)
"""Operators that make integers, their inputs, and the lengths of their attributes; 0: a number."""
TENSORS: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("Reshape Expand Tile", "xs", {}),
    ("ConstantOfShape", "s", {}),
    ("Pad", "x6", {}),
    ("Slice", "x1111", {}),
    ("Unsqueeze", "x2", {}),
    ("Trilu", "xn", {}),
    ("EyeLike", "x", {"k": 0}),
    ("OneHot", "snv", {}),
    ("Split", "x", {"num_outputs": 0}),
    ("Split", "xs", {}),
    ("SplitToSequence", "xn", {}),
    ("SplitToSequence", "x", {}),
    ("Resize", "p-c", {}),
    ("Resize", "p--s", {}),
    ("MaxPool AveragePool LpPool", "p", {"kernel_shape": 2, "strides": 2, "pads": 4}),
    ("Conv ConvTranspose", "pw", {"strides": 2, "pads": 4, "dilations": 2}),
    (" ".join(UNARY), "x", {}),
    ("Add Mul Max Sub Div MatMul", "xx", {}),
    ("Where", "bxx", {}),
)
"""Operators that make tensors, likewise."""


def _layer(w: _Writer) -> None:
    """An operator of the table."""
    is_integer = w.rng.random() < 0.25
    names, inputs, counts = w.one_of(INTEGERS if is_integer else TENSORS)
    op_type = w.one_of(names.split())
    attributes = {
        name: w.numbers(count) if count else w.numbers(1)[0] for name, count in counts.items()
    }
    if op_type == "Concat":
        attributes["axis"] = 0
    outputs = int(w.rng.integers(1, 4)) if op_type == "Split" else 1
    made = w.add(op_type, [INPUTS[kind](w) for kind in inputs], outputs, **attributes)
    if op_type == "SplitToSequence":
        made = w.add("SequenceAt", [made, w.scalar()])
    (w.integers if is_integer else w.floats).append(made)


def _chain(w: _Writer) -> None:
    """A step that is repeated, with its result taken once or twice."""
    length = int(w.one_of((3, 12, 24, 40, 200)))
    pool = w.integers if w.integers and w.rng.random() < 0.5 else w.floats
    value, kind = str(w.one_of(pool)), w.rng.integers(4)
    op_type = w.one_of(UNARY if kind == 0 else ("Add", "Mul", "Max"))
    divisor = w.weight([int(w.rng.integers(1, 5))])
    for _ in range(length):
        if kind == 0:
            value = w.add(op_type, [value])
        elif kind == 1:
            value = w.add(op_type, [value, value])
        elif kind == 2:
            value = w.add("Concat", [value, value], axis=0)
        elif pool is w.integers:
            value = w.add(op_type, [w.add("Div", [value, divisor]), value])
        else:
            value = w.add(op_type, [w.add(w.one_of(UNARY), [value]), value])
    pool.append(value)


def _loops(w: _Writer) -> None:
    """Loops inside of one another, whose value may grow."""
    step = w.one_of(("Relu", "Concat", "Unsqueeze", "Add"))
    trips = w.scalar() if w.rng.random() < 0.3 else w.weight(int(w.rng.integers(0, 4)))
    place = w.weight([0])

    def body(level: int, prefix: str) -> Any:
        h, s, t = w.helper, f"{prefix}s{level}", f"{prefix}t{level}"
        if level:
            inner = h.make_node("Loop", [trips, "", s], [t], body=body(level - 1, prefix))
        elif step == "Unsqueeze":
            inner = h.make_node(step, [s, place], [t])
        elif step == "Relu":
            inner = h.make_node(step, [s], [t])
        else:
            inner = h.make_node(step, [s, s], [t], **({"axis": 0} if step == "Concat" else {}))
        info, names = h.make_tensor_value_info, [f"{prefix}{n}{level}" for n in "kcd"]
        return h.make_graph(
            [h.make_node("Identity", [names[1]], [names[2]]), inner],
            "round",
            [info(names[0], 7, []), info(names[1], 9, []), info(s, 1, None)],
            [info(names[2], 9, []), info(t, 1, None)],
        )

    depth = int(w.rng.integers(0, 7))
    w.floats.append(w.add("Loop", [trips, "", w.one_of(w.floats)], body=body(depth, w.name())))


def _functions(w: _Writer, opset: Any) -> list[Any]:
    """Functions that call one another, once or twice, and a call of the last."""
    h, imports = w.helper, [opset, w.helper.make_opsetid("mine", 1)]
    depth, calls = int(w.one_of((2, 6, 16, 40, 120))), int(w.rng.integers(1, 3))
    functions = []
    for k in range(depth):
        op_type, domain = ("Relu", "") if k == 0 else (f"F{k - 1}", "mine")
        names = ["a", *(f"t{n}" for n in range(calls - 1)), "b"]
        body = [h.make_node(op_type, [a], [b], domain=domain) for a, b in pairwise(names)]
        functions.append(h.make_function("mine", f"F{k}", ["a"], ["b"], body, imports))
    w.floats.append(w.add(f"F{depth - 1}", [w.one_of(w.floats)], domain="mine"))
    return functions


STEPS: tuple[Callable[[_Writer], None], ...] = (*[_layer] * 7, _chain, _loops)


def growing_model(rng: np.random.Generator) -> Any:
    """Return a model."""
    import onnx  # noqa: PLC0415 - an optional package

    w, opset = _Writer(rng, onnx.helper), onnx.helper.make_opsetid("", 18)
    for _ in range(int(rng.integers(1, 7))):
        STEPS[int(rng.integers(len(STEPS)))](w)
    functions = _functions(w, opset) if rng.random() < 0.2 else []
    dims: list[int | str] = [
        w.one_of(["n", "m", *NUMBERS]) if rng.random() < 0.1 else w.one_of(["n", 1, 2, 3])
        for _ in range(int(rng.integers(1, 4)))
    ]
    outputs = [name for name in (w.floats[-1], *w.integers[-1:]) if name != "x"]
    graph = onnx.helper.make_graph(
        w.nodes,
        "growing",
        [onnx.helper.make_tensor_value_info("x", 1, dims)],
        [onnx.helper.make_tensor_value_info(name, 1, None) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in w.arrays.items()],
    )
    imports = [opset, onnx.helper.make_opsetid("mine", 1)]
    return onnx.helper.make_model(graph, opset_imports=imports, functions=functions)
