"""Operators that go on with channels last, and give what they gave before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import codegen
from tensorir import IRModule, relax
from tensorir.relax import op
from tensorir.transform import ConvertLayout, LegalizeOps

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 5, 6)).astype("float32")
W = RNG.standard_normal((4, 3, 1, 1)).astype("float32")

FOLLOW: dict[str, Callable[[Any], Any]] = {
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
END: dict[str, Callable[[Any], Any]] = {
    "mean of an image": lambda y: op.mean(y, [2, -1]),
    "sum of channels": lambda y: op.sum(y, 1),
    "argmax of channels": lambda y: op.argmax(y, 1),
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
        x = relax.Var("x", relax.TensorStructInfo(X.shape, "float32"))
        with builder.function(f"f{k}", [x]):
            with builder.dataflow():
                y = builder.emit(op.nn.conv2d(x, relax.Constant(W)))
                result = builder.emit_output(function(y))
            builder.emit_func_output(result)
    return builder.get()


def results(mod: IRModule, count: int) -> list[Any]:
    built = codegen.vm_build(LegalizeOps()(mod), "llvm", default_schedules=False)
    vm = codegen.VirtualMachine(built, codegen.cpu())
    return [vm[f"f{k}"](X).numpy() for k in range(count)]


def permutes(mod: IRModule, k: int) -> int:
    return str(mod[f"f{k}"].script()).count("R.permute_dims")


def test_operators_follow_the_order_of_their_operands() -> None:
    mod = module(FOLLOW)
    after = ConvertLayout()(mod)
    more = {n: permutes(after, k) for k, n in enumerate(FOLLOW) if permutes(after, k) != 2}
    assert not more, "one in front of the convolution, one behind the operator"
    pairs = zip(results(mod, len(FOLLOW)), results(after, len(FOLLOW)), FOLLOW, strict=True)
    for before, now, name in pairs:
        np.testing.assert_allclose(now, before, rtol=1e-5, atol=1e-6, err_msg=name)


def test_what_has_other_dimensions_left_in_their_order_ends_it_without_a_transposition() -> None:
    mod = module(END)
    after = ConvertLayout()(mod)
    assert [permutes(after, k) for k in range(len(END))] == [1] * len(END), "of the image"
    for before, now, name in zip(
        results(mod, len(END)), results(after, len(END)), END, strict=True
    ):
        np.testing.assert_allclose(now, before, rtol=1e-5, atol=1e-6, err_msg=name)


def test_other_operators_get_the_order_of_before() -> None:
    mod = module(STOP)
    after = ConvertLayout()(mod)
    for before, now, name in zip(
        results(mod, len(STOP)), results(after, len(STOP)), STOP, strict=True
    ):
        np.testing.assert_allclose(now, before, rtol=1e-5, atol=1e-6, err_msg=name)
