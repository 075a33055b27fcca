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
BINARY = ("Add", "Mul", "Max", "Sub", "Div", "MatMul", "Where")


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


def _sizes(w: _Writer) -> None:
    """Integers of a shape, some of them combined."""
    kind = w.rng.integers(4)
    if kind == 0 or not w.integers:
        w.integers.append(w.add("Shape", [w.one_of(w.floats)]))
    elif kind == 1:
        op_type = w.one_of(("Mul", "Add", "Sub", "Div", "Max", "Concat", "Mod", "Equal"))
        other = w.one_of([*w.integers, w.weight(w.numbers(1))])
        attributes = {"axis": 0} if op_type == "Concat" else {}
        w.integers.append(w.add(op_type, [w.one_of(w.integers), other], **attributes))
    elif kind == 2:
        w.integers.append(w.add("Range", [w.scalar(), w.scalar(), w.scalar()]))
    else:
        op_type = w.one_of(("Gather", "ReduceProd", "Tile", "Expand"))
        w.integers.append(w.add(op_type, [w.one_of(w.integers), w.shape()]))


def _shaped(w: _Writer) -> None:
    """A tensor whose shape integers of the model say."""
    x, op_type = w.one_of(w.floats), w.one_of(("Reshape", "Expand", "Tile", "ConstantOfShape"))
    w.floats.append(w.add(op_type, [w.shape()] if op_type == "ConstantOfShape" else [x, w.shape()]))


def _moved(w: _Writer) -> None:
    """A tensor with other elements around it, or a part of it."""
    x = w.one_of(w.floats)
    kind = w.rng.integers(6)
    if kind == 0:
        w.floats.append(w.add("Pad", [x, w.weight(w.numbers(2 * int(w.rng.integers(1, 4))))]))
    elif kind == 1:
        w.floats.append(w.add("Slice", [x, *(w.weight(w.numbers(1)) for _ in range(4))]))
    elif kind == 2:
        w.floats.append(w.add("Unsqueeze", [x, w.weight(w.numbers(int(w.rng.integers(1, 3))))]))
    elif kind == 3:
        w.floats.append(w.add("Trilu", [x, w.scalar()]))
    elif kind == 4:
        w.floats.append(w.add("EyeLike", [x], k=w.numbers(1)[0]))
    else:
        w.floats.append(w.add("OneHot", [w.shape(), w.scalar(), w.weight([0, 1], np.float32)]))


def _split(w: _Writer) -> None:
    """Parts of a tensor."""
    x, kind = w.one_of(w.floats), w.rng.integers(3)
    if kind == 0:
        w.floats.append(w.add("Split", [x], int(w.rng.integers(1, 4)), num_outputs=w.numbers(1)[0]))
    elif kind == 1:
        w.floats.append(w.add("Split", [x, w.shape()], int(w.rng.integers(1, 4))))
    else:
        parts = w.add("SplitToSequence", [x, w.scalar()] if w.rng.random() < 0.5 else [x])
        w.floats.append(w.add("SequenceAt", [parts, w.scalar()]))


def _windows(w: _Writer) -> None:
    """A pooling or a convolution of a picture, or one of another size."""
    x, kind = w.add("Reshape", [w.one_of(w.floats), w.weight([1, 1, 2, -1])]), w.rng.integers(4)
    if kind == 0:
        scales = [float(w.one_of(FLOATS)) for _ in range(int(w.rng.integers(0, 5)))]
        w.floats.append(w.add("Resize", [x, "", w.weight(scales, np.float32)]))
    elif kind == 1:
        w.floats.append(w.add("Resize", [x, "", "", w.shape()]))
    elif kind == 2:
        w.floats.append(
            w.add(
                w.one_of(("MaxPool", "AveragePool", "LpPool")),
                [x],
                kernel_shape=w.numbers(2),
                strides=w.numbers(2),
                pads=w.numbers(4),
            )
        )
    else:
        weights = w.weight(np.ones((1, 1, 2, 1)), np.float32)
        op_type = w.one_of(("Conv", "ConvTranspose"))
        w.floats.append(
            w.add(
                op_type,
                [x, weights],
                strides=w.numbers(2),
                pads=w.numbers(4),
                dilations=w.numbers(2),
            )
        )


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


def _layer(w: _Writer) -> None:
    """An operator on tensors."""
    if w.rng.random() < 0.5:
        w.floats.append(w.add(w.one_of(UNARY), [w.one_of(w.floats)]))
    else:
        op_type = w.one_of(BINARY)
        first = [w.weight(True, np.bool_)] if op_type == "Where" else []
        w.floats.append(w.add(op_type, [*first, w.one_of(w.floats), w.one_of(w.floats)]))


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


STEPS: tuple[Callable[[_Writer], None], ...] = (
    _sizes, _sizes, _shaped, _moved, _split, _windows, _chain, _layer, _loops,
)  # fmt: skip


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
