"""Operators that change shapes, take parts, index, and reorder dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import codegen
from tensorir import IRModule, relax
from tensorir.nodes.expr import Var
from tensorir.relax import op
from tensorir.transform import ConvertLayout, DecomposeOps, FoldConstant, LegalizeOps
from tests.operator_cases import Case, check

# ---------------- Operators that change the shape of tensors, take parts of them, and make new ones

X = np.arange(24, dtype="float32").reshape(2, 3, 4)
M = np.arange(20, dtype="int32").reshape(4, 5)


def test_reshape() -> None:
    check(
        [
            Case(str(shape), lambda x, s=shape: op.reshape(x, s), lambda x, s=shape: x.reshape(s), X)
            for shape in [(6, 4), (2, -1), (4, 3, 2), (24,), (-1, 2, 2), (2, 3, 2, 2), (1, 24, 1), (3, 8)]
        ]
        + [
            Case("0 copies", lambda x: op.reshape(x, (0, -1)), lambda x: x.reshape(2, 12), X),
            Case("flatten", lambda x: op.flatten(x), lambda x: x.reshape(-1), X),
            Case("to a scalar", lambda x: op.reshape(x, ()), lambda x: x.reshape(()), X[:1, 0, :1]),
            Case("of a scalar", lambda x: op.reshape(x, (1, 1)), lambda x: x.reshape(1, 1), np.float32(2)),
            Case("empty", lambda x: op.reshape(x, relax.ShapeExpr([0, 6])), lambda x: x.reshape(0, 6), X[:, :0]),
            Case("any n", lambda x: op.reshape(x, (0, 12)), lambda x: x.reshape(2, 12), X, shapes=[("n", 3, 4)]),
            Case("any n in the middle", lambda x: op.reshape(x, (-1, 4)), lambda x: x.reshape(-1, 4), X, shapes=[(2, "n", 4)]),
            Case("heads", lambda x: op.reshape(x, (0, 0, 2, 2)), lambda x: x.reshape(2, 3, 2, 2), X, shapes=[("b", "n", 4)]),
            Case("heads together", lambda x: op.reshape(x, (0, -1)), lambda x: x.reshape(2, 12), X, shapes=[("b", "n", "m")]),
            Case("of known product", lambda x, sizes: op.reshape(x, (sizes["n"] * 3, 4)), lambda x: x.reshape(6, 4), X, shapes=[("n", 3, 4)]),
            Case("expand_dims", lambda x: op.expand_dims(x, [0, -1]), lambda x: x[None, ..., None], X),
            Case("squeeze", lambda x: op.squeeze(x), np.squeeze, X[:1, :, :1]),
            Case("squeeze one", lambda x: op.squeeze(x, -1), lambda x: x.squeeze(-1), X[:1, :, :1]),
            Case("unflatten", lambda x: op.unflatten(x, -1, (2, 2)), lambda x: x.reshape(2, 3, 2, 2), X, shapes=[("n", 3, 4)]),
        ]
    )  # fmt: skip


def test_a_shape_keeps_what_its_minus_one_was() -> None:
    n = Var("n", "int64")
    x = relax.Var("x", relax.TensorStructInfo((n, 12, 64), "float32"))
    assert str(op.reshape(x, (0, -1))) == "R.reshape(x, R.shape([n, 768]))"
    assert str(op.reshape(op.reshape(x, (-1, 768)), (-1, 12, 64)).struct_info) == str(x.struct_info)
    assert str(op.reshape(x, (-1, 32)).struct_info) == 'R.Tensor((n * 24, 32), dtype="float32")'


def test_order() -> None:
    lengths = np.array([2, 3], "int64")
    check(
        [
            Case("transpose", lambda x: op.permute_dims(x), np.transpose, X),
            Case("axes", lambda x: op.permute_dims(x, [0, 2, 1]), lambda x: x.transpose(0, 2, 1), X, shapes=[("n", 3, "m")]),
            Case("broadcast_to", lambda x: op.broadcast_to(x, (2, 3, 4)), lambda x: np.broadcast_to(x, (2, 3, 4)), X[0, :, :1]),
            Case("flip", lambda x: op.flip(x, 1), lambda x: np.flip(x, 1), X, shapes=[("n", "m", 4)]),
            Case("flip axes", lambda x: op.flip(x, [0, -1]), lambda x: np.flip(x, (0, 2)), X),
            Case("roll", lambda x: op.roll(x, 1, 2), lambda x: np.roll(x, 1, 2), X),
            Case("roll axes", lambda x: op.roll(x, [1, -5], [0, 2]), lambda x: np.roll(x, (1, -5), (0, 2)), X),
            Case("roll all", lambda x: op.roll(x, 5), lambda x: np.roll(x, 5), X, shapes=[("n", 3, 4)]),
            Case("tile", lambda x: op.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3)), X, shapes=[("n", 3, 4)]),
            Case("tile more", lambda x: op.tile(x, (2, 1, 1, 2)), lambda x: np.tile(x, (2, 1, 1, 2)), X),
            Case("tile fewer", lambda x: op.tile(x, (2,)), lambda x: np.tile(x, 2), X),
            Case("repeat", lambda x: op.repeat(x, 3, 1), lambda x: np.repeat(x, 3, 1), X),
            Case("repeat all", lambda x: op.repeat(x, 2), lambda x: np.repeat(x, 2), X),
            Case("reverse_sequence", lambda x, n: op.reverse_sequence(x, n),
                 lambda x, n: np.stack([np.concatenate([r[:k][::-1], r[k:]]) for r, k in zip(x, n, strict=True)]),
                 X, lengths),
        ]
    )  # fmt: skip


def test_together_and_apart() -> None:
    def splits(x: Any) -> Any:
        return [x[:, :2], x[:, 2:4], x[:, 4:]]

    check(
        [
            Case("concat", lambda x, y: op.concat([x, y], 1), lambda x, y: np.concatenate([x, y], 1), X, X[:, :1]),
            Case("concat of three", lambda x: op.concat((x, x, x), -1), lambda x: np.concatenate([x] * 3, -1), X),
            Case("concat, any n", lambda x, y: op.concat([x, y]), lambda x, y: np.concatenate([x, y]), X, X[:1], shapes=[("n", 3, 4), ("m", 3, 4)]),
            Case("concat with nothing", lambda x, y: op.concat([y, x]), lambda x, y: x, X, X[:0]),
            Case("concat with nothing, any n", lambda x, y: op.concat([y, x]), lambda x, y: x, X, X[:0], shapes=[("n", 3, 4), ("m", 3, 4)]),
            Case("stack", lambda x, y: op.stack([x, y], -1), lambda x, y: np.stack([x, y], -1), X, X + 1),
            Case("split", lambda x: op.split(x, [2, 4], 1), splits, M),
            Case("split in three", lambda x: op.split(x, 3, 1), splits, M),
            Case("split, any n", lambda x: op.split(x, 2), lambda x: [x[:2], x[2:]], M, shapes=[("n", 5)]),
            Case("split beyond", lambda x: op.split(x, [3, 9], 0), lambda x: [x[:3], x[3:], x[:0]], M),
            Case("meshgrid", lambda x, y: op.meshgrid([x, y]), lambda x, y: np.meshgrid(x, y, indexing="ij"), M[0], M[:, 1]),
            Case("meshgrid xy", lambda x, y: op.meshgrid([x, y], "xy"), np.meshgrid, M[0], M[:, 1]),
        ]
    )  # fmt: skip


SLICES = [
    slice(1, 4), slice(0, 10), slice(-3, -1), slice(4, 1, -1), slice(10, -10, -2), slice(-100, 3, 2), slice(3, 1),
    slice(0, 5, 3), slice(-1, -7, -1),
]  # fmt: skip


def test_slices() -> None:
    def sliced(x: Any, s: slice) -> Any:
        return op.strided_slice(x, [1], [s.start], [s.stop], [1 if s.step is None else s.step])

    check(
        [
            Case(f"{s} of {dim}", lambda x, s=s: sliced(x, s), lambda x, s=s: x[:, s], M, shapes=[(4, dim)])
            for s in SLICES
            for dim in (5, "n")
        ]
        + [
            Case("axes", lambda x: op.strided_slice(x, [2, 0], [1, 0], [3, 1]), lambda x: x[:1, :, 1:3], X),
            Case("symbolic end", lambda x, y, sizes: op.strided_slice(x, [1], [0], [sizes["n"]]), lambda x, y: x[:, :3], M, X[0], shapes=[(4, 5), ("n", 4)]),
            Case("inbound", lambda x, sizes: op.strided_slice(x, [0], [sizes["n"] - 1], [sizes["n"]], assume_inbound=True), lambda x: x[-1:], M, shapes=[("n", 5)]),
            Case("slice_scatter", lambda x, y: op.slice_scatter(x, y, 1, 5, 2, axis=1), lambda x, y: np.stack([x[:, 0], y[:, 0], x[:, 2], y[:, 1], x[:, 4]], 1), M, -M[:, :2]),
        ]
    )  # fmt: skip


def test_shapes_of_slices_are_simple() -> None:
    n = Var("n", "int64")
    x = relax.Var("x", relax.TensorStructInfo((n, 8), "float32"))
    last = op.strided_slice(x, [0], [n - 1], [n], assume_inbound=True)
    assert str(last.struct_info) == 'R.Tensor((1, 8), dtype="float32")'
    assert str(op.strided_slice(x, [0], [0], [2**40]).struct_info) == str(x.struct_info)
    assert str(op.strided_slice(x, [0], [0], [n]).struct_info) == str(x.struct_info)
    every_other = op.strided_slice(x, [0], [0], [2**40], [2])
    assert str(every_other.struct_info) == 'R.Tensor(((n + 1) // 2, 8), dtype="float32")'


def test_creation() -> None:
    check(
        [
            Case("full", lambda: op.full((2, 3), 1.5), lambda: np.full((2, 3), 1.5, "float32")),
            Case("full int64", lambda: op.full((2,), 2**40, "int64"), lambda: np.full(2, 2**40)),
            Case("full of a tensor", lambda x: op.full((2, 2), x, "float32"), lambda x: np.full((2, 2), x, "float32"), np.int32(3)),
            Case("full_like", lambda x: op.full_like(x, 7), lambda x: np.full_like(x, 7), M),
            Case("zeros", lambda x, sizes: op.zeros((sizes["n"], 2), "int8"), lambda x: np.zeros((4, 2), "int8"), M, shapes=[("n", 5)]),
            Case("ones", lambda: op.ones((2, 3), "bool"), lambda: np.ones((2, 3), "bool")),
            Case("ones_like", lambda x: op.ones_like(x, "float64"), lambda x: np.ones_like(x, "float64"), M),
            Case("zeros_like", lambda x: op.zeros_like(x), np.zeros_like, M),
            Case("arange", lambda: op.arange(5), lambda: np.arange(5)),
            Case("arange down", lambda: op.arange(7, -3, -4, "int32"), lambda: np.arange(7, -3, -4, "int32")),
            Case("arange floats", lambda: op.arange(0.5, 2.0, 0.25), lambda: np.arange(0.5, 2, 0.25, "float32")),
            Case("arange nothing", lambda: op.arange(3, 1), lambda: np.arange(3, 1)),
            Case("arange to n", lambda x, sizes: op.arange(sizes["n"]), lambda x: np.arange(4), M, shapes=[("n", 5)]),
            Case("eye", lambda: op.eye(3), lambda: np.eye(3, dtype="float32")),
            Case("eye, wide", lambda: op.eye(2, 4, 1, "int32"), lambda: np.eye(2, 4, 1, dtype="int32")),
            Case("eye_like", lambda x: op.eye_like(x, -1), lambda x: np.eye(4, 5, -1, dtype="int32"), M),
            Case("tril", lambda x: op.tril(x), np.tril, X),
            Case("triu", lambda x: op.triu(x, -1), lambda x: np.triu(x, -1), X, shapes=[("n", 3, 4)]),
            Case("one_hot", lambda x: op.one_hot(x, 2.0, -1.0, 5), lambda x: np.where(x[:, None] == np.arange(5), 2, -1).astype("float32"), M[0]),
            Case("one_hot axis", lambda x: op.one_hot(x, 1, 0, 5, axis=0), lambda x: (x == np.arange(5)[:, None]).astype("int64"), M[0]),
            Case("shape_to_tensor", lambda x, sizes: op.shape_to_tensor([sizes["n"], 2, sizes["n"] * 5]), lambda x: np.array([4, 2, 20]), M, shapes=[("n", 5)]),
            Case("shape_of", lambda x: op.shape_to_tensor(op.shape_of(x)), lambda x: np.array(x.shape), X, shapes=[("n", 3, "m")]),
            Case("size", lambda x: op.size(x), lambda x: np.int64(x.size), M, shapes=[("n", 5)]),
        ]
    )  # fmt: skip


# ---------------------------------- Operators that read and write at places that other tensors tell

RNG = np.random.default_rng(0)
INDEXING_X = RNG.standard_normal((4, 5, 3)).astype("float32")
PLACES = np.array([[3, 0], [-1, 2]], "int64")


def test_take() -> None:
    rows = np.array([3, 0, 3], "int32")
    check(
        [
            Case("rows", lambda x, i: op.take(x, i, 0), lambda x, i: x[i], INDEXING_X, rows),
            Case("columns", lambda x, i: op.take(x, i, -1), lambda x, i: x[..., i], INDEXING_X, rows % 3),
            Case("any n", lambda x, i: op.take(x, i, 1), lambda x, i: x[:, i], INDEXING_X, rows, shapes=[("n", "m", 3), ("k",)]),
            Case("matrix of places", lambda x, i: op.take(x, i, 1, "normalize"), lambda x, i: x[:, i], INDEXING_X, PLACES),
            Case("a scalar", lambda x, i: op.take(x, i, 0), lambda x, i: x[2], INDEXING_X, np.int64(2)),
            Case("a number", lambda x: op.take(x, 2, 0), lambda x: x[2], INDEXING_X),
            Case("the last", lambda x: op.take(x, -1, 1, "normalize"), lambda x: x[:, -1], INDEXING_X, shapes=[(4, "n", 3)]),
            Case("vector", lambda x, i: op.take(x, i), lambda x, i: x[i], INDEXING_X[0, :, 0], rows),
            Case("in row-major order", lambda x, i: op.take(x, i), lambda x, i: x.reshape(-1)[i], INDEXING_X, rows * 9),
            Case("clip", lambda x, i: op.take(x, i, 0, "clip"), lambda x, i: np.take(x, i, 0, mode="clip"), INDEXING_X, PLACES * 3),
            Case("wrap", lambda x, i: op.take(x, i, 0, "wrap"), lambda x, i: np.take(x, i, 0, mode="wrap"), INDEXING_X, PLACES * 3),
        ]
    )  # fmt: skip


def test_take_of_a_number_reads_no_index() -> None:
    x = relax.Var("x", relax.TensorStructInfo((4, 5), "float32"))
    assert str(op.take(x, 2, 0)) == 'R.take(x, R.const(2, "int64"), axis=0)'


def test_gather() -> None:
    along = np.array([[[4, -1, 0]], [[1, 2, 3]]], "int64")
    pairs = np.array([[0, 1], [3, -1], [2, 2]], "int64")
    batched = np.array([[[0], [4]], [[1], [-1]], [[2], [2]], [[3], [0]]], "int64")
    check(
        [
            Case("elements", lambda x, i: op.gather_elements(x, i, 1), lambda x, i: np.take_along_axis(x[:2], i, 1), INDEXING_X, along),
            Case("nd", lambda x, i: op.gather_nd(x, i), lambda x, i: x[i[:, 0], i[:, 1]], INDEXING_X, pairs, shapes=[("n", 5, 3), ("m", 2)]),
            Case("nd, whole", lambda x, i: op.gather_nd(x, i), lambda x, i: x[tuple(i)], INDEXING_X, np.array([1, 2, -1])),
            Case("nd, batches", lambda x, i: op.gather_nd(x, i, 1), lambda x, i: np.stack([r[k[:, 0]] for r, k in zip(x, i, strict=True)]), INDEXING_X, batched),
            Case("index", lambda x, i, j: op.index_tensor(x, [i, j]), lambda x, i, j: x[i, j], INDEXING_X, PLACES, np.array([1, -2])),
        ]
    )  # fmt: skip


def scattered(combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def function(data: Any, indices: Any, updates: Any) -> Any:
        result = data.copy()
        for at in np.ndindex(indices.shape):
            place = (at[0], indices[at], at[2])
            result[place] = combine(result[place], updates[at])
        return result

    return function


def test_scatter() -> None:
    along = np.array([[[4, -1, 0], [4, 0, 0]], [[1, 2, 3], [2, 2, 2]]], "int64")
    updates = RNG.standard_normal(along.shape).astype("float32")
    combines = {
        "add": np.add,
        "mul": np.multiply,
        "max": np.maximum,
        "min": np.minimum,
        "update": lambda _, new: new,
    }
    pairs = np.array([[0, 1], [3, -1], [0, 1]], "int64")

    def added(x: Any, i: Any, u: Any) -> Any:
        result = x.copy()
        np.add.at(result, (i[:, 0], i[:, 1]), u)
        return result

    def put(x: Any, i: Any, j: Any, v: Any) -> Any:
        result = x.copy()
        result[i, j] = v
        return result

    def accumulated(x: Any, i: Any, v: Any) -> Any:
        result = x.copy()
        np.add.at(result, i, v)
        return result

    check(
        [
            Case(f"elements {name}", lambda x, i, u, r=name: op.scatter_elements(x, i, u, 1, r), scattered(combine), INDEXING_X, along, updates)
            for name, combine in combines.items()
        ]
        + [
            Case("beyond the ends", lambda x, i, u: op.scatter_elements(x, i, u, 0), lambda x, i, u: np.array([x[0], x[1], u[1], x[3], x[4]]), INDEXING_X[0, :, 0], np.array([7, 2, -9]), updates[0, 0]),
            Case("nd", lambda x, i, u: op.scatter_nd(x, i, u, "add"), added, INDEXING_X, pairs, updates[0, [0, 1, 0]], shapes=[("n", 5, 3), ("m", 2), ("m", 3)]),
            Case("nd, last one", lambda x, i, u: op.scatter_nd(x, i, u), lambda x, i, u: put(x, i[:, 0], i[:, 1], u), INDEXING_X, pairs, updates[0, [0, 1, 0]]),
            Case("put", lambda x, i, j, v: op.index_put(x, [i, j], v), put, INDEXING_X, PLACES, np.array([1, 2]), updates[0, 0]),
            Case("accumulate", lambda x, i, v: op.index_put(x, [i], v, accumulate=True), accumulated, INDEXING_X, np.array([1, 1, -1]), updates[0, :1]),
        ]
    )  # fmt: skip


# -------------------------- Operators that go on with channels last, and give what they gave before

DIMENSION_X = RNG.standard_normal((2, 3, 5, 6)).astype("float32")
W = RNG.standard_normal((4, 3, 1, 1)).astype("float32")
WEIGHT = relax.Constant(RNG.standard_normal((4, 2, 3, 3)).astype("float32"))
SCALE = RNG.uniform(0.5, 1.5, 4).astype("float32")

FOLLOW: dict[str, Callable[[Any], Any]] = {
    "convolution": lambda y: op.nn.conv2d(y, WEIGHT, groups=2, padding=1),
    "transposed convolution": lambda y: op.nn.conv2d_transpose(y, WEIGHT, 2, groups=2),
    "pooling": lambda y: op.nn.avg_pool2d(op.nn.max_pool2d(y, 2), 2, 1, ceil_mode=True),
    "adaptive pooling": lambda y: op.nn.adaptive_avg_pool2d(y, 2),
    "padding": lambda y: op.nn.pad(y, [0, 0, 0, 0, 1, 2, 0, 1]),
    "resize": lambda y: op.image.resize2d(op.image.resize(y, (6, 3), (-1, 2)), (7, 9)),
    "batch norm": lambda y: op.nn.batch_norm(y, *[relax.Constant(SCALE)] * 4, axis=1)[0],
    "instance norm": lambda y: op.nn.instance_norm(y, *[relax.Constant(SCALE)] * 2),
    "group norm": lambda y: op.nn.group_norm(y, *[relax.Constant(SCALE)] * 2, num_groups=2),
    "layer norm": lambda y: op.nn.layer_norm(y, *[relax.Constant(SCALE)] * 2, axes=1),
    "softmax": lambda y: op.nn.softmax(y, 1),
    "prelu": lambda y: op.nn.prelu(y, relax.Constant(SCALE), 1),
    "depth to space": lambda y: op.nn.depth_to_space(y, 2),
    "concat": lambda y: op.concat([y, y], 1),
    "split": lambda y: op.split(y, 2, 1)[1],
    "flip": lambda y: op.flip(y, [1, -1]),
    "roll": lambda y: op.roll(y, [1, 2], [1, 3]),
    "repeat": lambda y: op.repeat(y, 2, 2),
    "take": lambda y: op.take(y, [3, 0, 1], 1),
    "slice": lambda y: op.strided_slice(y, [3, 1], [0, 1], [5, 3], [2, 1]),
    "sum": lambda y: op.sum(y, [2, 3], keepdims=True),
    "argmax": lambda y: op.argmax(y, 1, keepdims=True),
    "variance": lambda y: op.variance(y, 1, keepdims=True),
    "cumsum": lambda y: op.cumsum(y, 1),
    "maximum": lambda y: op.maximum(op.clip(y, 0, 1), y),
    "where": lambda y: op.where(y > 0.0, y, op.square(y)),
}
STOP: dict[str, Callable[[Any], Any]] = {
    "sum of rows": lambda y: op.sum(y, 3),
    "take of one": lambda y: op.take(y, np.int64(0), 3),
    "flatten": op.flatten,
    "permute_dims": lambda y: op.permute_dims(y, [1, 0, 2, 3]),
    "gather_elements": lambda y: op.gather_elements(y, op.zeros((2, 4, 5, 6), "int64"), 1),
}


def module(functions: dict[str, Callable[[Any], Any]]) -> IRModule:
    builder = relax.BlockBuilder()
    for k, function in enumerate(functions.values()):
        x = relax.Var("x", relax.TensorStructInfo(DIMENSION_X.shape, "float32"))
        with builder.function(f"f{k}", [x]):
            with builder.dataflow():
                y = builder.emit(op.nn.conv2d(x, relax.Constant(W)))
                result = builder.emit_output(function(y))
            builder.emit_func_output(result)
    return builder.get()


def results(mod: IRModule, count: int) -> list[Any]:
    built = codegen.vm_build(LegalizeOps()(mod), "llvm", default_schedules=False)
    vm = codegen.VirtualMachine(built, codegen.cpu())
    return [vm[f"f{k}"](DIMENSION_X).numpy() for k in range(count)]


def permutes(mod: IRModule, k: int) -> int:
    return str(mod[f"f{k}"].script()).count("R.permute_dims")


def test_operators_follow_the_order_of_their_operands() -> None:
    mod = module(FOLLOW)
    after = ConvertLayout()(FoldConstant()(DecomposeOps()(mod)))
    more = {n: permutes(after, k) for k, n in enumerate(FOLLOW) if permutes(after, k) != 2}
    assert not more, "one in front of the convolution, one behind the operator"
    pairs = zip(results(mod, len(FOLLOW)), results(after, len(FOLLOW)), FOLLOW, strict=True)
    for before, now, name in pairs:
        np.testing.assert_allclose(now, before, rtol=1e-5, atol=1e-6, err_msg=name)


def test_other_operators_get_the_order_of_before() -> None:
    mod = module(STOP)
    after = ConvertLayout()(mod)
    for before, now, name in zip(
        results(mod, len(STOP)), results(after, len(STOP)), STOP, strict=True
    ):
        np.testing.assert_allclose(now, before, rtol=1e-5, atol=1e-6, err_msg=name)
